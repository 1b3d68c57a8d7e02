"""Every operator of PyTorch's own test database: recorded on one sample, run on others, compared with eager."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from torch.testing._internal.common_methods_invocations import op_db

from helpers import forked, opinfo
from helpers.expected import Expected

CHUNK = 39
MODES = {"forward": False, "joint": True}
LISTS = {
    mode: Expected(
        f"opinfo_{mode}", f"Operators of op_db that are not compiled in all samples: {mode}"
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
    for expected in LISTS.values():
        expected.save()


@pytest.mark.parametrize("start", range(0, len(op_db), CHUNK))
@pytest.mark.parametrize("mode", MODES)
def test_operators_as_eager(mode: str, start: int, count: Callable[..., None]) -> None:
    complaints: list[str] = []
    title = f"OpInfo, {mode}"
    indices = range(start, min(start + CHUNK, len(op_db)))

    def work(i: int) -> opinfo.Outcome:
        return opinfo.check(
            op_db[i], MODES[mode], exact=opinfo.name_of(op_db[i]) not in NONDETERMINISTIC
        )

    for i, outcome in forked.run_each(indices, work, timeout=120):
        name = opinfo.name_of(op_db[i])
        count(title, "operators")
        if isinstance(outcome, forked.Crash):
            complaints.append(f"{name}: {outcome}")
            count(title, "operators that crash")
            continue
        count(title, "samples", outcome.samples)
        count(title, "samples served by a compiled program", outcome.served)
        if outcome.wrong:
            complaints.append(f"{name}: " + "\n    ".join(outcome.wrong[:4]))
            count(title, "operators that differ from eager")
        if outcome.samples == 0:
            count(
                title,
                "operators without a sample that eager runs"
                if mode == "forward"
                else "operators without a gradient",
            )
            continue
        count(title, "operators served in all samples", int(outcome.served == outcome.samples))
        count(title, "operators served in some samples", int(0 < outcome.served < outcome.samples))
        count(title, "operators not compiled", int(outcome.served == 0))
        complaints += LISTS[mode].check(name, outcome.served, outcome.samples, outcome.reasons)
    assert not complaints, "\n".join(complaints)
