"""In-place changes of what a tensor is (t_, unsqueeze_, detach_, requires_grad_), on arguments and inside; version counters.

The oracle is eager on twins.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

import fulgurite as fg


def twin(t: Tensor) -> Tensor:
    return t.detach().clone().requires_grad_(t.requires_grad) if t.is_leaf else t.clone()


def same(e: Tensor, r: Tensor) -> None:
    assert torch.equal(e, r)
    assert e.stride() == r.stride()
    assert e.requires_grad == r.requires_grad and e.is_leaf == r.is_leaf
    assert (e._base is None) == (r._base is None)


def agree(f: Callable, make: Callable[[], tuple], calls: int = 4, served: bool = True) -> None:
    jitted = fg.jit(f)
    for _ in range(calls):
        args = make()
        twins = tuple(twin(a) for a in args)
        expected, found = f(*twins), jitted(*args)
        expected = expected if isinstance(expected, tuple) else (expected,)
        found = found if isinstance(found, tuple) else (found,)
        for e, r in zip(expected, found, strict=True):
            same(e, r)
            for a, t in zip(args, twins, strict=True):
                assert (e is t) == (r is a)
        for a, t in zip(args, twins, strict=True):
            same(t, a)
            assert a._version == t._version
    if served:
        assert fg.fallbacks(jitted) == [] and fg.cache_hits(jitted) == calls - 1


def transposed(x):
    x.t_()
    return x


def view_before_and_after(x):
    y = x[0]
    x.t_()
    return y, x[0], x * 2


def written_before_and_after(x):
    x.mul_(2)
    x.unsqueeze_(0)
    x.add_(1)
    return x.sum()


def squeezed(x):
    x.squeeze_()
    return x + 1


def view_changes_shape(x):
    y = x[0]
    y.unsqueeze_(0)
    return y


def detached(x):
    x.detach_()
    return x * 2


def history_and_shape(x, w):
    x.mul_(w)
    x.transpose_(0, 1)
    return x * 2


def gradient_of_an_argument(x):
    x.requires_grad_()
    return torch.autograd.grad((x * x).sum(), x)[0]


def gradient_of_a_detached_part(x):
    z = x.detach().requires_grad_()
    (g,) = torch.autograd.grad((z * z).sum(), z)
    return g * x


def new_leaf_is_returned(x):
    z = x * 2
    z.requires_grad_()
    return z


def grad_of_a_new_leaf(x):
    z = x * 2
    z.requires_grad = True
    (z * z).sum().backward()
    return z.grad


def frozen(x):
    x.requires_grad_(False)
    return x * 2


def many_writes(x, y):
    x.add_(1)
    x.mul_(2)
    y[0].add_(1)
    y.t().mul_(3)
    torch._foreach_add_([x, y], 1.0)
    return x.sum() + y.sum()


def matrix(requires_grad: bool = False) -> Tensor:
    return torch.randn(2, 3, requires_grad=requires_grad)


@pytest.mark.parametrize(
    ("f", "make"),
    [
        (transposed, lambda: (matrix(),)),
        (view_before_and_after, lambda: (matrix(),)),
        (written_before_and_after, lambda: (matrix(),)),
        (squeezed, lambda: (torch.randn(2, 1, 3),)),
        (view_changes_shape, lambda: (matrix(),)),
        (detached, lambda: (matrix(),)),
        (detached, lambda: (matrix(True) * 2,)),
        (gradient_of_an_argument, lambda: (matrix(),)),
        (gradient_of_a_detached_part, lambda: (matrix(True),)),
        (new_leaf_is_returned, lambda: (matrix(),)),
        (grad_of_a_new_leaf, lambda: (matrix(),)),
        (frozen, lambda: (matrix(True),)),
        (many_writes, lambda: (matrix(), matrix())),
    ],
)
def test_as_eager(f, make):
    agree(f, make)


def test_an_argument_with_a_new_history_and_shape_is_used_eagerly():
    """Gradients of the result for the argument go through the node that transpose_ gave it."""
    f = fg.jit(history_and_shape)
    for g in (history_and_shape, f, f):
        torch.manual_seed(0)
        x, w = matrix(), torch.randn(3, requires_grad=True)
        (found,) = torch.autograd.grad(g(x, w).sum(), x)
        assert torch.equal(found, torch.full((3, 2), 2.0))
    assert {b.code for b in fg.fallbacks(f)} == {"FG-195"}


def test_a_result_depends_on_an_argument_that_became_a_leaf():
    def f(x):
        x.requires_grad_()
        return x * 2

    jitted = fg.jit(f)
    for _ in range(3):
        x = matrix()
        jitted(x).sum().backward()
        assert torch.equal(x.grad, torch.full((2, 3), 2.0))
    assert fg.cache_hits(jitted) == 2
