"""``FULGURITE_LOGS``: what is told while a program runs, in the grammar of ``TORCH_LOGS``.

    FULGURITE_LOGS="+guards,-cache,trace" python train.py

A list of components with commas between: ``name`` logs at INFO, ``+name`` at DEBUG (more), ``-name`` only at
ERROR. Each component is a standard logger, ``fulgurite.<component>``, and ``all`` stands for every one; without
the variable they are at WARNING. Reasons for which a call runs eagerly are warnings, one for each reason.
"""

from __future__ import annotations

import difflib
import logging
import os
import sys
from collections.abc import Callable
from typing import Any

from fulgurite import _C

COMPONENTS = {
    "trace": "programs as they run; with +, every stage",
    "guards": "how many guards a program has; with +, each with its reason",
    "cache": "programs made, and why a call was recorded again",
    "fallbacks": "calls that run eagerly: each reason once, as a warning",
    "passes": "operators and milliseconds of each pass",
}
"""Components and what they log."""

VARIABLE = "FULGURITE_LOGS"

# Reasons that the user need not act on: what was read changed while caches were filled (the next call is
# recorded again), the program's own exception (the user sees it), a repetition of what was said before.
_PASSING = {"FG-203", "FG-206", "FG-209"}

_root = logging.getLogger("fulgurite")
_handler: logging.Handler | None = None


class _Formatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        text = record.getMessage()
        head = f"[{record.name.replace('.', ' ', 1)}] "
        return head + text.replace("\n", "\n" + " " * 4)


def parse(text: str) -> dict[str, int]:
    """The level of each component that ``text`` names. Raises ValueError (FG-015) for unknown components."""
    levels: dict[str, int] = {}
    for item in text.split(","):
        name = item.strip()
        if not name:
            continue
        level = logging.INFO
        if name[0] in "+-":
            level = logging.DEBUG if name[0] == "+" else logging.ERROR
            name = name[1:].strip()
        if name == "all":
            levels |= dict.fromkeys(COMPONENTS, level)
        elif name in COMPONENTS:
            levels[name] = level
        else:
            known = [*COMPONENTS, "all"]
            near = difflib.get_close_matches(name, known, n=1)
            hint = f"did you mean {near[0]!r}?" if near else f"components are {', '.join(known)}"
            raise ValueError(f"FG-015: unknown log component {name!r} in {text!r}; {hint}")
    return levels


def configure(text: str | None) -> None:
    """Sets all levels as the variable would; None or "" is as if it were not set."""
    global _handler
    levels = parse(text or "")
    for name in COMPONENTS:
        logging.getLogger(f"fulgurite.{name}").setLevel(levels.get(name, logging.NOTSET))
    _root.setLevel(logging.WARNING)
    if _handler is not None:
        _root.removeHandler(_handler)
        _handler = None
    # A handler of our own only where one is asked for: without it, the application's handlers decide.
    if levels:
        _handler = logging.StreamHandler(sys.stderr)
        _handler.setFormatter(_Formatter())
        _root.addHandler(_handler)
    _root.propagate = _handler is None


def install() -> None:
    """Reads the variable and listens to the core; the package calls it when it is imported."""
    configure(os.environ.get(VARIABLE))
    _C._set_event_hook(_on_event)


# ---- events of the core -----------------------------------------------------------------------------------
def _on_event(jitted: Any, event: str, detail: Any) -> None:
    """Called by the core after a recorded call ("compiled"), when a call is recorded again ("recompile": the
    guard that did not hold), and for each new reason to run eagerly ("fallback": code and reason)."""
    tell = _EVENTS.get(event)
    if tell is not None:
        tell(jitted, detail)


def _logger(component: str) -> logging.Logger:
    return logging.getLogger(f"fulgurite.{component}")


def _on_compiled(jitted: Any, _detail: Any) -> None:
    loggers = {name: _logger(name) for name in ("cache", "trace", "guards", "passes")}
    if not any(log.isEnabledFor(logging.INFO) for log in loggers.values()):
        return
    from fulgurite import inspection

    program = inspection.programs(jitted)[0]
    name = program.name
    backward = f" and {len(program.backward[-1])} backward" if program.backward else ""
    loggers["cache"].info(
        "%s: compiled a program of %d operators%s in %.2f ms (recorded in %.2f ms)",
        name, len(program.forward[-1]), backward, program.compile_ms, program.record_ms,
    )  # fmt: skip
    if loggers["passes"].isEnabledFor(logging.INFO):
        lines = [
            f"  {stage:<24} {n:4d} operators {ms:9.3f} ms" for stage, n, ms in program.passes()
        ]
        loggers["passes"].info("%s: passes\n%s", name, "\n".join(lines))
    if loggers["trace"].isEnabledFor(logging.DEBUG):
        for trace in (*program.forward, *program.backward):
            loggers["trace"].debug("%s", trace)
    elif loggers["trace"].isEnabledFor(logging.INFO):
        for trace in (program.forward[-1], *program.backward[-1:]):
            loggers["trace"].info("%s", trace)
    loggers["guards"].info("%s: %d guards", name, len(program.guards))
    if loggers["guards"].isEnabledFor(logging.DEBUG):
        loggers["guards"].debug("%s", inspection.Prologue(name, program.guards))


def _on_recompile(jitted: Any, detail: Any) -> None:
    from fulgurite import inspection

    _logger("cache").info("%s: recorded again: %s", inspection.name_of(jitted), detail)


def _on_fallback(jitted: Any, detail: str) -> None:
    from fulgurite import inspection

    level = logging.INFO if detail.partition(":")[0] in _PASSING else logging.WARNING
    log = _logger("fallbacks")
    if log.isEnabledFor(level):
        name, reason = inspection.name_of(jitted), detail.splitlines()[0]
        log.log(level, "%s: this call runs eagerly: %s", name, reason)


_EVENTS: dict[str, Callable[[Any, Any], None]] = {
    "compiled": _on_compiled,
    "recompile": _on_recompile,
    "fallback": _on_fallback,
}
