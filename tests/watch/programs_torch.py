"""Programs of torch: hooks, parametrizations, replaced functions, modes and flags."""

from program import Program as P

HEAD = "import torch, torch.nn as nn, torch.nn.functional as F\ntorch.manual_seed(0)\n"
ARGS = "x = torch.ones(2, 3)\nargs = (x,)\n"


def program(name, source, consulted, unrelated=(), may_refuse=False):
    return P(name, HEAD + source + ARGS, list(consulted), list(unrelated), may_refuse)


PROGRAMS = [
    program(
        "hooks added later",
        """
class M(nn.Module):
    def __init__(self):
        super().__init__()
        self.l = nn.Linear(3, 3)
    def forward(self, x, k=1): return self.l(x) * k
f = M()
""",
        [
            "f.register_forward_hook(lambda m, a, o: o * 2)",
            "f.l.register_forward_pre_hook(lambda m, a: (a[0] + 1,))",
            "f.register_forward_pre_hook(lambda m, a, k: (a, dict(k=3)), with_kwargs=True)",
            "f.register_forward_hook(lambda m, a, k, o: o + 1, with_kwargs=True)",
            "f.l.register_forward_hook(lambda m, a, o: o * 3, always_call=True)",
            "nn.modules.module.register_module_forward_hook(lambda m, a, o: o * 2)",
            "f.__class__.__call__ = lambda s, x: x",
            "f.l.forward = lambda x: x",
            "nn.Module.__call__ = nn.Module.__call__; f.l._call_impl = lambda x: x",
        ],
        ["f.extra = 1", "f.l.register_buffer('unused', torch.ones(1))"],
    ),
    program(
        "a hook's own state",
        """
f = nn.Linear(3, 3)
scale = [2.0]
handle = f.register_forward_hook(lambda m, a, o: o * scale[0])
""",
        ["scale[0] = 3.0", "handle.remove()"],
        ["scale.append(1)"],
    ),
    program(
        "parametrization registered and removed",
        """
import torch.nn.utils.parametrize as parametrize
class Twice(nn.Module):
    k = 2
    def forward(self, w): return w * self.k
f = nn.Linear(3, 3)
parametrize.register_parametrization(f, "weight", Twice())
""",
        [
            "Twice.k = 3",
            "f.parametrizations.weight[0].k = 5",
            "parametrize.remove_parametrizations(f, 'weight', leave_parametrized=False)",
            "f.parametrizations.weight.append(Twice())",
        ],
        ["f.extra = 1"],
        may_refuse=True,
    ),
    program(
        "a parametrization that is added later",
        """
import torch.nn.utils.parametrize as parametrize
class Twice(nn.Module):
    def forward(self, w): return w * 2
f = nn.Linear(3, 3)
""",
        ["parametrize.register_parametrization(f, 'weight', Twice())"],
        ["f.extra = 1"],
    ),
    program(
        "weight norm",
        """
f = torch.nn.utils.parametrizations.weight_norm(nn.Linear(3, 3))
""",
        ["f.parametrizations.weight.original0 = nn.Parameter(torch.zeros(3, 1))", "f.bias = None"],
        ["f.extra = 1"],
        may_refuse=True,
    ),
    program(
        "a function of torch replaced",
        """
def f(x): return F.relu(x) + torch.sin(x) + x.double().sum()
""",
        ["F.relu = torch.tanh", "K = 1; torch_sin = torch.sin; F.relu = lambda v: v * 2"],
        ["Z = 1"],
    ),
    program(
        "a module of torch replaced by another",
        """
import types
def f(x): return F.relu(x)
""",
        ["F = types.SimpleNamespace(relu=lambda v: v * 3)", "F = torch"],
        ["nn = 1"],
    ),
    program(
        "a method of Tensor put over it",
        """
def double(self): return self * 2
torch.Tensor.fg_double = double
def f(x): return x.fg_double()
""",
        [
            "torch.Tensor.fg_double = lambda s: s * 3",
            "double.__code__ = (lambda self: self).__code__",
        ],
        ["torch.Tensor.fg_other = 1; del torch.Tensor.fg_other"],
    ),
    program(
        "an operator of Tensor replaced",
        """
def f(x): return x + 1, -x, x[0], x == 1, x @ x.T, [r for r in x], len(x), float(x.sum())
""",
        [
            "add = torch.Tensor.__add__; torch.Tensor.__add__ = lambda s, o: add(s, 3)",
            "torch.Tensor.__matmul__ = lambda s, o: 5",
            "torch.Tensor.__len__ = lambda s: 8",
            "torch.Tensor.__float__ = lambda s: 7.0",
            "torch.Tensor.__neg__ = lambda s: s",
        ],
        ["Z = 1"],
    ),
    program(
        "attributes of a parameter",
        """
f0 = nn.Linear(3, 3)
f0.weight.scale = 2.0
def f(x): return f0(x) * f0.weight.scale * getattr(f0.bias, "scale", 1.0)
""",
        [
            "f0.weight.scale = 3.0",
            "f0.bias.scale = 5.0",
            "del f0.weight.scale; f0.weight.scale = 1.0",
        ],
        ["f0.weight.other = 1"],
    ),
    program(
        "gradient mode",
        """
def f(x):
    with torch.no_grad(): a = torch.is_grad_enabled()
    @torch.inference_mode(False)
    def inner(): return torch.is_grad_enabled()
    return a, torch.is_grad_enabled(), torch.enable_grad()(lambda: torch.is_grad_enabled())()
""",
        [],
        ["Z = 1"],
        may_refuse=True,
    ),
    program(
        "flags of backends",
        """
def f(x):
    return (torch.backends.cudnn.enabled, torch.backends.cudnn.deterministic, torch.get_num_threads(),
            torch.are_deterministic_algorithms_enabled(), torch.get_float32_matmul_precision(), torch.backends.mkldnn.enabled)
""",
        [
            "torch.set_num_threads(2)",
            "torch._C._set_cudnn_deterministic(True)",
            "torch.use_deterministic_algorithms(True)",
            "torch.set_float32_matmul_precision('medium')",
        ],
        ["Z = 1"],
    ),
    program(
        "sizes",
        """
n = 2
extra = torch.Size([4])
def f(x): return x.shape + extra, x.shape[0] * n, x.shape.numel(), x.reshape(x.shape[::-1]).shape, tuple(x.size()) + (n,), x.shape == (2, 3)
""",
        ["n = 3", "extra = torch.Size([5])", "extra = (4,)"],
        ["Z = 1"],
    ),
    program(
        "dtypes and devices",
        """
dtype = torch.float64
device = torch.device("cpu")
names = {torch.float32: "f4", torch.float64: "f8"}
def f(x): return x.to(dtype).dtype, torch.zeros(1, device=device).device.type, names[dtype], dtype.is_floating_point, torch.finfo(dtype).eps, device == torch.device("cpu"), torch.promote_types(dtype, torch.int8)
""",
        ["dtype = torch.float32", "device = torch.device('meta')", "names[torch.float64] = 'd'"],
        ["names[torch.int8] = 'b'"],
    ),
    program(
        "lists of modules",
        """
class M(nn.Module):
    def __init__(self):
        super().__init__()
        self.ls = nn.ModuleList(nn.Linear(3, 3) for _ in range(3))
        self.d = nn.ModuleDict({"a": nn.ReLU(), "b": nn.Tanh()})
        self.ps = nn.ParameterList([torch.ones(3), torch.zeros(3)])
        self.pd = nn.ParameterDict({"k": nn.Parameter(torch.ones(3))})
    def forward(self, x):
        for i, l in enumerate(self.ls[:-1]): x = l(x) + self.ps[i]
        for k in self.d: x = self.d[k](x)
        return x * self.pd["k"] + len(self.ls)
f = M()
""",
        [
            "f.ls.append(nn.Linear(3, 3))",
            "f.ls[0] = nn.Identity()",
            "f.d['c'] = nn.ReLU()",
            "f.d.pop('a')",
            "f.ps[0] = nn.Parameter(torch.zeros(3))",
            "f.pd['k'] = nn.Parameter(torch.zeros(3))",
            "del f.ls[0]",
            "f.d['a'] = nn.GELU()",
        ],
        ["f.other = 1", "f.pd['z'] = nn.Parameter(torch.zeros(3))"],
    ),
    program(
        "a sequential that changes",
        """
f = nn.Sequential(nn.Linear(3, 3), nn.ReLU())
""",
        [
            "f.append(nn.Tanh())",
            "f.insert(0, nn.Tanh())",
            "f[1] = nn.Tanh()",
            "f.pop(1)",
            "f.add_module('1', nn.Identity())",
        ],
        ["f.extra = 1", "f[0].extra = 1"],
    ),
    program(
        "named parameters in the forward",
        """
class M(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(3, 3), nn.Linear(3, 3)
    def forward(self, x):
        reg = sum(p.pow(2).sum() for n, p in self.named_parameters() if n.endswith("weight"))
        return self.b(self.a(x)) + reg + sum(1 for m in self.modules() if isinstance(m, nn.Linear))
f = M()
""",
        [
            "f.c = nn.Linear(3, 3)",
            "f.a.weight = nn.Parameter(torch.zeros(3, 3))",
            "f.a.extra_weight = nn.Parameter(torch.ones(1))",
            "f.a.bias = None",
        ],
        ["f.extra = 1"],
    ),
    program(
        "a module with its own __getattr__",
        """
class M(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(3, 3)
        self.__dict__["table"] = {"scale": 2.0}
    def __getattr__(self, name):
        try: return super().__getattr__(name)
        except AttributeError: return self.__dict__["table"][name]
    def forward(self, x): return self.inner(x) * self.scale
f = M()
""",
        ["f.table['scale'] = 3.0", "f.scale = 4.0", "M.scale = 5.0"],
        ["f.table['z'] = 1"],
    ),
    program(
        "dropout, batch norm and training",
        """
f = nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3), nn.Dropout(0.5)).eval()
""",
        [
            "f[1].eps = 0.1",
            "f[1].weight = None",
            "f.train()",
            "f[2].train()",
            "f[1].track_running_stats = False; f[1].running_mean = None; f[1].running_var = None",
        ],
        ["f.extra = 1", "f[1].num_features = 7"],
    ),
    program(
        "an embedding and its padding",
        """
m = nn.Embedding(5, 3, padding_idx=1)
def f(x): return m(x.long()) * (m.padding_idx + 1)
""",
        [
            "m.padding_idx = 2",
            "m.weight = nn.Parameter(torch.zeros(5, 3))",
            "m.scale_grad_by_freq = True",
            "m.max_norm = 0.1",
        ],
        ["m.num_embeddings = 7"],
    ),
    program(
        "attention with flags",
        """
m = nn.MultiheadAttention(4, 2, batch_first=True).eval()
mask = None
def f(x):
    q = torch.ones(1, 3, 4)
    return m(q, q, q, attn_mask=mask, need_weights=want)[0]
want = False
""",
        [
            "m.num_heads = 1; m.head_dim = 4",
            "want = True",
            "mask = torch.zeros(3, 3)",
            "m.in_proj_bias = None",
            "m.batch_first = False",
        ],
        ["m.extra = 1"],
    ),
    program(
        "loss functions by name",
        """
losses = {"mse": F.mse_loss, "l1": F.l1_loss}
kind, reduction = "mse", "mean"
def f(x): return losses[kind](x, torch.zeros_like(x), reduction=reduction)
""",
        ["kind = 'l1'", "reduction = 'sum'", "losses['mse'] = F.smooth_l1_loss"],
        ["losses['z'] = 1"],
    ),
    program(
        "a schedule from a table",
        """
table = {0: 0.1, 10: 0.01}
class Sched:
    def __init__(self): self.step = 0
    def lr(self): return table[max(k for k in table if k <= self.step)]
s = Sched()
def f(x): return x * s.lr()
""",
        ["s.step = 12", "table[0] = 0.5", "table[-1] = 1; s.step = -1"],
        ["s.z = 1"],
    ),
    program(
        "rotary cache in a dict",
        """
cache = {}
def angles(n, dim):
    key = (n, dim)
    if key not in cache: cache[key] = torch.arange(n)[:, None] * torch.ones(dim)
    return cache[key]
angles(2, 3)
def f(x): return x * angles(*x.shape)
""",
        ["cache[(2, 3)] = torch.zeros(2, 3)", "angles = lambda n, d: 1"],
        ["cache[(9, 9)] = 1"],
    ),
    program(
        "a tensor subclass's attribute of a class",
        """
class M(nn.Module):
    mult = 2
    def __init__(self):
        super().__init__()
        self.w = nn.Parameter(torch.ones(3))
    @property
    def scaled(self): return self.w * self.mult
    def forward(self, x): return x * self.scaled
f = M()
""",
        [
            "M.mult = 3",
            "f.mult = 4",
            "M.scaled = property(lambda s: 1)",
            "f.w = nn.Parameter(torch.zeros(3))",
            "M.forward = lambda s, x: x",
        ],
        ["M.other = 1"],
    ),
    program(
        "an activation chosen by name",
        """
class M(nn.Module):
    def __init__(self):
        super().__init__()
        self.act = "relu"
    def forward(self, x): return getattr(F, self.act)(x - 2)
f = M()
""",
        ["f.act = 'gelu'", "F.relu = torch.tanh"],
        ["f.other = 1"],
    ),
    program(
        "autocast inside",
        """
on = True
m = nn.Linear(3, 3)
def f(x):
    with torch.autocast("cpu", dtype=dtype, enabled=on): return m(x).dtype
dtype = torch.bfloat16
""",
        ["on = False"],
        ["Z = 1"],
        may_refuse=True,
    ),
    program(
        "stacked containers of tensors",
        """
bank = {"a": [torch.ones(3), torch.zeros(3)], "b": (torch.ones(3),)}
def f(x): return x + torch.stack(bank["a"]).sum(0) + torch.cat([*bank["b"], bank["a"][0]])[:3]
""",
        [
            "bank['a'][1] = torch.ones(3)",
            "bank['a'].append(torch.ones(3))",
            "bank['b'] = (torch.zeros(3),)",
        ],
        ["bank['c'] = 1"],
    ),
    program(
        "where modules come from a factory",
        """
def make(kind): return {"lin": nn.Linear, "id": nn.Identity}[kind]
class M(nn.Module):
    def __init__(self):
        super().__init__()
        self.l = make("lin")(3, 3)
    def forward(self, x): return self.l(x) if type(self.l) is nn.Linear else x
f = M()
""",
        ["f.l = nn.Identity()", "f.l.__class__ = type('L2', (nn.Linear,), {})"],
        ["make = 1"],
    ),
    program(
        "einsum with a computed equation",
        """
dims = "ij"
def f(x): return torch.einsum(f"{dims},{dims[0]}k->k{dims[1]}", x, x)
""",
        ["dims = 'pq'", "torch_einsum = 1; dims = 'ba'"],
        ["Z = 1"],
    ),
    program(
        "requires_grad consulted",
        """
m = nn.Linear(3, 3)
def f(x): return [n for n, p in m.named_parameters() if p.requires_grad], m.weight.is_leaf, m.weight.dtype
""",
        ["m.weight = nn.Parameter(torch.ones(3, 3), requires_grad=False)", "m.bias = None"],
        ["m.extra = 1"],
    ),
    program(
        "default dtype",
        """
def f(x): return torch.get_default_dtype(), torch.tensor(1.0).dtype, torch.zeros(2).dtype
""",
        [],
        ["Z = 1"],
    ),
]
