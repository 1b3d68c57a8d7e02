"""Arguments that are made anew for each call are served by one program, guarded by path."""

import collections
import types
from collections import namedtuple
from dataclasses import dataclass, field

import numpy
import pytest
import torch
import torch.nn as nn

import fulgurite as fg


class Config:
    def __init__(self, scale=2.0, act=torch.relu, **more):
        self.scale = scale
        self.act = act
        self.__dict__.update(more)


@dataclass
class Batch:
    ids: torch.Tensor
    mask: torch.Tensor | None = None
    extra: dict = field(default_factory=dict)


class Slotted:
    __slots__ = ("a", "b")

    def __init__(self, a, b):
        self.a, self.b = a, b


Point = namedtuple("Point", "x y")


def ones(i):
    return torch.full((3,), float(i))


# name: the function, and what makes the arguments of call i
PROGRAMS = {
    "config": (lambda x, c: c.act(x * c.scale), lambda i: (ones(i), Config())),
    "config_in_a_list": (lambda a: a[1].act(a[0] * a[1].scale), lambda i: ([ones(i), Config()],)),
    "config_in_a_dict": (
        lambda a: a["c"].act(a["x"] * a["c"].scale),
        lambda i: ({"x": ones(i), "c": Config()},),
    ),
    "config_by_keyword": (lambda x, c: x * c.scale, lambda i: (ones(i), Config())),
    "dataclass": (
        lambda b: b.ids * b.mask if b.mask is not None else b.ids,
        lambda i: (Batch(ones(i), ones(2)),),
    ),
    "dataclass_with_dict": (
        lambda b: b.ids + b.extra["w"],
        lambda i: (Batch(ones(i), extra={"w": ones(2)}),),
    ),
    "dataclass_with_list": (
        lambda b: sum(b.extra["w"]) + b.ids,
        lambda i: (Batch(ones(i), extra={"w": [ones(2), ones(i)]}),),
    ),
    "slots": (lambda s: s.a + s.b, lambda i: (Slotted(ones(i), ones(2)),)),
    "namedtuple": (lambda p: p.x * p.y, lambda i: (Point(ones(i), 3),)),
    "namespace": (
        lambda n: n.x * n.k,
        lambda i: (Config(x=ones(i), k=3),),
    ),
    "nested": (
        lambda c: c.inner.w * c.inner.act(c.x),
        lambda i: (Config(x=ones(i), inner=Config(w=ones(2))),),
    ),
    "tuple_inside": (lambda c: c.t[0] + c.t[1][0], lambda i: (Config(t=(ones(i), (ones(2), 1))),)),
    "method": (lambda c: c(ones(1)), lambda i: (Affine(ones(i), ones(2)),)),
    "written": (lambda c: setattr(c, "y", c.x * 2) or c.y + 1, lambda i: (Config(x=ones(i)),)),
    "dict_written": (lambda d: d.__setitem__("y", d["x"] * 2) or d["y"], lambda i: ({"x": ones(i)},)),
    "list_appended": (lambda d: d.append(d[0] * 2) or d[1], lambda i: ([ones(i)],)),
}  # fmt: skip


class Affine:
    def __init__(self, w, b):
        self.w, self.b = w, b

    def __call__(self, x):
        return self.linear(x) + self.b

    def linear(self, x):
        return x * self.w


def visible(value):
    if isinstance(value, torch.Tensor):
        return value.tolist()
    if isinstance(value, (list, tuple)):
        return [visible(v) for v in value]
    if isinstance(value, dict):
        return {k: visible(v) for k, v in value.items()}
    if isinstance(value, (Config, Batch)):
        return visible(vars(value))
    if isinstance(value, Slotted):
        return [visible(value.a), visible(value.b)]
    return value if isinstance(value, (int, float, str)) else type(value).__name__


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_fresh_object_per_call_is_served(name):
    function, make = PROGRAMS[name]
    jitted = fg.jit(function)
    hits = []
    for i in range(10):
        ours, theirs = make(i), make(i)
        keywords = {"c": ours[1]} if name == "config_by_keyword" else {}
        given = ours[:1] if keywords else ours
        assert visible(jitted(*given, **keywords)) == visible(function(*theirs))
        assert visible(ours) == visible(theirs)
        hits.append(fg.cache_hits(jitted))
    assert hits[-1] - hits[-5] == 4, (hits, fg.fallbacks(jitted), fg.recompiles(jitted))


def settle(jitted, make, calls=5):
    for i in range(calls):
        jitted(*make(i))


def test_what_is_read_inside_is_guarded():
    f = fg.jit(lambda x, c: x * c.scale)
    settle(f, lambda i: (ones(i), Config()))
    assert f(ones(1), Config(scale=3.0)).tolist() == [3.0] * 3
    assert f(ones(1), Config(scale=-0.0)).signbit().all()
    assert f(ones(1), Config(scale=2)).dtype == torch.float32
    assert f(ones(1), Config()).tolist() == [2.0] * 3


def test_the_class_is_guarded():
    class Other(Config):
        @property
        def scale(self):
            return 5.0

        @scale.setter
        def scale(self, value):
            pass

    f = fg.jit(lambda x, c: x * c.scale)
    settle(f, lambda i: (ones(i), Config()))
    assert f(ones(1), Other()).tolist() == [5.0] * 3


def test_the_same_object_twice_is_not_two_objects():
    def f(a, b):
        a.n = 5
        return a.x * b.n

    g = fg.jit(f)
    settle(g, lambda i: (Config(x=ones(i), n=1), Config(x=ones(i), n=1)))
    both = Config(x=ones(1), n=1)
    assert g(both, both).tolist() == [5.0] * 3


def test_an_argument_that_is_also_global_state():
    scope = types.SimpleNamespace(c=Config(n=1))

    def f(x, c):
        c.n = 7
        return x * scope.c.n

    g = fg.jit(f)
    for i in range(5):
        assert g(ones(i), Config(n=1)).tolist() == ones(i).tolist()
    assert g(ones(1), scope.c).tolist() == [7.0] * 3


def test_a_list_argument_that_is_given_twice():
    def f(a, b):
        a[0] = a[0] * 2
        return b[0] + 1

    g = fg.jit(f)
    for i in range(5):
        assert g([ones(i)], [ones(3)]).tolist() == [4.0] * 3
    both = [ones(3)]
    assert g(both, both).tolist() == [7.0] * 3


def test_self_given_explicitly():
    class M(nn.Module):
        def __init__(self, k):
            super().__init__()
            self.l = nn.Linear(3, 3)
            self.k = k

        def forward(self, x):
            return self.l(x) * self.k

    f = fg.jit(M.forward)
    for k in (1, 2):
        m = M(k)
        for i in range(3):
            assert torch.equal(f(m, ones(i)), m.forward(ones(i)))


def test_gradients_go_to_the_fresh_tensors():
    f = fg.jit(lambda b: (b.w * b.x).sum())
    for i in range(6):
        w = torch.ones(3, requires_grad=True)
        f(Config(w=w, x=ones(i))).backward()
        assert w.grad.tolist() == ones(i).tolist()
    assert fg.cache_hits(f) >= 3


def test_objects_of_earlier_calls_are_freed():
    import gc
    import weakref

    f = fg.jit(lambda x, c: x * c.scale)
    for i in range(5):
        c = Config()
        f(ones(i), c)
    r = weakref.ref(c)
    f(ones(1), Config())
    del c
    gc.collect()
    assert r() is None


def test_a_list_argument_that_is_also_global_state():
    grown = []

    def f(x, a):
        grown.append(x)
        return a[-1] + 1

    g = fg.jit(f)
    for i in range(5):
        assert g(ones(9), [ones(i)]).tolist() == [i + 1.0] * 3
    grown.append(ones(2))
    assert g(ones(9), grown).tolist() == [10.0] * 3


MADE_ANEW = {
    "slice": (lambda: slice(0, 2), lambda x, o: x[o]),
    "range": (lambda: range(3), lambda x, o: x * sum(o)),
    "numpy scalar": (lambda: numpy.float32(2), lambda x, o: x * float(o)),
    "OrderedDict": (lambda: collections.OrderedDict(a=torch.ones(3), k=2.0), lambda x, o: x * o["a"] + len(o)),
    "deque": (lambda: collections.deque([torch.ones(3), 2.0]), lambda x, o: x * o[0] * o[-1]),
    "namespace": (lambda: types.SimpleNamespace(a=torch.ones(3), k=2), lambda x, o: x * o.a * o.k),
}  # fmt: skip


@pytest.mark.parametrize("kind", MADE_ANEW)
def test_arguments_that_are_made_anew_are_guarded_by_content(kind):
    make, use = MADE_ANEW[kind]
    g = fg.jit(use)
    for _ in range(6):
        x = torch.randn(3)
        assert torch.equal(g(x, make()), use(x, make()))
    assert fg.cache_hits(g) >= 3, fg.recompiles(g)
