"""Ordinary PyTorch programs: no refusal, no effect, guards that hold, and tensors with their paths."""

import dataclasses

import pytest
import torch
import torch.nn as nn
import torch.nn.functional as F

from fulgurite import _C


class Block(nn.Module):
    def __init__(self, width=32, heads=4, dropout=0.1):
        super().__init__()
        self.ln1, self.ln2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.proj = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.drop, self.heads, self.dropout = nn.Dropout(dropout), heads, dropout

    def forward(self, x):
        b, t, c = x.shape
        q, k, v = self.qkv(self.ln1(x)).split(c, dim=2)
        q, k, v = (z.view(b, t, self.heads, c // self.heads).transpose(1, 2) for z in (q, k, v))
        p = self.dropout if self.training else 0.0
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True, dropout_p=p)
        x = x + self.drop(self.proj(y.transpose(1, 2).contiguous().view(b, t, c)))
        return x + self.down(F.gelu(self.up(self.ln2(x))))


class GPT(nn.Module):
    def __init__(self, vocabulary=50, width=32, layers=2, length=16):
        super().__init__()
        self.token, self.position = nn.Embedding(vocabulary, width), nn.Embedding(length, width)
        self.blocks = nn.ModuleList([Block(width) for _ in range(layers)])
        self.ln, self.head = nn.LayerNorm(width), nn.Linear(width, vocabulary, bias=False)
        self.head.weight = self.token.weight
        self.register_buffer("steps", torch.arange(length))

    def forward(self, ids, targets=None):
        x = self.token(ids) + self.position(self.steps[: ids.shape[1]])
        for block in self.blocks:
            x = block(x)
        logits = self.head(self.ln(x))
        if targets is None:
            return logits, None
        return logits, F.cross_entropy(logits.view(-1, logits.size(-1)), targets.view(-1))


@dataclasses.dataclass
class Config:
    scale: float = 2.0
    bias: bool = True


def closure():
    bias = torch.ones(4)

    def f(x, config):
        y = x * config.scale
        return torch.sin(y + bias if config.bias else y).sum()

    return f


linear = nn.Linear(4, 4)


def modes(x):
    with torch.no_grad():
        y = linear(x)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        z = linear(x)
    with torch.enable_grad():
        z = z.float() + y
    with torch.set_grad_enabled(False):
        y = y + 1
    with torch.inference_mode():
        linear(x)
    return z


def data_dependent(x):
    if x.sum() > 0:
        return x * x.sum().item()
    return x * float(x.max()) * int(x.argmax())


def many_ops(x):
    parts = torch.cat([x, x + 1]).chunk(2)
    named = {"stack": torch.stack([t * 2 for t in parts])}
    y = x.clone()
    y[0] = 1
    y += 1
    y.mul_(2)
    z = torch.where(x > 0, x, torch.zeros_like(x)) + torch.arange(3, device=x.device, dtype=x.dtype)
    total = x.norm() + torch.einsum("ij,kj->ik", x, x).sum() + torch.linalg.norm(x)
    for row in x:
        total = total + row.sum()
    total = total + torch.fft.fft(x).real.sum() + F.one_hot(torch.tensor([0, 1]), 3).sum()
    return total + named["stack"].sum() + y.sum() + z.sum() + len(x) + x.shape[0] + max(x.shape)


@torch.library.custom_op("fulgurite_tests::twice", mutates_args=())
def twice(x: torch.Tensor) -> torch.Tensor:
    return x * 2


def layers():
    return nn.Sequential(
        nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 3),
    )  # fmt: skip


def encoder(**options):
    return nn.TransformerEncoder(
        nn.TransformerEncoderLayer(32, 4, 64, batch_first=True), 2, **options
    )


ids, image, tokens = torch.randint(0, 50, (2, 8)), torch.randn(2, 3, 8, 8), torch.randn(2, 8, 32)
PROGRAMS = {
    "mlp": lambda: (
        nn.Sequential(nn.Linear(16, 16), nn.ReLU(), nn.Linear(16, 4)),
        (torch.randn(4, 16),),
    ),
    "encoder": lambda: (encoder(enable_nested_tensor=False), (tokens,)),
    "encoder in eval mode": lambda: (encoder().eval(), (tokens,)),
    "gpt": lambda: (GPT(), (ids, ids)),
    "gpt in eval mode": lambda: (GPT().eval(), (ids,)),
    "convolutions": lambda: (layers(), (image,)),
    "lstm": lambda: (nn.LSTM(8, 8, 2, batch_first=True), (torch.randn(2, 5, 8),)),
    "attention": lambda: (nn.MultiheadAttention(32, 4, batch_first=True), (tokens,) * 3),
    "closure and dataclass": lambda: (closure(), (torch.randn(3, 4), Config())),
    "modes": lambda: (modes, (torch.randn(2, 4),)),
    "no_grad decorator": lambda: (torch.no_grad()(lambda x: linear(x)), (torch.randn(2, 4),)),
    "data dependent": lambda: (data_dependent, (torch.randn(3),)),
    "many ops": lambda: (many_ops, (torch.randn(3, 3),)),
    "custom op": lambda: (lambda x: twice(x) + torch.ops.aten.add(x, x), (torch.randn(3),)),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_is_reusable(name):
    f, args = PROGRAMS[name]()
    f(*args)
    torch.manual_seed(0)
    _, watched = _C._watch(f, args, {})
    assert watched.refusals() == []
    assert watched.effects() == []
    assert watched.check(), watched.explain_failure()
    f(*args)
    assert watched.check(), watched.explain_failure()


def test_result_is_that_of_a_plain_call():
    model = GPT().eval()
    (logits, loss), _ = _C._watch(model, (ids, ids), {})
    expected, expected_loss = model(ids, ids)
    assert torch.equal(logits, expected) and torch.equal(loss, expected_loss)


@pytest.mark.parametrize("optimizer", ["SGD", "Adam", "AdamW foreach"])
def test_training_step(optimizer):
    model = nn.Sequential(
        nn.Linear(8, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Dropout(0.1), nn.Linear(8, 2)
    )
    make = {
        "SGD": lambda p: torch.optim.SGD(p, lr=0.01, momentum=0.9),
        "Adam": lambda p: torch.optim.Adam(p, lr=0.01),
        "AdamW foreach": lambda p: torch.optim.AdamW(p, lr=0.01, foreach=True),
    }
    optim, criterion = make[optimizer](model.parameters()), nn.CrossEntropyLoss()

    def step(x, y):
        optim.zero_grad()
        loss = criterion(model(x), y)
        loss.backward()
        optim.step()
        return loss.detach()

    x, y = torch.randn(4, 8), torch.randint(0, 2, (4,))
    for _ in range(3):
        step(x, y)
    _, watched = _C._watch(step, (x, y), {})
    assert watched.refusals() == []
    assert {kind for kind, *_ in watched.effects()} == {"tensor_attr", "backward"}
    assert watched.check(), watched.explain_failure()
    step(x, y)
    assert watched.check(), watched.explain_failure()
    optim.param_groups[0]["lr"] = 0.02
    assert not watched.check()
    assert "lr" in watched.explain_failure()


def test_tensors_have_paths():
    model = GPT()
    _, watched = _C._watch(model, (ids,), {})
    paths = {path: tensor for tensor, path in watched.tensors()}
    assert paths["self.blocks[0].qkv.weight"] is model.blocks[0].qkv.weight
    assert paths["self.position.weight"] is model.position.weight
    assert paths["self.steps"] is model.steps

    scale = torch.ones(4)
    _, watched = _C._watch(lambda x: x * scale + linear.bias, (torch.ones(4),), {})
    paths = {path: tensor for tensor, path in watched.tensors()}
    assert set(paths) == {"closure scale", "globals()['linear'].bias"}
    assert paths["closure scale"] is scale and paths["globals()['linear'].bias"] is linear.bias


def test_guards_read_like_python():
    model = nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.25))
    _, watched = _C._watch(model, (torch.ones(1, 4),), {})
    expressions = [expression for _, expression, _ in watched.guards()]
    assert "self[1].p == 0.25" in expressions
    assert "self[1].training == True" in expressions
    assert any(e.endswith(".F is <module torch.nn.functional>") for e in expressions)
    model[1].p = 0.5
    assert "self[1].p == 0.25" in watched.explain_failure()
    assert "is now 0.5" in watched.explain_failure()


def test_an_argument_tensor_found_in_python_state_is_reported():
    _, watched = _C._watch(lambda x: x + linear.weight, (linear.weight,), {})
    assert [path for _, path in watched.tensors()] == ["globals()['linear'].weight"]
    _, watched = _C._watch(lambda x: x + 1, (linear.weight,), {})
    assert watched.tensors() == []
