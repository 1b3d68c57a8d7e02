"""English text that every CPython carries: the reference topics of ``help()``."""

from __future__ import annotations

import torch
from torch import Tensor


class Text:
    """A text as character ids, with its alphabet, split into a training part and a held-out part."""

    def __init__(self, text: str, held_out: float = 0.05) -> None:
        self.alphabet = "".join(sorted(set(text)))
        ids = {character: i for i, character in enumerate(self.alphabet)}
        data = torch.tensor([ids[character] for character in text], dtype=torch.int64)
        cut = int(len(data) * (1 - held_out))
        self.training, self.held_out = data[:cut], data[cut:]

    def decode(self, ids: Tensor) -> str:
        return "".join(self.alphabet[i] for i in ids.tolist())

    def batch(self, size: int, context: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """Characters and the characters that follow them, each int64[size, context]."""
        return windows(self.training, size, context, generator)


def windows(
    data: Tensor, size: int, context: int, generator: torch.Generator
) -> tuple[Tensor, Tensor]:
    starts = torch.randint(len(data) - context - 1, (size, 1), generator=generator)
    places = starts + torch.arange(context)
    return data[places], data[places + 1]


def python_topics() -> Text:
    """The text of ``pydoc_data.topics`` in printable ASCII, without underlines of headings and tables."""
    from pydoc_data.topics import topics

    lines = []
    for name in sorted(topics):
        for line in topics[name].splitlines():
            line = line.rstrip()
            if line and set(line) <= set(" *=-~^+") or line.count("|") > 1:
                continue
            lines.append("".join(c for c in line if " " <= c <= "~"))
    return Text("\n".join(lines))
