"""Differential fuzzing of guards: change something that a model's call can reach, and compare the compiled call with
eager's. A difference is a guard that is missing.

A recording after a change without consequences is needless if the call does not consult the changed place at all:
neither the change nor something that cannot be used unnoticed (``mutations.Poison``) in its place makes eager give
another outcome. (A method replaced by one that does the same, or a flag that is tested and turns out not to matter, is
consulted: that the result stays the same can only be known by running.)

``FULGURITE_FUZZ_TRIALS`` sets the number of changes for each model (80).
"""

from __future__ import annotations

import copy
import importlib.util
import os
import random
import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch

import fulgurite as fg
from bench import zoo
from bench.zoo.sequence import Encoder
from helpers import mutations
from helpers.compare import tensors_in

TRIALS = int(os.environ.get("FULGURITE_FUZZ_TRIALS", "80"))
PREFIXES = {
    "Encoder": ("torch.nn.modules", "torch.nn.functional"),
    "Gpt2": ("torch.nn.modules", "torch.nn.functional", "transformers.models.gpt2.modeling"),
    "Llama": ("torch.nn.functional", "transformers.models.llama.modeling"),
}


def _study(name: str) -> zoo.Study:
    if name == "Encoder":
        return Encoder()
    pytest.importorskip("transformers")
    from bench.zoo import hf

    return getattr(hf, name)()


def _behaviour(f: torch.nn.Module, args: tuple, kwargs: dict[str, Any]) -> Any:
    """What a call gives: tensors, gradients of the parameters and random state, or the kind of exception."""
    torch.manual_seed(5)
    try:
        result = f(*args, **kwargs)
        outputs = tensors_in(result)
        differentiable = [t for t in outputs if t.requires_grad]
        gradients: list[torch.Tensor | None] = []
        parameters = [p for p in f.parameters() if p.requires_grad]
        if differentiable and parameters:
            total = sum(t.double().sum() for t in differentiable)
            gradients = list(torch.autograd.grad(total, parameters, allow_unused=True))
    except Exception as error:
        return type(error).__name__
    found = [(t.detach().clone(), t.requires_grad) for t in outputs]
    return found + [(g, False) for g in gradients], torch.get_rng_state().clone()


def _same(a: Any, b: Any) -> bool:
    if isinstance(a, str) or isinstance(b, str):
        return a == b if isinstance(a, str) and isinstance(b, str) else False
    if len(a[0]) != len(b[0]) or not torch.equal(a[1], b[1]):
        return False
    return all(
        (x is None and y is None)
        if x is None or y is None
        else x.dtype == y.dtype
        and x.shape == y.shape
        and p == q
        and torch.allclose(x, y, rtol=1e-4, atol=1e-5, equal_nan=True)
        for (x, p), (y, q) in zip(a[0], b[0], strict=True)
    )


def _mutations(name: str, model: torch.nn.Module) -> list[mutations.Mutation]:
    """A fixed draw: hooks, flags, parameters and modules, then classes, values and globals."""
    draw = random.Random(0)
    groups = [
        list(mutations.modules_of(model)),
        list(mutations.classes_of(model)),
        list(mutations.values(model)),
        list(mutations.globals_of(PREFIXES[name])),
    ]
    chosen: list[mutations.Mutation] = []
    for group in groups:
        draw.shuffle(group)
        chosen += group[: max(TRIALS // len(groups), 1)]
    draw.shuffle(chosen)
    return chosen


def _is_consulted(
    mutation: mutations.Mutation, model: torch.nn.Module, args: tuple, kwargs: dict, plain: Any
) -> bool:
    if mutation.poison is None:
        return False
    mutation.poison()
    try:
        return not _same(_behaviour(model, args, kwargs), plain)
    finally:
        mutation.undo()


@pytest.mark.no_round_trip
@pytest.mark.parametrize("grad", [False, True], ids=["no_grad", "grad"])
@pytest.mark.parametrize("name", PREFIXES)
def test_no_change_that_matters_goes_unnoticed(
    name: str, grad: bool, count: Callable[..., None]
) -> None:
    if name != "Encoder" and importlib.util.find_spec("transformers") is None:
        pytest.skip("transformers is not installed")
    warnings.simplefilter("ignore")
    torch.manual_seed(0)
    study = _study(name)
    study.train(grad)
    model = study.modules()[0]
    args, kwargs = copy.deepcopy(study.batch(0))
    with torch.set_grad_enabled(grad):
        for _ in range(3):
            _behaviour(model, args, kwargs)
        jitted, fresh = None, True
        missed, needless, trials, consequential = [], [], 0, 0
        for mutation in _mutations(name, model):
            if jitted is None or len(fg.programs(jitted)) > 4:
                jitted, fresh = fg.jit(model), True
            if fresh:
                plain = _behaviour(model, args, kwargs)
                for _ in range(2):
                    _behaviour(jitted, args, kwargs)
                if fg.cache_hits(jitted) == 0:
                    raise AssertionError(f"not compiled: {fg.fallbacks(jitted)}")
                fresh = False
            misses = fg.cache_misses(jitted)
            mutation.change()
            try:
                got = _behaviour(jitted, args, kwargs)
                again = fg.cache_misses(jitted) > misses
                want = _behaviour(model, args, kwargs)
            finally:
                mutation.undo()
            trials += 1
            if not _same(got, want):
                missed.append(f"{mutation.label} (served: {not again})")
                jitted = None
                continue
            if not _same(want, plain):
                consequential += 1
            elif again and not _is_consulted(mutation, model, args, kwargs, plain):
                needless.append(mutation.label)
            if fg.fallbacks(jitted):
                jitted = None
    count("Fuzzed models", "changes", trials)
    count("Fuzzed models", "changes with consequences", consequential)
    count("Fuzzed models", "changes missed", len(missed))
    count("Fuzzed models", "recordings for a change of what is not consulted", len(needless))
    assert not missed, "\n".join(missed)
    assert len(needless) <= max(1, trials // 100), "\n".join(needless)
    assert consequential > trials // 50
