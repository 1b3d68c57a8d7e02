"""Arguments that an operator resizes: out= of another shape than the result. The oracle is eager on twins."""

from __future__ import annotations

import warnings
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

import fulgurite as fg


def state(t: Tensor) -> tuple:
    return (
        t.shape,
        t.stride(),
        t.storage_offset(),
        t.untyped_storage().nbytes(),
        t._version,
        t._base is None,
        t.tolist(),
    )


def agree(f: Callable, make: Callable[[], tuple], served: bool = True) -> None:
    jitted = fg.jit(f)
    for _ in range(4):
        args, twins = make(), make()
        expected, found = f(*twins), jitted(*args)
        expected = expected if isinstance(expected, tuple) else (expected,)
        found = found if isinstance(found, tuple) else (found,)
        for e, r in zip(expected, found, strict=True):
            assert state(e) == state(r)
            assert [e is t for t in twins] == [r is a for a in args]
        for t, a in zip(twins, args, strict=True):
            assert state(t) == state(a)
    if served:
        assert fg.fallbacks(jitted) == []
        assert fg.cache_hits(jitted) == 3
    else:
        assert "FG-156" in {fallback.code for fallback in fg.fallbacks(jitted)}


def matrix() -> Tensor:
    return torch.arange(6.0).reshape(2, 3)


def exp(x, out):
    return torch.exp(x, out=out)


def nothing_returned(x, out):
    torch.exp(x, out=out)
    return x * 2


def used_afterwards(x, out):
    torch.exp(x, out=out)
    return out + 1, out[0], out


def twice(x, out):
    torch.exp(x, out=out)
    torch.sin(x, out=out)
    out.mul_(2)
    return out


def two_outs(x, values, indices):
    return torch.sort(x, dim=0, out=(values, indices))


def product(x, out):
    return torch.mm(x, x.t(), out=out)


def view_of_larger_memory():
    big = torch.zeros(20)
    return matrix(), big[3:3]


def view_of_smaller_memory():
    big = torch.zeros(5)
    return matrix(), big[3:3]


@pytest.mark.parametrize("f", [exp, nothing_returned, used_afterwards, twice, product])
@pytest.mark.parametrize(
    "make",
    [
        lambda: (matrix(), torch.empty(0)),
        lambda: (matrix(), torch.empty(2, 0)),
        lambda: (matrix(), torch.zeros(9)[:0]),
        view_of_larger_memory,
        view_of_smaller_memory,
    ],
    ids=["empty", "empty in one dimension", "memory is there", "larger view", "smaller view"],
)
def test_empty_arguments(f, make):
    agree(f, make)


def test_transposed_results_keep_their_strides():
    agree(exp, lambda: (matrix().t(), torch.empty(0)))


def test_several_results():
    agree(
        two_outs, lambda: (matrix(), torch.empty(0), torch.empty(0, dtype=torch.long)), served=True
    )


def test_results_without_elements():
    agree(exp, lambda: (torch.empty(0, 3), torch.empty(0, 5)))


def test_an_argument_that_fits_is_not_resized():
    agree(exp, lambda: (matrix(), torch.zeros(2, 3)))


def test_arguments_with_elements_are_resized_by_eager_with_its_warning():
    jitted = fg.jit(exp)
    for _ in range(3):
        for f in (exp, jitted):
            x, out = matrix(), torch.zeros(4)
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                f(x, out)
            assert ["was resized" in str(w.message) for w in caught] == [True]
            assert torch.equal(out, x.exp())
    assert fg.cache_hits(jitted) == 0


def test_memory_shared_with_another_argument_stays_with_eager():
    def f(x, big, out):
        torch.exp(x, out=out)
        return big + 1

    def make():
        big = torch.zeros(20)
        return matrix(), big, big[3:3]

    jitted = fg.jit(f)
    for _ in range(3):
        a, b = make(), make()
        assert torch.equal(f(*a), jitted(*b))
        assert state(a[1]) == state(b[1])
    assert fg.cache_hits(jitted) == 0


def test_an_argument_that_cannot_be_resized_is_an_error_and_nothing_is_done_twice() -> None:
    numpy = pytest.importorskip("numpy")

    def f(x, out):
        x.add_(1)
        return torch.mul(x, 2, out=out)

    g = fg.jit(f)
    for _ in range(2):
        g(torch.zeros(3), torch.empty(0))
    assert fg.cache_hits(g) == 1, fg.explain(g)
    for h in (f, g):
        x, fixed = torch.zeros(3), torch.from_numpy(numpy.empty(0, dtype=numpy.float32))
        with pytest.raises(RuntimeError, match="resiz"):
            h(x, fixed)
        assert x.tolist() == [1.0, 1.0, 1.0]
