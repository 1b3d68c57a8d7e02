"""What C code looks at without an instruction of the program: inside containers, iterators, results of callbacks."""

from program import Program as P

PROGRAMS = [
    P(
        "the largest of a dict's values",
        """
d = {"a": [1], "b": [0]}
def f(): return max(d.values()) is d["a"]
""",
        ["d['b'][0] = 5"],
        ["Z = 1"],
    ),
    P(
        "a sorted zip",
        """
L, M = [[2], [1]], "ab"
def f(): return [m for _, m in sorted(zip(L, M))]
""",
        ["L[1][0] = 5"],
        ["Z = 1"],
    ),
    P(
        "the largest of what a generator yields",
        """
d = {"a": [1], "b": [0]}
def f(): return max(d[k] for k in "ab") is d["a"]
""",
        ["d['b'][0] = 5"],
        ["Z = 1"],
    ),
    P(
        "sorted by a key that gives older lists",
        """
rank = {"a": [1], "b": [0]}
def f(): return sorted("ab", key=lambda k: rank[k])
""",
        ["rank['b'][0] = 5", "rank['a'] = [-1]"],
        ["rank['c'] = [3]"],
    ),
    P(
        "a key as a method",
        """
class R:
    def __init__(self): self.rank = {"a": [1], "b": [0]}
    def of(self, k): return self.rank[k]
r = R()
def f(): return sorted(["a", "b"], key=r.of), min("ab", key=r.of)
""",
        ["r.rank['b'][0] = 5", "R.of = lambda s, k: k"],
        ["r.z = 1"],
    ),
    P(
        "filter by the truth of an older list",
        """
d = {"a": [1], "b": []}
def f(): return list(filter(lambda k: d[k], "ab")), [k for k in filter(d.get, [])] if False else 0
""",
        ["d['b'].append(1)", "d['a'].clear()"],
        ["Z = 1"],
    ),
    P(
        "a loop over a filter",
        """
d = {"a": [1], "b": []}
def f():
    out = []
    for k in filter(lambda k: d[k], "ab"): out.append(k)
    return out
""",
        ["d['b'].append(1)"],
        ["Z = 1"],
    ),
    P(
        "groupby of older lists",
        """
import itertools
d = {"a": [1], "b": [1], "c": [2]}
def f():
    out = []
    for k, g in itertools.groupby("abc", key=lambda n: d[n]): out.append(len(list(g)))
    return out
""",
        ["d['b'][0] = 2"],
        ["Z = 1"],
    ),
    P(
        "any and all of older containers",
        """
d = {"a": [], "b": []}
def f(): return any(d[k] for k in "ab"), all(map(lambda k: d[k], "ab")), any(d.values())
""",
        ["d['b'].append(1)"],
        ["Z = 1"],
    ),
    P(
        "in a generator of older lists",
        """
d = {"a": [1], "b": [2]}
def f(): return [2] in (d[k] for k in "ab"), [2] in map(lambda k: d[k], "ab"), [2] in d.values()
""",
        ["d['b'][0] = 5"],
        ["Z = 1"],
    ),
    P(
        "reduce over nested lists",
        """
import functools, operator
L = [[1], [2]]
def f(): return functools.reduce(operator.add, L), sum(L, []), functools.reduce(lambda a, b: a if a > b else b, L)
""",
        ["L[1][0] = 0", "L.append([9])"],
        ["Z = 1"],
    ),
    P(
        "sets of objects compared",
        """
class C: pass
a, b = C(), C()
def f(): return {a} == {b}
""",
        ["C.__eq__ = lambda s, o: True; C.__hash__ = lambda s: 1"],
        ["C.z = 1"],
    ),
    P(
        "frozen sets of objects compared",
        """
class C: pass
a, b = C(), C()
def f(): return frozenset([a]) == frozenset([b]), len(set([a, b])), len(dict.fromkeys([a, b]))
""",
        ["C.__eq__ = lambda s, o: True; C.__hash__ = lambda s: 1"],
        ["C.z = 1"],
    ),
    P(
        "objects as keys of a new dict",
        """
class C: pass
a, b = C(), C()
def f(): return len({a: 1, b: 2}), len({x: 1 for x in (a, b)}), len({x for x in (a, b)})
""",
        ["C.__eq__ = lambda s, o: True; C.__hash__ = lambda s: 1"],
        ["C.z = 1"],
    ),
    P(
        "objects stored in a new dict",
        """
class C: pass
a, b = C(), C()
def f():
    d = {}
    d[a] = 1
    d[b] = 2
    return len(d), a in d, d.get(b)
""",
        ["C.__eq__ = lambda s, o: True; C.__hash__ = lambda s: 1"],
        ["C.z = 1"],
    ),
    P(
        "old formatting of a list",
        """
L = [1, [2]]
def f(): return "%s" % L
""",
        ["L[0] = 5", "L[1].append(3)"],
        ["Z = 1"],
    ),
    P(
        "old formatting with a computed format",
        """
L = [1, [2]]
form = "%s %r"
def f(): return form % (L, L[1])
""",
        ["L[0] = 5", "L[1].append(3)", "form = '%r %s'"],
        ["Z = 1"],
    ),
    P(
        "old formatting by name",
        """
d = {"k": [1], "n": 2}
form = "%(k)s"
def f(): return form % d
""",
        ["d['k'].append(2)", "form = '%(n)s'"],
        ["Z = 1"],
    ),
    P(
        "old formatting of an object",
        """
class C: pass
o = C()
C.__repr__ = lambda s: "r"
form = "%s"
def f(): return form % o, form % (o,), b"%b" % b"x"
""",
        ["C.__str__ = lambda s: 's'"],
        ["C.z = 1"],
    ),
    P(
        "a SimpleNamespace compared",
        """
import types
a = types.SimpleNamespace(x=1, y=[2])
def f(): return a == types.SimpleNamespace(x=1, y=[2])
""",
        ["a.x = 3", "a.z = 4", "a.y.append(1)"],
        ["Z = 1"],
        may_refuse=True,
    ),
    P(
        "a SimpleNamespace printed",
        """
import types
a = types.SimpleNamespace(x=1, y=[2])
def f(): return repr(a), f"{a}"
""",
        ["a.x = 3", "a.z = 4", "a.y.append(1)"],
        ["Z = 1"],
        may_refuse=True,
    ),
    P(
        "an exception's arguments and text",
        """
e = ValueError("a", [1])
def f(): return e.args[0], str(e), repr(e)
""",
        ["e.args = ('b',)", "e.args[1].append(2)"],
        ["Z = 1"],
    ),
    P(
        "notes and attributes of an exception",
        """
e = ValueError("a")
e.code = 1
def f(): return e.code, getattr(e, "__notes__", [])
""",
        ["e.code = 2", "e.add_note('n')"],
        ["Z = 1"],
    ),
    P(
        "a __class__ property on a base that appears",
        """
class A: pass
class B: pass
class C(B): pass
o = C()
def f(): return isinstance(o, A)
""",
        ["C.__bases__ = (type('D', (), {'__class__': property(lambda s: A)}),)"],
        ["B.z = 1"],
    ),
    P(
        "computing with decimals",
        """
import decimal
a, b = decimal.Decimal(1), decimal.Decimal(3)
def f(): return a / b, -b
""",
        ["decimal.getcontext().prec = 3"],
        may_refuse=True,
    ),
    P(
        "a slice with objects",
        """
class I:
    def __init__(self, v): self.v = v
    def __index__(self): return self.v
i = I(1)
L = [1, 2, 3]
def f(): return L[i:], L[i], [0] * i, range(i), "abc"[i]
""",
        ["i.v = 2", "I.__index__ = lambda s: 0"],
        ["i.w = 2"],
    ),
    P(
        "a class made by the call",
        """
class B:
    x = 1
    def m(self): return self.x
def f():
    class C(B): pass
    return C().x, C().m(), C.x
""",
        ["B.x = 2", "B.m = lambda s: 3"],
        ["B.z = 1"],
    ),
    P(
        "a class made by type()",
        """
class B:
    x = 1
    def __init_subclass__(cls): cls.tag = cls.x
def f():
    C = type("C", (B,), {"y": 2})
    return C.x, C.tag, C.y
""",
        ["B.x = 2", "B.__init_subclass__ = classmethod(lambda c: setattr(c, 'tag', 0))"],
        ["B.z = 1"],
    ),
    P(
        "a metaclass that decides",
        """
class M(type):
    k = 1
    def __new__(m, name, bases, ns): return super().__new__(m, name, bases, dict(ns, got=m.k))
class B(metaclass=M): pass
def f():
    class C(B): y = 2
    return C.got, C.y
""",
        [
            "M.k = 2",
            "M.__new__ = lambda m, n, b, ns: type.__new__(m, n, b, dict(ns, got=7))",
            "M.__prepare__ = classmethod(lambda m, n, b: {'got': 3, 'y': 0})",
        ],
        ["B.z = 1"],
    ),
    P(
        "__set_name__ of a descriptor",
        """
class D:
    def __set_name__(self, owner, name): self.name = name
    def __get__(self, o, t): return self.name
def f():
    class C: x = D()
    return C().x
""",
        [
            "D.__set_name__ = lambda s, o, n: setattr(s, 'name', 'q')",
            "D.__get__ = lambda s, o, t: 0",
        ],
        ["D.z = 1"],
    ),
    P(
        "isinstance of unions and nested tuples",
        """
class A: pass
class B: pass
class C(A): pass
o = C()
def f(): return isinstance(o, int | A), isinstance(o, (int, (B, str))), issubclass(C, A | None)
""",
        ["C.__bases__ = (B,)"],
        ["A.z = 1"],
    ),
    P(
        "__class__ that appears",
        """
class A: pass
class C: pass
o = C()
def f(): return isinstance(o, A), o.__class__ is C
""",
        [
            "o.__class__ = A",
            "C2 = type('C2', (C,), {'__class__': property(lambda s: A)}); o.__class__ = C2",
        ],
        ["C.z = 1"],
    ),
    P(
        "dict subclasses in C",
        """
class D(dict):
    def keys(self): return ["a"]
d = D(a=1, b=2)
def g(**kw): return sorted(kw)
def f(): return g(**d), dict(d), {**d}, list(d)
""",
        [
            "D.keys = lambda s: ['b']",
            "dict.__setitem__(d, 'c', 3)",
            "D.__iter__ = lambda s: iter('b')",
        ],
        ["D.z = 1"],
    ),
    P(
        "list subclasses in C",
        """
class L(list): pass
l = L([1, 2])
def f(): return list(l), [*l], sum(l), len(l), tuple(l), max(l)
""",
        ["L.__iter__ = lambda s: iter([7])", "L.__len__ = lambda s: 9", "l.append(3)"],
        ["L.z = 1"],
    ),
    P(
        "str() of containers of objects",
        """
class C: pass
C.__repr__ = lambda s: "c"
L = [C(), {"k": (C(),)}]
def f(): return str(L), f"{L}"
""",
        ["C.__repr__ = lambda s: 'd'", "L[1]['k'] = ()"],
        ["C.z = 1"],
    ),
    P(
        "bool of a nested structure by not",
        """
d = {"a": {"b": []}}
def f(): return not d["a"]["b"], bool(d["a"]), "y" if d["a"]["b"] else "n"
""",
        ["d['a']['b'].append(1)", "d['a'] = {}; d['a']['b'] = 1"],
        ["d['z'] = 1"],
    ),
    P(
        "tuples hold what changes",
        """
t = ([1], {"k": 2})
def f(): return t[0][0], t[1]["k"], t == ([1], {"k": 2}), len(t[0])
""",
        ["t[0][0] = 5", "t[1]['k'] = 3", "t[0].append(1)"],
        ["Z = 1"],
    ),
    P(
        "an iterator class that holds a list",
        """
class It:
    def __init__(self, L): self.L, self.i = L, 0
    def __iter__(self): return self
    def __next__(self):
        if self.i >= len(self.L): raise StopIteration
        self.i += 1
        return self.L[self.i - 1]
L = [[3], [1]]
def f(): return sorted(It(L)), max(It(L)), list(It(L))
""",
        ["L[0][0] = 0", "L.append([9])", "It.__next__ = lambda s: next(iter(()))"],
        ["It.z = 1"],
    ),
    P(
        "enumerate and reversed of nested lists, compared",
        """
L = [[1], [2]]
def f(): return max(enumerate(L)), list(reversed(L)) == [[2], [1]], min(reversed(L))
""",
        ["L[1][0] = 0", "L.append([0])"],
        ["Z = 1"],
    ),
    P(
        "keys in nested tuples of objects",
        """
class K:
    def __init__(self, v): self.v = v
    def __eq__(self, o): return self.v == o.v
    def __hash__(self): return hash(self.v)
a, b = K(1), K(1)
def f(): return {(a, 1): "x"}[(b, 1)], (a, 2) in {(b, 2)}
""",
        ["K.__hash__ = lambda s: id(s)", "K.__eq__ = lambda s, o: s is o"],
        ["K.z = 1"],
    ),
    P(
        "an object's __bool__ used by a C function",
        """
class C:
    on = True
    def __bool__(self): return self.on
c, d = C(), C()
def f(): return any([c]), all([c, d]), list(filter(None, [c, d])) == [c, d], int(bool(c))
""",
        ["d.on = False", "C.__bool__ = lambda s: False"],
        ["c.z = 1"],
    ),
    P(
        "hash of a tuple of objects",
        """
class C:
    h = 1
    def __hash__(self): return self.h
c = C()
def f(): return hash((c, 1)) == hash((c, 1)), hash(c)
""",
        ["C.h = 2", "C.__hash__ = lambda s: 5"],
        ["C.z = 1"],
    ),
    P(
        "dict.get and setdefault with objects as keys",
        """
class C: pass
a = C()
d = {a: 1}
def f(): return d[a], d.get(a), a in d
""",
        ["d[a] = 2", "C.__hash__ = lambda s: 1"],
        ["d['other'] = 1"],
        may_refuse=True,
    ),
    P(
        "a sort in place by a key",
        """
weights = {"a": 2, "b": 1}
rows = [["a"], ["b"]]
def f():
    q = list(rows)
    q.sort(key=lambda r: weights[r[0]])
    return [r[0] for r in q]
""",
        ["weights['a'] = 0", "rows[0][0] = 'b'"],
        ["weights['z'] = 0", "rows[0].append(1)"],
    ),
]
