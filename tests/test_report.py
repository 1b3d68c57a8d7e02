"""The report and what explain returns."""

import re
from html.parser import HTMLParser

import pytest
import torch

import fulgurite as fg
from fulgurite import report
from fulgurite.report.code import split_comment, split_files, split_location, split_parameters


def activate(x, w):
    return torch.nn.functional.gelu(x @ w).sum()  # <- the source line


@pytest.fixture(scope="module")
def jitted():
    f = fg.jit(activate)
    x, w = torch.randn(3, 4, requires_grad=True), torch.randn(4, 5)
    for _ in range(3):
        f(x, w).backward()
    with torch.no_grad():
        f(x, w)
    return f


class Balanced(HTMLParser):
    """Fails on tags that do not close; collects ids, links and external resources."""

    VOID = {"meta", "br", "link", "img"}

    def __init__(self):
        super().__init__()
        self.open, self.ids, self.links, self.external, self.sources = [], [], [], [], []

    def handle_starttag(self, tag, attributes):
        values = dict(attributes)
        if tag not in self.VOID:
            self.open.append(tag)
        if "id" in values:
            self.ids.append(values["id"])
        if values.get("href", "").startswith("#"):
            self.links.append(values["href"][1:])
        if "data-s" in values:
            self.sources.append(values["data-s"])
        for name in ("src", "href"):
            if re.match(r"\w+:|//", values.get(name) or ""):
                self.external.append(values[name])

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def parsed(page):
    p = Balanced()
    p.feed(page)
    p.close()
    assert p.open == []
    return p


def test_page_is_whole_and_needs_no_network(jitted):
    page = report.page([jitted])
    p = parsed(page)
    assert not p.external
    style = page[page.index("<style>") : page.index("</style>")]
    assert "url(" not in style and "@import" not in style
    assert len(p.ids) == len(set(p.ids))
    assert set(p.links) <= set(p.ids) and set(p.sources) <= set(p.ids)


def test_page_shows_every_stage_and_the_source(jitted):
    page = report.page([jitted])
    for stage in ("recorded", "functionalize", "differentiate", "split", "reinplace"):
        assert f"<summary>{stage}" in page
    assert page.count("<h3>Backward</h3>") == 1  # the program without gradient has none
    assert "&lt;- the source line" in page
    assert "test_report.py:16" in page
    assert "what must still hold" in page
    assert "grad mode is off, was on when recorded" in page


def test_page_tells_who_was_refused_and_why():
    import time

    @fg.jit
    def now(x):
        return x * time.time()

    now(torch.ones(2))
    page = report.page([now])
    parsed(page)
    assert "FG-2" in page and "time.time" in page


def test_page_of_a_function_that_was_never_called_says_so():
    page = report.page([fg.jit(activate)])
    parsed(page)
    assert "Nothing was refused" in page
    assert "not called yet" in str(fg.explain(fg.jit(activate)))


def test_write_returns_the_absolute_path(jitted, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = report.write("deep/er/r.html", [jitted])
    assert path == tmp_path / "deep/er/r.html" and path.is_file()
    assert fg.explain(jitted).save("other.html") == tmp_path / "other.html"


def test_text_of_hostile_programs_is_escaped():
    def f(x):
        """<script>alert("no")</script>"""
        return x + 1

    f.__qualname__ = "<b>f</b>"
    g = fg.jit(f)
    g(torch.ones(2))
    page = report.page([g], title="a < b & c")
    parsed(page)
    assert "<b>f</b>" not in page and '<script>alert("no")' not in page
    assert "<title>a &lt; b &amp; c</title>" in page


def test_explain_is_text_and_html(jitted):
    e = fg.explain(jitted)
    assert str(e) == repr(e)
    assert "activate: 2 programs" in e and "served 2 calls" in e
    assert "recorded again: grad mode is off" in e
    frame = e._repr_html_()
    assert frame.startswith("<iframe") and "srcdoc=" in frame
    parsed(frame)


def test_explain_is_of_the_moment_it_was_asked_for():
    f = fg.jit(activate)
    x, w = torch.ones(2, 2), torch.ones(2, 2)
    f(x, w)
    before = fg.explain(f)
    f(x, w)
    assert before.hits == 0 and fg.explain(f).hits == 1


def test_prologue_is_a_program(jitted):
    text = str(fg.last_prologue_traces(jitted)[0])
    compile(text, "prologue", "exec")
    assert text.count("check(") == len(fg.last_prologue_traces(jitted)[0])


def test_inspection_of_something_else_is_an_error():
    with pytest.raises(TypeError, match="FG-013"):
        fg.explain(activate)


def test_location_and_comment_are_told_apart():
    line = '    t0 = f(x, "a  # b")  # f32[2, 3]+g    sub/train.py:6'
    text, file, number = split_location(line)
    assert (file, number) == ("sub/train.py", 6)
    assert split_comment(text) == ('    t0 = f(x, "a  # b")', "f32[2, 3]+g")
    assert split_location("    return (x,)") == ("    return (x,)", "", 0)
    assert split_comment("    # end") == ("    # end", "")


def test_files_of_a_trace_are_named_by_their_paths(jitted):
    lines, paths = split_files(fg.last_traces(jitted)[0].python(full_paths=True))
    assert paths == {"test_report.py": __file__}
    assert not any(" is /" in line for line in lines)


def test_long_signatures_get_a_line_for_each_parameter():
    parameters = ", ".join(f'p{i}: "f32[2, {i}; 0, 1]+g"' for i in range(9))
    pieces = split_parameters(f"def computation({parameters}):")
    assert len(pieces) == 11 and pieces[2] == '    p1: "f32[2, 1; 0, 1]+g",'
    assert split_parameters("def f(x):") == ["def f(x):"]
