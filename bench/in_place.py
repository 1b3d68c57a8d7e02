"""Writing in place: what must not cost more than writing out of place, nor more memory than eager."""

from __future__ import annotations

from typing import Any

import torch
from rich.console import Console
from rich.table import Table
from torch import Tensor, nn

import fulgurite
from bench.calls import Case
from fulgurite.demo.memory import peak_bytes

MEMORY = "memory of writes in place"
LARGE = 1_000_000
STEPS = 64


def _chain(x: Tensor) -> Tensor:
    """Ten operators in place on a copy."""
    y = x.clone()
    y.mul_(2).add_(1).sigmoid_().mul_(x).sub_(0.5).relu_().add_(x, alpha=0.1).tanh_().neg_().clamp_(
        -1, 1
    )
    return y


def _chain_on_argument(x: Tensor) -> None:
    """Ten operators in place on what the caller gave."""
    x.mul_(2).add_(1).sigmoid_().mul_(3).sub_(0.5).relu_().add_(0.1).tanh_().neg_().clamp_(-1, 1)


def _items(x: Tensor, v: Tensor) -> Tensor:
    x = x.clone()
    for i in range(STEPS):
        x[i] += v
    return x


def _items_of_argument(x: Tensor, v: Tensor) -> None:
    for i in range(STEPS):
        x[i] += v


class _Normalised(nn.Module):
    """A training step of batch norm, whose statistics are written in place."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.Conv2d(8, 8, 3), nn.BatchNorm2d(8)
        )

    def forward(self, x: Tensor) -> Tensor:
        return self.layers(x).square().mean()


class _Update(nn.Module):
    """A step of gradient descent by hand: leaves written under no_grad."""

    def __init__(self, count: int = 8, n: int = 256) -> None:
        super().__init__()
        self.weights = nn.ParameterList(torch.randn(n, n) for _ in range(count))
        self.steps = [torch.randn(n, n) for _ in range(count)]

    def forward(self) -> None:
        with torch.no_grad():
            for w, g in zip(self.weights, self.steps, strict=True):
                w.sub_(g, alpha=1e-6)


class _Momentum(nn.Module):
    """A step of gradient descent with momentum, on lists, as optimizers do it."""

    def __init__(self, count: int = 8, n: int = 256) -> None:
        super().__init__()
        self.weights = nn.ParameterList(torch.randn(n, n) for _ in range(count))
        self.steps = [torch.randn(n, n) for _ in range(count)]
        self.buffers_ = [torch.zeros(n, n) for _ in range(count)]

    def forward(self) -> None:
        with torch.no_grad():
            weights = list(self.weights)
            torch._foreach_mul_(self.buffers_, 0.9)
            torch._foreach_add_(self.buffers_, self.steps)
            torch._foreach_add_(weights, self.buffers_, alpha=-1e-6)


CASES = [
    Case("ten in place, 1 M elements", lambda: (_chain, (torch.randn(LARGE),))),
    Case("ten in place on the argument, 1 M", lambda: (_chain_on_argument, (torch.randn(LARGE),))),
    Case("item += v, 64 times", lambda: (_items, (torch.randn(STEPS, 64), torch.randn(64)))),
    Case(
        "item += v on the argument, 64 times",
        lambda: (_items_of_argument, (torch.zeros(STEPS, 64), torch.randn(64) * 1e-6)),
    ),
    Case(
        "item += v, 64 times, grad",
        lambda: (_items, (torch.randn(STEPS, 64, requires_grad=True), torch.randn(64))),
        grad=True,
    ),
    Case(
        "batch norm, training step",
        lambda: (_Normalised(), (torch.randn(8, 3, 16, 16),)),
        grad=True,
        backward=True,
    ),
    Case("update of leaves under no_grad", lambda: (_Update(), ()), grad=True),
    Case("update of lists with momentum", lambda: (_Momentum(), ()), grad=True),
]


def memory(console: Console) -> dict[str, Any]:
    """Bytes that the chains hold at their peak beyond what was there before."""
    table = Table(title=f"{MEMORY}: MB", title_justify="left", title_style="bold")
    for name in ("", "eager", "fulgurite"):
        table.add_column(name, justify="right")
    found: dict[str, dict[str, int]] = {}
    with torch.no_grad():
        for case in (*CASES[:2], *CASES[-2:]):
            function, arguments = case.make()
            jitted = fulgurite.jit(function)
            for _ in range(3):
                jitted(*arguments)
            found[case.name] = {
                name: peak_bytes(lambda f=f, a=arguments: f(*a))
                for name, f in (("eager", function), ("fulgurite", jitted))
            }
            table.add_row(case.name, *(f"{b / 1e6:.2f}" for b in found[case.name].values()))
    console.print(table)
    return {"name": MEMORY, "unit": "bytes", "peaks": found}
