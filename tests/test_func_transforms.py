"""``torch.func`` inside a compiled function: the recorder sees what the transforms make of the program."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.func import functional_call, grad, grad_and_value, hessian, jacrev, vjp, vmap
from torch.utils._pytree import tree_leaves

import fulgurite as fg

CALLS = 4
CLOSURE = torch.randn(3, 2, generator=torch.Generator().manual_seed(0))


def written_by_vmap(x: torch.Tensor) -> torch.Tensor:
    vmap(lambda a: a.mul_(2))(x)
    return x + 1


PROGRAMS: dict[str, tuple[Callable, tuple[tuple[int, ...], ...]]] = {
    "grad": (lambda w, x: w - 0.1 * grad(lambda a: (x @ a).tanh().sum())(w), ((3, 2), (4, 3))),
    "grad of a closure": (lambda x: grad(lambda a: (a @ CLOSURE).tanh().sum())(x), ((4, 3),)),
    "grad with an auxiliary result": (
        lambda x: grad_and_value(lambda a: (a.sin().sum(), a * 2), has_aux=True)(x),
        ((4,),),
    ),
    "second derivative of each": (lambda x: vmap(grad(grad(torch.sin)))(x), ((4,),)),
    "vmap": (lambda w, x: vmap(lambda a: (a @ w).softmax(-1))(x), ((3, 2), (4, 3))),
    "vmap over other dimensions": (
        lambda w, x: vmap(lambda a, b: a @ b, in_dims=(0, 2), out_dims=1)(x, w),
        ((3, 2, 4), (4, 3)),
    ),
    "vmap in chunks": (lambda x: vmap(lambda a: a.sin(), chunk_size=2)(x), ((4, 3),)),
    "vmap with randomness": (
        lambda x: vmap(lambda a: a + torch.rand(3), randomness="different")(x),
        ((4, 3),),
    ),
    "in-place inside vmap": (lambda x: vmap(lambda a: a.clone().add_(1).mul_(a))(x), ((4, 3),)),
    "an argument written by vmap": (written_by_vmap, ((4, 3),)),
    "gradient of each sample": (
        lambda w, x: vmap(grad(lambda a, b: (b @ a).pow(2).sum()), in_dims=(None, 0))(w, x),
        ((3, 2), (4, 3)),
    ),
    "jacrev": (lambda x: jacrev(lambda a: a.sin() * a.sum())(x), ((3,),)),
    "vjp": (lambda x, v: vjp(torch.sin, x)[1](v), ((3,), (3,))),
}


def _run(f: Callable, shapes: tuple[tuple[int, ...], ...], seed: int, requires_grad: bool) -> Any:
    torch.manual_seed(seed)
    leaves = [torch.randn(s, requires_grad=requires_grad) for s in shapes]
    result = f(*[t * 1 for t in leaves] if requires_grad else leaves)
    tensors = tree_leaves(result)
    gradients: tuple = ()
    if requires_grad:
        total = sum(t.sum() for t in tensors if t.requires_grad)
        gradients = torch.autograd.grad(total, leaves, allow_unused=True)
    return tensors, [t.requires_grad for t in tensors], gradients, torch.get_rng_state()


@pytest.mark.parametrize("requires_grad", [False, True])
@pytest.mark.parametrize("name", PROGRAMS)
def test_transforms_inside(name: str, requires_grad: bool) -> None:
    f, shapes = PROGRAMS[name]
    jitted = fg.jit(f)
    for seed in range(CALLS):
        want = _run(f, shapes, seed, requires_grad)
        torch.testing.assert_close(_run(jitted, shapes, seed, requires_grad), want)
    assert fg.cache_hits(jitted) == CALLS - 1, fg.fallbacks(jitted)


def test_forward_mode_runs_eagerly() -> None:
    jitted = fg.jit(lambda x: hessian(lambda a: (a**3).sum())(x))
    x = torch.randn(3)
    for _ in range(3):
        torch.testing.assert_close(jitted(x), torch.diag(6 * x))
    assert fg.cache_hits(jitted) == 0
    assert "FG-200" in [r.code for r in fg.fallbacks(jitted)]


def test_a_number_read_inside_a_transform_is_guarded() -> None:
    def f(x: torch.Tensor) -> torch.Tensor:
        return grad(lambda a: (a * (2 if a.detach().sum() > 0 else 3)).sum())(x)

    jitted = fg.jit(f)
    for sign in (1, 1, -1, 1, -1):
        x = sign * torch.ones(3)
        assert torch.equal(jitted(x), f(x))
    assert fg.cache_hits(jitted) == 3


# ---- modules as functions -------------------------------------------------------------------------------------
def module() -> torch.nn.Module:
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Tanh(), torch.nn.Linear(4, 1))


def functional(kind: str, net: torch.nn.Module) -> Callable[..., Any]:
    def loss(parameters: Any, x: torch.Tensor) -> torch.Tensor:
        return functional_call(net, parameters, (x,)).square().mean()

    return {
        "plain": loss,
        "grad": grad(loss),
        "of each sample": vmap(grad(loss), (None, 0)),
        "of each model": vmap(loss, (0, None)),
    }[kind]


@pytest.mark.parametrize("kind", ["plain", "grad", "of each sample", "of each model"])
def test_a_module_with_other_parameters(kind: str) -> None:
    net = module()
    own = list(net.parameters())
    f = fg.jit(functional(kind, net))
    reference = functional(kind, module())
    for i in range(8):
        parameters = {k: v.detach() * (1 + i / 4) for k, v in net.named_parameters()}
        if kind == "of each model":
            parameters = {k: torch.stack([v, v * 2]) for k, v in parameters.items()}
        x = torch.randn(5, 3)
        for a, b in zip(
            tree_leaves(f(parameters, x)), tree_leaves(reference(parameters, x)), strict=True
        ):
            assert torch.equal(a, b)
        assert [id(p) for p in net.parameters()] == [id(p) for p in own]
    assert fg.cache_hits(f) >= 5, (fg.fallbacks(f), fg.recompiles(f))
    # What the call consults is guarded, and nothing else.
    hits = fg.cache_hits(f)
    net[1].note = "nobody reads this"
    f(parameters, x)
    assert fg.cache_hits(f) == hits + 1
    net[1] = torch.nn.Sigmoid()
    changed = module()
    changed[1] = torch.nn.Sigmoid()
    for a, b in zip(
        tree_leaves(f(parameters, x)),
        tree_leaves(functional(kind, changed)(parameters, x)),
        strict=True,
    ):
        assert torch.equal(a, b)
