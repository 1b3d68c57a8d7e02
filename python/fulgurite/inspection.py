"""Looking at what was compiled: traces of every stage, guards, counters, reasons."""

from __future__ import annotations

import html
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from fulgurite import _C
from fulgurite._branches import Decision, tree_lines
from fulgurite.jit import function_of


class Fallback(NamedTuple):
    """A reason for which calls ran eagerly."""

    code: str
    reason: str
    count: int


class Guard(NamedTuple):
    """One fact that must still hold for a program to be used again, and why it is asked for."""

    kind: str
    expression: str
    reason: str


class Claim(NamedTuple):
    """Who runs an operator, and why executors that had an offer for it do not."""

    op: str
    """Its id before it was claimed; of a composite taken as a whole, the composite's; of a group, all of them."""
    executor: str
    """"" for a composite that nobody took as a whole: its parts follow."""
    place: str
    operators: int
    """How many operators of the program it stands for."""
    declined: tuple[tuple[str, str], ...]
    """Executor and reason."""


class Program(NamedTuple):
    """One compiled specialisation: the stages of its traces, its guards, what it cost and how often it served."""

    forward: tuple[_C.Trace, ...]
    backward: tuple[_C.Trace, ...]
    guards: tuple[Guard, ...]
    hits: int
    record_ms: float
    """The recorded call: the program's own run, watched and written down."""
    compile_ms: float
    """Passes and plan."""
    claims: tuple[Claim, ...] = ()
    """Of the forward program, then the backward one; empty if aten alone was asked."""
    tree: int | None = None
    """Programs with the same number are branches of one tree: only data tell them apart."""
    decisions: tuple[Decision, ...] = ()
    """What it asks about data, in order."""
    went_on: int = 0
    """How many runs, in all of the tree, began with what another program had computed."""

    @property
    def name(self) -> str:
        return self.forward[-1].name

    def passes(self) -> Iterator[tuple[str, int, float]]:
        """Name, operators that it leaves and milliseconds of each pass, forward then backward."""
        for trace in self.forward[1:]:
            yield trace.stage, len(trace), trace.milliseconds
        for trace in self.backward:
            yield f"{trace.stage} (backward)", len(trace), trace.milliseconds


class Prologue:
    """The guards of a compiled program, printed as a program that checks them."""

    def __init__(self, name: str, guards: tuple[Guard, ...]) -> None:
        self.name = name
        self.guards = guards

    def __str__(self) -> str:
        lines = [f"# {self.name}, guards: {len(self.guards)}", "def prologue(args, kwargs):"]
        width = max((len(repr(g.expression)) for g in self.guards), default=0)
        width = min(width, 88) + len("check()")
        for guard in self.guards:
            check = f"check({guard.expression!r})"
            lines.append(f"    {check:<{width}}  # {guard.kind}: {guard.reason}")
        lines.append("    return True")
        return "\n".join(lines)

    __repr__ = __str__

    def __len__(self) -> int:
        return len(self.guards)


def programs(jitted: Any) -> list[Program]:
    """What is compiled for a function or module, most recently used first."""
    return [
        Program(
            forward=tuple(e["forward"]),
            backward=tuple(e["backward"]),
            guards=tuple(Guard(*g) for g in e["guards"]),
            hits=e["hits"],
            record_ms=e["record_ms"],
            compile_ms=e["compile_ms"],
            claims=tuple(Claim(*c[:4], tuple(c[4])) for c in (*e["claims"], *e["backward_claims"])),
            tree=e["tree"],
            decisions=tuple(Decision(*d) for d in e["decisions"]),
            went_on=e["went_on"],
        )
        for e in _C._entries(function_of(jitted))
    ]


def _latest(jitted: Any) -> Program:
    found = programs(jitted)
    if not found:
        reasons = fallbacks(jitted)
        why = (
            f"; the last reason: {reasons[-1].code}: {reasons[-1].reason}"
            if reasons
            else " (not called yet)"
        )
        raise RuntimeError(f"FG-014: nothing is compiled for this function{why}")
    return found[0]


def last_traces(jitted: Any) -> list[_C.Trace]:
    """The stages of the forward program used last, from "recorded" to what runs ([-1])."""
    return list(_latest(jitted).forward)


def last_backward_traces(jitted: Any) -> list[_C.Trace]:
    """The stages of the backward program; an empty list if the program has no gradient."""
    return list(_latest(jitted).backward)


def last_prologue_traces(jitted: Any) -> list[Prologue]:
    """The guards, as a list with one program."""
    latest = _latest(jitted)
    return [Prologue(latest.name, latest.guards)]


def cache_hits(jitted: Any) -> int:
    """Calls that were served by a compiled program."""
    return _C._hits(function_of(jitted))


def cache_misses(jitted: Any) -> int:
    """Calls that were recorded, or ran eagerly."""
    return _C._misses(function_of(jitted))


def fallbacks(jitted: Any) -> list[Fallback]:
    """Why calls ran eagerly, with counts."""
    return [Fallback(*f) for f in _C._fallbacks(function_of(jitted))]


def recompiles(jitted: Any) -> list[str]:
    """For each recording after the first: which guard of the program used last did not hold."""
    return list(_C._recompiles(function_of(jitted)))


def parts(jitted: Any) -> list[Any]:
    """Functions and modules that a refused function calls, each compiled on its own.

    The calls go to the compiled part while the function around them runs eagerly. A part can be passed to
    every function here: ``explain(parts(f)[0])``.
    """
    return list(_C._parts(function_of(jitted)))


class Explanation:
    """What was compiled, how calls were served, and why not where they were not: as it was when asked for.

    ``str()`` is the text; a notebook shows the HTML report; ``save(path)`` writes it to a file.
    """

    def __init__(self, jitted: Any) -> None:
        self.name = name_of(jitted)
        self.hits = cache_hits(jitted)
        self.misses = cache_misses(jitted)
        self.programs = programs(jitted)
        self.fallbacks = fallbacks(jitted)
        self.recompiles = recompiles(jitted)
        self.parts = [(name_of(p), cache_hits(p), cache_misses(p)) for p in parts(jitted)]

    def __str__(self) -> str:
        return "\n".join(self._lines())

    __repr__ = __str__

    def __contains__(self, text: str) -> bool:
        return text in str(self)

    def _lines(self) -> Iterator[str]:
        yield (
            f"{self.name}: {_count(len(self.programs), 'program')}, {_count(self.hits, 'call')} served by them, "
            f"{self.misses} recorded or run eagerly"
        )
        for i, program in enumerate(self.programs):
            yield from _program_lines(i, program)
        yield from self.branch_lines()
        for why, count in _counted(self.recompiles):
            yield f"recorded again{_times(count)}: {why}"
        for fallback in self.fallbacks:
            yield f"eager{_times(fallback.count)}: {fallback.code}: {fallback.reason}"
        for name, hits, misses in self.parts:
            yield (
                f"compiled on its own: {name}, {_count(hits, 'call')} served, {misses} recorded or run eagerly"
            )
        if not self.programs and not self.fallbacks:
            yield "not called yet"

    def branch_lines(self) -> Iterator[str]:
        """For each tree of programs that only data tell apart: which question, which answer, which program."""
        trees: dict[int, list[tuple[int, Program]]] = {}
        for i, program in enumerate(self.programs):
            if program.tree is not None:
                trees.setdefault(program.tree, []).append((i, program))
        for branches in trees.values():
            if len(branches) == 1:
                continue
            went_on = _count(branches[0][1].went_on, "run")
            yield f"branches on data: {len(branches)} programs; {went_on} went on from one in another"
            yield from tree_lines([(i, p.decisions) for i, p in branches])

    def html(self) -> str:
        """The report as one self-contained page."""
        from fulgurite import report

        return report.page([self], title=f"fulgurite: {self.name}")

    def save(self, path: str | Path) -> Path:
        """Writes the report; returns the absolute path."""
        from fulgurite import report

        return report.write(path, [self], title=f"fulgurite: {self.name}")

    def _repr_html_(self) -> str:
        # In a frame of its own, so that neither page's styles reach the other.
        return (
            f'<iframe title="fulgurite: {html.escape(self.name)}" style="width:100%;height:42rem;border:0" '
            f'srcdoc="{html.escape(self.html())}"></iframe>'
        )


def _program_lines(number: int, program: Program) -> Iterator[str]:
    kinds = f"{len(program.forward[-1])} operators forward"
    if program.backward:
        kinds += f", {len(program.backward[-1])} backward"
    yield (
        f"program {number}: {len(program.forward[0])} operators recorded; {kinds}; "
        f"{_count(len(program.guards), 'guard')}; served {_count(program.hits, 'call')}"
    )
    yield (
        f"  recorded in {program.record_ms:.2f} ms, compiled in {program.compile_ms:.2f} ms; {_takers(program)}"
    )
    for why, count in _counted([line for c in program.claims for line in _claim_lines(c)]):
        yield f"    {why}{_times(count)}"
    for stage, operators, milliseconds in program.passes():
        yield f"    {stage:<24} {operators:4d} operators {milliseconds:9.3f} ms"


def _takers(program: Program) -> str:
    if not program.claims:
        return "executor: aten takes every operator"
    taken: dict[str, int] = {}
    for claim in program.claims:
        if claim.operators == 0:
            continue
        taken[claim.executor] = taken.get(claim.executor, 0) + claim.operators
    return "executors: " + ", ".join(
        f"{name} takes {_count(number, 'operator')}" for name, number in taken.items()
    )


def _claim_lines(claim: Claim) -> Iterator[str]:
    at = f" ({claim.place})" if claim.place else ""
    if claim.executor not in ("", "aten"):
        yield f"{claim.executor} takes {claim.op}{at}"
    for executor, reason in claim.declined:
        yield f"{executor} declined {claim.op}{at}: {reason}"


def explain(jitted: Any) -> Explanation:
    """What was compiled, how calls were served, and why not where they were not."""
    return Explanation(jitted)


def name_of(jitted: Any) -> str:
    """The name of the function or the class of the module behind ``jitted``."""
    inner = function_of(jitted).__wrapped__
    return getattr(inner, "__qualname__", None) or type(inner).__qualname__


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _times(count: int) -> str:
    return f", {count} times" if count > 1 else ""


def _counted(texts: list[str]) -> list[tuple[str, int]]:
    counts: dict[str, int] = {}
    for text in texts:
        counts[text] = counts.get(text, 0) + 1
    return list(counts.items())
