"""Programs that read Python state in every ordinary way, with changes that must and must not matter."""

from program import Program

PROGRAMS = [
    Program(
        "global const",
        """
K = 3

def f():
    return K + 1
""",
        consulted=[
            "K = 4",
            "del K",
        ],
        unrelated=[
            "Z = 1",
        ],
    ),
    Program(
        "builtin shadow",
        """
def f():
    return len('ab')
""",
        consulted=[
            "len = lambda x: 9",
        ],
        unrelated=[
            "Z = 1",
        ],
    ),
    Program(
        "dict d[k]",
        """
d = {'a': 1, 'b': 2}

def f():
    return d['a']
""",
        consulted=[
            "d['a'] = 5",
            "d = {'a': 7}",
            "del d['a']",
        ],
        unrelated=[
            "d['b'] = 9",
            "d['z'] = 0",
            "d['a'] = 1",
        ],
    ),
    Program(
        "dict.get hit/miss",
        """
d = {'a': 1}

def f():
    return (d.get('a'), d.get('q', 7))
""",
        consulted=[
            "d['a'] = 5",
            "d['q'] = 1",
            "d.clear()",
        ],
        unrelated=[
            "d['zz'] = 1",
        ],
    ),
    Program(
        "k in dict",
        """
d = {'a': 1}

def f():
    return 1 if 'q' in d else 2
""",
        consulted=[
            "d['q'] = 1",
        ],
        unrelated=[
            "d['r'] = 1",
        ],
    ),
    Program(
        "dict iteration .items()",
        """
d = {'a': 1, 'b': 2}

def f():
    s = 0
    for k, v in d.items():
        s += v
    return s
""",
        consulted=[
            "d['c'] = 1",
            "d['a'] = 9",
            "del d['b']",
        ],
        unrelated=[
            "d['a'] = 1",
        ],
    ),
    Program(
        "closure cell",
        """
def mk():
    n = 5

    def f():
        return n

    def setn(v):
        nonlocal n
        n = v
    return (f, setn)
f, setn = mk()
""",
        consulted=[
            "setn(6)",
        ],
        unrelated=[
            "setn(5)",
            "Z = 1",
        ],
    ),
    Program(
        "property",
        """
class C:

    def __init__(s):
        s.y = 2
        s.z = 1

    @property
    def p(s):
        return s.y * 2
o = C()

def f():
    return o.p
""",
        consulted=[
            "o.y = 3",
            "C.p = 5",
            "o = C()\no.y = 9",
        ],
        unrelated=[
            "o.z = 7",
            "C.zz = 1",
        ],
    ),
    Program(
        "python descriptor",
        """
class D:

    def __init__(s, v):
        s.v = v

    def __get__(s, o, t):
        return s.v + o.k

class C:
    a = D(3)

    def __init__(s):
        s.k = 1
        s.z = 0
o = C()

def f():
    return o.a
""",
        consulted=[
            "C.__dict__['a'].v = 9",
            "o.k = 2",
            "C.a = 1",
            "o.__dict__['a'] = 5",
        ],
        unrelated=[
            "o.z = 7",
        ],
    ),
    Program(
        "dataclass attr",
        """
import dataclasses

@dataclasses.dataclass
class C:
    x: int = 1
    y: float = 2.0
o = C()

def f():
    return o.x + o.y
""",
        consulted=[
            "o.x = 2",
            "o.y = 3.0",
            "C.x = property(lambda s: 4)",
        ],
        unrelated=[
            "o.x = 1",
            "o.w = 1",
            "C.q = 1",
        ],
    ),
    Program(
        "frozen slots dataclass",
        """
import dataclasses

@dataclasses.dataclass(frozen=True, slots=True)
class C:
    x: int = 1
o = C()

def f():
    return o.x
""",
        consulted=[
            "object.__setattr__(o, 'x', 4)",
        ],
        unrelated=[
            "Z = 1",
        ],
    ),
    Program(
        "class attr + shadow",
        """
class B:
    c = 5

class C(B):
    pass
o = C()

def f():
    return o.c
""",
        consulted=[
            "B.c = 6",
            "C.c = 7",
            "o.c = 8",
        ],
        unrelated=[
            "B.d = 1",
            "o.d = 1",
        ],
    ),
    Program(
        "__slots__",
        """
class C:
    __slots__ = ('x', 'y')
o = C()
o.x = 1
o.y = 2

def f():
    return o.x
""",
        consulted=[
            "o.x = 2",
            "del o.x",
        ],
        unrelated=[
            "o.y = 5",
        ],
    ),
    Program(
        "__getattr__ python",
        """
class C:

    def __init__(s):
        s._d = {'q': 1}
        s.z = 0

    def __getattr__(s, n):
        return s._d[n]
o = C()

def f():
    return o.q
""",
        consulted=[
            "o._d['q'] = 2",
            "o.q = 5",
            "C.q = 3",
            "C.__getattr__ = lambda s, n: 0",
        ],
        unrelated=[
            "o._d['r'] = 1",
            "o.z = 4",
        ],
    ),
    Program(
        "__getattribute__ python",
        """
class C:

    def __init__(s):
        s.x = 1
        s.z = 0

    def __getattribute__(s, n):
        return object.__getattribute__(s, n)
o = C()

def f():
    return o.x
""",
        consulted=[
            "o.x = 2",
            "C.__getattribute__ = lambda s, n: 0",
        ],
        unrelated=[
            "o.z = 4",
        ],
    ),
    Program(
        "getattr(o,n) dynamic",
        """
class C:
    pass
o = C()
o.x = 1
n = 'x'

def f():
    return getattr(o, n)
""",
        consulted=[
            "o.x = 2",
            "n = 'y'\no.y = 1",
        ],
        unrelated=[
            "o.z = 1",
        ],
    ),
    Program(
        "getattr default/hasattr",
        """
class C:
    pass
o = C()

def f():
    return (getattr(o, 'q', 3), hasattr(o, 'r'))
""",
        consulted=[
            "o.q = 1",
            "o.r = 1",
            "C.r = 1",
        ],
        unrelated=[
            "o.z = 1",
        ],
    ),
    Program(
        "len(list)",
        """
L = [1, 2]

def f():
    return len(L)
""",
        consulted=[
            "L.append(1)",
        ],
        unrelated=[
            "L[0] = 9",
        ],
    ),
    Program(
        "list index",
        """
L = [1, 2, 3]

def f():
    return L[1] + L[-1]
""",
        consulted=[
            "L[1] = 5",
            "L[2] = 7",
            "L.append(4)",
        ],
        unrelated=[
            "L[0] = 9",
        ],
    ),
    Program(
        "iterate global list",
        """
L = [1, 2, 3]

def f():
    s = 0
    for i in L:
        s += i
    return s
""",
        consulted=[
            "L.append(1)",
            "L[0] = 7",
        ],
        unrelated=[
            "L[0] = 1",
        ],
    ),
    Program(
        "list of objects",
        """
class C:
    pass
L = [C(), C()]
for c in L:
    c.v = 1
    c.u = 0

def f():
    return sum([c.v for c in L])
""",
        consulted=[
            "L[1].v = 5",
            "L.pop()",
        ],
        unrelated=[
            "L[0].u = 3",
        ],
    ),
    Program(
        "comprehension",
        """
L = [1, 2, 3]
K = 2

def f():
    return ([i * K for i in L], {i for i in L}, {i: K for i in L})
""",
        consulted=[
            "K = 3",
            "L[2] = 0",
        ],
        unrelated=[
            "Z = 1",
        ],
    ),
    Program(
        "generator",
        """
L = [1, 2, 3]
K = 2

def g():
    for i in L:
        yield (i * K)

def f():
    return sum(g())
""",
        consulted=[
            "K = 3",
            "L[2] = 0",
            "g = lambda: [1]",
        ],
        unrelated=[
            "Z = 1",
        ],
    ),
    Program(
        "genexpr closure",
        """
L = [1, 2, 3]

def mk(q):

    def f():
        return sum((i * q['a'] for i in L))
    return f
q = {'a': 1}
f = mk(q)
""",
        consulted=[
            "q['a'] = 3",
            "L[2] = 0",
        ],
        unrelated=[
            "q['b'] = 1",
        ],
    ),
    Program(
        "isinstance",
        """
class A:
    pass

class B(A):
    pass
o = B()

def f():
    return isinstance(o, A)
""",
        consulted=[
            "A = int",
            "o = 3",
            "o.__class__ = type('Q', (), {})",
        ],
        unrelated=[
            "Z = 1",
        ],
    ),
    Program(
        "default args",
        """
def f(x=3):
    return x
""",
        consulted=[
            "f.__defaults__ = (4,)",
        ],
        unrelated=[
            "f.q = 1",
        ],
    ),
    Program(
        "kwonly default",
        """
def g(*, x=3):
    return x

def f():
    return g()
""",
        consulted=[
            "g.__kwdefaults__ = {'x': 4}",
            "g.__kwdefaults__['x'] = 4",
            "g.__code__ = (lambda *, x=1: 0).__code__",
        ],
        unrelated=[
            "f.q = 1",
        ],
    ),
    Program(
        "mutable default list",
        """
def f(x=[1, 2]):
    return sum(x)
""",
        consulted=[
            "f.__defaults__[0].append(1)",
        ],
        unrelated=[
            "Z = 1",
        ],
    ),
    Program(
        "functools.partial",
        """
import functools

def g(a, b):
    return a + b
p = functools.partial(g, 1, b=2)

def f():
    return p()
""",
        consulted=[
            "p.keywords['b'] = 5",
            "p = functools.partial(g, 3, b=2)",
            "g.__code__ = (lambda a, b: 0).__code__",
        ],
        unrelated=[
            "Z = 1",
        ],
    ),
    Program(
        "module constant",
        """
import types
m = types.ModuleType('m')
m.C = 1

def f():
    return m.C
""",
        consulted=[
            "m.C = 2",
            "m = types.ModuleType('m2')\nm.C = 3",
        ],
        unrelated=[
            "m.D = 1",
        ],
    ),
    Program(
        "numpy scalar",
        """
import numpy as np
s = np.float32(1.5)

def f():
    return s * 2
""",
        consulted=[
            "s = np.float32(2.5)",
        ],
        unrelated=[
            "s = np.float32(1.5)",
        ],
    ),
    Program(
        "os.environ[]",
        """
import os
os.environ['RSX'] = '1'

def f():
    return (os.environ.get('RSX', '0'), os.getenv('RSY'))
""",
        consulted=[
            "os.environ['RSX'] = '2'",
            "os.environ['RSY'] = '1'",
        ],
        unrelated=[
            "os.environ['RSZ'] = '2'",
        ],
    ),
    Program(
        "enum",
        """
import enum

class E(enum.Enum):
    A = 1
    B = 2
e = E.A

def f():
    return 1 if e is E.A else e.value
""",
        consulted=[
            "e = E.B",
        ],
        unrelated=[
            "Z = 1",
        ],
    ),
    Program(
        "namedtuple",
        """
import collections
N = collections.namedtuple('N', 'a b')
n = N(1, 2)

def f():
    return n.a
""",
        consulted=[
            "n = N(5, 2)",
        ],
        unrelated=[
            "Z = 1",
        ],
    ),
    Program(
        "set membership",
        """
S = {1, 2}

def f():
    return 3 in S
""",
        consulted=[
            "S.add(3)",
            "S = {3}",
        ],
        unrelated=[
            "S.add(1)",
        ],
    ),
    Program(
        "super()",
        """
class B:

    def m(s):
        return s.v

class C(B):

    def m(s):
        return super().m() + 1
o = C()
o.v = 1

def f():
    return o.m()
""",
        consulted=[
            "B.m = lambda s: 0",
            "o.v = 2",
            "C.m = lambda s: 1",
        ],
        unrelated=[
            "o.w = 1",
        ],
    ),
]
