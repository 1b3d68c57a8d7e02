"""A compiled function gives eager's result after every change of consulted state, and no other change makes a new program."""

import re

import pytest
import torch
from program import ids
from tables import PROGRAMS, changes

import fulgurite as fg


def plain(text):
    """Without what differs from call to call."""
    return re.sub(r",\s*grad_fn=<.*?>", ", grad_fn", re.sub(r"0x[0-9a-f]+", "0x", text))


class Compiled:
    """A program inside a function with an operator, compiled and warm, beside itself run eagerly."""

    def __init__(self, program):
        self.scope = program.build()
        self.x = torch.arange(3.0)
        self.jitted = fg.jit(lambda x: (x + 1, self.scope["f"](*self.scope.get("args", ()))))
        for _ in range(3):
            self.check()

    def check(self):
        got, want = self.outcome(self.jitted), self.outcome(self.jitted.__wrapped__)
        assert got == want

    def outcome(self, f):
        torch.manual_seed(0)
        try:
            y, result = f(self.x)
        except RecursionError:
            return "RecursionError"
        except Exception as error:
            return plain(repr(error))
        assert torch.equal(y, self.x + 1)
        return plain(repr(result))


@pytest.mark.parametrize("program", PROGRAMS, ids=ids)
def test_is_served_by_a_program(program):
    compiled = Compiled(program)
    reasons = fg.fallbacks(compiled.jitted)
    if program.may_refuse or any(
        r.code == "FG-202" for r in reasons
    ):  # nor a kind of result that is made again
        return
    assert fg.cache_hits(compiled.jitted) > 0, reasons


@pytest.mark.parametrize("program, change", changes("consulted"))
def test_equals_eager_after_a_change(program, change):
    compiled = Compiled(program)
    exec(change, compiled.scope)
    for _ in range(2):
        compiled.check()


@pytest.mark.parametrize("program, change", changes("unrelated"))
def test_keeps_its_program_after_an_unrelated_change(program, change):
    compiled = Compiled(program)
    if fg.cache_hits(compiled.jitted) == 0:
        pytest.skip("not compiled")
    if "requires_grad_(" in change:
        pytest.skip("unrelated to Python's state, but not to gradients")
    misses = fg.cache_misses(compiled.jitted)
    exec(change, compiled.scope)
    compiled.check()
    assert fg.cache_misses(compiled.jitted) == misses, str(fg.explain(compiled.jitted))
