"""``python -m fulgurite demo``: trains a small GPT on real text, eagerly and compiled, side by side."""

from __future__ import annotations

import argparse
import statistics
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text as Styled

REPORT = "fulgurite-demo-report.html"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--steps", type=_positive, help="training steps (300; 40 with --short)")
    parser.add_argument(
        "--short", action="store_true", help="a small model for a few steps, about ten seconds"
    )
    parser.add_argument(
        "--seed", type=int, default=1337, help="of weights, batches and dropout (1337)"
    )
    parser.add_argument(
        "--report", type=Path, default=Path(REPORT), help=f"where the HTML goes ({REPORT})"
    )
    parser.add_argument(
        "--seconds",
        type=float,
        default=85.0,
        help="training stops after the step that passes this (85)",
    )


def _positive(text: str) -> int:
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"expected at least 1, found {value}")
    return value


def main(arguments: argparse.Namespace) -> int:
    """Runs the demo. 0 if the losses agreed and compiled programs served the training, otherwise 1."""
    from fulgurite import report
    from fulgurite.demo import train as training
    from fulgurite.demo.model import Config
    from fulgurite.demo.text import python_topics

    console = Console(highlight=False)
    text = python_topics()
    sizes = {"context": 32, "width": 64, "blocks": 2} if arguments.short else {}
    config = Config(vocabulary=len(text.alphabet), **sizes)
    plan = training.Plan(
        steps=arguments.steps or (40 if arguments.short else 300),
        batch=8 if arguments.short else 16,
        seconds=arguments.seconds,
        seed=arguments.seed,
    )
    threads = training.choose_threads(config, plan)
    outcome = training.prepare(config, plan, text)
    parameters = sum(p.numel() for p in outcome.eager.model.parameters())
    console.print(
        f"[bold]A character GPT[/] of {config.blocks} blocks, {parameters:,} parameters, on "
        f"{len(text.training):,} characters of Python's own reference; {plan.steps} steps of "
        f"{plan.batch}\u2009×\u2009{config.context} characters, eager and compiled side by side, "
        f"on {threads} thread{'s' if threads > 1 else ''}."
    )
    _train(console, outcome)
    training.finish(outcome, characters=120 if arguments.short else 400)
    _print_first_call(console, outcome)
    _print_summary(console, outcome)
    _print_fallbacks(console, outcome.model)
    console.print("\n[bold]What the compiled model writes:[/]")
    console.print(Styled(outcome.sample.strip("\n")), style="dim")
    path = report.write(arguments.report, [outcome.model], title="fulgurite demo: a small GPT")
    console.print(f"\nEvery stage of forward, backward and guards: [bold]{path}[/]", soft_wrap=True)
    return _verdict(console, outcome)


def _train(console: Console, outcome) -> None:
    from fulgurite.demo.train import train

    columns = (
        TextColumn("training"),
        BarColumn(bar_width=24),
        MofNCompleteColumn(),
        TextColumn("loss {task.fields[loss]}  {task.fields[ms]}"),
        TimeRemainingColumn(compact=True),
    )
    steps = outcome.plan.steps
    with Progress(*columns, console=console, disable=not console.is_terminal) as progress:
        task = progress.add_task("training", total=steps, loss="", ms="")
        for step in train(outcome):
            a, b = outcome.eager, outcome.compiled
            agree = "=" if a.losses[-1] == b.losses[-1] else "≈"
            if outcome.disagreements and outcome.disagreements[-1] == step:
                agree = "≠"
            loss = f"{a.losses[-1]:.4f} {agree} {b.losses[-1]:.4f}"
            ms = f"eager {_middle(a.step_ms[-20:]):.1f} ms, compiled {_middle(b.step_ms[-20:]):.1f} ms"
            progress.update(task, advance=1, loss=loss, ms=ms)
            if not console.is_terminal and ((step + 1) % max(1, steps // 6) == 0 or step == 0):
                console.print(f"step {step + 1:4d}/{steps}  loss {loss}  {ms}")
    if outcome.steps < steps:
        console.print(
            f"[yellow]stopped after {outcome.steps} steps: {outcome.plan.seconds:.0f} s are over[/]"
        )


def _middle(values: list[float]) -> float:
    return statistics.median(values) if values else float("nan")


def _print_first_call(console: Console, outcome) -> None:
    """Where the first compiled call spent its time."""
    from fulgurite.inspection import programs

    first_eager, first = outcome.eager.program_ms[0], outcome.compiled.program_ms[0]
    usual = _middle(outcome.eager.program_ms[1:] or outcome.eager.program_ms)
    console.print(
        f"\n[bold]The first call[/], forward and backward: {first:.1f} ms compiled, {first_eager:.1f} ms eager "
        f"(a later eager step: {usual:.1f} ms)."
    )
    # The one that training used.
    program = max(
        (p for p in programs(outcome.model) if p.backward), key=lambda p: p.hits, default=None
    )
    if program is None:
        return
    passes = [(name, ms) for name, _, ms in program.passes()]
    rest = program.compile_ms - sum(ms for _, ms in passes)
    parts = [("the recorded run", program.record_ms), *passes, ("plan and the rest", rest)]
    line = ", ".join(f"{name} {ms:.2f}" for name, ms in parts if ms >= 0.005)
    console.print(f"in ms: {line}", style="dim")


def _print_summary(console: Console, outcome) -> None:
    from fulgurite import cache_hits
    from fulgurite.inspection import programs

    eager, compiled = outcome.eager, outcome.compiled
    table = Table(
        title=f"{outcome.steps} steps in {outcome.seconds:.0f} s",
        title_justify="left",
        title_style="bold",
    )
    table.add_column("")
    for name in ("eager", "compiled", "compiled / eager"):
        table.add_column(name, justify="right")

    def row(name: str, a: float, b: float, pattern: str) -> None:
        table.add_row(name, pattern.format(a), pattern.format(b), f"{b / a:.2f}" if a else "")

    # The first steps record and fill caches; they are shown apart.
    warm = slice(min(3, outcome.steps - 1), None)
    row(
        "forward + backward, median ms",
        _middle(eager.program_ms[warm]),
        _middle(compiled.program_ms[warm]),
        "{:.2f}",
    )
    row(
        "forward + backward, minimum ms",
        min(eager.program_ms[warm]),
        min(compiled.program_ms[warm]),
        "{:.2f}",
    )
    row(
        "step with AdamW, median ms",
        _middle(eager.step_ms[warm]),
        _middle(compiled.step_ms[warm]),
        "{:.2f}",
    )
    row("first forward + backward, ms", eager.program_ms[0], compiled.program_ms[0], "{:.1f}")
    if outcome.peaks:
        row("peak memory of a step, MB", outcome.peaks[0] / 1e6, outcome.peaks[1] / 1e6, "{:.2f}")
    row("loss of the last step", eager.losses[-1], compiled.losses[-1], "{:.4f}")
    row("loss on held-out text", *outcome.held_out, "{:.4f}")
    console.print()
    console.print(table)
    console.print(
        f"training: {outcome.hits} calls served by a compiled program, {outcome.misses} recorded or run eagerly; "
        f"with evaluation and writing {cache_hits(outcome.model)} served, by {len(programs(outcome.model))} programs."
    )


def _print_fallbacks(console: Console, model) -> None:
    from fulgurite import fallbacks

    found = fallbacks(model)
    if not found:
        console.print("fallbacks: none.")
    for f in found:
        console.print(
            Styled(
                f"run eagerly, {f.count} times: {f.code}: {f.reason.splitlines()[0]}",
                style="yellow",
            )
        )


def _verdict(console: Console, outcome) -> int:
    steps, equal = outcome.steps, outcome.equal_steps()
    failed = []
    if outcome.disagreements:
        step = outcome.disagreements[0]
        failed.append(
            f"the losses disagree at {len(outcome.disagreements)} of {steps} steps, first at step {step + 1}: "
            f"eager {outcome.eager.losses[step]!r}, compiled {outcome.compiled.losses[step]!r}"
        )
    if outcome.hits == 0:
        failed.append("no step was served by a compiled program")
    if not outcome.same_random_stream():
        failed.append("eager and compiled did not draw the same random numbers")
    for problem in failed:
        console.print(f"[red bold]FAILED:[/] {problem}")
    if failed:
        return 1
    how = (
        "to the last bit"
        if equal == steps
        else f"within float32 noise (largest relative difference {outcome.largest_difference():.1e})"
    )
    console.print(
        f"[green bold]The losses agree[/] at all {steps} steps, {how}; so do the random number streams."
    )
    return 0
