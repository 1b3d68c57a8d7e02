"""Random programs over views, in-place operators, dtypes, gradients, aliasing inputs and modes.

A program is drawn by running it: a statement is kept if eager runs it (or, now and then, as the last one, if
eager raises). It prints as Python source with two functions, ``inputs(seed)`` and ``program(...)``; a case is
that source, so that a failure can be copied into a file and run.
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
    leaves: list[Statement]  # of inputs(seed): makes tensors
    arguments: list[str]  # names made there that are passed
    tracked: list[str]  # leaves whose gradients are compared
    body: list[Statement]
    outputs: list[str]
    seed: int = 0

    def source(self) -> str:
        lines = [
            "import torch",
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


_DTYPE_NAMES = {
    torch.float32: "torch.float32",
    torch.float64: "torch.float64",
    torch.int64: "torch.int64",
    torch.bool: "torch.bool",
    torch.complex64: "torch.complex64",
}


class _Draw:
    """Draws one program. ``env`` holds the live tensors of the eager run."""

    def __init__(self, seed: int) -> None:
        self.r = random.Random(seed)
        self.seed = seed
        self.env: dict[str, torch.Tensor] = {}
        self.count = 0
        self.leaves: list[Statement] = []
        self.scope: dict[str, Any] = {}
        self.in_loop = 0

    # ---- inputs ----
    def fresh(self) -> str:
        self.count += 1
        return f"t{self.count}"

    def make_leaf(self, name: str, sizes: tuple[int, ...], dtype: torch.dtype, grad: bool) -> None:
        shape = str(list(sizes))
        if dtype == torch.int64:
            text = f"torch.randint(-5, 6, {shape}, generator=generator)"
        elif dtype == torch.bool:
            text = f"torch.rand({shape}, generator=generator) > 0.5"
        else:
            text = f"torch.randn({shape}, generator=generator, dtype={_DTYPE_NAMES[dtype]})"
        if grad:
            text = f"({text}).requires_grad_()"
        self.leaves.append(Statement(f"{name} = {text}", (name,)))

    def draw_inputs(self) -> tuple[list[str], list[str]]:
        r = self.r
        arguments: list[str] = []
        tracked: list[str] = []
        for i in range(r.choice((1, 1, 2, 2, 3))):
            dtype = r.choices(
                (torch.float32, torch.float64, torch.int64, torch.bool, torch.complex64),
                (12, 2, 2, 1, 1 if i else 2),
            )[0]
            sizes = r.choice(((4,), (3, 4), (4, 4), (2, 3, 4), (2, 1, 4), (1, 3), (6,), (3, 3)))
            differentiable = dtype.is_floating_point or dtype.is_complex
            grad = differentiable and r.random() < 0.55
            base, name = f"b{i}", f"x{i}"
            kind = r.choices(
                ("leaf", "nonleaf", "view", "noncontiguous"), (6, 4 if grad else 1, 3, 2)
            )[0]
            if kind == "leaf":
                self.make_leaf(name, sizes, dtype, grad)
                arguments.append(name)
                if grad:
                    tracked.append(name)
                base = name
            else:
                big = sizes if kind != "view" else (sizes[0] + 2, *sizes[1:])
                self.make_leaf(base, big, dtype, grad)
                if grad:
                    tracked.append(base)
                if kind == "nonleaf":
                    text = (
                        f"{base}.clone()" if dtype in (torch.bool, torch.int64) else f"{base} * 1.0"
                    )
                elif kind == "view":
                    text = f"{base}[1:{sizes[0] + 1}]"
                    if grad and r.random() < 0.6:
                        text = f"({base} * 1.0)[1:{sizes[0] + 1}]"
                else:
                    text = (
                        f"{base}.clone().transpose(0, -1)" if grad else f"{base}.transpose(0, -1)"
                    )
                self.leaves.append(Statement(f"{name} = {text}", (name,)))
                arguments.append(name)
            # another argument that shares its memory
            if r.random() < 0.35:
                other = f"y{i}"
                text = r.choice(
                    (name, f"{name}[0]", f"{name}[1:]", f"{name}[:-1]", f"{name}.t()" if len(sizes) <= 2 else f"{name}.transpose(0, 1)",
                     f"{name}.view(-1)" if kind == "leaf" else f"{name}.detach()", f"{name}.detach()", f"{name}.flatten()[::2]",
                     base if kind == "view" else name, f"{name}.data[-1]")
                )  # fmt: skip
                if text in (name, base):
                    self.leaves.append(Statement(f"{other} = {text}", (other,)))
                elif (
                    grad
                    and kind in ("leaf",)
                    and ".detach" not in text
                    and ".data" not in text
                    and r.random() < 0.5
                ):
                    self.leaves.append(
                        Statement(
                            "with torch.no_grad():",
                            (other,),
                            [Statement(f"{other} = {text}", (other,))],
                        )
                    )
                else:
                    self.leaves.append(Statement(f"{other} = {text}", (other,)))
                arguments.append(other)
        return arguments, tracked

    # ---- choosing ----
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
        if t.dtype == torch.int64:
            return str(self.r.choice((1, 2, 3, -1)))
        return self.r.choice(("2", "0.5", "-1.5", "3", "1.25"))

    def index(self, t: torch.Tensor) -> str | None:
        """What stands in brackets; None for a mask."""
        r, d = self.r, t.dim()
        if d == 0:
            return "..."
        n = t.shape[0]
        first = r.choice(("0", "-1", "1:", ":-1", "::2", ":", "...", "None", f"{n // 2}:"))
        kind = r.random()
        if kind < 0.15:
            return f"torch.tensor({[r.randrange(n) for _ in range(2)] if n else []}, dtype=torch.int64)"
        if kind < 0.25 and t.dtype in (torch.float32, torch.float64, torch.int64):
            return None
        if d >= 2 and r.random() < 0.5:
            second = r.choice(("0", "-1", "1:", ":2", "::2", ":"))
            return f"{first if first not in ('...', 'None') else ':'}, {second}"
        if d >= 2 and r.random() < 0.2:
            return f"..., {r.choice(('0', ':1', '1:'))}"
        return first

    # ---- statements ----
    def view(self) -> Statement | None:
        r = self.r
        n = self.pick(lambda t: t.dim() > 0 and t.numel() > 0)
        if n is None:
            return None
        t = self.env[n]
        d = t.dim()
        dim = r.randrange(-d, d)
        size = t.shape[dim]
        out = self.fresh()
        options = [
            f"{n}.narrow({dim}, {r.randrange(size)}, 1)",
            f"{n}.select({dim}, {r.randrange(size)})",
            f"{n}.transpose({r.randrange(d)}, {dim})",
            f"{n}.unsqueeze({r.choice((0, -1))})",
            f"{n}.squeeze()",
            f"{n}.reshape(-1)",
            f"{n}.flatten()",
            f"{n}.expand(2, {', '.join(['-1'] * d)})",
            f"{n}.unfold({dim}, {r.randrange(1, size + 1)}, {r.choice((1, 2))})",
            f"{n}.as_strided([2, 2], [1, 1], {t.storage_offset()})"
            if r.random() < 0.5
            else f"{n}.as_strided([2], [{r.choice((1, 2))}])",
            f"{n}[{r.choice(('0', '-1', '1:', ':-1', '::2', '...', 'None'))}]",
            f"{n}.view({n}.shape)",
            f"{n}.view_as({n})",
            f"{n}.detach()",
            f"{n}.permute({', '.join(str(i) for i in r.sample(range(d), d))})",
            f"{n}.movedim(0, -1)",
        ]
        if d == 2:
            options += [
                f"{n}.t()",
                f"{n}.T",
                f"{n}.diagonal()",
                f"{n}.diagonal({r.choice((-1, 1))})",
                f"{n}.mT",
            ]
        if t.dtype == torch.complex64:
            options += [f"torch.view_as_real({n})", f"{n}.real", f"{n}.imag", f"{n}.conj()"] * 2
        if t.dtype == torch.float32 and size == 2 and dim in (-1, d - 1):
            options += [f"torch.view_as_complex({n}.contiguous())"]
        if t.numel() and r.random() < 0.2:
            a, b = self.fresh(), self.fresh()
            return Statement(r.choice((
                f"{a}, {b} = {n}.chunk(2, {dim})", f"{a}, {b}, *_ = {n}.unbind({dim})",
                f"{a}, {b} = {n}.split([1, {size - 1}], {dim})", f"{a}, {b} = {n}.tensor_split(2, {dim})",
            )), (a, b))  # fmt: skip
        return Statement(f"{out} = {r.choice(options)}", (out,))

    def pure(self) -> Statement | None:
        r = self.r
        n = self.pick()
        if n is None:
            return None
        t = self.env[n]
        out = self.fresh()
        floating = t.dtype.is_floating_point
        options = [
            f"{n} * {self.number(t)}",
            f"{n} + {self.number(t)}",
            f"{n}.clone()",
            f"{n}.contiguous()",
            f"{n}.to({r.choice(list(_DTYPE_NAMES.values()))})",
        ]
        if floating:
            options += [f"{n}.sin()", f"{n}.sigmoid()", f"{n}.relu()", f"{n}.exp().clamp(max=3.0)", f"torch.tanh({n})", f"{n} ** 2", f"{n}.abs()", f"-{n}",
                        f"torch.nn.functional.gelu({n})", f"torch.nn.functional.dropout({n}, 0.5)", f"{n}.mean()", f"torch.where({n} > 0, {n}, {n} * 0.5)"]  # fmt: skip
            if t.dim():
                options += [
                    f"{n}.softmax(-1)",
                    f"{n}.sum(0)",
                    f"{n}.sum(-1, keepdim=True)",
                    f"{n}.cumsum(0)",
                    f"{n}.amax(0)",
                    f"torch.cat([{n}, {n}], 0)",
                    f"torch.stack([{n}, {n}])",
                ]
            if t.dim() == 2:
                options += [
                    f"{n} @ {n}.t()",
                    f"torch.nn.functional.layer_norm({n}, {n}.shape[-1:])",
                ]
        if t.dtype == torch.complex64:
            options += [f"{n}.abs()", f"{n} * {n}.conj()", f"{n}.angle()"]
        if not t.dtype.is_complex:
            options += [f"{n} > 0"]
        other = self.pick(lambda o: _broadcasts(o, t))
        if other is not None:
            options += [
                f"{n} + {other}",
                f"{n} * {other}",
                f"torch.where({n} == {other}, {n}, {other})",
            ] * 2
        m = self.pick(lambda o: o.dtype == torch.bool and o.shape == t.shape)
        if m is not None:
            options += [
                f"torch.where({m}, {n}, {self.number(t)})",
                f"{n}.masked_fill({m}, {self.number(t)})",
            ]
        return Statement(f"{out} = {r.choice(options)}", (out,))

    def inplace(self) -> Statement | None:
        r = self.r
        n = self.pick(lambda t: not _overlaps_itself(t))
        if n is None:
            return None
        t = self.env[n]
        x = self.number(t)
        floating = t.dtype.is_floating_point
        options = [f"{n}.fill_({x})", f"{n}.zero_()"]
        if t.dtype != torch.bool:
            options += [
                f"{n}.mul_({x})",
                f"{n}.add_({x})",
                f"{n} *= {x}",
                f"{n} += {x}",
                f"{n}.sub_({x})",
                f"{n}.neg_()",
            ]
            if not t.dtype.is_complex:
                options += [
                    f"{n}.clamp_(min={'-1' if t.dtype == torch.int64 else '-0.5'})",
                    f"{n}.abs_()",
                ]
        else:
            options += [f"{n}.logical_not_()", f"{n} |= {x}"]
        if floating:
            options += [f"{n}.sin_()", f"{n}.sigmoid_()", f"{n}.relu_()", f"{n}.tanh_()", f"{n}.pow_(2)", f"{n}.div_(2)", f"torch.nn.functional.relu({n}, inplace=True)",
                        f"torch.exp({n}.clamp(max=1.0), out={n})", f"torch.mul({n}, 2.0, out={n})", f"torch._foreach_mul_([{n}], 2.0)",
                        f"torch.nn.functional.dropout({n}, 0.5, inplace=True)", f"{n}.uniform_()", f"{n}.normal_()", f"{n}.bernoulli_(0.5)"]  # fmt: skip
            if t.dim():
                options += [
                    f"{n}.cumsum_(0)",
                    f"torch.sum({n}, 0, out=torch.empty(()))",
                    f"{n}.index_fill_(0, torch.tensor([0]), 1.5)",
                    f"{n}.copy_({n}.flip(0))",
                ]
        if t.dim() and t.shape[0] > 1 and t.dtype != torch.bool:
            options += [f"{n}.index_add_(0, torch.tensor([0, 1]), {n}[:2] * 2)", f"{n}.index_copy_(0, torch.tensor([1, 0]), {n}[:2] * 2)",
                        f"{n}[0] = {n}[1]", f"{n}[1:] = {n}[:-1].clone()", f"{n}[:-1] += 1", f"{n}.scatter_(0, torch.zeros([1] * {t.dim()}, dtype=torch.int64), {x})"] * 2  # fmt: skip
        if t.dim():
            index = self.index(t)
            mask = f"{n} > 0" if not t.dtype.is_complex else f"{n}.real > 0"
            index = mask if index is None else index
            options += [f"{n}[{index}] = {x}"] * 4
            if t.dtype != torch.bool:
                options += [f"{n}[{index}] += {x}", f"{n}[{index}] *= {x}"] * 2
            options += [f"{n}.masked_fill_({mask}, {x})"]
            other = self.pick(lambda o: o.dtype == t.dtype)
            if (
                other is not None
                and self.env[other].untyped_storage()._cdata != t.untyped_storage()._cdata
            ):
                options += [
                    f"{n}[{index}] = {other}[{self.index(self.env[other]) or '0'}]",
                    f"{n}.data.copy_({other})",
                ] * 2
        other = self.like(t)
        if other is not None:
            # What a copy between overlapping tensors gives depends on the loops of eager.
            shared = self.env[other].untyped_storage()._cdata == t.untyped_storage()._cdata
            options += [f"{n}.copy_({other}{'.clone()' if shared else ''})"] * 3
            if t.dtype != torch.bool:
                options += [
                    f"{n}.add_({other})",
                    f"{n}.mul_({other})",
                    f"{n} += {other}",
                    f"torch.add({n}, {other}, out={n})",
                    f"{n}.set_({other})" if r.random() < 0.2 else f"{n}.sub_({other})",
                ] * 2
        if t.dtype == torch.complex64:
            options += [
                f"{n}.real.mul_(2)",
                f"{n}.imag[...] = 1.0",
                f"torch.view_as_real({n}).add_(1)",
            ] * 2
        if r.random() < 0.12:
            options = [f"{n}.unsqueeze_(0)", f"{n}.squeeze_()", f"{n}.detach_()"]
            if t.dim() == 2:
                options += [f"{n}.t_()", f"{n}.transpose_(0, 1)"]
            if t.is_floating_point():
                options += [f"{n}.requires_grad_()"]
        text = r.choice(options)
        if r.random() < 0.15 and "=" not in text.split("(")[0]:
            out = self.fresh()
            return Statement(f"{out} = {text}", (out,))
        return Statement(text)

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
        if not body:
            return None
        return Statement(head, tuple(d for s in body for d in s.defines), body)

    open: list[str]

    def statement(self, simple: bool = False) -> Statement | None:
        """Draws a statement and runs it; None if eager raises (then nothing has happened, or the program ends)."""
        kind = self.r.choices(
            ("view", "pure", "inplace", "block", "data"), (8, 6, 10, 0 if simple else 2, 1)
        )[0]
        if kind == "block":
            return self.block()
        if kind == "data":
            n = self.pick()
            if n is None:
                return None
            out = self.fresh()
            s: Statement | None = Statement(
                f"{out} = {n}.{self.r.choice(('data', 'detach()'))}", (out,)
            )
        else:
            s = getattr(self, kind)()
        if s is None or not self.run(s):
            return None
        return s

    def run(self, s: Statement) -> bool:
        source = s.text
        for head in reversed(self.open):
            source = head + "\n" + "\n".join("    " + line for line in source.split("\n"))
        try:
            exec(source, self.scope)
        except Exception:
            self.raised = s
            return False
        for d in s.defines:
            value = self.scope.get(d)
            if not isinstance(value, torch.Tensor) or value.numel() > 400 or value.dim() > 5:
                return False
            self.env[d] = value
        return True

    raised: Statement | None = None

    def draw(self) -> Program:
        r = self.r
        self.open = []
        while True:
            self.leaves, self.env, self.count = [], {}, 0
            arguments, tracked = self.draw_inputs()
            p = Program(self.leaves, arguments, tracked, [], [], self.seed)
            try:
                scope: dict[str, Any] = {"torch": torch}
                exec(p.source().replace("return ()", "pass"), scope)
                torch.manual_seed(0)
                values, _ = scope["inputs"](0)
                break
            except Exception:
                continue
        self.scope = {"torch": torch, **dict(zip(arguments, values, strict=True))}
        self.env = dict(zip(arguments, values, strict=True))
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
        names = list(self.env)
        made = [n for n in names if n not in arguments]
        k = r.choice((1, 1, 2, 3))
        p.outputs = r.sample(made, min(k, len(made))) if made else []
        if r.random() < 0.25 or not p.outputs:
            p.outputs.append(r.choice(arguments))
        if made and r.random() < 0.1:
            p.outputs.append(p.outputs[0])
        return p


def _overlaps_itself(t: torch.Tensor) -> bool:
    """Several elements in one place, other than by expand: what eager writes there depends on its loops."""
    places = torch.zeros((), dtype=torch.int64)
    for size, stride in zip(t.shape, t.stride(), strict=True):
        if stride:
            places = places.unsqueeze(-1) + torch.arange(size) * stride
    return places.unique().numel() < places.numel()


def _broadcasts(o: torch.Tensor, t: torch.Tensor) -> bool:
    try:
        return len(torch.broadcast_shapes(o.shape, t.shape)) <= 3
    except RuntimeError:
        return False


def draw(seed: int) -> Program:
    """The program of a seed; the same on every machine."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.manual_seed(seed)
        return _Draw(seed).draw()


def smaller(p: Program) -> Iterator[Program]:
    """Programs that have a little less than p: without one statement, output, argument or block."""
    copy = dataclasses.replace

    def without(statements: list[Statement]) -> Iterator[list[Statement]]:
        for i in reversed(range(len(statements))):
            s = statements[i]
            yield statements[:i] + statements[i + 1 :]
            if s.body is not None:
                yield statements[:i] + s.body + statements[i + 1 :]
                for body in without(s.body):
                    if body:
                        defines = tuple(d for b in body for d in b.defines)
                        yield (
                            statements[:i]
                            + [Statement(s.text, defines, body)]
                            + statements[i + 1 :]
                        )

    half = len(p.body) // 2
    if half > 1:
        yield copy(p, body=p.body[:half])
        yield copy(p, body=p.body[half:])
    for body in without(p.body):
        yield copy(p, body=body)
    if len(p.outputs) > 1:
        for i in range(len(p.outputs)):
            yield copy(p, outputs=p.outputs[:i] + p.outputs[i + 1 :])
    if p.outputs and p.outputs != ["0"]:
        yield copy(p, outputs=["0"])
    if len(p.arguments) > 1:
        for i in range(len(p.arguments)):
            yield copy(p, arguments=p.arguments[:i] + p.arguments[i + 1 :])
    for i in range(len(p.leaves)):
        gone = p.leaves[i].defines
        yield copy(
            p,
            leaves=p.leaves[:i] + p.leaves[i + 1 :],
            tracked=[t for t in p.tracked if t not in gone],
            arguments=[a for a in p.arguments if a not in gone],
        )
        if ".requires_grad_()" in p.leaves[i].text:
            leaf = Statement(p.leaves[i].text.replace(".requires_grad_()", ""), gone)
            yield copy(
                p,
                leaves=[*p.leaves[:i], leaf, *p.leaves[i + 1 :]],
                tracked=[t for t in p.tracked if t not in gone],
            )


def minimize(p: Program, fails: Callable[[Program], bool], budget: int = 400) -> Program:
    """The smallest program found that still fails."""
    again = True
    while again and budget > 0:
        again = False
        for q in smaller(p):
            budget -= 1
            if budget <= 0:
                break
            if fails(q):
                p, again = q, True
                break
    return p
