"""Programs that use the standard library, and C code behind it."""

from program import Program

PROGRAMS = [
    Program(
        "map/zip/enumerate",
        """
L = [3, 1, 2]
M = [1, 2, 3]
K = 1

def g(x):
    return x + K

def f():
    return [a * b + i for i, (a, b) in enumerate(zip(map(g, L), M))]
""",
        consulted=[
            "K = 2",
            "L[0] = 9",
            "M[1] = 9",
        ],
        unrelated=[
            "Z = 1",
        ],
    ),
    Program(
        "itertools.chain",
        """
import itertools
L = [1]
M = [2]

def f():
    return sum(itertools.chain(L, M))
""",
        consulted=[
            "M[0] = 5",
            "L.append(1)",
        ],
    ),
    Program(
        "ctypes",
        """
import ctypes
c = ctypes.c_int(3)

def f():
    return c.value
""",
        consulted=[
            "c.value = 4",
        ],
        may_refuse=True,
    ),
    Program(
        "re / pattern",
        """
import re
P = 'a+'

def f():
    return bool(re.match(P, 'aab'))
""",
        consulted=[
            "P = 'b'",
        ],
        unrelated=[
            "Z = 1",
        ],
        may_refuse=True,
    ),
    Program(
        'globals()["K"]',
        """
K = 1

def f():
    return globals()['K']
""",
        consulted=[
            "K = 2",
        ],
        unrelated=[
            "Z = 1",
        ],
        may_refuse=True,
    ),
    Program(
        "cached_property",
        """
import functools

class C:

    @functools.cached_property
    def p(s):
        return s.k
o = C()
o.k = 1

def f():
    return o.p
""",
        consulted=[
            "o.p = 3",
            "C.p = 4",
        ],
        unrelated=[
            "o.zz = 1",
        ],
    ),
    Program(
        "SimpleNamespace",
        """
import types
o = types.SimpleNamespace(x=1, y=2)

def f():
    return o.x
""",
        consulted=[
            "o.x = 2",
        ],
        unrelated=[
            "o.y = 3",
        ],
    ),
    Program(
        "module __getattr__ PEP562",
        """
import types
m = types.ModuleType('m')
m.v = 1

def _ga(n):
    return m.v
m.__getattr__ = _ga

def f():
    return m.q
""",
        consulted=[
            "m.v = 2",
            "m.q = 1",
            "m.__getattr__ = lambda n: 0",
        ],
        unrelated=[
            "m.zz = 1",
        ],
    ),
    Program(
        "metaclass attr",
        """
class Mt(type):

    @property
    def p(c):
        return c.k

class C(metaclass=Mt):
    k = 1

def f():
    return C.p
""",
        consulted=[
            "C.k = 2",
            "Mt.p = 3",
        ],
        unrelated=[
            "C.z = 1",
        ],
    ),
    Program(
        "abc isinstance",
        """
import collections.abc as A

class C:
    pass
o = C()

def f():
    return isinstance(o, A.Sized)
""",
        consulted=[
            "C.__len__ = lambda s: 1",
        ],
        unrelated=[
            "C.z = 1",
        ],
        may_refuse=True,
    ),
    Program(
        "singledispatch",
        """
import functools

@functools.singledispatch
def g(x):
    return 1

@g.register
def _(x: int):
    return K
K = 2

def f():
    return g(3)
""",
        consulted=[
            "K = 3",
            "g.register(int, lambda x: 9)",
        ],
        may_refuse=True,
    ),
    Program(
        "logging level",
        """
import logging
lg = logging.getLogger('rsx')
lg.setLevel(30)

def f():
    return lg.isEnabledFor(20)
""",
        consulted=[
            "lg.setLevel(10)",
        ],
        may_refuse=True,
    ),
    Program(
        "list subclass",
        """
class LL(list):
    pass
L = LL([1, 2])

def f():
    return L[1] + sum(L)
""",
        consulted=[
            "L[1] = 5",
            "LL.__getitem__ = lambda s, i: 0",
        ],
    ),
    Program(
        "user __eq__/__hash__ dict key",
        """
class Ky:

    def __init__(s, v):
        s.v = v

    def __hash__(s):
        return 1

    def __eq__(s, o):
        return s.v == o.v
a = Ky(1)
d = {Ky(1): 5}

def f():
    return d[a]
""",
        consulted=[
            "d[a] = 6",
        ],
        may_refuse=True,
    ),
    Program(
        "object() identity / id()",
        """
o = object()

def f():
    return id(o) % 7
""",
        consulted=[
            "o = object()",
        ],
    ),
    Program(
        "json.dumps(cfg)",
        """
import json
d = {'a': [1, 2]}

def f():
    return json.dumps(d)
""",
        consulted=[
            "d['a'].append(3)",
        ],
        may_refuse=True,
    ),
    Program(
        "copy.deepcopy(cfg)",
        """
import copy
d = {'a': [1, 2]}

def f():
    return copy.deepcopy(d)['a'][0]
""",
        consulted=[
            "d['a'][0] = 3",
        ],
        may_refuse=True,
    ),
    Program(
        "str.format(obj) C",
        """
class C:
    pass
o = C()
o.x = 1

def f():
    return '{0.x}'.format(o)
""",
        consulted=[
            "o.x = 2",
        ],
        may_refuse=True,
    ),
    Program(
        "sum of objects w/ __radd__ in C",
        """
class C:

    def __radd__(s, o):
        return o + s.v
L = [C()]
L[0].v = 1

def f():
    return sum(L)
""",
        consulted=[
            "L[0].v = 2",
            "C.__radd__ = lambda s, o: 0",
        ],
    ),
    Program(
        "sorted of objs __lt__ in C",
        """
class C:

    def __init__(s, v):
        s.v = v

    def __lt__(s, o):
        return s.v < o.v
L = [C(2), C(1)]

def f():
    return [x.v for x in sorted(L)]
""",
        consulted=[
            "L[0].v = 0",
        ],
    ),
    Program(
        "int(obj)/__index__ in C",
        """
class C:

    def __init__(s):
        s.v = 1

    def __index__(s):
        return s.v
o = C()

def f():
    return int(o)
""",
        consulted=[
            "o.v = 2",
            "C.__index__ = lambda s: 5",
        ],
    ),
    Program(
        "exec/eval",
        """
K = 1

def f():
    return eval('K')
""",
        consulted=[
            "K = 2",
        ],
        may_refuse=True,
    ),
    Program(
        "asyncio coroutine send",
        """
K = 1

async def c():
    return K

def f():
    x = c()
    try:
        x.send(None)
    except StopIteration as e:
        return e.value
""",
        consulted=[
            "K = 2",
        ],
        unrelated=[
            "Z = 1",
        ],
    ),
    Program(
        "contextvars put back",
        """
import contextvars
c = contextvars.ContextVar("c", default=None)
K = 2

def inner():
    return c.get() + K

def f():
    before = c.get()
    token = c.set(5)
    try:
        return before, inner()
    finally:
        c.reset(token)
""",
        consulted=[
            "c.set(7)",
            "K = 3",
        ],
        unrelated=[
            "other = contextvars.ContextVar('other'); other.set(1)",
        ],
    ),
    Program(
        "contextvars put back by hand",
        """
import contextvars
c = contextvars.ContextVar("c", default=None)
c.set("outer")

def f():
    before = c.get()
    c.set("inner")
    result = c.get()
    c.set(before)
    return before, result
""",
        consulted=[
            "c.set('another')",
        ],
        unrelated=[
            "Z = 1",
        ],
    ),
    Program(
        "lru_cache that has the result",
        """
import functools
K = 2

@functools.lru_cache(maxsize=None)
def g(x, scale=1.0):
    return x * scale + K

def f():
    return g(3), g(3, scale=2.0)
""",
        consulted=[
            "K = 5; g.cache_clear()",
            "g = lambda x, scale=1.0: x",
        ],
        unrelated=[
            "g(10)",
            "K = 9",
        ],
    ),
    Program(
        "bounded lru_cache that has the result",
        """
import functools
K = 2

class C:
    @functools.lru_cache(maxsize=2)
    def g(self, x):
        return x + K

o = C()

def f():
    return o.g(3)
""",
        consulted=[
            "K = 5; C.g.cache_clear()",
            "K = 5; C.g.cache_clear(); o.g(3)",
            "K = 5; o.g(4); o.g(5); o.g(6); o.g(7)",
            "K = 5; o.g(4); o.g(5); o.g(6); o.g(3)",
        ],
        unrelated=[
            "o.g(8)",
            "K = 9",
        ],
    ),
]
