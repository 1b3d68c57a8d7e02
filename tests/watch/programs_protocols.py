"""Protocols that C code drives, and small pieces of the standard library."""

from program import Program as P

PROGRAMS = [
    P(
        "import from falls back on sys.modules",
        """
import sys, types
pkg = types.ModuleType("fgp2"); pkg.__path__ = []
sub = types.ModuleType("fgp2.s"); sub.v = 1
sys.modules["fgp2"] = pkg; sys.modules["fgp2.s"] = sub
def f():
    from fgp2 import s
    return s.v
""",
        [
            "n = types.ModuleType('fgp2.s'); n.v = 2; sys.modules['fgp2.s'] = n",
            "pkg.s = types.SimpleNamespace(v=3)",
        ],
        ["Z = 1"],
        may_refuse=True,
    ),
    P(
        "StopIteration value",
        """
def g():
    yield 1
    return K
K = 5
def f():
    it = g(); next(it)
    try: next(it)
    except StopIteration as e: return e.value
""",
        ["K = 6"],
        ["Z = 1"],
    ),
    P(
        "dict subclass get missing default",
        """
class D(dict):
    def __missing__(self, k): return self.d
d = D(); d.d = 1
def f(): return "%(q)s" % d, "{q}".format_map(d), d["z"]
""",
        ["d.d = 2", "d['q'] = 3"],
        ["Z = 1"],
    ),
    P(
        "property via type()",
        """
class C:
    def __init__(self): self.v = 1
    def get(self): return self.v
    x = property(get)
o = C()
def f(): return C.x.fget(o), type(o).x.__get__(o), C.__dict__["get"](o), vars_(o)
def vars_(o): return o.__dict__["v"]
""",
        ["o.v = 2", "C.get = None", "C.x = property(lambda s: 9)"],
        ["C.z = 1"],
    ),
    P(
        "descriptor instance with __call__",
        """
class D:
    k = 1
    def __call__(self, *a): return self.k, len(a)
class C: m = D()
o = C()
def f(): return o.m(), C.m(1)
""",
        ["D.k = 2", "C.__dict__['m'].k = 3", "D.__get__ = lambda s, o, t: (lambda *a: 'bound')"],
        ["C.z = 1"],
    ),
    P(
        "method resolution through __mro_entries__",
        """
class A: x = 1
class Fake:
    def __mro_entries__(self, bases): return (A,)
fake = Fake()
def f():
    class C(fake): pass
    return C.x, C.__orig_bases__[0] is fake
""",
        ["A.x = 2", "Fake.__mro_entries__ = lambda s, b: (int,)"],
        ["Fake.z = 1"],
    ),
    P(
        "operator.length_hint and index",
        """
import operator
class C:
    def __length_hint__(self): return self.n
    def __index__(self): return self.n
    n = 3
c = C()
def f(): return operator.length_hint(c), operator.index(c), hex(c), range(c)[-1], [0] * c
""",
        ["c.n = 4", "C.__index__ = lambda s: 1", "C.__length_hint__ = lambda s: 9"],
        ["c.m = 4"],
    ),
    P(
        "sum with start and __add__",
        """
class V:
    def __init__(self, v): self.v = v
    def __add__(self, o): return V(self.v + o.v)
L = [V(1), V(2)]
def f(): return sum(L, V(10)).v
""",
        ["L[0].v = 5", "V.__add__ = lambda s, o: s", "V.__radd__ = lambda s, o: s"],
        ["L[0].w = 1"],
    ),
    P(
        "round, trunc, complex, bytes of objects",
        """
import math
class C:
    def __float__(self): return 2.6
    def __round__(self, n=None): return "r"
    def __trunc__(self): return "t"
    def __bytes__(self): return b"b"
    def __complex__(self): return 1j
c = C()
def f(): return round(c), math.trunc(c), bytes(c), complex(c), math.sqrt(c)
""",
        [
            "C.__round__ = lambda s: 1",
            "C.__trunc__ = lambda s: 1",
            "C.__bytes__ = lambda s: b''",
            "C.__complex__ = lambda s: 2j",
            "C.__float__ = lambda s: 9.0",
        ],
        ["C.z = 1"],
    ),
    P(
        "os.fspath objects",
        """
import os, os.path
class Path:
    def __fspath__(self): return "a/b"
p = Path()
def f(): return os.fspath(p), os.path.join(p, "c"), os.path.basename(p)
""",
        ["Path.__fspath__ = lambda s: 'q'"],
        ["Path.z = 1"],
    ),
    P(
        "nested comprehension scopes",
        """
rows = [[1, 2], [3]]
k = 2
def f(): return [[x * k for x in r if x > lo] for r in rows], {i: [j for j in range(i)] for i in rows[0]}
lo = 0
""",
        ["rows[1].append(4)", "k = 3", "lo = 1"],
        ["Z = 1"],
    ),
    P(
        "exceptions in __exit__ and suppression by a flag",
        """
class M:
    swallow = True
    def __enter__(self): return self
    def __exit__(self, *a): return self.swallow
m = M()
def f():
    try:
        with m: raise KeyError("k")
        return "swallowed"
    except KeyError as e: return e.args[0]
""",
        ["m.swallow = False", "M.__exit__ = lambda s, *a: None"],
        ["m.z = 1"],
    ),
    P(
        "contextlib.contextmanager as a decorator",
        """
import contextlib
log = 3
@contextlib.contextmanager
def scope(n): yield n
@scope(1)
def g(): return log
def f(): return g()
""",
        ["log = 4"],
        ["Z = 1"],
    ),
    P(
        "lru_cache cleared",
        """
import functools
K = 1
@functools.lru_cache
def g(x): return x + K
g(1)
def f(): return g(1)
""",
        ["K = 5; g.cache_clear()"],
        ["K = 1"],
    ),
    P(
        "abstract property and super property",
        """
class A:
    @property
    def p(self): return self.v
class B(A):
    @property
    def p(self): return super().p + 1
b = B(); b.v = 1
def f(): return b.p
""",
        ["b.v = 2", "A.p = property(lambda s: 9)", "B.p = 4"],
        ["b.w = 1"],
    ),
    P(
        "ellipsis in keys and slices as keys",
        """
class G:
    def __getitem__(self, k): return repr(k)
g = G()
a = 1
def f(): return g[1:a, ...], g[a:], g[()], g[..., None]
""",
        ["a = 2", "G.__getitem__ = lambda s, k: 0"],
        ["G.z = 1"],
    ),
    P(
        "inspect.signature",
        """
import inspect
def g(a, b=1, *, c=2): pass
def f(): return list(inspect.signature(g).parameters), inspect.signature(g).parameters["b"].default
""",
        ["g.__defaults__ = (5,)", "g.__code__ = (lambda q, r=1, *, s=2: 0).__code__"],
        ["Z = 1"],
        may_refuse=True,
    ),
    P(
        "types.MethodType and bound at run time",
        """
import types
class C: k = 1
o = C()
def m(self): return self.k
o.m = types.MethodType(m, o)
def f(): return o.m(), types.MethodType(m, o)()
""",
        ["o.k = 2", "o.m = lambda: 7", "m.__code__ = (lambda self: 0).__code__"],
        ["o.z = 1"],
    ),
    P(
        "global declared inside a nested function",
        """
K = 1
def outer():
    def inner():
        global K
        return K
    return inner()
def f(): return outer()
""",
        ["K = 2"],
        ["Z = 1"],
    ),
    P(
        "typing.get_type_hints-like annotations walk",
        """
import dataclasses
@dataclasses.dataclass
class C:
    a: int = 1
    b: str = "x"
def f(): return {n.name: n.type for n in dataclasses.fields(C)}, dataclasses.is_dataclass(C), [n.default for n in dataclasses.fields(C)]
""",
        ["C.__dataclass_fields__['a'].default = 5", "C.__dataclass_fields__.pop('b')"],
        ["C.z = 1"],
    ),
    P(
        "string methods with a table of a subclass",
        """
class T(dict):
    def __missing__(self, k): return self.fill
t = T({97: "1"}); t.fill = "-"
def f(): return "abc".translate(t)
""",
        ["t.fill = '+'", "t[98] = '2'"],
        ["Z = 1"],
        may_refuse=True,
    ),
    P(
        "zip with dict views and enumerate start",
        """
d = {"a": 1, "b": 2}
def f(): return [(i, k, v) for i, (k, v) in enumerate(zip(d, d.values()), start=len(d))], dict(zip(d.values(), d.keys()))
""",
        ["d['c'] = 3", "d['a'] = 5"],
        ["Z = 1"],
    ),
    P(
        "sorted stability with a class key",
        """
class Key:
    def __init__(self, v): self.v = v
    def __lt__(self, o): return self.v[0] < o.v[0]
rank = {"a": [2], "b": [1]}
def f(): return sorted("ab", key=lambda c: Key(rank[c]))
""",
        ["rank['a'][0] = 0", "Key.__lt__ = lambda s, o: False"],
        ["rank['z'] = 1"],
    ),
]
