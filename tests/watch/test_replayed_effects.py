"""Calls that change Python state are served, and leave the state that eager leaves."""

import collections
import types

import pytest
import torch
from programs_effects import HEAD, REFUSED, SERVED

import fulgurite as fg

CALLS = 12


def build(name, source):
    module = types.ModuleType("program")
    exec(compile(HEAD + source, f"<{name}>", "exec"), module.__dict__)
    scope = module.__dict__
    scope.setdefault("args", lambda i: (torch.full((3,), 1.0 + i),))
    return scope


def shape(value, seen):
    """A value in comparable form; objects that are one object get one number."""
    if isinstance(value, torch.Tensor):
        first = seen.setdefault(id(value), len(seen))
        storage = seen.setdefault(value.untyped_storage().data_ptr(), len(seen))
        return ("tensor", first, storage, value.tolist(), value.dtype, value.stride(),
                value.requires_grad, value.is_leaf, type(value).__name__)  # fmt: skip
    if isinstance(value, dict):
        items = [(k, shape(v, seen)) for k, v in value.items()]
        return (type(value).__name__, seen.setdefault(id(value), len(seen)), items)
    if isinstance(value, (list, tuple, collections.deque)):
        number = None if isinstance(value, tuple) else seen.setdefault(id(value), len(seen))
        return (type(value).__name__, number, [shape(v, seen) for v in value])
    return (type(value).__name__, value)


def run(name, source, compiled):
    scope = build(name, source)
    call = fg.jit(scope["f"]) if compiled else scope["f"]
    seen, outcomes, hits = [], [], []
    for i in range(CALLS):
        torch.manual_seed(i)
        arguments = scope["args"](i)
        result = call(*arguments)
        seen.append((result, arguments))
        outcomes.append(shape([result, scope["state"](), list(arguments)], {}))
        hits.append(fg.cache_hits(call) if compiled else 0)
    return call, outcomes, hits


@pytest.mark.parametrize("name", SERVED)
def test_equals_eager_and_is_served(name):
    _, expected, _ = run(name, SERVED[name], compiled=False)
    call, found, hits = run(name, SERVED[name], compiled=True)
    for i, (a, b) in enumerate(zip(expected, found, strict=True)):
        assert a == b, f"call {i}"
    assert hits[-1] - hits[-5] == 4, (hits, fg.fallbacks(call), fg.recompiles(call))


@pytest.mark.parametrize("name", REFUSED)
def test_is_refused_by_name(name):
    source, word = REFUSED[name]
    _, expected, _ = run(name, source, compiled=False)
    call, found, hits = run(name, source, compiled=True)
    assert expected == found and hits[-1] == 0
    (first, *_) = fg.fallbacks(call)
    assert first.code in ("FG-200", "FG-201")
    assert word in first.reason and f"<{name}>:" in first.reason


def test_nothing_is_changed_by_a_run_that_leaves_the_recorded_path():
    scope = build("left", "o = Box(n=0)\ndef f(x):\n    o.n += 1\n    if x.sum() > 0: o.s = 'up'\n"
                  "    else: o.s = 'down'\n    return x * 2\n")  # fmt: skip
    f, o = fg.jit(scope["f"]), scope["o"]
    for i in range(1, 20):
        sign = 1 if i % 3 else -1
        f(torch.ones(2) * sign)
        assert (o.n, o.s) == (i, "up" if sign > 0 else "down")
    assert fg.cache_hits(f) > 10


def test_a_guard_on_a_counter_is_a_guard_on_the_condition():
    scope = build(
        "every", "o = Box(n=0)\ndef f(x):\n    o.n += 1\n    return x * 2 if o.n % 4 == 0 else x\n"
    )
    f = fg.jit(scope["f"])
    for i in range(1, 25):
        assert f(torch.ones(2)).sum().item() == (4 if i % 4 == 0 else 2)
    assert scope["o"].n == 24 and len(fg.programs(f)) == 2


def test_old_state_is_freed():
    import weakref

    scope = build(
        "freed", "o = Box(h=torch.zeros(3))\ndef f(x):\n    o.h = o.h * 0.5 + x\n    return x * 2\n"
    )
    f, o = fg.jit(scope["f"]), scope["o"]
    for _ in range(5):
        f(torch.ones(3))
    old = weakref.ref(o.h)
    f(torch.ones(3))
    f(torch.ones(3))
    assert old() is None


def test_state_set_from_outside_is_followed():
    scope = build("outside", "o = Box(h=torch.zeros(3))\ndef f(x): return o.h + x\n")
    f, o = fg.jit(scope["f"]), scope["o"]
    for i in range(8):
        o.h = torch.full((3,), float(i))
        assert f(torch.ones(3)).tolist() == [i + 1.0] * 3
    assert fg.cache_hits(f) >= 6
    o.h = torch.ones(3, requires_grad=True)
    assert f(torch.ones(3)).requires_grad
    o.h = torch.ones(3, dtype=torch.float64)
    assert f(torch.ones(3)).dtype == torch.float64


def test_the_factory_of_a_defaultdict_is_guarded():
    import collections
    import itertools

    d = collections.defaultdict(list)

    def f(x):
        d["a"].append(x * 2)
        return len(d["a"])

    g = fg.jit(f)
    for _ in range(3):
        d.clear()
        assert g(torch.ones(2)) == 1 and type(d["a"]) is list
    d.clear()
    d.default_factory = lambda: [0, 0]
    assert g(torch.ones(2)) == 3
    d.clear()
    d.default_factory = None
    with pytest.raises(KeyError):
        g(torch.ones(2))
    count = itertools.count()
    numbers = collections.defaultdict(count.__next__)

    def h(x):
        return x + numbers[float(x[0])]

    k = fg.jit(h)
    for i in range(4):
        assert torch.equal(k(torch.full((1,), 0.5 + i)), torch.full((1,), 0.5 + 2 * i))
