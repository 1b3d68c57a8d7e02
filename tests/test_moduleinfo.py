"""Every module of PyTorch's own test database, in training and in evaluation, against an eager copy."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from torch.testing._internal.common_modules import module_db

from helpers import forked, moduleinfo
from helpers.expected import Expected

CHUNK = 19
MODES = {"train": (True, True), "eval": (False, True), "eval without gradient": (False, False)}
LISTS = {
    mode: Expected(
        "moduleinfo_" + mode.replace(" ", "_"),
        f"Modules of module_db that are not compiled in all samples: {mode}",
    )
    for mode in MODES
}


@pytest.fixture(scope="module", autouse=True)
def lists() -> Iterator[None]:
    yield
    for expected in LISTS.values():
        expected.save()


@pytest.mark.parametrize("start", range(0, len(module_db), CHUNK))
@pytest.mark.parametrize("mode", MODES)
def test_modules_as_eager(mode: str, start: int, count: Callable[..., None]) -> None:
    complaints: list[str] = []
    title = f"ModuleInfo, {mode}"
    indices = range(start, min(start + CHUNK, len(module_db)))
    for i, outcome in forked.run_each(
        indices, lambda i: moduleinfo.check(module_db[i], *MODES[mode]), timeout=120
    ):
        name = moduleinfo.name_of(module_db[i])
        count(title, "modules")
        if isinstance(outcome, forked.Crash):
            complaints.append(f"{name}: {outcome}")
            count(title, "modules that crash")
            continue
        count(title, "samples", outcome.samples)
        count(title, "samples served by a compiled program", outcome.served)
        if outcome.wrong:
            complaints.append(f"{name}: " + "\n    ".join(outcome.wrong[:4]))
            count(title, "modules that differ from eager")
        if outcome.samples == 0:
            count(title, "modules without a sample that eager runs")
            continue
        count(title, "modules served in all samples", int(outcome.served == outcome.samples))
        count(title, "modules served in some samples", int(0 < outcome.served < outcome.samples))
        count(title, "modules not compiled", int(outcome.served == 0))
        complaints += LISTS[mode].check(name, outcome.served, outcome.samples, outcome.reasons)
    assert not complaints, "\n".join(complaints)
