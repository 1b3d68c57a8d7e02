"""Functions that branch on data, and write memory, draw random numbers, have gradients and change state (compare
test_branches.py)."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import fulgurite as fg
from helpers.ways import RANDOM, Gradients, assert_same, chain, full, same, went_on


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


def scattered_and_asked(x):
    t = x * 2
    w = torch.select_scatter(t, t[1] + 5, 0, 1)
    if w.sum() > 0:  # of another value for each program: one writes it into t
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
        scattered_and_asked,
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
