"""Options of ``jit``: one table. Each is also an environment variable and a scoped override.

    fg.jit(f, fullgraph=True)
    FULGURITE_FULLGRAPH=1 python train.py
    with fg.options(fullgraph=True): ...

What is given to ``jit`` wins over a scope, a scope over the environment, the environment over the default.
"""

from __future__ import annotations

import contextlib
import contextvars
import difflib
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any


@dataclass(frozen=True)
class Option:
    name: str
    default: Any
    choices: tuple | None
    meaning: str
    convert: Callable[[Any], Any] | None = None
    """Makes the value of what was given, instead of choices; raises ValueError."""

    @property
    def variable(self) -> str:
        return "FULGURITE_" + self.name.upper()

    def check(self, value: Any) -> Any:
        if self.convert is not None:
            return self.convert(value)
        if self.choices is not None and value not in self.choices:
            wanted = ", ".join(repr(c) for c in self.choices)
            raise ValueError(f"FG-010: option {self.name!r} is {value!r}; expected one of {wanted}")
        if self.choices is None and not isinstance(value, type(self.default)):
            raise ValueError(
                f"FG-010: option {self.name!r} is {value!r}; expected {type(self.default).__name__}"
            )
        return value

    def parse(self, text: str) -> Any:
        if isinstance(self.default, bool):
            low = text.strip().lower()
            if low not in ("0", "1", "true", "false", "on", "off", "yes", "no"):
                raise ValueError(f"FG-010: {self.variable}={text!r}; expected 0 or 1")
            return low in ("1", "true", "on", "yes")
        if isinstance(self.default, int):
            return int(text)
        if self.convert is not None:
            return self.check([part.strip() for part in text.split(",") if part.strip()])
        return self.check(text)


def _executors(given: Any) -> Any:
    from fulgurite import extend

    return extend.resolve_executors(given)


TABLE = {
    o.name: o
    for o in (
        Option(
            "fullgraph", False, (True, False), "raise CompileError instead of falling back to eager"
        ),
        Option(
            "cache",
            "constant values",
            ("constant values", "no caching", "same input"),
            "when a compiled program is used again: when its guards hold, never, or (same input) when its "
            "guards hold, which the caller promises",
        ),
        Option(
            "reinplace", True, (True, False), "turn values back into buffers where nobody can tell"
        ),
        Option("max_entries", 256, None, "how many specialisations of one function are kept"),
        Option(
            "max_branches",
            128,
            None,
            "of which, behind one set of guards, how many that only data tell apart",
        ),
        Option(
            "check_results",
            False,
            (True, False),
            "compare each result of a compiled program with the type that its trace declares, and raise "
            "where they differ (FG-902): for finding bugs of fulgurite",
        ),
        Option(
            "executors",
            None,
            None,
            "who runs operators, in order: executors or their names; the first that will have an operator takes it",
            _executors,
        ),
        Option(
            "leaf_inplace",
            "functional",
            ("functional", "error"),
            "an in-place operator on a leaf that requires grad: the gradient with respect to its value before "
            "the call, with one warning per call site; or eager's error",
        ),
        Option(
            "skip_inplace_functionalization",
            False,
            (True, False),
            "leaves that require grad are written where the program writes them, not at the end of the call",
        ),
    )
}

_scope: contextvars.ContextVar[Mapping[str, Any]] = contextvars.ContextVar(
    "fulgurite_options", default=MappingProxyType({})
)


def _known(name: str) -> Option:
    if name in TABLE:
        return TABLE[name]
    near = difflib.get_close_matches(name, TABLE, n=1)
    hint = f"; did you mean {near[0]!r}?" if near else f"; known are {', '.join(TABLE)}"
    raise ValueError(f"FG-011: unknown option {name!r}{hint}")


def resolve(given: dict[str, Any]) -> dict[str, Any]:
    """The value of every option. Raises ValueError (FG-010, FG-011) for bad values and unknown names."""
    values = {}
    for name, value in given.items():
        values[name] = _known(name).check(value)
    for name, option in TABLE.items():
        if name in values:
            continue
        if name in _scope.get():
            values[name] = _scope.get()[name]
        elif option.variable in os.environ:
            values[name] = option.parse(os.environ[option.variable])
        else:
            values[name] = (
                option.default if option.convert is None else option.check(option.default)
            )
    return values


@contextlib.contextmanager
def options(**given: Any) -> Iterator[None]:
    """Overrides options for functions that are jitted inside the ``with`` block."""
    checked = {name: _known(name).check(value) for name, value in given.items()}
    token = _scope.set({**_scope.get(), **checked})
    try:
        yield
    finally:
        _scope.reset(token)
