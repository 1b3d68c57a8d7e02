"""Masks, parts of a chunk and memory from empty(): what the operators of whole models do to tensors of their own."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

import fulgurite as fg


def compare(f: Callable, *args: Tensor, served: bool = True) -> None:
    """Three calls with other values and the same masks, with eager's results and gradients."""
    jitted = fg.jit(f)
    for _ in range(3):
        results = []
        for g in (f, jitted):
            given = [a.detach().clone().requires_grad_(a.requires_grad) for a in args]
            out = g(*given)
            if out.requires_grad:
                out.square().sum().backward()
            results.append([out, *(t.grad for t in given)])
        for want, got in zip(*results, strict=True):
            assert (want is None) == (got is None)
            if want is not None:
                assert torch.equal(want, got)
        with torch.no_grad():
            for a in args:
                if a.is_floating_point():
                    a.mul_(1.5)  # keeps the signs that masks are made of
    assert (fg.cache_hits(jitted) == 2) == served, fg.fallbacks(jitted)


ROWS = torch.tensor([True, False, True, True, False])
COLUMNS = torch.tensor([False, True, True])
INDEX = torch.tensor([[4, 0], [2, 2]])


def x() -> Tensor:
    torch.manual_seed(0)
    return torch.randn(5, 3, requires_grad=True)


@pytest.mark.parametrize(
    "f, mask",
    [
        (lambda x, m: (x * 2)[m], ROWS),
        (lambda x, m: (x * 2)[:, m], COLUMNS),
        (lambda x, m: (x * 2)[m, 1:], ROWS),
        (lambda x, m: (x * 2)[x > 0] * 3, ROWS),
        (lambda x, m: (x * 2).masked_select(x > 0), ROWS),
        (lambda x, m: (x * 2)[m] * 3, INDEX),
        (lambda x, m: (x * 2)[m, 1:] * 3, INDEX),
    ],
)
def test_indexing_with_masks_and_integers_has_its_gradient(f: Callable, mask: Tensor) -> None:
    compare(f, x(), mask)


def test_integers_as_indices_do_not_guard_the_shape() -> None:
    jitted = fg.jit(lambda x, i: x[i])
    jitted(x(), INDEX)
    assert "expect_sizes" not in str(fg.last_traces(jitted)[0])


def test_parts_of_a_chunk_are_written_one_after_another() -> None:
    torch.manual_seed(0)
    gru = nn.GRU(4, 3, batch_first=True)
    compare(lambda x: gru(x)[0], torch.randn(2, 5, 4, requires_grad=True))


def _inverse(i: Tensor) -> Tensor:
    inverse = torch.empty_like(i)
    inverse[i] = torch.arange(len(i))
    return inverse


def _rows(x: Tensor) -> Tensor:
    out = torch.empty(4, 5, 3)
    for k in range(4):
        out[k] = x * k
    return out


def _scattered(x: Tensor) -> Tensor:
    out = x.new_empty(5, 3)
    out.index_copy_(0, torch.tensor([4, 2, 0, 1, 3]), x)
    return out * 2


def test_memory_from_empty_that_the_program_fills_compiles() -> None:
    compare(_inverse, torch.tensor([3, 1, 0, 2]))
    compare(_rows, x())
    compare(_scattered, x())


def test_memory_that_only_cpp_code_has_filled_is_refused() -> None:
    def f(x: Tensor) -> Tensor:
        return x + torch.Tensor([1.0, 2.0, 3.0])

    compare(f, x())
    g = fg.jit(f)
    for k in range(3):
        assert torch.equal(g(torch.full((3,), float(k))), torch.tensor([1.0, 2.0, 3.0]) + k)
