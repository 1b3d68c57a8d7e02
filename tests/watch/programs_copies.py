"""copy, deepcopy, and variables and attributes as dicts."""

from program import Program as P

PROGRAMS = [
    P(
        "copy and deepcopy of objects",
        """
import copy
class C:
    def __init__(s): s.k = 2; s.l = [1, [2]]
o = C(); o.n = C()
def f():
    p, q = copy.copy(o), copy.deepcopy(o)
    q.l[1].append(3)
    return p.k, q.l, p.n is o.n, q.n is o.n, q.n.l, len(vars(p))
""",
        [
            "o.k = 3",
            "o.l.append(4)",
            "o.n.l[1].append(9)",
            "o.new = 1",
            "C.__copy__ = lambda s: s",
            "C.__getstate__ = lambda s: {'k': 7}",
            "C.__reduce__ = lambda s: (C, ())",
            "o.__reduce__ = lambda: (C, ())",
        ],
        ["Z = 1", "C.other = 2"],
    ),
    P(
        "copy of an object without attributes",
        "import copy\nclass C: pass\no = C()\ndef f(): return vars(copy.copy(o))",
        ["o.k = 3"],
        ["Z = 1"],
    ),
    P(
        "copies of objects with slots",
        "import copy\nclass C:\n    __slots__ = ('a', 'b')\no = C(); o.a = [2]\ndef f():\n    p, q = copy.copy(o), copy.deepcopy(o)\n    return p.a, q.a, p.a is o.a, hasattr(q, 'b')",
        ["o.a = [3]", "o.b = 3", "o.a.append(1)"],
        ["Z = 1"],
    ),
    P(
        "copies by __getstate__ and __reduce__",
        """
import copy
class S:
    def __init__(s): s.a = 2
    def __getstate__(s): return {"a": s.a * K}
    def __setstate__(s, d): s.__dict__.update(d)
class R:
    def __init__(s, a): s.a = a
    def __reduce__(s): return type(s), (s.a + K,)
K = 3
s, r = S(), R(5)
def f(): return copy.copy(s).a, copy.deepcopy(s).a, copy.copy(r).a, copy.deepcopy(r).a
""",
        [
            "s.a = 3",
            "r.a = 1",
            "K = 5",
            "S.__getstate__ = lambda s: {'a': 1}",
            "R.__reduce__ = lambda s: (R, (1,))",
        ],
        ["Z = 1"],
    ),
    P(
        "deepcopy of containers",
        """
import collections, copy, types
class L(list): pass
class D(dict): pass
l, d = L([1, [2]]), D(a=[1])
l.k = 3
od, dd = collections.OrderedDict(a=1, b=2), collections.defaultdict(list, a=[1])
s, q, n = {1, 2}, collections.deque([1, [2]], maxlen=3), types.SimpleNamespace(a=[1])
def f():
    a, b, c, e, g, h, i = (copy.deepcopy(v) for v in (l, d, od, dd, s, q, n))
    return a, a.k, type(a).__name__, b["a"], list(c.items()), e["a"], e["zz"], sorted(g), list(h), h.maxlen, i.a
""",
        [
            "l[1].append(1)",
            "l.k = 5",
            "d['a'].append(2)",
            "od.move_to_end('a')",
            "dd['a'].append(2)",
            "dd.default_factory = dict",
            "s.add(7)",
            "q[1].append(5)",
            "n.a.append(3)",
        ],
        ["Z = 1"],
    ),
    P(
        "deepcopy of a module",
        "import copy, torch\nm = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.Dropout(0.0))\nx = torch.ones(1, 2)\nwith torch.no_grad(): m[0].weight.fill_(0.5); m[0].bias.fill_(0.25)\ndef f(): return copy.deepcopy(m)(x)",
        ["m.append(torch.nn.ReLU())", "m[1].p = 0.5", "m[0].bias = None"],
        ["Z = 1"],
    ),
    P(
        "vars, globals, locals",
        """
import types
class C: k = 1
o, m = C(), types.ModuleType("m")
o.x, m.y, K = 1, 2, 3
def f():
    a = 4
    return vars(o)["x"], sorted(vars(o)), vars(m)["y"], "q" in vars(m), vars(C)["k"], globals()["K"], globals().get("nothing"), locals()["a"], "{a}".format(**locals())
""",
        [
            "o.x = 2",
            "o.z = 2",
            "m.y = 5",
            "m.q = 1",
            "C.k = 9",
            "K = 4",
            "nothing = 1",
            "o.__dict__ = {'x': 7}",
        ],
        ["Z = 1", "m.z = 1"],
    ),
]
