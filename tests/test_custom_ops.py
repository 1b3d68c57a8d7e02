"""Custom operators and custom autograd Functions of torch's own test databases, jitted, against eager.

Lists are strict: what is not compiled stands here with the code of its reason, and must be taken off when it is.
"""

from __future__ import annotations

import pytest
import torch
from torch.testing._internal.autograd_function_db import autograd_function_db
from torch.testing._internal.custom_op_db import custom_op_db
from torch.utils import _pytree

import fulgurite as fg

NOT_COMPILED_OPS: dict[str, str] = {}
# What computes in numpy is not seen by any recorder.
NOT_COMPILED_FUNCTIONS = {
    info.name: "FG-200" for info in autograd_function_db if info.name.startswith("Numpy")
}


# A custom operator fills caches of its own when it is first called; calls after failures are not recorded.
FIRST_CALL, NOT_RECORDED = "FG-200", "FG-209"


def run(f, sample):
    """Outputs and gradients on a fresh copy of the sample."""
    tensors = []

    def fresh(t):
        copy = t.detach().clone().requires_grad_(t.requires_grad)
        tensors.append(copy)
        return copy

    args, kwargs = _pytree.tree_map_only(
        torch.Tensor, fresh, ((sample.input, *sample.args), sample.kwargs)
    )
    out = f(*args, **kwargs)
    flat = [t for t in _pytree.tree_leaves(out) if isinstance(t, torch.Tensor)]
    loss = [t for t in flat if t.requires_grad]
    leaves = [t for t in tensors if t.requires_grad]
    gradients = (
        torch.autograd.grad(loss, leaves, [torch.ones_like(t) for t in loss], allow_unused=True)
        if loss and leaves
        else ()
    )
    return [t.detach() for t in flat], list(gradients), [t.detach() for t in tensors]


def compare(info, expected: dict[str, str]) -> None:
    codes = set()
    for sample in info.sample_inputs("cpu", torch.float64, requires_grad=True):
        f = fg.jit(info.op, leaf_inplace="error")
        for _ in range(3):
            found, wanted = run(f, sample), run(info.op, sample)
            torch.testing.assert_close(found, wanted)
        codes |= {r.code for r in fg.fallbacks(f)} - {NOT_RECORDED}
        assert fg.fallbacks(f) or fg.cache_hits(f) == 2, fg.explain(f)
    if info in custom_op_db:
        codes -= {FIRST_CALL}
    assert codes == ({expected[info.name]} if info.name in expected else set())


@pytest.mark.parametrize("info", custom_op_db, ids=lambda info: info.name)
def test_custom_operators(info) -> None:
    compare(info, NOT_COMPILED_OPS)


@pytest.mark.parametrize("info", autograd_function_db, ids=lambda info: info.name)
def test_custom_functions(info) -> None:
    compare(info, NOT_COMPILED_FUNCTIONS)
