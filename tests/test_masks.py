"""Writing where a mask says, with gradients: how many elements that are changes from call to call."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

import fulgurite as fg

D = torch.float64


def _constant(x, m, v):
    y = x * 1
    y[m] = 0.0
    return y


def _token(x, m, v):
    y = x * 1
    y[m] = v[0]
    return y


def _single(x, m, v):
    y = x * 1
    y[m] = v[:1]
    return y


def _scalar(x, m, v):
    y = x * 1
    y[m] = v[0, 0]
    return y


def _times(x, m, v):
    y = x * 1
    y[m] *= v[1]
    return y


def _accumulated(x, m, v):
    return (x * 1).index_put((m,), v[0], accumulate=True)


def _elements(x, m, v):
    y = x * 1
    y[m[:, None] & (x > 0)] = v[0, 0]
    return y


def _second_dimension(x, m, v):
    y = (x * 1).T
    y[:, m] = v[0, :, None]
    return y


def _with_numbers(x, m, v):
    y = x * 1
    y[m, 1] = v[0, 0]
    return y


@pytest.mark.parametrize(
    "f",
    [
        _constant,
        _token,
        _single,
        _scalar,
        _times,
        _accumulated,
        _elements,
        _second_dimension,
        _with_numbers,
    ],
)
def test_any_number_of_elements(f: Callable) -> None:
    g = fg.jit(f)
    masks = [[1, 0, 1], [0, 0, 1], [1, 1, 1], [0, 0, 0], [0, 1, 1]]
    for call, chosen in enumerate(masks):
        torch.manual_seed(call)
        m = torch.tensor(chosen, dtype=torch.bool)
        x, v = torch.randn(3, 4, dtype=D), torch.randn(2, 4, dtype=D)
        results = []
        for h in (f, g):
            a, b = x.clone().requires_grad_(), v.clone().requires_grad_()
            y = h(a, m, b)
            first = torch.autograd.grad((y**2).sum(), (a, b), create_graph=True, allow_unused=True)
            second = torch.autograd.grad(
                sum((t**2).sum() for t in first if t is not None), (a, b), allow_unused=True
            )
            results.append([y, *first, *second])
        for ours, eager in zip(results[1], results[0], strict=True):
            assert (ours is None) == (eager is None)
            if eager is not None:
                torch.testing.assert_close(ours, eager, rtol=0, atol=0)
    sized = f is _times  # reads y[m], whose shape is guarded
    assert fg.cache_hits(g) == (1 if sized else len(masks) - 1), fg.explain(g)


def test_as_many_values_as_elements() -> None:
    def f(x, m, v):
        y = x.clone()
        y[m] = v
        return y

    g = fg.jit(f)
    for chosen in ([1, 0, 1], [0, 1, 1]):
        m = torch.tensor(chosen, dtype=torch.bool)
        x = torch.randn(3, 4, requires_grad=True)
        v = torch.randn(2, 4, requires_grad=True)
        torch.testing.assert_close(
            torch.autograd.grad(g(x, m, v).pow(2).sum(), (x, v)),
            torch.autograd.grad(f(x, m, v).pow(2).sum(), (x, v)),
            rtol=0,
            atol=0,
        )
    assert fg.cache_hits(g) == 1, fg.explain(g)
    with pytest.raises(RuntimeError, match="shape mismatch"):
        g(torch.zeros(3, 4), torch.ones(3, dtype=torch.bool), torch.zeros(2, 4))


def test_operators_that_refuse_sample_data() -> None:
    """Pivots and probabilities have a range, which sample tensors need not keep to."""

    def f(a, b, p):
        lu, pivots = torch.linalg.lu_factor(a)
        return torch.linalg.lu_solve(lu, pivots, b), torch.nn.functional.binary_cross_entropy(
            p.clamp(0.1, 0.9), b.sigmoid().detach().squeeze(-1)
        )

    g = fg.jit(f)
    for _ in range(3):
        a, b, p = torch.randn(3, 3, dtype=D), torch.randn(3, 1, dtype=D), torch.rand(3, dtype=D)
        for t in (a, b, p):
            t.requires_grad_()
        ours, eager = (
            torch.autograd.grad(sum(t.sum() for t in h(a, b, p)), (a, b, p)) for h in (g, f)
        )
        torch.testing.assert_close(ours, eager)
    assert fg.cache_hits(g) == 2, fg.explain(g)
