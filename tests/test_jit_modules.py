"""``jit(module)`` is the same module in every respect but how it is called."""

from __future__ import annotations

import copy
import gc
import io
import pickle
import weakref

import pytest
import torch
from torch import nn

import fulgurite as fg


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(4, 8)
        self.norm = nn.BatchNorm1d(8)
        self.drop = nn.Dropout(0.5)
        self.out = nn.Linear(8, 2)
        self.calls = 0

    def forward(self, x):
        return self.out(self.drop(torch.relu(self.norm(self.inner(x)))))

    def helper(self) -> str:
        return "helper"


def pair() -> tuple[Net, nn.Module, Net]:
    """A module, its jitted one, and an eager twin."""
    torch.manual_seed(0)
    net = Net()
    return net, fg.jit(net), copy.deepcopy(net)


def test_same_class_name_keys_and_parameters() -> None:
    net, jitted, _ = pair()
    assert isinstance(jitted, Net)
    assert type(jitted).__name__ == "Net"
    assert list(jitted.state_dict()) == list(net.state_dict())
    assert all(a is b for a, b in zip(jitted.parameters(), net.parameters(), strict=True))
    assert all(a is b for a, b in zip(jitted.buffers(), net.buffers(), strict=True))
    assert jitted.inner is net.inner
    assert jitted.helper() == "helper"
    assert str(jitted) == str(net)


def test_training_steps_as_eager() -> None:
    net, jitted, twin = pair()
    a, b = (torch.optim.AdamW(m.parameters(), lr=1e-2) for m in (jitted, twin))
    for i in range(5):
        x, y = torch.randn(6, 4), torch.randn(6, 2)
        losses = []
        for m, optimizer in ((jitted, a), (twin, b)):
            torch.manual_seed(i)
            optimizer.zero_grad()
            loss = nn.functional.mse_loss(m(x), y)
            loss.backward()
            optimizer.step()
            losses.append(loss.detach())
        torch.testing.assert_close(losses[0], losses[1])
    for k, v in twin.state_dict().items():
        torch.testing.assert_close(jitted.state_dict()[k], v, rtol=1e-5, atol=1e-6)
    assert fg.cache_hits(jitted) == 4, fg.explain(jitted)


def test_train_and_eval_switch() -> None:
    net, jitted, twin = pair()
    x = torch.randn(6, 4)
    for mode in ("eval", "train", "eval", "train"):
        getattr(jitted, mode)()
        getattr(twin, mode)()
        assert net.training == jitted.training == (mode == "train")
        torch.manual_seed(1)
        got = jitted(x)
        torch.manual_seed(1)
        torch.testing.assert_close(got, twin(x))
    assert fg.cache_hits(jitted) == 2


def test_state_dict_is_shared_both_ways() -> None:
    net, jitted, _ = pair()
    net.eval()
    x = torch.randn(3, 4)
    jitted(x)
    jitted(x)
    with torch.no_grad():
        net.out.bias.add_(1)
    torch.testing.assert_close(jitted(x), net(x))
    other = Net().eval()
    jitted.load_state_dict(other.state_dict())
    torch.testing.assert_close(jitted(x), other(x))
    torch.testing.assert_close(net(x), other(x))
    net.out = nn.Linear(8, 3)
    assert jitted(x).shape == (3, 3)
    net.out.weight = nn.Parameter(torch.zeros(3, 8))
    torch.testing.assert_close(jitted(x), net(x))


def test_hooks_run_on_every_call() -> None:
    net, jitted, _ = pair()
    net.eval()
    seen: list[str] = []
    x = torch.randn(3, 4)
    want = net(x).detach()
    jitted(x)
    jitted(x)
    jitted.register_forward_pre_hook(lambda m, args: (args[0] * 2,))
    net.inner.register_forward_hook(lambda m, args, out: out * 0 + 1)
    handle = jitted.register_forward_hook(lambda m, args, out: seen.append("after") or out + 1)
    for _ in range(3):
        torch.testing.assert_close(jitted(x), net(x))
    assert len(seen) == 6
    assert not torch.allclose(jitted(x), want)
    handle.remove()
    seen.clear()
    torch.testing.assert_close(jitted(x), net(x))
    assert not seen


def test_full_backward_hooks_run() -> None:
    net, jitted, twin = pair()
    for m in (net, twin):
        m.eval()
    for m in (jitted, twin):
        m.inner.register_full_backward_hook(
            lambda m, gi, go: (gi[0] * 3,) if gi[0] is not None else None
        )
    for _ in range(3):
        grads = []
        x = torch.randn(3, 4)
        for m in (jitted, twin):
            y = x.clone().requires_grad_()
            m(y).sum().backward()
            grads.append(y.grad)
        torch.testing.assert_close(*grads)


def test_deepcopy_is_independent_and_jitted() -> None:
    net, jitted, _ = pair()
    net.eval()
    x = torch.randn(3, 4)
    jitted(x)
    jitted(x)
    other = copy.deepcopy(jitted)
    assert isinstance(other, Net)
    assert all(a is not b for a, b in zip(other.parameters(), jitted.parameters(), strict=True))
    with torch.no_grad():
        other.out.bias.add_(1)
    for _ in range(3):
        torch.testing.assert_close(other(x), jitted(x) + 1)
    assert fg.cache_hits(other) == 2


def test_pickle_and_torch_save() -> None:
    net, jitted, _ = pair()
    net.eval()
    x = torch.randn(3, 4)
    want = jitted(x)
    for again in (pickle.loads(pickle.dumps(jitted)), _saved(jitted)):
        assert isinstance(again, Net)
        for _ in range(3):
            torch.testing.assert_close(again(x), want)
        assert fg.cache_hits(again) == 2


def _saved(m: nn.Module) -> nn.Module:
    f = io.BytesIO()
    torch.save(m, f)
    f.seek(0)
    return torch.load(f, weights_only=False)


def test_the_original_may_be_garbage() -> None:
    net, jitted, twin = pair()
    for m in (net, twin):
        m.eval()
    del net
    gc.collect()
    for _ in range(3):
        x = torch.randn(3, 4)
        torch.testing.assert_close(jitted(x), twin(x))
    assert fg.cache_hits(jitted) == 2


@pytest.mark.no_round_trip
def test_module_and_parameters_die_with_the_jitted_one() -> None:
    def make():
        net, jitted, _ = pair()
        net.eval()
        for _ in range(3):
            jitted(torch.randn(3, 4)).sum().backward()
        return [weakref.ref(t) for t in (net, jitted, net.out.weight, net.inner)]

    dead = make()
    gc.collect()
    assert [r() for r in dead] == [None] * 4


def test_jitted_submodule_in_an_eager_module() -> None:
    _, jitted, twin = pair()

    class Around(nn.Module):
        def __init__(self, core: nn.Module) -> None:
            super().__init__()
            self.core = core

        def forward(self, x):
            return self.core(x) * 2

    outer = Around(jitted).eval()
    twin.eval()
    assert "core.inner.weight" in outer.state_dict()
    for _ in range(3):
        x = torch.randn(3, 4)
        torch.testing.assert_close(outer(x), twin(x) * 2)
    assert fg.cache_hits(jitted) == 2


def test_python_state_of_a_module_is_kept_right() -> None:
    class Counting(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.calls = 0

        def forward(self, x):
            self.calls += 1
            return x * self.calls

    m = fg.jit(Counting())
    for i in range(1, 5):
        assert torch.equal(m(torch.ones(2)), torch.full((2,), float(i)))
        assert m.calls == i


def test_setting_attributes_reaches_both() -> None:
    net, jitted, _ = pair()
    jitted.calls = 5
    assert net.calls == 5
    jitted.requires_grad_(False)
    assert not any(p.requires_grad for p in net.parameters())
    net.eval()
    x = torch.randn(3, 4)
    for _ in range(3):
        assert not jitted(x).requires_grad
    jitted.requires_grad_(True)
    assert jitted(x).requires_grad
    jitted.double()
    assert jitted(x.double()).dtype == torch.float64


def test_functional_call_and_parametrize() -> None:
    net, jitted, twin = pair()
    for m in (net, twin):
        m.eval()
    x = torch.randn(3, 4)
    other = {k: v * 2 for k, v in net.state_dict().items() if v.is_floating_point()}
    for _ in range(3):
        torch.testing.assert_close(
            torch.func.functional_call(jitted, other, x), torch.func.functional_call(twin, other, x)
        )
        torch.testing.assert_close(jitted(x), twin(x))


def test_jit_of_a_jitted_module() -> None:
    net, jitted, _ = pair()
    again = fg.jit(jitted)
    assert type(again).__mro__[1] is Net
    with pytest.raises(TypeError):
        type(jitted)()
