// Ties lines of traces to lines of the source. Without scripts the links and their titles do the same.
(() => {
  const aside = document.querySelector("aside");
  const bar = document.getElementById("bar");
  const wide = matchMedia("(min-width: 60.01rem)");
  let lit = [];

  const light = (elements) => {
    for (const e of lit) e.classList.remove("lit");
    lit = elements.filter(Boolean);
    for (const e of lit) e.classList.add("lit");
  };
  const reveal = (line) => {
    line.closest("details").open = true;
    const place = line.getBoundingClientRect(), frame = aside.getBoundingClientRect();
    if (place.top < frame.top || place.bottom > frame.bottom)
      aside.scrollTop += place.top - frame.top - frame.height / 3;
  };
  const show = (traceLine) => {
    const source = document.getElementById(traceLine.dataset.s);
    if (!source) return;
    light([traceLine, source]);
    const link = traceLine.querySelector("a");
    bar.hidden = false;
    bar.textContent = `${link.textContent}  ${link.title}`;
    if (wide.matches) reveal(source);
  };

  document.querySelector("main").addEventListener("mouseover", (event) => {
    const line = event.target.closest("[data-s]");
    if (line && wide.matches) show(line);
  });
  document.querySelector("main").addEventListener("click", (event) => {
    const line = event.target.closest("[data-s]");
    if (!line) return;
    show(line);
    // Wide: the source is in view already, the page stays where it is.
    if (wide.matches && event.target.closest("a")) event.preventDefault();
  });
  aside.addEventListener("mouseover", (event) => {
    const line = event.target.closest(".sl.used");
    if (line) light([line, ...document.querySelectorAll(`[data-s="${line.id}"]`)]);
  });
  aside.addEventListener("click", (event) => {
    const line = event.target.closest(".sl.used");
    if (!line) return;
    const all = [...document.querySelectorAll(`main [data-s="${line.id}"]`)];
    const seen = all.find((e) => e.offsetParent) ?? all[0];
    for (let d = seen?.closest("details"); d; d = d.parentElement.closest("details")) d.open = true;
    seen?.scrollIntoView({ block: "center", behavior: "smooth" });
  });
})();
