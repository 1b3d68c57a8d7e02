"""``grad``, ``value_and_grad``, ``vjp``: gradients as functions of functions, through ``jit``.

    g = fg.grad(lambda x, w: (x @ w).sin().sum(), argnums=(0, 1))
    gx, gw = g(x, w)

The function is compiled once (forward and backward); later calls are served by the program. What is returned
is part of no graph, unless an argument requires grad and grad mode is on: then gradients are differentiable
again, to any order.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch
from torch.utils import _pytree

from fulgurite import _C
from fulgurite.jit import jit

Argnums = int | tuple[int, ...] | None


def _is_differentiable(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and (value.is_floating_point() or value.is_complex())


class _Wrapped:
    """The arguments of one call, with the tensors that are differentiated put in as fresh variables."""

    def __init__(self, name: str, args: tuple, kwargs: dict, argnums: Argnums) -> None:
        self.higher = torch.is_grad_enabled() and any(
            isinstance(t, torch.Tensor) and t.requires_grad
            for t in _pytree.tree_leaves((args, kwargs))
        )
        if argnums is None:
            leaves, spec = _pytree.tree_flatten((args, kwargs))
            wanted = {
                i for i, t in enumerate(leaves) if _is_differentiable(t) and t.requires_grad
            } or {i for i, t in enumerate(leaves) if _is_differentiable(t)}
            new = [self._variable(t) if i in wanted else t for i, t in enumerate(leaves)]
            self.variables = [new[i] for i in sorted(wanted)]
            self.args, self.kwargs = _pytree.tree_unflatten(new, spec)
            self._rebuild = self._like_arguments(leaves, wanted, spec, bool(kwargs))
            return
        positions = (argnums,) if isinstance(argnums, int) else tuple(argnums)
        new_args = list(args)
        self.variables = []
        specs = []
        for position in positions:
            if not -len(args) <= position < len(args):
                raise ValueError(
                    f"FG-340: {name}: argnums names argument {position}, found {len(args)} positional arguments"
                )
            leaves, spec = _pytree.tree_flatten(args[position])
            for leaf in leaves:
                if not _is_differentiable(leaf):
                    found = (
                        f"a tensor of {leaf.dtype}"
                        if isinstance(leaf, torch.Tensor)
                        else type(leaf).__name__
                    )
                    raise TypeError(
                        f"FG-341: {name}: argument {position} holds {found}; expected floating or complex tensors "
                        "where a gradient is wanted"
                    )
            fresh = [self._variable(leaf) for leaf in leaves]
            self.variables += fresh
            specs.append((len(leaves), spec))
            new_args[position] = _pytree.tree_unflatten(fresh, spec)
        self.args, self.kwargs = tuple(new_args), kwargs
        self._rebuild = self._by_position(specs, isinstance(argnums, int))

    def _variable(self, tensor: torch.Tensor) -> torch.Tensor:
        if self.higher:
            # A value of its own in the caller's graph, so that its gradient is asked for alone.
            return (
                tensor.view_as(tensor) if tensor.requires_grad else tensor.detach().requires_grad_()
            )
        return tensor.detach().requires_grad_()

    @staticmethod
    def _like_arguments(leaves: list, wanted: set, spec: Any, has_kwargs: bool) -> Callable:
        def rebuild(gradients: list) -> Any:
            found = iter(gradients)
            flat = [next(found) if i in wanted else None for i in range(len(leaves))]
            args, kwargs = _pytree.tree_unflatten(flat, spec)
            return (args, kwargs) if has_kwargs else args[0] if len(args) == 1 else args

        return rebuild

    @staticmethod
    def _by_position(specs: list, single: bool) -> Callable:
        def rebuild(gradients: list) -> Any:
            out, at = [], 0
            for count, spec in specs:
                out.append(_pytree.tree_unflatten(gradients[at : at + count], spec))
                at += count
            return out[0] if single else tuple(out)

        return rebuild

    def gradients(self, outputs: list, cotangents: list) -> Any:
        pairs = [(o, c) for o, c in zip(outputs, cotangents, strict=True) if o.requires_grad]
        if not pairs or not self.variables:
            found: list = [torch.zeros_like(v) for v in self.variables]
        else:
            given = torch.autograd.grad(
                [o for o, _ in pairs],
                self.variables,
                [c for _, c in pairs],
                create_graph=self.higher,
                retain_graph=True if self.higher else None,
                allow_unused=True,
            )
            found = [
                torch.zeros_like(v) if g is None else g
                for v, g in zip(self.variables, given, strict=True)
            ]
        return self._rebuild(found)

    def released(self, value: Any) -> Any:
        """What the caller gets: in no graph, unless gradients of it are wanted."""
        if self.higher:
            return value
        return _pytree.tree_map_only(torch.Tensor, torch.Tensor.detach, value)


def _name(fn: Any) -> str:
    return getattr(fn, "__name__", type(fn).__name__)


def _jitted(fn: Callable, options: dict) -> Callable:
    return (
        fn
        if not options and (_C._is_jitted(fn) or hasattr(fn, "__fulgurite__"))
        else jit(fn, **options)
    )


def _scalar(name: str, value: Any) -> torch.Tensor:
    if (
        isinstance(value, torch.Tensor)
        and value.numel() == 1
        and value.dim() == 0
        and (value.is_floating_point())
    ):
        return value
    found = (
        f"a tensor of shape {tuple(value.shape)} and {value.dtype}"
        if isinstance(value, torch.Tensor)
        else type(value).__name__
    )
    raise TypeError(
        f"FG-342: {name}: the gradient is that of a real scalar; expected a floating tensor of shape (), found {found}"
    )


def value_and_grad(
    fn: Callable, argnums: Argnums = 0, has_aux: bool = False, **options: Any
) -> Callable:
    """A function that returns ``(value, gradient)`` of ``fn``, whose value is a real scalar tensor.

    argnums: the positional argument(s) to differentiate with respect to, each a floating tensor or a pytree of
    them; a tuple gives a tuple of gradients. None: every floating tensor among the arguments that requires grad
    (all floating ones if none does); the gradients come in the structure of the arguments, None elsewhere.
    has_aux: ``fn`` returns ``(value, aux)``; the result is then ``((value, aux), gradient)``. options: of ``jit``.

    A gradient has shape and dtype of its argument; zeros if the value does not depend on it. Raises ValueError
    (FG-340) for a position that does not exist, TypeError for an argument without gradients (FG-341), for a value
    that is no real scalar (FG-342) and for a result that is no pair under has_aux (FG-343).
    """
    name = _name(fn)
    inner = _jitted(fn, options)

    @functools.wraps(fn)
    def value_and_gradient(*args: Any, **kwargs: Any) -> Any:
        call = _Wrapped(name, args, kwargs, argnums)
        with torch.enable_grad():
            result = inner(*call.args, **call.kwargs)
            if has_aux and not (isinstance(result, tuple) and len(result) == 2):
                raise TypeError(
                    f"FG-343: {name}: has_aux expects a pair (value, aux), found {type(result).__name__}"
                )
            value = _scalar(name, result[0] if has_aux else result)
            gradient = call.gradients([value], [torch.ones_like(value)])
        return call.released(result), call.released(gradient)

    value_and_gradient.jitted = inner  # type: ignore[attr-defined]
    return value_and_gradient


def grad(fn: Callable, argnums: Argnums = 0, has_aux: bool = False, **options: Any) -> Callable:
    """A function that returns the gradient of ``fn``; see ``value_and_grad``. With has_aux: ``(gradient, aux)``."""
    both = value_and_grad(fn, argnums, has_aux, **options)

    @functools.wraps(fn)
    def gradient(*args: Any, **kwargs: Any) -> Any:
        value, found = both(*args, **kwargs)
        return (found, value[1]) if has_aux else found

    gradient.jitted = both.jitted  # type: ignore[attr-defined]
    return gradient


def vjp(fn: Callable, *primals: Any, has_aux: bool = False, **options: Any) -> Any:
    """``(output, vjp_fn)``: ``vjp_fn(cotangents)`` is the tuple of gradients with respect to ``primals``.

    Each primal is a floating tensor or a pytree of them; ``cotangents`` has the structure of the output, tensors of
    the shapes and dtypes of its tensors. A single primal gives a tuple of one, as ``torch.func.vjp`` does.
    ``vjp_fn`` may be called again. With has_aux ``fn`` returns ``(output, aux)`` and the result is
    ``(output, vjp_fn, aux)``. ``vjp(fn)`` alone is a function of the primals.

    Raises TypeError FG-341 and FG-343 as ``value_and_grad``, ValueError FG-344 for cotangents of another structure,
    shape or dtype.
    """
    if not primals:
        return functools.partial(vjp, fn, has_aux=has_aux, **options)
    name = _name(fn)
    inner = _jitted(fn, options)
    call = _Wrapped(name, primals, {}, tuple(range(len(primals))))
    with torch.enable_grad():
        result = inner(*call.args)
    aux = None
    if has_aux:
        if not (isinstance(result, tuple) and len(result) == 2):
            raise TypeError(
                f"FG-343: {name}: has_aux expects a pair (output, aux), found {type(result).__name__}"
            )
        result, aux = result
    outputs, spec = _pytree.tree_flatten(result)

    def vjp_fn(cotangents: Any) -> Any:
        given, found = _pytree.tree_flatten(cotangents)
        if found != spec:
            raise ValueError(
                f"FG-344: {name}: the cotangents have the structure {found}; expected that of the output, {spec}"
            )
        tensors = []
        for o, c in zip(outputs, given, strict=True):
            if not isinstance(o, torch.Tensor):
                continue
            if not isinstance(c, torch.Tensor) or c.shape != o.shape or c.dtype != o.dtype:
                what = f"{tuple(c.shape)} {c.dtype}" if isinstance(c, torch.Tensor) else repr(c)
                raise ValueError(
                    f"FG-344: {name}: a cotangent is {what}; expected {tuple(o.shape)} {o.dtype}"
                )
            tensors.append((o, c))
        higher = call.higher or (
            torch.is_grad_enabled() and any(c.requires_grad for _, c in tensors)
        )
        pairs = [(o, c) for o, c in tensors if o.requires_grad]
        if not pairs:
            found_gradients = [torch.zeros_like(v) for v in call.variables]
        else:
            with torch.enable_grad():
                raw = torch.autograd.grad(
                    [o for o, _ in pairs],
                    call.variables,
                    [c for _, c in pairs],
                    create_graph=higher,
                    retain_graph=True,
                    allow_unused=True,
                )
            found_gradients = [
                torch.zeros_like(v) if g is None else g
                for v, g in zip(call.variables, raw, strict=True)
            ]
        gradients = call._rebuild(found_gradients)
        return (
            gradients
            if higher
            else _pytree.tree_map_only(torch.Tensor, torch.Tensor.detach, gradients)
        )

    output = call.released(result)
    return (output, vjp_fn, call.released(aux)) if has_aux else (output, vjp_fn)
