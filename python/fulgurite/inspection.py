"""Looking at what was compiled: traces of every stage, guards, counters, reasons."""

from __future__ import annotations

from typing import Any, NamedTuple

from fulgurite import _C
from fulgurite.jit import function_of


class Fallback(NamedTuple):
    """A reason for which calls ran eagerly."""

    code: str
    reason: str
    count: int


class Prologue:
    """The guards of a compiled program, printed as a program that checks them."""

    def __init__(self, name: str, guards: list[tuple[str, str, str]]) -> None:
        self.name = name
        self.guards = guards

    def __str__(self) -> str:
        lines = [f"# {self.name}, guards: {len(self.guards)}", "def prologue(args, kwargs):"]
        width = max((len(e) for _, e, _ in self.guards), default=0)
        width = min(width, 88)
        for kind, expression, reason in self.guards:
            lines.append(f"    check({expression!r})".ljust(width + 16) + f"  # {kind}: {reason}")
        lines.append("    return True")
        return "\n".join(lines)

    __repr__ = __str__


def _latest(jitted: Any) -> dict[str, Any]:
    entries = _C._entries(function_of(jitted))
    if not entries:
        reasons = fallbacks(jitted)
        why = f"; the last reason: {reasons[-1].code}: {reasons[-1].reason}" if reasons else " (not called yet)"
        raise RuntimeError(f"FG-014: nothing is compiled for this function{why}")
    return entries[0]


def last_traces(jitted: Any) -> list[_C.Trace]:
    """The stages of the forward program used last, from "recorded" to what runs ([-1])."""
    return list(_latest(jitted)["forward"])


def last_backward_traces(jitted: Any) -> list[_C.Trace]:
    """The stages of the backward program; an empty list if the program has no gradient."""
    return list(_latest(jitted)["backward"])


def last_prologue_traces(jitted: Any) -> list[Prologue]:
    """The guards, as a list with one program."""
    return [Prologue(last_traces(jitted)[-1].name, _latest(jitted)["guards"])]


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


def explain(jitted: Any) -> str:
    """What was compiled, how calls were served, and why not where they were not."""
    f = function_of(jitted)
    entries = _C._entries(f)
    lines = [f"{f!r}"]
    for i, e in enumerate(entries):
        forward, backward = e["forward"], e["backward"]
        lines.append(
            f"program {i}: {len(forward[0])} operators recorded, {len(forward[-1])} forward"
            + (f", {len(backward[-1])} backward" if backward else "")
            + f", {len(e['guards'])} guards, {e['hits']} calls"
        )
        lines.append(f"  recorded in {e['record_ms']:.2f} ms, compiled in {e['compile_ms']:.2f} ms:")
        for t in [*forward, *backward]:
            lines.append(f"    {t.stage:<14} {len(t):4d} ops  {t.milliseconds:7.3f} ms")
    for why in _C._recompiles(f):
        lines.append(f"recorded again: {why}")
    for fallback in fallbacks(jitted):
        lines.append(f"eager, {fallback.count}x: {fallback.code}: {fallback.reason}")
    return "\n".join(lines)
