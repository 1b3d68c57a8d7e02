"""Changes to the Python state that a model's call can reach, each with its undoing."""

from __future__ import annotations

import sys
import types
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import torch
from torch import nn

PLAIN = (int, float, bool, str, type(None))
_ATOMS = (
    torch.Tensor,
    type,
    types.ModuleType,
    types.FunctionType,
    types.BuiltinFunctionType,
    str,
)


class Poison:
    """Cannot be used in any way: a call that looks at it gives another outcome than before."""

    def _refuse(self, *args: Any, **kwargs: Any) -> Any:
        raise RuntimeError("the run looked here")

    __bool__ = __len__ = __iter__ = __call__ = __getattr__ = __getitem__ = __contains__ = _refuse
    __eq__ = __ne__ = __lt__ = __le__ = __gt__ = __ge__ = __index__ = __float__ = __int__ = _refuse
    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __pow__ = __rpow__ = _refuse
    __truediv__ = __rtruediv__ = __floordiv__ = __rfloordiv__ = __mod__ = __neg__ = _refuse
    __str__ = __format__ = __hash__ = _refuse


class Mutation(NamedTuple):
    """``poison`` puts something in the same place that no run can use unnoticed, and ``undo`` takes it out again: if
    that makes no difference either, the call does not consult the place."""

    label: str
    change: Callable[[], Any]
    undo: Callable[[], Any]
    poison: Callable[[], Any] | None = None


def changed(value: Any) -> Any:
    """Another value of the same kind."""
    if value is None:
        return 1
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return value + 1
    if isinstance(value, float):
        return value * 1.5 + 0.1
    return value + "x"


def reachable(root: Any) -> list[dict | list]:
    """The dicts and lists reachable from ``root`` through attributes and containers."""
    seen, found, todo = set(), [], [root]
    while todo:
        value = todo.pop()
        if id(value) in seen or isinstance(value, _ATOMS):
            continue
        seen.add(id(value))
        if isinstance(value, (dict, list)):
            found.append(value)
        if isinstance(value, dict):
            todo += list(value.values())
        elif isinstance(value, (list, tuple, set)):
            todo += list(value)
        else:
            todo += [d for d in [getattr(value, "__dict__", None)] if isinstance(d, dict)]
    return found


def _entry(container: Any, key: Any, old: Any, new: Any, label: str) -> Mutation:
    return Mutation(
        label,
        lambda: container.__setitem__(key, new),
        lambda: container.__setitem__(key, old),
        lambda: container.__setitem__(key, Poison()),
    )


def values(root: Any) -> Iterator[Mutation]:
    """Every plain value in the dicts and lists reachable from ``root``: attributes, configurations."""
    for container in reachable(root):
        items = container.items() if isinstance(container, dict) else enumerate(container)
        for key, value in list(items):
            if type(value) in PLAIN:
                yield _entry(container, key, value, changed(value), repr(key))


def _default_of(function: types.FunctionType, i: int, default: Any) -> Mutation:
    old = function.__defaults__
    new = old[:i] + (changed(default),) + old[i + 1 :]
    return Mutation(
        f"{function.__qualname__} default {i}",
        lambda: setattr(function, "__defaults__", new),
        lambda: setattr(function, "__defaults__", old),
        lambda: setattr(function, "__defaults__", (*old[:i], Poison(), *old[i + 1 :])),
    )


def globals_of(prefixes: tuple[str, ...]) -> Iterator[Mutation]:
    """Values, functions, classes and defaults of functions in the modules whose name begins so."""
    for name, module in list(sys.modules.items()):
        if not name.startswith(prefixes):
            continue
        for key, value in list(vars(module).items()):
            own = (
                isinstance(value, (types.FunctionType, type))
                and getattr(value, "__module__", None) == name
            )
            if type(value) in PLAIN and not key.startswith("__"):
                yield _entry(vars(module), key, value, changed(value), f"{name}.{key}")
            elif own:
                yield _entry(vars(module), key, value, None, f"{name}.{key}")
            if isinstance(value, types.FunctionType) and own and value.__defaults__:
                for i, default in enumerate(value.__defaults__):
                    if type(default) in PLAIN:
                        yield _default_of(value, i, default)


def classes_of(model: nn.Module) -> Iterator[Mutation]:
    """Plain attributes and methods of the classes of the model's modules; a method is wrapped."""
    for cls in {type(m): None for m in model.modules()}:
        for key, value in list(vars(cls).items()):
            if key.startswith("__"):
                continue
            if isinstance(value, types.FunctionType):
                new: Any = _wrapped(value)
            elif type(value) in PLAIN:
                new = changed(value)
            else:
                continue
            yield Mutation(
                f"class {cls.__name__}.{key}",
                lambda c=cls, k=key, n=new: setattr(c, k, n),
                lambda c=cls, k=key, v=value: setattr(c, k, v),
                lambda c=cls, k=key: setattr(c, k, Poison()),
            )


def _wrapped(function: types.FunctionType) -> Callable:
    def replacement(*args: Any, **kwargs: Any) -> Any:
        out = function(*args, **kwargs)
        return out * 1.5 if isinstance(out, torch.Tensor) and out.is_floating_point() else out

    return replacement


class _Hooked:
    """A hook that is registered by ``change`` and removed by ``undo``."""

    def __init__(self, module: nn.Module, store: str, register: str, hook: Callable) -> None:
        self.module, self.store, self.hook = module, store, hook
        self.register = getattr(module, register)
        self.hooks = getattr(module, store)

    def change(self) -> None:
        self.handle: Any = self.register(self.hook)

    def poison(self) -> None:
        self.handle = None
        setattr(self.module, self.store, Poison())

    def undo(self) -> None:
        if self.handle is None:
            setattr(self.module, self.store, self.hooks)
        else:
            self.handle.remove()


def _scale(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return value * 1.25 if value.is_floating_point() else value
    if isinstance(value, tuple):
        return tuple(_scale(v) for v in value)
    return value


def modules_of(model: nn.Module) -> Iterator[Mutation]:
    """Hooks, training flags, parameters and sub-modules of every module of the model."""
    for name, module in model.named_modules():
        hooked = _Hooked(
            module, "_forward_hooks", "register_forward_hook", lambda m, a, out: _scale(out)
        )
        yield Mutation(f"forward hook on {name!r}", hooked.change, hooked.undo, hooked.poison)
        pre = _Hooked(
            module, "_forward_pre_hooks", "register_forward_pre_hook", lambda m, a: _scale(a)
        )
        yield Mutation(f"forward pre-hook on {name!r}", pre.change, pre.undo, pre.poison)
        yield Mutation(
            f"{name!r}.training",
            lambda m=module: setattr(m, "training", not m.training),
            lambda m=module, t=module.training: setattr(m, "training", t),
            lambda m=module: setattr(m, "training", Poison()),
        )
        for key, parameter in list(module._parameters.items()):
            if parameter is None:
                continue
            other = nn.Parameter(parameter.detach() * 1.5)
            wider = nn.Parameter(parameter.detach().double())
            for label, new in (("another", other), ("a float64", wider)):
                yield Mutation(
                    f"{label} parameter {name}.{key}",
                    lambda m=module, k=key, n=new: setattr(m, k, n),
                    lambda m=module, k=key, p=parameter: m._parameters.__setitem__(k, p),
                    lambda m=module, k=key: m._parameters.__setitem__(k, Poison()),
                )
            yield Mutation(
                f"new contents of {name}.{key}",
                lambda p=parameter: p.data.mul_(2.0),
                lambda p=parameter: p.data.div_(2.0),
            )
            yield Mutation(
                f"requires_grad of {name}.{key}",
                lambda p=parameter: p.requires_grad_(not p.requires_grad),
                lambda p=parameter: p.requires_grad_(not p.requires_grad),
            )
        for key, child in list(module._modules.items()):
            if child is None:
                continue
            yield Mutation(
                f"Identity for {name}.{key}",
                lambda m=module, k=key: m._modules.__setitem__(k, nn.Identity()),
                lambda m=module, k=key, c=child: m._modules.__setitem__(k, c),
                lambda m=module, k=key: m._modules.__setitem__(k, Poison()),
            )
