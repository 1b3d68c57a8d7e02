"""What recording and guards cost: ``python -m bench guards``.

A watched call beside a plain one, a whole first call (recording, passes and plan), and one check of the Python guards:
hot, and after the caches of the processor were filled with 2 MB and 32 MB of other work. Beside it the cache look-up of
torch.compile (backend "eager") for the same model, as its own profiler event has it.
"""

from __future__ import annotations

import statistics
import time
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import nn

import fulgurite as fg
from bench import zoo
from bench.zoo.study import OneModule, random
from fulgurite import _C

TARGETS = "wanted: watched ≤ 6 × plain; first call of HF GPT-2 ≤ 100 ms; guards of the MLP ≤ 0.2 µs hot, of HF GPT-2 ≤ 2 µs hot and ≤ 12 µs after 2 MB"


class Mlp(OneModule):
    name = "MLP, 3 layers"

    def make(self) -> nn.Module:
        return nn.Sequential(
            nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 8)
        )

    def batch(self, i: int) -> tuple[tuple, dict[str, Any]]:
        return (random(i, 16, 32),), {}


def _least(run: Callable[[], Any], rounds: int) -> float:
    found = []
    for _ in range(rounds):
        begin = time.perf_counter()
        run()
        found.append(time.perf_counter() - begin)
    return min(found)


def _check_after(check: Callable[[], bool], megabytes: int, rounds: int = 60) -> float:
    """Median seconds of a check after that much memory was written; without any, of a check in a row of them."""
    if megabytes == 0:
        return _least(lambda: [check() for _ in range(2000)], 9) / 2000
    other = torch.zeros(megabytes << 18)
    found = []
    for _ in range(rounds):
        other.add_(1)
        begin = time.perf_counter()
        check()
        found.append(time.perf_counter() - begin)
    return statistics.median(found)


def _lookup_of_compile(kind: type[OneModule]) -> float | None:
    """Seconds of torch.compile's guards in a call: the sum over the graphs that it made of the model."""
    torch.manual_seed(0)
    study = kind()
    study.train(True)
    args, kwargs = study.batch(0)
    compiled = torch.compile(study.module, backend="eager")
    calls = 20
    try:
        for _ in range(3):
            compiled(*args, **kwargs)
    except Exception:
        return None
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
        for _ in range(calls):
            compiled(*args, **kwargs)
    found = [e for e in profile.events() if e.name == "TorchDynamo Cache Lookup"]
    torch.compiler.reset()
    return sum(e.cpu_time_total for e in found) / calls / 1e6 if found else None


def measure(kind: type[OneModule]) -> dict[str, Any]:
    torch.manual_seed(0)
    study = kind()
    study.train(True)
    args, kwargs = study.batch(0)
    model = study.module
    for _ in range(5):
        model(*args, **kwargs)
    _, watched = _C._watch(model, args, kwargs)
    assert watched.check() and not watched.refusals(), watched.refusals()
    nothing = _least(lambda: [None for _ in range(2000)], 9) / 2000
    result: dict[str, Any] = {
        "guards": len(watched.guards()),
        "plain": _least(lambda: model(*args, **kwargs), 30),
        "watched": _least(lambda: _C._watch(model, args, kwargs), 15),
        "hot": _check_after(watched.check, 0) - nothing,
        "2 MB": _check_after(watched.check, 2),
        "32 MB": _check_after(watched.check, 32),
    }
    fg.jit(model)(*args, **kwargs)  # derives the rules of its operators, once in a process
    first, record = [], []
    for _ in range(7):
        jitted = fg.jit(model)
        begin = time.perf_counter()
        jitted(*args, **kwargs)
        first.append(time.perf_counter() - begin)
        programs = fg.programs(jitted)
        assert programs, fg.fallbacks(jitted)
        record.append(programs[0].record_ms / 1e3)
    return result | {"first": min(first), "recorded run": min(record)}


def main(argv: Sequence[str] | None = None) -> int:
    torch.set_num_threads(1)
    warnings.filterwarnings("ignore")
    kinds: list[type] = [Mlp, zoo.STUDIES[0]]
    if zoo.has_transformers():
        from bench.zoo import hf

        kinds += [hf.Gpt2, hf.Llama]
    results = [measure(kind) for kind in kinds]
    # Afterwards: what torch.compile leaves in the process is seen by the watcher.
    lookups = [_lookup_of_compile(kind) for kind in kinds]
    print(
        "| model | guards | plain, ms | watched, ms | / plain | recorded run, ms | first call, ms "
        "| check hot, µs | after 2 MB | after 32 MB | torch.compile's look-up, µs |"
    )
    print("|---|---|---|---|---|---|---|---|---|---|---|")
    for kind, r, lookup in zip(kinds, results, lookups, strict=True):
        print(
            f"| {kind.name} | {r['guards']} | {r['plain'] * 1e3:.2f} | {r['watched'] * 1e3:.2f} | "
            f"{r['watched'] / r['plain']:.1f} | {r['recorded run'] * 1e3:.1f} | {r['first'] * 1e3:.1f} | "
            f"{r['hot'] * 1e6:.2f} | {r['2 MB'] * 1e6:.1f} | {r['32 MB'] * 1e6:.1f} | "
            f"{'-' if lookup is None else format(lookup * 1e6, '.1f')} |",
            flush=True,
        )
    print(TARGETS)
    return 0
