"""Gradients through compiled calls: order, reuse, hooks, errors, as eager has them."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

import fulgurite as fg


def warmed(f: Callable, *make: Callable[[], torch.Tensor]) -> Callable:
    """f, jitted, recorded, and shown to be served."""
    g = fg.jit(f, leaf_inplace="error")
    for _ in range(2):
        g(*[m() for m in make])
    assert fg.cache_hits(g) == 1, fg.explain(g)
    return g


def leaf(*sizes: int) -> Callable[[], torch.Tensor]:
    return lambda: torch.randn(*sizes, dtype=torch.float64, requires_grad=True)


def test_double_and_triple_backward() -> None:
    def f(x, w):
        return (torch.tanh(x @ w) ** 3).sum()

    g = warmed(f, leaf(3, 4), leaf(4, 2))
    x, w = leaf(3, 4)(), leaf(4, 2)()
    for order in (1, 2, 3):
        results = []
        for h in (f, g):
            y = h(x, w)
            for _ in range(order):
                gx, gw = torch.autograd.grad(y, (x, w), create_graph=True)
                y = (gx**2).sum() + (gw.sin()).sum()
            results.append((y.detach(), *[t.detach() for t in torch.autograd.grad(y, (x, w))]))
        for a, b in zip(*results, strict=True):
            torch.testing.assert_close(b, a, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize(
    "f",
    [
        lambda x, w: torch.nn.functional.gelu(x @ w),
        lambda x, w: torch.softmax(x @ w, -1),
        lambda x, w: torch.nn.functional.layer_norm(x @ w, (2,)),
        lambda x, w: (x @ w).sigmoid().cumsum(0).t(),
    ],
    ids=["gelu", "softmax", "layer_norm", "sigmoid_cumsum"],
)
def test_gradcheck_and_gradgradcheck(f: Callable) -> None:
    g = warmed(f, leaf(3, 4), leaf(4, 2))
    inputs = (leaf(3, 4)(), leaf(4, 2)())
    assert torch.autograd.gradcheck(g, inputs)
    assert torch.autograd.gradgradcheck(g, inputs)
    assert fg.cache_hits(g) > 10


def test_retain_graph_and_backward_twice() -> None:
    def f(x):
        return (x.sin() * x).sum()

    g = warmed(f, leaf(3))
    x = leaf(3)()
    y = g(x)
    y.backward(retain_graph=True)
    once = x.grad.clone()
    y.backward()
    torch.testing.assert_close(x.grad, 2 * once)
    texts = []
    for h in (f, g):
        y = h(x)
        y.backward()
        with pytest.raises(RuntimeError) as info:
            y.backward()
        texts.append(str(info.value))
    assert texts[0] == texts[1]


def test_a_saved_input_modified_before_backward_is_eagers_version_error() -> None:
    def f(x, w):
        return (x * w).sum()

    g = warmed(f, leaf(3), leaf(3))
    texts = []
    for h in (f, g):
        x, w = leaf(3)(), leaf(3)()
        y = h(x, w)
        with torch.no_grad():
            w.add_(1)
        with pytest.raises(RuntimeError, match="modified by an inplace operation") as info:
            y.backward()
        texts.append(str(info.value).split("which is output")[0])
    assert texts[0] == texts[1]


def test_a_saved_output_modified_before_backward_is_an_error() -> None:
    def f(x):
        return x.exp()

    g = warmed(f, leaf(3))
    for h in (f, g):
        y = h(leaf(3)())
        y.detach().add_(1)
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            y.sum().backward()


def test_an_unsaved_input_may_be_modified_before_backward() -> None:
    g = warmed(lambda x, w: (x + w).sum(), leaf(3), leaf(3))
    x, w = leaf(3)(), leaf(3)()
    y = g(x, w)
    with torch.no_grad():
        w.add_(1)
    y.backward()
    assert torch.equal(x.grad, torch.ones(3, dtype=torch.float64))


def test_unused_inputs_and_outputs_have_no_gradient() -> None:
    def f(x, w, u):
        return x * w, w + 1, x.detach()

    g = warmed(f, leaf(3), leaf(3), leaf(3))
    x, w, u = leaf(3)(), leaf(3)(), leaf(3)()
    a, b, c = g(x, w, u)
    assert not c.requires_grad
    assert torch.autograd.grad(b.sum(), (x, w, u), allow_unused=True, retain_graph=True)[0] is None
    gx, gw, gu = torch.autograd.grad(a.sum(), (x, w, u), allow_unused=True)
    assert gu is None
    torch.testing.assert_close(gx, w.detach())
    torch.testing.assert_close(gw, x.detach())
    with pytest.raises(RuntimeError, match="appears to not have been used in the graph"):
        torch.autograd.grad(g(x, w, u)[0].sum(), u)


def test_inputs_without_gradient_get_none() -> None:
    g = fg.jit(lambda x, w: x * w)
    for _ in range(3):
        x, w = torch.randn(3), torch.randn(3, requires_grad=True)
        y = g(x, w)
        assert y.requires_grad
        y.sum().backward()
        assert x.grad is None
        assert torch.equal(w.grad, x)
    assert fg.cache_hits(g) == 2


def test_hooks_on_inputs_outputs_and_accumulators_run() -> None:
    g = warmed(lambda x: (x * 2).sin(), leaf(3))
    seen: list[str] = []
    x = leaf(3)()
    x.register_hook(lambda grad: seen.append("input"))
    x.register_post_accumulate_grad_hook(lambda t: seen.append("accumulated"))
    y = g(x)
    y.register_hook(lambda grad: seen.append("output") or grad * 2)
    y.retain_grad()
    y.sum().backward()
    assert seen == ["output", "input", "accumulated"]
    assert torch.equal(y.grad, torch.full((3,), 2.0, dtype=torch.float64))
    torch.testing.assert_close(x.grad, 4 * torch.cos(2 * x.detach()))


def test_gradients_accumulate_and_do_not_share_memory() -> None:
    g = warmed(lambda x, w: x + w, leaf(3), leaf(3))
    x, w = leaf(3)(), leaf(3)()
    for _ in range(2):
        g(x, w).sum().backward()
    assert torch.equal(x.grad, torch.full((3,), 2.0, dtype=torch.float64))
    x.grad.zero_()
    assert torch.equal(w.grad, torch.full((3,), 2.0, dtype=torch.float64))


def test_one_tensor_for_two_arguments() -> None:
    g = fg.jit(lambda x, w: (x * w).sum())
    for _ in range(3):
        x = leaf(3)()
        g(x, x).backward()
        torch.testing.assert_close(x.grad, 2 * x.detach())
        x, w = leaf(3)(), leaf(3)()
        g(x, w).backward()
        torch.testing.assert_close(x.grad, w.detach())


def test_views_and_writes_of_intermediates_with_gradient() -> None:
    def f(x, w):
        y = x @ w
        y[0] = y[1] * 2
        y.t()[0].mul_(3)
        y[:, 1].fill_(2.0)
        return y, y.sum()

    g = warmed(f, leaf(3, 4), leaf(4, 3))
    x, w = leaf(3, 4)(), leaf(4, 3)()
    results = []
    for h in (f, g):
        y, s = h(x, w)
        results.append((y, s, *torch.autograd.grad((y * y).sum() + s, (x, w))))
    for a, b in zip(*results, strict=True):
        torch.testing.assert_close(b, a, rtol=1e-12, atol=1e-12)


def test_a_written_input_that_is_no_leaf_gets_a_history() -> None:
    def f(x, w):
        x.mul_(w)
        x[0] = 7.0

    g = fg.jit(f)
    for _ in range(3):
        results = []
        for h in (f, g):
            b, w = torch.arange(3.0, requires_grad=True), torch.full((3,), 2.0, requires_grad=True)
            x = b * 1.0
            before = x._version
            h(x, w)
            assert x._version > before
            assert x.grad_fn is not None
            results.append((x.detach().clone(), *torch.autograd.grad(x.sum(), (b, w))))
        for a, b in zip(*results, strict=True):
            torch.testing.assert_close(b, a)
    assert fg.cache_hits(g) == 2


def test_a_leaf_that_requires_grad_may_not_be_written() -> None:
    def f(x):
        return x.mul_(2)

    g = fg.jit(f, leaf_inplace="error")
    for h in (f, g, g):
        x = torch.ones(3, requires_grad=True)
        with pytest.raises(
            RuntimeError,
            match="a leaf Variable that requires grad is being used in an in-place operation",
        ):
            h(x)
        assert torch.equal(x.detach(), torch.ones(3))
        assert x._version == 0


def test_backward_inside_the_function() -> None:
    def f(x, w):
        loss = (torch.tanh(x @ w) ** 2).mean()
        (grad,) = torch.autograd.grad(loss, w)
        return loss.detach(), grad

    g = warmed(f, leaf(3, 4), leaf(4, 2))
    x, w = leaf(3, 4)(), leaf(4, 2)()
    for a, b in zip(f(x, w), g(x, w), strict=True):
        torch.testing.assert_close(b, a, rtol=1e-12, atol=1e-12)


def test_a_training_step_in_one_function() -> None:
    def run(compiled: bool) -> list[torch.Tensor]:
        torch.manual_seed(0)
        net = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 1))
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)

        def step(x, y):
            optimizer.zero_grad()
            loss = torch.nn.functional.mse_loss(net(x), y)
            loss.backward()
            optimizer.step()
            return loss.detach()

        call = fg.jit(step) if compiled else step
        losses = [call(torch.randn(5, 4), torch.randn(5, 1)) for _ in range(8)]
        return losses + [p.detach() for p in net.parameters()]

    for a, b in zip(run(False), run(True), strict=True):
        torch.testing.assert_close(b, a)


def test_anomaly_mode_still_gives_gradients() -> None:
    g = warmed(lambda x: x.sin().sum(), leaf(3))
    with torch.autograd.detect_anomaly(check_nan=False):
        x = leaf(3)()
        g(x).backward()
    torch.testing.assert_close(x.grad, x.detach().cos())


def test_saved_tensor_hooks_outside() -> None:
    def f(x, w):
        return (x * w).sin().sum()

    g = warmed(f, leaf(3), leaf(3))
    x, w = leaf(3)(), leaf(3)()
    packed = []

    def pack(t):
        packed.append(t)
        return t.clone()

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda t: t):
        y = g(x, w)
    y.backward()
    assert packed
    want = torch.autograd.grad(f(x, w), (x, w))
    torch.testing.assert_close((x.grad, w.grad), want)


@pytest.mark.parametrize("create_graph", [False, True])
def test_saved_tensor_hooks_that_give_tensors_back_in_other_memory(create_graph: bool) -> None:
    def f(x, w):
        parts = (x * 2).t().sin().unflatten(0, (2, 2))
        return (parts * w.exp()).exp() * x[:, :1].expand(3, 4).sin()[:, :2].t().unsqueeze(1)

    g = warmed(f, leaf(3, 4), leaf(2, 2, 3))
    x, w = leaf(3, 4)(), leaf(2, 2, 3)()
    results = []
    for h in (f, g):
        with torch.autograd.graph.save_on_cpu():
            y = h(x, w)
        results.append(torch.autograd.grad(y.sum(), (x, w), create_graph=create_graph))
    torch.testing.assert_close(results[1], results[0])
    assert fg.cache_hits(g) == 2


def test_complex_gradients() -> None:
    def f(z):
        return (z * z.conj()).real.sum() + torch.view_as_real(z).sin().sum()

    make = lambda: torch.randn(3, dtype=torch.complex128, requires_grad=True)
    g = warmed(f, make)
    z = make()
    torch.testing.assert_close(torch.autograd.grad(g(z), z), torch.autograd.grad(f(z), z))


def test_writes_through_views_of_complex_tensors() -> None:
    """PyTorch has no formula for the operators that stand for such writes."""
    w = torch.randn(2, 4, 4, dtype=torch.complex64, requires_grad=True)

    def f(x: torch.Tensor) -> torch.Tensor:
        y = torch.zeros_like(w)
        y[..., :2] = w[..., 1:3] * x
        y[0] *= 2
        y.diagonal(0, 1, 2).mul_(1j)
        return torch.fft.irfft(y, n=6)

    jitted = fg.jit(f)
    for _ in range(3):
        x = torch.randn((), requires_grad=True)
        results = []
        for function in (f, jitted):
            y = function(x)
            results.append((y.detach(), *torch.autograd.grad(y.pow(2).sum(), (x, w))))
        torch.testing.assert_close(results[1], results[0])
    assert fg.cache_hits(jitted) == 2
