"""nn.Transformer, recurrent networks."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from bench.zoo.study import OneModule, Study, integers, random


class Encoder(OneModule):
    name = "nn.TransformerEncoder ×2"

    def make(self) -> nn.Module:
        layer = nn.TransformerEncoderLayer(32, 4, 64, dropout=0.1, batch_first=True)
        return nn.TransformerEncoder(layer, 2)

    def batch(self, i: int) -> tuple[tuple, dict[str, Any]]:
        return (random(i, 4, 10, 32),), {}


class Transformer(OneModule):
    name = "nn.Transformer 2+2, causal"

    def make(self) -> nn.Module:
        return nn.Transformer(32, 4, 2, 2, 64, batch_first=True)

    def batch(self, i: int) -> tuple[tuple, dict[str, Any]]:
        mask = nn.Transformer.generate_square_subsequent_mask(7)
        return (random(i, 2, 9, 32), random(i + 50, 2, 7, 32)), {"tgt_mask": mask}


class Tagger(nn.Module):
    """Embedding, two recurrent layers in both directions, a linear head."""

    def __init__(self, kind: type[nn.RNNBase]) -> None:
        super().__init__()
        self.embedding = nn.Embedding(50, 16, padding_idx=0)
        self.rnn = kind(16, 24, num_layers=2, bidirectional=True, batch_first=True, dropout=0.1)
        self.head = nn.Linear(48, 11)

    def forward(self, ids: Tensor, tags: Tensor | None = None) -> Tensor:
        out, _ = self.rnn(self.embedding(ids))
        logits = self.head(out)
        if tags is None:
            return logits
        return nn.functional.cross_entropy(logits.flatten(0, 1), tags.flatten(), ignore_index=0)


class Recurrent(OneModule):
    kind: type[nn.RNNBase]

    def make(self) -> nn.Module:
        return Tagger(self.kind)

    def batch(self, i: int) -> tuple[tuple, dict[str, Any]]:
        ids = integers(i, 50, 4, 12)
        return ((ids, integers(i + 1, 11, 4, 12)) if self.module.training else (ids,)), {}

    def loss(self, result: Any, i: int) -> Tensor:
        return result


class Lstm(Recurrent):
    name = "LSTM tagger, 2 layers, both ways"
    kind = nn.LSTM


class Gru(Recurrent):
    name = "GRU tagger, 2 layers, both ways"
    kind = nn.GRU


class Carried(nn.Module):
    """A cell stepped in a Python loop, with its state handed from call to call."""

    def __init__(self) -> None:
        super().__init__()
        self.cell = nn.LSTMCell(8, 16)
        self.head = nn.Linear(16, 8)

    def forward(self, x: Tensor, state: tuple[Tensor, Tensor]) -> Any:
        outs = []
        for t in range(x.size(1)):
            state = self.cell(x[:, t], state)
            outs.append(self.head(state[0]))
        return torch.stack(outs, 1), state


class Truncated(OneModule):
    name = "LSTMCell loop, state detached between calls"

    def __init__(self) -> None:
        super().__init__()
        self.state = (torch.zeros(4, 16), torch.zeros(4, 16))

    def make(self) -> nn.Module:
        return Carried()

    def batch(self, i: int) -> tuple[tuple, dict[str, Any]]:
        return (random(i, 4, 6, 8), self.state), {}

    def loss(self, result: Any, i: int) -> Tensor:
        out, state = result
        self.state = tuple(s.detach() for s in state)
        return out.square().mean()

    def outputs(self, result: Any) -> list[Tensor]:
        return [result[0], *result[1]]


STUDIES: list[type[Study]] = [Encoder, Transformer, Lstm, Gru, Truncated]
