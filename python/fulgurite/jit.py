"""``jit``: functions and modules."""

from __future__ import annotations

import copy
import functools
import weakref
from collections.abc import Callable
from typing import Any, TypeVar

import torch

from fulgurite import _C
from fulgurite import options as _options

F = TypeVar("F", bound=Callable)

made: list[Callable[[Any], None]] = []
"""Called with each JitFunction that ``jit`` makes (the command line's ``explain`` collects them)."""


def jit(fn: F | None = None, **given: Any) -> F:
    """Compiles a function or an ``nn.Module``.

    The first call is recorded while it runs, and returns what eager returns; later calls that the guards
    admit are served by the compiled program. ``jit(module)`` is a module of the same class with the same
    parameters, buffers, hooks, ``state_dict`` keys and training flag (it shares them with ``module``).

    Options are listed in ``fulgurite.options.TABLE`` and in docs/options.md. Raises ValueError (FG-011) for an
    unknown one, TypeError (FG-012) if ``fn`` cannot be called.
    """
    if fn is None:
        return functools.partial(jit, **given)  # type: ignore[return-value]
    values = _options.resolve(given)
    if isinstance(fn, torch.nn.Module):
        return _jit_module(fn, given, values)  # type: ignore[return-value]
    if _C._is_jitted(fn):
        fn = fn.__wrapped__
    if not callable(fn):
        raise TypeError(
            f"FG-012: jit expects a function or an nn.Module, found {type(fn).__name__}"
        )
    jitted = _make(fn, values)
    for name in ("__module__", "__name__", "__qualname__", "__doc__", "__annotations__"):
        value = getattr(fn, name, None)
        if value is not None:
            jitted.__dict__[name] = value
    return jitted


def _name_of(fn: Any) -> str:
    if isinstance(fn, functools.partial):
        return _name_of(fn.func)
    return getattr(fn, "__name__", None) or type(fn).__name__


def _make(fn: Any, values: dict[str, Any]) -> Any:
    jitted = _C._jit(
        fn,
        _name_of(fn),
        fullgraph=values["fullgraph"],
        caching=values["cache"] != "no caching",
        reinplace=values["reinplace"],
        functional_leaves=values["leaf_inplace"] == "functional",
        write_back_at_once=values["skip_inplace_functionalization"],
        max_entries=values["max_entries"],
        max_branches=values["max_branches"],
        check_results=values["check_results"],
        executors=[executor._core for executor in values["executors"]],
    )
    _options_given[jitted] = values
    for tell in made:
        tell(jitted)
    return jitted


_options_given: weakref.WeakKeyDictionary[Any, dict[str, Any]] = weakref.WeakKeyDictionary()


def options_of(jitted: Any) -> dict[str, Any]:
    """The value of every option that what ``jit`` returned was made with. Raises TypeError (FG-013) for anything else."""
    return dict(_options_given[function_of(jitted)])


# ---- modules ---------------------------------------------------------------------------------------------
# A jitted module shares its __dict__ with the original: it *is* the same module in every respect but how it
# is called. What belongs to the jitted one alone lives in a slot of its class.
_classes: dict[type, type] = {}


class _JitState:
    __slots__ = ("module", "function", "given", "__weakref__")


def _class_for(base: type) -> type:
    if base in _classes:
        return _classes[base]

    class Jitted(base):  # type: ignore[misc, valid-type]
        __slots__ = ("_fulgurite",)

        def __init__(self, *args: Any, **kwargs: Any) -> None:
            raise TypeError("jitted modules are made by fulgurite.jit(module)")

        def __call__(self, *args: Any, **kwargs: Any) -> Any:
            return _state(self).function(*args, **kwargs)

        def __deepcopy__(self, memo: dict) -> Any:
            state = _state(self)
            return jit(copy.deepcopy(state.module, memo), **state.given)

        def __copy__(self) -> Any:
            state = _state(self)
            return jit(copy.copy(state.module), **state.given)

        def __reduce_ex__(self, protocol: Any) -> Any:
            state = _state(self)
            return (_rebuild, (state.module, state.given))

    Jitted.__name__ = base.__name__
    Jitted.__qualname__ = base.__qualname__
    Jitted.__module__ = base.__module__
    Jitted.__doc__ = base.__doc__
    _classes[base] = Jitted
    return Jitted


def _rebuild(module: torch.nn.Module, given: dict[str, Any]) -> torch.nn.Module:
    return jit(module, **given)


def _state(module: Any) -> _JitState:
    return object.__getattribute__(module, "_fulgurite")


def _jit_module(
    module: torch.nn.Module, given: dict[str, Any], values: dict[str, Any]
) -> torch.nn.Module:
    if type(module) in _classes.values():
        module = _state(module).module
    cls = _class_for(type(module))
    jitted = object.__new__(cls)
    object.__setattr__(jitted, "__dict__", module.__dict__)
    state = _JitState()
    state.module = module
    state.function = _make(module, values)
    state.given = dict(given)
    object.__setattr__(jitted, "_fulgurite", state)
    return jitted


def function_of(jitted: Any) -> Any:
    """The JitFunction behind what ``jit`` returned. Raises TypeError (FG-013) for anything else."""
    if _C._is_jitted(jitted):
        return jitted
    if type(jitted) in _classes.values():
        return _state(jitted).function
    inner = getattr(jitted, "__func__", None)
    if inner is not None and _C._is_jitted(inner):
        return inner
    raise TypeError(f"FG-013: expected what fulgurite.jit returned, found {type(jitted).__name__}")
