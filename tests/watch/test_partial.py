"""A function that cannot be compiled whole: what it calls is compiled on its own."""

import random
import time

import pytest
import torch
import torch.nn as nn
import torch.nn.functional as F

import fulgurite as fg


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(4, 8), nn.Linear(8, 4)

    def forward(self, x, *, scale=1.0):
        return self.b(F.gelu(self.a(x))) * scale


class Noisy(nn.Module):
    """Its own code does what cannot be compiled."""

    def __init__(self, act):
        super().__init__()
        self.first, self.second = Block(), Block()
        self.act = act
        self.seen = []

    def forward(self, x):
        y = self.first(x)
        self.act(self)
        return self.second(y, scale=2.0).sum() + helper(y)


def helper(y, k=3):
    return (y * k).relu().mean() + y.sum()


ACTS = {
    "print": lambda m: print(object(), end=""),
    "time": lambda m: m.seen.append(time.time() > 0),
    "random": lambda m: m.seen.append(random.random() < 2),
    "logging": lambda m: __import__("logging").getLogger("fulgurite.test").debug("x"),
    "file": lambda m: open("/dev/null").close(),
    "unknown": lambda m: m.seen.append(len(torch.__config__.show()) > 0),
}


def parts(f):
    return {type(p.__wrapped__).__name__ if isinstance(p.__wrapped__, nn.Module) else p.__wrapped__.__name__: p
            for p in fg.parts(f)}  # fmt: skip


@pytest.mark.parametrize("act", [a for a in ACTS if a != "logging"])
def test_parts_are_compiled_and_used(act):
    torch.manual_seed(0)
    m = Noisy(ACTS[act])
    f = fg.jit(lambda x: m(x))
    for i in range(12):
        x = torch.full((2, 4), float(i), requires_grad=True)
        y = x.detach().requires_grad_()
        m.zero_grad()
        f(x).backward()
        found = [p.grad.clone() for p in m.parameters()]
        m.zero_grad()
        m(y).backward()
        torch.testing.assert_close(x.grad, y.grad)
        for a, b in zip(found, [p.grad for p in m.parameters()], strict=True):
            torch.testing.assert_close(a, b)
    assert fg.cache_hits(f) == 0 and fg.fallbacks(f)
    assert {"Block", "helper"} <= set(parts(f))
    assert all(fg.cache_hits(p) > 0 for p in parts(f).values())
    assert "compiled on its own: helper" in fg.explain(f)


def test_effects_around_parts_happen_once(capsys):
    m = Noisy(lambda m: print("hello"))
    f = fg.jit(lambda x: m(x))
    for _ in range(10):
        f(torch.ones(2, 4))
    assert capsys.readouterr().out == "hello\n" * 10


def test_nothing_visible_changes():
    m = Noisy(ACTS["print"])
    before = (
        nn.Module.__call__,
        Block.forward,
        helper.__code__,
        dict(m.__dict__),
        vars(m.first).copy(),
    )
    f = fg.jit(lambda x: m(x))
    for _ in range(10):
        f(torch.ones(2, 4))
    after = (
        nn.Module.__call__,
        Block.forward,
        helper.__code__,
        dict(m.__dict__),
        vars(m.first).copy(),
    )
    assert [str(a) for a in before] == [str(a) for a in after]
    assert fg.parts(f)


def test_hooks_on_parts_run():
    m, calls = Noisy(ACTS["print"]), []
    f = fg.jit(lambda x: m(x))
    x = torch.ones(2, 4)
    for _ in range(6):
        f(x)
    handle = m.first.register_forward_hook(lambda *a: calls.append(1))
    f(x)
    assert calls == [1]
    handle.remove()
    assert torch.equal(f(x), m(x)) and calls == [1]


def test_exceptions_in_parts_come_through():
    class Picky(nn.Module):
        def forward(self, x):
            return x @ torch.ones(4, 4) + 1

    p = Picky()

    def g(x):
        print(object(), end="")
        return p(x)

    f = fg.jit(g)
    for _ in range(6):
        f(torch.ones(2, 4))
    with pytest.raises(RuntimeError, match="shapes cannot be multiplied"):
        f(torch.ones(2, 5))
    assert torch.equal(f(torch.ones(2, 4)), g(torch.ones(2, 4)))


def test_parts_of_parts():
    inner = Block()

    class Middle(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = inner

        def forward(self, x):
            print(object(), end="")
            return self.inner(x) + 1

    middle = Middle()

    def g(x):
        time.time()
        return middle(x) * 2

    f = fg.jit(g)
    for i in range(8):
        x = torch.full((2, 4), float(i))
        torch.testing.assert_close(f(x), g(x))
    assert "Block" in parts(f)


def test_generators_and_keywords_and_defaults():
    def scaled(x, *rest, k=2, **more):
        for r in rest:
            x = x + r
        return (x * k + more.get("bias", 0)).relu() * 3

    def g(x):
        print(object(), end="")
        return scaled(x) + scaled(x, x, x, k=5) + scaled(x, bias=x)

    f = fg.jit(g)
    for i in range(10):
        x = torch.full((2, 4), float(i))
        assert torch.equal(f(x), g(x))
    assert "scaled" in parts(f)


def test_a_function_that_is_fine_has_no_parts():
    m = Block()
    f = fg.jit(lambda x: m(x))
    for _ in range(4):
        f(torch.ones(2, 4))
    assert fg.parts(f) == [] and fg.cache_hits(f) == 3


def test_fullgraph_raises_and_compiles_no_parts():
    m = Noisy(ACTS["print"])
    f = fg.jit(lambda x: m(x), fullgraph=True)
    with pytest.raises(fg.CompileError):
        f(torch.ones(2, 4))
