"""What a study of a model is: the parts that are compiled, and what a user does with them."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

Parts = dict[str, Callable[..., Any]]


def has_transformers() -> bool:
    return importlib.util.find_spec("transformers") is not None


class Study:
    """A model and its data. Two of them made one after the other are twins: same weights, same data.

    ``parts`` are the callables that a user would compile; everything else is ordinary Python that
    calls them, so that the same code drives the eager twin and the compiled one.
    """

    name: str

    def parts(self) -> Parts:
        """The callables to be compiled, by name."""
        raise NotImplementedError

    def modules(self) -> list[nn.Module]:
        raise NotImplementedError

    def step(self, f: Parts, i: int) -> list[Tensor]:
        """Forward and backward of training step ``i``; returns the losses, leaves gradients in ``.grad``."""
        raise NotImplementedError

    def evaluate(self, f: Parts, i: int) -> list[Tensor]:
        """What the model says about batch ``i`` in evaluation mode; called under no_grad."""
        raise NotImplementedError

    def generators(self) -> dict[str, Callable[[Parts], Tensor]]:
        """Ways to generate a sequence, by name; for language models."""
        return {}

    def parameters(self) -> list[Tensor]:
        found: dict[int, Tensor] = {}
        for module in self.modules():
            found.update((id(p), p) for p in module.parameters())
        return list(found.values())

    def buffers(self) -> list[Tensor]:
        return [b for module in self.modules() for b in module.buffers()]

    def train(self, mode: bool) -> None:
        for module in self.modules():
            module.train(mode)

    def optimizer(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.parameters(), lr=0.05, momentum=0.9)


class OneModule(Study):
    """A module whose call takes a batch; ``loss`` makes a number of the result."""

    def __init__(self) -> None:
        self.module = self.make()

    def make(self) -> nn.Module:
        raise NotImplementedError

    def batch(self, i: int) -> tuple[tuple, dict[str, Any]]:
        raise NotImplementedError

    def loss(self, result: Any, i: int) -> Tensor:
        return result.square().mean()

    def outputs(self, result: Any) -> list[Tensor]:
        return [result]

    def parts(self) -> Parts:
        return {"model": self.module}

    def modules(self) -> list[nn.Module]:
        return [self.module]

    def step(self, f: Parts, i: int) -> list[Tensor]:
        args, kwargs = self.batch(i)
        loss = self.loss(f["model"](*args, **kwargs), i)
        loss.backward()
        return [loss.detach()]

    def evaluate(self, f: Parts, i: int) -> list[Tensor]:
        args, kwargs = self.batch(i)
        return self.outputs(f["model"](*args, **kwargs))


def random(i: int, *shape: int) -> Tensor:
    """Numbers that depend on ``i`` only; the global generator is left alone."""
    return torch.randn(shape, generator=torch.Generator().manual_seed(1000 + i))


def integers(i: int, high: int, *shape: int) -> Tensor:
    return torch.randint(high, shape, generator=torch.Generator().manual_seed(2000 + i))
