"""grad, value_and_grad, vjp against torch.func and torch.autograd."""

from __future__ import annotations

import pytest
import torch

import fulgurite as fg


def loss(x, w):
    return torch.tanh(x @ w).pow(2).sum()


def inputs(*shapes):
    torch.manual_seed(0)
    return [torch.randn(*s, dtype=torch.float64) for s in shapes]


def close(found, expected):
    torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("argnums", [0, 1, (0, 1), (1, 0), -1])
def test_grad_and_value_and_grad_are_those_of_torch_func(argnums) -> None:
    ours = fg.grad(loss, argnums)
    both = fg.value_and_grad(loss, argnums)
    theirs = torch.func.grad(loss, argnums)
    for _ in range(3):
        x, w = inputs((3, 4), (4, 2))
        expected = theirs(x, w)
        close(ours(x, w), expected)
        value, gradient = both(x, w)
        close(value, loss(x, w))
        close(gradient, expected)
        assert not value.requires_grad
    assert fg.cache_hits(ours.jitted) == 2, fg.explain(ours.jitted)


def test_arguments_may_be_trees() -> None:
    def f(params, x):
        return (x @ params["w"] + params["b"][0]).sin().sum()

    w, b, x = inputs((4, 2), (2,), (3, 4))
    params = {"w": w, "b": [b]}
    close(fg.grad(f)(params, x), torch.func.grad(f)(params, x))


def test_has_aux() -> None:
    def f(x):
        return x.sin().sum(), {"cos": x.cos()}

    (x,) = inputs((3,))
    gradient, aux = fg.grad(f, has_aux=True)(x)
    close(gradient, x.cos())
    close(aux["cos"], x.cos())
    (value, aux), gradient = fg.value_and_grad(f, has_aux=True)(x)
    close(value, x.sin().sum())
    close(gradient, x.cos())


def test_without_argnums_everything_that_requires_grad_is_meant() -> None:
    x, w = inputs((3, 4), (4, 2))
    gradients = fg.grad(loss, argnums=None)(x, w.requires_grad_())
    assert gradients[0] is None
    close(gradients[1].detach(), torch.func.grad(loss, 1)(x, w.detach()))


def test_gradients_of_gradients() -> None:
    (x,) = inputs((3,))

    def f(t):
        return t.sin().pow(3).sum()

    def squared(g):
        return lambda t: g(t).pow(2).sum()

    ours = fg.grad(squared(fg.grad(f)))
    theirs = torch.func.grad(squared(torch.func.grad(f)))
    close(ours(x), theirs(x))
    close(ours(x), theirs(x))


def test_an_outer_autograd_sees_through() -> None:
    (x,) = inputs((3,))
    x.requires_grad_()
    g = fg.grad(lambda t: t.sin().sum())
    for _ in range(2):
        (second,) = torch.autograd.grad(g(x).sum(), x)
        close(second, -x.detach().sin())


def test_value_that_does_not_depend_gives_zeros() -> None:
    x, w = inputs((3,), (3,))
    g = fg.grad(lambda a, b: a.sum(), (0, 1))
    for _ in range(2):
        close(g(x, w), (torch.ones_like(x), torch.zeros_like(w)))


def test_vjp() -> None:
    def f(x, w):
        return {"y": x @ w, "z": x.sin()}

    x, w = inputs((3, 4), (4, 2))
    out, pull = fg.vjp(f, x, w)
    expected, their_pull = torch.func.vjp(f, x, w)
    close(out, expected)
    cotangents = {"y": torch.ones(3, 2).double(), "z": torch.full((3, 4), 2.0).double()}
    for _ in range(2):
        close(pull(cotangents), their_pull(cotangents))
    assert not out["y"].requires_grad
    out, pull = fg.vjp(f)(x, w)
    close(pull(cotangents), their_pull(cotangents))


def test_vjp_has_aux_and_one_primal() -> None:
    (x,) = inputs((3,))
    out, pull, aux = fg.vjp(lambda t: (t.sin(), t.cos()), x, has_aux=True)
    close(aux, x.cos())
    close(pull(torch.ones_like(x)), (x.cos(),))


@pytest.mark.parametrize(
    ("call", "error", "code"),
    [
        (lambda x: fg.grad(loss, 2)(x, x.t()), ValueError, "FG-340"),
        (lambda x: fg.grad(loss, 0)(3, x), TypeError, "FG-341"),
        (lambda x: fg.grad(lambda t: (t * 1.5).sum())(x.long()), TypeError, "FG-341"),
        (lambda x: fg.grad(lambda t: t.sin())(x), TypeError, "FG-342"),
        (lambda x: fg.grad(lambda t: 2.0)(x), TypeError, "FG-342"),
        (lambda x: fg.grad(lambda t: t.sum(), has_aux=True)(x), TypeError, "FG-343"),
        (lambda x: fg.vjp(lambda t: t.sin(), x)[1]([x]), ValueError, "FG-344"),
        (lambda x: fg.vjp(lambda t: t.sin(), x)[1](x[0]), ValueError, "FG-344"),
    ],
)
def test_mistakes(call, error, code) -> None:
    (x,) = inputs((3, 4))
    with pytest.raises(error, match=code):
        call(x)


def test_the_arguments_are_left_alone() -> None:
    (x,) = inputs((3,))
    x.requires_grad_()
    fg.grad(lambda t: t.sin().sum())(x)
    assert x.grad is None and x.is_leaf and x.requires_grad
