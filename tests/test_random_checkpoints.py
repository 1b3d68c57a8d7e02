"""Random programs with activation checkpoints: values, gradients and the random state are eager's.

A program is a few lines of Python; ``FULGURITE_TEST_SEEDS`` says how many there are. A failure shows the program.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable

import pytest
import torch
from torch.utils.checkpoint import checkpoint

from helpers.random_sources import served_like_eager

F64 = torch.float64
SEEDS = int(os.environ.get("FULGURITE_TEST_SEEDS", "0")) or 200


class Writer:
    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.lines = ["def f(x, w):"]

    def body(self, indent: str, variables: list[str], steps: int) -> None:
        made: list[str] = []
        for _ in range(steps):
            a, b = self.random.choice(variables), self.random.choice(variables)
            how = self.random.choice(
                ["sin()", "cos()", "mul(2)", "clone()", "t()", "exp().tanh()", "softmax(0)"]
            )
            text = self.random.choice(
                [
                    f"{a}.{how}",
                    f"{a}.{how}",
                    f"{a} {self.random.choice('*+-@')} {b}",
                    f"{a} {self.random.choice('*+-@')} {b}",
                    f"torch.dropout({a}, 0.4, True)",
                    f"{a} * torch.rand_like({a})",
                    f"{a} * torch.rand(3, 3, dtype=F64)",
                    "",
                ]
            )
            if text:
                name = f"v{len(self.lines)}"
                self.lines.append(f"{indent}{name} = {text}")
                variables.append(name)
                if ".t()" not in text:
                    made.append(name)
            elif made:
                self.lines.append(f"{indent}{self.random.choice(made)}.mul_(1.5)")

    def checkpoint(self, k: int, variables: list[str]) -> None:
        arguments = self.random.sample(variables, min(len(variables), 2))
        others = [v for v in variables if v not in arguments]
        inner = [f"p{k}", f"q{k}"][: len(arguments)]
        self.lines.append(f"    def g{k}({', '.join(inner)}):")
        inner += self.random.sample(others, min(len(others), self.random.randint(0, 2)))
        self.body("        ", inner, self.random.randint(2, 7))
        if self.random.random() < 0.3:
            self.lines.append(
                f"        n{k} = checkpoint(lambda a: torch.dropout(a.sin(), 0.3, True).exp(), "
                f"{self.random.choice(inner)}, use_reentrant=False)"
            )
            inner.append(f"n{k}")
        results = self.random.sample(inner[-3:], min(len(inner), self.random.randint(1, 2)))
        self.lines.append(f"        return {', '.join(results)},")
        names = [f"c{k}{i}" for i in range(len(results))]
        self.lines.append(
            f"    {', '.join(names)}, = checkpoint(g{k}, {', '.join(arguments)}, use_reentrant=False)"
        )
        variables += names

    def program(self) -> str:
        variables = ["x", "w"]
        for k in range(self.random.randint(1, 3)):
            self.body("    ", variables, self.random.randint(0, 3))
            self.checkpoint(k, variables)
        self.body("    ", variables, self.random.randint(1, 4))
        outs = self.random.sample(variables[2:], min(len(variables) - 2, 3))
        return "\n".join([*self.lines, f"    return {', '.join(outs)},"])


def compiled(source: str) -> Callable:
    scope = {"torch": torch, "checkpoint": checkpoint, "F64": F64}
    exec(compile(source, "<random checkpoints>", "exec"), scope)  # noqa: S102
    return scope["f"]


def observed(f: Callable, seed: int, which: int) -> tuple:
    g = torch.Generator().manual_seed(seed)
    x, w = (torch.randn(3, 3, dtype=F64, generator=g).requires_grad_() for _ in range(2))
    torch.manual_seed(seed)
    outs = f(x, w)
    values = [o.detach().clone() for o in outs]
    state = torch.get_rng_state()
    roots = [o for o in outs if o.grad_fn is not None]
    roots = [o for k, o in enumerate(roots) if which >> k & 1] or roots
    if roots:
        torch.autograd.backward(roots, [o.detach().cos() for o in roots])
    return values, state, torch.get_rng_state(), x.grad, w.grad


@pytest.mark.filterwarnings("ignore")
def test_random_programs_with_checkpoints():
    checkpoint(torch.sin, torch.ones(2, requires_grad=True), use_reentrant=False)
    served = served_like_eager(SEEDS, lambda seed: Writer(seed).program(), compiled, observed)
    assert served > 0.7 * SEEDS
