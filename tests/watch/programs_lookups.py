"""Attribute look-ups: descriptors, metaclasses, changed classes, special methods that appear or go."""

from program import Program as P

PROGRAMS = [
    P(
        "__getattribute__ that appears",
        """
class C: pass
o = C(); o.x = 1; o.y = 2
def f(): return o.x
""",
        ["C.__getattribute__ = lambda s, n: 5"],
        ["o.y = 3", "C.z = 1"],
    ),
    P(
        "__getattribute__ that appears on a base",
        """
class B: pass
class C(B): x = 1
o = C()
def f(): return o.x
""",
        ["B.__getattribute__ = lambda s, n: 5"],
        ["B.z = 1"],
    ),
    P(
        "__getattribute__ that goes",
        """
class C:
    def __getattribute__(self, name): return name
o = C()
def f(): return o.x
""",
        ["del C.__getattribute__; C.x = 9"],
        ["C.z = 1"],
    ),
    P(
        "__getattr__ that goes",
        """
class C:
    def __getattr__(self, name): return name
o = C()
def f(): return getattr(o, "x", 3)
""",
        ["del C.__getattr__", "o.x = 1", "C.x = 1"],
        ["C.z = 1"],
    ),
    P(
        "__getattr__ that appears on a metaclass",
        """
class M(type): pass
class C(metaclass=M): pass
def f(): return getattr(C, "x", 3)
""",
        ["M.__getattr__ = lambda c, n: 4", "C.x = 1", "M.x = 1"],
        ["C.z = 1"],
    ),
    P(
        "__getattribute__ that appears on a metaclass",
        """
class M(type): pass
class C(metaclass=M): x = 3
def f(): return C.x
""",
        ["M.__getattribute__ = lambda c, n: 4"],
        ["C.z = 1", "M.z = 1"],
    ),
    P(
        "another metaclass",
        """
class M(type): pass
class N(M): x = property(lambda c: 7)
class C(metaclass=M): x = 3
def f(): return C.x
""",
        ["C.__class__ = N", "M.x = property(lambda c: 8)"],
        ["N.z = 1"],
    ),
    P(
        "a module of another class",
        """
import types
m = types.ModuleType("m"); m.x = 1
class Sub(types.ModuleType):
    x = property(lambda s: 5)
def f(): return m.x
""",
        ["m.__class__ = Sub", "m.x = 2"],
        ["m.y = 2", "Sub.y = 1"],
    ),
    P(
        "isinstance after other bases",
        """
class A: pass
class B: pass
class C(A): pass
o = C()
def f(): return isinstance(o, A), isinstance(o, (B, int))
""",
        ["C.__bases__ = (B,)"],
        ["A.z = 1", "C.z = 1"],
    ),
    P(
        "issubclass after other bases",
        """
class A: pass
class B: pass
class C(A): pass
def f(): return issubclass(C, A), issubclass(C, (B, int))
""",
        ["C.__bases__ = (B,)"],
        ["A.z = 1"],
    ),
    P(
        "isinstance after other bases of a base",
        """
class A: pass
class B: pass
class C(A): pass
class D(C): pass
o = D()
def f(): return isinstance(o, A)
""",
        ["C.__bases__ = (B,)"],
        ["D.z = 1"],
    ),
    P(
        "super after other bases",
        """
class A:
    def m(self): return 1
class B:
    def m(self): return 2
class C(A):
    def m(self): return super().m()
o = C()
def f(): return o.m()
""",
        ["C.__bases__ = (B,)", "A.m = lambda s: 3"],
        ["B.m = lambda s: 4"],
    ),
    P(
        "except after other bases",
        """
class A(Exception): pass
class B(Exception): pass
class E(A): pass
def f():
    try: raise E()
    except A: return 1
    except B: return 2
""",
        ["E.__bases__ = (B,)"],
        ["E.z = 1"],
    ),
    P(
        "match of a class after other bases",
        """
class A: pass
class B: pass
class C(A): pass
o = C()
def f():
    match o:
        case A(): return 1
        case B(): return 2
""",
        ["C.__bases__ = (B,)", "o.__class__ = B"],
        ["o.z = 1"],
    ),
    P(
        "a class is registered as a sequence or a mapping",
        """
import collections.abc as abc
class C:
    def __len__(self): return 1
    def __getitem__(self, i): return 5
c = C()
def f():
    match c:
        case [x]: return x
        case {"a": y}: return y
        case _: return None
""",
        ["abc.Sequence.register(C)", "abc.Mapping.register(C)"],
        ["C.z = 1"],
    ),
    P(
        "a class is given to another object",
        """
class A: x = 1
class B: x = 2
o = A()
def f(): return o.x
""",
        ["o.__class__ = B", "A.x = 3"],
        ["B.x = 4"],
    ),
    P(
        "a descriptor becomes a data descriptor",
        """
class D:
    def __get__(self, o, t): return 9
class C: x = D()
o = C(); o.__dict__["x"] = 1
def f(): return o.x
""",
        ["D.__set__ = lambda s, o, v: None", "o.__dict__['x'] = 2", "del o.__dict__['x']"],
        ["D.z = 1"],
    ),
    P(
        "a class attribute becomes a descriptor",
        """
class D: pass
class C: x = D()
o = C()
def f(): return o.x is C.__dict__["x"]
""",
        ["D.__get__ = lambda s, o, t: 9", "o.x = 1"],
        ["D.z = 1"],
    ),
    P(
        "a descriptor's own state",
        """
class D:
    def __init__(self): self.k = 1
    def __set_name__(self, owner, name): self.name = "_" + name
    def __get__(self, o, t): return getattr(o, self.name) * self.k
class C:
    x = D()
    def __init__(self): self._x = 3
o = C()
def f(): return o.x
""",
        [
            "C.__dict__['x'].k = 2",
            "o._x = 4",
            "C.__dict__['x'].name = '__doc__'",
            "D.__get__ = lambda *a: 0",
        ],
        ["o._y = 1", "C.__dict__['x'].m = 2"],
    ),
    P(
        "a property shadows an attribute",
        """
class C: pass
o = C(); o.x = 1
def f(): return o.x
""",
        ["C.x = property(lambda s: 2)"],
        ["C.y = property(lambda s: 2)"],
    ),
    P(
        "property replaced on the class",
        """
class C:
    def __init__(self): self.v = 1
    @property
    def p(self): return self.v
o = C()
def f(): return o.p
""",
        ["C.p = property(lambda s: 5)", "C.p = 6", "o.v = 2"],
        ["o.w = 2", "C.q = 1"],
    ),
    P(
        "property of a base, overridden later",
        """
class B:
    @property
    def p(self): return 1
class C(B): pass
o = C()
def f(): return o.p
""",
        ["C.p = property(lambda s: 2)", "B.p = 3"],
        ["C.q = 2"],
    ),
    P(
        "a property that raises",
        """
class C:
    ok = False
    @property
    def p(self):
        if not self.ok: raise AttributeError("no")
        return 1
    def __getattr__(self, name): return name
o = C()
def f(): return o.p, hasattr(o, "p")
""",
        ["o.ok = True", "C.ok = 1", "C.__getattr__ = lambda s, n: 0"],
        ["C.z = 1"],
    ),
    P(
        "classmethod and its class",
        """
class B:
    k = 1
    @classmethod
    def make(cls): return cls.k, cls.__name__
class C(B): pass
def f(): return C.make()
""",
        ["B.k = 2", "C.k = 3", "C.make = staticmethod(lambda: 0)", "C.__name__ = 'X'"],
        ["B.z = 1"],
    ),
    P(
        "__slots__ deleted and set",
        """
class C: __slots__ = ("x", "y")
o = C(); o.x = 1; o.y = 2
def f(): return getattr(o, "x", "gone")
""",
        ["del o.x", "o.x = 3"],
        ["o.y = 5"],
    ),
    P(
        "a slot of a base with a dict",
        """
class B: __slots__ = ("x",)
class C(B): pass
o = C(); o.x = 1; o.y = 2
def f(): return o.x + o.y
""",
        ["o.x = 2", "o.y = 3", "C.x = 4"],
        ["o.z = 5"],
    ),
    P(
        "an empty slot",
        """
class C: __slots__ = ("x",)
o = C()
def f(): return hasattr(o, "x")
""",
        ["o.x = 1"],
        ["Z = 1"],
    ),
    P(
        "__call__ that changes",
        """
class C:
    def __call__(self, n): return n + self.k
    k = 1
o = C()
def f(): return o(2)
""",
        ["C.__call__ = lambda s, n: 0", "o.k = 5", "C.k = 7"],
        ["o.__call__ = lambda n: 9"],
    ),
    P(
        "__call__ of a metaclass that appears",
        """
class M(type): pass
class C(metaclass=M): pass
def f(): return type(C()).__name__
""",
        ["M.__call__ = lambda c: 5", "C.__new__ = lambda c: 6"],
        ["M.z = 1"],
    ),
    P(
        "__init__ that appears",
        """
class C: x = 1
def f(): return C().x
""",
        ["def init(s): s.x = 2\nC.__init__ = init", "C.x = 3"],
        ["C.z = 1"],
    ),
    P(
        "__new__ that gives another class",
        """
class A: x = 1
class B:
    def __new__(cls): return A()
def f(): return B().x
""",
        ["A.x = 2", "del B.__new__; B.x = 7"],
        ["B.z = 1"],
    ),
    P(
        "__init_subclass__ and class bodies",
        """
K = 1
class B:
    def __init_subclass__(cls, **kw): cls.got = kw
def f():
    class C(B, tag=K): body = K + 1
    return C.got, C.body
""",
        ["K = 2", "def g(cls, **kw): cls.got = 0\nB.__init_subclass__ = classmethod(g)"],
        ["Z = 1"],
    ),
    P(
        "__class_getitem__",
        """
class C:
    def __class_getitem__(cls, k): return (cls.base, k)
    base = 1
def f(): return C[3]
""",
        ["C.base = 2", "C.__class_getitem__ = lambda k: 0"],
        ["C.z = 1"],
    ),
    P(
        "items of a class by its metaclass",
        """
class M(type):
    def __getitem__(cls, k): return cls.table[k]
    def __len__(cls): return len(cls.table)
    def __iter__(cls): return iter(cls.table)
class C(metaclass=M): table = {"a": 1, "b": 2}
def f(): return C["a"], len(C), list(C), "b" in C
""",
        [
            "C.table['a'] = 3",
            "C.table['c'] = 1",
            "M.__contains__ = lambda c, k: False",
            "M.__len__ = lambda c: 9",
        ],
        ["C.z = 1"],
    ),
    P(
        "__iter__ that appears over __getitem__",
        """
class C:
    def __getitem__(self, i):
        if i > 2: raise IndexError
        return i
o = C()
def f(): return list(o), [x for x in o], 1 in o
""",
        ["C.__iter__ = lambda s: iter([7])", "C.__getitem__ = lambda s, i: [][i]"],
        ["C.z = 1"],
    ),
    P(
        "__contains__ that appears over __iter__",
        """
class C:
    def __iter__(self): return iter([1, 2])
o = C()
def f(): return 2 in o
""",
        ["C.__contains__ = lambda s, k: False", "C.__iter__ = lambda s: iter([])"],
        ["C.z = 1"],
    ),
    P(
        "__reversed__ that appears",
        """
class C:
    def __len__(self): return 2
    def __getitem__(self, i): return i
o = C()
def f(): return list(reversed(o))
""",
        ["C.__reversed__ = lambda s: iter([7])", "C.__len__ = lambda s: 3"],
        ["C.z = 1"],
    ),
    P(
        "__missing__ that appears",
        """
class D(dict): pass
d = D(a=1)
def f():
    try: return d["q"]
    except KeyError: return "none"
""",
        ["D.__missing__ = lambda s, k: 4", "d['q'] = 1"],
        ["d['r'] = 2"],
    ),
    P(
        "rounding methods that appear",
        """
import math
class C:
    def __float__(self): return 2.5
o = C()
def f(): return math.ceil(o), math.floor(o)
""",
        ["C.__ceil__ = lambda s: 9", "C.__floor__ = lambda s: 9", "C.__float__ = lambda s: 3.5"],
        ["C.z = 1"],
    ),
    P(
        "operators that appear after a failure",
        """
class C: pass
o = C()
def attempt(g):
    try: return g()
    except TypeError: return "no"
def f(): return attempt(lambda: -o), attempt(lambda: divmod(o, 2)), attempt(lambda: o @ o), attempt(lambda: pow(o, 2))
""",
        [
            "C.__neg__ = lambda s: 1",
            "C.__divmod__ = lambda s, p: 2",
            "C.__matmul__ = lambda s, p: 3",
            "C.__pow__ = lambda s, p: 4",
        ],
        ["C.z = 1"],
    ),
    P(
        "comparisons that appear",
        """
class C:
    def __init__(self, v): self.v = v
a, b = C(1), C(1)
def f(): return a == b, a != b, (a, 1) == (b, 1), [a] == [b]
""",
        ["C.__eq__ = lambda s, o: s.v == o.v"],
        ["C.z = 1"],
    ),
    P(
        "equality inside sets and dicts",
        """
class C: pass
a, b = C(), C()
def f(): return {a} == {b}, {"k": a} == {"k": b}, frozenset([a]) == frozenset([b])
""",
        ["C.__eq__ = lambda s, o: True; C.__hash__ = lambda s: 1"],
        ["C.z = 1"],
    ),
    P(
        "hash that appears",
        """
class C: pass
a, b = C(), C()
def f(): return len({a, b})
""",
        ["C.__hash__ = lambda s: 1; C.__eq__ = lambda s, o: True"],
        ["C.z = 1"],
    ),
    P(
        "reflected operators of a subclass",
        """
class A:
    def __add__(self, o): return "A"
class B(A): pass
a, b = A(), B()
def f(): return a + b
""",
        ["B.__radd__ = lambda s, o: 'B'", "A.__radd__ = lambda s, o: 'R'"],
        ["B.z = 1"],
    ),
    P(
        "__str__ that appears in old formatting",
        """
class C:
    def __repr__(self): return "repr"
o = C()
def f(): return "%s" % o, "%s" % (o,), f"{o}", "{}".format(o), str(o)
""",
        ["C.__str__ = lambda s: 'str'", "C.__repr__ = lambda s: 'other'"],
        ["C.z = 1"],
    ),
    P(
        "__format__ that appears",
        """
class C:
    def __str__(self): return "s"
o = C()
def f(): return f"{o:}", format(o)
""",
        ["C.__format__ = lambda s, spec: 'f'"],
        ["C.z = 1"],
    ),
    P(
        "__index__ that appears",
        """
class I(int): pass
i = I(1)
L = [10, 20, 30]
def f(): return L[i], list(range(i)), "abc"[i]
""",
        ["L[1] = 5", "i = I(2)"],
        ["Z = 1"],
    ),
    P(
        "__instancecheck__ that appears",
        """
class M(type): pass
class A(metaclass=M): pass
def f(): return isinstance(1, A), issubclass(int, A)
""",
        ["M.__instancecheck__ = lambda c, o: True", "M.__subclasscheck__ = lambda c, o: True"],
        ["M.z = 1"],
    ),
    P(
        "__length_hint__ and __len__ of an iterable",
        """
class C:
    def __iter__(self): return iter((1, 2))
o = C()
def f(): return list(o), tuple(o), sum(o), max(o)
""",
        ["C.__iter__ = lambda s: iter((3,))"],
        ["C.z = 1"],
    ),
    P(
        "keys of a mapping given as keywords",
        """
class Map:
    def keys(self): return ["a"]
    def __getitem__(self, k): return 5
m = Map()
def g(a=1, b=2): return a, b
def f(): return g(**m), {**m}, dict(m)
""",
        ["Map.keys = lambda s: ['b']", "Map.__getitem__ = lambda s, k: 6"],
        ["Map.z = 1"],
    ),
    P(
        "attributes set by name",
        """
name = "x"
class C: x = 1; y = 2
def f():
    o = C()
    setattr(o, name, 5)
    return o.x, o.y
""",
        ["name = 'y'", "C.y = 3", "def s(s, n, v): pass\nC.__setattr__ = s"],
        ["C.z = 1"],
    ),
    P(
        "__dict__ of an instance, and its replacement",
        """
class C: pass
o = C(); o.x = 1
def f(): return sorted(o.__dict__.items()), len(o.__dict__)
""",
        ["o.y = 2", "o.__dict__ = {'x': 3}", "del o.x"],
        ["C.y = 2"],
    ),
    P(
        "__mro__ and __bases__",
        """
class A: pass
class B: pass
class C(A): pass
def f(): return [t.__name__ for t in C.__mro__], C.__bases__ == (A,), C.__base__ is A
""",
        ["C.__bases__ = (B,)", "A.__name__ = 'Q'"],
        ["A.z = 1"],
    ),
    P(
        "an abstract class",
        """
import abc
class A(abc.ABC):
    @abc.abstractmethod
    def m(self): ...
class C(A):
    def m(self): return 1
def f(): return C().m(), isinstance(C(), A)
""",
        ["C.m = lambda s: 2"],
        ["C.z = 1"],
    ),
    P(
        "a runtime protocol",
        """
import typing
@typing.runtime_checkable
class Runs(typing.Protocol):
    def run(self): ...
class C: pass
o = C()
def f(): return isinstance(o, Runs)
""",
        ["C.run = lambda s: 1", "o.run = lambda: 1"],
        ["Z = 1"],
        may_refuse=True,
    ),
    P(
        "a nested class",
        """
class Outer:
    class Config:
        width = 3
        @staticmethod
        def double(n): return n * 2
def f(): return Outer.Config.double(Outer.Config.width)
""",
        [
            "Outer.Config.width = 4",
            "Outer.Config.double = staticmethod(lambda n: n)",
            "Outer.Config = type('X', (), dict(width=1, double=int))",
        ],
        ["Outer.other = 1", "Outer.Config.other = 1"],
    ),
    P(
        "delegation through __getattr__",
        """
class Inner: pass
class Proxy:
    def __init__(self, inner): self.__dict__["inner"] = inner
    def __getattr__(self, name): return getattr(self.inner, name)
inner = Inner(); inner.x = 1; inner.y = 2
p = Proxy(inner)
def f(): return p.x
""",
        [
            "inner.x = 3",
            "p.__dict__['x'] = 4",
            "Inner.x = property(lambda s: 5)",
            "p.__dict__['inner'] = Proxy(p)",
        ],
        ["inner.y = 3"],
    ),
    P(
        "a method bound late",
        """
class C:
    def m(self): return self.k
o = C(); o.k = 1
q = C(); q.k = 2
bound = o.m
def f(): return bound(), bound.__self__ is o, bound.__func__ is C.m
""",
        ["o.k = 3", "bound = q.m", "C.m = lambda s: 1"],
        ["q.k = 4"],
    ),
    P(
        "total_ordering",
        """
import functools
@functools.total_ordering
class V:
    def __init__(self, v): self.v = v
    def __eq__(self, o): return self.v == o.v
    def __lt__(self, o): return self.v < o.v
a, b = V(1), V(2)
def f(): return a >= b, a <= b, max(a, b) is b
""",
        ["a.v = 5", "V.__lt__ = lambda s, o: False", "b.v = 1"],
        ["a.w = 5"],
    ),
]
