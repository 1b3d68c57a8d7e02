"""Operators that passes take not to raise, whatever their tensors hold and whatever the numbers (ops/traits.h), are
given contents and numbers of the most unlikely kinds: where they ran once, they run again."""

from __future__ import annotations

import itertools
import random
import warnings
from collections.abc import Iterator
from typing import Any

import pytest
import torch
import torch.testing._internal.common_methods_invocations as invocations
import torch.testing._internal.common_utils as common_utils
from torch.testing._internal.common_methods_invocations import op_db
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten, tree_unflatten

from fulgurite import _C
from helpers import forked

common_utils.extract_test_fn = lambda: None  # see helpers/opinfo.py
FOREACH = [
    op
    for name in ("unary", "binary", "pointwise", "other")
    for op in getattr(invocations, f"foreach_{name}_op_db", [])
]
DTYPES = (torch.float32, torch.complex64, torch.int64, torch.bool, torch.int8, torch.float64)
CALLS = 3  # of each operator and list of dtypes, for each entry of the database


class _Calls(TorchDispatchMode):
    """Keeps the calls of operators with these traits."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[tuple[Any, Any]] = []

    def __torch_dispatch__(self, op: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        flat, spec = tree_flatten((args, kwargs or {}))
        tensors = [t for t in flat if isinstance(t, torch.Tensor)]
        if _traits(op) != (False, False, False) and all(t.layout == torch.strided for t in tensors):
            copies = [t.detach().clone() if isinstance(t, torch.Tensor) else t for t in flat]
            self.calls.append((op, tree_unflatten(copies, spec)))
        return op(*args, **(kwargs or {}))


def _traits(op: Any) -> tuple[bool, bool, bool]:
    if op.namespace != "aten":
        return False, False, False
    return _C._runs_on_any(op._schema.name, op._schema.overload_name)


def _is_integer(dtype: torch.dtype) -> bool:
    return not dtype.is_floating_point and not dtype.is_complex and dtype != torch.bool


def _contents(dtype: torch.dtype) -> list[float]:
    if dtype == torch.bool:
        return [0, 1]
    if not _is_integer(dtype):
        return [0, -1.5, float("nan"), float("inf"), -float("inf"), torch.finfo(dtype).max]
    # Not the least one: divided by -1 it ends the process, in eager as well.
    return [0, torch.iinfo(dtype).max, -1 if torch.iinfo(dtype).min < 0 else 1]


def _others(op: Any, arguments: Any, results: Any) -> Iterator[Any]:
    """The same call with other tensors, then with other numbers."""
    flat, spec = tree_flatten(arguments)
    tensors = [i for i, x in enumerate(flat) if isinstance(x, torch.Tensor)]
    floats, integers, numbers = _traits(op)
    results = [r for r in tree_flatten(results)[0] if isinstance(r, torch.Tensor)]
    has_integers = any(_is_integer(t.dtype) for t in [*(flat[i] for i in tensors), *results])

    def with_(changed: dict[int, Any]) -> Any:
        return tree_unflatten([changed.get(i, x) for i, x in enumerate(flat)], spec)

    if integers or (floats and not has_integers):
        for i in tensors:
            for value in _contents(flat[i].dtype):
                yield with_({i: torch.full_like(flat[i], value)})
        for _ in range(8):
            yield with_(
                {
                    i: torch.full_like(flat[i], random.choice(_contents(flat[i].dtype)))
                    for i in tensors
                }
            )
    if not numbers or has_integers or not tensors:
        return
    # Those that stand in the place of elements (passes/direct_writes.cpp), in the range of the dtypes.
    most = min(
        (torch.finfo(flat[i].dtype).max for i in tensors if flat[i].dtype != torch.bool),
        default=0.0,
    )
    scalars = {a.name for a in op._schema.arguments if "number" in str(a.real_type)}
    named = {a.name: k for k, a in enumerate(op._schema.arguments)}
    for name in scalars:
        given = arguments[0][named[name]] if named[name] < len(arguments[0]) else None
        given = arguments[1].get(name, given)
        if type(given) not in (int, float):
            continue
        for value in (0.0, -1.0, -0.5, 1e4, most, -most, float("nan"), float("inf")):
            number = value if type(given) is float else int(value) if abs(value) <= 1e4 else 7
            args, kwargs = list(arguments[0]), dict(arguments[1])
            if name in kwargs:
                kwargs[name] = number
            else:
                args[named[name]] = number
            yield tuple(args), kwargs


def _problems(op_index: int) -> tuple[list[str], int]:
    op = (op_db + FOREACH)[op_index]
    problems, tried = [], 0
    seen: dict[Any, int] = {}
    random.seed(op_index)
    for dtype in DTYPES:
        if dtype not in op.supported_dtypes("cpu"):
            continue
        recorded = _Calls()
        with warnings.catch_warnings(), torch.no_grad():
            warnings.simplefilter("ignore")
            try:
                for s in itertools.islice(op.sample_inputs("cpu", dtype), 4):
                    with recorded:
                        op(s.input, *s.args, **s.kwargs)
            except Exception:
                pass  # of a sample that does not run here
            for called, (args, kwargs) in recorded.calls:
                dtypes = [t.dtype for t in tree_flatten((args, kwargs))[0] if torch.is_tensor(t)]
                key = (called, tuple(dtypes))
                seen[key] = seen.get(key, 0) + 1
                if seen[key] > CALLS:
                    continue
                try:
                    results = called(*args, **kwargs)
                except Exception:
                    continue  # it is the one that did not run
                for other in _others(called, (args, kwargs), results):
                    tried += 1
                    try:
                        called(*other[0], **other[1])
                    except Exception as e:
                        problems.append(f"{called} of {dtypes}: {str(e)[:200]}")
                        break
    return problems, tried


def test_operators_that_are_said_not_to_raise_do_not():
    found: set[str] = set()
    tried = 0
    for _, outcome in forked.run_each(range(len(op_db + FOREACH)), _problems):
        if isinstance(outcome, forked.Crash):
            found.add(str(outcome))
            continue
        found.update(outcome[0])
        tried += outcome[1]
    assert not found, "\n".join(sorted(found))
    assert tried > 20_000


@pytest.mark.parametrize(
    ("op", "overload", "traits"),
    [
        ("aten::mul", "Tensor", (True, True, True)),
        ("aten::_foreach_addcdiv", "ScalarList", (True, True, True)),
        ("aten::select", "int", (True, True, False)),
        ("aten::remainder", "Tensor", (True, False, True)),  # integers by zero
        ("aten::softshrink", "", (True, True, False)),
        ("aten::masked_fill", "Tensor", (False, False, False)),
        ("aten::index", "Tensor", (False, False, False)),
        ("aten::bernoulli", "", (False, False, False)),
        ("aten::mul_", "Tensor", (False, False, True)),
    ],
)
def test_traits(op, overload, traits):
    assert _C._runs_on_any(op, overload) == traits
