"""Whole models under ``jit``, against twins that run eagerly: ``python -m bench models``.

For each study of ``bench/zoo``: a few training steps with eager's losses and gradients, evaluation, generation,
what was compiled and what was not, and what a call costs. ``--write`` puts the table into docs/models.md.
"""

from __future__ import annotations

import argparse
import re
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

import fulgurite as fg
from bench import zoo
from bench.measure import interleaved
from bench.zoo.study import Parts, Study

STEPS = 5
DOCUMENT = Path(__file__).resolve().parents[1] / "docs" / "models.md"


@dataclass
class Use:
    """How the calls of one kind of use (training, evaluation, a way to generate) went."""

    served: int = 0
    recorded: int = 0
    eager: int = 0
    reasons: list[str] = field(default_factory=list)
    difference: float = 0.0
    """The largest difference from eager over losses, gradients, buffers and outputs, relative to their size."""
    error: str = ""

    def __str__(self) -> str:
        if self.error:
            return self.error
        return f"{self.served}/{self.recorded}/{self.eager}"


@dataclass
class Report:
    name: str
    uses: dict[str, Use]
    operators: int = 0
    guards: int = 0
    first_ms: float = 0.0
    first_eager_ms: float = 0.0
    record_ms: float = 0.0
    eager_ms: float = 0.0
    ours_ms: float = 0.0

    @property
    def difference(self) -> float:
        return max(u.difference for u in self.uses.values())

    @property
    def reasons(self) -> list[str]:
        return list(dict.fromkeys(f"{n}: {r}" for n, u in self.uses.items() for r in u.reasons))


def _twins(kind: type[Study]) -> tuple[Study, Study]:
    torch.manual_seed(0)
    eager = kind()
    torch.manual_seed(0)
    return eager, kind()


def difference(got: Sequence[Tensor | None], want: Sequence[Tensor | None]) -> float:
    """The largest difference, relative to the largest value of each tensor; infinite if they cannot be compared."""
    worst = 0.0
    for a, b in zip(got, want, strict=True):
        if a is None or b is None:
            if (a is None) != (b is None):
                return float("inf")
            continue
        if a.shape != b.shape or a.dtype != b.dtype:
            return float("inf")
        if torch.equal(a, b) or a.numel() == 0:
            continue
        if not a.dtype.is_floating_point:
            return float("inf")
        scale = max(b.abs().max().item(), 1e-6)
        off = ((a - b).abs().max() / scale).item()
        worst = max(worst, off if off == off else float("inf"))
    return worst


class Watched:
    """The compiled parts of a study, and what happened to them since one last asked."""

    def __init__(self, study: Study) -> None:
        self.parts: Parts = {n: fg.jit(f) for n, f in study.parts().items()}
        self.seen: dict[str, int] = {}
        self._before = self._count()

    def _count(self) -> tuple[int, int, int, dict[str, int]]:
        hits = misses = recorded = 0
        reasons: dict[str, int] = {}
        for f in self.parts.values():
            hits += fg.cache_hits(f)
            misses += fg.cache_misses(f)
            for r in fg.fallbacks(f):
                key = f"{r.code}: {r.reason.splitlines()[0]}"
                reasons[key] = reasons.get(key, 0) + r.count
            recorded += len(fg.recompiles(f))
            for why in fg.recompiles(f):
                key = f"recorded again: {why.splitlines()[0]}"
                reasons[key] = reasons.get(key, 0) + 1
        return hits, misses, recorded, reasons

    def since(self) -> Use:
        before, now = self._before, self._count()
        self._before = now
        reasons = {k: n - before[3].get(k, 0) for k, n in now[3].items()}
        reasons = {k: n for k, n in reasons.items() if n > 0}
        eager = sum(n for k, n in reasons.items() if not k.startswith("recorded again"))
        misses = now[1] - before[1]
        return Use(
            served=now[0] - before[0],
            recorded=max(misses - eager, 0),
            eager=eager,
            reasons=[k if n == 1 else f"{k} (×{n})" for k, n in reasons.items()],
        )


def _attempt(eager: Callable[[], Any], ours: Callable[[], Any]) -> float:
    torch.manual_seed(11)
    want = eager()
    state = torch.get_rng_state()
    torch.manual_seed(11)
    got = ours()
    if not torch.equal(state, torch.get_rng_state()):
        return float("inf")
    return difference(got, want)


def study(kind: type[Study], steps: int = STEPS) -> tuple[Report, Study, Study, Watched]:
    """Runs everything that a study can do on its twins, and compares."""
    eager, ours = _twins(kind)
    plain, watched = eager.parts(), Watched(ours)
    report = Report(kind.name, {})
    for s in (eager, ours):
        s.train(True)
    report.uses["train"] = _train(report, eager, ours, plain, watched, steps)
    entries = [p for f in watched.parts.values() for p in fg.programs(f)]
    if entries:
        report.operators = sum(len(p.forward[0]) for p in entries)
        report.guards = sum(len(p.guards) for p in entries)
        report.record_ms = sum(p.record_ms for p in entries)
    for s in (eager, ours):
        s.train(False)
    with torch.no_grad():
        worst = 0.0
        for i in range(3):
            worst = max(
                worst,
                _attempt(
                    lambda i=i: eager.evaluate(plain, i),
                    lambda i=i: ours.evaluate(watched.parts, i),
                ),
            )
        report.uses["eval"] = watched.since()
        report.uses["eval"].difference = worst
    ways = ours.generators()
    for name, generate in eager.generators().items():
        worst = 0.0
        for _ in range(2):
            worst = max(
                worst,
                _attempt(lambda g=generate: [g(plain)], lambda n=name: [ways[n](watched.parts)]),
            )
        report.uses[name] = watched.since()
        report.uses[name].difference = worst
    return report, eager, ours, watched


def _train(
    report: Report, eager: Study, ours: Study, plain: Parts, watched: Watched, steps: int
) -> Use:
    optimizers = [s.optimizer() for s in (eager, ours)]
    worst = 0.0
    for i in range(steps):
        for o in optimizers:
            o.zero_grad()
        times = []

        def run(
            s: Study, parts: Parts, times: list[float] = times, i: int = i
        ) -> list[Tensor | None]:
            begin = time.perf_counter()
            losses = s.step(parts, i)
            times.append((time.perf_counter() - begin) * 1e3)
            return [*losses, *(p.grad for p in s.parameters()), *s.buffers()]

        worst = max(worst, _attempt(lambda: run(eager, plain), lambda: run(ours, watched.parts)))
        if i == 0:
            report.first_eager_ms, report.first_ms = times
        # Rounding errors must not add up over the steps: both go on from eager's parameters.
        for o in optimizers:
            o.step()
        with torch.no_grad():
            for p, q in zip(ours.parameters(), eager.parameters(), strict=True):
                p.copy_(q)
    use = watched.since()
    use.difference = worst
    return use


def timed(report: Report, eager: Study, ours: Study, watched: Watched, seconds: float) -> None:
    plain = eager.parts()
    runs = {}
    for name, s, parts in (("eager", eager, plain), ("ours", ours, watched.parts)):
        s.train(True)

        def run(s: Study = s, parts: Parts = parts) -> None:
            s.step(parts, 0)
            for p in s.parameters():
                p.grad = None

        for _ in range(4):
            run()
        runs[name] = run
    timings = interleaved(runs, seconds, rounds=12)
    report.eager_ms = timings["eager"].least * 1e3
    report.ours_ms = timings["ours"].least * 1e3


# ---- the table --------------------------------------------------------------------------------------------
HEAD = """# Whole models

Made by `python -m bench models --write`; each row is a model of `bench/zoo` with a twin that runs eagerly.
"""
LEGEND = f"""
* **ops**, **guards**: of the programs compiled in training.
* **first step**: forward and backward of the first compiled step, with recording and all passes; eager's first beside it.
* **step**: a later training step (forward and backward) in ms, minimum; one thread; tiny models, so that what is measured is
  the cost of a call rather than of kernels.
* **train**, **eval**, **generate**: calls served by a compiled program / recorded / run eagerly, over {STEPS} steps, 3
  evaluations and 2 generations of 6 tokens.
* **difference**: the largest difference from eager in losses, gradients, buffers and outputs, relative to the largest
  value of the tensor; `0` is equal to the last bit. Both twins go on from eager's parameters after each step.
"""


def _eager_reasons(report: Report) -> list[str]:
    """Without places on this machine, and without the notes that eager is used for a while (FG-209)."""
    found = [
        re.sub(r" \(×\d+\)$", "", re.sub(r"\S*/(site-packages|bench)/", "", r))
        for r in report.reasons
        if "recorded again" not in r and "FG-209" not in r
    ]
    return list(dict.fromkeys(found))


def markdown(reports: Sequence[Report]) -> str:
    lines = [
        HEAD,
        "| model | ops | guards | first step, ms (eager) | step, ms | eager, ms | / eager | train | eval | generate | difference |",
        "|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for r in reports:
        ways = [u for n, u in r.uses.items() if n.startswith("generate")]
        lines.append(
            f"| {r.name} | {r.operators} | {r.guards} | {r.first_ms:.1f} ({r.first_eager_ms:.1f}) | {r.ours_ms:.2f} | "
            f"{r.eager_ms:.2f} | {r.ours_ms / max(r.eager_ms, 1e-9):.2f} | {r.uses['train']} | {r.uses['eval']} | "
            f"{', '.join(map(str, ways)) or ''} | {r.difference:.2g} |"
        )
    lines.append(LEGEND)
    explained = [(r.name, why) for r in reports for why in _eager_reasons(r)]
    if explained:
        lines.append("## What ran eagerly, and why\n")
        lines += [f"* {name}: {why}" for name, why in explained]
        lines.append("")
    return "\n".join(lines)


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="bench models", description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help="parts of the names of studies")
    parser.add_argument("--write", action="store_true", help=f"write {DOCUMENT.name}")
    parser.add_argument("--no-times", action="store_true", help="do not time later steps")
    arguments = parser.parse_args(argv)
    torch.set_num_threads(1)
    warnings.filterwarnings("ignore")
    kinds = [*zoo.STUDIES, *zoo.huggingface()]
    if not zoo.has_transformers():
        print("the models of transformers are left out: it is not installed")
    names = [n.lower() for n in arguments.names]
    kinds = [k for k in kinds if not names or any(n in k.name.lower() for n in names)]
    fg.jit(lambda x: x + 1)(torch.ones(2))  # what a process does once
    reports = []
    failed = False
    for kind in kinds:
        report, eager, ours, watched = study(kind)
        if not arguments.no_times:
            timed(report, eager, ours, watched, 1.0)
        reports.append(report)
        failed = failed or report.difference > 1e-4
        print(_text(report), flush=True)
    if arguments.write:
        DOCUMENT.write_text(markdown(reports))
        print(f"written to {DOCUMENT}")
    return int(failed)


def _text(r: Report) -> str:
    lines = [
        f"{r.name}: {r.operators} ops, {r.guards} guards; first step {r.first_ms:.1f} ms (eager {r.first_eager_ms:.1f}), "
        f"step {r.ours_ms:.2f} ms (eager {r.eager_ms:.2f}); served/recorded/eager "
        + ", ".join(f"{n} {u}" for n, u in r.uses.items())
        + f"; difference {r.difference:.2g}"
    ]
    return "\n".join([*lines, *(f"    {reason}" for reason in r.reasons)])
