"""One operator of ``op_db``: recorded on one sample, run on others, compared with eager."""

from __future__ import annotations

import warnings
from typing import Any

import torch
import torch.testing._internal.common_methods_invocations as invocations
import torch.testing._internal.common_utils as common_utils
from torch.utils._pytree import tree_flatten, tree_unflatten

import fulgurite as fg
from helpers import traces
from helpers.compare import leaves_differ, tensors_differ, tensors_in
from helpers.sweep import Outcome, reasons_of

# The wrapper sets a seed inside the program, which the recorder refuses; the sweep sets seeds outside.
invocations.wrapper_set_seed = lambda op, *args, **kwargs: op(*args, **kwargs)
# Inspects the whole stack for each operator, to name the test in messages; a stack under pytest is deep.
common_utils.extract_test_fn = lambda: None
# Warnings go through Python; what they say is compared elsewhere.
warnings.filterwarnings("ignore")

SAMPLES = 4
DTYPES = (torch.float32, torch.complex64, torch.int64, torch.bool)
"""Samples have the first of these that the operator supports."""
UNINITIALIZED = {
    "empty",
    "empty_like",
    "empty_permuted",
    "empty_strided",
    "new_empty",
    "new_empty_strided",
}
"""Operators whose values are whatever the memory held."""


def name_of(op: Any) -> str:
    return op.name + ("." + op.variant_test_name if op.variant_test_name else "")


def _samples(op: Any, seed: int, requires_grad: bool) -> list[tuple[Any, Any]]:
    common_utils.SEED = seed  # what the iterator of samples seeds with before each of them
    torch.manual_seed(seed)
    out = []
    dtype = next(d for d in DTYPES if d in op.supported_dtypes("cpu"))
    for s in op.sample_inputs("cpu", dtype, requires_grad=requires_grad):
        out.append(((s.input, *s.args), s.kwargs))
        if len(out) == SAMPLES:
            break
    return out


def _same_shape(a: Any, b: Any) -> bool:
    """Whether two samples differ in the values of their tensors only."""
    fa, sa = tree_flatten(a)
    fb, sb = tree_flatten(b)
    if str(sa) != str(sb):
        return False
    for x, y in zip(fa, fb, strict=True):
        if isinstance(x, torch.Tensor) != isinstance(y, torch.Tensor):
            return False
        if isinstance(x, torch.Tensor):
            if x.shape != y.shape or x.dtype != y.dtype or x.layout != y.layout:
                return False
            if x.layout == torch.strided and x.stride() != y.stride():
                return False
        elif callable(x) and callable(y):
            continue
        elif type(x) is not type(y) or not (x == y or x != x):
            return False
    return True


def _copy(tree: Any, like: Any) -> Any:
    """The tensors of ``tree``, cloned, in the structure and with the other values of ``like``."""
    values = tree_flatten(tree)[0]
    others, spec = tree_flatten(like)
    out = []
    for v, o in zip(values, others, strict=True):
        if isinstance(v, torch.Tensor):
            c = (
                v.detach().clone(memory_format=torch.preserve_format)
                if v.layout == torch.strided
                else v.detach().clone()
            )
            if type(v) is torch.nn.Parameter:
                c = torch.nn.Parameter(c, v.requires_grad)
            else:
                c.requires_grad_(v.requires_grad)
            out.append(c)
        else:
            out.append(o)
    return tree_unflatten(out, spec)


def _call(fn: Any, sample: Any, joint: bool) -> dict[str, Any]:
    args, kwargs = sample
    inputs = tensors_in(sample)
    before = [t._version for t in inputs]
    torch.manual_seed(3)
    out: dict[str, Any] = {"error": None, "grads": [], "grad_error": None}
    try:
        with torch.enable_grad() if joint else torch.no_grad():
            result = fn(*args, **kwargs)
    except Exception as e:
        out["error"] = f"{type(e).__name__}: {e}"
        return out
    out["random"] = torch.get_rng_state()
    out["result"] = result
    out["outputs"] = tensors_in(result)
    out["inputs"] = inputs
    out["bumped"] = [t._version != v for t, v in zip(inputs, before, strict=True)]
    if joint:
        differentiable = [
            o for o in out["outputs"] if o.requires_grad and o.layout == torch.strided
        ]
        leaves = [t for t in inputs if t.requires_grad]
        if differentiable and leaves:
            torch.manual_seed(4)
            cotangents = [_random_like(o) for o in differentiable]
            torch.manual_seed(5)
            try:
                out["grads"] = list(
                    torch.autograd.grad(differentiable, leaves, cotangents, allow_unused=True)
                )
            except Exception as e:
                out["grad_error"] = f"{type(e).__name__}: {e}"
    return out


def _random_like(t: torch.Tensor) -> torch.Tensor:
    if t.dtype == torch.complex32:  # cannot be drawn
        return torch.randn(t.shape, dtype=torch.complex64).to(t.dtype)
    return torch.randn(t.shape, dtype=t.dtype)


def _first_line(text: Any) -> str:
    return str(text).strip().split("\n")[0][:200] if text else ""


def _differences(
    where: str, got: dict[str, Any], want: dict[str, Any], values: bool, exact: bool
) -> list[str]:
    if got["error"] or want["error"]:
        return (
            []
            if got["error"] == want["error"]
            else [
                f"{where}: error {_first_line(got['error'])!r}, eager's {_first_line(want['error'])!r}"
            ]
        )
    out = leaves_differ("result", got["result"], want["result"])
    out += tensors_differ("output", got["outputs"], want["outputs"], tight=not exact, values=values)
    out += tensors_differ("input", got["inputs"], want["inputs"])
    if got["bumped"] != want["bumped"]:
        out.append(f"version bumps {got['bumped']} != {want['bumped']}")
    if not torch.equal(got["random"], want["random"]):
        out.append("the generator is in another state")
    if got["grad_error"] != want["grad_error"]:
        out.append(
            f"gradient error {_first_line(got['grad_error'])!r}, eager's {_first_line(want['grad_error'])!r}"
        )
    out += tensors_differ(
        "gradient", got["grads"], want["grads"], tight=not exact, values=values, strides=False
    )
    return [f"{where}: {d}" for d in out]


def check(op: Any, joint: bool, check_traces: bool = True, exact: bool = True) -> Outcome:
    """Records on a sample, runs on two others of the same geometry (where the operator gives them).

    ``exact``: whether the recorded call, which is eager's, must agree to the last bit."""
    outcome = Outcome()
    if joint and not op.supports_autograd:
        outcome.skipped.append("no gradient")
        return outcome
    try:
        first, second, third = (_samples(op, seed, joint) for seed in (1, 2, 3))
    except Exception as e:
        outcome.skipped.append(f"no samples: {type(e).__name__}: {_first_line(e)}")
        return outcome
    target = op.get_op()
    values = op.name not in UNINITIALIZED
    for k, a in enumerate(first):
        later = [s[k] if k < len(s) and _same_shape(a, s[k]) else a for s in (second, third)]

        def program(*args: Any, **kwargs: Any) -> Any:
            return target(*args, **kwargs)

        want = [_call(program, _copy(s, a), joint) for s in (a, *later)]
        if all(w["error"] for w in want):
            outcome.skipped.append(f"sample {k}: eager raises {_first_line(want[0]['error'])}")
        jitted = fg.jit(program)
        outcome.samples += 1
        for call, (s, w) in enumerate(zip((a, *later), want, strict=True)):
            got = _call(jitted, _copy(s, a), joint)
            outcome.wrong += _differences(
                f"sample {k}, call {call}", got, w, values, exact=exact and call == 0
            )
        if fg.cache_hits(jitted) == len(later):
            outcome.served += 1
        elif not all(w["error"] for w in want):
            outcome.reasons.append("; ".join(reasons_of(jitted)))
        else:
            outcome.samples -= 1
        if check_traces and fg._C._entries(jitted):
            outcome.wrong += traces.problems(jitted)
            inputs = tensors_in(a)
            if len(fg._C._entries(jitted)) == 1 and not any(
                p in str(fg.last_traces(jitted)[0]) for p in ("external",)
            ):
                outcome.wrong += traces.run_problems(
                    jitted, inputs, ignore_values=not values, tight=not exact
                )
    return outcome
