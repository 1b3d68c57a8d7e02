"""Functions: closures, defaults, decorators, generators, exceptions, context managers, control flow."""

from program import Program as P

PROGRAMS = [
    P(
        "a cell rebound from outside",
        """
def make():
    n = 1
    def get(): return n
    return get
get = make()
def f(): return get()
""",
        ["get.__closure__[0].cell_contents = 2", "get = lambda: 3"],
        ["Z = 1"],
    ),
    P(
        "two closures over one cell",
        """
def make():
    n = [1]
    def get(): return n[0]
    def put(v): n[0] = v
    return get, put
get, put = make()
def f(): return get()
""",
        ["put(2)"],
        ["put(1)"],
    ),
    P(
        "a late bound loop variable",
        """
fs = [lambda: i for i in range(3)]
def f(): return [g() for g in fs]
""",
        ["fs[0].__closure__[0].cell_contents = 7", "fs.pop()", "fs[1] = lambda: 0"],
        ["Z = 1"],
    ),
    P(
        "a default list that grows",
        """
def g(a, seen=[1]): return len(seen) + a
def f(): return g(1)
""",
        ["g.__defaults__[0].append(2)", "g.__defaults__ = ([],)"],
        ["Z = 1"],
    ),
    P(
        "keyword defaults changed in place",
        """
def g(a, *, k=2, m=3): return a * k
def f(): return g(1)
""",
        [
            "g.__kwdefaults__['k'] = 5",
            "g.__kwdefaults__ = {'k': 7, 'm': 3}",
            "g.__defaults__ = (9,)",
        ],
        ["Z = 1"],
    ),
    P(
        "code replaced",
        """
def g(): return 1
def h(): return 2
def f(): return g()
""",
        ["g.__code__ = h.__code__", "g = h"],
        ["h.__code__ = (lambda: 5).__code__"],
    ),
    P(
        "a global shadows a builtin",
        """
L = [1, -2, 3]
def f(): return len(L), abs(L[1]), max(L)
""",
        ["len = lambda x: 0", "abs = lambda x: 0", "max = min", "L.append(7)"],
        ["any = 1"],
    ),
    P(
        "a shadowed builtin comes back",
        """
len = lambda x: 42
L = [1]
def f(): return len(L)
""",
        ["del len", "len = lambda x: 43"],
        ["Z = 1"],
    ),
    P(
        "a builtin is patched",
        """
import builtins
def f(): return max(1, 2)
""",
        ["saved = builtins.max; __builtins__ = dict(vars(builtins), max=min)"],
        ["Z = 1"],
        may_refuse=True,
    ),
    P(
        "wraps",
        """
import functools
K = 2
def deco(g):
    @functools.wraps(g)
    def inner(*a, **kw): return g(*a, **kw) * K
    return inner
@deco
def g(x, y=1): return x + y
def f(): return g(1), g(1, y=3), g.__name__, g.__wrapped__(1)
""",
        ["K = 3", "g.__wrapped__.__defaults__ = (9,)", "g.__name__ = 'q'", "g.__wrapped__ = abs"],
        ["g.tag = 1"],
    ),
    P(
        "a decorator with state",
        """
class Scale:
    def __init__(self, k): self.k = k
    def __call__(self, g):
        def inner(x): return g(x) * self.k
        return inner
scale = Scale(2)
@scale
def g(x): return x + 1
def f(): return g(3)
""",
        ["scale.k = 3", "g = abs"],
        ["scale.z = 3"],
    ),
    P(
        "functools.partial changed",
        """
import functools
def g(*a, **kw): return a, sorted(kw.items())
p = functools.partial(g, 1, k=[2])
def f(): return p(3)
""",
        ["p.keywords['z'] = 1", "p.keywords['k'].append(3)", "p.__setstate__((g, (5,), {}, {}))"],
        ["p.tag = 1"],
    ),
    P(
        "partialmethod",
        """
import functools
class C:
    def m(self, a, b): return a, b, self.k
    k = 0
    half = functools.partialmethod(m, 5)
o = C()
def f(): return o.half(6)
""",
        ["o.k = 1", "C.half = lambda s, b: b", "C.m = lambda s, a, b: 0"],
        ["C.z = 1"],
    ),
    P(
        "singledispatch on several types",
        """
import functools
@functools.singledispatch
def g(x): return "object"
@g.register
def _(x: list): return "list"
@g.register(str)
def _(x): return K
K = "str"
def f(): return g([1]), g("a"), g(1.5)
""",
        ["K = 2", "g.register(float, lambda x: 'float')"],
        ["Z = 1"],
    ),
    P(
        "cached_property that is filled",
        """
import functools
class C:
    k = 1
    @functools.cached_property
    def p(self): return self.k
o = C(); o.p
def f(): return o.p
""",
        ["o.p = 2", "del o.p; o.k = 5"],
        ["o.k = 5"],
    ),
    P(
        "cmp_to_key and reduce",
        """
import functools
sign = 1
L = [2, 1, 3]
def compare(a, b): return sign * (a - b)
def f(): return sorted(L, key=functools.cmp_to_key(compare)), functools.reduce(lambda a, b: a * b + sign, L)
""",
        ["sign = -1", "L.append(0)"],
        ["Z = 1"],
    ),
    P(
        "attributes of functions",
        """
def g(): return 1
g.scale = 2
def f(): return g() * g.scale, getattr(g, "shift", 0), g.__doc__
""",
        ["g.scale = 3", "g.shift = 1", "g.__doc__ = 'x'", "g.__dict__ = {'scale': 9}"],
        ["g.other = 1"],
    ),
    P(
        "annotations",
        """
def g(x: int, y: str = "a") -> float: return x
def f(): return sorted(g.__annotations__), g.__annotations__["x"] is int
""",
        [
            "g.__annotations__['x'] = float",
            "g.__annotations__['z'] = int",
            "g.__annotations__ = {'x': int}",
        ],
        ["Z = 1"],
    ),
    P(
        "recursion",
        """
base = 1
step = 1
def down(n): return base if n == 0 else n * down(n - step)
def f(): return down(5)
""",
        ["base = 2", "step = 5", "down = lambda n: 0"],
        ["Z = 1"],
    ),
    P(
        "mutual recursion",
        """
def even(n): return True if n == 0 else odd(n - 1)
def odd(n): return False if n == 0 else even(n - 1)
def f(): return even(6)
""",
        ["odd = lambda n: 5", "even = odd"],
        ["Z = 1"],
    ),
    P(
        "generator with send, throw and close",
        """
K = 1
def g():
    total = 0
    try:
        while True:
            try:
                got = yield total
                total += got * K
            except ValueError: total = -K
    finally: total = None
def f():
    it = g()
    out = [next(it), it.send(2), it.throw(ValueError()), it.send(3)]
    it.close()
    return out
""",
        ["K = 2"],
        ["Z = 1"],
    ),
    P(
        "yield from and its value",
        """
L = [1, 2]
def inner():
    yield from L
    return len(L)
def outer():
    n = yield from inner()
    yield n * 10
def f(): return list(outer())
""",
        ["L.append(3)", "L[0] = 9", "inner = lambda: iter([4])"],
        ["Z = 1"],
    ),
    P(
        "a generator that is left early",
        """
seen = 3
def g():
    for i in range(10):
        if i == seen: return
        yield i
def f(): return sum(g()), next(g(), None), next((i for i in g() if i > 1), -1)
""",
        ["seen = 2"],
        ["Z = 1"],
    ),
    P(
        "try, except, else, finally",
        """
fail = False
order = ("a", "b")
def f():
    out = []
    try:
        out.append(order[0])
        if fail: raise ValueError("x")
    except ValueError as e: out.append(str(e))
    else: out.append("else")
    finally: out.append(order[1])
    return out
""",
        ["fail = True", "order = ('c', 'd')"],
        ["Z = 1"],
    ),
    P(
        "return in finally",
        """
n = 1
def f():
    for i in range(3):
        try:
            if i == n: return "try"
            continue
        finally:
            if i == 2: return "finally"
""",
        ["n = 5", "n = 2"],
        ["Z = 1"],
    ),
    P(
        "exceptions as control flow",
        """
table = {"a": 1}
class Stop(Exception):
    def __init__(self, v): super().__init__(v); self.v = v
def find(k):
    if k not in table: raise Stop(len(table))
    return table[k]
def f():
    try: return find("a") + find("b")
    except Stop as s: return s.v, s.args
""",
        ["table['b'] = 2", "table['c'] = 2", "Stop.__init__ = lambda s, v: setattr(s, 'v', 0)"],
        ["Z = 1"],
    ),
    P(
        "chained exceptions",
        """
def g():
    try: {}["k"]
    except KeyError as e: raise ValueError("v") from e
def f():
    try: g()
    except ValueError as e: return type(e.__cause__).__name__, e.__context__ is e.__cause__, e.args
""",
        ["ValueError = RuntimeError", "g = lambda: 1"],
        ["Z = 1"],
    ),
    P(
        "assertions",
        """
limit = 3
def f():
    try: assert limit > 2, f"limit {limit}"
    except AssertionError as e: return str(e)
    return "fine"
""",
        ["limit = 1"],
        ["Z = 1"],
    ),
    P(
        "exception groups",
        """
kind = ValueError
def f():
    try: raise ExceptionGroup("g", [kind("a"), KeyError("b")])
    except* ValueError as e: n = len(e.exceptions)
    except* KeyError as e: n = 10
    return n
""",
        ["kind = KeyError"],
        ["Z = 1"],
        may_refuse=True,
    ),
    P(
        "context managers that swallow",
        """
import contextlib
class Swallow:
    kinds = (KeyError,)
    def __enter__(self): return self
    def __exit__(self, t, v, tb): return t is not None and issubclass(t, self.kinds)
sw = Swallow()
def f():
    with contextlib.suppress(IndexError), sw as s:
        {}["q"]
    return s.kinds
""",
        [
            "sw.kinds = (KeyError, ValueError)",
            "Swallow.__enter__ = lambda s: sw2; sw2 = Swallow(); sw2.kinds = ()",
        ],
        ["sw.z = 1"],
    ),
    P(
        "ExitStack and nullcontext",
        """
import contextlib
K = 1
@contextlib.contextmanager
def scope(out, tag):
    out.append(("in", tag, K))
    try: yield tag
    finally: out.append(("out", tag, K))
def f():
    out = []
    with contextlib.ExitStack() as stack:
        for t in "ab": stack.enter_context(scope(out, t))
        stack.callback(out.append, "done")
        stack.enter_context(contextlib.nullcontext())
    return out
""",
        ["K = 2"],
        ["Z = 1"],
    ),
    P(
        "loops with else",
        """
L = [1, 2, 3]
target = 2
def f():
    for x in L:
        if x == target: break
    else: return "none"
    n = 0
    while n < x: n += 1
    else: n = -n
    return x, n
""",
        ["target = 7", "L[1] = 5", "L.clear()"],
        ["Z = 1"],
    ),
    P(
        "walrus and comprehensions",
        """
L = [1, 2, 3, 4]
k = 2
def f(): return [y for x in L if (y := x * k) > 2], {x: y for x in L for y in range(x) if y}, {x % k for x in L}
""",
        ["k = 3", "L.append(5)"],
        ["Z = 1"],
    ),
    P(
        "starred targets and calls",
        """
L = [1, 2, 3, 4]
kw = {"c": 5}
def g(a, /, b=0, *rest, c, **more): return a, b, rest, c, sorted(more)
def f():
    first, *middle, last = L
    return first, middle, last, g(*L, **kw), [*L, *kw], {**kw, "d": 1}
""",
        ["L.insert(0, 9)", "kw['x'] = 1", "kw['c'] = 7"],
        ["Z = 1"],
    ),
    P(
        "match of many shapes",
        """
import dataclasses
@dataclasses.dataclass
class Point:
    x: int
    y: int
p = Point(1, 2)
cmd = ["go", "north", 3]
d = {"kind": "a", "n": 1, "more": 2}
def f():
    match p:
        case Point(x=0): a = 0
        case Point(1, y): a = y
        case _: a = None
    match cmd:
        case ["go", ("north" | "south") as way, int(n)] if n > 2: b = (way, n)
        case [first, *rest]: b = (first, rest)
    match d:
        case {"kind": "a", **rest}: c = sorted(rest)
        case {"kind": k}: c = k
    return a, b, c
""",
        [
            "p.x = 0",
            "p.y = 5",
            "cmd[2] = 1",
            "cmd[1] = 'up'",
            "d['kind'] = 'b'",
            "d['z'] = 1",
            "Point.__match_args__ = ('y', 'x')",
            "p = (1, 2)",
        ],
        ["Z = 1", "p.z = 1"],
    ),
    P(
        "chained comparisons and ternaries",
        """
a, b, c = 1, 2, 3
def f(): return a < b < c, (a if b > c else c), not a or b and c
""",
        ["b = 0", "c = 1", "a = 0"],
        ["d = 1"],
    ),
    P(
        "a nested function with nonlocal state",
        """
start = 1
def f():
    n = start
    def up(by=step):
        nonlocal n
        n += by
        return n
    return up(), up(), up(5)
step = 2
""",
        ["start = 5", "step = 3"],
        ["Z = 1"],
    ),
    P(
        "lambda defaults taken at definition",
        """
k = 1
fs = [lambda x, n=n: x + n + k for n in range(2)]
def f(): return [g(1) for g in fs]
""",
        ["k = 2", "fs[0].__defaults__ = (10,)"],
        ["Z = 1"],
    ),
    P(
        "coroutines driven by hand",
        """
K = 1
class Wait:
    def __await__(self):
        got = yield K
        return got
async def inner(): return await Wait()
async def agen():
    for i in range(2): yield i * K
async def outer():
    n = await inner()
    async for i in agen(): n += i
    return n
def f():
    c = outer()
    out = [c.send(None)]
    try: c.send(5)
    except StopIteration as e: out.append(e.value)
    return out
""",
        ["K = 2", "Wait.__await__ = lambda s: iter(())"],
        ["Z = 1"],
        may_refuse=True,
    ),
    P(
        "a registry filled by decorators",
        """
table = {}
def register(name):
    def deco(g):
        table[name] = g
        return g
    return deco
@register("a")
def a(x): return x + 1
@register("b")
def b(x): return x * 2
kind = "a"
def f(): return table[kind](3)
""",
        ["kind = 'b'", "table['a'] = b", "a.__code__ = b.__code__"],
        ["table['c'] = 1", "b.__code__ = (lambda x: 0).__code__"],
    ),
    P(
        "a callable stored in a dict of an object",
        """
class C:
    def __init__(self): self.hooks = {"pre": [], "post": [lambda x: x * 2]}
    def __call__(self, x):
        for h in self.hooks["pre"]: x = h(x)
        for h in self.hooks["post"]: x = h(x)
        return x
c = C()
def f(): return c(3)
""",
        [
            "c.hooks['pre'].append(lambda x: x + 1)",
            "c.hooks['post'].clear()",
            "c.hooks = {'pre': [], 'post': []}",
        ],
        ["c.hooks['other'] = []"],
    ),
    P(
        "import of names inside",
        """
import sys, types
pkg = types.ModuleType("fg_pkg"); pkg.k = 1; pkg.__path__ = []
sub = types.ModuleType("fg_pkg.sub"); sub.v = 2; pkg.sub = sub
sys.modules["fg_pkg"] = pkg; sys.modules["fg_pkg.sub"] = sub
def f():
    import fg_pkg.sub
    from fg_pkg import k
    from fg_pkg.sub import v as w
    return k, w, fg_pkg.sub.v
""",
        [
            "pkg.k = 5",
            "sub.v = 6",
            "new = types.ModuleType('fg_pkg.sub'); new.v = 9; sys.modules['fg_pkg.sub'] = new",
        ],
        ["pkg.z = 1"],
    ),
    P(
        "operators of the operator module",
        """
import operator
L = [3, 1, 2]
class C: pass
o = C(); o.x = 1; o.y = C(); o.y.z = 2
pairs = [(1, "b"), (0, "a")]
def f():
    return (operator.add(*L[:2]), operator.itemgetter(1)(L), sorted(pairs, key=operator.itemgetter(1)),
            operator.attrgetter("x", "y.z")(o), operator.methodcaller("index", 2)(L))
""",
        ["L[1] = 5", "o.x = 3", "o.y.z = 4", "pairs.append((5, ''))", "L[0] = 2"],
        ["o.q = 1"],
    ),
    P(
        "attrgetter as a key",
        """
import operator
class C:
    def __init__(self, x): self.x = x
    @property
    def p(self): return -self.x
L = [C(1), C(2)]
def f(): return max(L, key=operator.attrgetter("x")) is L[0], min(L, key=operator.attrgetter("p")).x
""",
        ["L[0].x = 5", "C.p = property(lambda s: s.x)", "C.x = property(lambda s: 3)"],
        ["L[0].z = 1"],
    ),
    P(
        "getattr with dots by reduce",
        """
import functools
class C: pass
a = C(); a.b = C(); a.b.c = 5
path = "b.c"
def f(): return functools.reduce(getattr, path.split("."), a)
""",
        ["a.b.c = 6", "path = 'b'; a.b = 3", "a.b = C(); a.b.c = 8"],
        ["a.z = 1"],
        may_refuse=True,
    ),
    P(
        "memo in a local dict",
        """
cost = {"a": 1, "b": 2}
def solve(keys, memo):
    if keys not in memo:
        memo[keys] = 0 if not keys else cost[keys[0]] + solve(keys[1:], memo)
    return memo[keys]
def f(): return solve(("a", "b", "a"), {})
""",
        ["cost['a'] = 5"],
        ["cost['z'] = 5"],
    ),
]
