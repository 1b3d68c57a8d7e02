"""Runs the benchmarks: ``python bench/run.py [NAME ...] [--json FILE] [--quick] [--no-compile]``.

Everything that is compared is timed in one process in turn; first calls and memory, which depend on what a
process did before, are measured in processes of their own. Times are of the wall clock.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import statistics
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

if __name__ == "__main__":  # started as a file: find the package it belongs to
    sys.path[0] = str(Path(__file__).resolve().parents[1])

import torch
from rich.console import Console
from rich.table import Table

import fulgurite
from bench import branches, in_place, model, specialisations
from bench.calls import CASES, Case
from bench.measure import Timing, interleaved

EAGER, COMPILE, OURS = "eager", "torch.compile", "fulgurite"


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="bench", description="eager, torch.compile and fulgurite side by side"
    )
    parser.add_argument(
        "names", nargs="*", metavar="NAME", help="parts of the names of benchmarks to run (all)"
    )
    parser.add_argument("--json", type=Path, help="write the results to this file")
    parser.add_argument("--quick", action="store_true", help="fewer and shorter rounds")
    parser.add_argument(
        "--no-compile",
        action="store_true",
        help="leave torch.compile out (it needs g++ and minutes)",
    )
    parser.add_argument("--list", action="store_true", help="only list the names")
    arguments = parser.parse_args(argv)
    known = {
        **{c.name: c for c in (*CASES, *in_place.CASES, *model.STEPS)},
        **dict.fromkeys((in_place.MEMORY, *FIRST_CALLS, MEMORY, *SPECIALISATIONS, *BRANCHES)),
    }
    chosen = [
        n
        for n in known
        if not arguments.names or any(part.lower() in n.lower() for part in arguments.names)
    ]
    if arguments.list or not chosen:
        print("\n".join(known))
        return 0 if arguments.list else _nothing(arguments.names)
    console = Console(highlight=False, width=max(120, Console().width))
    with_compile = not arguments.no_compile and shutil.which("g++") is not None
    if not arguments.no_compile and not with_compile:
        console.print("torch.compile is left out: it needs g++, which is not there")
    seconds = 0.3 if arguments.quick else 3.0
    results: list[dict[str, Any]] = []
    cases = [known[n] for n in chosen if known[n] is not None]
    if cases:
        results += _cases(console, cases, seconds, with_compile)
    if in_place.MEMORY in chosen:
        results.append(in_place.memory(console))
    repeats = 1 if arguments.quick else 5
    for name, batch in FIRST_CALLS.items():
        if name in chosen:
            results.append(_first_call(console, name, batch, repeats))
    if MEMORY in chosen:
        results.append(_memory(console))
    if specialisations.ENTRIES in chosen:
        results.append(specialisations.entries(console, seconds))
    if specialisations.LENGTHS in chosen:
        results.append(specialisations.lengths(console, with_compile))
    if branches.WHILE in chosen:
        results.append(branches.loop(console, seconds))
    if branches.BRANCH in chosen:
        results.append(branches.ways(console, seconds))
    if arguments.json is not None:
        arguments.json.write_text(
            json.dumps({"machine": _machine(), "results": results}, indent=1) + "\n"
        )
        console.print(f"written to {arguments.json}")
    return 0


def _nothing(names: Sequence[str]) -> int:
    print(
        f"error: no benchmark is named like {', '.join(names)}; the names are above",
        file=sys.stderr,
    )
    return 2


def _machine() -> dict[str, Any]:
    return {
        "cpu": torch.backends.cpu.get_cpu_capability(),
        "cores": os.cpu_count(),
        "load": os.getloadavg()[0],
        "python": platform.python_version(),
        "torch": torch.__version__,
        "fulgurite": fulgurite.__version__,
    }


# ---- calls and steps --------------------------------------------------------------------------------------
def _cases(
    console: Console, cases: Sequence[Case], seconds: float, with_compile: bool
) -> list[dict[str, Any]]:
    names = [EAGER, *([COMPILE] if with_compile else []), OURS]
    table = Table(title="µs a call, minimum / median", title_justify="left", title_style="bold")
    table.add_column("", no_wrap=True)
    for name in (
        *names,
        "fulgurite − eager",
        *(f"/ {n.removeprefix('torch.')}" for n in names[:-1]),
    ):
        table.add_column(name, justify="right", no_wrap=True)
    results = []
    for case in cases:
        result, timings = _case(case, names, seconds)
        results.append(result)
        ours = timings[OURS]
        table.add_row(
            case.name,
            *(f"{timings[n].least * 1e6:.2f} / {timings[n].median * 1e6:.2f}" for n in names),
            f"{(ours.least - timings[EAGER].least) * 1e6:+.2f} / {(ours.median - timings[EAGER].median) * 1e6:+.2f}",
            *(
                f"{ours.least / timings[n].least:.2f} / {ours.median / timings[n].median:.2f}"
                for n in names[:-1]
            ),
        )
    console.print(table)
    for r in results:
        if r["hits"] == 0:
            console.print(
                f"[red]{r['name']}: no call was served by a compiled program: {r['fallbacks']}[/]"
            )
    return results


def _case(
    case: Case, names: Sequence[str], seconds: float
) -> tuple[dict[str, Any], dict[str, Timing]]:
    torch.set_num_threads(case.threads)
    function, arguments = case.make()
    jitted = fulgurite.jit(function)
    of = {EAGER: function, OURS: jitted}
    if COMPILE in names:
        of[COMPILE] = torch.compile(function)
    with torch.set_grad_enabled(case.grad):
        runs = {name: case.timed(of[name], arguments) for name in names}
        for run in runs.values():
            for _ in range(5):
                run()
        timings = interleaved(runs, seconds)
    programs = fulgurite.programs(jitted)
    return {
        "name": case.name,
        "unit": "s",
        "times": {n: {"min": t.least, "median": t.median} for n, t in timings.items()},
        "ratios": {
            n: {"min": timings[OURS].least / t.least, "median": timings[OURS].median / t.median}
            for n, t in timings.items()
            if n != OURS
        },
        "guards": len(programs[0].guards) if programs else None,
        "hits": fulgurite.cache_hits(jitted),
        "fallbacks": [f"{f.code}: {f.reason.splitlines()[0]}" for f in fulgurite.fallbacks(jitted)],
    }, timings


# ---- in processes of their own ----------------------------------------------------------------------------
FIRST_CALLS = {"GPT first call, batch 1": "1", "GPT first call, batch 16": "16"}
MEMORY = "GPT peak memory of a step"
SPECIALISATIONS = (specialisations.ENTRIES, specialisations.LENGTHS)
BRANCHES = (branches.WHILE, branches.BRANCH)


def _first_call(console: Console, name: str, batch: str, repeats: int) -> dict[str, Any]:
    runs = [model.in_subprocess("first_call", batch) for _ in range(repeats)]

    def both(values: Sequence[float]) -> str:
        return f"{min(values):.2f} / {statistics.median(values):.2f}"

    table = Table(
        title=f"{name}: ms, minimum / median of {repeats} processes",
        title_justify="left",
        title_style="bold",
    )
    table.add_column("")
    table.add_column("ms", justify="right")
    table.add_row("an eager step", both([r["eager"] for r in runs]))
    table.add_row("the first eager step", both([r["eager_first"] for r in runs]))
    table.add_row("the first compiled step", both([r["first"] for r in runs]))
    table.add_row("  recorded run (forward)", both([r["recorded run"] for r in runs]))
    for stage in runs[0]["passes"]:
        table.add_row(f"  {stage}", both([r["passes"][stage] for r in runs]))
    table.add_row("  plan and the rest", both([r["plan and the rest"] for r in runs]))
    table.add_row("wanted: at most 4 × eager + 10", both([4 * r["eager"] + 10 for r in runs]))
    console.print(table)
    return {"name": name, "unit": "ms", "runs": runs}


def _memory(console: Console) -> dict[str, Any]:
    found = {batch: model.in_subprocess("memory", batch) for batch in ("1", "16")}
    table = Table(
        title=f"{MEMORY}: MB of tensors at the peak", title_justify="left", title_style="bold"
    )
    for name in ("batch", EAGER, OURS, "/ eager"):
        table.add_column(name, justify="right")
    for batch, peaks in found.items():
        eager, ours = peaks[EAGER] / 1e6, peaks[OURS] / 1e6
        table.add_row(batch, f"{eager:.2f}", f"{ours:.2f}", f"{ours / eager:.3f}")
    console.print(table)
    return {"name": MEMORY, "unit": "bytes", "peaks": found}


if __name__ == "__main__":
    sys.exit(main())
