"""Containers and text: what C code of the standard types reads, and in which order."""

from program import Program as P

PROGRAMS = [
    P(
        "old formatting of containers",
        """
L = [1, [2]]
d = {"k": [1], "n": 2}
def f(): return "%s %r" % (L, d), "%s" % L, "%(k)s %(n)d" % d
""",
        ["L[0] = 5", "L[1].append(3)", "d['k'].append(2)", "d['n'] = 7"],
        ["Z = 1"],
    ),
    P(
        "text from parts",
        """
parts = ["a", "b"]
sep = "-"
width = 6
def f(): return sep.join(parts), f"{parts[0]:>{width}}", f"{parts!r:.3}", "{0}{1}{0}".format(*parts), "{a}".format(a=parts[1])
""",
        ["sep = '+'", "parts[0] = 'c'", "width = 3", "parts.append('q')"],
        ["Z = 1"],
    ),
    P(
        "views of dicts as sets",
        """
a = {"x": 1, "y": 2}
b = {"y": 2, "z": 3}
def f(): return sorted(a.keys() & b.keys()), sorted(a.items() ^ b.items()), a.keys() <= b.keys(), list(a.values())
""",
        ["a['z'] = 1", "b['y'] = 5", "del a['x']"],
        ["Z = 1"],
    ),
    P(
        "older views of a dict",
        """
d = {"x": 1}
keys, values = d.keys(), d.values()
def f(): return "x" in keys, len(keys), list(values), sorted(keys)
""",
        ["d['y'] = 2", "del d['x']", "d['x'] = 5"],
        ["Z = 1"],
    ),
    P(
        "merging dicts",
        """
a = {"x": 1, "n": {"k": 1}}
b = {"y": 2}
def f(): return a | b, {**a, **b}, dict(a, z=3), dict(b.items()), dict(zip("pq", a.values()))
""",
        ["a['x'] = 5", "b['x'] = 9", "a['n']['k'] = 4", "a.pop('x')"],
        ["Z = 1"],
    ),
    P(
        "a dict that is emptied and refilled in another order",
        """
d = {"a": 1, "b": 2}
def f(): return list(d.items()), next(iter(d)), list(reversed(d))
""",
        ["v = d.pop('a'); d['a'] = v"],
        ["d['a'] = 1"],
    ),
    P(
        "ChainMap",
        """
import collections
a, b = {"x": 1}, {"x": 2, "y": 3}
c = collections.ChainMap(a, b)
def f(): return c["x"], c["y"], "z" in c, len(c), dict(c)
""",
        ["a['y'] = 9", "del a['x']", "b['z'] = 1", "c.maps.reverse()"],
        ["Z = 1"],
    ),
    P(
        "Counter",
        """
import collections
words = ["a", "b", "a"]
c = collections.Counter(x=2)
def f(): return collections.Counter(words).most_common(1), c["x"], c["nothing"], (c + collections.Counter(words))["a"]
""",
        ["words.append('b'); words.append('b')", "c['x'] = 3", "c['a'] = 5"],
        ["Z = 1"],
    ),
    P(
        "OrderedDict moved",
        """
import collections
d = collections.OrderedDict([("a", 1), ("b", 2), ("c", 3)])
def f(): return list(d.items()), next(reversed(d)), d == collections.OrderedDict(a=1, b=2, c=3)
""",
        ["d.move_to_end('a')", "d['a'] = 5", "d.popitem()"],
        ["Z = 1"],
    ),
    P(
        "a defaultdict that has the key",
        """
import collections
d = collections.defaultdict(list, a=[1])
def f(): return d["a"][0], d.get("b"), len(d)
""",
        ["d['a'][0] = 2", "d['b']", "d['a'] = [7]"],
        ["d.default_factory = int"],
    ),
    P(
        "a deque made by the call",
        """
import collections
L = [1, 2, 3]
def f():
    q = collections.deque(L, maxlen=2)
    q.append(9); q.rotate(1)
    return list(q), q[0], len(q), 9 in q
""",
        ["L.append(5)", "L[2] = 0"],
        ["Z = 1"],
    ),
    P(
        "heaps",
        """
import heapq
L = [3, 1, 2]
def f():
    h = list(L)
    heapq.heapify(h); heapq.heappush(h, 0)
    return heapq.heappop(h), heapq.nsmallest(2, L), heapq.nlargest(1, L, key=lambda x: -x), list(heapq.merge([1, 4], L[:1]))
""",
        ["L[1] = 7", "L.append(-1)"],
        ["Z = 1"],
    ),
    P(
        "bisection",
        """
import bisect
L = [1, 3, 5]
x = 3
class V:
    def __init__(self, v): self.v = v
objects = [V(1), V(4)]
def f():
    return bisect.bisect(L, x), bisect.bisect_left(L, x), bisect.bisect_left(objects, 3, key=lambda o: o.v)
""",
        ["L[0] = 3", "x = 4", "objects[0].v = 3", "L.append(0)"],
        ["Z = 1"],
    ),
    P(
        "itertools over state",
        """
import itertools
L = [1, 1, 2]
M = ["a", "b"]
def f():
    return ([(k, len(list(g))) for k, g in itertools.groupby(L)], list(itertools.product(L[:1], M)),
            list(itertools.accumulate(L)), list(itertools.zip_longest(L, M)), list(itertools.islice(itertools.cycle(M), 3)),
            list(itertools.starmap(pow, [L[:2]])), list(itertools.takewhile(lambda v: v < 2, L)), list(itertools.pairwise(L)))
""",
        ["L[1] = 2", "M.append('c')", "L.append(3)"],
        ["Z = 1"],
    ),
    P(
        "itertools.tee and chain of generators",
        """
import itertools
L = [1, 2]
def f():
    a, b = itertools.tee(x * 2 for x in L)
    return list(itertools.chain(a, b)), list(itertools.chain.from_iterable([L, L])), list(itertools.compress(L, [1, 0]))
""",
        ["L.append(3)", "L[0] = 7"],
        ["Z = 1"],
    ),
    P(
        "slices",
        """
L = list(range(10))
s = slice(1, 6, 2)
def f(): return L[s], L[-2:], L[::-1][:2], "abcdef"[s], (1, 2, 3)[s], s.start
""",
        ["s = slice(0, 3)", "L[1] = 50", "L.pop()"],
        ["Z = 1"],
    ),
    P(
        "nested containers with a shared inner one",
        """
inner = [1]
outer = {"a": inner, "b": (inner, {"c": inner})}
def f(): return outer["b"][1]["c"][0], outer["a"] is outer["b"][0]
""",
        ["inner[0] = 2", "outer['a'] = [1]", "outer['b'] = (inner, {'c': [4]})"],
        ["inner.append(2)"],
    ),
    P(
        "comparisons of nested containers",
        """
a = [1, [2, {"k": 3}]]
b = [1, [2, {"k": 3}]]
def f(): return a == b, a < [2], [a, b].index(b), sorted([[2], [1, [3]]]) == [b[:1], 1]
""",
        ["a[1][1]['k'] = 4", "b[0] = 0", "a.append(1)"],
        ["Z = 1"],
    ),
    P(
        "sets",
        """
s = {1, 2, 3}
fs = frozenset([3, 4])
def f(): return s & fs, s | {9}, s - fs, s ^ fs, s <= {1, 2, 3}, len(s), max(s), sorted(s), 3 in fs, s.isdisjoint(fs)
""",
        ["s.add(4)", "s.discard(1)", "fs = frozenset([1])"],
        ["Z = 1"],
    ),
    P(
        "any, all, sum, min, max of objects",
        """
class V:
    def __init__(self, v): self.v = v
    def __bool__(self): return self.v > 1
    def __lt__(self, o): return self.v < o.v
    def __gt__(self, o): return self.v > o.v
    def __radd__(self, o): return o + self.v
L = [V(1), V(2)]
def f(): return any(L), all(L), min(L).v, max(L).v, sum(L), [bool(v) for v in L]
""",
        ["L[0].v = 5", "V.__bool__ = lambda s: False", "V.__lt__ = lambda s, o: False", "L.pop()"],
        ["L[0].w = 1"],
    ),
    P(
        "UserDict and UserList",
        """
import collections
d = collections.UserDict(a=1)
L = collections.UserList([1, 2])
def f(): return d["a"], "b" in d, len(L), L[1], [x for x in L]
""",
        ["d['a'] = 2", "d['b'] = 2", "L.append(3)", "d.data = {'a': 7}"],
        ["d.z = 1"],
    ),
    P(
        "a mapping of one's own",
        """
import collections.abc
class Config(collections.abc.Mapping):
    def __init__(self, **kw): self.kw = kw
    def __getitem__(self, k): return self.kw[k]
    def __iter__(self): return iter(self.kw)
    def __len__(self): return len(self.kw)
c = Config(a=1, b=2)
def f(): return c["a"], c.get("z", 0), list(c), dict(c), "b" in c, c == {"a": 1, "b": 2}
""",
        ["c.kw['a'] = 3", "c.kw['z'] = 1", "c.kw = {}", "Config.__getitem__ = lambda s, k: 7"],
        ["c.q = 1"],
    ),
    P(
        "subclasses of list and dict",
        """
class L(list):
    def __getitem__(self, i): return list.__getitem__(self, i) * 2
class D(dict):
    def get(self, k, default=None): return dict.get(self, k, default), self.tag
    tag = 1
l, d = L([1, 2]), D(a=1)
def f(): return l[0], l[-1], len(l), d.get("a"), d.get("z"), d["a"]
""",
        ["l.append(3)", "list.__setitem__(l, 0, 5)", "d['a'] = 2", "d.tag = 3", "D.get = dict.get"],
        ["d['q'] = 1"],
    ),
    P(
        "mappingproxy",
        """
import types
inner = {"a": 1}
p = types.MappingProxyType(inner)
def f(): return p["a"], p.get("b"), "c" in p
""",
        ["inner['a'] = 2", "inner['b'] = 3", "inner['c'] = 3"],
        ["inner['q'] = 3"],
    ),
    P(
        "a table of tuples",
        """
rows = [("a", 1, (2, 3)), ("b", 4, (5, 6))]
def f(): return {name: n + sum(rest) for name, n, rest in rows}, dict((r[0], r[2]) for r in rows)
""",
        ["rows[0] = ('a', 1, (2, 4))", "rows.append(('c', 0, ()))", "rows.reverse()"],
        ["Z = 1"],
    ),
    P(
        "sorting by several keys",
        """
rows = [{"n": 2, "s": "b"}, {"n": 2, "s": "a"}, {"n": 1, "s": "z"}]
order = ("n", "s")
def f(): return [r["s"] for r in sorted(rows, key=lambda r: tuple(r[k] for k in order), reverse=bool(rows))]
""",
        ["order = ('s',)", "rows[0]['n'] = 0", "rows[1]['s'] = 'q'"],
        ["rows[0]['x'] = 1"],
    ),
    P(
        "strings in many ways",
        """
s = "  Hello, World  "
table = str.maketrans("lo", "01")
def f(): return s.strip().lower().split(", "), s.translate(table), s.partition(","), s.find("W"), s.encode()[2], s[::-1].title(), s.count("l"), s.startswith("  H"), "-" * len(s)
""",
        ["s = 'x'", "table = {108: None}", "table[108] = 'L'"],
        ["Z = 1"],
    ),
    P(
        "bytes",
        """
b = b"abc\\x00"
def f(): return b[0], b.hex(), b + b"d", b.decode("latin1"), int.from_bytes(b, "little"), b"c" in b
""",
        ["b = b'abd\\x00'", "b = bytearray(b'abc\\x00')"],
        ["Z = 1"],
    ),
    P(
        "string.Template",
        """
import string
t = string.Template("$a and ${b}")
values = {"a": 1, "b": [2]}
def f(): return t.substitute(values), t.safe_substitute(a=5)
""",
        ["values['a'] = 3", "values['b'].append(4)", "t.template = '$a'"],
        ["values['z'] = 1"],
        may_refuse=True,
    ),
    P(
        "regular expressions with a function",
        """
import re
pattern = re.compile(r"(\\w)(\\d)")
offset = 1
def shift(m): return m.group(1) + str(int(m.group(2)) + offset)
def f(): return pattern.sub(shift, "a1 b2"), [m.span() for m in pattern.finditer("x9")], re.split(r"\\s+", "a b"), pattern.pattern
""",
        ["offset = 2", "pattern = re.compile('b')", "shift = lambda m: ''"],
        ["Z = 1"],
    ),
    P(
        "json both ways",
        """
import json
d = {"a": [1, 2.5, None, True], "b": {"c": "x"}}
text = '{"k": [1, 2]}'
def f(): return json.dumps(d, sort_keys=True), json.loads(text)["k"]
""",
        ["d['a'][0] = 7", "d['b']['c'] = 'y'", "text = text.replace('1', '5')"],
        ["Z = 1"],
        may_refuse=True,
    ),
    P(
        "textwrap and pprint",
        """
import textwrap
text = "some words that are wrapped"
width = 10
def f(): return textwrap.wrap(text, width), textwrap.dedent("  a\\n  b")
""",
        ["width = 15", "text = 'other words'"],
        ["Z = 1"],
        may_refuse=True,
    ),
    P(
        "removal while iterating over a copy",
        """
L = [1, 2, 3, 4]
def f():
    q = L.copy()
    for x in list(q):
        if x % 2: q.remove(x)
    q.sort(reverse=True); q.extend(L[:1]); q += [7]
    del q[0]
    return q
""",
        ["L[1] = 5", "L.append(6)"],
        ["Z = 1"],
    ),
    P(
        "array of strings as keys built by formatting",
        """
weights = {f"layer{i}.w": i for i in range(3)}
prefix = "layer"
count = 2
def f(): return [weights[f"{prefix}{i}.w"] for i in range(count)], weights.get("%s%d.w" % (prefix, 2))
""",
        ["weights['layer1.w'] = 9", "count = 3", "prefix = 'q'", "weights['layer2.w'] = 4"],
        ["weights['z'] = 1"],
    ),
    P(
        "setdefault and pop on a local copy",
        """
base = {"a": [1]}
def f():
    d = dict(base)
    d.setdefault("b", []).append(2)
    d["a"] = d["a"] + [3]
    return d.pop("a"), d, d.popitem()
""",
        ["base['a'].append(5)", "base['c'] = [9]"],
        ["Z = 1"],
    ),
    P(
        "zip, enumerate, reversed, range",
        """
a = [1, 2, 3]
b = (4, 5, 6)
n = 3
def f(): return list(zip(a, b, strict=True)), list(enumerate(a, start=n)), list(reversed(b)), [a[i] for i in range(n - 1, -1, -1)]
""",
        ["a[0] = 9", "b = (1, 2, 3)", "n = 2", "a.append(1)"],
        ["Z = 1"],
    ),
    P(
        "del of items in a local structure",
        """
template = {"x": {"y": [1, 2, 3]}}
def f():
    import copy
    t = copy.deepcopy(template)
    del t["x"]["y"][0]
    t["x"]["z"] = t["x"].pop("y")
    return t
""",
        ["template['x']['y'].append(4)", "template['x']['q'] = 1"],
        ["Z = 1"],
    ),
]
