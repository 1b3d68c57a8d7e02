"""Small nn.Module programs, with changes that must and must not matter."""

from program import Program

PROGRAMS = [
    Program(
        "nn self.training",
        """
import torch, torch.nn as nn, torch.nn.functional as F

class M(nn.Module):

    def __init__(s):
        super().__init__()
        s.l = nn.Linear(2, 2)
        s.flag = 1

    def forward(s, x):
        x = s.l(x)
        return F.relu(x) if s.training else x
f = M()
args = (torch.ones(1, 2),)
""",
        consulted=[
            "f.eval()",
            "F.relu = None",
            "f.l = nn.Linear(2, 2)",
            "f.l.register_forward_hook(lambda *a: None)",
            "f.register_forward_pre_hook(lambda *a: None)",
            "f.forward = lambda x: x",
            "nn.modules.module.register_module_forward_hook(lambda *a: None)",
            "f.l.weight = None\nf.l._parameters['weight'] = None",
            "del f.l",
            "nn.Linear.forward = lambda s, x: x",
        ],
        unrelated=[
            "f.flag = 2",
            "f.l.in_features = 5",
            "f.l.weight.requires_grad_(False)",
            "f.l.q = 1",
        ],
    ),
    Program(
        "nn dropout p / train",
        """
import torch, torch.nn as nn, torch.nn.functional as F
f = nn.Sequential(nn.Linear(2, 2), nn.Dropout(0.5), nn.LayerNorm(2))
args = (torch.ones(1, 2),)
""",
        consulted=[
            "f[1].p = 0.1",
            "f[1].eval()",
            "f[2].eps = 0.001",
            "f.append(nn.ReLU())",
            "f[2].normalized_shape = (3,)",
        ],
        unrelated=[
            "f[0].training = False",
            "f.zz = 1",
        ],
    ),
    Program(
        "nn buffer",
        """
import torch, torch.nn as nn, torch.nn.functional as F

class M(nn.Module):

    def __init__(s):
        super().__init__()
        s.register_buffer('b', torch.ones(2))

    def forward(s, x):
        return x + s.b
f = M()
args = (torch.ones(1, 2),)
""",
        consulted=[
            "f.b = None",
            "f._buffers['b'] = torch.nn.Parameter(torch.ones(2))",
            "del f.b",
            "f.b = torch.zeros(2)",
        ],
        unrelated=[
            "f.register_buffer('c', torch.ones(1))",
            "f.b.add_(1)",
        ],
    ),
    Program(
        "nn ModuleList/Dict",
        """
import torch, torch.nn as nn, torch.nn.functional as F

class M(nn.Module):

    def __init__(s):
        super().__init__()
        s.ls = nn.ModuleList([nn.Linear(2, 2) for _ in range(2)])
        s.d = nn.ModuleDict({'a': nn.ReLU()})

    def forward(s, x):
        for l in s.ls:
            x = l(x)
        return s.d['a'](x)
f = M()
args = (torch.ones(1, 2),)
""",
        consulted=[
            "f.ls.append(nn.Linear(2, 2))",
            "f.ls[0] = nn.Linear(2, 2)",
            "f.d['a'] = nn.Tanh()",
            "f.ls[1].bias = None",
        ],
        unrelated=[
            "f.d['b'] = nn.Tanh()",
        ],
    ),
]
