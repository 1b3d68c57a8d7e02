"""In-place operators on leaves that require grad: ``leaf_inplace="functional"``.

The oracle is eager on clones: a leaf's clone may be written, and its gradient is the one with respect to the
value before.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

import fulgurite as fg

pytestmark = pytest.mark.filterwarnings("ignore:.*writes a leaf that requires grad in place")


def leaf(*sizes: int) -> Tensor:
    return torch.randn(sizes, requires_grad=True)


def flat(result: Any) -> list[Tensor]:
    if isinstance(result, Tensor):
        return [result]
    if isinstance(result, dict):
        return [t for v in result.values() for t in flat(v)]
    return [t for v in result for t in flat(v)]


def seeded(results: list[Tensor]) -> Tensor:
    return sum(
        (r * torch.arange(1.0, r.numel() + 1).view_as(r)).sum() for r in results if r.requires_grad
    )


def agree(f: Callable, make: Callable[[], tuple], calls: int = 4) -> Any:
    jitted = fg.jit(f, leaf_inplace="functional")
    for _ in range(calls):
        args = make()
        twins = {id(a): a.detach().clone().requires_grad_(a.requires_grad) for a in args}
        written = {k: t.clone() if t.requires_grad else t for k, t in twins.items()}
        versions = [a._version for a in args]
        expected = flat(f(*[written[id(a)] for a in args]))
        found = flat(jitted(*args))
        assert len(found) == len(expected)
        for e, r in zip(expected, found, strict=True):
            assert torch.equal(e, r) and e.requires_grad == r.requires_grad
            assert e.stride() == r.stride()
            assert not r.requires_grad or all(r is not a for a in args)
        seeded(expected).backward()
        seeded(found).backward()
        for a, version in zip(args, versions, strict=True):
            assert torch.equal(a, written[id(a)])
            assert a.is_leaf
            changed = not torch.equal(a, twins[id(a)])
            assert not changed or a._version > version
            gradient = twins[id(a)].grad
            assert (a.grad is None) == (gradient is None)
            assert gradient is None or torch.equal(a.grad, gradient)
    assert fg.fallbacks(jitted) == []
    assert fg.cache_hits(jitted) == calls - 1
    return jitted


def test_the_program_that_started_it():
    def f(x):
        return x.mul_(2)

    jitted = agree(f, lambda: (leaf(3),))
    x, v = torch.ones(3, requires_grad=True), torch.tensor([1.0, 2.0, 3.0])
    out = jitted(x)
    assert out.grad_fn is not None and out is not x
    out.backward(v)
    assert torch.equal(x.grad, 2 * v)
    assert torch.equal(x, torch.full((3,), 2.0))
    assert re.search(r"prims.copy_\(t\d+, x\)", str(fg.last_traces(jitted)[-1]))
    assert re.search(r"torch.mul\(g_t\d+, 2\)", str(fg.last_backward_traces(jitted)[-1]))


def through_a_view(x):
    x[0].mul_(3)
    return x


def a_view_is_returned(x):
    y = x[1:]
    y.add_(1)
    return y, x.sum()


def item_assignment(x, v):
    x[1] = v
    return (x * 2).sum()


def saved_before_it_is_written(x):
    x.pow_(3)
    return x.exp()


def augmented_assignment(x, y):
    x += y
    y *= 2
    return x * y


def foreach(x, y):
    torch._foreach_mul_([x, y], 3.0)
    return {"sum": x + y, "x": x}


def out_argument(x, y):
    torch.mul(y, 2, out=x)
    return x


def views_are_returned(x):
    x.mul_(2)
    return x.t(), x[0]


def read_before_and_after(x):
    before = x + 1
    x.mul_(2)
    return before, x, x.detach() * 2


def only_written(x, y):
    x.copy_(y * 2)
    return y.sum()


def masked(x):
    x[x > 0] = 0.5
    return x.sum()


def view_taken_before(x):
    y = x.view(-1)
    z = x * 2
    y.mul_(5)
    return y + 1, z, x


@pytest.mark.parametrize(
    ("f", "make"),
    [
        (through_a_view, lambda: (leaf(3, 2),)),
        (a_view_is_returned, lambda: (leaf(3, 2),)),
        (item_assignment, lambda: (leaf(3), torch.tensor(1.0))),
        (item_assignment, lambda: (leaf(3), leaf())),
        (saved_before_it_is_written, lambda: (leaf(3),)),
        (augmented_assignment, lambda: (leaf(3), leaf(3))),
        (foreach, lambda: (leaf(3), leaf(3))),
        (out_argument, lambda: (leaf(3), leaf(3))),
        (views_are_returned, lambda: (leaf(3, 2),)),
        (read_before_and_after, lambda: (leaf(3),)),
        (only_written, lambda: (leaf(3), leaf(3))),
        (view_taken_before, lambda: (leaf(3, 2),)),
    ],
    ids=lambda x: x.__name__ if callable(x) and x.__name__ != "<lambda>" else "",
)
def test_gradients_are_those_of_the_value_before(f, make):
    if f is out_argument:
        jitted = fg.jit(f, leaf_inplace="functional")
        for _ in range(3):
            x, y = make()
            out = jitted(x, y)
            out.sum().backward()
            assert torch.equal(out, 2 * y) and torch.equal(x, 2 * y)
            assert torch.equal(y.grad, torch.full((3,), 2.0))
            assert x.grad is None or torch.equal(x.grad, torch.zeros(3))
        assert fg.cache_hits(jitted) == 2
        return
    agree(f, make)


def test_a_leaf_given_twice():
    def f(x, y):
        x.mul_(2)
        return x + y

    jitted = fg.jit(f, leaf_inplace="functional")
    for _ in range(3):
        x = leaf(3)
        before = x.detach().clone()
        out = jitted(x, x)
        out.sum().backward()
        assert torch.equal(out, 4 * before)
        assert torch.equal(x.grad, torch.full((3,), 4.0))
    assert fg.cache_hits(jitted) == 2


def test_a_parameter_of_a_module():
    class Halving(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = torch.nn.Linear(2, 2, bias=False)

        def forward(self, x):
            self.linear.weight.mul_(0.5)
            return self.linear(x)

    module = Halving()
    jitted = fg.jit(module, leaf_inplace="functional")
    x = torch.randn(3, 2)
    for _ in range(3):
        weight = module.linear.weight
        before = weight.detach().clone()
        jitted(x).sum().backward()
        assert torch.equal(weight, before / 2) and weight.is_leaf
        assert torch.allclose(weight.grad, (x.sum(0) / 2).expand(2, 2))
        weight.grad = None
    assert fg.cache_hits(jitted) == 2


def test_double_backward():
    jitted = fg.jit(lambda x: x.pow_(3), leaf_inplace="functional")
    for _ in range(3):
        x = torch.tensor([2.0], requires_grad=True)
        (g,) = torch.autograd.grad(jitted(x).sum(), x, create_graph=True)
        (h,) = torch.autograd.grad(g.sum(), x)
        assert g.item() == 12 and h.item() == 12


def test_an_intermediate_that_is_overwritten_is_eager_s_error():
    def f(x):
        x.mul_(2)
        y = x.sin()
        x.add_(y)
        return x

    jitted = fg.jit(f, leaf_inplace="functional")
    for _ in range(2):
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            jitted(leaf(3)).sum().backward()


def test_one_warning_for_each_call_site():
    def f(x):
        x.mul_(2)
        return x

    with pytest.warns(UserWarning, match=r"test_leaf_inplace.py:\d+: aten.mul_"):
        fg.jit(f, leaf_inplace="functional")(leaf(3))
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fg.jit(f, leaf_inplace="functional")(leaf(3))


def test_error_mode_is_eager():
    def f(x):
        return x.mul_(2)

    jitted = fg.jit(f, leaf_inplace="error")
    for _ in range(3):
        x = torch.ones(3, requires_grad=True)
        with pytest.raises(RuntimeError, match="a leaf Variable that requires grad"):
            jitted(x)
        assert torch.equal(x, torch.ones(3)) and x._version == 0


def test_the_program_raises_after_the_write():
    def f(x):
        x.mul_(2)
        raise KeyError("no")

    x = leaf(2)
    before = x.detach().clone()
    with pytest.raises(KeyError):
        fg.jit(f, leaf_inplace="functional")(x)
    assert x.is_leaf and torch.equal(x, before * 2)
    (x * 3).sum().backward()
    assert torch.equal(x.grad, torch.full((2,), 3.0))


def test_what_cannot_be_made_again_is_an_error():
    with pytest.raises(RuntimeError, match="FG-185"):
        fg.jit(lambda x: iter([x.mul_(2)]), leaf_inplace="functional")(leaf(2))


def test_an_object_with_the_leaf_in_it_is_made_again():
    class Box:
        def __init__(self, x):
            self.x = x

    f = fg.jit(lambda x: Box(x.mul_(2)), leaf_inplace="functional")
    for _ in range(4):
        x = leaf(2)
        before = x.detach().clone()
        box = f(x)
        box.x.sum().backward()
        assert torch.equal(box.x, before * 2) and torch.equal(x.grad, torch.full_like(x, 2.0))
    assert fg.cache_hits(f) >= 2


def test_leaves_made_inside_stay_eager_s_error():
    def f(x):
        w = torch.ones(3, requires_grad=True)
        w.mul_(x)
        return w

    with pytest.raises(RuntimeError, match="a leaf Variable that requires grad"):
        fg.jit(f, leaf_inplace="functional")(torch.ones(3))
