"""Every write that outlives the call is an effect; nothing else is."""

import pytest
from program import Program

from fulgurite import _C

# source, the effects as (kind, text)
EFFECTS = [
    ("n = 0\ndef f():\n    global n\n    n += 1", [("set_global", "sets the global n")]),
    ("n = 0\ndef f():\n    global n\n    del n", [("del_global", "deletes the global n")]),
    ("L = []\ndef f(): L.append(1)", [("mutate", "calls globals()['L'].append")]),
    ("L = [3, 1]\ndef f(): L.sort()", [("mutate", "calls globals()['L'].sort")]),
    ("L = [3, 1]\ndef g(q): q += [1]\ndef f(): g(L)", [("mutate", "calls globals()['L'].__iadd__")]),
    ("L = [3]\ndef f(): L[:] = [1, 2]", [("set_item", "sets globals()['L'][slice(None, None, None)]")]),
    ("L = [3]\ndef f(): L[0] = 4", [("set_item", "sets globals()['L'][0]")]),
    ("d = {}\ndef f(): d['a'] = 1", [("set_item", "sets globals()['d']['a']")]),
    ("d = {'a': 1}\ndef f(): del d['a']", [("del_item", "deletes globals()['d']['a']")]),
    ("d = {}\ndef f():\n    d['a'] = 1\n    d.update(b=2)\n    return d['a']",
     [("set_item", "sets globals()['d']['a']"), ("mutate", "calls globals()['d'].update")]),
    ("d = {}\ndef f(): return d.setdefault('a', 1)", [("mutate", "calls globals()['d'].setdefault")]),
    ("d = {'a': 1}\ndef f(): return d.setdefault('a', 2)", []),
    ("d = {'a': 1}\ndef f(): return d.pop('a')", [("mutate", "calls globals()['d'].pop")]),
    ("d = {}\ndef f(): return d.pop('a', 0)", []),
    ("S = set()\ndef f(): S.add(1)", [("mutate", "calls globals()['S'].add")]),
    ("import collections\nd = collections.defaultdict(int)\ndef f(): return d['q']",
     [("mutate", "fills in globals()['d']['q']")]),
    ("import collections\nq = collections.OrderedDict(a=1, b=2)\ndef f(): q.move_to_end('a')",
     [("mutate", "calls globals()['q'].move_to_end")]),
    ("import heapq\nL = [3]\ndef f(): heapq.heappush(L, 1)", [("mutate", "calls globals()['L'].heappush")]),
    ("import operator\nd = {}\ndef f(): operator.setitem(d, 'a', 1)", [("set_item", "sets globals()['d']['a']")]),
    ("import operator\nL = [3]\ndef f(): operator.iadd(L, [1])", [("mutate", "calls globals()['L'].iadd")]),
    ("class C: pass\no = C()\ndef f(): o.k = 5", [("set_attr", "sets globals()['o'].k")]),
    ("class C: n = 0\ndef f(): C.n += 1", [("set_attr", "sets C.n")]),
    ("class C: pass\no = C(); o.k = 1\ndef f(): del o.k", [("del_attr", "deletes globals()['o'].k")]),
    ("class C:\n    __slots__ = ('x',)\no = C()\ndef f(): o.x = 1", [("set_attr", "sets globals()['o'].x")]),
    ("class C: pass\no = C()\ndef f(): setattr(o, 'k', 1)", [("set_attr", "sets globals()['o'].k")]),
    ("class C: pass\no = C()\ndef f(): object.__setattr__(o, 'k', 1)", [("set_attr", "sets globals()['o'].k")]),
    ("class C: pass\no = C()\ndef f(): o.__dict__['x'] = 1",
     [("set_item", "sets globals()['o'].__dict__['x']")]),
    ("class C: pass\no = C()\ndef f(): o.__dict__.update(x=1)",
     [("mutate", "calls globals()['o'].__dict__.update")]),
    ("class C:\n    @property\n    def p(s): return 0\n    @p.setter\n    def p(s, v): s._p = v\no = C()\n"
     "def f(): o.p = 1", [("set_attr", "sets globals()['o']._p")]),
    ("def g(): pass\ndef f(): g.k = 1", [("set_attr", "sets globals()['g'].k")]),
    ("import types\nm = types.ModuleType('m')\ndef f(): m.k = 1", [("set_attr", "sets m.k")]),
    ("import os\ndef f(): os.environ['RSX'] = '5'", None),
    ("def mk():\n    n = 0\n    def f():\n        nonlocal n\n        n += 1\n    return f\nf = mk()",
     [("set_cell", "sets the outer variable n")]),
    ("def f(): print(end='')", [("print", "calls builtins.print")]),
    ("import logging\nlog = logging.getLogger('fulgurite.test')\nlog.addHandler(logging.NullHandler())\n"
     "log.propagate = False\nlog.isEnabledFor(40)\ndef f(): log.error('x')", [("log", "logs to globals()['log']")]),
    ("import warnings\nwarnings.simplefilter('ignore')\ndef f(): warnings.warn('x')",
     [("warn", "shows a <class UserWarning>")]),
    ("import torch\nw = torch.ones(2, requires_grad=True)\ndef f(): w.grad = torch.ones(2)",
     [("tensor_attr", "sets globals()['w'].grad")]),
    ("import torch\nw = torch.ones(2)\ndef f(): w.tag = 1", [("tensor_attr", "sets globals()['w'].tag")]),
    ("import torch\nw = torch.ones(2, requires_grad=True)\ndef f(): (w * 2).sum().backward()",
     [("backward", "runs backward(), which accumulates into the .grad of leaf tensors")]),
    # Writes that change nothing, and writes to what the run made itself.
    ("class C: pass\no = C(); o.k = 5\ndef f(): o.k = 5", []),
    ("d = {'a': 'x'}\ndef f(): d['a'] = 'x'", []),
    ("def f():\n    L = []; d = {}\n    class Q: pass\n    q = Q(); q.x = 1\n"
     "    for i in range(3): L.append(i); d[i] = i\n    L.sort(); d.update(a=1); q.__dict__['y'] = 2\n"
     "    return len(L) + d[1] + q.x", []),
]  # fmt: skip


@pytest.mark.parametrize("source, expected", EFFECTS, ids=[repr(e[0])[-60:] for e in EFFECTS])
def test_reports_writes(source, expected):
    _, watched = Program("effects", source).watch(warm=False)
    effects = [(kind, text) for kind, text, _, _ in watched.effects()]
    if expected is None:  # reaches C code as well: an effect or a refusal
        assert effects or watched.refusals()
        return
    assert watched.refusals() == []
    assert effects == expected
    assert all(file == "<effects>" and line > 0 for _, _, file, line in watched.effects())


def test_a_write_that_changes_nothing_is_guarded():
    scope, watched = Program("same", "class C: pass\no = C(); o.k = 5\ndef f(): o.k = 5").watch()
    assert watched.check()
    scope["o"].k = 6
    assert not watched.check()


def test_reading_before_writing_guards_the_old_value():
    scope, watched = Program("counter", "n = 0\ndef f():\n    global n\n    n += 1").watch(
        warm=False
    )
    assert not watched.check()
    assert "globals()['n'] == 0" in watched.explain_failure()
    scope["n"] = 0
    assert watched.check()


def test_reading_back_what_was_written_needs_no_guard():
    scope, watched = Program("own", "def f():\n    global n\n    n = [1]\n    return n[0]").watch(
        warm=False
    )
    assert not any("['n']" in expression for _, expression, _ in watched.guards())


def test_argument_containers_are_changed_visibly():
    def f(batch):
        batch["seen"] = 1
        return batch["x"] + len(batch["ids"])

    _, watched = _C._watch(f, ({"x": 1, "ids": [1, 2]},), {})
    assert [(k, t) for k, t, _, _ in watched.effects()] == [("set_item", "sets batch['seen']")]
    assert watched.refusals() == [] and watched.check()


def test_an_argument_found_in_python_state_as_well_is_refused():
    scope, _ = Program("twice", "L = [1]\ndef f(x): return x[0] + L[0]\nargs = ([0],)").watch()
    _, watched = _C._watch(scope["f"], (scope["L"],), {})
    assert any("in Python state as well" in what for what, _, _ in watched.refusals())
