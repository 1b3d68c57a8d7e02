"""Programs that work against a watcher: threads, tracers, code that changes itself, objects that change or raise meanwhile.

Always eager's behaviour, a reason where nothing could be compiled, and never a crash.
"""

import inspect
import sys
import threading

import pytest
import torch

import fulgurite as fg


def both(f, *args):
    """Eager's outcome and the jitted function's, three times over."""
    jitted = fg.jit(f)

    def outcome(g):
        try:
            return g(*args)
        except Exception as error:
            return type(error), str(error)

    for _ in range(3):
        want, got = outcome(f), outcome(jitted)
        if isinstance(want, torch.Tensor):
            torch.testing.assert_close(got, want, rtol=0, atol=0)
        else:
            assert got == want
    return jitted


def test_threads_with_other_shapes_and_grad_modes():
    weight = torch.randn(8, 8, requires_grad=True)

    def f(x):
        return (x @ weight).relu().sum(0) * (2 if torch.is_grad_enabled() else 3)

    jitted = fg.jit(f)
    wrong = []

    def work(n):
        for i in range(30):
            x = torch.randn(n % 5 + 1, 8)
            with torch.set_grad_enabled((n + i) % 2 == 0):
                got, want = jitted(x), f(x)
                if not torch.equal(got, want) or got.requires_grad != want.requires_grad:
                    wrong.append((n, i))

    threads = [threading.Thread(target=work, args=(n,)) for n in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong
    assert fg.cache_hits(jitted) > 0


def test_state_that_another_thread_changes():
    class Config:
        scale = 1.0

    config, stop = Config(), threading.Event()

    def flip():
        while not stop.is_set():
            config.scale = 3.0 - config.scale

    def f(x):
        return x * config.scale + x * 0

    jitted = fg.jit(f)
    thread = threading.Thread(target=flip)
    config.scale = 1.0
    thread.start()
    try:
        for _ in range(200):
            assert jitted(torch.ones(1)).item() in (1.0, 2.0)
    finally:
        stop.set()
        thread.join()


def test_a_coroutine_function_is_called_as_without():
    async def f(x):
        return x + 1

    jitted = fg.jit(f)
    coroutine = jitted(torch.ones(1))
    assert inspect.iscoroutine(coroutine)
    with pytest.raises(StopIteration) as done:
        coroutine.send(None)
    assert done.value.value.item() == 2
    assert fg.fallbacks(jitted)


@pytest.mark.parametrize("install", [sys.settrace, sys.setprofile])
def test_a_tracer_that_the_program_installs(install):
    seen = []

    def tracer(frame, event, argument):
        seen.append(event)

    def f(x):
        install(tracer)
        y = x + 1
        return y

    trace, profile = sys.gettrace(), sys.getprofile()
    jitted = fg.jit(f)
    for i in range(3):
        try:
            assert jitted(torch.ones(1)).item() == 2
            now = sys.gettrace() if install is sys.settrace else sys.getprofile()
            assert now is tracer, i
        finally:
            sys.settrace(trace)
            sys.setprofile(profile)
    assert fg.fallbacks(jitted)


def test_a_function_that_replaces_its_own_code():
    def make():
        def g(x):
            g.__code__ = other.__code__
            return x + 1

        def other(x):
            return x + 5 if g is not other else x

        return g

    g, h = make(), make()
    jitted = fg.jit(lambda x: g(x))
    for _ in range(3):
        assert torch.equal(jitted(torch.ones(1)), h(torch.ones(1)))


def test_a_function_that_changes_its_closure_and_defaults():
    def make():
        n = 1

        def g(x, k=[1]):  # noqa: B006
            nonlocal n
            n += 1
            k.append(n)
            return x * n + len(k)

        return g

    g, h = make(), make()
    g.__defaults__, h.__defaults__ = ([1],), ([1],)
    jitted = fg.jit(lambda x: g(x))
    for _ in range(5):
        assert torch.equal(jitted(torch.ones(1)), h(torch.ones(1)))


def test_a_class_that_changes_while_it_is_used():
    def make():
        class C:
            k = 1

            def step(self, x):
                type(self).k += 1
                return x * self.k

        return C()

    a, b = make(), make()
    jitted = fg.jit(lambda x: a.step(x))
    for _ in range(4):
        assert torch.equal(jitted(torch.ones(1)), b.step(torch.ones(1)))


def test_a_getattr_that_fills_in():
    def make():
        class C:
            made = 0

            def __getattr__(self, name):
                if name.startswith("__"):
                    raise AttributeError(name)
                C.made += 1
                value = float(len(name) * C.made)
                setattr(self, name, value)
                return value

        return C()

    a, b = make(), make()
    jitted = fg.jit(lambda x: x * a.width + a.depth)
    for _ in range(3):
        assert torch.equal(jitted(torch.ones(1)), torch.ones(1) * b.width + b.depth)
    del a.width, b.width
    assert torch.equal(jitted(torch.ones(1)), torch.ones(1) * b.width + b.depth)


def test_things_that_raise():
    class Raises:
        def __eq__(self, other):
            raise RuntimeError("eq")

        def __bool__(self):
            raise RuntimeError("bool")

        def __len__(self):
            raise RuntimeError("len")

        @property
        def p(self):
            raise RuntimeError("property")

        def __hash__(self):
            raise RuntimeError("hash")

        def __iter__(self):
            raise RuntimeError("iter")

    o = Raises()
    for use in (
        lambda: o == 1,
        lambda: bool(o),
        lambda: len(o),
        lambda: o.p,
        lambda: {o},
        lambda: list(o),
        lambda: o in [1],
        lambda: [*o],
        lambda: hash(o),
        lambda: getattr(o, "p", None),
    ):

        def f(x, use=use):
            try:
                use()
            except RuntimeError:
                x = x + 1
            return x * 2

        def g(x, use=use):
            use()
            return x

        both(f, torch.ones(2))
        both(g, torch.ones(2))


def test_objects_whose_equality_lies():
    class Liar:
        def __eq__(self, other):
            return True

        def __hash__(self):
            return 1

    table, key = {Liar(): 2.0}, Liar()

    def f(x):
        return x * table.get(key, 3.0) if key in table else x

    jitted = both(f, torch.ones(2))
    table.clear()
    assert torch.equal(jitted(torch.ones(2)), torch.ones(2))


def test_finalizers_that_run_in_the_call():
    log = []

    class Noisy:
        def __del__(self):
            log.append(len(log))

    def f(x):
        Noisy()
        return x + len(log)

    jitted = fg.jit(f)
    for i in range(3):
        assert jitted(torch.zeros(1)).item() == i + 1
    assert log == [0, 1, 2]


def test_recursion_without_end():
    def f(x):
        return f(x) + 1

    jitted = fg.jit(f)
    for _ in range(3):
        with pytest.raises(RecursionError):
            jitted(torch.ones(1))


def test_a_generator_that_outlives_the_call():
    def f(x):
        return (x * i for i in range(3))

    jitted = fg.jit(f)
    for _ in range(3):
        assert [t.item() for t in jitted(torch.ones(1))] == [0, 1, 2]


def test_a_call_that_calls_itself_through_jit():
    def f(x, n):
        return x if n == 0 else jitted(x + 1, n - 1) * 2

    jitted = fg.jit(f)

    def plain(x, n):
        return x if n == 0 else plain(x + 1, n - 1) * 2

    for _ in range(3):
        for n in range(4):
            assert torch.equal(jitted(torch.ones(2), n), plain(torch.ones(2), n))


def test_modes_are_guarded():
    def f(x):
        return x + torch.ones(1), torch.empty(0).dtype, torch.is_grad_enabled()

    jitted = fg.jit(f)

    def check():
        got, want = jitted(torch.ones(1)), f(torch.ones(1))
        assert torch.equal(got[0], want[0]) and got[0].dtype == want[0].dtype
        assert got[1:] == want[1:]

    before = torch.get_default_dtype()
    for _ in range(2):
        check()
        with torch.no_grad():
            check()
        torch.set_default_dtype(torch.float64)
        try:
            check()
        finally:
            torch.set_default_dtype(before)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            check()
        with torch.inference_mode():
            check()
        with torch.device("cpu"):
            check()


def test_requires_grad_without_gradients_is_not_consulted_unless_asked():
    weight = torch.randn(3, 3, requires_grad=True)

    def f(x):
        return x @ weight

    def asks(x):
        return x @ weight * (2 if weight.requires_grad else 3)

    for g, programs in ((f, 1), (asks, 2)):
        jitted = fg.jit(g)
        x = torch.randn(2, 3)
        with torch.no_grad():
            for wanted in (True, True, False, False, True):
                weight.requires_grad_(wanted)
                assert torch.equal(jitted(x), g(x))
        assert len(fg.programs(jitted)) == programs
        for wanted in (True, False, True):
            weight.requires_grad_(wanted)
            got, want = jitted(x), g(x)
            assert torch.equal(got, want) and got.requires_grad == want.requires_grad


def test_defaults_that_no_call_uses_are_not_guarded():
    def g(x, a=1.0, b=2.0, *, c=3.0, d=4.0):
        return x * a * b * c * d

    given, named = g.__defaults__[0], dict(d=g.__kwdefaults__["d"])  # the very objects
    g.__kwdefaults__["d"] = 6.0
    x = torch.ones(1)
    for call in (lambda x: g(x, given, **named), lambda x: g(x, a=given, d=named["d"])):
        jitted = fg.jit(call)
        for _ in range(2):
            jitted(x)
        misses = fg.cache_misses(jitted)
        g.__defaults__ = (g.__defaults__[0] + 1, 2.0)
        g.__kwdefaults__["d"] += 1
        assert jitted(x).item() == 24 and fg.cache_misses(jitted) == misses
    jitted = fg.jit(lambda x: g(x, 5.0, d=6.0))
    for _ in range(2):
        jitted(x)
    misses = fg.cache_misses(jitted)
    g.__defaults__ = (7.0, 2.0)
    g.__kwdefaults__["d"] = 8.0
    assert jitted(x).item() == 180 and fg.cache_misses(jitted) == misses
    g.__defaults__ = (7.0, 3.0)
    assert jitted(x).item() == 270
    g.__kwdefaults__["c"] = 1.0
    assert jitted(x).item() == 90
