"""What all tests share: a quiet, single-threaded torch, totals in the summary, one check of every trace, and one of
every result of every program (option ``check_results``).

``FULGURITE_TEST_SEEDS=5000`` draws that many random programs; ``FULGURITE_TEST_UPDATE=1`` rewrites the lists of
expected exceptions under tests/expected. Tests marked ``long`` run with ``--long`` only.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch

sys.path.insert(0, os.path.dirname(__file__))
sys.path.append(os.path.dirname(os.path.dirname(__file__)))  # bench/

os.environ.setdefault("FULGURITE_CHECK_RESULTS", "1")
torch.set_num_threads(1)  # before anything starts a thread pool: tests fork

_totals: dict[str, dict[str, int]] = {}


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--long", action="store_true", help="run the tests marked long too")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "long: takes minutes; runs with --long")
    config.addinivalue_line(
        "markers", "no_round_trip: traces made in the test are not checked afterwards"
    )


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.getoption("--long"):
        return
    skip = pytest.mark.skip(reason="long; run with --long")
    for item in items:
        if "long" in item.keywords:
            item.add_marker(skip)


def pytest_terminal_summary(terminalreporter: Any) -> None:
    for title, counts in _totals.items():
        terminalreporter.section(title, sep="-")
        for what, n in counts.items():
            terminalreporter.write_line(f"{n:6d}  {what}")


@pytest.fixture
def count() -> Callable[[str, str, int], None]:
    """``count(title, what, n)``: adds to a total that is printed when all tests are over."""

    def add(title: str, what: str, n: int = 1) -> None:
        counts = _totals.setdefault(title, {})
        counts[what] = counts.get(what, 0) + n

    return add


@pytest.fixture(autouse=True)
def quiet_torch() -> Iterator[None]:
    """One thread, a fixed seed, and global modes as they were."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    yield
    torch.set_grad_enabled(True)
    torch.set_default_dtype(torch.float32)


@pytest.fixture(autouse=True)
def traces_round_trip(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> Iterator[None]:
    """After a test: every trace of every program that it compiled prints as Python and parses back."""
    import fulgurite  # noqa: F401
    from helpers import traces

    module = sys.modules["fulgurite.jit"]
    make = module._make
    made: list[Any] = []

    def remember(*args: Any, **kwargs: Any) -> Any:
        jitted = make(*args, **kwargs)
        if len(made) < 200:
            made.append(jitted)
        return jitted

    if request.node.get_closest_marker("no_round_trip"):
        yield
        return
    monkeypatch.setattr(module, "_make", remember)
    yield
    problems = [p for jitted in made for p in traces.problems(jitted)]
    assert not problems, "\n".join(problems[:5])
