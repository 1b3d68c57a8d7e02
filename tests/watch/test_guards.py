"""Guards notice every change of consulted state, and no other."""

import programs_calls
import programs_library
import programs_modules
import programs_state
import programs_traps
import pytest
from program import ids

TABLES = [programs_state, programs_calls, programs_library, programs_modules, programs_traps]
PROGRAMS = [program for table in TABLES for program in table.PROGRAMS]


def changes(kind):
    return [
        pytest.param(program, change, id=f"{program.name}: {change}")
        for program in PROGRAMS
        for change in getattr(program, kind)
    ]


@pytest.mark.parametrize("program", PROGRAMS, ids=ids)
def test_holds_right_after_the_run(program):
    _, watched = program.watch()
    if watched.refusals():
        assert program.may_refuse, watched.refusals()
        return
    assert watched.effects() == []
    assert watched.check(), watched.explain_failure()
    assert watched.explain_failure() == ""


@pytest.mark.parametrize("program, change", changes("consulted"))
def test_fails_when_consulted_state_changes(program, change):
    scope, watched = program.watch()
    if watched.refusals():
        assert program.may_refuse, watched.refusals()
        return
    assert watched.check()
    before = program.outcome(scope)
    assert watched.check(), watched.explain_failure()
    exec(change, scope)
    if watched.check():
        assert program.outcome(scope) == before
    else:
        assert "read at" in watched.explain_failure()


@pytest.mark.parametrize("program, change", changes("unrelated"))
def test_holds_when_unrelated_state_changes(program, change):
    scope, watched = program.watch()
    exec(change, scope)
    assert watched.check(), watched.explain_failure()
