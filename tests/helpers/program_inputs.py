"""What random programs are given: tensors of all kinds, several on one memory, some in global variables."""

from __future__ import annotations

from typing import Any

import torch

from helpers.programs import DTYPE_NAMES, Draw, Program, Statement

SHAPES = ((4,), (3, 4), (4, 4), (2, 3, 4), (2, 1, 4), (1, 3), (6,), (3, 3))
FLOATS = (torch.float32, torch.float64)


def draw(d: Draw) -> Program:
    """Draws inputs until eager can make them; they are in ``d.env`` then, and in ``d.scope``."""
    while True:
        d.env, d.count = {}, 0
        p = _Inputs(d).draw()
        try:
            scope: dict[str, Any] = {"torch": torch}
            exec(p.source().replace("return ()", "pass"), scope)
            torch.manual_seed(0)
            values, _ = scope["inputs"](0)
        except Exception:
            continue
        found = dict(zip(p.arguments, values, strict=True))
        for g in p.globals:
            found[g.defines[0]] = scope[g.defines[0]]
        d.scope = {"torch": torch, **found}
        d.env = found
        return p


class _Inputs:
    def __init__(self, d: Draw) -> None:
        self.d = d
        self.r = d.r
        self.p = Program([], [], [], [], [], [], seed=d.seed)

    def add(self, name: str, text: str, argument: bool = True) -> None:
        self.p.leaves.append(Statement(f"{name} = {text}", (name,)))
        if argument:
            self.p.arguments.append(name)

    def values(self, sizes: tuple[int, ...], dtype: torch.dtype) -> str:
        shape = str(list(sizes))
        if dtype == torch.int64:
            return f"torch.randint(-5, 6, {shape}, generator=generator)"
        if dtype == torch.bool:
            return f"torch.rand({shape}, generator=generator) > 0.5"
        return f"torch.randn({shape}, generator=generator, dtype={DTYPE_NAMES[dtype]})"

    def leaf(
        self,
        name: str,
        sizes: tuple[int, ...],
        dtype: torch.dtype,
        grad: bool,
        argument: bool = False,
    ) -> None:
        text = self.values(sizes, dtype)
        self.add(name, f"({text}).requires_grad_()" if grad else text, argument)
        if grad:
            self.p.tracked.append(name)

    def draw(self) -> Program:
        r = self.r
        for i in range(r.choice((1, 1, 2, 2, 3))):
            dtype = r.choices(
                (torch.float32, torch.float64, torch.int64, torch.bool, torch.complex64),
                (12, 2, 2, 1, 1 if i else 2),
            )[0]
            sizes = r.choice(SHAPES)
            grad = (dtype.is_floating_point or dtype.is_complex) and r.random() < 0.55
            if r.random() < 0.1:
                self.parts(i, sizes, dtype, grad)
            else:
                self.one(i, sizes, dtype, grad)
        if r.random() < 0.12:
            self.global_tensor()
        if r.random() < 0.08:
            self.statistics()
        self.p.mode = r.choices(("", "torch.no_grad", "torch.inference_mode"), (90, 7, 3))[0]
        return self.p

    def one(self, i: int, sizes: tuple[int, ...], dtype: torch.dtype, grad: bool) -> None:
        """One argument, and now and then another one on its memory."""
        r = self.r
        base, name = f"b{i}", f"x{i}"
        kind = r.choices(("leaf", "nonleaf", "view", "noncontiguous"), (6, 4 if grad else 1, 3, 2))[
            0
        ]
        if kind == "leaf":
            self.leaf(name, sizes, dtype, grad, argument=True)
            base = name
        else:
            big = sizes if kind != "view" else (sizes[0] + 2, *sizes[1:])
            self.leaf(base, big, dtype, grad)
            if kind == "nonleaf":
                integral = dtype in (torch.bool, torch.int64)
                text = f"{base}.clone()" if integral else f"{base} * 1.0"
            elif kind == "view":
                text = f"{base}[1:{sizes[0] + 1}]"
                if grad and r.random() < 0.6:
                    text = f"({base} * 1.0)[1:{sizes[0] + 1}]"
            else:
                text = f"{base}.clone().transpose(0, -1)" if grad else f"{base}.transpose(0, -1)"
            self.add(name, text)
        if r.random() >= 0.35:
            return
        other = f"y{i}"
        text = r.choice(
            (name, f"{name}[0]", f"{name}[1:]", f"{name}[:-1]", f"{name}.t()" if len(sizes) <= 2 else f"{name}.transpose(0, 1)",
             f"{name}.view(-1)" if kind == "leaf" else f"{name}.detach()", f"{name}.detach()", f"{name}.flatten()[::2]",
             base if kind == "view" else name, f"{name}.data[-1]")
        )  # fmt: skip
        cut = ".detach" in text or ".data" in text or text in (name, base)
        if grad and kind == "leaf" and not cut and r.random() < 0.5:
            line = Statement(f"{other} = {text}", (other,))
            self.p.leaves.append(Statement("with torch.no_grad():", (other,), [line]))
            self.p.arguments.append(other)
        else:
            self.add(other, text)

    def parts(self, i: int, sizes: tuple[int, ...], dtype: torch.dtype, grad: bool) -> None:
        """Two arguments that are parts of a third tensor: disjoint, overlapping, or one transposed."""
        base = f"b{i}"
        self.leaf(base, sizes, dtype, grad)
        if grad and self.r.random() < 0.6:
            self.add(f"c{i}", f"{base} * 1.0", argument=False)
            base = f"c{i}"
        choices = ["{0}[:1], {0}[1:]", "{0}[:-1], {0}[1:]", "{0}[::2], {0}[1::2]", "{0}[0], {0}[-1]", "{0}.unbind(0)[0], {0}[-1]", "{0}.chunk(2)[0], {0}"]  # fmt: skip
        if len(sizes) == 2:
            choices += ["{0}.t(), {0}[0]", "{0}[:, :1], {0}[:, 1:]", "{0}.diagonal(), {0}.T"]
        first, second = _halves(self.r.choice(choices).format(base))
        self.add(f"x{i}", first)
        self.add(f"y{i}", second)

    def global_tensor(self) -> None:
        """A tensor in a global variable: the same object in every call, with new contents."""
        sizes = self.r.choice(SHAPES)
        grad = self.r.random() < 0.5
        make = f"torch.zeros({list(sizes)})"
        text = f"W = {make}.requires_grad_()" if grad else f"W = {make}"
        self.p.globals.append(Statement(text, ("W",)))
        refill = (
            f"{'W' if grad else 'W.detach_()'}.copy_(torch.randn(W.shape, generator=generator))"
        )
        self.p.leaves.append(Statement("with torch.no_grad():", (), [Statement(refill)]))
        self.p.tracked.append("W")
        if self.r.random() < 0.4:
            self.add("w", self.r.choice(("W", "W[0]", "W.detach()", "W[1:]")))

    def statistics(self) -> None:
        """Running statistics of a batch norm of the last argument."""
        channels = self.r.choice((1, 3, 4))
        self.add("mean", f"torch.zeros({channels})")
        self.add("variance", f"torch.ones({channels})")


def _halves(text: str) -> tuple[str, str]:
    """Splits at the comma that stands outside all brackets."""
    depth = 0
    for k, c in enumerate(text):
        depth += (c in "([") - (c in ")]")
        if c == "," and depth == 0:
            return text[:k], text[k + 1 :].strip()
    raise ValueError(text)
