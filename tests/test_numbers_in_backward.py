"""Numbers that vary, where the backward is inside the compiled call: nodes of the graph have saved them, as tensors
(`x * n`) or as numbers (`add(alpha=n)`). Where it is known which ones their formulas compute with, one program serves
all values; where it is not, each value has its own, which is right."""

from __future__ import annotations

import warnings

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import fulgurite as fg

NUMBERS = [0.3, 0.41, 0.53, 0.77, 0.9, 0.95, 0.96, 0.31, 0.42, 0.57]


def compare(f, numbers=NUMBERS):
    """The jitted function, after it has been called with each number on other data; results must be eager's."""
    jitted = fg.jit(f)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for k, n in enumerate(numbers):
            torch.manual_seed(k)
            data = torch.randn(3)
            got = jitted(data.clone().requires_grad_(), n)
            want = f(data.clone().requires_grad_(), n)
            torch.testing.assert_close(got, want, rtol=0, atol=0)
    return jitted


def gradient(forward):
    def f(x, n):
        return torch.autograd.grad((forward(x, n) * x).sum(), x)[0]

    return f


SERVED = {
    "mul": lambda x, n: x.sin() * n,
    "number first": lambda x, n: n * x.sin(),
    "div": lambda x, n: x.sin() / n,
    "number divided": lambda x, n: n / (x.abs() + 1),
    "in place": lambda x, n: x.sin().mul_(n),
    "a part, in place": lambda x, n: (y := x.sin(), y[1:].mul_(n))[0],
    "alpha": lambda x, n: torch.add(x, x.sin(), alpha=n),
    "value": lambda x, n: torch.addcmul(x, x.sin(), x.cos(), value=n),
    "clamp": lambda x, n: x.clamp(max=n),
    "leaky_relu": lambda x, n: F.leaky_relu(x, n),
    "elu": lambda x, n: F.elu(x, n),
    "smooth_l1": lambda x, n: F.smooth_l1_loss(x, torch.zeros(3), beta=n),
    "temperature": lambda x, n: (x / n).softmax(0),
    "a list": lambda x, n: torch._foreach_mul([x.sin()], n)[0],
    "twice": lambda x, n: (x * n).sin() * n,
    "a part of it": lambda x, n: x * (n * 0.5),
    "out of a tensor": lambda x, n: x * (x.detach().abs().sum().item() * n),
    "an int": lambda x, n: x * int(n * 100),
}
GUARDED = {
    "pow": lambda x, n: x.abs() ** n,  # n - 1
    "lerp": lambda x, n: torch.lerp(x, x.sin(), n),  # 1 - n
    "lists": lambda x, n: sum(torch._foreach_mul([x.sin(), x.cos()], [n, n + 1])),
    "a view that is written": lambda x, n: (y := x.sin(), F.leaky_relu_(y[1:], n))[0],
}


@pytest.mark.parametrize("name", SERVED)
def test_one_program_serves_all_values(name):
    jitted = compare(gradient(SERVED[name]))
    assert fg.cache_hits(jitted) == len(NUMBERS) - 2  # the second call finds that the number varies


@pytest.mark.parametrize("name", GUARDED)
def test_what_is_not_known_is_guarded(name):
    compare(gradient(GUARDED[name]))


@pytest.mark.parametrize("name", [*SERVED, *GUARDED])
def test_values_that_formulas_know(name):
    compare(gradient(SERVED.get(name) or GUARDED[name]), [0.3, 1.0, 0.5, 2.0, 0.5, 1.0, 3.0, 0.7])


def test_a_constant_of_the_same_value_is_another_number():
    def f(x, n):
        y = torch.add(x.sin(), x.cos(), alpha=n) * 0.5 + torch.add(x.cos(), x.sin(), alpha=0.5)
        return torch.autograd.grad((y * 2.0 * n).sum(), x)[0]

    jitted = compare(f, [0.5, 0.5, 0.25, 0.75, 0.5, 2.0, 0.125, 0.3])
    assert fg.cache_hits(jitted) >= 5


def test_a_node_that_runs_twice():
    def f(x, n):
        y = torch.add(x.sin(), x.cos(), alpha=n).sum()
        first = torch.autograd.grad(y, x, retain_graph=True)[0]
        return first + torch.autograd.grad(y, x)[0] * 2

    assert fg.cache_hits(compare(f)) == len(NUMBERS) - 2


def test_gradients_that_eager_does_not_ask_for():
    def f(x, n):
        w = torch.ones(3, requires_grad=True)
        y = torch.addcmul(x, w, x.sin(), value=n).sum()
        return torch.autograd.grad(y, w)[0]

    compare(f)


@pytest.mark.parametrize("name", ["mul", "alpha", "leaky_relu", "clamp", "pow"])
def test_second_gradients(name):
    def f(x, n):
        first = torch.autograd.grad(
            (SERVED | GUARDED)[name](x, n).sin().sum(), x, create_graph=True
        )[0]
        return torch.autograd.grad((first * first).sum(), x)[0]

    compare(f)


class Scaled(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, n):
        ctx.n = n
        ctx.save_for_backward(x)
        return x * n

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return torch.add(g * ctx.n, x, alpha=ctx.n - 1), None


def test_functions_and_hooks():
    def hooked(x, n):
        y = x.sin()
        y.register_hook(lambda g: torch.add(g, g.sin(), alpha=n))
        return y

    compare(gradient(Scaled.apply))
    compare(gradient(hooked))


@pytest.mark.parametrize(
    ("cls", "options"),
    [(torch.optim.SGD, {"momentum": 0.9}), (torch.optim.AdamW, {}), (torch.optim.RMSprop, {})],
)
def test_whole_steps_with_a_schedule(cls, options):
    """Learning rate, weight of a loss and temperature are other numbers in each call."""

    def make():
        torch.manual_seed(0)
        net = nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 3))
        return net, cls(net.parameters(), lr=0.1, **options)

    def step(net, opt, x, lr, weight, temperature):
        for group in opt.param_groups:
            group["lr"] = lr
        opt.zero_grad()
        y = net(x)
        loss = (y / temperature).logsumexp(1).mean() + weight * y.square().mean()
        loss.backward()
        opt.step()
        return loss.detach()

    (ours, our_opt), (eagers, eager_opt) = make(), make()
    jitted = fg.jit(lambda *given: step(ours, our_opt, *given))
    for k in range(16):
        torch.manual_seed(k)
        given = torch.randn(5, 4), 0.1 / (k + 1), 0.5 * 0.9**k, 1.0 + 0.1 * k
        torch.testing.assert_close(jitted(*given), step(eagers, eager_opt, *given), rtol=0, atol=0)
        torch.testing.assert_close(
            list(ours.parameters()), list(eagers.parameters()), rtol=0, atol=0
        )
    assert fg.cache_hits(jitted) >= 12, fg.recompiles(jitted)


def test_by_hand():
    def step(w, x, lr, scale):
        loss = (x @ w).tanh().square().sum() * scale
        loss.backward()
        with torch.no_grad():
            w -= lr * w.grad
        w.grad = None
        return loss.detach()

    jitted = fg.jit(step)
    ours, eagers = (torch.linspace(-1, 1, 3).requires_grad_() for _ in range(2))
    for k in range(10):
        torch.manual_seed(k)
        given = torch.randn(4, 3), 0.1 / (k + 1), 1.0 + k / 7
        torch.testing.assert_close(jitted(ours, *given), step(eagers, *given), rtol=0, atol=0)
        torch.testing.assert_close(ours, eagers, rtol=0, atol=0)
    assert fg.cache_hits(jitted) >= 7
