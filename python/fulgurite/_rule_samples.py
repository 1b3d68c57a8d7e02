"""Sample arguments for operators, by schema: the default rules are printed for them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch

_SHAPES: tuple[tuple[int, ...], ...] = (
    (2, 3),
    (3, 3),
    (2, 3, 3),
    (2, 2, 4, 4),
    (3,),
    (2, 2, 4, 4, 4),
    (),
)
_INDEX_NAMES = ("index", "indices", "target")


def sample_arguments(schema: Any) -> Iterator[tuple]:
    """Tuples of arguments in schema order, the likeliest first; whoever asks tries one after the other."""
    for shape in _SHAPES:
        for number in (1, 0, 2):
            yield tuple(_argument(a, shape, number) for a in schema.arguments)


def _argument(argument: Any, shape: tuple[int, ...], number: int) -> Any:
    kind = str(argument.real_type)
    if "Tensor" in kind:
        if argument.has_default_value() or kind.startswith("Optional"):
            return None
        one = _tensor(argument.name, shape)
        if kind.startswith("List"):
            return [one, _tensor(argument.name, shape)]
        return one
    if argument.has_default_value():
        return argument.default_value
    if kind.startswith("Optional"):
        return None
    if kind.startswith("List[int]") or kind.startswith("List[SymInt]") or "int[" in kind:
        if argument.name in ("size", "sizes", "shape"):
            return list(shape)
        if argument.name in ("dim", "dims"):
            return list(range(len(shape)))
        if "padding" in argument.name:
            return [0] * max(len(shape) - 2, 1)
        if argument.name == "normalized_shape":
            return list(shape[-1:])
        return [number] * (argument.N if getattr(argument, "N", None) else max(len(shape) - 2, 1))
    if kind in ("int", "SymInt"):
        return min(number, max(len(shape) - 1, 0)) if argument.name.startswith("dim") else number
    if kind in ("float", "number", "Scalar", "SymFloat"):
        return 2.0 if number == 2 else 0.5
    if kind == "bool":
        return False
    if kind == "str":
        return "none"
    if kind == "ScalarType":
        return 6
    if kind == "Device":
        return torch.device("cpu")
    return None


def _tensor(name: str, shape: tuple[int, ...]) -> torch.Tensor:
    if name in _INDEX_NAMES:
        return torch.zeros(shape, dtype=torch.int64)
    if name in ("mask", "condition"):
        return torch.ones(shape, dtype=torch.bool)
    return torch.ones(shape)
