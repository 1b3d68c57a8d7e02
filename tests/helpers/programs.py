"""Random programs over views, in-place operators, dtypes, gradients, aliasing inputs and modes.

A program is drawn by running it: a statement is kept if eager runs it (or, now and then, as the last one, if
eager raises). It prints as Python source with the tensors that it finds in global variables, ``inputs(seed)``, which
makes the arguments, and ``program(...)``; a case is that source, so that a failure can be copied into a file and run.
Start reading at ``Draw.draw``; what is drawn stands in program_inputs.py and program_statements.py.
"""

from __future__ import annotations

import dataclasses
import random
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import torch


@dataclasses.dataclass
class Statement:
    """A line, or a block with a head and a body. ``defines``: names bound by it."""

    text: str
    defines: tuple[str, ...] = ()
    body: list[Statement] | None = None

    def lines(self, indent: int) -> Iterator[str]:
        yield "    " * indent + self.text
        for s in self.body or ():
            yield from s.lines(indent + 1)


@dataclasses.dataclass
class Program:
    globals: list[Statement]  # of the module: make tensors that the program finds
    leaves: list[Statement]  # of inputs(seed): make tensors
    arguments: list[str]  # names made there that are passed
    tracked: list[str]  # tensors beside them that are compared, gradients too
    body: list[Statement]
    outputs: list[str]
    mode: str = ""  # the caller's: "torch.no_grad", "torch.inference_mode", or none
    seed: int = 0

    def source(self) -> str:
        lines = ["import torch", ""]
        for s in self.globals:
            lines += s.lines(0)
        if self.mode:
            lines.append(f"MODE = {self.mode}")
        lines += [
            "",
            "",
            "def inputs(seed):",
            "    generator = torch.Generator().manual_seed(seed)",
        ]
        for s in self.leaves:
            lines += s.lines(1)
        lines.append(f"    return [{', '.join(self.arguments)}], [{', '.join(self.tracked)}]")
        lines += ["", "", f"def program({', '.join(self.arguments)}):"]
        for s in self.body:
            lines += s.lines(1)
        result = ", ".join(self.outputs)
        lines.append(f"    return ({result}{',' if len(self.outputs) == 1 else ''})")
        return "\n".join(lines) + "\n"


DTYPE_NAMES = {
    torch.float32: "torch.float32",
    torch.float64: "torch.float64",
    torch.int64: "torch.int64",
    torch.bool: "torch.bool",
    torch.complex64: "torch.complex64",
}
LARGEST, MOST_DIMS = 400, 5  # elements and dimensions of a tensor that is kept


class Draw:
    """Draws one program. ``env`` holds the live tensors of the eager run."""

    def __init__(self, seed: int) -> None:
        self.r = random.Random(seed)
        self.seed = seed
        self.env: dict[str, torch.Tensor] = {}
        self.count = 0
        self.scope: dict[str, Any] = {}
        self.open: list[str] = []  # heads of the blocks that the next statement stands in
        self.raised: Statement | None = None  # the last one that eager refused
        self.mode = ""

    # ---- choosing ----
    def fresh(self) -> str:
        self.count += 1
        return f"t{self.count}"

    def pick(self, wanted: Callable[[torch.Tensor], bool] = lambda t: True) -> str | None:
        names = [n for n, t in self.env.items() if wanted(t)]
        if not names:
            return None
        # later names a little more often
        weights = [1 + 2 * i / len(names) for i in range(len(names))]
        return self.r.choices(names, weights)[0]

    def like(self, t: torch.Tensor) -> str | None:
        """A name whose tensor broadcasts to t's shape, of a dtype that can be written into it."""

        def fits(o: torch.Tensor) -> bool:
            try:
                if torch.broadcast_shapes(o.shape, t.shape) != t.shape:
                    return False
            except RuntimeError:
                return False
            return torch.can_cast(torch.result_type(o, t), t.dtype)

        return self.pick(fits)

    def number(self, t: torch.Tensor) -> str:
        if t.dtype == torch.bool:
            return self.r.choice(("True", "False"))
        if not t.dtype.is_floating_point and not t.dtype.is_complex:
            return str(self.r.choice((1, 2, 3, -1)))
        return self.r.choice(("2", "0.5", "-1.5", "3", "1.25"))

    # ---- statements ----
    def statement(self, simple: bool = False) -> Statement | None:
        """Draws a statement and runs it; None if eager raises (then nothing has happened, or the program ends)."""
        from helpers import program_statements as kinds

        kind = self.r.choices(
            (kinds.view, kinds.pure, kinds.inplace, self.block, self.branch, kinds.detached),
            (8, 6, 10, 0 if simple else 2, 0 if simple else 0.7, 1),
        )[0]
        if kind in (self.block, self.branch):
            return kind()
        s = kind(self)
        return s if s is not None and self.run(s) else None

    def block(self) -> Statement | None:
        head = self.r.choices(
            (
                "with torch.no_grad():",
                "with torch.enable_grad():",
                "with torch.inference_mode():",
                "for _ in range(2):",
            ),
            (8, 2, 1, 2),
        )[0]
        body: list[Statement] = []
        self.open.append(head)
        for _ in range(self.r.choice((1, 2, 3))):
            s = self.statement(simple=True)
            if s is not None:
                body.append(s)
        self.open.pop()
        return Statement(head, tuple(d for s in body for d in s.defines), body) if body else None

    def branch(self) -> Statement | None:
        """A branch on data. It binds no names: which way it goes differs from call to call."""
        from helpers import program_statements as kinds

        n = self.pick(lambda t: t.dtype.is_floating_point and t.numel() > 0)
        if n is None:
            return None
        head = f"if {n}.sum() > {self.r.choice(('0', '1', '-1000'))}:"
        self.open.append(head)
        s = kinds.inplace(self)
        ok = s is not None and not s.defines and self.run(s)
        self.open.pop()
        return Statement(head, (), [s]) if ok and s is not None else None

    def run(self, s: Statement) -> bool:
        source = s.text
        heads = [*([f"with {self.mode}():"] if self.mode else []), *self.open]
        for head in reversed(heads):
            source = head + "\n" + "\n".join("    " + line for line in source.split("\n"))
        try:
            exec(source, self.scope)
        except Exception:
            self.raised = s
            return False
        for d in s.defines:
            value = self.scope.get(d)
            if (
                not isinstance(value, torch.Tensor)
                or value.numel() > LARGEST
                or value.dim() > MOST_DIMS
            ):
                return False
            self.env[d] = value
        return True

    def draw(self) -> Program:
        from helpers import program_inputs

        r = self.r
        p = program_inputs.draw(self)
        self.mode = p.mode
        length = r.choice((2, 3, 4, 5, 6, 8))
        attempts = 0
        ends_with_error = r.random() < 0.3
        while len(p.body) < length and attempts < 60:
            attempts += 1
            # What a statement that raises did before it raised stays in `env`: values only, which nothing
            # here depends on.
            s = self.statement()
            if s is not None:
                p.body.append(s)
            elif self.raised is not None and ends_with_error and len(p.body) >= length - 1:
                p.body.append(self.raised)
                break
        given = [*p.arguments, *(g.defines[0] for g in p.globals)]
        made = [n for n in self.env if n not in given]
        k = r.choice((1, 1, 2, 3))
        p.outputs = r.sample(made, min(k, len(made))) if made else []
        if r.random() < 0.25 or not p.outputs:
            p.outputs.append(r.choice(given))
        if made and r.random() < 0.1:
            p.outputs.append(p.outputs[0])
        return p


def draw(seed: int) -> Program:
    """The program of a seed; the same on every machine."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.manual_seed(seed)
        return Draw(seed).draw()
