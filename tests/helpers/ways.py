"""Comparing functions that branch on data with eager, bit by bit, and a few such functions."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

import fulgurite as fg

Call = tuple[Tensor, ...]
RANDOM = (-3.0, -1.5, -0.5, 0.0, 0.5, 1.5, 2.5, 3.5, 5.0)


def leaves(value: Any) -> list[Tensor]:
    if isinstance(value, Tensor):
        return [value]
    if isinstance(value, (tuple, list)):
        return [t for item in value for t in leaves(item)]
    return []


def run(f: Callable, call: Call, seed: int) -> list[Any]:
    """All that a call shows: results, or the exception; arguments and their versions; gradients; random state."""
    arguments = []
    for t in call:
        copy = t.detach().clone().requires_grad_(t.requires_grad)
        arguments.append(copy)
    torch.manual_seed(seed)
    try:
        out = f(*arguments)
    except (ValueError, RuntimeError, ArithmeticError) as e:
        return [type(e).__name__, str(e), arguments, torch.get_rng_state()]
    seen: list[Any] = [repr(out) if not leaves(out) else "", leaves(out)]
    seen.append([a._version for a in arguments])
    wanted = [a for a in arguments if a.requires_grad]
    loss = [t for t in leaves(out) if t.requires_grad]
    if wanted and loss:
        cotangents = [torch.sin(torch.arange(t.numel()) + 1.0).reshape(t.shape) for t in loss]
        try:
            seen.append(Gradients(torch.autograd.grad(loss, wanted, cotangents, allow_unused=True)))
        except RuntimeError as e:
            seen.append(str(e).split(":")[0])  # which operator it was is eager's alone
    return [*seen, [a.detach() for a in arguments], torch.get_rng_state()]


class Gradients(tuple):
    """What they are sums of may be added in another order."""


def assert_same(found: Any, wanted: Any, what: str) -> None:
    assert type(found) is type(wanted), what
    if isinstance(wanted, Tensor):
        assert found.dtype == wanted.dtype and found.stride() == wanted.stride(), what
        assert torch.equal(found.nan_to_num(7.0), wanted.nan_to_num(7.0)), what
    elif isinstance(wanted, Gradients):
        torch.testing.assert_close(found, wanted, equal_nan=True, msg=what)
    elif isinstance(wanted, (tuple, list)):
        assert len(found) == len(wanted), what
        for x, y in zip(found, wanted, strict=True):
            assert_same(x, y, what)
    else:
        assert found == wanted, what


def went_on(g: Any) -> int:
    """How many runs began with what another program had computed."""
    trees = {p.tree: p.went_on for p in fg.explain(g).programs}
    return sum(trees.values())


def same(
    f: Callable, calls: Sequence[Call], served: float = 0.5, shared: bool = True, **options: Any
) -> Any:
    """Three rounds of the calls, in three orders; then most calls are served, and some went on."""
    g = fg.jit(f, **options)
    for round_ in range(3):
        order = list(enumerate(calls))
        random.Random(round_).shuffle(order)
        for i, call in order:
            assert_same(run(g, call, i), run(f, call, i), f"{round_} {i} {fg.explain(g)}")
    assert fg.cache_hits(g) >= served * 3 * len(calls), fg.explain(g)
    assert "FG-208" not in {r.code for r in fg.fallbacks(g)}, fg.explain(g)
    assert not shared or went_on(g) > 0, fg.explain(g)
    return g


def full(*values: float, n: int = 4, grad: bool = False) -> list[Call]:
    return [(torch.full((n,), v).requires_grad_(grad),) for v in values]


def chain(x):
    y = x.sin() * 2
    s = x.sum()
    if s > 8:
        return y + 1
    elif s > 4:
        return y * 3
    elif s > 0:
        return y - x
    elif s > -4:
        return y / 2
    return y.exp()


def nested(x):
    y = x * 2 + 1
    if x.sum() > 0:
        z = y.sqrt()
        if x.max() > 2:
            if y.mean() > 8:
                return z * y
            return z - y
        return z + y
    z = y.abs()
    if x.min() < -2:
        return z * x
    return z + x


def loop(x):
    n = 0
    while x.abs().max() > 0.1:
        x = x * 0.5 + x.sin() * 0.1
        n += 1
    return x, n


def early_exit(x):
    total = torch.zeros(())
    for i in range(6):
        x = x * 0.75 - 0.1
        total = total + x.sum()
        if total > 9 + i:
            return total, i
    return total, -1


def raises(x):
    y = x.cos() + x
    if y.sum() > 9:
        raise ValueError("too much")
    if y.sum() < -5:
        return y * (1 // int(x[0].item() + 3))
    return y * 2


def numbers(x):
    k = x[0].item()
    y = x * k
    if k > 2 and y.sum() > 3:
        return y * (k + 1)
    if k * 2 > 1:
        return y - k
    return y + round(k)


def mixed_types(x):
    kind = int(x[0])
    y = x.tanh()
    if kind == 0:
        return y, "zero"
    if kind == 1:
        return [y.to(torch.float64), y]
    return {"y": y}["y"], kind


def by_size(x):
    y = x * 3
    kept = y[y > 1]
    return kept.sum() + kept.numel(), kept * 2
