"""A small character GPT, written as one would write it without a compiler in mind."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F


@dataclass(frozen=True)
class Config:
    """Sizes of the model; ``context`` and ``width`` are counted in characters and channels."""

    vocabulary: int
    context: int = 64
    width: int = 96
    heads: int = 4
    blocks: int = 3
    dropout: float = 0.05


class Attention(nn.Module):
    """Causal self-attention with several heads."""

    def __init__(self, c: Config) -> None:
        super().__init__()
        self.heads = c.heads
        self.dropout = c.dropout
        self.qkv = nn.Linear(c.width, 3 * c.width)
        self.out = nn.Linear(c.width, c.width)

    def forward(self, x: Tensor) -> Tensor:
        batch, time, width = x.shape
        q, k, v = (
            self.qkv(x).view(batch, time, 3, self.heads, width // self.heads).permute(2, 0, 3, 1, 4)
        )
        y = F.scaled_dot_product_attention(
            q, k, v, dropout_p=self.dropout if self.training else 0.0, is_causal=True
        )
        return self.out(y.transpose(1, 2).reshape(batch, time, width))


class Block(nn.Module):
    """Attention and a GELU MLP, each behind a LayerNorm and beside a residual path."""

    def __init__(self, c: Config) -> None:
        super().__init__()
        self.norm1 = nn.LayerNorm(c.width)
        self.attention = Attention(c)
        self.norm2 = nn.LayerNorm(c.width)
        self.mlp = nn.Sequential(
            nn.Linear(c.width, 4 * c.width),
            nn.GELU(),
            nn.Linear(4 * c.width, c.width),
        )
        self.dropout = nn.Dropout(c.dropout)

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.dropout(self.attention(self.norm1(x)))
        return x + self.dropout(self.mlp(self.norm2(x)))


class GPT(nn.Module):
    """``forward(characters, targets)`` is the mean cross-entropy; without targets, the logits."""

    def __init__(self, c: Config) -> None:
        super().__init__()
        self.context = c.context
        self.embedding = nn.Embedding(c.vocabulary, c.width)
        self.position = nn.Embedding(c.context, c.width)
        self.dropout = nn.Dropout(c.dropout)
        self.blocks = nn.Sequential(*[Block(c) for _ in range(c.blocks)])
        self.norm = nn.LayerNorm(c.width)
        self.head = nn.Linear(c.width, c.vocabulary, bias=False)
        self.apply(_initialize)

    def forward(self, characters: Tensor, targets: Tensor | None = None) -> Tensor:
        positions = torch.arange(characters.shape[1], device=characters.device)
        x = self.dropout(self.embedding(characters) + self.position(positions))
        logits = self.head(self.norm(self.blocks(x)))
        if targets is None:
            return logits
        return F.cross_entropy(logits.flatten(0, 1), targets.flatten())


def _initialize(module: nn.Module) -> None:
    if isinstance(module, nn.Linear):
        nn.init.normal_(module.weight, std=0.8 * module.in_features**-0.5)
        if module.bias is not None:
            nn.init.zeros_(module.bias)
    elif isinstance(module, nn.Embedding):
        nn.init.normal_(module.weight, std=0.2)
