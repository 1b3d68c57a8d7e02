"""Every operator of PyTorch's own test database: recorded on one sample, run on others, compared with eager."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from torch.testing._internal.common_methods_invocations import op_db

from helpers import opinfo
from helpers.expected import Expected
from helpers.sweep import Sweep

CHUNK = 39
MODES = {"forward": False, "joint": True}
SWEEPS = {
    mode: Sweep(
        f"OpInfo, {mode}",
        "operators",
        Expected(
            f"opinfo_{mode}", f"Operators of op_db that are not compiled in all samples: {mode}"
        ),
        "a sample that eager runs" if mode == "forward" else "a gradient",
    )
    for mode in MODES
}

NONDETERMINISTIC = {
    "linalg.lstsq": "eager's own result depends on the alignment of the inputs",
    "linalg.lstsq.grad_oriented": "eager's own result depends on the alignment of the inputs",
}
"""Compared within rounding errors on the recorded call too."""


@pytest.fixture(scope="module", autouse=True)
def lists() -> Iterator[None]:
    yield
    for sweep in SWEEPS.values():
        sweep.expected.save()


@pytest.mark.parametrize("start", range(0, len(op_db), CHUNK))
@pytest.mark.parametrize("mode", MODES)
def test_operators_as_eager(mode: str, start: int, count: Callable[..., None]) -> None:
    entries = [(opinfo.name_of(op), op) for op in op_db[start : start + CHUNK]]
    complaints = SWEEPS[mode].run(
        entries,
        lambda op: opinfo.check(op, MODES[mode], exact=opinfo.name_of(op) not in NONDETERMINISTIC),
        count,
    )
    assert not complaints, "\n".join(complaints)
