"""Every instruction is known, or refuses the run; whoever listens to the interpreter goes on to."""

import importlib
import inspect
import sys
import textwrap
import types

import pytest
import torch
from program import Program

import fulgurite as fg
from fulgurite import _C

MODULES = (
    "asyncio.base_events argparse ast collections contextlib copy dataclasses datetime decimal difflib email.message "
    "enum fractions functools heapq inspect json.decoder logging optparse pathlib pickle random re._parser statistics "
    "subprocess tempfile textwrap threading unittest.mock warnings zipfile torch.nn.functional torch.optim.adam "
    "torch.nn.modules.transformer torch.utils._pytree torch.distributions.distribution"
).split()


def codes_in(code):
    yield code
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from codes_in(constant)


@pytest.mark.parametrize("name", MODULES)
def test_every_instruction_is_known(name):
    module = importlib.import_module(name)
    for code in codes_in(compile(inspect.getsource(module), name, "exec")):
        assert _C._unknown_instructions(code) == [], code


NEW = {
    "type parameters": "def f():\n    def g[T](x: T) -> T: return x\n    return g(1)",
    "a type alias": "def f():\n    type A = int\n    return 1",
    "a generic class": "def f():\n    class C[T]: pass\n    return 1",
}
needs_monitoring = pytest.mark.skipif(
    sys.version_info < (3, 12), reason="sys.monitoring came with CPython 3.12"
)


@needs_monitoring
@pytest.mark.parametrize("name", NEW)
def test_an_unknown_instruction_refuses(name):
    scope = Program(name, NEW[name]).build()
    _, watched = _C._watch(scope["f"], (), {})
    assert any("does not know" in what for what, _, _ in watched.refusals()), watched.refusals()


def f(x):
    total = 0
    for k in [1, 2]:
        total += k
    return x * total


def lines_seen(call):
    """What a trace function is told of `f` during `call`."""
    seen = []

    def tracer(frame, event, argument):
        if frame.f_code is not f.__code__:
            return None
        seen.append((event, frame.f_lineno))
        return tracer

    before = sys.gettrace()
    sys.settrace(tracer)
    try:
        call(torch.ones(1))
        assert sys.gettrace() is tracer
    finally:
        sys.settrace(before)
    return seen


def test_a_trace_function_sees_what_it_would_without():
    watched = []
    seen = lines_seen(lambda x: watched.append(_C._watch(f, (x,), {})[1]))
    assert seen == lines_seen(f)
    assert watched[0].refusals() == [] and watched[0].check()


class Tool:
    """Another tool of sys.monitoring, which notes lines and returns of `f`."""

    def __init__(self, number, disable=False):
        self.number, self.seen, self.disable = number, [], disable

    def __enter__(self):
        monitoring = sys.monitoring
        monitoring.use_tool_id(self.number, "test")
        for event in (monitoring.events.LINE, monitoring.events.PY_RETURN):
            monitoring.register_callback(self.number, event, self.note)
        monitoring.set_events(self.number, monitoring.events.LINE | monitoring.events.PY_RETURN)
        return self

    def note(self, code, where, *_):
        if code is f.__code__:
            self.seen.append(where)
        return sys.monitoring.DISABLE if self.disable else None

    def __exit__(self, *_):
        sys.monitoring.set_events(self.number, 0)
        sys.monitoring.free_tool_id(self.number)


@needs_monitoring
def test_another_tool_sees_what_it_would_without():
    with Tool(4) as plain:
        f(torch.ones(1))
    with Tool(4) as tool:
        _, watched = _C._watch(f, (torch.ones(1),), {})
        assert watched.refusals() == [] and watched.check()
        assert sys.monitoring.get_tool(4) == "test"
    assert tool.seen == plain.seen and plain.seen


@needs_monitoring
def test_what_another_tool_has_switched_off_stays_off():
    with Tool(4, disable=True) as tool:
        f(torch.ones(1))
        before = len(tool.seen)
        _, watched = _C._watch(f, (torch.ones(1),), {})
        assert watched.refusals() == []
        assert len(tool.seen) == before


@needs_monitoring
def test_no_tool_is_left_behind():
    before = [sys.monitoring.get_tool(i) for i in range(6)]
    _C._watch(f, (torch.ones(1),), {})
    assert [sys.monitoring.get_tool(i) for i in range(6)] == before


@needs_monitoring
def test_without_a_free_tool_calls_run_eagerly_and_say_why():
    taken = [i for i in range(6) if sys.monitoring.get_tool(i) is None]
    for i in taken:
        sys.monitoring.use_tool_id(i, "test")
    try:
        assert not _C._watcher_supported()[0]
        jitted = fg.jit(f)
        assert jitted(torch.ones(1)).item() == 3
        assert "sys.monitoring" in fg.fallbacks(jitted)[-1].reason
    finally:
        for i in taken:
            sys.monitoring.free_tool_id(i)
    assert _C._watcher_supported()[0]


@needs_monitoring
def test_a_program_that_uses_monitoring_does_not_notice_the_watcher():
    monitoring = sys.monitoring

    def uses(x):
        names = [monitoring.get_tool(i) for i in range(6)]
        free = [i for i in range(6) if names[i] is None]
        for i in free:
            monitoring.use_tool_id(i, "mine")
        for i in free:
            monitoring.free_tool_id(i)
        return x + len(free)

    expected = uses(torch.ones(1))
    jitted = fg.jit(uses)
    for _ in range(3):
        assert torch.equal(jitted(torch.ones(1)), expected)
    assert any("sys.monitoring" in r.reason for r in fg.fallbacks(jitted))


@needs_monitoring
def test_events_that_go_missing_refuse_the_run():
    # CPython 3.12.1 forgets to instrument code in which a trace function was set while it ran.
    source = """
        import sys
        def f(n):
            y = n + k
            if n == 0: sys.settrace(tracer)
            y = y + k
            return y
        def tracer(*_): pass
        k = 1
    """
    scope = Program("loses events", textwrap.dedent(source)).build()
    call, before = scope["f"], sys.gettrace()
    for n in (1, 0, 1, 0, 1, 1):
        _, watched = _C._watch(call, (n,), {})
        sys.settrace(before)
        assert bool(watched.refusals()) == (n == 0), watched.refusals()
        if n:
            assert any("'k'" in text for _, text, _ in watched.guards()), watched.guards()
