"""Random programs with hooks and with leaves that the call makes: what hooks are called with, in every backward, is eager's.

A program is a few lines of Python; ``FULGURITE_TEST_SEEDS`` says how many there are. A failure shows the program.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from helpers.random_sources import served_like_eager

F64 = torch.float64
SEEDS = int(os.environ.get("FULGURITE_TEST_SEEDS", "0")) or 300
SEEN: list = []


def note(k: int, g: Tensor | None) -> None:
    SEEN.append((k, None if g is None else g.detach().clone()))


class Writer:
    """Writes one program. A variable: its name, its shape, what it is, whose memory it shows."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.lines = ["def f(x, w):"]
        self.variables = [("x", (3, 3), "argument", "x"), ("w", (3, 3), "argument", "w")]
        self.written: set[str] = set()
        self.hooks = 0

    def new(self, text: str, shape: tuple, kind: str, memory: str | None = None) -> None:
        name = f"v{len(self.lines)}"
        self.lines.append(f"    {name} = {text}")
        self.variables.append((name, shape, kind, memory or name))

    def computes(self) -> None:
        name, shape, _, _ = self.random.choice(self.variables)
        if self.random.random() < 0.5:
            how = self.random.choice(
                ["sin()", "cos()", "tanh()", "mul(2)", "exp().tanh()", "clone()"]
            )
            return self.new(f"{name}.{how}", shape, "result")
        other = self.random.choice([v for v in self.variables if v[1] == shape])
        return self.new(f"{name} {self.random.choice('*+-')} {other[0]}", shape, "result")

    def views(self) -> None:
        name, shape, _, memory = self.random.choice(self.variables)
        if shape == (3, 3):
            how, shape = self.random.choice([("[0]", (3,)), ("[1:]", (2, 3)), (".t()", (3, 3))])
            self.new(name + how, shape, "view", memory)
        elif shape == (3,):
            self.new(f"{name}[1:]", (2,), "view", memory)

    def writes(self) -> None:
        leaves = {v[0] for v in self.variables if v[2] in ("leaf", "argument")}
        able = [v for v in self.variables if v[2] in ("result", "view") and v[3] not in leaves]
        if able:
            name, _, _, memory = self.random.choice(able)
            self.lines.append(f"    {name}.{self.random.choice(['mul_(3)', 'add_(1)', 'sin_()'])}")
            self.written.add(memory)

    def hook(self) -> None:
        # (Eager crashes for hooks on a view whose base was written.)
        able = [v for v in self.variables if not (v[2] == "view" and v[3] in self.written)]
        name, k = self.random.choice(able)[0], self.hooks
        self.hooks += 1
        self.lines += [f"    if {name}.requires_grad:"]
        self.lines += self.random.choice(
            [
                [f"        {name}.register_hook(lambda g, k={k}: note(k, g))"],
                [f"        {name}.register_hook(lambda g, k={k}: (note(k, g), g * {k + 2})[1])"],
                [
                    f"        s{k} = {name}.detach() + {k}.0",
                    f"        {name}.register_hook(lambda g: g * s{k})",
                ],
                [
                    f"        handle = {name}.register_hook(lambda g: g * 100)",
                    "        handle.remove()",
                ],
                [f"        {name}.retain_grad()"],
            ]
        )

    def leaf(self) -> None:
        name, shape, kind, memory = self.random.choice(self.variables)
        how = self.random.randrange(3)
        if how == 0:
            self.new("torch.full((3, 3), 1.5, dtype=F64, requires_grad=True)", (3, 3), "leaf")
        elif how == 1:
            self.new(f"{name}.detach().clone().requires_grad_()", shape, "leaf")
        elif memory not in self.written and kind != "leaf":
            self.new(f"{name}.detach().requires_grad_()", shape, "leaf", memory + "'")

    def writes_a_leaf(self) -> None:
        able = [v for v in self.variables if v[2] == "leaf" and not v[3].endswith("'")]
        if able:
            name, _, _, memory = self.random.choice(able)
            self.lines += ["    with torch.no_grad():", f"        {name}.mul_(1.5)"]
            self.written.add(memory)

    def program(self) -> str:
        steps = [self.computes] * 9 + [self.views] * 3 + [self.writes] * 2
        steps += [self.hook] * 4 + [self.leaf] * 2 + [self.writes_a_leaf]
        for _ in range(self.random.randint(4, 14)):
            self.random.choice(steps)()
        names = [v[0] for v in self.variables if v[2] != "argument"] or ["x"]
        outs = self.random.sample(names, min(len(names), self.random.randint(1, 4)))
        return "\n".join([*self.lines, f"    return {', '.join(outs)},"])


def compiled(source: str) -> Callable:
    scope = {"torch": torch, "note": note, "F64": F64}
    exec(compile(source, "<random hooks>", "exec"), scope)  # noqa: S102
    return scope["f"]


def observed(f: Callable, seed: int, which: int) -> tuple:
    g = torch.Generator().manual_seed(seed)
    x, w = (torch.randn(3, 3, dtype=F64, generator=g).requires_grad_() for _ in range(2))
    SEEN.clear()
    outs = f(x, w)
    tensors = (x, w, *outs)
    facts = [
        (
            o.requires_grad,
            o.is_leaf,
            o._base is None,
            o.stride(),
            [o is t for t in tensors],
            [o.untyped_storage().data_ptr() == t.untyped_storage().data_ptr() for t in tensors],
        )
        for o in outs
    ]
    values = [o.detach().clone() for o in outs]
    roots = [o for o in outs if o.grad_fn is not None]
    roots = [o for k, o in enumerate(roots) if which >> k & 1] or roots
    if roots:
        torch.autograd.backward(roots, [o.detach().cos() for o in roots])
    seen = sorted(SEEN, key=lambda s: (s[0], 0.0 if s[1] is None else s[1].sum().item()))
    return facts, values, seen, [t.grad for t in tensors if t.is_leaf or t.retains_grad]


@pytest.mark.filterwarnings("ignore")
def test_random_programs_with_hooks():
    served = served_like_eager(SEEDS, lambda seed: Writer(seed).program(), compiled, observed)
    assert served > 0.8 * SEEDS
