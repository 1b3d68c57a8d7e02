"""Custom autograd.Functions of the usual kinds, and their comparison with eager: values, gradients, graph, memory and versions."""

from __future__ import annotations

import copy
from collections.abc import Callable

import torch
from torch.autograd import Function

import fulgurite as fg

F64 = torch.float64


def leaf(*sizes: int, seed: int = 0) -> torch.Tensor:
    g = torch.Generator().manual_seed(seed)
    return torch.randn(*sizes, dtype=F64, generator=g).requires_grad_()


def tensors(result) -> list[torch.Tensor]:
    items = result if isinstance(result, (tuple, list)) else (result,)
    return [t for t in items if isinstance(t, torch.Tensor)]


def facts(out: torch.Tensor, inputs: list[torch.Tensor], others: list[torch.Tensor]) -> tuple:
    """What a caller can see of a result beside its values."""

    def storage(t):
        return t.untyped_storage().data_ptr()

    # A Function's own node is eager's; the program's other nodes have names of their own, and so has
    # the write-back of an argument (docs/known_differences.md).
    custom = isinstance(out.grad_fn, torch.autograd.function.BackwardCFunction)
    written = any(out is x for x in inputs)
    return (
        out.requires_grad,
        out.is_leaf,
        out.stride(),
        out.grad_fn is not None,
        out.grad_fn.name() if custom and not written else None,
        [storage(out) == storage(x) for x in inputs],
        [storage(out) == storage(x) for x in others],
        [out is x for x in inputs],
    )


def gradients(outs: list[torch.Tensor], inputs: list[torch.Tensor], create_graph: bool = False):
    roots = [o for o in outs if o.requires_grad and o.grad_fn is not None]
    seeds = [o.detach().cos() for o in roots]
    leaves = [x for x in inputs if x.requires_grad]
    if not roots or not leaves:
        return []
    return torch.autograd.grad(roots, leaves, seeds, create_graph=create_graph, allow_unused=True)


def assert_same(found, expected) -> None:
    assert len(found) == len(expected)
    for a, b in zip(found, expected, strict=True):
        if b is None or not isinstance(b, torch.Tensor):
            assert a is None if b is None else a == b
        else:
            torch.testing.assert_close(a.detach(), b.detach(), rtol=1e-12, atol=1e-12)


def run(f: Callable, args: tuple, double: bool) -> tuple:
    """Values, facts, gradients (and second ones) of one call, and the arguments afterwards."""
    inputs = tensors(args)
    # Not a leaf, so that programs may write it.
    args = tuple(a * 1 if isinstance(a, torch.Tensor) and a.requires_grad else a for a in args)
    before = [a._version for a in tensors(args)]
    result = f(*args)
    outs = tensors(result)
    values = [o.detach().clone() for o in outs]
    rest = (
        [x for x in result if not isinstance(x, torch.Tensor)] if isinstance(result, tuple) else []
    )
    seen = [facts(o, tensors(args), outs) for o in outs]
    after = [
        (a.detach().clone(), a._version - version, a.grad_fn is not None)
        for a, version in zip(tensors(args), before, strict=True)
    ]
    first = gradients(outs, inputs, create_graph=double)
    second = []
    if double:
        roots = [g for g in first if g is not None and g.requires_grad]
        second = gradients(roots, inputs) if roots else []
    return values, rest, seen, after, list(first), list(second)


def check(
    f: Callable, *args, calls: int = 3, double: bool = True, hits: int | None = None
) -> Callable:
    """Compiled calls of f are served, and like eager's; the jitted function."""
    jitted = fg.jit(f)
    for i in range(calls):
        fresh = [
            (a.detach() + i).requires_grad_(a.requires_grad)
            if isinstance(a, torch.Tensor) and a.is_floating_point()
            else a
            for a in args
        ]
        again = [copy.deepcopy(a) for a in fresh]
        for want_double in (False, True) if double else (False,):
            expected = run(f, tuple(fresh), want_double)
            found = run(jitted, tuple(again), want_double)
            for part in range(2):
                assert_same(found[part], expected[part])
            assert found[2] == expected[2]
            for a, b in zip(found[3], expected[3], strict=True):
                torch.testing.assert_close(a[0], b[0])
                assert a[1:] == b[1:]
            assert_same(found[4], expected[4])
            assert_same(found[5], expected[5])
    served = calls * (2 if double else 1) - 1
    assert fg.cache_hits(jitted) == (served if hits is None else hits), fg.explain(jitted)
    return jitted


# ---- the usual kinds
class Cube(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x**3

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return 3 * x**2 * g * 1.5  # not the true gradient: it shows whose backward ran


class Exp(Function):
    @staticmethod
    def forward(ctx, x):
        y = x.exp()
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx, g):
        (y,) = ctx.saved_tensors
        return g * y


class Scale(Function):
    @staticmethod
    def forward(ctx, x, k, name="scale"):
        ctx.k = k
        ctx.name = name
        return x * k

    @staticmethod
    def backward(ctx, g):
        assert ctx.name == "scale"
        return g * ctx.k, None, None


class Reverse(Function):
    @staticmethod
    def forward(ctx, x, alpha):
        ctx.alpha = alpha
        return x.view_as(x)

    @staticmethod
    def backward(ctx, g):
        return -ctx.alpha * g, None


class StraightThrough(Function):
    @staticmethod
    def forward(ctx, x):
        return x.round()

    @staticmethod
    def backward(ctx, g):
        return g


class Split(Function):  # setup_context, several outputs and inputs
    @staticmethod
    def forward(x, y, n=2):
        return x + n * y, x * y

    @staticmethod
    def setup_context(ctx, inputs, output):
        x, y, n = inputs
        ctx.save_for_backward(x, y)
        ctx.n = n

    @staticmethod
    def backward(ctx, a, b):
        x, y = ctx.saved_tensors
        return a + b * y, ctx.n * a + b * x, None


class SortWithIndices(Function):
    @staticmethod
    def forward(ctx, x):
        values, indices = x.sort()
        ctx.mark_non_differentiable(indices)
        ctx.save_for_backward(indices)
        return values, indices

    @staticmethod
    def backward(ctx, g, no_gradient):
        (indices,) = ctx.saved_tensors
        return torch.zeros_like(g).scatter(-1, indices, g)


class Detached(Function):  # a float output without gradient
    @staticmethod
    def forward(ctx, x):
        y, mask = x * 2, (x > 0).to(x.dtype)
        ctx.mark_non_differentiable(mask)
        ctx.mask = mask
        return y, mask

    @staticmethod
    def backward(ctx, g, none):
        return 2 * g * ctx.mask


class Materialized(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.set_materialize_grads(False)
        return x * 2, x * 3

    @staticmethod
    def backward(ctx, a, b):
        total = None
        for g, k in ((a, 2), (b, 30)):
            if g is not None:
                total = g * k if total is None else total + g * k
        return total


class Needs(Function):
    @staticmethod
    def forward(ctx, x, w, flag):
        ctx.save_for_backward(x, w)
        ctx.forward_needs = ctx.needs_input_grad
        return x * w if flag else x + w

    @staticmethod
    def backward(ctx, g):
        assert ctx.needs_input_grad == ctx.forward_needs
        x, w = ctx.saved_tensors
        gx = g * w if ctx.needs_input_grad[0] else None
        gw = g * x if ctx.needs_input_grad[1] else None
        return gx, gw, None


class WithInfo(Function):  # results that are no tensors
    @staticmethod
    def forward(ctx, x, n):
        return x * n, n + 1, "text"

    @staticmethod
    def backward(ctx, g, *others):
        assert others == (None, None)
        return g * 5, None


class NoGradient(Function):
    @staticmethod
    def forward(ctx, x, y):
        return x * y

    @staticmethod
    def backward(ctx, g):
        return g, None


class Nested(Function):  # its forward calls Functions, its backward too
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return Cube.apply(x) + Scale.apply(x, 2.0)

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return Scale.apply(g, 3.0) * x.cos()


class Pieces(Function):  # views of its input
    @staticmethod
    def forward(ctx, x):
        ctx.shape = x.shape
        return x.view(-1)[2:]

    @staticmethod
    def backward(ctx, g):
        out = torch.zeros(ctx.shape, dtype=g.dtype).view(-1)
        out[2:] = g
        return out.view(ctx.shape)


class AsIs(Function):
    @staticmethod
    def forward(ctx, x):
        return x

    @staticmethod
    def backward(ctx, g):
        return -g


class Double_(Function):  # in place
    @staticmethod
    def forward(ctx, x):
        x.mul_(2)
        ctx.mark_dirty(x)
        return x

    @staticmethod
    def backward(ctx, g):
        return 20 * g


class Exp_(Function):  # in place, and the result is saved
    @staticmethod
    def forward(ctx, x):
        x.exp_()
        ctx.mark_dirty(x)
        ctx.save_for_backward(x)
        return x

    @staticmethod
    def backward(ctx, g):
        (y,) = ctx.saved_tensors
        return g * y


def served(f: Callable, *args) -> Callable:
    g = fg.jit(f)
    for _ in range(2):
        g(*args)
    assert fg.cache_hits(g) == 1, fg.explain(g)
    return g
