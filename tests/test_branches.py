"""Functions that go another way for other data: a call that leaves one program goes on in another one, with what
was computed so far (src/run/branch_tree.h). Everything is compared with eager, bit by bit."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest
import torch
from torch import Tensor

import fulgurite as fg
from helpers import branching

SEEDS = 100
Call = tuple[Tensor, ...]


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


@pytest.fixture
def heavy() -> Iterator[list[int]]:
    """An executor that runs ``erfc`` and counts its runs, in programs only: [runs]."""
    runs = [0]

    def erfc(x):
        runs[0] += 1
        return torch.erfc(x)

    executor = fg.extend.OperatorExecutor("counting")
    fg.extend.register_executor(executor)
    op = executor.register_operator("erfc", meta=lambda x: torch.empty_like(x), fn=erfc)
    executor.register_implementation("aten.erfc", op)
    yield runs
    fg.extend.deregister_executor(executor)


def counted(f: Callable) -> Any:
    return fg.jit(f, executors=["counting", *fg.extend.get_default_executors()])


RANDOM = (-3.0, -1.5, -0.5, 0.0, 0.5, 1.5, 2.5, 3.5, 5.0)


# ---- the ways that programs go ------------------------------------------------------------------------------
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


@pytest.mark.parametrize(
    "f", [chain, nested, loop, early_exit, raises, numbers, mixed_types, by_size]
)
@pytest.mark.parametrize("grad", [False, True])
def test_ways(f, grad):
    same(f, full(*RANDOM, grad=grad))


@pytest.mark.parametrize("reinplace", [False, True])
def test_a_loop_of_many_lengths(reinplace):
    g = same(loop, full(*(0.15 * 1.6**n for n in range(20))), reinplace=reinplace)
    assert fg.cache_misses(g) <= 20
    assert len(fg._C._entries(g)) == fg.cache_misses(g)


@pytest.mark.no_round_trip
@pytest.mark.parametrize("grad", [False, True])
@pytest.mark.parametrize("start", range(0, SEEDS, 50))
def test_random_ways(start, grad, count):
    for seed in range(start, start + 50):
        source = branching.draw(seed, grad)
        scope: dict[str, Any] = {"torch": torch}
        exec(source, scope)
        g = fg.jit(scope["f"], reinplace=seed % 4 != 3)
        r = torch.Generator().manual_seed(seed)
        calls = [
            tuple((torch.randn(4, generator=r) * 2).requires_grad_(grad) for _ in range(2))
            for _ in range(10)
        ]
        for i in [*range(10), *range(9, -1, -1), *range(0, 10, 3), *range(1, 10, 3), *range(10)]:
            wanted = run(scope["f"], calls[i], i)
            assert_same(run(g, calls[i], i), wanted, f"seed {seed}, call {i}\n{source}")
        count("Random ways", "programs")
        count("Random ways", "calls served", fg.cache_hits(g))
        count("Random ways", "runs that went on in another program", went_on(g))
        for reason in fg.fallbacks(g):
            assert reason.code != "FG-208", f"{reason}\n{source}"
            count("Random ways", f"calls not served: {reason.code}", reason.count)


# ---- the beginning runs once --------------------------------------------------------------------------------
def test_the_common_beginning_runs_once(heavy):
    def f(x):
        y = torch.erfc(x)
        if x[0] > 2:
            return y + 1
        if x[0] > 1:
            return y * 2
        if x[0] > 0:
            return y - 3
        return y / 4

    calls = full(2.5, 1.5, 0.5, -0.5)
    g = counted(f)
    for _ in range(3):
        for call in calls:
            g(*call)
    hits = fg.cache_hits(g)
    for i in (0, 3, 1, 2, 0, 2, 3, 1):
        heavy[0] = 0
        result = g(*calls[i])
        assert heavy == [1]
        assert torch.equal(result, f(*calls[i]))
    assert fg.cache_hits(g) == hits + 8


def test_a_loop_runs_each_round_once(heavy):
    def f(x):
        rounds = 0
        while x.abs().max() > 1:
            x = torch.erfc(x) * 0 + x * 0.5
            rounds += 1
        return x * rounds

    g = counted(f)
    calls = full(*(2.0**n * 0.9 for n in range(1, 13)))
    for _ in range(2):
        for call in calls:
            g(*call)
    hits = fg.cache_hits(g)
    order = [5, 11, 2, 7, 0, 9, 1, 10, 3, 8, 4, 6]
    for i in order:
        heavy[0] = 0
        result = g(*calls[i])
        assert heavy == [i + 1]
        assert torch.equal(result, f(*calls[i]))
    assert fg.cache_hits(g) == hits + len(order)


def test_a_kernel_of_the_beginning_runs_once():
    runs, groups = [0], []

    def fuse(group):
        groups.append(group.ops())

        def kernel(*inputs):
            runs[0] += 1
            return group(*inputs)

        return kernel

    executor = fg.extend.FusionExecutor("fusing_branches", fuse=fuse)
    for op in ("aten.sin", "aten.mul", "aten.add"):
        executor.register_supported(op)

    def f(x):
        y = (x.sin() * x + 1).sin()
        if x.sum() > 2:
            return y * 2 + x
        if x.sum() > 0:
            return y + x * 3
        return (y + 1) * y

    g = fg.jit(f, executors=[executor, *fg.extend.get_default_executors()])
    calls = full(1.0, 0.25, -1.0)
    for _ in range(3):
        for call in calls:
            g(*call)
    hits = fg.cache_hits(g)
    for i in (0, 2, 1, 0, 1, 2):
        runs[0] = 0
        assert torch.equal(g(*calls[i]), f(*calls[i]))
        assert runs == [2], groups  # the beginning's, and that of the way
    assert fg.cache_hits(g) == hits + 6


def test_what_only_one_way_uses_is_computed_there(heavy):
    """The first program does not have the value: dead code goes."""

    def f(x):
        y = torch.erfc(x)
        z = y.sin() * x
        if x.sum() > 0:
            return x + 1
        return y + z

    g = counted(f)
    calls = full(1.0, -1.0)
    for i in (0, 1, 0, 1, 0, 1):
        assert torch.equal(g(*calls[i]), f(*calls[i]))
    g(*calls[0])
    heavy[0] = 0
    g(*calls[0])
    assert heavy == [0]  # nobody wants it
    g(*calls[1])
    assert heavy == [1] and went_on(g) > 0


def test_operators_of_a_loop_are_counted_by_the_profiler():
    g = fg.jit(loop)
    calls = full(*(0.15 * 1.6**n for n in range(8)))
    for _ in range(3):
        for call in calls:
            g(*call)
    order = [3, 7, 0, 5, 1, 6, 2, 4]

    def sines(f: Any) -> int:
        with torch.autograd.profiler.profile(use_kineto=False) as p:
            for i in order:
                f(*calls[i])
        return sum(e.count for e in p.key_averages() if e.key in ("aten::sin", "aten::sin_"))

    hits = fg.cache_hits(g)
    assert sines(g) == sines(loop)
    assert fg.cache_hits(g) == hits + len(order)


# ---- memory -------------------------------------------------------------------------------------------------
def in_place_here_not_there(x):
    y = x * 2
    z = y.sin()  # in place on y where y is not used any more
    if z.sum() > 0:
        return z.mul(3)
    return z + y


def buffers(x):
    table = torch.zeros(4, 4)
    for i in range(4):
        table[i] += x * (i + 1)
    if table.sum() > 0:
        table[0] = 7
        return table
    row = table[1]
    table[1] *= 2
    if row.sum() < -20:
        return table.clone(), row + 1
    return table[2:], row


def views(x):
    y = x.cos()
    v = y[1:3]
    w = v * 2
    if x.sum() > 0:
        v.add_(w)
        return y, w
    if x.sum() < -4:
        return v, y
    y.mul_(v.sum())
    return v + 1, y


def view_of_what_is_gone(x):
    t = x * 2
    v = t[1:3]
    if v.sum() > 0:
        return v * 3  # t is not needed here
    v.add_(1)
    return t


def scattered(x):
    t = x * 2
    w = torch.select_scatter(t, t[1] + 5, 0, 1)  # written into t where t is not used any more
    if x.sum() > 0:
        return w * 2
    return w + t


def argument_before(x):
    x.mul_(2)
    y = x.sin()
    if y.sum() > 0:
        return y
    x.add_(y)
    return x * 3


def argument_after(x):
    y = x.exp()
    if x.sum() > 0:
        x.copy_(y)
        if y.max() > 5:
            x[1:] -= 1
        return y
    x[:2].zero_()
    return x + 1


@pytest.mark.parametrize(
    "f",
    [
        in_place_here_not_there,
        buffers,
        views,
        view_of_what_is_gone,
        scattered,
        argument_before,
        argument_after,
    ],
)
@pytest.mark.parametrize("reinplace", [False, True])
def test_memory(f, reinplace):
    same(f, full(*RANDOM), reinplace=reinplace)


@pytest.mark.parametrize("f", [in_place_here_not_there, views])
def test_memory_with_gradients(f):
    same(f, full(*RANDOM, grad=True))


def test_results_do_not_share_memory_by_accident():
    def f(x):
        a, b = x * 2, x * 2
        if x.sum() > 0:
            return a.sum() + b.sum()
        if x.sum() > -4:
            return a, b
        return b, a, a + b

    g = same(f, full(*RANDOM))
    for v in (1.0, -0.5, 1.0, -2.0, 1.0, -0.5):
        x = torch.full((4,), v)
        out = g(x)
        if isinstance(out, tuple):
            out[0].zero_()
            assert torch.equal(out[1], x * 2)


# ---- random numbers -----------------------------------------------------------------------------------------
def random_before(x):
    y = torch.nn.functional.dropout(x, 0.5)
    if y.sum() > 3:
        return y + torch.rand(4)
    z = torch.randn(4)
    if z.sum() > 0:
        return y * z
    return y - z + torch.rand(4)


def random_kept_by_one(x):
    noise = torch.rand(4)
    y = noise.sin() + x
    if y.sum() > 3:
        return y
    return y * noise + torch.rand(4)


def random_raises(x):
    noise = torch.rand(4)
    if (noise + x).sum() > 4:
        raise ValueError("too large")
    return torch.rand(4) + noise


@pytest.mark.parametrize("f", [random_before, random_kept_by_one, random_raises])
@pytest.mark.parametrize("grad", [False, True])
def test_random_numbers(f, grad):
    if f is random_raises:
        grad = False
    same(f, full(*RANDOM, *RANDOM, *RANDOM, grad=grad), served=0.4, shared=f is not random_raises)


# ---- gradients ----------------------------------------------------------------------------------------------
class Model(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.begin = torch.nn.Linear(4, 8)
        self.left = torch.nn.Linear(8, 8)
        self.right = torch.nn.Linear(8, 8)
        self.end = torch.nn.Linear(8, 2)

    def forward(self, x):
        h = self.begin(x).relu()
        if x.mean() > 0:
            h = self.left(h).tanh()
            if h.mean() > 0.05:
                h = h * h.detach().max()
        else:
            h = h + self.right(h).sigmoid() * h
        return self.end(h).square().mean()


def test_training():
    torch.manual_seed(0)
    eager, compiled = Model(), Model()
    compiled.load_state_dict(eager.state_dict())
    g = fg.jit(compiled)
    optimizers = [torch.optim.SGD(m.parameters(), 0.1) for m in (eager, compiled)]
    for i in range(40):
        x = torch.randn(5, 4)
        x += 1.0 if i * 7 % 3 else -1.0
        for f, optimizer in zip((eager, g), optimizers, strict=True):
            optimizer.zero_grad(set_to_none=i > 20)
            f(x).backward()
        for p, q in zip(eager.parameters(), compiled.parameters(), strict=True):
            assert (p.grad is None) == (q.grad is None)
            assert p.grad is None or torch.equal(p.grad, q.grad)
        for optimizer in optimizers:
            optimizer.step()
    assert went_on(g) > 0 and fg.cache_hits(g) > 25


def test_the_beginning_of_a_model_runs_once():
    torch.manual_seed(0)
    layers = [torch.nn.Linear(4, 4), torch.nn.LayerNorm(4), torch.nn.GELU(), torch.nn.Dropout(0.1)]
    begin, end = torch.nn.Sequential(*layers), torch.nn.Linear(4, 4)

    def f(x):
        h = begin(x)
        if x[0, 0] > 1:
            h = end(h).relu()
        elif x[0, 0] > 0:
            h = h + end(h).sigmoid() * h
        return h.square().mean()

    g = fg.jit(f)
    inputs = [torch.full((3, 4), v) for v in (2.0, 0.5, -1.0)]
    for _ in range(3):
        for x in inputs:
            g(x).backward()

    def operators(h: Any) -> dict[str, int]:
        with torch.autograd.profiler.profile(use_kineto=False) as p:
            for x in inputs:
                h(x)
        wanted = ("aten::addmm", "aten::native_layer_norm", "aten::gelu", "aten::bernoulli_")
        return {e.key: e.count for e in p.key_averages() if e.key in wanted}

    hits = fg.cache_hits(g)
    assert operators(g) == operators(f)
    assert fg.cache_hits(g) == hits + 3


def test_second_gradients():
    def f(x):
        y = (x * x).sin()
        if x.sum() > 0:
            return (y * x).sum()
        return (y + x.exp()).sum()

    g = fg.jit(f)
    for i in range(12):
        v = (1.0, -1.0, 0.5)[i % 3]
        found = []
        for h in (f, g):
            x = torch.full((3,), v, requires_grad=True)
            (first,) = torch.autograd.grad(h(x), x, create_graph=True)
            found.append((first, torch.autograd.grad(first.sum(), x)[0]))
        assert_same(found[1], found[0], str(v))
    assert went_on(g) > 0


def test_a_saved_value_that_is_overwritten_is_noticed():
    def f(x):
        y = x.exp()
        if x.sum() > 0:
            return y * 1
        return y * y

    g = fg.jit(f)
    for v in (1.0, -1.0, 2.0, -2.0, 1.0, -2.0):
        for h in (f, g):
            x = torch.full((3,), v, requires_grad=True)
            w = x.detach().clone().requires_grad_()
            out = h(w)
            out.sum().backward()
            with pytest.raises(
                RuntimeError, match=r"backward through the graph a second time|freed"
            ):
                out.sum().backward()
    assert went_on(g) > 0

    def changed(x, y):
        z = x * y
        return z.sum() if y.sum() > 0 else (z + x * y.sin()).sum()

    g = fg.jit(changed)
    for v in (1.0, -1.0, 2.0, -2.0):
        for h in (changed, g):
            x = torch.ones(3, requires_grad=True)
            y = torch.full((3,), v)
            out = h(x, y)
            y.add_(1)
            with pytest.raises(RuntimeError, match="modified by an inplace operation"):
                out.backward()


class Square(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, k):
        ctx.save_for_backward(x)
        ctx.k = k
        return x * x * k

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return g * x * 2 * ctx.k + 0.125, None


def test_autograd_functions():
    def f(x):
        y = Square.apply(x.sin(), 3.0)
        if y.sum() > 4:
            return Square.apply(y + x, 2.0)
        if x.sum() > 0:
            return y * x
        return Square.apply(x, 0.5) - y.exp()

    same(f, full(*RANDOM, grad=True))


# ---- state --------------------------------------------------------------------------------------------------
class Stateful(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm = torch.nn.BatchNorm1d(4)
        self.other = torch.nn.BatchNorm1d(4)
        self.calls, self.ways = 0, []

    def forward(self, x):
        self.calls += 1
        y = self.norm(x)
        if x.sum() > 0:
            self.ways.append("up")
            y = self.other(y)
            if x.max() > 2:
                self.last = y.detach()
        else:
            self.ways.append(self.calls)
        return y.tanh()


def test_state():
    models = [Stateful(), Stateful()]
    models[1].load_state_dict(models[0].state_dict())
    jitted = fg.jit(models[1])
    for i in range(60):
        x = torch.randn(5, 4) + (i * 7 % 3 - 1)
        found = []
        for f, m in zip((models[0], jitted), models, strict=True):
            m.zero_grad()
            f(x).square().sum().backward()
            state = {**m.state_dict(), "last": getattr(m, "last", torch.zeros(()))}
            grads = [p.grad for p in m.parameters() if p.grad is not None]
            found.append([m.calls, list(m.ways), list(state.values()), Gradients(grads)])
        assert_same(found[1], found[0], f"{i} {fg.explain(jitted)}")
    assert fg.cache_hits(jitted) > 40 and went_on(jitted) > 5, fg.explain(jitted)


def test_a_step_that_looks_at_its_loss():
    torch.manual_seed(0)
    start = torch.nn.Linear(4, 4)

    def make():
        model = torch.nn.Linear(4, 4)
        model.load_state_dict(start.state_dict())

        def step(x):
            loss = model(x).square().mean()
            model.weight.grad = None
            loss.backward()
            with torch.no_grad():
                if loss > 2:
                    model.weight.sub_(model.weight.grad, alpha=0.01)
                elif model.weight.grad.norm() > 0.5:
                    model.weight.mul_(0.99).sub_(model.weight.grad * 0.1)
                else:
                    model.weight.add_(torch.randn_like(model.weight) * 0.1)
            return loss.detach()

        return model, step

    (a, eager), (b, compiled) = make(), make()
    g = fg.jit(compiled)
    for i in range(60):
        x = torch.randn(3, 4, generator=torch.Generator().manual_seed(i)) * (0.5 + i * 7 % 5)
        for f in (eager, g):
            torch.manual_seed(i)
            found = f(x)
        assert_same(b.weight.detach(), a.weight.detach(), f"{i} {fg.explain(g)}")
        assert_same(b.weight.grad, a.weight.grad, f"{i}")
        assert found.shape == ()
    assert fg.cache_hits(g) > 45 and went_on(g) > 5, fg.explain(g)


def test_arguments_that_share_memory():
    def f(x, y):
        x.add_(1)
        z = y * 2
        if z.sum() > 0:
            y.mul_(z)
            return x + 1
        if z.sum() < -4:
            x.zero_()
        return z + x.sum()

    def shared(base):
        return f(base, base[1:])

    same(shared, full(*RANDOM))
    g = fg.jit(f)
    for i in range(3):
        for (x,) in full(*RANDOM):
            for views in (lambda t: (t, t[1:]), lambda t: (t[:3], t[1:]), lambda t: (t, t)):
                found = []
                for h in (f, g):
                    base = x.clone()
                    found.append([h(*views(base)), base])
                assert_same(found[1], found[0], f"{i}")
    assert went_on(g) > 0


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode, torch.enable_grad])
def test_modes(mode):
    g = fg.jit(chain)
    for _ in range(3):
        for (x,) in full(*RANDOM):
            with mode():
                assert_same(g(x), chain(x), str(mode))
    assert went_on(g) > 0

    def mixed(x):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            y = torch.outer(x, x) @ torch.outer(x, x)
        if y.sum() > 10:
            return y.float() + 1
        return y.sin()

    same(mixed, full(*RANDOM))


# ---- guards -------------------------------------------------------------------------------------------------
FACTOR = 2.0
MODE = "a"


def by_globals(x):
    y = x.sin()
    if x.sum() > 0:
        return y * FACTOR if MODE == "a" else y + 1
    if MODE == "b":
        return y - FACTOR
    return y - 1


def test_what_a_branch_reads_is_guarded_where_it_is_read(monkeypatch):
    g = fg.jit(by_globals)

    def both():
        for v in (1.0, -1.0, 1.0, -1.0):
            x = torch.full((3,), v)
            assert torch.equal(g(x), by_globals(x))

    both()
    for factor, mode in ((3.0, "a"), (3.0, "b"), (2.0, "b"), (2.0, "a"), (3.0, "b")):
        monkeypatch.setitem(globals(), "FACTOR", factor)
        monkeypatch.setitem(globals(), "MODE", mode)
        both()
    hits = fg.cache_hits(g)
    both()
    assert fg.cache_hits(g) == hits + 4 and went_on(g) > 0


def test_the_guards_of_many_branches_are_checked_once(monkeypatch):
    def f(x):
        k = int(x[0])
        y = x * 2 if MODE == "a" else x * 3
        for i in range(6):
            if k == i:
                return y + i
        return y

    g = fg.jit(f)
    calls = full(*range(7))
    for _ in range(2):
        for call in calls:
            assert torch.equal(g(*call), f(*call))
    checks = [e["checks"] for e in fg._C._entries(g)]
    hits = fg.cache_hits(g)
    for call in calls:
        g(*call)
    assert fg.cache_hits(g) == hits + 7
    # Each call checked all that one program reads, and no second one.
    assert sum(e["checks"] for e in fg._C._entries(g)) == sum(checks) + 7
    checks = [e["checks"] for e in fg._C._entries(g)]
    monkeypatch.setitem(globals(), "MODE", "b")
    assert torch.equal(g(*calls[0]), f(*calls[0]))
    assert sum(e["checks"] for e in fg._C._entries(g) if e["hits"]) == sum(checks) + 1


def test_another_argument_of_the_same_shape():
    """Inputs that differ from call to call: the second program has the call's own."""

    class Holder:
        def __init__(self, v):
            self.w = torch.full((3,), v)

    def f(x, holder):
        y = x * holder.w
        if y.sum() > 0:
            return y + holder.w
        return y - x

    g = fg.jit(f)
    for i in range(24):
        holder, x = Holder(float(i % 5) - 2), torch.full((3,), float(i % 7) - 3)
        assert torch.equal(g(x, holder), f(x, holder)), i


# ---- bounds -------------------------------------------------------------------------------------------------
def test_a_tree_is_bounded():
    def f(x):
        n = 0
        while x.max() > 0:
            x = x - 1
            n += 1
        return x + n

    g = fg.jit(f, max_branches=4)
    for round_ in range(40):
        for n in range(12):
            x = torch.full((2,), float(n + round_ % 2))
            assert torch.equal(g(x), f(x))
    assert len(fg._C._entries(g)) <= 4
    found = [r for r in fg.fallbacks(g) if r.code == "FG-213"]
    assert len(found) == 1 and found[0].count > 10
    assert "max_branches" in found[0].reason and "test_branches.py" in found[0].reason
    assert fg.cache_hits(g) > 0
    with pytest.raises(fg.CompileError, match="FG-213"):
        strict = fg.jit(f, max_branches=2, fullgraph=True)
        for n in range(4):
            strict(torch.full((2,), float(n)))


def test_a_full_tree_follows_the_data():
    def f(x):
        n = 0
        while x.max() > 0:
            x = x - 1
            n += 1
        return x + n

    g = fg.jit(f, max_branches=3)
    for n in (0, 1, 2):
        g(torch.full((2,), float(n)))
    for _ in range(80):
        g(torch.full((2,), 9.0))
    hits = fg.cache_hits(g)
    g(torch.full((2,), 9.0))
    assert fg.cache_hits(g) == hits + 1


def test_programs_that_are_gone_are_not_gone_on_in():
    g = fg.jit(chain)
    calls = full(*RANDOM)
    for i in range(4):
        for call in calls:
            assert torch.equal(g(*call), chain(*call))
        if i == 1:
            fg._C._clear(g)


# ---- threads ------------------------------------------------------------------------------------------------
def test_two_threads():
    g = fg.jit(loop)
    calls = full(*(0.15 * 1.7**n for n in range(12)))
    wanted = [loop(*call) for call in calls]
    wrong: list[str] = []

    def work(seed: int) -> None:
        generator = random.Random(seed)
        for _ in range(200):
            i = generator.randrange(len(calls))
            y, n = g(*calls[i])
            if n != wanted[i][1] or not torch.equal(y, wanted[i][0]):
                wrong.append(f"call {i}")

    threads = [threading.Thread(target=work, args=(s,)) for s in range(2)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong
    assert fg.cache_hits(g) > 300


# ---- what is said about it ----------------------------------------------------------------------------------
def test_explain_shows_the_tree():
    g = same(chain, full(*RANDOM))
    text = str(fg.explain(g))
    assert "branches on data" in text and "test_branches.py" in text, text
    assert text.count("True: program") + text.count("False: program") == len(fg._C._entries(g)), (
        text
    )
