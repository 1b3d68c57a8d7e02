"""Operators that read the numbers of an integer tensor in C++, where the recorder sees no operator: packed sequences,
CTC lengths, split points. A program holds for the recorded numbers only; with others of the same shape it is another."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

import fulgurite as fg

LENGTHS = [[5, 3, 2], [5, 3, 2], [5, 4, 1], [5, 3, 2], [5, 4, 1]]
"""Of one sum, so that nothing but the numbers differs."""


def same_as_eager(
    function: Callable, arguments: list[tuple], parameters: list[torch.Tensor], grad: bool
) -> Callable:
    jitted = fg.jit(function)
    for args in arguments:
        results = []
        for f in (function, jitted):
            x = args[0].clone().requires_grad_(grad)
            with torch.set_grad_enabled(grad):
                out = f(x, *(a.clone() for a in args[1:]))
            grads = (
                torch.autograd.grad(
                    [o.sum() for o in out if o.requires_grad], [x, *parameters], allow_unused=True
                )
                if grad
                else ()
            )
            results.append((out, grads))
        torch.testing.assert_close(results[1], results[0], rtol=1e-5, atol=1e-6)
    assert not fg.fallbacks(jitted)
    return jitted


@pytest.mark.parametrize("grad", [False, True])
@pytest.mark.parametrize("batch_first", [False, True])
@pytest.mark.parametrize("kind", [torch.nn.LSTM, torch.nn.GRU, torch.nn.RNN])
def test_packed_sequences(kind: type, batch_first: bool, grad: bool) -> None:
    net = kind(4, 6, bidirectional=True, batch_first=batch_first)

    def f(x: torch.Tensor, lengths: torch.Tensor) -> tuple[torch.Tensor, ...]:
        packed = pack_padded_sequence(x, lengths, batch_first=batch_first, enforce_sorted=False)
        out, _ = net(packed)
        return pad_packed_sequence(out, batch_first=batch_first)

    shape = (3, 5, 4) if batch_first else (5, 3, 4)
    calls = [(torch.randn(shape), torch.tensor(n)) for n in LENGTHS]
    jitted = same_as_eager(f, calls, list(net.parameters()), grad)
    assert fg.cache_hits(jitted) == 3


def test_lengths_that_are_returned_are_the_callers() -> None:
    @fg.jit
    def f(x: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        return pad_packed_sequence(pack_padded_sequence(x, lengths))[1]

    for _ in range(3):
        assert f(torch.randn(5, 3, 4), torch.tensor([5, 3, 2])).add_(1).tolist() == [6, 4, 3]
    assert fg.cache_hits(f) == 2


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32])
@pytest.mark.parametrize("as_numbers", [False, True])
def test_ctc_lengths(as_numbers: bool, dtype: torch.dtype) -> None:
    """Lengths of another dtype are converted first, by an operator that the recorder sees."""

    def f(x: torch.Tensor, targets: torch.Tensor, frames: torch.Tensor) -> tuple[torch.Tensor]:
        log_probs = x.log_softmax(-1)
        if as_numbers:
            return (torch.nn.functional.ctc_loss(log_probs, targets, (8, 7), (3, 2)),)
        return (
            torch.nn.functional.ctc_loss(
                log_probs, targets, frames, torch.tensor([3, 2], dtype=dtype)
            ),
        )

    calls = [
        (
            torch.randn(8, 2, 5),
            torch.randint(1, 5, (2, 3), dtype=dtype),
            torch.tensor([8, 8 - i % 2], dtype=dtype),
        )
        for i in range(6)
    ]
    jitted = same_as_eager(f, calls, [], grad=True)
    assert fg.cache_hits(jitted) == (5 if as_numbers else 4)


def test_split_points() -> None:
    def f(x: torch.Tensor, at: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return tuple(2 * part for part in torch.tensor_split(x, at))

    calls = [(torch.randn(6, 2), torch.tensor(p)) for p in ([2, 3], [2, 3], [1, 3], [2, 3])]
    assert fg.cache_hits(same_as_eager(f, calls, [], grad=True)) == 2


def test_too_many_numbers_run_eagerly() -> None:
    @fg.jit
    def f(x: torch.Tensor, at: torch.Tensor) -> torch.Tensor:
        return torch.tensor_split(x, at)[0]

    f(torch.randn(6), torch.zeros(5000, dtype=torch.int64))
    assert [r.code for r in fg.fallbacks(f)] == ["FG-133"]
