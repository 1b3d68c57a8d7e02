"""The tree of programs that only data tell apart, as text."""

from __future__ import annotations

import linecache
import os
from collections.abc import Iterator, Sequence
from typing import NamedTuple


class Decision(NamedTuple):
    """A question about data that a program asks (a value guard), and the answer with which it goes on."""

    node: int
    """The same number in programs of one tree: the same question after the same answers."""
    place: str
    """File and line, "" if unknown."""
    what: str
    """The operator that made the value."""
    answer: str

    @property
    def question(self) -> str:
        file, _, line = self.place.rpartition(":")
        if not line.isdigit():
            return self.what
        source = linecache.getline(file, int(line)).strip()
        return f"{os.path.basename(file)}:{line}: {source or self.what}"


Way = tuple[int, Sequence[Decision]]
"""A program's number, and what it asks."""


def tree_lines(ways: Sequence[Way], indent: str = "  ", depth: int = 0) -> Iterator[str]:
    """One line for each question to which the programs have several answers, and for each program."""
    while len(ways) > 1 and len({_asked(w, depth)[:2] for w in ways}) == 1:
        if depth >= len(ways[0][1]):  # the same answers to all: other guards tell them apart
            yield indent + "programs " + ", ".join(str(number) for number, _ in ways)
            return
        depth += 1
    for node in dict.fromkeys(_asked(w, depth)[0] for w in ways):
        group = [w for w in ways if _asked(w, depth)[0] == node]
        if node is None:
            yield from (f"{indent}program {number}" for number, _ in group)
            continue
        yield indent + group[0][1][depth].question
        for answer in dict.fromkeys(_asked(w, depth)[1] for w in group):
            below = [w for w in group if _asked(w, depth)[1] == answer]
            if len(below) == 1:
                yield f"{indent}  {answer}: program {below[0][0]}"
            else:
                yield f"{indent}  {answer}:"
                yield from tree_lines(below, indent + "    ", depth + 1)


def _asked(way: Way, depth: int) -> tuple[int | None, str]:
    if depth >= len(way[1]):
        return None, ""
    return way[1][depth].node, way[1][depth].answer
