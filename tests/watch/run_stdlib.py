"""Runs one module of the standard library's tests, each test method inside a watched call or not, and prints what came of it.

``python run_stdlib.py test_functools --watch`` prints a line for each test: its name, a tab, and its outcome.
A line without an outcome is the test that was running when the process died.
"""

from __future__ import annotations

import argparse
import importlib
import os
import sys
import unittest
from typing import Any


class Lines(unittest.TestResult):
    """Writes each outcome at once, past whatever the test does to sys.stdout."""

    def __init__(self, out: Any) -> None:
        super().__init__()
        self.out = out
        self.outcome = ""

    def startTest(self, test: unittest.TestCase) -> None:
        super().startTest(test)
        self.outcome = "passed"
        self.out.write(f"{test.id()}\t".replace("\n", " "))
        self.out.flush()

    def stopTest(self, test: unittest.TestCase) -> None:
        super().stopTest(test)
        self.out.write(self.outcome + "\n")
        self.out.flush()

    def _raised(self, kind: str, error: Any) -> None:
        self.outcome = f"{kind}: {error[0].__name__}"

    def addError(self, test: unittest.TestCase, err: Any) -> None:
        self._raised("error", err)

    def addFailure(self, test: unittest.TestCase, err: Any) -> None:
        self._raised("failed", err)

    def addSubTest(self, test: unittest.TestCase, subtest: unittest.TestCase, err: Any) -> None:
        if err is not None:
            self._raised("failed", err)

    def addSkip(self, test: unittest.TestCase, reason: str) -> None:
        self.outcome = "skipped"

    def addExpectedFailure(self, test: unittest.TestCase, err: Any) -> None:
        self.outcome = "failed as expected"

    def addUnexpectedSuccess(self, test: unittest.TestCase) -> None:
        self.outcome = "passed unexpectedly"


def watched(method: Any) -> Any:
    from fulgurite import _C

    return lambda: _C._watch(method, (), {})[0]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("module")
    parser.add_argument("--watch", action="store_true")
    parser.add_argument("--only", help="a part of the test's name")
    options = parser.parse_args()
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    # Imported in both runs, so that both have the same modules around them.
    import torch  # noqa: F401

    import fulgurite  # noqa: F401

    if options.watch:
        call = unittest.TestCase._callTestMethod
        unittest.TestCase._callTestMethod = lambda self, method: call(self, watched(method))
    suite = unittest.defaultTestLoader.loadTestsFromModule(
        importlib.import_module(f"test.{options.module}")
    )
    result = Lines(out)
    for test in flat(suite):
        if not options.only or options.only in test.id():
            unittest.TestSuite([test]).run(result)
    sys.stdout.flush()
    out.flush()
    os._exit(0)  # whatever the tests left running


def flat(suite: Any) -> Any:
    for test in suite:
        if isinstance(test, unittest.BaseTestSuite):
            yield from flat(test)
        else:
            yield test


if __name__ == "__main__":
    main()
