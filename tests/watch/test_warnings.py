"""Warnings that a call gives are given again by each call that its program serves, as in eager."""

import types
import warnings

import pytest
import torch

import fulgurite as fg

SOURCE = """
import warnings, torch
class Own(UserWarning): pass
def plain(x):
    warnings.warn("plain")
    return x + 1
def with_category(x):
    warnings.warn("own", Own)
    return x + 1
def from_a_helper(x):
    helper(2)
    return x * 2
def helper(level):
    warnings.warn("from below", FutureWarning, stacklevel=level)
def blames_the_caller(x):
    warnings.warn("the caller", stacklevel=2)
    return x
def blames_far_above(x):
    helper(3)
    return x
def blames_nobody(x):
    warnings.warn("nobody", stacklevel=100)
    return x
def by_keyword(x):
    warnings.warn(message="keyword", category=DeprecationWarning, stacklevel=1)
    return x
def many(x):
    for i in range(3):
        warnings.warn(f"number {i}")
    return x
def with_an_effect(x):
    seen.append("x")
    warnings.warn("after")
    return x
seen = []
"""
NAMES = [
    "plain", "with_category", "from_a_helper", "blames_the_caller", "blames_far_above",
    "blames_nobody", "by_keyword", "many", "with_an_effect",
]  # fmt: skip


def shown(name: str, filters: str, compiled: bool) -> tuple[list, list, int]:
    module = types.ModuleType("program_that_warns")
    exec(compile(SOURCE, "<program>", "exec"), module.__dict__)
    f = module.__dict__[name]
    call = fg.jit(f) if compiled else f
    outcomes = []
    with warnings.catch_warnings(record=True) as log:
        warnings.simplefilter(filters)
        for i in range(6):
            if i == 4:
                warnings.simplefilter("always")
            try:
                call(torch.ones(2))
                outcomes.append("returned")
            except Warning as w:
                outcomes.append(repr(w))
    seen = [(str(w.message), w.category.__name__, w.filename, w.lineno) for w in log]
    registry = module.__dict__.get("__warningregistry__", {})
    keys = sorted(str(k) for k in registry)
    return [outcomes, seen, keys], log, fg.cache_hits(call) if compiled else 0


@pytest.mark.parametrize("filters", ["always", "default", "once", "module", "ignore", "error"])
@pytest.mark.parametrize("name", NAMES)
def test_warnings_are_eagers(name: str, filters: str) -> None:
    expected, _, _ = shown(name, filters, compiled=False)
    found, _, hits = shown(name, filters, compiled=True)
    assert found == expected
    if filters != "error":
        assert hits >= 4


def test_filters_that_the_program_changes_are_left_to_eager() -> None:
    def f(x):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            warnings.warn("never seen", stacklevel=1)
        return x + 1

    g = fg.jit(f)
    with warnings.catch_warnings(record=True) as log:
        warnings.simplefilter("always")
        for _ in range(4):
            g(torch.ones(2))
    assert not [w for w in log if "never seen" in str(w.message)]
