"""``gradcheck`` and ``gradgradcheck`` of compiled operators: every entry of op_db that has a gradient in double precision.

By default a fixed choice of entries, every eighth; ``FULGURITE_TEST_WHOLE=1`` checks them all.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator

import pytest
from torch.testing._internal.common_methods_invocations import op_db

from helpers import gradients, opinfo
from helpers.expected import Expected
from helpers.sweep import Sweep

EVERY = 1 if os.environ.get("FULGURITE_TEST_WHOLE") else 8
CHUNKS = 4
ORDERS = {"gradcheck": 1, "gradgradcheck": 2}
SWEEPS = {
    name: Sweep(
        f"OpInfo, {name}",
        "operators",
        Expected(name, f"Operators of op_db for which {name} runs eagerly in some sample"),
        "a sample that eager passes",
        timeout=180,
    )
    for name in ORDERS
}


@pytest.fixture(scope="module", autouse=True)
def lists() -> Iterator[None]:
    yield
    for sweep in SWEEPS.values():
        sweep.expected.save()


@pytest.mark.parametrize("chunk", range(CHUNKS))
@pytest.mark.parametrize("name", ORDERS)
def test_compiled_gradients(name: str, chunk: int, count: Callable[..., None]) -> None:
    order = ORDERS[name]
    chosen = [op for op in op_db[::EVERY] if gradients.supports(op, order)]
    entries = [(opinfo.name_of(op), op) for op in chosen[chunk::CHUNKS]]
    complaints = SWEEPS[name].run(entries, lambda op: gradients.check(op, order), count)
    assert not complaints, "\n".join(complaints)
