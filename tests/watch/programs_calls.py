"""Programs whose reads hide in calls, operators, imports and callbacks."""

from program import Program

PROGRAMS = [
    Program(
        "classmethod/static",
        """
class C:
    k = 2

    @classmethod
    def a(c):
        return c.k

    @staticmethod
    def b():
        return 1

def f():
    return C.a() + C.b()
""",
        consulted=[
            "C.k = 3",
            "C.b = staticmethod(lambda: 9)",
        ],
        unrelated=[
            "C.z = 1",
        ],
    ),
    Program(
        "sorted key callback",
        """
K = 1
L = [3, 1, 2]

def key(x):
    return x * K

def f():
    return sorted(L, key=key)
""",
        consulted=[
            "K = -1",
            "L[0] = 0",
            "key.__code__ = (lambda x: -x).__code__",
        ],
        unrelated=[
            "Z = 1",
        ],
    ),
    Program(
        "try/except KeyError",
        """
d = {}

def f():
    try:
        return d['q']
    except KeyError:
        return 0
""",
        consulted=[
            "d['q'] = 1",
        ],
        unrelated=[
            "d['r'] = 1",
        ],
    ),
    Program(
        "with ctx",
        """
class C:

    def __init__(s):
        s.k = 1

    def __enter__(s):
        return s.k

    def __exit__(s, *a):
        return False
c = C()

def f():
    with c as k:
        return k
""",
        consulted=[
            "c.k = 2",
            "C.__enter__ = lambda s: 0",
        ],
        unrelated=[
            "c.z = 1",
        ],
    ),
    Program(
        "f-string list",
        """
L = [1, 2]

def f():
    return f'{L}'
""",
        consulted=[
            "L[0] = 5",
        ],
    ),
    Program(
        "truthiness of list/obj",
        """
L = []

class C:

    def __bool__(s):
        return s.b
c = C()
c.b = True

def f():
    return (1 if L else 2, 1 if c else 0)
""",
        consulted=[
            "L.append(0)",
            "c.b = False",
            "C.__bool__ = lambda s: False",
        ],
        unrelated=[
            "c.z = 1",
        ],
    ),
    Program(
        "match stmt",
        """
d = {'k': 1}

def f():
    match d:
        case {'k': 1}:
            return 1
        case _:
            return 2
""",
        consulted=[
            "d['k'] = 2",
        ],
    ),
    Program(
        "import inside",
        """
def f():
    import math
    from os import sep
    return math.pi
""",
        consulted=[
            "import sys, types\nm = types.ModuleType('math')\nm.pi = 3\nimport builtins\nsys.modules['math'] = m",
        ],
        unrelated=[
            "Z = 1",
        ],
    ),
    Program(
        "class call + init",
        """
class C:
    k = 1

    def __init__(s, a):
        s.a = a + s.k

def f():
    return C(2).a
""",
        consulted=[
            "C.k = 5",
            "C.__init__ = lambda s, a: setattr(s, 'a', 0)",
        ],
        unrelated=[
            "C.z = 1",
        ],
    ),
    Program(
        "operator overload",
        """
class V:

    def __init__(s):
        s.v = 1

    def __add__(s, o):
        return s.v + o
v = V()

def f():
    return v + 1
""",
        consulted=[
            "v.v = 3",
            "V.__add__ = lambda s, o: 0",
        ],
        unrelated=[
            "v.w = 1",
        ],
    ),
    Program(
        "UserDict-like __getitem__",
        """
class C:

    def __init__(s):
        s.d = {'a': 1}

    def __getitem__(s, k):
        return s.d[k]
c = C()

def f():
    return c['a']
""",
        consulted=[
            "c.d['a'] = 2",
            "C.__getitem__ = lambda s, k: 0",
        ],
        unrelated=[
            "c.d['z'] = 1",
        ],
    ),
    Program(
        "__class__ swap/__dict__ swap",
        """
class A:

    def m(s):
        return s.x

class B:

    def m(s):
        return 0
o = A()
o.x = 1

def f():
    return o.m()
""",
        consulted=[
            "o.__class__ = B",
            "o.__dict__ = {'x': 5}",
        ],
        unrelated=[
            "o.y = 2",
        ],
    ),
    Program(
        "local only (no effect)",
        """
def f():
    L = []
    d = {}

    class Q:
        pass
    q = Q()
    q.x = 1
    for i in range(3):
        L.append(i)
        d[i] = i
    return len(L) + d[1] + q.x
""",
        unrelated=[
            "Z = 1",
        ],
    ),
    Program(
        "o.__dict__[x] / vars",
        """
class C:
    pass
o = C()
o.x = 1
o.z = 0

def f():
    return o.__dict__['x']
""",
        consulted=[
            "o.x = 2",
            "o.__dict__ = {'x': 4}",
        ],
        unrelated=[
            "o.z = 1",
        ],
    ),
    Program(
        "f(**d), f(*L), a,b=L",
        """
d = {'q': 1}
L = [1, 2]

def g(*a, q=0):
    return sum(a) + q

def f():
    a, b = L
    return g(*L, **d) + a
""",
        consulted=[
            "d['q'] = 2",
            "L[0] = 5",
        ],
    ),
    Program(
        "slice, ==, in list",
        """
L = [1, 2, 3]
M = [4]

def f():
    return len(L[1:]) + (M == [4]) + (9 in M)
""",
        consulted=[
            "L.append(1)",
            "M[0] = 5",
        ],
    ),
    Program(
        "str.join / max key / any",
        """
L = ['a', 'b']
M = [0, 2]

def f():
    return (','.join(L), max(M, key=abs), any(M))
""",
        consulted=[
            "L[0] = 'z'",
            "M[1] = -7",
        ],
    ),
    Program(
        "dict subclass __missing__",
        """
class D(dict):

    def __missing__(s, k):
        return s.dv
d = D()
d.dv = 1

def f():
    return d['q']
""",
        consulted=[
            "d.dv = 2",
            "d['q'] = 3",
            "D.__missing__ = lambda s, k: 0",
        ],
        unrelated=[
            "d['r'] = 3",
        ],
    ),
    Program(
        "nested config",
        """
cfg = {'m': {'h': [1, 2, {'k': 3}]}}

def f():
    return cfg['m']['h'][2]['k']
""",
        consulted=[
            "cfg['m']['h'][2]['k'] = 4",
            "cfg['m']['h'][2] = {}",
            "cfg['m'] = {}",
        ],
        unrelated=[
            "cfg['z'] = 1",
            "cfg['m']['z'] = 1",
            "cfg['m']['h'][0] = 9",
        ],
    ),
    Program(
        "exception flow",
        """
class C:
    pass
o = C()

def f():
    try:
        return o.q
    except AttributeError:
        return K
K = 1
""",
        consulted=[
            "o.q = 1",
            "K = 2",
        ],
        unrelated=[
            "o.r = 1",
        ],
    ),
    Program(
        "bound method stored",
        """
class C:

    def m(s):
        return s.k
o = C()
o.k = 1
bm = o.m

def f():
    return bm()
""",
        consulted=[
            "o.k = 2",
            "C.m.__code__ = (lambda s: 0).__code__",
        ],
        unrelated=[
            "o.z = 1",
            "C.m = lambda s: 0",
        ],
    ),
]
