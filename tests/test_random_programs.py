"""Random programs over views, in-place operators, dtypes, gradients, aliasing inputs and modes.

The seeds 0 ... 4999 run by default; FULGURITE_TEST_SEEDS=5000 runs that many fresh ones as well.
A failure prints its seed and a minimized program; the file is then kept under tests/programs and runs ever after.
"""

from __future__ import annotations

import glob
import os
import random
from collections.abc import Callable, Iterable

import pytest

from helpers import forked, programs, run_program
from helpers.expected import tidy
from helpers.minimize import minimize

FIXED = 5000
CHUNK = 250
FRESH = int(os.environ.get("FULGURITE_TEST_SEEDS", "0"))
KEPT = sorted(glob.glob(os.path.join(os.path.dirname(__file__), "programs", "*.py")))
KNOWN: dict[int, str] = {}
"""Fixed seeds that differ, and why (docs/known_differences.md); one that no longer does fails the test."""
TITLE = "Random programs"
REPORTED = 3  # failures of a chunk that are minimized


def _outcome(source: str, seed: int) -> forked.Crash | run_program.Report:
    [(_, report)] = forked.run_each(
        [seed], lambda s: run_program.check(source, s, check_traces=True), timeout=30
    )
    return report


def _fails(p: programs.Program) -> bool:
    report = _outcome(p.source(), p.seed)
    if isinstance(report, forked.Crash):
        return True
    return bool(report.wrong) and not report.invalid


def _described(seed: int) -> str:
    p = minimize(programs.draw(seed), _fails, budget=150)
    report = _outcome(p.source(), p.seed)
    what = [str(report)] if isinstance(report, forked.Crash) else report.wrong[:6]
    return f"# seed {seed}\n{p.source()}\n" + "\n".join("# " + w[:400] for w in what)


def _run(seeds: Iterable[int], count: Callable[..., None]) -> None:
    def work(seed: int) -> run_program.Report:
        return run_program.check(programs.draw(seed).source(), seed, check_traces=True)

    failed: list[tuple[int, str]] = []
    for seed, report in forked.run_each(list(seeds), work, timeout=120):
        count(TITLE, "programs")
        if isinstance(report, forked.Crash):
            failed.append((seed, str(report)))
            continue
        assert not report.invalid, f"seed {seed} draws no program:\n{programs.draw(seed).source()}"
        if bool(report.wrong) != (seed in KNOWN):
            failed.append((seed, report.wrong[0] if report.wrong else f"no longer: {KNOWN[seed]}"))
        if report.refused:
            count(TITLE, "whose gradient is not differentiated again (FG-181)")
        if report.freed:
            count(TITLE, "that free more of a graph than eager (docs/known_differences.md)")
        if report.hits == run_program.CALLS - 1:
            count(TITLE, "served by a compiled program")
        elif report.eager_raises:
            count(TITLE, "eager raises an exception")
        else:
            count(
                TITLE,
                "run eagerly: "
                + (tidy(report.reasons[-1])[:120] if report.reasons else "no reason given"),
            )
    if failed:
        count(TITLE, "that differ from eager", len(failed))
        text = [f"{len(failed)} programs differ from eager; seeds {[s for s, _ in failed]}"]
        text += [_described(seed) for seed, _ in failed[:REPORTED]]
        pytest.fail("\n\n".join(text), pytrace=False)


@pytest.mark.parametrize("start", range(0, FIXED, CHUNK))
def test_fixed_programs_as_eager(start: int, count: Callable[..., None]) -> None:
    _run(range(start, start + CHUNK), count)


@pytest.mark.parametrize("start", range(0, FRESH, CHUNK))
def test_fresh_programs_as_eager(start: int, count: Callable[..., None]) -> None:
    draw = random.SystemRandom()
    _run([draw.randrange(10**6, 10**9) for _ in range(min(CHUNK, FRESH - start))], count)


@pytest.mark.parametrize("path", KEPT, ids=[os.path.basename(p) for p in KEPT])
def test_kept_programs_as_eager(path: str) -> None:
    with open(path) as f:
        source = f.read()
    for seed in (1, 2):
        report = _outcome(source, seed)
        assert not isinstance(report, forked.Crash), str(report)
        assert not report.invalid, "not a program"
        assert not report.wrong, "\n".join(report.wrong)


def test_a_wrong_program_is_noticed_and_minimized(monkeypatch: pytest.MonkeyPatch) -> None:
    """The oracle itself: a jit that forgets write-backs is found, and little is left of the program."""
    import torch

    class Broken:
        def __init__(self, f: Callable) -> None:
            self.f = f

        def __call__(self, *args: torch.Tensor) -> object:
            return self.f(*[a * 1 if a.is_floating_point() else a.clone() for a in args])

    monkeypatch.setattr(run_program.fg, "jit", lambda f, **_: Broken(f))
    monkeypatch.setattr(run_program.fg, "cache_hits", lambda _: 0)
    monkeypatch.setattr(run_program.fg, "fallbacks", lambda _: [])
    monkeypatch.setattr(run_program.traces, "problems", lambda _: [])
    seed = next(
        s for s in range(200) if "mul_" in programs.draw(s).source() and _fails(programs.draw(s))
    )
    smallest = minimize(programs.draw(seed), _fails, budget=150)
    assert len(smallest.body) <= 2, smallest.source()
