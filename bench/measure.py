"""Times several ways of doing the same thing, interleaved, so that a busy moment of the machine meets all."""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass, field

Run = Callable[[], object]


@dataclass
class Timing:
    """Seconds for one call: one sample for each round."""

    samples: list[float] = field(default_factory=list)

    @property
    def least(self) -> float:
        return min(self.samples)

    @property
    def median(self) -> float:
        return statistics.median(self.samples)


def _batch(run: Run, calls: int) -> float:
    begin = time.perf_counter()
    for _ in range(calls):
        run()
    return (time.perf_counter() - begin) / calls


def interleaved(runs: dict[str, Run], seconds: float, rounds: int = 40) -> dict[str, Timing]:
    """Times every run for about ``seconds`` in all: rounds of one batch each, in turn, the garbage collector
    off as in ``timeit``. Each run must have been warmed up."""
    share = seconds / rounds / len(runs)
    calls = {}
    for name, run in runs.items():
        once = min(_batch(run, 3) for _ in range(3))
        calls[name] = max(1, int(share / max(once, 1e-9)))
    timings = {name: Timing() for name in runs}
    names = list(runs)
    was_on = gc.isenabled()
    gc.disable()
    begin = time.perf_counter()
    try:
        for i in range(rounds):
            if i >= 8 and time.perf_counter() - begin > 3 * seconds:
                break  # slow runs, or a busy machine
            k = i % len(names)
            for name in (*names[k:], *names[:k]):
                timings[name].samples.append(_batch(runs[name], calls[name]))
            gc.collect(0)
    finally:
        if was_on:
            gc.enable()
    return timings
