"""One operator of ``op_db`` in double precision: ``gradcheck`` and ``gradgradcheck`` of the compiled operator."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.autograd.gradcheck import gradcheck, gradgradcheck
from torch.testing._internal import common_utils

import fulgurite as fg
from helpers.compare import tensors_in
from helpers.opinfo import _first_line
from helpers.sweep import Outcome, reasons_of

SAMPLES = 2
ELEMENTS = 60
"""Samples with more elements that require grad are left out: each costs two calls."""
DTYPES = (torch.float64, torch.complex128)
REFUSED = "FG-181"
"""An error that the compiled call's own backward raises where it cannot be differentiated again (docs/known_differences.md)."""


def supports(op: Any, order: int) -> bool:
    """Whether the operator has a gradient (of that order) that the checks of PyTorch itself are meant to pass."""
    dtypes = op.supported_backward_dtypes("cpu") if op.supports_autograd else set()
    return bool(dtypes & set(DTYPES)) and (order == 1 or op.supports_gradgrad)


def _samples(op: Any) -> list[Any]:
    common_utils.SEED = 1
    torch.manual_seed(1)
    dtype = next(d for d in DTYPES if d in op.supported_backward_dtypes("cpu"))
    found = []
    for sample in op.sample_inputs("cpu", dtype, requires_grad=True):
        leaves = [
            t for t in tensors_in(((sample.input, *sample.args), sample.kwargs)) if t.requires_grad
        ]
        if 0 < sum(t.numel() for t in leaves) <= ELEMENTS and all(
            t.layout == torch.strided for t in leaves
        ):
            found.append(sample)
        if len(found) == SAMPLES:
            break
    return found


def _function(op: Any, sample: Any) -> tuple[Callable, tuple]:
    """The operator as a function of the tensors of the sample that require grad, and these."""
    leaves: list[torch.Tensor] = []

    def collect(value: Any) -> Any:
        if isinstance(value, torch.Tensor) and value.requires_grad:
            leaves.append(value)
            return len(leaves) - 1, None
        return None, value

    def gather(tree: Any) -> Any:
        if isinstance(tree, (list, tuple)):
            return [gather(v) for v in tree], type(tree)
        return collect(tree)

    shape = gather([sample.input, *sample.args])
    named = {k: gather(v) for k, v in sample.kwargs.items()}
    operator = op.get_op()

    def build(node: Any, given: tuple) -> Any:
        head, tail = node
        if isinstance(head, list):
            return (
                tail(build(n, given) for n in head)
                if tail in (list, tuple)
                else tail(*(build(n, given) for n in head))
            )
        return given[head] if isinstance(head, int) and tail is None else tail

    def function(*given: torch.Tensor) -> Any:
        args = build(shape, given)
        kwargs = {k: build(v, given) for k, v in named.items()}
        out = operator(*args, **kwargs)
        if sample.output_process_fn_grad is not None:
            out = sample.output_process_fn_grad(out)
        return _differentiable(out)

    return function, tuple(leaves)


def _differentiable(out: Any) -> Any:
    outs = [t for t in tensors_in(out) if t.is_floating_point() or t.is_complex()]
    return tuple(o for o in outs if o.requires_grad) if len(outs) != 1 else outs[0]


def check(op: Any, order: int) -> Outcome:
    """Where eager passes the check, the compiled function must; ``served`` counts samples for which it was compiled,
    and whose gradient is differentiated again if that is asked for."""
    outcome = Outcome()
    try:
        samples = _samples(op)
    except Exception as e:
        outcome.skipped.append(f"no samples: {type(e).__name__}: {_first_line(e)}")
        return outcome
    test = gradcheck if order == 1 else gradgradcheck
    options: dict[str, Any] = dict(
        fast_mode=True,
        raise_exception=True,
        nondet_tol=op.gradcheck_nondet_tol,
        check_batched_grad=False,
    )
    for k, sample in enumerate(samples):
        function, leaves = _function(op, sample)
        torch.manual_seed(0)
        try:
            with common_utils.freeze_rng_state():
                test(function, leaves, **options)
        except Exception as e:
            outcome.skipped.append(f"sample {k}: eager fails: {_first_line(e)}")
            continue
        outcome.samples += 1
        jitted = fg.jit(function)
        torch.manual_seed(0)
        try:
            with common_utils.freeze_rng_state():
                test(jitted, leaves, **options)
        except Exception as e:
            if REFUSED in str(e):
                outcome.reasons.append(_first_line(e))
                continue
            outcome.wrong.append(f"sample {k}: {type(e).__name__}: {str(e).strip()[:600]}")
        if fg.cache_hits(jitted) > 0:
            outcome.served += 1
        else:
            outcome.reasons.append("; ".join(reasons_of(jitted)))
    return outcome
