"""The standard library's own tests, each test inside a watched call: the same outcomes as without, and no crash.

``FULGURITE_STDLIB`` names other modules to run, separated by spaces.
"""

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

MODULES = os.environ.get(
    "FULGURITE_STDLIB",
    "test_collections test_contextlib test_copy test_dataclasses test_descr test_enum test_functools test_generators"
    " test_heapq test_itertools test_json test_patma test_re test_typing",
).split()


def outcomes(module, *options):
    runner = Path(__file__).parent / "run_stdlib.py"
    # -P: the modules of this directory must not shadow those of the library.
    done = subprocess.run(
        [sys.executable, "-X", "faulthandler", "-P", str(runner), module, *options],
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    found = {}
    for line in done.stdout.splitlines():
        name, tab, outcome = line.partition("\t")
        if tab:
            found[name] = outcome or f"died: {done.stderr[-2000:]}"
    assert found, done.stderr[-2000:]
    return found


@pytest.mark.parametrize("module", MODULES)
def test_same_outcomes_as_without_the_watcher(module):
    if (
        importlib.util.find_spec("test") is None
        or importlib.util.find_spec(f"test.{module}") is None
    ):
        pytest.skip(f"this interpreter was installed without test.{module}")
    plain, watched = outcomes(module), outcomes(module, "--watch")
    differing = {
        name: (plain.get(name), watched.get(name))
        for name in plain.keys() | watched.keys()
        if plain.get(name) != watched.get(name)
    }
    assert not differing, differing
    assert "passed" in plain.values()
