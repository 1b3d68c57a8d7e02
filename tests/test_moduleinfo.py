"""Every module of PyTorch's own test database, in training and in evaluation, against an eager copy."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from torch.testing._internal.common_modules import module_db

from helpers import moduleinfo
from helpers.expected import Expected
from helpers.sweep import Sweep

CHUNK = 19
MODES = {"train": (True, True), "eval": (False, True), "eval without gradient": (False, False)}
SWEEPS = {
    mode: Sweep(
        f"ModuleInfo, {mode}",
        "modules",
        Expected(
            "moduleinfo_" + mode.replace(" ", "_"),
            f"Modules of module_db that are not compiled in all samples: {mode}",
        ),
        "a sample that eager runs",
    )
    for mode in MODES
}


@pytest.fixture(scope="module", autouse=True)
def lists() -> Iterator[None]:
    yield
    for sweep in SWEEPS.values():
        sweep.expected.save()


@pytest.mark.parametrize("start", range(0, len(module_db), CHUNK))
@pytest.mark.parametrize("mode", MODES)
def test_modules_as_eager(mode: str, start: int, count: Callable[..., None]) -> None:
    entries = [(moduleinfo.name_of(info), info) for info in module_db[start : start + CHUNK]]
    complaints = SWEEPS[mode].run(entries, lambda info: moduleinfo.check(info, *MODES[mode]), count)
    assert not complaints, "\n".join(complaints)
