"""Programs written to mislead a watcher: reads behind C code, nesting, caches, order and late changes."""

from program import Program

PROGRAMS = [
    Program(
        "sorted nested lists",
        """
L = [[3], [1]]

def f():
    return [x is L[0] for x in sorted(L)]
""",
        consulted=["L[0][0] = 0"],
        unrelated=["Z = 1"],
    ),
    Program(
        "in a list of lists",
        """
L = [[3], [1]]

def f():
    return [3] in L
""",
        consulted=["L[0][0] = 0", "L[0].append(1)"],
    ),
    Program(
        "chain.from_iterable",
        """
import itertools
L = [[3], [1]]

def f():
    return list(itertools.chain.from_iterable(L))
""",
        consulted=["L[1].append(2)", "L[0][0] = 4"],
    ),
    Program(
        "map(len, ...)",
        """
L = [[3], [1]]

def f():
    return list(map(len, L))
""",
        consulted=["L[1].append(2)"],
    ),
    Program(
        "key=attrgetter",
        """
import operator

class C:
    pass
a, b = C(), C()
a.x, b.x = 1, 2

def f():
    return max([a, b], key=operator.attrgetter("x")) is a
""",
        consulted=["a.x = 5"],
        may_refuse=True,
    ),
    Program(
        "map(getattr, ...)",
        """
class C:
    pass
a = C()
a.x = 1

def f():
    return list(map(getattr, [a], ["x"]))
""",
        consulted=["a.x = 5"],
        may_refuse=True,
    ),
    Program(
        "OrderedDict order",
        """
import collections
d = collections.OrderedDict(a=1, b=2)

def f():
    return list(d)
""",
        consulted=["d.move_to_end('a')"],
        unrelated=["d['a'] = 1"],
    ),
    Program(
        "dict order",
        """
d = dict(a=1, b=2)

def f():
    return list(d)
""",
        consulted=["d['a'] = d.pop('a')"],
    ),
    Program(
        "set order",
        """
s = {1, 2, 3}

def f():
    return [x + 1 for x in s]
""",
        consulted=["s.discard(2)", "s.add(9)"],
    ),
    Program(
        "a list changed while it is read",
        """
L = [1, 2, 3]

def f():
    q = list(L)
    q[0] = L[2]
    return q
""",
        consulted=["L[2] = 9", "L[0] = 9"],
    ),
    Program(
        "relative import",
        """
__package__ = "os"
__name__ = "os.inner"

def f():
    from . import path
    return path.sep
""",
        consulted=["__package__ = 'collections'"],
        may_refuse=True,
    ),
    Program(
        "an __import__ of its own",
        """
import builtins

def f():
    import math
    return math.pi
""",
        consulted=["__builtins__ = dict(vars(builtins), __import__=None)"],
        may_refuse=True,
    ),
    Program(
        "__class__ property",
        """
class A:
    pass

class B:
    kind = A

    @property
    def __class__(self):
        return self.kind
o = B()

def f():
    return isinstance(o, A)
""",
        consulted=["B.kind = int", "o.kind = int"],
    ),
    Program(
        "instancecheck",
        """
class Meta(type):
    def __instancecheck__(cls, o):
        return o in cls.members

class A(metaclass=Meta):
    members = [1]

def f():
    return isinstance(1, A), isinstance(2, A)
""",
        consulted=["A.members.append(2)", "Meta.__instancecheck__ = lambda c, o: False"],
    ),
    Program(
        "a method that appears",
        """
class V:
    def __init__(self):
        self.v = 1

    def __radd__(self, other):
        return 10
v = V()

def f():
    return v + v if hasattr(v, "no") else 1 + v
""",
        consulted=["V.__radd__ = lambda s, o: 0", "v.no = 1"],
        unrelated=["v.v = 5"],
    ),
    Program(
        "in-place operator that appears",
        """
class V:
    def __init__(self, v):
        self.v = v

    def __add__(self, other):
        return V(self.v + other)
v = V(1)

def f():
    w = v
    w += 1
    return w.v
""",
        consulted=["V.__iadd__ = lambda s, o: V(0)", "v.v = 7"],
    ),
    Program(
        "truth by __len__",
        """
class V:
    n = 1

    def __len__(self):
        return self.n
v = V()

def f():
    return 1 if v else 2
""",
        consulted=["v.n = 0", "V.__bool__ = lambda s: False"],
    ),
    Program(
        "keys of two types",
        """
d = {1: "a", "1": "b", (1, 2): "c", None: "d"}

def f():
    return d[1], d["1"], d[1, 2], d[None], d.get(True)
""",
        consulted=["d[1] = 0", "d['1'] = 0", "d[1, 2] = 0", "d[None] = 0"],
        unrelated=["d[2] = 0", "d[1] = 'a'"],
    ),
    Program(
        "computed keys",
        """
d = {"ab": 1, "ac": 2}
part = "b"

def f():
    return d["a" + part]
""",
        consulted=["d['ab'] = 3", "part = 'c'"],
        unrelated=["d['ac'] = 5"],
    ),
    Program(
        "chained properties over containers",
        """
class Layer:
    def __init__(self, n):
        self.n = n

    @property
    def width(self):
        return self.n * 2

class Net:
    def __init__(self):
        self.layers = {"a": [Layer(1), Layer(2)]}

    @property
    def total(self):
        return sum(l.width for group in self.layers.values() for l in group)
net = Net()

def f():
    return net.total
""",
        consulted=[
            "net.layers['a'][1].n = 5",
            "net.layers['b'] = []",
            "net.layers['a'].pop()",
            "Layer.width = 3",
        ],
        unrelated=["net.other = 1", "net.layers['a'][0].m = 1"],
    ),
    Program(
        "a class changes its base",
        """
class A:
    x = 1

class B:
    x = 2

class C(A):
    pass
o = C()

def f():
    return o.x
""",
        consulted=["C.__bases__ = (B,)", "A.x = 3"],
        unrelated=["B.x = 4"],
    ),
    Program(
        "method on a class found late",
        """
class A:
    def m(self):
        return 1

class B(A):
    pass
o = B()

def f():
    return o.m()
""",
        consulted=["B.m = lambda s: 2", "A.m = lambda s: 2", "o.m = lambda: 3"],
    ),
    Program(
        "generator expression over an attribute",
        """
class C:
    pass
c = C()
c.items = (1, 2)

def f():
    return tuple(x for x in c.items)
""",
        consulted=["c.items = (1, 3)", "del c.items"],
        unrelated=["c.items = (1, 2)", "c.other = 1"],
    ),
    Program(
        "partial of a partial",
        """
import functools

def g(a, b, c=0):
    return a, b, c
p = functools.partial(functools.partial(g, 1), c=K) if "K" in globals() else functools.partial(
    functools.partial(g, 1), c=5)

def f():
    return p(2)
""",
        consulted=["g.__defaults__ = (1,); p.keywords['c'] = 6", "p = functools.partial(g, 3)"],
    ),
    Program(
        "closure over a class",
        """
def make():
    n = 1

    class C:
        def get(self):
            return n
    def set(v):
        nonlocal n
        n = v
    return C(), set
o, set_n = make()

def f():
    return o.get()
""",
        consulted=["set_n(2)"],
        unrelated=["set_n(1)"],
    ),
    Program(
        "starred call with defaults",
        """
args_ = [1, 2]
options = {"c": 3}

def g(a, b, *, c, d=4):
    return a, b, c, d

def f():
    return g(*args_, **options)
""",
        consulted=["args_[0] = 5", "options['d'] = 1", "g.__kwdefaults__['d'] = 9"],
    ),
    Program(
        "try, finally and context",
        """
import contextlib
level = 1

@contextlib.contextmanager
def scope():
    yield level

def f():
    with scope() as s, contextlib.suppress(KeyError):
        return s
""",
        consulted=["level = 2"],
        unrelated=["Z = 1"],
    ),
    Program(
        "weak reference",
        """
import weakref

class C:
    pass
o = C()
o.x = 1
other = C()
other.x = 2
r = weakref.ref(o)

def f():
    return r().x
""",
        consulted=["o.x = 2", "r = weakref.ref(other)"],
        unrelated=["o.y = 1"],
    ),
    Program(
        "context variable",
        """
import contextvars
c = contextvars.ContextVar("c", default=1)

def f():
    return c.get()
""",
        consulted=["c.set(2)"],
        unrelated=["Z = 1"],
    ),
    Program(
        "abstract base class",
        """
import collections.abc as abc

class C:
    pass

class D:
    def __len__(self):
        return 1
o = C()

def f():
    return isinstance(o, abc.Sized)
""",
        consulted=["o = D()", "abc.Sized.register(C)"],
        unrelated=["Z = 1"],
    ),
    Program(
        "dataclass with a factory and replace",
        """
import dataclasses

@dataclasses.dataclass
class Config:
    sizes: list = dataclasses.field(default_factory=lambda: [1, 2])
    name: str = "a"
config = Config()

def f():
    c = dataclasses.replace(config, name="b")
    return sum(c.sizes), c.name, Config().name
""",
        consulted=["config.sizes.append(3)", "config.sizes = []"],
        unrelated=["config.other = 3"],
    ),
    Program(
        "int and bool and float",
        """
n = 1

def f():
    return n
""",
        consulted=["n = True", "n = 1.0"],
        unrelated=["n = 1"],
    ),
    Program(
        "torch.tensor of nested lists",
        """
import torch
L = [[1, 2], [3, 4]]

def f():
    return torch.tensor(L)
""",
        consulted=["L[0][0] = 5"],
        unrelated=["Z = 1"],
    ),
    Program(
        "the name of a class",
        """
class C:
    pass
o = C()

def f():
    return type(o).__name__, C.__bases__, C.__module__
""",
        consulted=["C.__name__ = 'D'", "C.__module__ = 'm'"],
        unrelated=["C.x = 1"],
    ),
    Program(
        "an attribute of a bound method",
        """
class C:
    def m(self):
        return 1
    m.tag = 1
o = C()

def f():
    return o.m.tag, o.m.__doc__
""",
        consulted=["C.m.tag = 2", "C.m.__doc__ = 'x'"],
    ),
    Program(
        "equality that appears",
        """
class C:
    pass
L = [C()]
o = C()

def f():
    return o in L, L.index(L[0])
""",
        consulted=["C.__eq__ = lambda s, o: True"],
        unrelated=["C.x = 1"],
    ),
    Program(
        "sorting new lists of older lists",
        """
a, b = [2], [1]

def f():
    L = [a, b]
    L.sort()
    return L[0] is a
""",
        consulted=["a[0] = 0"],
    ),
    Program(
        "deepcopy of plain data",
        """
import copy
d = {"a": [1, (2, 3)], "b": "x"}

def f():
    return copy.deepcopy(d)
""",
        consulted=["d['a'].append(3)", "d['b'] = 'y'", "d['c'] = 1"],
        unrelated=["Z = 1"],
    ),
    Program(
        "asdict",
        """
import dataclasses

@dataclasses.dataclass
class Config:
    sizes: list
    name: str = "a"
config = Config([1, 2])

def f():
    return dataclasses.asdict(config)
""",
        consulted=["config.sizes.append(3)", "config.name = 'b'"],
        unrelated=["config.other = 1"],
    ),
    Program(
        "the dict of a class",
        """
class C:
    x = 1
    y = 2

def f():
    return C.__dict__["x"], C.__dict__.get("z"), "q" in C.__dict__
""",
        consulted=["C.x = 2", "C.z = 1", "C.q = 1"],
        unrelated=["C.y = 3"],
    ),
    Program(
        "regular expression",
        """
import re
pattern = "a+"
text = "aab"

def f():
    return re.match(pattern, text).group(0), re.sub("b", "c", text)
""",
        consulted=["pattern = 'a'", "text = 'xab'"],
        unrelated=["Z = 1"],
    ),
]
