"""What cannot be reused is refused, with the user's line and a reason in words."""

import textwrap

import pytest
from program import Program

from fulgurite import _C

# name, source, what the refusal says
REFUSED = [
    ("clock", "import time\ndef f(): return time.time()", "reads the clock"),
    ("clock by name", "from time import perf_counter as t\ndef f(): return t()", "reads the clock"),
    ("date", "import datetime\ndef f(): return datetime.datetime.now()", "reads the date"),
    ("random", "import random\ndef f(): return random.random()", "random numbers"),
    ("random seed", "import random\ndef f(): random.seed(1)", "random numbers"),
    ("random choice", "import random\ndef f(): return random.choice([1, 2])", "random numbers"),
    ("numpy random", "import numpy as np, numpy.random\ndef f(): return np.random.rand()", "random numbers"),
    ("numpy contents", "import numpy as np\na = np.ones(3)\ndef f(): return float(a.sum())", "numpy"),
    ("numpy item", "import numpy as np\na = np.ones(3)\ndef f(): return a[0]", "numpy array"),
    ("numpy store", "import numpy as np\na = np.ones(3)\ndef f(): a[0] = 5", "numpy array"),
    ("os", "import os\ndef f(): return os.getpid()", "operating system"),
    ("urandom", "import os\ndef f(): return os.urandom(2)", "operating system"),
    ("open", "def f(): open('/dev/null').close()", "uses a file"),
    ("lru_cache", "import functools\n@functools.lru_cache\ndef g(x): return x\ndef f(): return g(1)", "lru_cache"),
    ("methodcaller with keywords", "import operator\nclass C:\n    def m(s, k=1): return k\no = C()\nm = operator.methodcaller('m', k=2)\ndef f(): return m(o)", "with keywords"),
    ("attrgetter through a property", "import operator\nclass C:\n    @property\n    def p(s): return s\no = C(); o.x = 1\na = operator.attrgetter('p.x')\ndef f(): return a(o)", "computed path"),
    ("decimals", "import decimal\na = decimal.Decimal(1)\ndef f(): return a / 3", "not audited"),
    ("local time", "import datetime\nd = datetime.datetime(2020, 1, 1)\ndef f(): return d.timestamp()", "time zone"),
    ("lru_cache without the result", "import functools\n@functools.lru_cache\ndef g(x): return x\nn = [0]\ndef h(): n.append(1); return len(n)\ndef f(): return g(h())", "no result for these arguments"),
    ("lru_cache with a hash in Python", "import functools\nclass C:\n    def __hash__(s): return 1\n@functools.lru_cache\ndef g(x): return 1\nc = C()\ndef f(): return g(c)", "hash is Python code"),
    ("context variable left set", "import contextvars\nc = contextvars.ContextVar('c')\ndef f():\n    t = c.set(1)\n    c.reset(t)\n    c.set(2)", "context variable"),
    ("length of a bytearray", "b = bytearray(b'ab')\ndef f(): return len(b)", "bytearray"),
    ("thread", "import threading\ndef f():\n    t = threading.Thread(target=int)\n    t.start()\n    t.join()", "threads"),
    ("ctypes", "import ctypes\nc = ctypes.c_int(3)\ndef f(): return c.value", "c_int"),
    ("dir()", "class C: pass\no = C(); o.x = 1\ndef f(): return dir(o)", "dir()"),
    ("locals() of an outer variable", "def make():\n    n = [1]\n    def f(): return n, locals()\n    return f\nf = make()", "from outside"),
    ("eval", "K = 1\ndef f(): return eval('K')", "runs code from text"),
    ("exec", "def f(): exec('Q = 1', globals())", "runs code from text"),
    ("settrace", "import sys\ndef f(): sys.settrace(None)", "trace"),
    ("id of a new object", "def f(): return id(object()) % 7", "id()"),
    ("older iterator", "it = iter([1, 2, 3])\ndef f(): return next(it)", "iterator"),
    ("older iterator in for", "it = iter([1, 2, 3])\ndef f():\n    for x in it: return x", "iterator"),
    ("older generator", "def g():\n    while True: yield 1\nit = g()\ndef f(): return next(it)", "generator"),
    ("bytearray", "b = bytearray(b'ab')\ndef f(): return b[0]", "bytearray"),
    ("array", "import array\na = array.array('i', [1])\ndef f(): return a[0]", "array"),
    ("context variable set", "import contextvars\nc = contextvars.ContextVar('c')\ndef f(): c.set(1)", "context variable"),
    ("whole dict after a change", "d = {'a': 1}\ndef f():\n    d['b'] = object()\n    return list(d)", "after changing it"),
    ("bound method to C", "d = {}\ndef f(): return list(map(d.__setitem__, ['a'], [1]))", "bound to"),
    ("user equality", "class K:\n    def __init__(s, v): s.v = v\n    def __hash__(s): return 1\n    def __eq__(s, o): return s.v == o.v\nk = K(1)\nd = {}\ndef f(): d[k] = 5", "equality is Python code"),
    ("identity of values", "a = 1.5\nb = a\ndef f(): return a is b", "by identity"),
    ("numpy in place", "import numpy as np\na = np.ones(3)\ndef g(x): x += 1\ndef f(): g(a)", "numpy array"),
    ("C context manager", "import tempfile\nd = memoryview(b'ab')\ndef f():\n    with d: pass", "context manager"),
    ("a write that raises", "L = [1]\ndef f():\n    try: L[3] = 1\n    except IndexError: pass", "raises"),
    ("a frame", "def f():\n    try: 1 / 0\n    except ZeroDivisionError as e: return e.__traceback__.tb_frame.f_lineno", "frame"),
    ("random as a key", "import random\nL = [1, 2]\ndef f(): return sorted(L, key=lambda x: random.random())", "random numbers"),
    ("clock as a callback", "import time\ndef f(): return next(iter(time.time, 0))", "time"),
    ("property written in C", "import operator\nclass C: p = property(operator.attrgetter('x'))\no = C()\no.x = 1\ndef f(): return o.p", "not audited"),
    ("deepcopy of a tensor", "import copy, torch\nt = torch.ones(2)\ndef f(): return copy.deepcopy(t)", "copies a tensor"),
    ("deepcopy of a tensor", "import copy, torch\nt = torch.ones(2)\ndef f(): return copy.deepcopy(t)", "copies"),
    ("format fields", "class C: pass\no = C(); o.x = 1\ndef f(): return '{0.x}'.format(o)", "in C"),
    ("raises", "def f(): raise ValueError('no')", "raises ValueError"),
    ("tolist", "import torch\nargs = (torch.ones(2),)\ndef f(x): return x.tolist()", "data out to Python"),
    ("numpy()", "import torch\nargs = (torch.ones(2),)\ndef f(x): return x.numpy()", "data out to Python"),
    ("__array__", "import torch, numpy as np\nargs = (torch.ones(2),)\ndef f(x): return np.asarray(x)", "numpy"),
    ("data_ptr", "import torch\nargs = (torch.ones(2),)\ndef f(x): return x.data_ptr()", "data out to Python"),
    ("_version", "import torch\nargs = (torch.ones(2),)\ndef f(x): return x._version", "_version"),
    ("manual_seed", "import torch\ndef f(): torch.manual_seed(0)", "random generator"),
    ("rng state", "import torch\ndef f(): return torch.get_rng_state()", "random"),
    ("generator", "import torch\ndef f(): return torch.rand(2, generator=torch.Generator().manual_seed(0))", "random generator"),
    ("autograd.Function", """
        import torch
        class Square(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x): return x * x
            @staticmethod
            def backward(ctx, g): return g
        args = (torch.ones(2, requires_grad=True),)
        def f(x): return Square.apply(x)
     """, "custom autograd.Function"),
    ("torch.func", "import torch\nargs = (torch.ones(2),)\ndef f(x): return torch.func.jvp(torch.sin, (x,), (x,))", "torch.func"),
    ("tensor hook", "import torch\nargs = (torch.ones(2, requires_grad=True),)\ndef f(x): (x * 2).register_hook(print)", "hook"),
    ("save", "import torch, io\nargs = (torch.ones(2),)\ndef f(x): torch.save(x, io.BytesIO())", "saves or loads"),
]  # fmt: skip


@pytest.mark.parametrize("name, source, says", REFUSED, ids=[r[0] for r in REFUSED])
def test_refuses(name, source, says):
    program = Program(name, textwrap.dedent(source))
    scope = program.build()
    try:
        _, watched = _C._watch(scope["f"], scope.get("args", ()), {})
    except ValueError:
        assert name == "raises"
        return
    refusals = watched.refusals()
    assert any(says in what for what, _, _ in refusals), refusals
    assert any(file == f"<{name}>" and line > 0 for _, file, line in refusals), refusals


def test_refuses_an_unaudited_c_function():
    import zlib

    def f():
        return zlib.crc32(b"abc")

    _, watched = _C._watch(f, (), {})
    [(what, file, line)] = watched.refusals()
    assert what == "calls zlib.crc32, a C function that is not audited"
    assert file == __file__ and line == f.__code__.co_firstlineno + 1
