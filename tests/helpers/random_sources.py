"""Runs programs that a test writes as text, eagerly and compiled, and compares what is observed of both."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

import fulgurite as fg

CALLS = 4


def equal(a: Any, b: Any) -> bool:
    """Tensors by value (NaN equals NaN), in tuples and lists."""
    if isinstance(a, torch.Tensor):
        same_shape = isinstance(b, torch.Tensor) and a.shape == b.shape
        return same_shape and torch.allclose(a, b, equal_nan=True)
    if isinstance(a, (tuple, list)):
        return len(a) == len(b) and all(map(equal, a, b))
    return a == b


def served_like_eager(
    seeds: int,
    source_of: Callable[[int], str],
    compiled: Callable[[str], Callable],
    observed: Callable[[Callable, int, int], tuple],
) -> int:
    """How many of the programs were served by a compiled one; all must be as eager, but for those that eager refuses."""
    served = 0
    for seed in range(seeds):
        source = source_of(seed)
        f = compiled(source)
        g = fg.jit(f)
        try:
            expected = [observed(f, seed + k, k) for k in range(CALLS)]
        except RuntimeError:
            continue  # eager's forward or backward raises
        found = [observed(g, seed + k, k) for k in range(CALLS)]
        assert equal(found, expected), f"seed {seed}:\n{source}"
        served += fg.cache_hits(g) > 0
    return served
