"""Backwards of custom autograd.Functions: the user's Python, when it runs; errors; what is refused."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch.autograd import Function
from torch.autograd.function import once_differentiable

import fulgurite as fg
from helpers.functions import (
    F64,
    AsIs,
    Cube,
    Exp,
    Needs,
    StraightThrough,
    assert_same,
    check,
    leaf,
    served,
    tensors,
)

# ---- backward is the user's, when it runs
FACTOR = 2.0


class ReadsGlobal(Function):
    slope = 1.0

    @staticmethod
    def forward(ctx, x):
        return x.clone()

    @staticmethod
    def backward(ctx, g):
        return g * FACTOR * ReadsGlobal.slope


def test_backward_reads_what_is_there_when_it_runs(monkeypatch) -> None:
    g = served(lambda x: ReadsGlobal.apply(x).sum(), leaf(2))
    x = leaf(2)
    y = g(x)
    monkeypatch.setitem(globals(), "FACTOR", 7.0)
    monkeypatch.setattr(ReadsGlobal, "slope", 3.0)
    (grad,) = torch.autograd.grad(y, x, retain_graph=True)
    torch.testing.assert_close(grad, torch.full((2,), 21.0, dtype=F64))
    monkeypatch.setattr(ReadsGlobal, "backward", staticmethod(lambda ctx, g: g * 100))
    (grad,) = torch.autograd.grad(y, x)
    torch.testing.assert_close(grad, torch.full((2,), 100.0, dtype=F64))


CALLS: list[str] = []


class Counted(Function):
    @staticmethod
    def forward(ctx, x, name):
        ctx.name = name
        return x * 2

    @staticmethod
    def backward(ctx, g):
        CALLS.append(f"{ctx.name} {torch.is_grad_enabled()} {g is not None}")
        return g * 2, None


def test_backwards_run_as_often_and_in_the_same_order() -> None:
    def f(x, w):
        a = Counted.apply(x, "a")
        b = Counted.apply(w, "b")
        c = Counted.apply(a.sin() * 2, "c")
        return a * 2, c + b, b.cos(), (x * w).sin(), Counted.apply(c * b, "d")

    g = served(f, leaf(2), leaf(2))
    for k in range(5):
        for create in (False, True):
            runs = []
            for h in (f, g):
                x, w = leaf(2), leaf(2, seed=1)
                CALLS.clear()
                grads = torch.autograd.grad(
                    h(x, w)[k].sum(), (x, w), create_graph=create, allow_unused=True
                )
                runs.append((list(CALLS), grads))
            assert sorted(runs[0][0]) == sorted(runs[1][0])
            assert_same(runs[1][1], runs[0][1])
    x, w = leaf(2), leaf(2, seed=1)
    CALLS.clear()
    torch.autograd.grad(g(x, w)[1].sum(), w)  # c has no path from w
    assert CALLS == ["b False True"]


class Once(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x**2

    @staticmethod
    @once_differentiable
    def backward(ctx, g):
        return 2 * g * ctx.saved_tensors[0]


def error_of(run: Callable) -> str:
    with pytest.raises(Exception) as caught:  # noqa: PT011 (what it is, is compared)
        run()
    return f"{type(caught.value).__name__}: {caught.value}"


def test_once_differentiable_raises_eagers_error() -> None:
    def f(x):
        return (Once.apply(x.sin()) * x).sum()

    errors = []
    for h in (f, served(f, leaf(2))):
        x = leaf(2)
        (g,) = torch.autograd.grad(h(x), x, create_graph=True)
        errors.append(error_of(lambda g=g: g.sum().backward()))
    assert errors[0] == errors[1]
    assert "once_differentiable" in errors[0]


class Wrong(Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, g):
        return g, g


class Raises(Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, g):
        raise KeyError("in backward")


@pytest.mark.parametrize("function", [Wrong, Raises])
def test_errors_of_backward(function: type) -> None:
    def f(x):
        return function.apply(x.sin()).sum()

    assert error_of(lambda: served(f, leaf(2))(leaf(2)).backward()) == error_of(
        lambda: f(leaf(2)).backward()
    )


def test_what_is_written_between_forward_and_backward() -> None:
    def f(x, w):
        return Needs.apply(x, w, True), Exp.apply(x.sin())

    def write(h: Callable, what: str) -> str:
        x, w = leaf(3), leaf(3, seed=1) * 1
        product, e = h(x, w)
        with torch.no_grad():
            {"w": w, "e": e, "product": product}[what].add_(1)
        return error_of(lambda: (product.sum() + e.sum()).backward()).split("[")[0]

    g = served(f, leaf(3), leaf(3) * 1)
    for what in ("w", "e"):
        assert write(g, what) == write(f, what)
        assert "inplace operation" in write(g, what)


def test_a_view_of_an_argument_that_is_saved_has_its_version() -> None:
    def f(x):
        return Cube.apply(x.view(-1)).sum()

    g = served(f, leaf(2, 2) * 1)
    for h in (f, g):
        x = leaf(2, 2) * 1
        y = h(x)
        with torch.no_grad():
            x.mul_(2)
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            y.backward()


def test_backward_twice() -> None:
    def f(x):
        return Cube.apply(x.sin()).sum()

    def twice(h: Callable) -> str:
        y = h(leaf(2))
        y.backward()
        return error_of(y.backward)

    assert twice(served(f, leaf(2))) == twice(f)
    y = served(f, leaf(2))(x := leaf(2))
    y.backward(retain_graph=True)
    once = x.grad.clone()
    y.backward()
    torch.testing.assert_close(x.grad, 2 * once)


def test_writing_an_input_that_was_returned_is_eagers_error() -> None:
    def f(x):
        y = AsIs.apply(x)
        y.add_(1)
        return y

    g = fg.jit(f)
    for _ in range(3):
        assert error_of(lambda: g(leaf(3) * 1)) == error_of(lambda: f(leaf(3) * 1))
    h = served(AsIs.apply, leaf(3) * 1)
    assert error_of(lambda: h(leaf(3) * 1).add_(1)) == error_of(
        lambda: AsIs.apply(leaf(3) * 1).add_(1)
    )


def test_hooks_on_the_node() -> None:
    g = served(lambda x: Cube.apply(x.sin()), leaf(3))
    seen = []
    x = leaf(3)
    y = g(x)
    y.grad_fn.register_hook(lambda gi, go: seen.append((gi[0].clone(), go[0].clone())))
    y.grad_fn.register_prehook(lambda go: (go[0] * 2,))
    y.sum().backward()
    torch.testing.assert_close(seen[0][1], torch.full((3,), 2.0, dtype=F64))
    torch.testing.assert_close(seen[0][0], 2 * 4.5 * x.detach().sin() ** 2)


# ---- autograd inside
class Checkpoint(Function):
    @staticmethod
    def forward(ctx, run, x, w):
        ctx.run = run
        ctx.save_for_backward(x, w)
        return run(x, w)

    @staticmethod
    def backward(ctx, g):
        inputs = [t.detach().requires_grad_() for t in ctx.saved_tensors]
        with torch.enable_grad():
            out = ctx.run(*inputs)
        return None, *torch.autograd.grad(out, inputs, g)


def block(x, w):
    return torch.tanh(x @ w) @ w


def test_a_checkpoint_runs_autograd_in_its_backward() -> None:
    def f(x, w):
        return Checkpoint.apply(block, Checkpoint.apply(block, x, w), w).sum()

    check(f, leaf(3, 3), leaf(3, 3, seed=1), double=False)


def test_a_training_step_with_functions() -> None:
    def step(w, x):
        loss = (StraightThrough.apply(Cube.apply(x * w)) - x).square().mean()
        (grad,) = torch.autograd.grad(loss, w)
        with torch.no_grad():
            w.sub_(0.1 * grad)
        return loss.detach()

    g = fg.jit(step)
    w, v = leaf(4), leaf(4)
    for i in range(4):
        x = leaf(4, seed=i).detach()
        torch.testing.assert_close(g(v, x), step(w, x))
        torch.testing.assert_close(v, w)
    assert fg.cache_hits(g) == 3, fg.explain(g)


def test_gradcheck_through_functions() -> None:
    class Sine(Function):
        @staticmethod
        def forward(ctx, x, w):
            ctx.save_for_backward(x, w)
            return x.sin() * w

        @staticmethod
        def backward(ctx, g):
            x, w = ctx.saved_tensors
            return g * x.cos() * w, g * x.sin()

    g = served(lambda x, w: Sine.apply(Exp.apply(x * w), x) * w, leaf(3), leaf(3))
    torch.autograd.gradcheck(g, (leaf(3), leaf(3, seed=1)))
    torch.autograd.gradgradcheck(g, (leaf(3), leaf(3, seed=1)))


def test_create_graph_where_one_input_depends_on_another() -> None:
    def f(x, y):
        return (x * y).sin().sum()

    g = served(f, leaf(3), leaf(3) * 2)
    for h in (f, g):
        x = leaf(3)
        first = torch.autograd.grad(h(x, x * 2), x, create_graph=True)[0]
        second = torch.autograd.grad(first.sum(), x)[0]
        s = 2 * x.detach() ** 2
        torch.testing.assert_close(first.detach(), 4 * x.detach() * s.cos())
        torch.testing.assert_close(second, 4 * s.cos() - 16 * x.detach() ** 2 * s.sin())


# ---- what is refused says why
class SavesShared(Function):
    @staticmethod
    def forward(ctx, x):
        y = x * 2
        ctx.save_for_backward(y.view(-1))
        return y

    @staticmethod
    def backward(ctx, g):
        return g * ctx.saved_tensors[0].view(g.shape)


class Twins(Function):
    @staticmethod
    def forward(ctx, x):
        y = x * 2
        return y, y.view(-1)

    @staticmethod
    def backward(ctx, a, b):
        return a + b.view(a.shape)


def returns_what_it_wrote(x):
    x.add_(1)
    return AsIs.apply(x)


@pytest.mark.parametrize(
    ("f", "reason"),
    [
        (lambda x: returns_what_it_wrote(x), "FG-191"),
        (lambda x: SavesShared.apply(x), "FG-190"),
        (lambda x: Twins.apply(x), "FG-190"),
        (lambda x: Exp.apply(x * 1).mul_(2), "FG-191"),
    ],
)
def test_what_is_refused_runs_eagerly(f: Callable, reason: str) -> None:
    g = fg.jit(f)
    assert_same(tensors(g(leaf(2, 2) * 1)), tensors(f(leaf(2, 2) * 1)))
    g(leaf(2, 2) * 1)
    assert any(b.code == reason for b in fg.fallbacks(g)), fg.fallbacks(g)
    assert fg.cache_hits(g) == 0


def test_create_graph_through_random_numbers() -> None:
    """The part's backward is differentiated: nothing is drawn again."""

    def f(x):
        return Cube.apply(torch.nn.functional.dropout(x.sin(), 0.5))

    def second(h: Callable, x: torch.Tensor) -> list[torch.Tensor]:
        torch.manual_seed(0)
        (g,) = torch.autograd.grad(h(x).sum(), x, create_graph=True)
        return [g, *torch.autograd.grad(g.pow(2).sum(), x)]

    torch.testing.assert_close(second(served(f, leaf(8)), leaf(8)), second(f, leaf(8)))


def test_create_graph_through_random_numbers_and_intermediate_values_raises() -> None:
    def f(x):
        return Cube.apply(torch.nn.functional.dropout(x.sin(), 0.5) * x.exp())

    g = served(f, leaf(8))
    x, y = leaf(8), leaf(8)
    torch.manual_seed(0)
    a = f(x)
    torch.manual_seed(0)
    b = g(y)
    torch.testing.assert_close(
        torch.autograd.grad(a.sum(), x), torch.autograd.grad(b.sum(), y, retain_graph=True)
    )
    with pytest.raises(RuntimeError, match="FG-181.*drew random numbers"):
        torch.autograd.grad(b.sum(), y, create_graph=True)
