"""Random functions that branch on data, several times, with views, writes and random numbers before and after."""

from __future__ import annotations

import random

PURE = (
    "{a} * {k}",
    "{a} + {b}",
    "{a}.sin()",
    "{a} - {b} * {k}",
    "({a} * {b}).tanh()",
    "torch.maximum({a}, {b})",
    "{a}.cumsum(0)",
    "{a}.flip(0) + {k}",
    "torch.where({a} > {b}, {a}, {b} * {k})",
    "({a} @ {b}) * {a}",
    "torch.stack([{a}, {b}]).mean(0)",
    "{a} * {a}.sum().item()",
    "torch.nn.functional.dropout({a}, 0.5)",
    "{a} + torch.rand(4)",
    "{a} * torch.randn_like({b})",
    "{a}.clone()",
    "{a}.sort()[0]",
    "{a}.max() - {b}",
)
WRITE = (
    "{a}.mul_({k})",
    "{a}.add_({b})",
    "{a}[{i}] = {k}",
    "{a}[{i}:] += {b}[{i}:]",
    "{a}[{i}].zero_()",
    "{a}.copy_({b})",
    "{a}.view(2, 2)[0].sub_({k})",
    "{a}.clamp_(-3, 3)",
    "torch.add({a}, {b}, out={a})",
)
VIEW = ("{a}.view(2, 2).view(4)", "{a}[:]", "{a}.detach()", "{a}.expand(4)")
ASK = (
    "{a}.sum() > {k}",
    "{a}[{i}] < {k}",
    "bool(({a} > {b}).all())",
    "{a}.mean().item() > {k}",
    "int({a}[{i}].abs().clamp(max=2)) == 1",
    "{a}.abs().max() > {b}.abs().max()",
)


class Writer:
    def __init__(self, seed: int, grad: bool) -> None:
        self.r = random.Random(seed)
        self.grad = grad
        self.lines: list[str] = []
        self.made = 0

    def fill(self, text: str, names: list[str], own: list[str] | None = None) -> str:
        r = self.r
        return text.format(
            a=r.choice(own or names),
            b=r.choice(names),
            k=r.choice(("0", "0.5", "-1", "2", "-0.25")),
            i=r.randrange(4),
        )

    def fresh(self) -> str:
        self.made += 1
        return f"t{self.made}"

    def block(self, names: list[str], own: list[str], depth: int, indent: str) -> None:
        """`names` may be read, `own` written: what the function made itself."""
        names, own, r = list(names), list(own), self.r
        for _ in range(r.choice((2, 3, 4))):
            kind = r.choices(("pure", "write", "view", "ask", "again"), (6, 3, 1, 2.5, 0.7))[0]
            if kind == "write" and own:
                self.lines.append(indent + self.fill(r.choice(WRITE), names, own))
            elif kind == "view":
                name = self.fresh()
                self.lines.append(f"{indent}{name} = " + self.fill(r.choice(VIEW), names))
                names.append(name)
            elif kind == "ask" and depth:
                self.lines.append(f"{indent}if {self.fill(r.choice(ASK), names)}:")
                self.block(names, own, depth - 1, indent + "    ")
                if r.random() < 0.5:
                    self.lines.append(f"{indent}else:")
                    self.block(names, own, depth - 1, indent + "    ")
            elif kind == "again" and depth and own:
                name, n = r.choice(own), self.fresh()
                self.lines.append(f"{indent}{n} = 0")
                self.lines.append(f"{indent}while {n} < 4 and {name}.abs().sum() > 1:")
                self.lines.append(f"{indent}    {name} = {name} * 0.5 - {r.choice(names)} * 0.1")
                self.lines.append(f"{indent}    {n} += 1")
            else:
                name = self.fresh()
                self.lines.append(f"{indent}{name} = " + self.fill(r.choice(PURE), names))
                names.append(name)
                own.append(name)
        if r.random() < 0.4:
            self.lines.append(f"{indent}return {', '.join(r.sample(names, min(2, len(names))))},")
        elif own and r.random() < 0.5:
            self.lines.append(f"{indent}x = {r.choice(own)} + x")


def draw(seed: int, grad: bool = False) -> str:
    """The source of a function ``f(x, y)`` of two tensors of four elements."""
    w = Writer(seed, grad)
    own = [] if grad or w.r.random() < 0.5 else ["y"]
    w.block(["x", "y"], own, 3, "    ")
    w.lines.append("    return x, y * 1")
    return "def f(x, y):\n" + "\n".join(w.lines) + "\n"
