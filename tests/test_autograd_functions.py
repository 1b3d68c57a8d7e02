"""Custom autograd.Functions in compiled programs: values, gradients, graph, memory and errors are eager's."""

from __future__ import annotations

import copy
from collections.abc import Callable

import pytest
import torch
from torch.autograd import Function
from torch.autograd.function import once_differentiable

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


def served(f: Callable, *args) -> Callable:
    g = fg.jit(f)
    for _ in range(2):
        g(*args)
    assert fg.cache_hits(g) == 1, fg.explain(g)
    return g


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


def test_create_graph_through_random_numbers_raises() -> None:
    def f(x):
        return Cube.apply(torch.nn.functional.dropout(x.sin(), 0.5))

    g = served(f, leaf(8))
    x, y = leaf(8), leaf(8)
    torch.manual_seed(0)
    a = f(x)
    torch.manual_seed(0)
    b = g(y)
    torch.testing.assert_close(
        torch.autograd.grad(a.sum(), x), torch.autograd.grad(b.sum(), y, retain_graph=True)
    )
    with pytest.raises(RuntimeError, match="FG-192"):
        torch.autograd.grad(b.sum(), y, create_graph=True)


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
