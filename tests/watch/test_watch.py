"""The watch as a mechanism: tracers, exceptions, threads, nesting, memory."""

import gc
import sys
import threading
import weakref

import pytest
import torch

from fulgurite import _C

K = 1


def add_k(x):
    return x + K


def loop():
    total = 0
    for i in range(3):
        total += add_k(i)
    return total


def test_arguments_and_results_pass_through():
    def f(a, *rest, b=2, **more):
        return a, rest, b, more

    result, _ = _C._watch(f, (1, 2), {"b": 3, "c": 4})
    assert result == (1, (2,), 3, {"c": 4})


def test_a_tracer_keeps_its_events():
    events = []

    def tracer(frame, event, argument):
        if frame.f_code.co_name in ("loop", "add_k"):
            events.append((frame.f_code.co_name, event, frame.f_lineno))
        return tracer

    outer = sys.gettrace()
    try:
        sys.settrace(tracer)
        loop()
        sys.settrace(None)
        plain = list(events)
        events.clear()
        sys.settrace(tracer)
        result, watched = _C._watch(loop, (), {})
        still = sys.gettrace()
    finally:
        sys.settrace(outer)
    assert still is tracer
    assert events == plain
    assert result == 6 and watched.check()


def test_exceptions_pass_through():
    def f():
        try:
            raise KeyError(K)
        except KeyError:
            pass
        raise ValueError(K)

    trace = sys.gettrace()
    with pytest.raises(ValueError, match="1"):
        _C._watch(f, (), {})
    assert sys.gettrace() is trace


def test_deep_recursion():
    def down(n):
        return 0 if n == 0 else 1 + down(n - 1)

    result, watched = _C._watch(down, (500,), {})
    assert result == 500 and watched.check()
    with pytest.raises(RecursionError):
        _C._watch(down, (10**6,), {})
    assert _C._watch(down, (5,), {})[0] == 5


def test_nested_watches_call_through():
    def outer():
        result, inner = _C._watch(loop, (), {})
        return result

    result, watched = _C._watch(outer, (), {})
    assert result == 6


def test_local_objects_die_on_time():
    class Local:
        pass

    def f():
        local = Local()
        dead = []
        reference = weakref.ref(local, lambda _: dead.append(1))
        del local
        return len(dead), reference

    (dead, _), _ = _C._watch(f, (), {})
    assert dead == 1


def test_generators_that_outlive_the_call():
    def count():
        yield 1
        yield K

    def f():
        numbers = count()
        next(numbers)
        return numbers

    numbers, watched = _C._watch(f, (), {})
    assert next(numbers) == K and watched.check()


def test_threads_watch_at_once():
    failures = []

    def work():
        try:
            for _ in range(50):
                result, watched = _C._watch(loop, (), {})
                assert result == 6 and watched.check()
                reasons = {what for what, _, _ in watched.refusals()}
                assert reasons <= {"is called while another thread is being recorded"}
        except BaseException as error:
            failures.append(error)

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    sys.setswitchinterval(interval)
    assert failures == []


def test_an_unwatched_thread_does_not_disturb():
    stop = threading.Event()

    def noise():
        while not stop.is_set():
            [{"a": [i]} for i in range(100)]

    thread = threading.Thread(target=noise)
    thread.start()
    try:
        for _ in range(20):
            _, watched = _C._watch(loop, (), {})
            assert watched.effects() == [] and watched.refusals() == [] and watched.check()
    finally:
        stop.set()
        thread.join()


class Hostile:
    def __eq__(self, other):
        raise RuntimeError("compared")

    __hash__ = None

    def __repr__(self):
        raise RuntimeError("printed")

    def __bool__(self):
        raise RuntimeError("asked")

    @property
    def p(self):
        raise RuntimeError("read")


hostile = Hostile()
hostile_list = [hostile]


def test_checks_run_no_user_code():
    def f():
        return hostile is None, len(hostile_list), hostile_list[0] is hostile, type(hostile)

    _, watched = _C._watch(f, (), {})
    assert watched.check()
    assert watched.guards()
    hostile_list.append(Hostile())
    assert not watched.check()
    assert "len(globals()['hostile_list']) == 1" in watched.explain_failure()
    hostile_list.pop()
    assert watched.check()


def test_hostile_properties_raise_as_they_do():
    with pytest.raises(RuntimeError, match="read"):
        _C._watch(lambda: hostile.p, (), {})


def test_values_are_compared_bit_by_bit():
    world = {"x": 0.0}
    _, watched = _C._watch(lambda: world["x"], (), {})
    world["x"] = -0.0
    assert not watched.check()
    world["x"] = float("nan")
    _, watched = _C._watch(lambda: world["x"], (), {})
    world["x"] = float("nan")
    assert watched.check()
    world["x"] = 1
    _, watched = _C._watch(lambda: world["x"], (), {})
    world["x"] = True
    assert not watched.check()


def test_recordings_are_freed():
    class Node:
        pass

    def run():
        node = Node()
        node.self = node
        node.value = torch.ones(2)
        _, node.watched = _C._watch(lambda: node.self.value, (), {})
        return weakref.ref(node)

    references = [run() for _ in range(10)]
    gc.collect()
    assert all(reference() is None for reference in references)


def test_memory_does_not_grow():
    import resource

    for _ in range(200):
        _C._watch(loop, (), {})
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for _ in range(3000):
        _C._watch(loop, (), {})
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 4096


def test_current_location_is_the_users_line_and_module():
    seen = []

    class Inner(torch.nn.Module):
        def forward(self, x):
            seen.append(_C._where())
            return x

    class Outer(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = torch.nn.Sequential(Inner())

        def forward(self, x):
            return self.inner(x)

    line = Inner.forward.__code__.co_firstlineno + 1
    model = Outer()
    model(1)
    assert seen == [(__file__, line, "Inner")]
    _C._watch(model, (1,), {})
    assert seen[1] == (__file__, line, "self.inner[0]")


def test_refuses_to_watch_from_inside_a_trace_function():
    watched = []

    def tracer(frame, event, argument):
        if frame.f_code is add_k.__code__ and not watched:
            watched.append(_C._watch(loop, (), {})[1])

    outer = sys.gettrace()
    try:
        sys.settrace(tracer)
        add_k(1)
    finally:
        sys.settrace(outer)
    assert any("trace function" in what for what, _, _ in watched[0].refusals())


def test_a_c_function_is_judged_like_any_other():
    import time

    _, watched = _C._watch(time.time, (), {})
    assert any("reads the clock" in what for what, _, _ in watched.refusals())
    _, watched = _C._watch(max, (1, 2), {})
    assert watched.refusals() == [] and watched.check()


def test_calls_spelled_out_are_seen():
    import time

    for f in (time.time.__call__, lambda: time.time.__call__(), lambda: list(map(time.time, []))):
        _, watched = _C._watch(f, (), {})
        assert watched.refusals() != []


class Thing:
    pass


def test_what_the_program_drops_is_freed_as_without_the_watcher():
    import functools

    def instance():
        o = Thing()
        o.other, o.table = [o], {1: {o}}
        o.other.clear()
        o.table.clear()
        return weakref.ref(o)

    def function():
        @functools.lru_cache
        def g(x):
            return x

        g(1)
        return weakref.ref(g)

    def class_with_a_cache():
        class D(Thing):
            @functools.lru_cache  # noqa: B019
            def m(self):
                return 1

        found = weakref.ref(D.m)
        str(D()), D() == D()
        del D
        gc.collect()
        return found

    def unfinished_generator():
        def g():
            yield 1

        it = g()
        next(it)
        return weakref.ref(it)

    def stored_by_a_refused_run():
        global STORED
        import time

        time.time()
        STORED = o = Thing()
        del STORED
        return weakref.ref(o)

    makers = (
        instance,
        function,
        class_with_a_cache,
        unfinished_generator,
        stored_by_a_refused_run,
    )
    for make in makers:
        # Asked inside the call: what is freed late would be seen by the program.
        assert _C._watch(lambda make=make: make()() is None, (), {})[0], make.__name__


def test_containers_that_are_gone_when_the_call_is_over():
    def f():
        for i in range(300):
            module = type("Module", (), {"table": {"a": i}})
            assert vars(module)["table"]["a"] == i and {"b": i}["b"] == i
        return [[] for _ in range(1000)]

    for _ in range(3):
        assert len(_C._watch(f, (), {})[0]) == 1000
