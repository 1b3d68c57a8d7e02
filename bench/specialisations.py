"""What many specialisations of one function cost: finding the right one, and making all of them.

``ENTRIES``: a call whose program was made last, first or in between, among 1, 10 and 50.
``LENGTHS``: sequences of 64 lengths, three times over, from the first call on: total time, compilation included.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import torch
from rich.console import Console
from rich.table import Table

import fulgurite
from bench.measure import interleaved

ENTRIES = "1, 10, 50 specialisations"
LENGTHS = "64 sequence lengths"
COUNTS = (1, 10, 50)


def entries(console: Console, seconds: float) -> dict[str, Any]:
    """The same call of a function with 1, 10 and 50 programs, all for other lengths."""

    def f(x: torch.Tensor) -> torch.Tensor:
        return x * 2 + 1

    torch.set_num_threads(1)
    wanted = torch.randn(COUNTS[-1] // 2 + 1)
    runs: dict[str, Callable[[], object]] = {"eager": lambda: f(wanted)}
    with torch.no_grad():
        for count in COUNTS:
            jitted = fulgurite.jit(f)
            jitted(wanted)
            for n in range(1, count):
                jitted(torch.randn(n))
            runs[str(count)] = lambda jitted=jitted: jitted(wanted)
        for run in runs.values():
            run()
        timings = interleaved(runs, seconds)
    table = Table(
        title=f"{ENTRIES}: µs a call, minimum / median", title_justify="left", title_style="bold"
    )
    for name in runs:
        table.add_column(name, justify="right")
    table.add_row(*(f"{t.least * 1e6:.2f} / {t.median * 1e6:.2f}" for t in timings.values()))
    console.print(table)
    return {
        "name": ENTRIES,
        "unit": "s",
        "times": {n: {"min": t.least, "median": t.median} for n, t in timings.items()},
    }


class _Block(torch.nn.Module):
    """A small layer of a transformer."""

    def __init__(self, width: int = 32) -> None:
        super().__init__()
        self.qkv = torch.nn.Linear(width, 3 * width)
        self.out = torch.nn.Linear(width, width)
        self.norm = torch.nn.LayerNorm(width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = self.qkv(self.norm(x)).chunk(3, -1)
        y = torch.softmax(q @ k.transpose(-2, -1) / q.shape[-1] ** 0.5, -1) @ v
        return x + torch.nn.functional.gelu(self.out(y))


def lengths(console: Console, with_compile: bool) -> dict[str, Any]:
    """Lengths 1 to 64, three times over, without gradients."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    model = _Block()
    ways: dict[str, Callable[[], Any]] = {
        "eager": lambda: model,
        "fulgurite": lambda: fulgurite.jit(model),
    }
    if with_compile:
        ways["torch.compile"] = lambda: torch.compile(model)
        ways["torch.compile, dynamic"] = lambda: torch.compile(model, dynamic=True)
    found = {}
    table = Table(title=f"{LENGTHS}, three rounds: ms", title_justify="left", title_style="bold")
    for name in ("", "first round", "second", "third", "total", "/ eager"):
        table.add_column(name, justify="right")
    with torch.no_grad():
        for n in range(1, 65):
            model(torch.randn(1, n, 32))
        for name, make in ways.items():
            call = make()
            rounds = []
            for _ in range(3):
                begin = time.perf_counter()
                for n in range(1, 65):
                    call(torch.randn(1, n, 32))
                rounds.append(time.perf_counter() - begin)
            found[name] = rounds
            if name == "fulgurite":
                hits, misses = fulgurite.cache_hits(call), fulgurite.cache_misses(call)
    for name, rounds in found.items():
        table.add_row(
            name,
            *(f"{r * 1e3:.2f}" for r in (*rounds, sum(rounds))),
            f"{sum(rounds) / sum(found['eager']):.2f}",
        )
    console.print(table)
    console.print(f"fulgurite: {misses} recorded, {hits} served")
    return {"name": LENGTHS, "unit": "s", "rounds": found, "hits": hits, "misses": misses}
