"""Leaves that the call makes: where the history of what it returns ends.

The oracle is eager on twins: values, which tensors are leaves, gradients of arguments and of the leaves themselves.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pytest
import torch
from torch import Tensor, nn

import fulgurite as fg

F64 = torch.float64


@dataclass
class Pair:
    w: Tensor
    y: Tensor


def leaf(*sizes: int, grad: bool = True) -> Tensor:
    return torch.randn(*sizes, dtype=F64).requires_grad_(grad)


def twin(t: Tensor) -> Tensor:
    return t.detach().clone().requires_grad_(t.requires_grad) if t.is_leaf else t.clone()


def tensors(result) -> list[Tensor]:
    if isinstance(result, Pair):
        result = tuple(vars(result).values())
    items = result if isinstance(result, (tuple, list)) else (result,)
    return [t for t in items if isinstance(t, Tensor)]


def storage(t: Tensor) -> int:
    return t.untyped_storage().data_ptr()


def facts(t: Tensor, others: list[Tensor]) -> tuple:
    return (
        type(t),
        t.requires_grad,
        t.is_leaf,
        t.stride(),
        t._base is None,
        None if not t.is_leaf or t.grad is None else t.grad.clone(),
        [t is o for o in others],
        [storage(t) == storage(o) for o in others],
    )


def equal(a, b) -> bool:
    if isinstance(a, Tensor):
        return isinstance(b, Tensor) and torch.allclose(a, b)
    if isinstance(a, (tuple, list)):
        return len(a) == len(b) and all(equal(x, y) for x, y in zip(a, b, strict=True))
    return a == b


def observed(f: Callable, args: tuple, backward: bool) -> tuple:
    args = tuple(twin(a) for a in args)
    result = f(*args)
    outs = tensors(result)
    seen = [[o.detach().clone() for o in outs], [facts(o, [*args, *outs]) for o in outs]]
    roots = [o for o in outs if o.grad_fn is not None]
    if backward and roots:
        torch.autograd.backward(roots, [o.detach().cos() for o in roots])
        seen += [[t.grad for t in (*args, *outs) if t.is_leaf]]
    seen += [[(a.detach(), a.requires_grad, a.is_leaf, a._version) for a in args]]
    return tuple(seen)


def agree(f: Callable, *args: Tensor, backward: bool = True, served: bool = True) -> None:
    g = fg.jit(f)
    for _ in range(4):
        assert equal(observed(g, args, backward), observed(f, args, backward))
    if served:
        assert fg.fallbacks(g) == []
        assert fg.cache_hits(g) == 3


def made_and_returned(x):
    w = torch.full((3,), 2.0, dtype=F64, requires_grad=True)
    return w, (x * w).sum()


def switched_on(x):
    w = torch.full((3,), 2.0, dtype=F64).requires_grad_()
    return (x * w).sin(), w


def only_reachable(x):
    w = torch.ones(3, dtype=F64, requires_grad=True)
    return (x * w).sum()


def a_literal(x):
    w = torch.tensor([1.0, 2.0, 3.0], dtype=F64, requires_grad=True)
    return w, x * w


def detached(x):
    w = x.detach().requires_grad_()
    return w, (w * w).sum()


def data_of(x):
    w = x.data.requires_grad_()
    return w, (w * w).sum()


def clone_of(x):
    w = x.detach().clone().requires_grad_()
    return w, (w * w).sum() + x.sum()


def of_an_intermediate(x):
    h = x.sin()
    w = h.detach().requires_grad_()
    return h, w, (w * h).sum()


def without_history(x):
    h = torch.arange(3, dtype=F64) * 2
    h.requires_grad_()
    return h, h * x


def a_view_of_it(x):
    w = torch.ones(2, 3, dtype=F64, requires_grad=True)
    return w, w[0], (w.view(6)[:3] * x).sum()


def filled_first(x):
    w = torch.empty(3, dtype=F64)
    w.fill_(2.0)
    w[0] = 3
    w.requires_grad_()
    return w, x * w


def initialised(x):
    w = torch.zeros(3, dtype=F64, requires_grad=True)
    with torch.no_grad():
        w.add_(2)
    return w, x * w


def initialised_through_data(x):
    w = torch.zeros(3, dtype=F64, requires_grad=True)
    w.data.add_(2)
    return w, x * w


def into_a_buffer(x):
    w = torch.ones(3, dtype=F64, requires_grad=True)
    buf = torch.zeros(3, dtype=F64)
    buf[0:2] = w[0:2] * x[0:2]
    return buf * 1, w


def into_an_argument(x, y):
    w = torch.ones(3, dtype=F64, requires_grad=True)
    y.add_(w * 2)
    return w, y


def two_leaves(x):
    a = torch.ones(3, dtype=F64, requires_grad=True)
    b = torch.ones(3, dtype=F64, requires_grad=True)
    return a, b, a * x, (a * b).sum()


def of_two_results(x):
    a = torch.ones(3, dtype=F64, requires_grad=True)
    return a, (a * x).sin(), a.cos() + x


def backward_inside(x):
    w = torch.ones(3, dtype=F64, requires_grad=True)
    (w * x).sum().backward()
    return w


def backward_inside_and_after(x):
    w = torch.ones(3, dtype=F64, requires_grad=True)
    (w * w * x.detach()).sum().backward()
    return w, w.grad, (w * x).sum()


def gradient_inside(x):
    w = torch.ones(3, dtype=F64, requires_grad=True)
    (g,) = torch.autograd.grad((w**3 * x).sum(), w, create_graph=True)
    return w, g


def an_argument(x):
    x.requires_grad_()
    return x, (x * 2).sin()


def a_parameter(x):
    w = nn.Parameter(torch.full((3,), 2.0, dtype=F64))
    return w, x * w


def a_parameter_of_memory(x):
    data = torch.empty(3, dtype=F64)
    data.fill_(2)
    w = nn.Parameter(data)
    return w, data, x * w


def a_frozen_parameter(x):
    w = nn.Parameter(torch.full((3,), 2.0, dtype=F64), requires_grad=False)
    return w, x * w


def an_object(x):
    w = torch.ones(3, dtype=F64, requires_grad=True)
    return Pair(w, x * w)


FUNCTIONS = [
    made_and_returned,
    switched_on,
    only_reachable,
    a_literal,
    detached,
    data_of,
    clone_of,
    of_an_intermediate,
    without_history,
    a_view_of_it,
    filled_first,
    initialised,
    initialised_through_data,
    into_a_buffer,
    two_leaves,
    of_two_results,
    backward_inside,
    backward_inside_and_after,
    gradient_inside,
    a_parameter,
    a_parameter_of_memory,
    a_frozen_parameter,
    an_object,
]


@pytest.mark.parametrize("grad", [True, False], ids=["x requires grad", "x does not"])
@pytest.mark.parametrize("f", FUNCTIONS, ids=lambda f: f.__name__)
def test_as_eager(f, grad):
    agree(f, leaf(3, grad=grad))


def test_what_is_written_into_an_argument():
    agree(into_an_argument, leaf(3), torch.randn(3, dtype=F64))


def test_an_argument_becomes_a_leaf():
    agree(an_argument, leaf(3, grad=False))


def test_it_is_kept_on_an_object():
    class Model(nn.Module):
        def forward(self, x):
            self.w = torch.ones(3, dtype=F64, requires_grad=True)
            return (x * self.w).sum()

    model, other = Model(), Model()
    g = fg.jit(model)
    for _ in range(4):
        x, y = leaf(3), None
        y = twin(x)
        g(x).backward()
        other(y).backward()
        assert torch.equal(model.w.grad, other.w.grad)
        assert torch.equal(x.grad, y.grad)
    assert fg.fallbacks(g) == []


def test_versions_are_checked_in_backward():
    g = fg.jit(made_and_returned)
    for f in (made_and_returned, g, g):
        x = leaf(3)
        w, y = f(x)
        with torch.no_grad():
            w.mul_(2)
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            y.backward()
    assert fg.cache_hits(g) == 1


def test_a_leaf_on_an_arguments_memory_counts_its_writes():
    g = fg.jit(detached)
    for f in (detached, g, g):
        x = leaf(3)
        w, y = f(x)
        with torch.no_grad():
            x.mul_(2)
        assert w._version == 1
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            y.backward()


def test_second_gradients():
    def f(x):
        w = torch.full((3,), 2.0, dtype=F64, requires_grad=True)
        return w, (w**3 * x).sum()

    g = fg.jit(f)
    for _ in range(3):
        grads = []
        for h in (f, g):
            torch.manual_seed(0)
            x = leaf(3)
            w, y = h(x)
            (first,) = torch.autograd.grad(y, w, create_graph=True)
            grads.append(torch.autograd.grad(first.sum(), (w, x)))
        assert equal(*grads)
    assert fg.cache_hits(g) == 2


def test_an_inner_loop_that_returns_what_it_found():
    def f(x):
        w = torch.zeros(3, dtype=F64, requires_grad=True)
        for _ in range(3):
            (grad,) = torch.autograd.grad(((w - x) ** 2).sum(), w)
            with torch.no_grad():
                w.sub_(0.1 * grad)
        return w, w.detach() * 2

    agree(f, leaf(3, grad=False))


def used_then_written(x):
    w = torch.zeros(3, dtype=F64, requires_grad=True)
    y = (w + x).sum()
    with torch.no_grad():
        w.add_(1)
    return w, y, w[1:]


def used_then_switched_off(x):
    w = torch.full((3,), 2.0, dtype=F64, requires_grad=True)
    y = (w * x).sum()
    w.requires_grad_(False)
    return w, y


def a_training_loop(x):
    w = torch.zeros(3, dtype=F64, requires_grad=True)
    for _ in range(3):
        loss = ((w - x) ** 2).sum()
        (grad,) = torch.autograd.grad(loss, w, retain_graph=True)
        with torch.no_grad():
            w.sub_(0.1 * grad)
    return w, (w * x).sum()


@pytest.mark.parametrize("f", [used_then_written, used_then_switched_off, a_training_loop])
def test_what_happens_to_it_after_its_use(f):
    agree(f, leaf(3))
    agree(f, leaf(3, grad=False))


def test_backward_raises_where_a_used_leaf_was_written():
    def f(x):
        w = torch.ones(3, dtype=F64, requires_grad=True)
        y = (w * w * x).sum()
        with torch.no_grad():
            w.add_(1)
        return w, y

    g = fg.jit(f)
    for h in (f, g, g, g):
        w, y = h(leaf(3))
        assert torch.equal(w, torch.full((3,), 2.0, dtype=F64))
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            y.backward()
    assert fg.cache_hits(g) == 2


def test_a_leaf_that_is_switched_off_and_on_stays_with_eager():
    def f(x):
        w = torch.ones(3, dtype=F64, requires_grad=True)
        y = x * w
        w.requires_grad_(False)
        z = y + w
        w.requires_grad_(True)
        return w, z * w

    agree(f, leaf(3), served=False)


def test_an_argument_beside_a_view_of_it_becomes_a_leaf():
    def f(x, part):
        x.requires_grad_()
        y = (x * 2).sin()
        return x, y, part + 1

    g = fg.jit(f)
    for h in (f, g, g, g):
        x = torch.ones(4, dtype=F64)
        out, y, _ = h(x, x[:2])
        y.sum().backward()
        assert out is x
        torch.testing.assert_close(x.grad, 2 * (2 * x.detach()).cos())


def test_parameters_are_frozen_for_a_part_of_a_training_step() -> None:
    """As actor-critic methods do: the critic learns, and judges the actor without learning."""

    def build() -> tuple[torch.nn.Module, torch.nn.Module, Callable]:
        torch.manual_seed(0)
        critic, actor = torch.nn.Linear(4, 1), torch.nn.Linear(3, 1)
        learn_critic = torch.optim.SGD(critic.parameters(), 0.1)
        learn_actor = torch.optim.SGD(actor.parameters(), 0.1)

        def step(state: Tensor) -> tuple[Tensor, Tensor]:
            loss = critic(torch.cat([state, actor(state).detach()], 1)).square().mean()
            learn_critic.zero_grad()
            loss.backward()
            learn_critic.step()
            for p in critic.parameters():
                p.requires_grad = False
            value = -critic(torch.cat([state, actor(state)], 1)).mean()
            learn_actor.zero_grad()
            value.backward()
            learn_actor.step()
            for p in critic.parameters():
                p.requires_grad = True
            return loss.detach(), value.detach()

        return critic, actor, step

    critic, actor, step = build()
    critic_of_eager, actor_of_eager, eager = build()
    jitted = fg.jit(step)
    for call in range(5):
        torch.manual_seed(call)
        state = torch.randn(5, 3)
        torch.testing.assert_close(jitted(state), eager(state), rtol=0, atol=0)
        for got, want in ((critic, critic_of_eager), (actor, actor_of_eager)):
            for p, q in zip(got.parameters(), want.parameters(), strict=True):
                assert p.requires_grad and torch.equal(p, q) and torch.equal(p.grad, q.grad)
    assert fg.cache_hits(jitted) >= 3, fg.fallbacks(jitted)
