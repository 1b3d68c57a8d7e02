"""Guards notice every change of consulted state, and no other."""

import pytest
from program import ids
from tables import PROGRAMS, changes


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
