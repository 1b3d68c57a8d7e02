"""Writes to parts of a tensor cost what they cost in eager: no copy of the whole, and eager's values."""

import pytest
import torch

import fulgurite as fg
from fulgurite.demo.memory import peak_bytes


def add_to_items(x, v):
    x = x.clone()
    for i in range(4):
        x[i] += v
    return x


def set_items(x, v):
    x = x.clone()
    for i in range(4):
        x[i] = v * i
    return x


def slices(x, v):
    x = x * 1
    x[1::2] *= 2
    x[:, 2] = x[:, 1] + v[0]
    x[0, 1:3] -= v[1:3]
    return x


def diagonal(x, v):
    x = x + 0
    x.diagonal().add_(v)
    x.diagonal(1)[0] = 7
    return x


def from_itself(x, v):
    x = x.clone()
    x[0] = x[1]
    x[1:3] = x[0:2].clone() + v
    x[2] += x[3]
    return x


def read_between(x, v):
    x = x.clone()
    before = x[1] + v
    total = x.sum()
    x[1] = before
    after = x.sum()
    return x, before, total, after


def both_kept(x, v):
    y = x.clone()
    z = y.clone()
    y[0] += v
    z[0] = y[0]
    return x, y, z, y[0]


def strided(x, v):
    x = x.clone()
    x.as_strided((2, 2), (5, 1), 1).mul_(3)
    x.t()[1] += v
    x.view(-1)[3] = 9
    return x


def of_the_argument(x, v):
    for i in range(4):
        x[i] += v
    x[0, 0] = 5


def twice_the_same(x, v):
    x = x.clone()
    x[2] = v
    x[2] = v
    x[2] = v + 1
    return x


def of_a_column_major(x, v):
    x = x.t().clone(memory_format=torch.preserve_format)
    x[1] += v
    return x


def update_that_is_used_again(x, v):
    x = x.clone()
    row = x[1] + v
    x[1] = row
    return x, row * 2


def of_an_expanded(x, v):
    y = v.expand(4, 4)
    y = y + 0
    y[2] *= 3
    return y


FUNCTIONS = [
    add_to_items,
    set_items,
    slices,
    diagonal,
    from_itself,
    read_between,
    both_kept,
    strided,
    of_the_argument,
    twice_the_same,
    of_a_column_major,
    update_that_is_used_again,
    of_an_expanded,
]


@pytest.mark.parametrize("dtype", [torch.float32, torch.int64, torch.complex64])
@pytest.mark.parametrize("f", FUNCTIONS, ids=[f.__name__ for f in FUNCTIONS])
def test_values(f, dtype):
    jitted = fg.jit(f)
    for _ in range(3):
        x, v = torch.randint(9, (4, 4)).to(dtype), torch.randint(9, (4,)).to(dtype)
        y, w = x.clone(), v.clone()
        got, want = jitted(x, v), f(y, w)
        torch.testing.assert_close((got, x, v), (want, y, w), rtol=0, atol=0)
    assert fg.cache_hits(jitted) > 0


@pytest.mark.parametrize("f", FUNCTIONS, ids=[f.__name__ for f in FUNCTIONS])
def test_gradients(f):
    if f is of_the_argument:
        pytest.skip("writes a leaf")
    jitted = fg.jit(f)
    for _ in range(3):
        x = torch.randn(4, 4, requires_grad=True)
        v = torch.randn(4, requires_grad=True)

        def gradients(g, x=x, v=v):
            out = g(x, v)
            total = sum((t * t).sum() for t in (out if isinstance(out, tuple) else (out,)))
            return torch.autograd.grad(total, (x, v), allow_unused=True)

        torch.testing.assert_close(gradients(jitted), gradients(f))
    assert fg.cache_hits(jitted) > 0


def operators(f, *args):
    jitted = fg.jit(f)
    with torch.no_grad():
        for _ in range(2):
            jitted(*args)
    return str(fg.last_traces(jitted)[-1])


def test_a_loop_of_updates_writes_into_one_copy():
    text = operators(add_to_items, torch.randn(4, 4), torch.randn(4))
    assert "select_scatter" not in text, text
    assert text.count("add_(") == 4, text


def test_assignments_write_into_one_copy():
    text = operators(set_items, torch.randn(4, 4), torch.randn(4))
    assert "select_scatter" not in text, text
    assert text.count("copy_(") == 4, text


def test_no_more_memory_than_eager():
    x, v = torch.randn(64, 4096), torch.randn(4096)

    def f(x, v):
        x = x.clone()
        for i in range(32):
            x[i] += v
        return x

    jitted = fg.jit(f)
    with torch.no_grad():
        for _ in range(3):
            jitted(x, v)
        assert peak_bytes(lambda: jitted(x, v)) <= peak_bytes(lambda: f(x, v))
