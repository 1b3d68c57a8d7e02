"""Where attributes live: in the object, in its dict, in both (CPython 3.13), and every way to change them."""

from program import Program as P

# Functions that have been called often are specialised by the interpreter: for objects without a dict, too.
CLASS = """
class C:
    k = 0
    def __init__(self, a=1, b=2):
        self.a, self.b = a, b
    def set_a(self, a): self.a = a
    def set_c(self, c): self.c = c
    def set_k(self, k): self.k = k
    def del_a(self): del self.a
def warm():
    for i in range(100):
        o = C(i)
        o.set_a(i); o.set_c(i); o.set_k(i); o.del_a()
    return C(1)
"""
CHANGES_OF_A = [
    "o.a = 5",
    "o.set_a(5)",
    "setattr(o, 'a', 5)",
    "object.__setattr__(o, 'a', 5)",
    "o.__dict__['a'] = 5",
    "vars(o).update(a=5)",
    "o.__dict__ |= {'a': 5}",
    "o.__dict__ = {'a': 5, 'b': 2}",
    "o.__init__(5)",
    "import copy; o.__setstate__ = None; o.__dict__.update(copy.copy(C(5)).__dict__)",
    "del o.a",
    "o.del_a()",
    "delattr(o, 'a')",
    "del o.__dict__['a']",
    "o.__dict__.pop('a')",
    "o.__dict__.clear()",
    "o.__dict__ = {}",
    "del o.__dict__",
]
ELSEWHERE = ["p = C(7); p.set_a(8); p.set_c(9)", "o.set_c(3)", "o.set_b = 3", "o.__dict__['d'] = 4"]

PROGRAMS = [
    P(
        "attributes of an object whose dict nobody has asked for",
        f"{CLASS}\no = warm()\ndef f(): return getattr(o, 'a', None)",
        CHANGES_OF_A,
        [*ELSEWHERE, "o.b = 5"],
    ),
    P(
        "attributes of an object whose dict was asked for",
        f"{CLASS}\no = warm()\no.__dict__\ndef f(): return getattr(o, 'a', None)",
        CHANGES_OF_A,
        [*ELSEWHERE, "o.b = 5"],
    ),
    P(
        "attributes of an object whose dict is another object's",
        f"{CLASS}\no, p = warm(), C(3)\np.__dict__ = o.__dict__\ndef f(): return getattr(o, 'a', None)",
        [*CHANGES_OF_A, "p.set_a(5)", "del p.a"],
        ["o.b = 5", "p.set_c(4)", "p.__dict__ = {}"],
    ),
    P(
        "a dict whose object the program does not know",
        f"{CLASS}\no = warm()\nd = o.__dict__\ndef f(): return d.get('a')",
        [
            "o.a = 5",
            "o.set_a(5)",
            "d['a'] = 5",
            "o.__init__(5)",
            "del o.a",
            "d.clear()",
            "d = {'a': 5}",
        ],
        ["o.b = 5", "o.set_c(3)", "C.a = 4"],
    ),
    P(
        "the dict of an object as a whole",
        f"{CLASS}\no = warm()\ndef f(): return [(k, v) for k, v in o.__dict__.items()], len(o.__dict__)",
        [
            "o.set_a(5)",
            "o.set_c(5)",
            "v = o.a; del o.a; o.a = v",
            "o.__dict__['new'] = 1",
            "o.del_a()",
            "setattr(o, 'b', 3)",
        ],
        ["C.k = 4", "C(3).set_c(5)"],
    ),
    P(
        "an attribute that is not there yet",
        f"{CLASS}\no = warm()\ndef f(): return hasattr(o, 'c'), getattr(o, 'd', 0)",
        [
            "o.c = 1",
            "o.set_c(1)",
            "setattr(o, 'd', 1)",
            "vars(o)['c'] = 1",
            "o.__dict__ = {'d': 1}",
            "C.c = 1",
            "C.__getattr__ = lambda s, n: 3",
        ],
        ["o.a = 5", "p = C(2); p.set_c(3)"],
    ),
    P(
        "an object without any attributes",
        """
class E:
    def set(self, x): self.x = x
for i in range(100): E().set(i)
e, g = E(), E()
g.__dict__
def f(): return getattr(e, "x", 0), getattr(g, "x", 0)
""",
        [
            "e.x = 1",
            "g.x = 1",
            "e.set(1)",
            "g.set(1)",
            "vars(g).update(x=1)",
            "e.__dict__ = {'x': 1}",
        ],
        ["e.y = 1", "g.y = 1", "E().set(3)"],
    ),
    P(
        "a class attribute that an object shadows later",
        f"{CLASS}\no = warm()\ndef f(): return o.k",
        ["o.k = 1", "o.set_k(1)", "o.__dict__['k'] = 1", "C.k = 1", "del C.k; C.k = 2"],
        ["o.a = 5", "p = C(); p.set_k(3)", "o.set_c(1)"],
    ),
    P(
        "a method that an object shadows later",
        """
class C:
    def m(self): return 1
    def shadow(self): self.m = abs
for i in range(100): C().shadow()
o = C()
def f(): return o.m()
""",
        ["o.m = lambda: 2", "o.__dict__['m'] = lambda: 2", "C.m = lambda s: 3"],
        ["o.n = 1", "C().shadow()"],
    ),
    P(
        "more attributes than an object holds itself",
        """
class C:
    def __init__(self):
        for i in range(40): setattr(self, f"a{i}", i)
o, p = C(), C()
p.__dict__
def f(): return o.a0 + o.a39, p.a1 + p.a38
""",
        ["o.a0 = 5", "o.a39 = 5", "p.a1 = 5", "p.__dict__['a38'] = 5", "del o.a39"],
        ["o.a1 = 5", "p.a0 = 5"],
    ),
    P(
        "attributes of objects that hold more than attributes",
        """
class L(list): pass
class S:
    __slots__ = ("s", "__dict__", "__weakref__")
l, s = L([1]), S()
l.x, s.s, s.x = 1, 2, 3
def f(): return l.x, s.s, s.x, getattr(l, "y", 0)
""",
        [
            "l.x = 5",
            "s.s = 5",
            "s.x = 5",
            "l.y = 5",
            "s.__dict__ = {'x': 9}",
            "vars(l).update(x=6)",
        ],
        ["s.y = 1", "l.append(3)", "l.z = 3"],
    ),
    P(
        "attributes that the program asks for while it goes through them",
        f"{CLASS}\no = warm()\nd = o.__dict__\ndef f():\n    return [getattr(o, k) for k in d]",
        ["o.a = 5", "o.set_c(1)", "d.pop('b')"],
        ["C.k = 4"],
    ),
    P(
        "an attribute that is stored as it was",
        f"{CLASS}\no = warm()\no.__dict__\ndef f():\n    o.set_a(1)\n    o.b = 2\n    return o.a + o.b",
        ["o.a = 5", "o.b = 5", "o.__dict__ = {'a': 1, 'b': 1}"],
        ["o.set_c(3)"],
    ),
]
