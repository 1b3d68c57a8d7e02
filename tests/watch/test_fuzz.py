"""Changes every plain value reachable from a model, and looks for one that matters unnoticed.

Each trial changes one entry (of an instance dict, a list, a module's globals, a function's defaults),
asks the guards, and runs the model. If the result differs from before while the
guards hold, the watcher missed a read.
"""

import os
import random
import sys
import types

import pytest
import torch
import torch.nn as nn
from test_modules import GPT

from fulgurite import _C

TRIALS = int(os.environ.get("FULGURITE_FUZZ_TRIALS", "2000"))
TENSOR = torch.Tensor  # a trial may replace the name
PLAIN = (int, float, bool, str, type(None))


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


def changed(value):
    if value is None:
        return 1
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return value + 1
    if isinstance(value, float):
        return value * 1.5 + 0.1
    return value + "x"


def reachable(root):
    """The dicts and lists reachable from `root` through attributes and containers."""
    seen, found, todo = set(), [], [root]
    atoms = (
        torch.Tensor,
        type,
        types.ModuleType,
        types.FunctionType,
        types.BuiltinFunctionType,
        str,
    )
    while todo:
        value = todo.pop()
        if id(value) in seen or isinstance(value, atoms):
            continue
        seen.add(id(value))
        if isinstance(value, (dict, list)):
            found.append(value)
        if isinstance(value, dict):
            todo += list(value.values())
        elif isinstance(value, (list, tuple, set)):
            todo += list(value)
        else:
            todo += [d for d in [getattr(value, "__dict__", None)] if isinstance(d, dict)]
    return found


def trials(model):
    """(label, change, undo) for each plain value, and for functions and classes of torch.nn."""
    for container in reachable(model):
        entries = container.items() if isinstance(container, dict) else enumerate(container)
        for key, value in list(entries):
            if type(value) in PLAIN:
                yield entry(container, key, value, changed(value), repr(key))
    for name, module in list(sys.modules.items()):
        if not name.startswith(("torch.nn.modules", "torch.nn.functional", "torch._jit_internal")):
            continue
        for key, value in list(vars(module).items()):
            own = isinstance(value, (types.FunctionType, type)) and value.__module__ == name
            if type(value) in PLAIN and not key.startswith("__"):
                yield entry(vars(module), key, value, changed(value), f"{name}.{key}")
            elif own:
                yield entry(vars(module), key, value, None, f"{name}.{key}")
            if isinstance(value, types.FunctionType) and own and value.__defaults__:
                for i, default in enumerate(value.__defaults__):
                    if type(default) in PLAIN:
                        yield default_of(value, i, default)


def entry(container, key, old, new, label):
    return (
        label,
        lambda: container.__setitem__(key, new),
        lambda: container.__setitem__(key, old),
    )


def default_of(function, i, default):
    old = function.__defaults__
    new = old[:i] + (changed(default),) + old[i + 1 :]
    return (
        f"{function.__qualname__} default {i}",
        lambda: setattr(function, "__defaults__", new),
        lambda: setattr(function, "__defaults__", old),
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
    for label, change, undo in candidates[:TRIALS]:
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
