"""Programs whose calls change Python state that outlives them.

Each source defines `f(x)` and `state()`, what is to be compared with eager after each call; `args(i)` may
give other arguments for call i.
"""

HEAD = """
import collections, dataclasses, types, weakref
from collections import OrderedDict, defaultdict, namedtuple
from dataclasses import dataclass
from typing import Any
import torch
import torch.nn as nn
import torch.nn.functional as F
class Box:
    def __init__(self, **kw): self.__dict__.update(kw)
"""

# name, source; all of these are served from some call on.
SERVED = {
    # --- attributes
    "attribute_tensor": "o = Box(h=torch.zeros(3))\ndef f(x):\n    o.h = o.h * 0.5 + x\n    return o.h.sum()\ndef state(): return o.h",
    "attribute_constant": "o = Box(mode=None)\ndef f(x):\n    o.mode = 'ran'\n    return x + 1\ndef state(): return o.mode",
    "attribute_new": "o = Box()\ndef f(x):\n    o.out = x * 2\n    return x\ndef state(): return o.__dict__",
    "attribute_deleted": "o = Box()\ndef f(x):\n    o.tmp = x * 2\n    y = o.tmp + 1\n    del o.tmp\n    return y\ndef state(): return o.__dict__",
    "attribute_deleted_for_good": "o = Box()\ndef args(i):\n    o.a = 1\n    return (torch.ones(2) * i,)\ndef f(x):\n    del o.a\n    return x + 1\ndef state(): return o.__dict__",
    "attribute_by_setattr": "o = Box(k=torch.zeros(2))\ndef f(x):\n    setattr(o, 'k', getattr(o, 'k') + x.sum())\n    return o.k\ndef state(): return o.k",
    "attribute_past_setattr": "class C:\n    def __setattr__(s, n, v): object.__setattr__(s, n, v)\no = C(); o.t = torch.zeros(2)\ndef f(x):\n    o.t = o.t + x.mean()\n    return o.t\ndef state(): return o.t",
    "attribute_dict": "o = Box(t=torch.zeros(2))\ndef f(x):\n    o.__dict__['t'] = o.t + x.mean()\n    return x\ndef state(): return o.t",
    "two_attributes": "o = Box(a=torch.zeros(2), b=torch.ones(2))\ndef f(x):\n    o.a, o.b = o.b, o.a + x.mean()\n    return o.a + o.b\ndef state(): return o.a, o.b",
    "attribute_put_back": "o = Box(mode='a')\ndef f(x):\n    o.mode = 'b'\n    y = x * len(o.mode)\n    o.mode = 'a'\n    return y\ndef state(): return o.mode",
    "tensor_put_back": "o = Box(w=torch.ones(3))\ndef f(x):\n    w = o.w\n    o.w = x\n    y = o.w * 2\n    o.w = w\n    return y + o.w\ndef state(): return o.w",
    "item_put_back_among_others": "d = {'a': 1, 'b': 2}\ndef f(x):\n    a = d['a']\n    d['a'] = x\n    d['c'] = d['a'] + 1\n    d['a'] = a\n    return d['c']\ndef state(): return d, list(d)",
    "item_deleted_and_put_back": "d = {'a': 1, 'b': 2}\ndef f(x):\n    a = d['a']\n    del d['a']\n    d['a'] = a\n    return x + 1\ndef state(): return d, list(d)",
    "number_that_comes_out_the_same": "o = Box(n=4)\ndef args(i):\n    o.n = 4 if i < 2 else i\n    return (torch.ones(2) * i,)\ndef f(x):\n    o.n = o.n * 2 - 4\n    return x * 2\ndef state(): return o.n",
    "mode_of_a_module": "torch.manual_seed(0); m = nn.Sequential(nn.Linear(3, 3), nn.Dropout(0.5))\ndef f(x):\n    m.eval()\n    y = m(x)\n    m.train()\n    return y\ndef state(): return m.training, m[1].training",
    "attribute_of_equal_value": "o = Box(n=3000)\ndef f(x):\n    o.n = x.shape[0] * 1000\n    return x * 2\ndef state(): return o.n",
    "item_of_equal_value": "d = {'n': 3000}\ndef f(x):\n    d['n'] = x.shape[0] * 1000\n    d.update(n=x.shape[0] * 500 * 2)\n    return x * 2\ndef state(): return d",
    "global_of_equal_value": "n = 3000\ndef f(x):\n    global n\n    n = x.shape[0] * 1000\n    return x * 2\ndef state(): return n",
    "value_set_back_by_others": "o = Box(n=3000)\ndef args(i):\n    if i % 3 == 2: o.n = i\n    return (torch.ones(3) * i,)\ndef f(x):\n    o.n = x.shape[0] * 1000\n    return x * 2\ndef state(): return o.n",
    "class_attribute": "class C: last = None\ndef f(x):\n    C.last = x * 3\n    return x\ndef state(): return C.last",
    "class_counter": "class C: n = 0\ndef f(x):\n    C.n += 1\n    return x * 2\ndef state(): return C.n",
    "function_attribute": "def f(x):\n    g.calls += 1\n    return x * 2\ndef g(): pass\ng.calls = 0\ndef state(): return g.calls",
    "module_attribute": "m = types.ModuleType('m'); m.h = torch.zeros(2)\ndef f(x):\n    m.h = m.h + x.mean()\n    return m.h\ndef state(): return m.h",
    "slots": "class C:\n    __slots__ = ('h', 'n')\no = C(); o.h = torch.zeros(2); o.n = 0\ndef f(x):\n    o.h = o.h + x.mean()\n    o.n += 1\n    return o.h\ndef state(): return o.h, o.n",
    "property": "class C:\n    @property\n    def h(s): return s._h\n    @h.setter\n    def h(s, v): s._h = v * 2\no = C(); o._h = torch.zeros(2)\ndef f(x):\n    o.h = o.h * 0.25 + x.mean()\n    return o.h\ndef state(): return o._h",
    "property_counter": "class C:\n    @property\n    def n(s): return s._n\n    @n.setter\n    def n(s, v): s._n = v\no = C(); o._n = 0\ndef f(x):\n    o.n += 2\n    return x * 2\ndef state(): return o._n",
    "descriptor": "class D:\n    def __get__(s, o, t=None): return o.__dict__['_v']\n    def __set__(s, o, v): o.__dict__['_v'] = v\nclass C: v = D()\no = C(); o.v = torch.zeros(2)\ndef f(x):\n    o.v = o.v + x.mean()\n    return o.v\ndef state(): return o.v",
    "frozen_dataclass": "@dataclass(frozen=True)\nclass C:\n    h: Any\no = C(torch.zeros(2))\ndef f(x):\n    object.__setattr__(o, 'h', o.h + x.mean())\n    return o.h\ndef state(): return o.h",
    # --- attributes of tensors
    "attribute_of_a_tensor": "t = torch.ones(2)\ndef f(x):\n    t.tag = x.sum()\n    return x * 2\ndef state(): return t.tag",
    "attribute_of_a_result": "o = Box()\ndef f(x):\n    o.y = x * 2\n    o.y.tag, o.y.me, o.y.box = [x], o.y, o\n    return o.y\ndef state(): return list(o.y.__dict__), o.y.tag, o.y.me is o.y, o.y.box is o",
    "attribute_of_a_new_parameter": "def f(x):\n    p = nn.Parameter(x * 2)\n    p.is_bias = True\n    return p, p.is_bias\ndef state(): return None",
    "buffer_that_is_not_kept": "w = torch.ones(3)\ndef f(x): return nn.Buffer(w) * x\ndef state(): return None",
    "attribute_that_is_deleted_again": "t = torch.ones(2)\ndef f(x):\n    t.tag = 1\n    y = x * t.tag\n    del t.tag\n    return y\ndef state(): return t.__dict__",
    # --- globals() and vars()
    "global_by_name": "def f(x):\n    globals()['last'] = x.sum()\n    return x * 2\ndef state(): return globals().get('last')",
    "attributes_by_vars": "o = Box(n=0)\ndef f(x):\n    vars(o)['n'] = vars(o)['n'] + 1\n    return x * 2\ndef state(): return o.n",
    "copies": "import copy\no = Box(k=2, l=[1, 2], h=torch.zeros(2))\ndef f(x):\n    o.h = x + 1\n    p = copy.copy(o)\n    p.k = 3\n    return p.h * p.k * copy.deepcopy(o.l)[1]\ndef state(): return o.h, o.k",
    "moving_average_of_parameters": "torch.manual_seed(0); m, t = nn.Linear(3, 3), nn.Linear(3, 3)\ndef f(x):\n    for p, q in zip(t.parameters(), m.parameters()): p.data.mul_(0.9).add_(q.data, alpha=0.1)\n    return x + 1\ndef state(): return [p.data for p in t.parameters()]",
    "weak_set": "class C: pass\nkeep = [C(), C()]\nfor i, c in enumerate(keep): c.k = i + 1.0\nw = weakref.WeakSet(keep)\ndef f(x): return x * sum(c.k for c in w) * len(w)\ndef state(): return len(w)",
    # --- deques
    "deque_grows": "q = collections.deque(maxlen=3)\ndef f(x):\n    q.append(x.sum())\n    q.append(2.0)\n    return x * 2\ndef state(): return list(q), q.maxlen",
    "deque_of_frames": "o = Box(q=collections.deque([torch.zeros(3)] * 3, maxlen=3))\ndef f(x):\n    o.q.append(x)\n    return torch.cat(list(o.q))\ndef state(): return list(o.q)",
    "deque_is_filled": "q = collections.deque(maxlen=3)\ndef f(x):\n    q.append(x.mean())\n    return torch.stack(list(q)).sum()\ndef state(): return list(q)",
    "deque_of_transitions": "q = collections.deque(maxlen=3)\ndef f(x):\n    q.append((x[0], x.max().item(), {'r': 1.0}))\n    return x * 2\ndef state(): return list(q)",
    "deque_as_argument": "def args(i): return torch.ones(3) * i, collections.deque([torch.ones(1), torch.ones(1) * i], maxlen=2)\ndef f(x, q):\n    q.append(x.sum())\n    return x * q[0], q\ndef state(): return None",
    "deque_is_emptied": "q = collections.deque([1, 2, 3])\ndef f(x):\n    n = q.popleft()\n    q.append(n)\n    q.appendleft(q.pop())\n    return x * n\ndef state(): return list(q)",
    # --- counters and other numbers
    "counter": "o = Box(n=0)\ndef f(x):\n    o.n += 1\n    return x * 2\ndef state(): return o.n",
    "counter_on_module": "class M(nn.Module):\n    def __init__(s):\n        super().__init__(); s.n = 0\n    def forward(s, x):\n        s.n += 1\n        return x * 2\nm = M()\ndef f(x): return m(x)\ndef state(): return m.n",
    "moving_average_of_floats": "o = Box(ema=1.0)\ndef f(x):\n    o.ema = 0.9 * o.ema + 0.1 * 2.5\n    return x * 2\ndef state(): return o.ema",
    "counter_with_condition": "o = Box(n=0)\ndef f(x):\n    o.n += 1\n    if o.n > 1000: return x\n    return x * 2\ndef state(): return o.n",
    "counter_returned": "o = Box(n=3)\ndef f(x):\n    o.n = o.n * 2 - 1\n    o.y = x + 1\n    return o.n\ndef state(): return o.n, o.y",
    "global_counter": "n = 0\ndef f(x):\n    global n\n    n = n + 1\n    return x * 2\ndef state(): return n",
    "dict_counter": "d = {'n': 0}\ndef f(x):\n    d['n'] += 1\n    return x * 2\ndef state(): return d",
    "dict_counter_get": "d = {}\ndef f(x):\n    d['n'] = d.get('n', 0) + 1\n    return x * 2\ndef state(): return d",
    "closure_counter": "def mk():\n    n = 0\n    def f(x):\n        nonlocal n\n        n += 1\n        return x * 2\n    def state(): return n\n    return f, state\nf, state = mk()",
    "counter_through_function": "o = Box(n=0)\ndef bump(k, by=1): return k + by\ndef f(x):\n    o.n = bump(o.n, by=3)\n    return x * 2\ndef state(): return o.n",
    "counter_twice": "o = Box(n=0, m=0)\ndef f(x):\n    o.n += 1\n    o.m = o.n * 2\n    o.n += 1\n    return x * 2\ndef state(): return o.n, o.m",
    "negative_counter": "o = Box(n=5)\ndef f(x):\n    o.n = -o.n - 1\n    return x * 2\ndef state(): return o.n",
    "big_counter": "o = Box(n=2**70)\ndef f(x):\n    o.n = o.n // 3 + o.n % 7\n    return x * 2\ndef state(): return o.n",
    "counter_reset": "o = Box(n=0)\ndef f(x):\n    o.n += 1\n    y = x * 2\n    o.n = 0\n    return y\ndef state(): return o.n",
    "dict_filled_then_read": "o = Box(d={})\ndef f(x):\n    o.d['a'] = x * 2\n    o.d['b'] = x + 1\n    y = sum(o.d.values())\n    o.d = {}\n    return y\ndef state(): return o.d",
    "defaultdict_filled_then_read": "def new(): return {'n': 0, 'seen': {}}\no = Box(d=defaultdict(new))\nkey = object()\ndef f(x):\n    o.d[id(key)]['n'] = 1\n    o.d[id(key)]['seen']['x'] = x.sum()\n    y = sum(v['seen']['x'] for v in o.d.values())\n    o.d = defaultdict(new)\n    return y\ndef state(): return o.d",
    "state_by_tensor": "p = torch.ones(3); q = nn.Parameter(torch.zeros(3)); s = defaultdict(dict)\ndef f(x):\n    for t in (p, q):\n        d = s[t]\n        if not d: d['n'] = 0; d['sum'] = torch.zeros(3)\n        d['n'] += 1\n        d['sum'] = d['sum'] + x\n    return s[p]['sum'] * s[q]['n']\ndef state(): return list(s.values())",
    "tensor_for_a_number": "o = Box(lr=torch.tensor(0.5))\ndef f(x):\n    o.lr = o.lr * 0.75\n    return x.add(x, alpha=o.lr) + x.clamp(max=o.lr)\ndef state(): return o.lr",
    # --- modules
    "buffer": "class M(nn.Module):\n    def __init__(s):\n        super().__init__(); s.register_buffer('h', torch.zeros(3))\n    def forward(s, x):\n        s.h = s.h * 0.9 + x.detach() * 0.1\n        return x + s.h\nm = M()\ndef f(x): return m(x)\ndef state(): return m.h, list(m.state_dict())",
    "module_hidden_state": "class M(nn.Module):\n    def __init__(s):\n        super().__init__(); s.cell = nn.GRUCell(3, 4); s.h = None\n    def forward(s, x):\n        s.h = s.cell(x, s.h).detach()\n        return s.h\ntorch.manual_seed(0); m = M()\ndef args(i): return (torch.ones(2, 3) * i,)\ndef f(x): return m(x)\ndef state(): return m.h",
    "lstm_state_tuple": "class M(nn.Module):\n    def __init__(s):\n        super().__init__(); s.cell = nn.LSTMCell(3, 4); s.hc = (torch.zeros(2, 4), torch.zeros(2, 4))\n    def forward(s, x):\n        h, c = s.cell(x, s.hc)\n        s.hc = (h.detach(), c.detach())\n        return h\ntorch.manual_seed(0); m = M()\ndef args(i): return (torch.ones(2, 3) * i,)\ndef f(x): return m(x)\ndef state(): return m.hc",
    "module_output_kept": "class M(nn.Module):\n    def __init__(s):\n        super().__init__(); s.l = nn.Linear(3, 3); s.last = None\n    def forward(s, x):\n        s.last = s.l(x)\n        return s.last.sum()\ntorch.manual_seed(0); m = M()\ndef f(x): return m(x)\ndef state(): return m.last, m.last.requires_grad",
    "weights_average": "torch.manual_seed(0); m = nn.Linear(3, 3); avg = {}\ndef f(x):\n    for k, v in m.named_parameters():\n        avg[k] = avg[k] * 0.9 + v.detach() * 0.1 if k in avg else v.detach().clone()\n    return m(x)\ndef state(): return avg",
    "num_batches_int": "class M(nn.Module):\n    def __init__(s):\n        super().__init__(); s.num_batches = 0; s.register_buffer('mean', torch.zeros(3))\n    def forward(s, x):\n        s.num_batches += 1\n        s.mean = s.mean + x\n        return s.mean * 2\nm = M()\ndef f(x): return m(x)\ndef state(): return m.num_batches, m.mean",
    "submodule_counters": "class A(nn.Module):\n    def __init__(s):\n        super().__init__(); s.n = 0; s.l = nn.Linear(3, 3)\n    def forward(s, x):\n        s.n += 1\n        return s.l(x)\ntorch.manual_seed(0); m = nn.Sequential(A(), A())\ndef f(x): return m(x)\ndef state(): return [a.n for a in m]",
    # --- containers
    "list_append": "L = []\ndef f(x):\n    L.append(x * 2)\n    return x\ndef state(): return L",
    "list_append_constant": "L = []\ndef f(x):\n    L.append('step')\n    L.append(None)\n    return x * 2\ndef state(): return L",
    "list_of_window": "L = [torch.zeros(3), torch.zeros(3)]\ndef f(x):\n    L.append(x * 2)\n    L.pop(0)\n    return L[0] + L[1]\ndef state(): return L",
    "list_set_item": "L = [torch.zeros(3), torch.ones(3)]\ndef f(x):\n    L[0] = L[0] + x\n    return L[0] * L[1]\ndef state(): return L",
    "list_replaced": "o = Box(L=[torch.zeros(3)])\ndef f(x):\n    o.L = [o.L[0] + x, x]\n    o.L.pop()\n    return o.L[0]\ndef state(): return o.L",
    "list_inplace_add": "o = Box(L=[])\ndef args(i):\n    o.L = []\n    return (torch.ones(2) * i,)\ndef f(x):\n    o.L += [x * 2]\n    return x\ndef state(): return o.L",
    "list_sorted": "L = [3, 1, 2]\ndef args(i):\n    L[:] = [3, 1, 2]\n    return (torch.ones(2) * i,)\ndef f(x):\n    L.sort(); L.reverse()\n    return x * 2\ndef state(): return L",
    "dict_set": "d = {}\ndef f(x):\n    d['y'] = x * 2\n    d['z'] = d['y'] + 1\n    return x\ndef state(): return d, list(d)",
    "dict_update": "d = {'a': torch.zeros(2)}\ndef f(x):\n    d.update(a=d['a'] + x.mean(), b='b')\n    return d['a']\ndef state(): return d",
    "dict_pop": "d = {}\ndef args(i):\n    d['k'] = torch.ones(2) * i\n    return (torch.ones(2),)\ndef f(x): return x + d.pop('k')\ndef state(): return d",
    "dict_setdefault": "d = {}\ndef args(i):\n    d.clear()\n    return (torch.ones(2) * i,)\ndef f(x):\n    d.setdefault('log', 'none')\n    return x * 2\ndef state(): return d",
    "dict_delete": "d = {}\ndef args(i):\n    d['k'] = 1\n    return (torch.ones(2) * i,)\ndef f(x):\n    del d['k']\n    return x * 2\ndef state(): return d",
    "dict_cleared": "d = {}\ndef args(i):\n    d['k'] = 1\n    return (torch.ones(2) * i,)\ndef f(x):\n    d.clear()\n    d['n'] = 2\n    return x * 2\ndef state(): return d",
    "ordered_dict": "d = OrderedDict(a=torch.zeros(2), b=1)\ndef f(x):\n    d['a'] = d['a'] + x.mean()\n    d['c'] = 3\n    return d['a']\ndef state(): return d, list(d)",
    "default_dict": "d = defaultdict(int)\ndef args(i):\n    d.clear()\n    return (torch.ones(2) * i,)\ndef f(x):\n    d['q']\n    return x * 2\ndef state(): return dict(d)",
    "a_closure_is_stored": "o = Box()\ndef f(x):\n    o.g = lambda: x\n    return x * 2\ndef state(): return o.g()",
    "set_of_many": "o = Box()\ndef f(x):\n    o.s = {'a', 'b'}\n    return x * 2\ndef state(): return sorted(o.s)",
    "set_add": "S = {'a'}\ndef args(i):\n    S.discard('b')\n    return (torch.ones(2) * i,)\ndef f(x):\n    S.add('b')\n    return x * 2\ndef state(): return sorted(S)",
    "nested_new": "o = Box()\ndef f(x):\n    y = x * 2\n    o.out = {'a': [y, (y + 1, None)], 'b': {'y': y}}\n    return y\ndef state(): return o.out",
    "dataclass_new": "@dataclass\nclass S:\n    h: Any\n    n: int = 0\no = Box(s=S(torch.zeros(2)))\ndef f(x):\n    o.s = S(o.s.h + x.mean(), 3)\n    return o.s.h\ndef state(): return o.s.h, o.s.n",
    "namedtuple_new": "P = namedtuple('P', 'a b')\no = Box(p=P(torch.zeros(2), 1))\ndef f(x):\n    o.p = P(o.p.a + x.mean(), 2)\n    return o.p.a\ndef state(): return o.p",
    "object_new": "class C:\n    def __init__(s, h): s.h = h; s.made = True\no = Box(c=C(torch.zeros(2)))\ndef f(x):\n    o.c = C(o.c.h + x.mean())\n    return o.c.h\ndef state(): return o.c.h, o.c.made, type(o.c).__name__",
    "cyclic_new": "o = Box()\ndef f(x):\n    a = Box(x=x * 2); a.me = a; o.a = a\n    return x\ndef state(): return o.a.me is o.a, o.a.x",
    "cache_of_keys": "o = Box(k=[])\ndef args(i):\n    if i % 4 == 0: o.k = [None, None]\n    return (torch.ones(1, 2) * i,)\ndef f(x):\n    for l in range(2):\n        o.k[l] = x if o.k[l] is None else torch.cat([o.k[l], x])\n        x = x + o.k[l].sum()\n    return x\ndef state(): return o.k",
    # --- globals and cells
    "global_tensor": "h = torch.zeros(2)\ndef f(x):\n    global h\n    h = h + x.mean()\n    return h\ndef state(): return h",
    "global_deleted": "def args(i):\n    globals()['t'] = 1\n    return (torch.ones(2) * i,)\ndef f(x):\n    global t\n    del t\n    return x * 2\ndef state(): return 't' in globals()",
    "cell_tensor": "def mk():\n    h = torch.zeros(2)\n    def f(x):\n        nonlocal h\n        h = h + x.mean()\n        return h\n    return f, lambda: h\nf, state = mk()",
    "cell_of_inner_function": "o = Box(t=torch.zeros(2))\ndef f(x):\n    n = x * 2\n    def g():\n        nonlocal n\n        n = n + 1\n    g(); o.t = n\n    return n\ndef state(): return o.t",
    # --- order, identity, aliasing
    "same_attribute_twice": "o = Box()\ndef f(x):\n    o.a = x * 2\n    o.a = o.a + 1\n    return o.a\ndef state(): return o.a",
    "order_of_keys": "d = {}\ndef args(i):\n    d.clear()\n    return (torch.ones(2) * i,)\ndef f(x):\n    d['b'] = x; d['a'] = x * 2; del d['b']; d['b'] = 1\n    return x * 2\ndef state(): return list(d)",
    "one_tensor_in_two_places": "o = Box(); p = Box()\ndef f(x):\n    o.t = p.t = x * 2\n    return o.t\ndef state(): return o.t is p.t, o.t",
    "one_list_in_two_places": "o = Box(); p = Box()\ndef f(x):\n    L = [x * 2]; o.t = L; p.t = L\n    L.append(1)\n    return L\ndef state(): return o.t is p.t, o.t",
    "result_is_stored": "o = Box()\ndef f(x):\n    o.t = {'y': x * 2}\n    return o.t\ndef state(): return o.t",
    "a_view_is_stored": "o = Box()\ndef f(x):\n    y = x * 2\n    o.v = y[:1]\n    return y\ndef state(): return o.v",
    "an_argument_is_stored": "o = Box(last=None)\ndef f(x):\n    o.last = x\n    return x * 2\ndef state(): return o.last",
    "a_view_of_an_argument_is_stored": "o = Box()\ndef f(x):\n    o.last = x.view(-1)\n    return x * 2\ndef state(): return o.last",
    "previous_argument": "o = Box(last=torch.zeros(2))\ndef args(i): return (torch.ones(2) * i,)\ndef f(x):\n    y = x - o.last\n    o.last = x\n    return y\ndef state(): return o.last",
    "stored_and_changed_in_place": "o = Box()\ndef f(x):\n    y = x * 2\n    o.t = y\n    y.add_(1)\n    return y\ndef state(): return o.t",
    "a_parameter_is_stored": "w = nn.Parameter(torch.ones(3)); o = Box()\ndef f(x):\n    o.w = w\n    return x * w\ndef state(): return o.w is w",
    "an_older_object_is_stored": "a = Box(k=1); o = Box()\ndef f(x):\n    o.a = a\n    return x * a.k\ndef state(): return o.a is a",
    "swap_of_objects": "o = Box(a=Box(v=1), b=Box(v=1))\ndef f(x):\n    o.a, o.b = o.b, o.a\n    return x * o.a.v\ndef state(): return o.a.v, o.b.v",
    "history_is_kept": "w = nn.Parameter(torch.ones(3)); o = Box()\ndef f(x):\n    o.y = (x * w).sum()\n    return x * 2\ndef state():\n    w.grad = None; o.y.backward(retain_graph=True)\n    return o.y.grad_fn is not None, w.grad",
    "bound_method_is_stored": "class C:\n    def g(s): return 1\nc = C(); o = Box()\ndef f(x):\n    o.g = c.g\n    return x * 2\ndef state(): return o.g.__self__ is c, o.g()",
    # --- control flow around effects
    "exception_after_an_effect": "o = Box(n=0)\ndef g(x):\n    o.n += 1\n    raise ValueError\ndef f(x):\n    try: g(x)\n    except ValueError: o.e = 'caught'\n    return x * 2\ndef state(): return o.n, o.e",
    "finally": "o = Box(depth=0)\ndef f(x):\n    o.depth += 1\n    try: return x * 2\n    finally: o.depth -= 1\ndef state(): return o.depth",
    "context_manager": "class C:\n    on = False\n    def __enter__(s): C.on = True\n    def __exit__(s, *a): C.on = False\ndef f(x):\n    with C(): y = x * 2 if C.on else x\n    return y\ndef state(): return C.on",
    "generator": "o = Box()\ndef g(x):\n    for i in range(3):\n        o.i = i\n        yield x * i\ndef f(x): return sum(g(x))\ndef state(): return o.i",
    "recursion": "o = Box(d=0)\ndef g(x, n):\n    o.d = o.d + 1\n    return g(x + 1, n - 1) if n else x * 2\ndef f(x): return g(x, 3)\ndef state(): return o.d",
    "lazy_initialisation": "o = Box(c=None)\ndef f(x):\n    if o.c is None: o.c = torch.arange(3.0)\n    return x + o.c\ndef args(i): return (torch.ones(3) * i,)\ndef state(): return o.c",
    "toggle": "o = Box(on=False)\ndef f(x):\n    o.on = not o.on\n    return x * 2 if o.on else x * 3\ndef state(): return o.on",
    "weak_reference": "a = Box(v=2); r = weakref.ref(a); o = Box()\ndef f(x):\n    o.y = x * r().v\n    return o.y\ndef state(): return o.y",
    "object_of_the_call": "def f(x):\n    b = Box(n=0); b.n += 1; b.L = []; b.L.append(x)\n    return b.L[0] * b.n\ndef state(): return None",
}  # fmt: skip

# Programs that are refused, with what the reason must name.
REFUSED = {
    "a_generator_is_stored": ("o = Box()\ndef f(x):\n    o.g = (i for i in range(2))\n    return x * 2\ndef state(): return list(o.g)", "].g"),
    "an_attribute_of_an_argument": ("def f(x):\n    x.tag = 1\n    return x * 2\ndef state(): return None", "tag"),
    "the_data_of_a_tensor": ("t = torch.ones(3)\ndef f(x):\n    t.data = x * 2\n    return x * 2\ndef state(): return t.data.tolist()", "data"),
    "a_tensor_as_a_key": ("d = {}\ndef f(x):\n    d[x] = 1\n    return x * 2\ndef state(): return len(d)", "key"),
    "print": ("def f(x):\n    print(x, end='')\n    return x * 2\ndef state(): return None", "print"),
    "finalizer": ("class C:\n    def __del__(s): pass\no = Box()\ndef f(x):\n    o.c = C()\n    return x * 2\ndef state(): return None", "cannot be made again"),
}  # fmt: skip
