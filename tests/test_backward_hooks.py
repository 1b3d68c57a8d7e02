"""Modules with full backward hooks, compiled: the hooks are the user's Python, and run when eager runs them."""

from __future__ import annotations

import copy
from collections.abc import Callable

import pytest
import torch

import fulgurite as fg

F64 = torch.float64
LOG: list[tuple] = []


def note(name: str, factor: float | None = None) -> Callable:
    def hook(module, grad_input, grad_output):
        LOG.append((name, type(module).__name__, shapes(grad_input), shapes(grad_output)))
        if factor is not None:
            return tuple(g if g is None else g * factor for g in grad_input)
        return None

    return hook


def before(name: str, factor: float | None = None) -> Callable:
    def hook(module, grad_output):
        LOG.append((name, type(module).__name__, shapes(grad_output)))
        return None if factor is None else tuple(g * factor for g in grad_output)

    return hook


def shapes(grads) -> list:
    return [
        None if g is None else (tuple(g.shape), float(g.sum().round(decimals=8))) for g in grads
    ]


class Two(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(3, dtype=F64) * 2)

    def forward(self, x, y):
        return x * self.weight, (x + y).sin()


class Net(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.a = torch.nn.Linear(3, 3, dtype=F64)
        self.two = Two()
        self.b = torch.nn.Linear(3, 2, dtype=F64)

    def forward(self, x):
        p, q = self.two(self.a(x).tanh(), x)
        return self.b(p * q)


def hook_inner(net):
    net.a.register_full_backward_hook(note("a", 5.0))


def hook_outer(net):
    net.register_full_backward_hook(note("net"))


def hook_all(net):
    for name, module in net.named_modules():
        module.register_full_backward_hook(note(name, 1.5))
        module.register_full_backward_pre_hook(before("before " + name, 0.5))


def hook_twice(net):
    net.two.register_full_backward_hook(note("first", 2.0))
    net.two.register_full_backward_hook(note("second", 3.0))


def hook_before(net):
    net.b.register_full_backward_pre_hook(before("b", 2.0))


@pytest.mark.parametrize("add", [hook_inner, hook_outer, hook_all, hook_twice, hook_before])
@pytest.mark.parametrize("grad", [True, False])
@pytest.mark.filterwarnings("ignore:Full backward hook is firing")
def test_hooks_run_as_in_eager(add: Callable, grad: bool) -> None:
    torch.manual_seed(0)
    net = Net()
    twin = copy.deepcopy(net)
    add(net), add(twin)
    jitted = fg.jit(twin)
    for step in range(4):
        logs, grads = [], []
        for f, module in ((net, net), (jitted, twin)):
            torch.manual_seed(step)
            x = torch.randn(4, 3, dtype=F64, requires_grad=grad)
            LOG.clear()
            module.zero_grad()
            out = f(x)
            out.square().sum().backward()
            logs.append(list(LOG))
            grads.append([out.detach(), x.grad, *(p.grad.clone() for p in module.parameters())])
        assert logs[0] == logs[1]
        assert logs[0]
        for a, b in zip(*grads, strict=True):
            if a is not None:
                torch.testing.assert_close(b, a)
    assert fg.cache_hits(jitted) >= 2, fg.explain(jitted)


def test_hooks_that_come_and_go_are_noticed() -> None:
    torch.manual_seed(0)
    net = Net()
    jitted = fg.jit(net)
    x = torch.randn(4, 3, dtype=F64, requires_grad=True)

    def count() -> int:
        LOG.clear()
        jitted(x).sum().backward()
        return len(LOG)

    assert [count() for _ in range(3)] == [0, 0, 0]
    handle = net.a.register_full_backward_hook(note("a"))
    assert [count() for _ in range(4)] == [1, 1, 1, 1]
    other = net.a.register_full_backward_hook(note("again"))
    assert [count() for _ in range(4)] == [2, 2, 2, 2]
    handle.remove()
    assert [count() for _ in range(3)] == [1, 1, 1]
    other.remove()
    assert [count() for _ in range(3)] == [0, 0, 0]


def test_hooks_see_what_is_there_when_they_run() -> None:
    net = Net()
    scale = {"by": 1.0}
    net.a.register_full_backward_hook(lambda m, gi, go: tuple(g * scale["by"] for g in gi))
    jitted = fg.jit(net)
    x = torch.randn(4, 3, dtype=F64, requires_grad=True)
    for _ in range(3):
        jitted(x)
    first = torch.autograd.grad(jitted(x).sum(), net.a.weight)[0]
    torch.testing.assert_close(first, torch.autograd.grad(net(x).sum(), net.a.weight)[0])
    out = jitted(x)
    (one,) = torch.autograd.grad(out.sum(), x, retain_graph=True)
    scale["by"] = 10.0
    (ten,) = torch.autograd.grad(out.sum(), x)
    assert not torch.allclose(one, ten)
    torch.testing.assert_close(ten, torch.autograd.grad(net(x).sum(), x)[0])
    assert fg.cache_hits(jitted) >= 3, fg.explain(jitted)
