"""Deques, and other containers of C code that Python classes derive from."""

from program import Program as P

PROGRAMS = [
    P(
        "a deque by index and length",
        "import collections\nq = collections.deque([1, 2, 3], maxlen=5)\ndef f(): return q[0], q[-1], len(q), q.maxlen",
        [
            "q.append(4)",
            "q[0] = 9",
            "q.appendleft(1)",
            "q.rotate(1)",
            "q = collections.deque([1, 2, 3])",
        ],
        ["q[1] = 7"],
    ),
    P(
        "the whole of a deque",
        "import collections\nq = collections.deque([1.0, 2.0])\ndef f(): return sum(q), list(q), [v for v in q], next(reversed(q)), 2.0 in q, [*q]",
        ["q.append(4.0)", "q[1] = 9.0", "q.clear()", "q.reverse()"],
        ["Z = 1", "q[0] = 1.0"],
    ),
    P(
        "a deque among others",
        "import collections, copy\nL = [collections.deque([1, [2]])]\ndef f(): return str(L), L == [collections.deque([1, [2]])], copy.copy(L[0]), (lambda a, b: a)(*L[0])",
        ["L[0].append(4)", "L[0][1].append(9)", "L[0][0] = 5"],
        ["Z = 1"],
    ),
    P(
        "truth of a deque",
        "import collections\nq = collections.deque()\ndef f(): return 1 if q else 2",
        ["q.append(4)"],
        ["Z = 1"],
    ),
    P(
        "a subclass of deque",
        "import collections\nclass Q(collections.deque): pass\nq = Q([1, 2])\ndef f(): return sum(q), q[0], len(q), list(q)",
        [
            "q.append(4)",
            "q[0] = 9",
            "q.popleft()",
            "Q.__len__ = lambda s: 7",
            "Q.__iter__ = lambda s: iter([5])",
        ],
        ["Z = 1"],
    ),
    P(
        "length of memory",
        "import array\nclass B(bytearray): pass\nclass A(array.array): pass\nb, a = B(b'ab'), A('i', [1])\ndef f(): return len(b) + len(a)",
        ["b.append(1)", "a.append(1)"],
        may_refuse=True,
    ),
    P(
        "truth of memory",
        "b = bytearray()\ndef f(): return 1 if b else 2",
        ["b.append(1)"],
        may_refuse=True,
    ),
    P(
        "sum over a subclass of array",
        "import array\nclass A(array.array): pass\na = A('i', [1, 2])\ndef f(): return sum(a)",
        ["a[0] = 5", "a.append(1)"],
        may_refuse=True,
    ),
    P(
        "nothing to take from",
        "import collections\nL, q, s = [], collections.deque(), set()\ndef g(take):\n    try: return take()\n    except (IndexError, KeyError): return 0\ndef f(): return g(L.pop), g(q.popleft), g(q.pop), g(s.pop)",
        [],
        ["Z = 1"],
    ),
    P(
        "ends of equal ranges",
        "r = range(0, 3, 2)\ndef f(): return r.stop, len(r)",
        ["r = range(0, 4, 2)", "r = range(3)"],
        ["r = range(0, 3, 2)"],
    ),
]
