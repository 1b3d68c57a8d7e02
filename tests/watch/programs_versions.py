"""What the versions of CPython compile differently: slices, super(), comprehensions, long jumps, handlers, comparisons, named arguments."""

import sys

from program import Program as P

PROGRAMS = [
    P(
        "slices of lists, read and written",
        """
L = [1, 2, 3, 4]
n = 2
def f():
    M = list(L)
    M[1:n] = L[n:]
    M[:1] += [n]
    return M, L[:n], L[-n:], "abcd"[n:], (1, 2, 3)[:n]
""",
        ["L[3] = 9", "n = 1", "L.append(0)"],
        ["Z = 1"],
    ),
    P(
        "a slice asks __getitem__",
        """
class C:
    def __getitem__(self, k): return k.start, k.stop, self.v
    def __setitem__(self, k, x): x.append((k.start, k.stop, w))
c = C(); c.v = 1; w = 2
def f():
    seen = []
    c[1:w] = seen
    return c[w:], seen
""",
        ["c.v = 3", "w = 5", "C.__getitem__ = lambda s, k: 0", "C.__setitem__ = lambda s, k, x: 0"],
        ["c.u = 1"],
    ),
    P(
        "super() in methods, properties and class methods",
        """
class A:
    k = 1
    def m(self): return self.v
    @property
    def p(self): return self.v + 1
    @classmethod
    def c(cls): return cls.k
class B(A):
    def m(self): return super().m() + super(B, self).m()
    @property
    def p(self): return super().p * 2
    @classmethod
    def c(cls): return super().c(), super().k
class C(B): pass
o = C(); o.v = 1
def f(): return o.m(), o.p, C.c()
""",
        [
            "o.v = 2",
            "A.k = 5",
            "A.m = lambda self: 7",
            "B.m = A.m",
            "C.k = 8",
            "A.p = property(lambda self: 0)",
            "D = type('D', (A,), {'m': lambda self: 9}); C.__bases__ = (D, B)",
        ],
        ["A.z = 1", "Z = 1"],
    ),
    P(
        "super is another one",
        """
class A:
    def m(self): return 1
class B(A):
    def m(self): return super().m()
o = B()
def f(): return o.m()
""",
        [
            "super = lambda *a: type('S', (), {'m': lambda s: 5})()",
            "B.m = lambda self: 2",
        ],
        ["Z = 1"],
    ),
    P(
        "comprehensions that shadow variables of the function",
        """
L = [1, 2]
D = {"a": 1}
k = 3
def f():
    x = 10
    a = [x * k for x in L]
    b = {x: y + k for x, y in D.items()}
    c = {x for x in L if x > 1}
    d = [[x + y for x in L] for y in a]
    e = [g() for g in [lambda: x, lambda: k]]
    return x, a, b, c, d, e
""",
        ["L[0] = 5", "D['a'] = 2", "k = 4", "D['b'] = 1"],
        ["Z = 1"],
    ),
    P(
        "a comprehension that raises",
        """
L = [1, 0, 2]
def f():
    x = 5
    try:
        return [x for x in L if 1 / x]
    except ZeroDivisionError:
        return x, len(L)
""",
        ["L[1] = 1", "L.append(1)"],
        ["Z = 1"],
    ),
    P(
        "a class body with a comprehension and a closure",
        """
k = 2
def f():
    n = 3
    class C:
        a = k
        b = [i + n for i in range(a)]
        def m(self): return n + k
    return C.b, C().m()
""",
        ["k = 4"],
        ["Z = 1"],
    ),
    P(
        "more constants and names than a byte counts",
        "\n".join(f"v{i} = {i}" for i in range(300))
        + "\nL = [1, 2, 3]\ndef f():\n    s = 0\n    for i in L:\n        if i == 2: continue\n        try:\n"
        + "".join(f"            s += v{i} * {i + 1000}\n" for i in range(300))
        + "        except ValueError:\n            s = 0\n        finally:\n            s += v0\n"
        + "    return s, [v299 for _ in L]",
        ["v0 = 7", "v150 = 0", "v299 = 1", "L[1] = 5"],
        ["Z = 1"],
    ),
    P(
        "handlers in loops in handlers",
        """
L = [0, 1, 2, 3]
k = 2
def g(i, seen):
    try:
        try:
            if i == k: raise KeyError(i)
            if i == 1: return "left"
            return 1 / i
        except ZeroDivisionError:
            raise ValueError("zero")
        finally:
            seen.append(i)
    except (KeyError, ValueError) as e:
        for j in L:
            try:
                if j > k: break
            finally:
                if j == 0: continue
        return type(e).__name__, j
def f():
    seen = []
    return [g(i, seen) for i in L], seen
""",
        ["k = 1", "L[3] = 9", "ValueError = KeyError"],
        ["Z = 1"],
    ),
    P(
        "generators that delegate, are left and closed",
        """
K = 1
def inner(n, done):
    try:
        for i in range(n):
            got = yield i + K
            if got: return got
    finally:
        done.append(n)
    return K
def outer(done):
    a = yield from inner(3, done)
    b = yield from inner(2, done)
    return a, b
def f():
    done = []
    g = outer(done)
    out = [next(g), g.send(4)]
    g.close()
    return out, list(inner(2, done)), done
""",
        ["K = 2"],
        ["Z = 1"],
    ),
    P(
        "coroutines that await one another",
        """
K = 1
class A:
    def __await__(self):
        got = yield self
        return got + K
async def inner(): return await A()
async def outer():
    async with C() as c:
        return c + await inner()
class C:
    async def __aenter__(self): return K
    async def __aexit__(self, *e): return None
def f():
    c = outer()
    c.send(None)
    try: c.send(5)
    except StopIteration as e: return e.value
""",
        ["K = 2", "A.__await__ = lambda self: iter(())"],
        ["Z = 1"],
    ),
    P(
        "conditions on None",
        """
o = None
def f(): return 1 if o is None else o or 2, not o
""",
        ["o = 3", "o = 0"],
        ["Z = 1"],
    ),
    P(
        "the truth of what a comparison gives",
        """
class R: pass
class S: pass
r, L = R(), [1]
class A:
    def __gt__(self, other): return r
    def __lt__(self, other): return L
    def __eq__(self, other): return s
a, s = A(), S()
def f():
    out = []
    if a > 0: out.append(1)
    if a < 0: out.append(2)
    while a == 0:
        out.append(3)
        break
    return out, 1 if not a > 1 else 2, [i for i in (1, 2) if a < i]
""",
        [
            "R.__bool__ = lambda self: False",
            "R.__len__ = lambda self: 0",
            "L.clear()",
            "S.__len__ = lambda self: 0",
            "A.__gt__ = lambda self, o: 0",
            "L = []",
            "s = 0",
        ],
        ["R.x = 1", "r.x = 1", "Z = 1"],
    ),
    P(
        "the truth of items that are compared",
        """
class R: pass
r = R()
class A:
    def __eq__(self, other): return r
L, a = [A()], A()
def f(): return L == [a], a in L
""",
        ["R.__bool__ = lambda self: False", "R.__len__ = lambda self: 0", "L.clear()"],
        ["R.x = 1", "Z = 1"],
    ),
    P(
        "named arguments of functions, methods, classes and builtins",
        """
k = 2
class C:
    def __init__(self, a, *, b=0): self.a, self.b = a, b
    def m(self, x, *, y): return self.a * x + self.b * y
    def __call__(self, *a, **kw): return a, sorted(kw)
def g(a, b=1, *rest, c=3, **kw): return a, b, rest, c, kw
o = C(1, b=5)
def f():
    n = C(k, b=3)
    return n.m(2, y=k), o.m(k, y=1), g(1, c=k), g(*(1, 2), c=3, **{"d": k}), o(1, z=2), sorted([3, 1], reverse=k > 5), \
        dict(a=k), "{x}".format(x=k), max([1], default=k)
""",
        [
            "k = 7",
            "o.b = 6",
            "C.m = lambda s, x, y: 0",
            "g = lambda *a, **k: 0",
            "sorted = lambda *a, **k: a",
        ],
        ["Z = 1", "o.z = 3"],
    ),
    P(
        "conversions in f-strings",
        """
class C:
    def __repr__(self): return f"<{self.v}>"
    def __str__(self): return "s"
    def __format__(self, spec): return f"{spec}!"
c = C(); c.v = 1; w = 4; t = "é"
def f(): return f"{c!r:>{w}} {c!s} {c} {c:x} {t!a} {t} {w:03}"
""",
        [
            "c.v = 2",
            "w = 6",
            "t = 'ü'",
            "C.__repr__ = lambda s: 'r'",
            "C.__str__ = lambda s: 'u'",
            "C.__format__ = lambda s, f: 'v'",
        ],
        ["c.u = 1", "Z = 1"],
    ),
    P(
        "a module lacks an attribute",
        """
from importlib.util import module_from_spec, spec_from_file_location
m = module_from_spec(spec_from_file_location("m", "m.py"))
def f():
    try: return m.nothing
    except AttributeError as e: return type(e).__name__
""",
        ["m.nothing = 1", "m.__getattr__ = lambda n: 2"],
        ["Z = 1"],
        may_refuse=True,
    ),
    P(
        "a local of the thread",
        """
import threading
t = threading.local(); t.x = 1
def f(): return t.x, getattr(t, "y", 0)
""",
        ["t.x = 2", "t.y = 1", "del t.x"],
        ["t.z = 1"],
    ),
]

if sys.version_info >= (3, 12):
    PROGRAMS += [
        P(
            "nested quotes in an f-string",
            """
d = {"a": 1.5}
w = 6
def f(): return f"{d["a"]:{w}.2f} {f"{w!r}"}"
""",
            ["d['a'] = 2.5", "w = 7"],
            ["Z = 1"],
        ),
        P(
            "a dict whose keys are slices",
            """
d = {slice(1, 2): "a"}
def f(): return d[1:2]
""",
            ["d[slice(1, 2)] = 'b'"],
            ["Z = 1"],
            may_refuse=True,
        ),
    ]
