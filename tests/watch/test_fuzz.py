"""Changes every plain value reachable from a model, and looks for one that matters unnoticed.

Each trial changes one entry (of an instance dict, a list, a module's globals, a function's defaults),
asks the guards, and runs the model. If the result differs from before while the
guards hold, the watcher missed a read.
"""

import os
import random

import pytest
import torch
import torch.nn as nn
from test_modules import GPT

from fulgurite import _C
from helpers import mutations

TRIALS = int(os.environ.get("FULGURITE_FUZZ_TRIALS", "2000"))
TENSOR = torch.Tensor  # a trial may replace the name


def flat(value):
    if isinstance(value, TENSOR):
        return value.detach().double().sum().item(), tuple(value.shape)
    if isinstance(value, dict):
        return [(k, flat(v)) for k, v in value.items()]
    if isinstance(value, (tuple, list)):
        return [flat(v) for v in value]
    return repr(type(value))


def behaviour(f, args):
    try:
        return repr(flat(f(*args)))
    except Exception as error:
        return type(error).__name__


def trials(model):
    """Each plain value, and the functions and classes of torch.nn."""
    yield from mutations.values(model)
    yield from mutations.globals_of(
        ("torch.nn.modules", "torch.nn.functional", "torch._jit_internal")
    )


MODELS = {
    "encoder": lambda: (
        nn.TransformerEncoder(
            nn.TransformerEncoderLayer(16, 2, 32, batch_first=True), 1, enable_nested_tensor=False
        ),
        (torch.randn(2, 4, 16),),
    ),
    "gpt": lambda: (GPT(width=16, layers=1), (torch.randint(0, 50, (2, 4)),)),
}


@pytest.mark.parametrize("name", MODELS)
@torch.no_grad()
def test_no_change_that_matters_goes_unnoticed(name):
    torch.manual_seed(0)
    model, args = MODELS[name]()
    model.eval()

    def record():
        model(*args)
        _, watched = _C._watch(model, args, {})
        assert watched.refusals() == [] and watched.check()
        return watched

    watched, expected = record(), behaviour(model, args)
    assert watched.check(), watched.explain_failure()
    noticed = needless = 0
    candidates = list(trials(model))
    random.Random(0).shuffle(candidates)
    for label, change, undo, _ in candidates[:TRIALS]:
        change()
        try:
            holds = watched.check()
            same = behaviour(model, args) == expected
        finally:
            undo()
        assert same or not holds, f"changing {label} went unnoticed"
        noticed += not holds
        needless += same and not holds
        if not watched.check():
            watched = record()
        if not holds:  # a trial may have changed the weights (max_norm of an embedding does)
            expected = behaviour(model, args)
    assert noticed > 0 and needless < max(10, TRIALS // 4)
