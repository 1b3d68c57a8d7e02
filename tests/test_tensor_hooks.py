"""Hooks on tensors, registered in a compiled call: they see and change the gradients that eager's would.

The oracle is eager: what hooks were called with, in which order, and the gradients that come out.
"""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace

import pytest
import torch
from torch import Tensor, nn

import fulgurite as fg

F64 = torch.float64
SEEN: list = []


def leaf(*sizes: int) -> Tensor:
    return torch.randn(*sizes, dtype=F64).requires_grad_()


def twin(t: Tensor) -> Tensor:
    return t.detach().clone().requires_grad_(t.requires_grad) if t.is_leaf else t.clone()


def note(g: Tensor) -> None:
    SEEN.append(g.detach().clone())


def note_again(g: Tensor) -> None:
    SEEN.append(g.detach() + 100)


def double(g: Tensor) -> Tensor:
    SEEN.append(g.detach().clone())
    return g * 2


def equal(a, b) -> bool:
    if isinstance(a, Tensor):
        return isinstance(b, Tensor) and torch.allclose(a, b)
    if isinstance(a, (tuple, list)):
        return len(a) == len(b) and all(equal(x, y) for x, y in zip(a, b, strict=True))
    return a == b


def outputs(result) -> list[Tensor]:
    items = result if isinstance(result, (tuple, list)) else (result,)
    return [t for t in items if isinstance(t, Tensor)]


def observed(f: Callable, args: tuple, which: int | None) -> tuple:
    """What hooks see in backward from output `which`, or from all."""
    args = tuple(twin(a) for a in args)
    SEEN.clear()
    outs = outputs(f(*args))
    roots = [o for o in outs if o.grad_fn is not None]
    if which is not None:
        roots = roots[which : which + 1]
    inside = list(SEEN)
    SEEN.clear()
    torch.autograd.backward(roots, [o.detach().cos() for o in roots])
    grads = [a.grad for a in args if a.is_leaf]
    kept = [o.grad for o in outs if o.retains_grad]
    return [o.detach() for o in outs], inside, sorted_seen(), grads, kept


def sorted_seen() -> list:
    return sorted(SEEN, key=lambda t: (t.dim(), t.sum().item()))


def agree(f: Callable, *args: Tensor, served: bool = True) -> None:
    g = fg.jit(f)
    calls = 0
    count = len([o for o in outputs(f(*map(twin, args))) if o.grad_fn is not None])
    for which in (None, *range(count)):
        for _ in range(2):
            assert equal(observed(g, args, which), observed(f, args, which))
            calls += 1
    if served:
        assert fg.fallbacks(g) == []
        assert fg.cache_hits(g) == calls - 1


def in_the_middle(x, w):
    h = x * w
    h.register_hook(note)
    return h.sin().sum()


def replaced(x, w):
    h = x * w
    h.register_hook(double)
    return (h.sin() + h).sum()


def after_some_uses(x, w):
    h = x * w
    y = h.sin()
    h.register_hook(double)
    return (y + h.cos()).sum(), h.exp()


def several(x, w):
    h = x * w
    h.register_hook(double)
    h.register_hook(note)
    h.register_hook(double)
    return h.sin()


def in_a_chain(x, w):
    a = x * w
    a.register_hook(double)
    b = a.sin()
    b.register_hook(note)
    c = b * a
    c.register_hook(double)
    return c


def on_an_output(x, w):
    y = x * w
    y.register_hook(double)
    return y, y.sin()


def on_a_view(x, w):
    h = x * w
    v = h[1:]
    v.register_hook(double)
    return (v.sin()).sum() + h.sum()


def before_a_write(x, w):
    h = x * w
    h.register_hook(double)
    h.mul_(3)
    return h.sin()


def after_a_write(x, w):
    h = x * w
    h.mul_(3)
    h.register_hook(double)
    return h.sin()


def removed(x, w):
    h = x * w
    handle = h.register_hook(double)
    other = h.register_hook(note)
    handle.remove()
    del other
    return h.sin()


def all_removed(x, w):
    h = x * w
    h.register_hook(double).remove()
    return h.sin()


def a_lambda(x, w):
    h = x * w
    h.register_hook(lambda g: g * 3)
    return h.sin()


def a_lambda_with_defaults(x, w):
    h = x * w
    for k in (2.0, 3.0):
        h.register_hook(lambda g, k=k: g * k)
    return h.sin()


def a_closure(x, w):
    h = x * w
    scale = w.detach() * 2
    h.register_hook(lambda g: g * scale)
    return h.sin()


def on_an_argument(x, w):
    x.register_hook(double)
    return (x * w).sin()


def on_an_argument_of_some_outputs(x, w):
    x.register_hook(double)
    return x.sin(), w.cos(), x * w


def on_an_argument_when_accumulated(x, w):
    x.register_post_accumulate_grad_hook(lambda t: note(t.grad))
    return (x * w).sin()


def on_a_leaf_of_the_call(x, w):
    t = torch.ones(3, dtype=F64, requires_grad=True)
    t.register_hook(note)
    t.register_post_accumulate_grad_hook(lambda p: note_again(p.grad))
    return x * w * t


def retained(x, w):
    h = x * w
    h.retain_grad()
    return h.sin(), h


def retained_with_hooks(x, w):
    h = x * w
    h.retain_grad()
    h.register_hook(double)
    return h.sin(), h


def retained_then_written(x, w):
    h = x * w
    h.retain_grad()
    h.mul_(2)
    return h.sin(), h


def retained_and_gone(x, w):
    h = x * w
    h.retain_grad()
    return h.sin()


def backward_inside(x, w):
    h = x.detach().requires_grad_() * w.detach()
    h.register_hook(note)
    h.sum().backward()
    return x * w


def on_what_a_view_was_taken_of(x, w):
    h = x * w
    v = h[1:]
    h.register_hook(double)
    return v.sin().sum() + h.sum()


def before_a_write_through_a_view(x, w):
    h = x * w
    h.register_hook(double)
    h[0].mul_(3)
    return h.sin()


def on_a_view_before_its_base_is_written(x, w):
    h = x * w
    v = h[1:]
    v.register_hook(double)
    y = v * 2
    h.mul_(3)
    return y, v.cos(), h.sin()


def on_a_result_of_no_grad_use(x, w):
    h = x * w
    h.register_hook(double)
    with torch.no_grad():
        scale = h.abs().sum()
    return h * scale


def kept_in_a_list(x, w):
    kept = []
    h = x
    for _ in range(3):
        h = (h * w).sin()
        h.retain_grad()
        kept.append(h)
    return h.sum(), *kept


def the_sum_of_two_uses(x, w):
    h = x * w
    h.register_hook(note)
    return h.sin(), h.cos()


def after_backward_inside(x, w):
    h = x * w
    h.register_hook(note)
    torch.autograd.grad(h.sum(), x, retain_graph=True)
    return h.sin()


def retained_for_backward_inside(x, w):
    h = x.detach() * w.detach().requires_grad_()
    h.retain_grad()
    h.sin().sum().backward()
    return h.grad * x


def nothing_depends_on_it(x, w):
    h = x * w
    h.register_hook(note)
    return x.sin()


FUNCTIONS = [
    in_the_middle,
    replaced,
    after_some_uses,
    several,
    in_a_chain,
    on_an_output,
    on_a_view,
    before_a_write,
    after_a_write,
    removed,
    all_removed,
    a_lambda,
    a_lambda_with_defaults,
    a_closure,
    on_an_argument,
    on_an_argument_of_some_outputs,
    on_an_argument_when_accumulated,
    on_a_leaf_of_the_call,
    retained,
    retained_with_hooks,
    retained_then_written,
    retained_and_gone,
    backward_inside,
    on_what_a_view_was_taken_of,
    before_a_write_through_a_view,
    on_a_view_before_its_base_is_written,
    on_a_result_of_no_grad_use,
    kept_in_a_list,
    the_sum_of_two_uses,
    after_backward_inside,
    retained_for_backward_inside,
    nothing_depends_on_it,
]


@pytest.mark.parametrize("f", FUNCTIONS, ids=lambda f: f.__name__)
def test_as_eager(f):
    agree(f, leaf(3), leaf(3))


class GradCam(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.conv = nn.Conv2d(2, 3, 3)
        self.fc = nn.Linear(3, 4)
        self.gradient = None

    def save_gradient(self, g: Tensor) -> None:
        self.gradient = g

    def forward(self, x: Tensor) -> Tensor:
        h = self.conv(x).relu()
        h.register_hook(self.save_gradient)
        self.activation = h
        return self.fc(h.mean((2, 3)))


class Retaining(GradCam):
    def forward(self, x: Tensor) -> Tensor:
        h = self.conv(x).relu()
        h.retain_grad()
        self.activation = h
        return self.fc(h.mean((2, 3)))


@pytest.mark.parametrize("cls", [GradCam, Retaining])
def test_grad_cam(cls):
    model, other = cls(), cls()
    g = fg.jit(model)
    for k in range(4):
        x = torch.randn(2, 2, 5, 5)
        g(x)[0, k].backward()
        other(x)[0, k].backward()
        torch.testing.assert_close(model.activation, other.activation)
        if cls is GradCam:
            torch.testing.assert_close(model.gradient, other.gradient)
        else:
            torch.testing.assert_close(model.activation.grad, other.activation.grad)
        for p, q in zip(model.parameters(), other.parameters(), strict=True):
            torch.testing.assert_close(p.grad, q.grad)
    assert fg.fallbacks(g) == []
    assert fg.cache_hits(g) == 3


def test_a_handle_that_is_kept_removes_the_hook_of_its_call():
    box = SimpleNamespace(handle=None)

    def f(x):
        h = x * 2
        box.handle = h.register_hook(double)
        return h.sin()

    g = fg.jit(f)
    for k in range(6):
        x = leaf(3)
        y = g(x)
        if k % 2:
            box.handle.remove()
        y.sum().backward()
        expected = (2 * x).detach().cos() * (2 if k % 2 else 4)
        torch.testing.assert_close(x.grad, expected)
    assert fg.fallbacks(g) == []


def test_hooks_on_an_argument_pile_up():
    def f(x):
        x.register_hook(double)
        return x.sin()

    g = fg.jit(f)
    x, y = leaf(3), None
    y = twin(x)
    for _ in range(3):
        f(y)
        g(x)
    f(y).sum().backward()
    g(x).sum().backward()
    torch.testing.assert_close(x.grad, y.grad)
    assert fg.cache_hits(g) == 3


def test_an_argument_with_a_history():
    def f(x):
        x.register_hook(double)
        return x.sin()

    g = fg.jit(f)
    for _ in range(3):
        a = leaf(3)
        b = twin(a)
        f(a * 2).sum().backward()
        g(b * 2).sum().backward()
        torch.testing.assert_close(a.grad, b.grad)
    assert fg.cache_hits(g) == 2


def test_a_tensor_without_gradient_raises_as_in_eager():
    def f(x):
        h = x.detach() * 2
        h.register_hook(double)
        return h

    g = fg.jit(f)
    for h in (f, g, g):
        with pytest.raises(RuntimeError, match="cannot register a hook"):
            h(leaf(3))


def test_second_gradients_pass_hooks():
    def f(x):
        h = x**3
        h.register_hook(lambda g: g * 2)
        return h.sin()

    g = fg.jit(f)
    for _ in range(3):
        found = []
        torch.manual_seed(1)
        start = leaf(3)
        for h in (f, g):
            x = twin(start)
            (first,) = torch.autograd.grad(h(x).sum(), x, create_graph=True)
            found.append((first.detach(), torch.autograd.grad(first.sum(), x)[0]))
        assert equal(*found)


def a_view_is_returned(x, w):
    h = x * w
    v = h[1:]
    v.register_hook(double)
    return v, v.sin(), h


def a_view_of_a_view_is_returned(x, w):
    v = (x * w).view(3, 1)[1:]
    v.register_hook(double)
    return v, v.t(), v.sin()


def both_views_have_hooks(x, w):
    u = (x * w).view(3, 1)
    u.retain_grad()
    v = u[1:]
    v.register_hook(double)
    return v, u, v.sin()


def a_view_of_an_argument_is_returned(x, w):
    v = x[1:]
    v.register_hook(double)
    return v, v.sin(), x * w


def a_retained_view_is_returned(x, w):
    v = (x * w)[1:]
    v.retain_grad()
    return v.sin(), v


@pytest.mark.parametrize(
    "f",
    [
        a_view_is_returned,
        a_view_of_a_view_is_returned,
        both_views_have_hooks,
        a_view_of_an_argument_is_returned,
        a_retained_view_is_returned,
    ],
    ids=lambda f: f.__name__,
)
def test_views_that_outlive_the_call(f):
    agree(f, leaf(3), leaf(3))
    g = fg.jit(f)
    for _ in range(3):
        x, w = leaf(3) * 1, leaf(3)
        found = [
            [
                (o._base is None, o._base is x, o.is_contiguous(), o.grad_fn.name()[:4] == "View")
                for o in outputs(h(x, w))
                if o.dim() and o._base is not None
            ]
            for h in (f, g)
        ]
        assert found[0] == found[1]


def test_a_view_of_a_leaf_that_is_written_afterwards():
    def f(x):
        w = torch.ones(3, dtype=F64, requires_grad=True)
        v = w[1:]
        v.register_hook(double)
        y = v * 2 + x[1:]
        with torch.no_grad():
            w.add_(1)
        return y.sum(), x * 2

    agree(f, leaf(3), served=False)


def test_features_of_a_linear_layer_on_batches():
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            torch.manual_seed(0)
            self.a, self.b = nn.Linear(4, 4), nn.Linear(4, 1)

        def forward(self, x):
            self.features = self.a(x)
            self.features.retain_grad()
            return self.b(self.features.relu()).sum()

    model, other = Model(), Model()
    g = fg.jit(model)
    for _ in range(3):
        x = torch.randn(2, 3, 4)
        g(x).backward()
        other(x).backward()
        torch.testing.assert_close(model.features.grad, other.features.grad)
        assert model.features._base is not None
    assert fg.cache_hits(g) == 2


def test_a_view_that_cannot_be_taken_again_stays_with_eager():
    def f(x):
        h = x * 2
        with torch.no_grad():
            v = h[1:]
        w = h.detach().requires_grad_()[1:]
        w.register_hook(double)
        u = h.view(-1)
        u.squeeze_()
        u.register_hook(double)
        return u, v, w.sin()

    g = fg.jit(f)
    for _ in range(2):
        a = leaf(3)
        b = twin(a)
        f(a)[0].sum().backward()
        g(b)[0].sum().backward()
        torch.testing.assert_close(a.grad, b.grad)


def after_a_write_through_a_view(x):
    h = x * 2
    h[0].mul_(3)
    h.register_hook(double)
    return h.sin()


def on_one_of_several_results(x):
    a, b, c = (x * 2).unbind()
    b.register_hook(lambda g: None if g is None else g * 2)
    return a.sin() + c


def on_an_argument_that_is_written(x):
    x.register_hook(double)
    x.mul_(2)
    return x.sin()


@pytest.mark.parametrize(
    "f",
    [after_a_write_through_a_view, on_one_of_several_results, on_an_argument_that_is_written],
)
def test_what_stays_with_eager(f):
    g = fg.jit(f)
    for _ in range(3):
        a = leaf(3)
        b = twin(a)
        f(a * 1).sum().backward()
        g(b * 1).sum().backward()
        torch.testing.assert_close(a.grad, b.grad)
    assert {fallback.code for fallback in fg.fallbacks(g)} == {"FG-193"}


def test_no_tensor_is_kept_alive():
    import weakref

    def f(x):
        h = x * 2
        h.register_hook(note)
        return h.sin()

    g = fg.jit(f)
    for _ in range(3):
        y = g(leaf(3))
        ref = weakref.ref(y)
        del y
        assert ref() is None
