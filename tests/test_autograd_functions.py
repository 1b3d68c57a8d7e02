"""Custom autograd.Functions in compiled programs: values, gradients, graph and memory are eager's."""

from __future__ import annotations

import copy

import pytest
import torch
from torch.autograd import Function

import fulgurite as fg
from helpers.functions import (
    F64,
    AsIs,
    Cube,
    Detached,
    Double_,
    Exp,
    Exp_,
    Materialized,
    Needs,
    Nested,
    NoGradient,
    Pieces,
    Reverse,
    Scale,
    SortWithIndices,
    Split,
    StraightThrough,
    WithInfo,
    check,
    leaf,
)

PROGRAMS = {
    "one": lambda x: Cube.apply(x),
    "between operators": lambda x: Cube.apply(x.sin()).cos().sum(),
    "saved output": lambda x: Exp.apply(x * 2) + x,
    "attributes": lambda x: Scale.apply(x, 2.5).sum(),
    "a view with a factor": lambda x: Reverse.apply(x.sin(), 0.3).exp(),
    "a returned view": lambda x: Reverse.apply(x, 2.0),
    "straight through": lambda x: StraightThrough.apply(x * 3).sin(),
    "two results": lambda x: Split.apply(x, x.cos()),
    "one of two results": lambda x: Split.apply(x, x.cos(), 3)[1].sum(),
    "integers": lambda x: SortWithIndices.apply(x.sin()),
    "a float without gradient": lambda x: Detached.apply(x * 2),
    "some are None": lambda x: Materialized.apply(x.sin())[1].sin(),
    "all are there": lambda x: sum(Materialized.apply(x)),
    "needs": lambda x: Needs.apply(x, x.detach() * 2, True),
    "no tensors": lambda x: WithInfo.apply(x, 3),
    "no gradient for one": lambda x: NoGradient.apply(x, x.exp()),
    "nested": lambda x: Nested.apply(x * 2).sum(),
    "pieces": lambda x: Pieces.apply(x.sin()).exp(),
    "a returned piece": lambda x: Pieces.apply(x),
    "as it is": lambda x: AsIs.apply(x),
    "as it is, in the middle": lambda x: AsIs.apply(x.sin()) * x,
    "in place": lambda x: Double_.apply(x.sin()).cos(),
    "in place on an argument": lambda x: Double_.apply(x),
    "in place, saved": lambda x: Exp_.apply(x.sin()),
    "in place, then a view": lambda x: Double_.apply(x.sin())[1:],
    "twice": lambda x: Cube.apply(Cube.apply(x)) + Cube.apply(x),
    "a chain": lambda x: Reverse.apply(Exp.apply(Scale.apply(Cube.apply(x * 0.1), 0.5)), 1.5),
    "a diamond": lambda x: Split.apply(Cube.apply(x), Exp.apply(x * 0.1))[0] * Exp.apply(x * 0.1),
    "many results": lambda x: (Cube.apply(x), x.sin(), Exp.apply(x.sin()), x.sin() * 2),
    "written afterwards": lambda x: Scale.apply(x, 2.0).add_(1).mul_(x),
    "a view, written afterwards": lambda x: Scale.apply(x, 2.0)[1:].mul_(3),
    "as it is, of what was written": lambda x: (h := (x * 2).add_(1), AsIs.apply(h), h[1:]),
    "unused": lambda x: (Cube.apply(x), x * 2)[1],
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs_are_served_and_like_eager(name: str) -> None:
    check(PROGRAMS[name], leaf(2, 3))


@pytest.mark.parametrize("name", PROGRAMS)
def test_without_grad_they_are_operators(name: str) -> None:
    def f(x):
        with torch.no_grad():
            return PROGRAMS[name](x)

    check(f, leaf(2, 3), double=False)
    check(PROGRAMS[name], leaf(2, 3).detach(), double=False)


def test_results_that_require_grad_without_depending_on_a_leaf() -> None:
    def f(x):
        with torch.no_grad():
            view = x.view(-1)  # of a leaf: it requires grad, and has no history
        return view * 2, Cube.apply(x)

    g = fg.jit(f)
    for _ in range(3):
        for a, b in zip(g(leaf(2, 2)), f(leaf(2, 2)), strict=True):
            assert (a.requires_grad, a.is_leaf) == (b.requires_grad, b.is_leaf)
            torch.testing.assert_close(a, b)
    assert fg.cache_hits(g) == 2, fg.explain(g)


def test_only_what_requires_grad_gets_a_gradient() -> None:
    def f(x, w):
        return Needs.apply(x, w, True).sum()

    x, w = leaf(3), leaf(3, seed=1)
    check(f, x, w)
    check(f, x, w.detach())
    check(f, x.detach(), w)


# ---- what the context keeps
class Keeper(Function):
    @staticmethod
    def forward(ctx, x, config):
        half = x * 0.5
        ctx.config = config
        ctx.input, ctx.intermediate = x, half
        ctx.things = {"list": [half, 3, None], "tuple": (x.shape, torch.float64)}
        ctx.again = ctx.things["list"]
        return half * config["factor"]

    @staticmethod
    def backward(ctx, g):
        assert ctx.again is ctx.things["list"] and ctx.again[0] is ctx.intermediate
        assert ctx.things["tuple"] == (ctx.input.shape, torch.float64)
        return g * ctx.config["factor"] * ctx.intermediate * ctx.input, None


def test_attributes_of_the_context() -> None:
    config = {"factor": 3.0}

    def f(x):
        return Keeper.apply(x.sin(), config).sum()

    g = check(f, leaf(3))
    x, y = leaf(3), leaf(3)
    a, b = f(x), g(y)
    config["factor"] = 5.0  # the forward has read it, and backward will
    a.backward(), b.backward()
    torch.testing.assert_close(x.grad, y.grad)
    check(f, leaf(3))


class Layer(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(3, 3, dtype=F64)
        self.alpha = 0.5

    def forward(self, x):
        return Reverse.apply(self.linear(x).tanh(), self.alpha)


def test_functions_in_modules() -> None:
    model = torch.nn.Sequential(Layer(), Layer())
    twin = copy.deepcopy(model)
    jitted = fg.jit(twin)
    for step in range(6):
        if step == 3:
            model[0].alpha = twin[0].alpha = 2.0
        x, y = leaf(2, 3, seed=step), leaf(2, 3, seed=step)
        for m, t in ((model, x), (jitted, y)):
            m(t).square().sum().backward()
        torch.testing.assert_close(y.grad, x.grad)
        for p, q in zip(model.parameters(), twin.parameters(), strict=True):
            torch.testing.assert_close(q.grad, p.grad)
    assert fg.cache_hits(jitted) >= 3, fg.explain(jitted)


def test_a_factor_that_differs_in_each_call() -> None:
    class Model(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.alpha = 0.0

        def forward(self, x, beta):
            return Reverse.apply(Reverse.apply(x.sin(), self.alpha).exp(), beta)

    model = Model()
    g = fg.jit(model)
    for i in range(12):
        model.alpha = 2 / (1 + i)
        x, y = leaf(3), leaf(3)
        model(x, 0.1 * i).sum().backward()
        g(y, 0.1 * i).sum().backward()
        torch.testing.assert_close(y.grad, x.grad)
    assert fg.cache_hits(g) >= 8, fg.explain(g)


# ---- PyTorch's own list
def database() -> dict:
    from torch.testing._internal.autograd_function_db import autograd_function_db

    return {info.name: info for info in autograd_function_db}


# Their forwards compute in numpy, which no recorder sees.
NUMPY = {
    "NumpyCubeAutogradFunction",
    "NumpyMulAutogradFunction",
    "NumpyMulScalarAutogradFunction",
    "NumpyExpMarkDirtyAutogradFunction",
    "NumpySortAutogradFunction",
    "NumpyTakeAutogradFunction",
    "NumpyCubeNotComposableAutogradFunction",
}


@pytest.mark.parametrize("name", database())
def test_autograd_function_db(name: str) -> None:
    info = database()[name]
    once = "NotComposable" in name
    for sample in info.sample_inputs("cpu", F64, requires_grad=True):

        def f(*args, sample=sample):
            return info.op(*args, **sample.kwargs)

        check(f, sample.input, *sample.args, double=not once, hits=0 if name in NUMPY else None)
