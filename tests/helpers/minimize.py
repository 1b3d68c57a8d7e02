"""Makes a failing random program small."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator

from helpers.programs import Program, Statement


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
    if p.mode:
        yield copy(p, mode="")
    for g in p.globals:
        yield copy(
            p,
            globals=[o for o in p.globals if o is not g],
            tracked=[t for t in p.tracked if t not in g.defines],
            leaves=[
                x for x in p.leaves if not any(n in line for n in g.defines for line in x.lines(0))
            ],
        )
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
