"""Control flow that depends on data, in calls that take another way each time.

``WHILE``: a loop that runs until the data say so, 1 to 20 times, each length as often as the others, in an order
without pattern. ``BRANCH``: four ways after a beginning that is most of the work.
"""

from __future__ import annotations

import random
from typing import Any

import torch
from rich.console import Console
from rich.table import Table

import fulgurite
from bench.measure import interleaved

WHILE = "a while loop, 1 to 20 times round"
BRANCH = "four ways after a heavy beginning"
ROUNDS = 6


def _loop(x: torch.Tensor) -> torch.Tensor:
    while (x * x).mean() > 1:
        x = torch.tanh(x @ _WEIGHT) + x * 0.5
        x = x - x.mean()
    return x.sum()


def _ways(x: torch.Tensor) -> torch.Tensor:
    y = x
    for _ in range(8):
        y = torch.tanh(y @ _WEIGHT) + y
    way = int(x[0, 0])
    if way == 0:
        return y.sin()
    if way == 1:
        return y.cos() * 2
    if way == 2:
        return y - x
    return y.exp()


_WEIGHT = torch.zeros(64, 64)


def _loop_inputs() -> list[torch.Tensor]:
    # Each round halves x: tanh(0) is 0, and the mean is 0.
    pattern = torch.ones(32, 64)
    pattern[::2] = -1
    inputs = [pattern * 2.0 ** (n - 0.5) for n in range(1, 21)] * ROUNDS
    random.Random(0).shuffle(inputs)
    return inputs


def _way_inputs() -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    inputs = []
    for i in range(4 * ROUNDS):
        x = torch.randn(32, 64, generator=generator)
        x[0, 0] = i % 4
        inputs.append(x)
    random.Random(1).shuffle(inputs)
    return inputs


def _time(console: Console, name: str, f: Any, inputs: list, seconds: float) -> dict[str, Any]:
    torch.set_num_threads(1)
    jitted = fulgurite.jit(f)

    def all_of(call: Any) -> None:
        for x in inputs:
            call(x)

    with torch.no_grad():
        for _ in range(3):
            all_of(jitted)
        for x in inputs:
            assert torch.equal(jitted(x), f(x))
        runs = {"eager": lambda: all_of(f), "fulgurite": lambda: all_of(jitted)}
        misses = fulgurite.cache_misses(jitted)
        timings = interleaved(runs, seconds, rounds=16)
        eager_calls = fulgurite.cache_misses(jitted) - misses
    table = Table(
        title=f"{name}: µs a call, minimum / median", title_justify="left", title_style="bold"
    )
    scale = 1e6 / len(inputs)
    for column in runs:
        table.add_column(column, justify="right")
    table.add_row(*(f"{t.least * scale:.1f} / {t.median * scale:.1f}" for t in timings.values()))
    console.print(table)
    if eager_calls:
        console.print(f"{eager_calls} calls ran eagerly")
    return {
        "name": name,
        "unit": "s",
        "times": {
            n: {"min": t.least / len(inputs), "median": t.median / len(inputs)}
            for n, t in timings.items()
        },
    }


def loop(console: Console, seconds: float) -> dict[str, Any]:
    """The loop."""
    return _time(console, WHILE, _loop, _loop_inputs(), seconds)


def ways(console: Console, seconds: float) -> dict[str, Any]:
    """The four ways."""
    return _time(console, BRANCH, _ways, _way_inputs(), seconds)
