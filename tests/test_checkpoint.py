"""torch.utils.checkpoint in compiled functions: eager's values and gradients, and nothing saved that is to be computed again.

The oracle is eager, with the checkpoint; what is saved is read off the backward program.
"""

from __future__ import annotations

import copy
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint, checkpoint_sequential

import fulgurite as fg

F64 = torch.float64


def leaf(*sizes: int) -> Tensor:
    return torch.randn(*sizes, dtype=F64).requires_grad_()


class Block(nn.Module):
    def __init__(self, width: int = 8, p: float = 0.0) -> None:
        super().__init__()
        self.a = nn.Linear(width, 4 * width, dtype=F64)
        self.b = nn.Linear(4 * width, width, dtype=F64)
        self.norm = nn.LayerNorm(width, dtype=F64)
        self.drop = nn.Dropout(p)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.drop(self.b(torch.nn.functional.gelu(self.a(self.norm(x)))))


class Net(nn.Module):
    def __init__(self, p: float = 0.0, reentrant: bool | None = False, depth: int = 3) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.blocks = nn.ModuleList(Block(p=p) for _ in range(depth))
        self.head = nn.Linear(8, 1, dtype=F64)
        self.reentrant = reentrant

    def forward(self, x: Tensor) -> Tensor:
        for block in self.blocks:
            if self.reentrant is None:
                x = block(x)
            else:
                x = checkpoint(block, x, use_reentrant=self.reentrant)
        return self.head(x).square().mean()


def step(model: Callable, parameters: list[Tensor], x: Tensor, seed: int) -> tuple:
    for p in (*parameters, x):
        p.grad = None
    torch.manual_seed(seed)
    loss = model(x)
    state = torch.get_rng_state()
    loss.backward()
    assert torch.equal(torch.get_rng_state(), state)
    return loss.detach(), [p.grad for p in (*parameters, x)], state


def assert_steps(model: nn.Module, calls: int = 4, served: bool = True) -> Callable:
    other = copy.deepcopy(model)
    g = fg.jit(model)
    g(leaf(2, 5, 8))  # imports what checkpoint imports when it is first called
    for seed in range(calls):
        x = leaf(2, 5, 8)
        y = x.detach().clone().requires_grad_()
        found = step(g, list(model.parameters()), x, seed)
        expected = step(other, list(other.parameters()), y, seed)
        torch.testing.assert_close(found, expected)
    if served:
        assert fg.fallbacks(g) == []
        assert fg.cache_hits(g) == calls
    return g


def saved_bytes(g: Callable, parameters: list[Tensor], x: Tensor) -> int:
    """What is kept between forward and backward, parameters and argument aside."""
    sizes = {}

    def pack(t: Tensor) -> Tensor:
        sizes[t.untyped_storage().data_ptr()] = t.untyped_storage().nbytes()
        return t

    hits = fg.cache_hits(g)
    with torch.autograd.graph.saved_tensors_hooks(pack, lambda t: t):
        loss = g(x)
    assert fg.cache_hits(g) == hits + 1
    loss.backward()
    for t in (*parameters, x):
        sizes.pop(t.untyped_storage().data_ptr(), None)
    return sum(sizes.values())


@pytest.fixture(autouse=True, scope="module")
def _import_dynamo():
    checkpoint(lambda x: x * 2, leaf(2), use_reentrant=False)


@pytest.mark.parametrize("reentrant", [False, True], ids=["not reentrant", "reentrant"])
@pytest.mark.parametrize("p", [0.0, 0.3], ids=["no dropout", "dropout"])
def test_training_steps(p, reentrant):
    assert_steps(Net(p, reentrant))


@pytest.mark.parametrize("p", [0.0, 0.3], ids=["no dropout", "dropout"])
def test_only_what_blocks_pass_on_is_saved(p):
    depth, x = 6, leaf(2, 50, 8)
    size = x.untyped_storage().nbytes()
    random_state = torch.get_rng_state().numel()
    found = {}
    for reentrant in (False, None):
        model = Net(p, reentrant, depth)
        g = fg.jit(model)
        for _ in range(3):
            g(x).backward()
        found[reentrant] = saved_bytes(g, list(model.parameters()), x)
    # The input of each block but the first, and of the head; in a block: about ten times that.
    assert found[False] < (depth + 1) * size + (depth * random_state if p else 0)
    assert found[None] > 8 * depth * size


def test_functions_with_closures_and_several_results():
    def f(x, w):
        scale = w.exp()

        def inner(a, b):
            h = (a @ b).sin() * scale
            return h, h.cos() @ b

        a, b = checkpoint(inner, x, w, use_reentrant=False)
        return (a * b).sum() + a.sum()

    g = fg.jit(f)
    for _ in range(3):
        x, w = leaf(3, 3), leaf(3, 3)
        expected = torch.autograd.grad(f(x, w), (x, w))
        torch.testing.assert_close(torch.autograd.grad(g(x, w), (x, w)), expected)
    assert fg.fallbacks(g) == []
    assert fg.cache_hits(g) == 2


def test_nested_checkpoints():
    def inner(x):
        return x.sin().exp().cos()

    def outer(x):
        return (
            checkpoint(inner, checkpoint(inner, x, use_reentrant=False).tanh(), use_reentrant=False)
            * x
        )

    def f(x):
        return checkpoint(outer, x, use_reentrant=False).sum()

    g = fg.jit(f)
    for _ in range(3):
        x = leaf(3)
        expected = torch.autograd.grad(f(x), x)
        torch.testing.assert_close(torch.autograd.grad(g(x), x), expected)
    assert fg.cache_hits(g) == 2


@pytest.mark.parametrize("reentrant", [False, True], ids=["not reentrant", "reentrant"])
def test_sequential(reentrant):
    torch.manual_seed(0)
    layers = nn.Sequential(*(Block(p=0.2) for _ in range(4)))

    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layers = layers

        def forward(self, x):
            return checkpoint_sequential(self.layers, 2, x, use_reentrant=reentrant).square().mean()

    assert_steps(Model())


def test_reentrant_checkpoints_of_closures():
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            torch.manual_seed(0)
            self.blocks = nn.ModuleList(Block(p=0.2) for _ in range(2))

        def forward(self, x):
            def custom_forward(module, factor):
                def run(*inputs, power=2):
                    return module(*inputs) * factor**power

                return run

            for k, block in enumerate(self.blocks):
                x = checkpoint(custom_forward(block, k + 1.0), x, use_reentrant=True)
            return x.square().mean()

    assert_steps(Model(), served=False)

    class Plain(Model):
        def forward(self, x):
            for block in self.blocks:
                x = checkpoint(lambda y, block=block: block(y), x, use_reentrant=True)
            return x.square().mean()

    assert_steps(Plain())


def test_second_gradients():
    def inner(x):
        return x.sin().exp() * x

    def f(x):
        return checkpoint(inner, x, use_reentrant=False).sum()

    g = fg.jit(f)
    for _ in range(3):
        x = leaf(3)
        both = []
        for h in (f, g):
            (first,) = torch.autograd.grad(h(x), x, create_graph=True)
            both.append(torch.autograd.grad(first.sum(), x)[0])
        torch.testing.assert_close(*both)


def test_parts_of_the_gradient():
    def f(x, w):
        h = checkpoint(
            lambda a, b: torch.dropout((a * b).sin(), 0.5, True) * b, x, w, use_reentrant=False
        )
        return h.sum(), (h * w).sum()

    g = fg.jit(f)
    for k in range(6):
        x, w = leaf(50), leaf(50)
        grads = []
        for h in (f, g):
            torch.manual_seed(k)
            out = h(x, w)[k % 2]
            grads.append(torch.autograd.grad(out, (x, w)[k % 3 % 2]))
        torch.testing.assert_close(*grads)
    assert fg.cache_hits(g) == 5


def test_what_a_checkpoint_would_do_again_stays_with_eager():
    class Counts(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.n = 0

        def inner(self, x):
            self.n += 1
            return x.sin().cos()

        def forward(self, x):
            return checkpoint(self.inner, x, use_reentrant=False).sum()

    class Normalised(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.norm = nn.BatchNorm1d(4, dtype=F64)

        def forward(self, x):
            return checkpoint(self.norm, x, use_reentrant=False).square().sum()

    for model in (Counts(), Normalised()):
        other = copy.deepcopy(model)
        g = fg.jit(model)
        for _ in range(4):
            x = leaf(5, 4)
            g(x).backward()
            y = x.detach().clone().requires_grad_()
            other(y).backward()
            torch.testing.assert_close(x.grad, y.grad)
        if isinstance(model, Counts):
            assert model.n == other.n == 8
        else:
            torch.testing.assert_close(model.norm.running_mean, other.norm.running_mean)
        assert {f.code for f in fg.fallbacks(g)} & {"FG-194", "FG-200", "FG-203"}


def writes_what_is_around_it(x):
    buffer = torch.zeros(3, dtype=F64)

    def inner(a):
        buffer.add_(1)
        return a.sin() * buffer

    return checkpoint(inner, x, use_reentrant=False).sum()


def reads_what_is_written_afterwards(x):
    scale = torch.ones(3, dtype=F64)
    y = checkpoint(lambda a: (a.sin() * scale).exp(), x, use_reentrant=False)
    scale.mul_(3)
    return y.sum()


def writes_what_backward_needs(x):
    def inner(a):
        b = a.exp()
        c = b + 1
        b.add_(0.5)
        return c

    return checkpoint(inner, x, use_reentrant=False).sum()


@pytest.mark.parametrize(
    "f", [writes_what_is_around_it, reads_what_is_written_afterwards, writes_what_backward_needs]
)
def test_what_changes_around_a_checkpoint_stays_with_eager(f):
    g = fg.jit(f)
    for _ in range(3):
        x = leaf(3)
        grads = [torch.autograd.grad(h(x), x) for h in (f, g)]
        torch.testing.assert_close(*grads)
    assert {fallback.code for fallback in fg.fallbacks(g)} == {"FG-194"}


def test_variables_that_are_bound_anew_stay_with_eager():
    def f(x, a, b):
        for w in (a, b):
            x = checkpoint(lambda y: (y * w).sin(), x, use_reentrant=False)  # noqa: B023 (eager's backward sees the last)
        return x.sum()

    g = fg.jit(f)
    for _ in range(3):
        x, a, b = leaf(3), leaf(3), leaf(3)
        grads = [torch.autograd.grad(h(x, a, b), (x, b)) for h in (f, g)]
        torch.testing.assert_close(*grads)
    assert fg.cache_hits(g) == 0


def test_other_random_numbers_stay_with_eager():
    def f(x):
        return checkpoint(
            lambda a: torch.dropout(a.sin(), 0.5, True).exp(),
            x,
            use_reentrant=False,
            preserve_rng_state=False,
        ).sum()

    g = fg.jit(f)
    for k in range(3):
        x = leaf(50)
        grads = []
        for h in (f, g):
            torch.manual_seed(k)
            grads.append(torch.autograd.grad(h(x), x))
        torch.testing.assert_close(*grads)
    assert fg.cache_hits(g) == 0


def test_the_state_of_the_generator_is_a_value():
    def f(x):
        before = torch.get_rng_state()
        y = torch.dropout(x, 0.5, True)
        return y, before, torch.get_rng_state()

    g = fg.jit(f)
    for k in range(3):
        x = torch.ones(20)
        torch.manual_seed(k)
        expected = f(x)
        torch.manual_seed(k)
        found = g(x)
        for e, r in zip(expected, found, strict=True):
            assert torch.equal(e, r)
    assert fg.cache_hits(g) == 2
