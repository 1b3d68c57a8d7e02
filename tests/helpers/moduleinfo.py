"""One module of ``module_db``: eager's deepcopy and the jitted module go through the same calls."""

from __future__ import annotations

import copy
import warnings
from typing import Any

import torch

import fulgurite as fg
from helpers import traces
from helpers.compare import leaves_differ, tensors_differ, tensors_in
from helpers.opinfo import _copy, _first_line, _same_shape
from helpers.sweep import Outcome, reasons_of

warnings.filterwarnings("ignore")
SAMPLES = 5
CALLS = 3


def name_of(info: Any) -> str:
    return info.name


def _inputs(info: Any, seed: int, training: bool) -> list[Any]:
    torch.manual_seed(seed)
    return info.module_inputs_func(
        info, device="cpu", dtype=torch.float32, requires_grad=True, training=training
    )


def _call(module: torch.nn.Module, sample: Any, backward: bool) -> dict[str, Any]:
    args, kwargs = sample
    out: dict[str, Any] = {"error": None, "grad_error": None}
    inputs = tensors_in(sample)
    state = [*module.parameters(), *module.buffers()]
    versions = [t._version for t in [*inputs, *state]]
    torch.manual_seed(3)
    try:
        with torch.enable_grad() if backward else torch.no_grad():
            result = module(*args, **kwargs)
    except Exception as e:
        out["error"] = f"{type(e).__name__}: {e}"
        return out
    out["random"] = torch.get_rng_state()
    out["result"] = result
    out["outputs"] = tensors_in(result)
    out["bumped"] = [t._version != v for t, v in zip([*inputs, *state], versions, strict=True)]
    out["inputs"], out["state"] = inputs, [t.detach().clone() for t in state]
    differentiable = [
        o for o in out["outputs"] if o.requires_grad and (o.is_floating_point() or o.is_complex())
    ]
    if backward and differentiable:
        torch.manual_seed(4)
        cotangents = [torch.randn_like(o.detach()) for o in differentiable]
        try:
            torch.autograd.backward(differentiable, cotangents)
        except Exception as e:
            out["grad_error"] = f"{type(e).__name__}: {e}"
    leaves = [*inputs, *module.parameters()]
    out["grads"] = [t.grad for t in leaves]
    for t in leaves:
        t.grad = None
    return out


def _differences(where: str, got: dict[str, Any], want: dict[str, Any], exact: bool) -> list[str]:
    if got["error"] or want["error"]:
        return (
            []
            if got["error"] == want["error"]
            else [
                f"{where}: error {_first_line(got['error'])!r}, eager's {_first_line(want['error'])!r}"
            ]
        )
    out = leaves_differ("result", got["result"], want["result"])
    out += tensors_differ("output", got["outputs"], want["outputs"], tight=not exact)
    out += tensors_differ("input", got["inputs"], want["inputs"])
    out += tensors_differ("parameter or buffer", got["state"], want["state"], tight=not exact)
    if got["bumped"] != want["bumped"]:
        out.append(f"version bumps {got['bumped']} != {want['bumped']}")
    if not torch.equal(got["random"], want["random"]):
        out.append("the generator is in another state")
    if got["grad_error"] != want["grad_error"]:
        out.append(
            f"gradient error {_first_line(got['grad_error'])!r}, eager's {_first_line(want['grad_error'])!r}"
        )
    out += tensors_differ("gradient", got["grads"], want["grads"], tight=not exact, strides=False)
    return [f"{where}: {d}" for d in out]


def check(info: Any, training: bool, backward: bool) -> Outcome:
    """Three calls, the second and third with other values, on the module of each of the first samples."""
    outcome = Outcome()
    first, second, third = (_inputs(info, seed, training) for seed in (1, 2, 3))
    for k, m in enumerate(first[:SAMPLES]):
        constructor, forward = m.constructor_input, m.forward_input
        if forward is None:
            continue
        a = (tuple(forward.args), forward.kwargs)
        torch.manual_seed(0)
        module = info.module_cls(*constructor.args, **constructor.kwargs)
        module.train(training)
        eager = copy.deepcopy(module)
        jitted = fg.jit(module)
        samples = [a]
        for other in (second, third):
            s = None
            if k < len(other) and other[k].forward_input is not None:
                s = (tuple(other[k].forward_input.args), other[k].forward_input.kwargs)
            samples.append(s if s is not None and _same_shape(a, s) else a)
        outcome.samples += 1
        raised = True
        for call, s in enumerate(samples):
            want = _call(eager, _copy(s, a), backward)
            raised = raised and bool(want["error"])
            got = _call(jitted, _copy(s, a), backward)
            outcome.wrong += _differences(f"sample {k}, call {call}", got, want, exact=call == 0)
        if fg.cache_hits(jitted) == len(samples) - 1:
            outcome.served += 1
        elif raised:
            outcome.samples -= 1
        else:
            outcome.reasons.append("; ".join(reasons_of(jitted)))
        outcome.wrong += traces.problems(jitted)
    return outcome
