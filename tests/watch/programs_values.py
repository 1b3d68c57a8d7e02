"""Values: numbers that look equal, enums, dataclasses, named tuples, small classes of the standard library."""

from program import Program as P

PROGRAMS = [
    P(
        "the sign of zero",
        """
import math
z = 0.0
def f(): return math.copysign(1, z), z == 0, str(z), math.atan2(z, -1)
""",
        ["z = -0.0", "z = 0", "z = False"],
        ["z = 0.0"],
    ),
    P(
        "zeros inside tuples and as complex",
        """
import math
t = (0.0, 1 + 0j)
def f(): return math.copysign(1, t[0]), str(t[1]), repr(t)
""",
        ["t = (-0.0, 1 + 0j)", "t = (0.0, complex(1, -0.0))", "t = (0, 1)"],
        ["t = (0.0, 1 + 0j)"],
    ),
    P(
        "True is not 1",
        """
d = {"n": 1}
L = [True, 0]
def f(): return repr(d["n"]), repr(L), type(d["n"]).__name__
""",
        ["d['n'] = True", "L[0] = 1", "L[1] = False", "d['n'] = 1.0"],
        ["d['n'] = 1"],
    ),
    P(
        "not a number",
        """
import math
n = float("nan")
def f(): return n == n, math.isnan(n), n in [n], max(n, 1.0), min(1.0, n)
""",
        ["n = 1.0", "n = float('inf')"],
        ["Z = 1"],
    ),
    P(
        "large integers",
        """
n = 10**30
def f(): return n % 97, n.bit_length(), str(n)[-1], n == 10**30, hash(n) % 7, n // 3 & 0xFF
""",
        ["n = 10**30 + 1", "n = -n", "n = float(n)"],
        ["n = 10**30"],
    ),
    P(
        "subclasses of numbers",
        """
class I(int):
    def __add__(self, o): return "add"
    def __repr__(self): return "I"
class F(float):
    def __mul__(self, o): return "mul"
i, x = I(3), F(0.5)
def f(): return i + 1, 1 + i, i * 2, x * 2, repr(i), f"{i}", i == 3, max(i, 2) is i, isinstance(i, int)
""",
        [
            "i = 3",
            "I.__add__ = int.__add__",
            "i = I(4)",
            "x = 0.5",
            "I.__radd__ = lambda s, o: 'r'",
            "I.__eq__ = lambda s, o: False",
            "I.__format__ = lambda s, t: '?'",
            "I.__mul__ = lambda s, o: 0",
            "I.__gt__ = lambda s, o: False",
            "I.__lt__ = lambda s, o: False",
        ],
        ["I.z = 1"],
    ),
    P(
        "a subclass of str",
        """
class S(str):
    def upper(self): return "U"
    def __hash__(self): return str.__hash__(self)
    def __eq__(self, o): return str.__eq__(self, o)
s = S("a")
d = {"a": 1}
def f(): return s.upper(), s + "b", d[s], s == "a", f"{s}", "x".join([s, s]), s in "abc"
""",
        [
            "s = 'a'",
            "S.upper = str.upper",
            "d['a'] = 2",
            "S.__eq__ = lambda s, o: False",
            "S.__add__ = lambda s, o: 0",
            "S.__str__ = lambda s: 'q'",
        ],
        ["S.z = 1"],
    ),
    P(
        "a subclass of tuple with attributes",
        """
class T(tuple):
    scale = 2
    def total(self): return sum(self) * self.scale
t = T((1, 2))
def f(): return t.total(), t[0], len(t), t == (1, 2), [*t]
""",
        [
            "T.scale = 3",
            "t = T((1, 3))",
            "T.__getitem__ = lambda s, i: 9",
            "T.__len__ = lambda s: 9",
            "T.__iter__ = lambda s: iter('q')",
            "t.scale = 7",
        ],
        ["T.z = 1"],
    ),
    P(
        "numpy scalars and dtypes",
        """
import numpy as np
s = np.float32(1.5)
dt = np.dtype("int64")
def f(): return s * 2, type(s).__name__, float(s), s == 1.5, dt == np.int64
""",
        ["s = np.float64(1.5)", "s = np.float32(2.5)", "s = 1.5", "dt = np.dtype('int32')"],
        ["s = np.float32(1.5)"],
        may_refuse=True,
    ),
    P(
        "an enum and its members",
        """
import enum
class E(enum.Enum):
    A = 1
    B = 2
    @property
    def double(self): return self.value * 2
e = E.A
def f(): return e.name, e.value, e is E.A, E["B"].value, E(2).name, [m.name for m in E], e.double, len(E), e in (E.A, E.B), {E.A: 1}[e]
""",
        [
            "e = E.B",
            "E.double = property(lambda s: 0)",
            "E.B._value_ = 7",
            "E._member_map_['A'] = E.B",
        ],
        ["E.z = 1"],
    ),
    P(
        "IntEnum, StrEnum and Flag",
        """
import enum
class N(enum.IntEnum):
    ONE = 1
    TWO = 2
class S(enum.StrEnum):
    A = "a"
class F(enum.Flag):
    R = 1
    W = 2
n, s, flags = N.ONE, S.A, F.R
def f(): return n + 1, n < N.TWO, f"{s}", s == "a", bool(flags & F.W), (flags | F.W).value, F.R in flags, [10, 20][n]
""",
        ["n = N.TWO", "flags = F.R | F.W", "n = 1", "s = 'a'", "N.__add__ = lambda a, b: 0"],
        ["Z = 1"],
    ),
    P(
        "an enum with _missing_",
        """
import enum
class E(enum.Enum):
    A = 1
    @classmethod
    def _missing_(cls, v): return cls.A if v == other else None
other = 5
def f():
    try: return E(5).name
    except ValueError: return "no"
""",
        ["other = 6", "E._missing_ = classmethod(lambda c, v: None)"],
        ["Z = 1"],
    ),
    P(
        "dataclass with everything",
        """
import dataclasses
@dataclasses.dataclass(order=True)
class Item:
    size: int
    tags: list = dataclasses.field(default_factory=list, compare=False)
    unit: dataclasses.InitVar[int] = 2
    limit: int = 10
    def __post_init__(self, unit): self.size *= unit
a = Item(1, ["x"])
def f(): return a.size, Item(3) > a, Item(1) == a, dataclasses.astuple(a), [q.name for q in dataclasses.fields(a)], repr(Item(2))
""",
        [
            "a.size = 5",
            "a.tags.append('y')",
            "Item.__post_init__ = lambda s, u: None",
            "Item.__lt__ = lambda s, o: True; Item.__gt__ = lambda s, o: False",
            "a.limit = 3",
            "del Item.__dataclass_fields__['limit']",
        ],
        ["a.z = 1", "Item.z = 1"],
    ),
    P(
        "a frozen dataclass",
        """
import dataclasses
@dataclasses.dataclass(frozen=True)
class Config:
    width: int
    depth: int = 2
    inner: "Config" = None
c = Config(1, inner=Config(3))
table = {Config(1): "found"}
def f():
    try: c.width = 5
    except dataclasses.FrozenInstanceError: pass
    return c.width, c.inner.depth, dataclasses.replace(c, depth=9).depth, hash(Config(1)) == hash(Config(1)), Config(1) in table
""",
        [
            "c = Config(2)",
            "object.__setattr__(c, 'width', 7)",
            "object.__setattr__(c.inner, 'depth', 8)",
            "Config.depth = 5; c.__dict__.pop('depth')",
        ],
        ["object.__setattr__(c, 'other', 8)"],
        may_refuse=True,
    ),
    P(
        "a dataclass with slots and inheritance",
        """
import dataclasses
@dataclasses.dataclass(slots=True)
class A:
    x: int = 1
@dataclasses.dataclass(slots=True)
class B(A):
    y: int = 2
b = B()
def f(): return b.x + b.y, dataclasses.asdict(b), b == B(), isinstance(b, A)
""",
        ["b.x = 5", "b.y = 7", "B.__eq__ = lambda s, o: None", "b = A()"],
        ["Z = 1"],
    ),
    P(
        "a default of a dataclass changed on the class",
        """
import dataclasses
@dataclasses.dataclass
class Config:
    width: int = 3
def f(): return Config().width, Config.width
""",
        ["Config.width = 5", "Config.__init__.__defaults__ = (8,)"],
        ["Config.other = 5"],
    ),
    P(
        "named tuples",
        """
import collections, typing
P2 = collections.namedtuple("P2", "x y", defaults=[5])
class Q(typing.NamedTuple):
    a: int
    b: list = [1]
    @property
    def total(self): return self.a + sum(self.b)
p, q = P2(1), Q(2)
def f(): return p.x + p.y, p._replace(x=9).x, p._asdict(), q.total, q.b[0], P2._fields, P2(3).y, p == (1, 5)
""",
        [
            "p = P2(4)",
            "q.b.append(3)",
            "Q.total = 0",
            "P2.x = property(lambda s: 8)",
            "P2.__new__.__defaults__ = (6,)",
            "P2._fields = ()",
        ],
        ["P2.z = 1"],
    ),
    P(
        "SimpleNamespace compared and printed",
        """
import types
a = types.SimpleNamespace(x=1, y=[2])
def f(): return a.y[0], a == types.SimpleNamespace(x=1, y=[2]), repr(a), sorted(vars_of(a))
def vars_of(o): return o.__dict__
""",
        ["a.x = 3", "a.y.append(1)", "a.z = 4"],
        ["Z = 1"],
        may_refuse=True,
    ),
    P(
        "weak dictionaries",
        """
import weakref
class K: pass
k = K()
w = weakref.WeakKeyDictionary({k: 1})
v = weakref.WeakValueDictionary(a=k)
def f(): return w[k], k in w, v["a"] is k, "b" in v, len(w)
""",
        ["w[k] = 2", "v['b'] = k", "del w[k]"],
        ["Z = 1"],
        may_refuse=True,
    ),
    P(
        "fractions and statistics",
        """
import fractions, statistics
a = fractions.Fraction(1, 3)
L = [1, 2, 4]
def f(): return a + fractions.Fraction(1, 6), float(a), a.numerator, statistics.mean(L), statistics.median(L)
""",
        ["a = fractions.Fraction(2, 3)", "L.append(9)", "a._numerator = 5"],
        ["Z = 1"],
        may_refuse=True,
    ),
    P(
        "dates without the clock",
        """
import datetime
day = datetime.date(2020, 1, 31)
step = datetime.timedelta(days=1)
def f(): return (day + step).isoformat(), day.year, (day - datetime.date(2020, 1, 1)).days, day < datetime.date(2021, 1, 1), datetime.datetime(2020, 1, 1, tzinfo=datetime.timezone.utc).isoformat()
""",
        ["day = datetime.date(2019, 1, 31)", "step = datetime.timedelta(days=2)"],
        ["Z = 1"],
    ),
    P(
        "paths as text",
        """
import os.path, pathlib
base = "a/b.txt"
def f(): return os.path.join("x", base), os.path.splitext(base), os.path.basename(base), pathlib.PurePosixPath(base).suffix, str(pathlib.PurePosixPath("q") / base)
""",
        ["base = 'c/d.py'", "os.path.join = lambda *a: 0"],
        ["Z = 1"],
        may_refuse=True,
    ),
    P(
        "decimals",
        """
import decimal
a = decimal.Decimal("0.1")
def f(): return a + decimal.Decimal("0.2"), a < 1
""",
        ["a = decimal.Decimal('0.3')", "decimal.getcontext().prec = 1"],
        ["Z = 1"],
        may_refuse=True,
    ),
    P(
        "struct and integers as bytes",
        """
import struct
fmt = "<if"
values = [1, 0.5]
def f(): return struct.unpack(fmt, struct.pack(fmt, *values)), struct.calcsize(fmt)
""",
        ["values[0] = 2", "fmt = '<id'"],
        ["Z = 1"],
    ),
    P(
        "math over state",
        """
import math
v = [3.0, 4.0]
n = 6
def f(): return math.hypot(*v), math.prod(v), math.fsum(v), math.gcd(n, 4), math.comb(n, 2), math.dist(v, [0, 0]), math.isclose(v[0], 3), math.log(n), math.inf
""",
        ["v[0] = 6.0", "n = 8", "v.append(1)", "math = None"],
        ["Z = 1"],
    ),
    P(
        "round, divmod, pow and shifts",
        """
x, n, m = 2.675, 7, 3
def f(): return round(x, 2), divmod(-n, m), pow(n, m, 5), n << m, n >> 1, ~n, n ^ m, -n // m, -n % m, x.as_integer_ratio(), x.is_integer(), int("12", n)
""",
        ["x = 2.5", "n = 8", "m = 2"],
        ["k = 1"],
    ),
    P(
        "hash and identity of constants",
        """
a, b = (1, "x"), "key"
def f(): return hash(a) == hash((1, "x")), {a: 1}[(1, "x")], b is b, None is None
""",
        ["a = (2, 'x')", "a = [1]"],
        ["Z = 1"],
    ),
    P(
        "NotImplemented and Ellipsis",
        """
mode = ...
class C:
    def __eq__(self, o): return NotImplemented
    __hash__ = None
c = C()
def f(): return mode is ..., c == 1, c != 1, c == c, C.__hash__ is None
""",
        ["mode = None", "C.__eq__ = lambda s, o: True", "C.__ne__ = lambda s, o: 'ne'"],
        ["C.z = 1"],
    ),
    P(
        "an __eq__ that raises",
        """
class C:
    bad = True
    def __eq__(self, o):
        if self.bad: raise RuntimeError("eq")
        return True
    __hash__ = object.__hash__
c = C()
L = [C(), c]
def f():
    try: return c in L
    except RuntimeError as e: return str(e)
""",
        ["C.bad = False", "L[0] = c"],
        ["C.z = 1"],
    ),
    P(
        "a hash that raises",
        """
class C:
    ok = False
    def __hash__(self):
        if not self.ok: raise TypeError("hash")
        return 1
c = C()
def f():
    try: return len({c})
    except TypeError as e: return str(e)
""",
        ["C.ok = True", "c.ok = 1", "C.__hash__ = lambda s: 2"],
        ["C.z = 1"],
    ),
    P(
        "a truth value that raises",
        """
class C:
    def __bool__(self): return self.answer
c = C(); c.answer = 5
def f():
    try: return 1 if c else 2
    except TypeError as e: return "type"
""",
        ["c.answer = True", "c.answer = False", "C.__bool__ = lambda s: True"],
        ["c.z = 1"],
    ),
    P(
        "an environment variable",
        """
import os
os.environ["RSX"] = "1"
def f(): return os.environ["RSX"], "RSY" in os.environ, os.environ.get("RSZ", "none"), os.getenv("RSX")
""",
        [
            "os.environ['RSX'] = '2'",
            "os.environ['RSY'] = '1'",
            "os.environ['RSZ'] = '1'",
            "del os.environ['RSX']",
        ],
        ["os.environ['RSW'] = '2'; del os.environ['RSW']"],
    ),
    P(
        "context variables in a function",
        """
import contextvars
level = contextvars.ContextVar("level", default=1)
def inner(): return level.get() * 2
def f():
    token = level.set(5)
    try: return inner(), level.get(7)
    finally: level.reset(token)
""",
        ["inner = lambda: level.get()"],
        ["Z = 1"],
    ),
    P(
        "typing helpers",
        """
import typing
T = typing.TypeVar("T")
class Box(typing.Generic[T]):
    def __init__(self, v): self.v = v
class Conf(typing.TypedDict):
    a: int
b = Box[int](3)
def f(): return b.v, typing.cast(int, b.v), Conf(a=1)["a"], Box(2).v, typing.get_origin(list[int]) is list, typing.get_args(dict[str, int])
""",
        [
            "b.v = 4",
            "typing.cast = lambda t, v: 0",
            "Box.__init__ = lambda s, v: setattr(s, 'v', 0)",
        ],
        ["b.z = 4"],
        may_refuse=True,
    ),
    P(
        "collections.abc checks",
        """
import collections.abc as abc
x = [1]
class C:
    def __iter__(self): return iter(())
c = C()
def f(): return isinstance(x, abc.Sequence), isinstance(c, abc.Iterable), isinstance(x, (abc.Mapping, abc.Callable)), issubclass(C, abc.Sized)
""",
        ["x = {}", "x = len", "C.__iter__ = None", "abc.Mapping.register(C); x = c"],
        ["C.z = 1"],
    ),
    P(
        "copying by hand",
        """
import copy
class Config:
    def __init__(self): self.a = [1]; self.b = 2
    def __copy__(self):
        c = Config(); c.__dict__.update(self.__dict__)
        return c
c = Config()
def f():
    d = copy.copy(c); d.b = 5
    return d.a, d.b, copy.copy([1, c.b]), copy.deepcopy({"k": c.a})
""",
        ["c.a.append(2)", "c.b = 3", "Config.__copy__ = lambda s: s"],
        ["Z = 1"],
    ),
]
