"""What a call costs: small programs, where nearly all of the time is not spent in kernels."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn


@dataclass(frozen=True)
class Case:
    """``make`` gives a callable to be compiled (or not) and its arguments; ``use`` does with the compiled one
    what is timed."""

    name: str
    make: Callable[[], tuple[Any, tuple]]
    grad: bool = False
    backward: bool = False
    threads: int = 1

    def timed(self, compiled: Any, arguments: tuple) -> Callable[[], object]:
        if not self.backward:
            return lambda: compiled(*arguments)
        parameters = [p for p in compiled.parameters()]

        def step() -> None:
            compiled(*arguments).backward()
            for p in parameters:
                p.grad = None

        return step


def _add(a: Tensor, b: Tensor) -> Tensor:
    return a + b


def _pointwise(a: Tensor, b: Tensor) -> Tensor:
    """13 operators."""
    c = (a + b) * a - b
    d = torch.sigmoid(c) * torch.tanh(c)
    e = torch.exp(-d) + d.abs()
    return (e * e + 1.0).sqrt() * 0.5


class _Mlp(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 8)
        )

    def forward(self, x: Tensor) -> Tensor:
        return self.layers(x)


class _MlpLoss(_Mlp):
    def forward(self, x: Tensor) -> Tensor:
        return self.layers(x).square().mean()


class Nested(nn.Module):
    """Modules within modules that compute next to nothing: its call costs its guards."""

    def __init__(self, depth: int) -> None:
        super().__init__()
        self.inner = nn.Sequential(*[nn.Identity() for _ in range(depth)])

    def forward(self, x: Tensor) -> Tensor:
        return self.inner(x) + 1


def _two(n: int, grad: bool = False) -> tuple[Tensor, Tensor]:
    return torch.randn(n, requires_grad=grad), torch.randn(n, requires_grad=grad)


CASES = [
    Case("a+b, 4 elements", lambda: (_add, _two(4))),
    Case("a+b, 4 elements, grad", lambda: (_add, _two(4, True)), grad=True),
    Case("13 pointwise, 64 elements", lambda: (_pointwise, _two(64))),
    Case("MLP forward", lambda: (_Mlp(), (torch.randn(16, 32),))),
    Case("MLP forward, grad", lambda: (_Mlp(), (torch.randn(16, 32),)), grad=True),
    Case(
        "MLP forward + backward",
        lambda: (_MlpLoss(), (torch.randn(16, 32),)),
        grad=True,
        backward=True,
    ),
    Case("40 nested modules (guards)", lambda: (Nested(40), (torch.randn(4),))),
]
