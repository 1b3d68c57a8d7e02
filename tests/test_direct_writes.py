"""What the caller can see is written where it is, in place, if nothing can go wrong any more; and as before if
something can (docs/decisions/0012-direct-writes.md)."""

from __future__ import annotations

import warnings

import pytest
import torch
from torch import nn

import fulgurite as fg
from fulgurite.demo.memory import peak_bytes
from helpers import traces


def final(jitted) -> str:
    assert not traces.problems(jitted)
    return fg.last_traces(jitted)[-1].python(locations=False)


def copies(jitted) -> int:
    return final(jitted).count("prims.copy_(")


def same_as_eager(f, make, calls: int = 3, served: bool = True, reads=lambda r: r):
    """Calls both on tensors of their own; results, arguments and how often these were written must agree."""
    jitted = fg.jit(f)
    for k in range(calls):
        outcomes = []
        for call in (jitted, f):
            torch.manual_seed(k)
            tensors = make()
            result = reads(call(*tensors))
            outcomes.append((result, tensors, [t._version for t in tensors]))
        (got, ours, versions), (want, eagers, counted) = outcomes
        torch.testing.assert_close((got, ours), (want, eagers), rtol=0, atol=0)
        assert versions == counted
    if served:
        assert fg.cache_hits(jitted) == calls - 1
    return jitted


def two(n: int = 6):
    return torch.randn(n), torch.randn(n)


# ---- written directly ----
def chain(x, y):
    x.mul_(2).add_(y).sigmoid_()
    x.clamp_(max=0.9).neg_()


def returned(x, y):
    x.mul_(y)
    z = x + 1
    x.sub_(z)
    return x, z, x.sum()


def by_parts(x, y):
    for i in range(3):
        x[i] += y[i]
    x[1:4] *= 2
    x[::2] = 7
    return x.view(2, 3)


def each_other(x, y):
    x.add_(y)
    y.mul_(x)
    x.sub_(y)


def through_data(x, y):
    x.data.mul_(2)
    x.data.add_(y)


def fewer_writes_than_operators(x, y):
    torch.addcmul(x * 2, x.new_ones(()), y, out=x)


def into_a_result(x, y):
    torch.mul(y, 2, out=x)
    x.add_(1)
    torch.maximum(y * 3, x, out=y)


def lists(x, y):
    torch._foreach_mul_([x, y], 0.5)
    torch._foreach_add_([x], [y], alpha=3)


def filled(x, y):
    x.zero_()
    y.fill_(3)


def decided_before(x, y):
    if y.sum() > -100:
        x.mul_(2)


@pytest.mark.parametrize(
    "f",
    [
        chain,
        returned,
        by_parts,
        each_other,
        through_data,
        fewer_writes_than_operators,
        into_a_result,
        lists,
        filled,
        decided_before,
    ],
)
def test_written_where_it_is(f):
    jitted = same_as_eager(f, two)
    assert copies(jitted) == 0


def test_the_trace_says_so():
    jitted = same_as_eager(chain, two)
    text = final(jitted)
    assert "x.mul_(2)" in text
    assert "bump_version_" not in text  # the operators count


def test_no_memory_of_its_own():
    def f(x):
        x.mul_(2).add_(1).tanh_()

    jitted = fg.jit(f)
    x = torch.randn(10_000)
    for _ in range(3):
        jitted(x)
    with torch.no_grad():
        assert peak_bytes(lambda: jitted(x)) < 100  # numbers, as tensors


def test_what_feeds_a_write_is_made_when_it_is_needed():
    """One at a time, as in eager."""

    def f(*tensors):
        for x in tensors:
            x.add_(x.exp() * 2)

    jitted = fg.jit(f)
    tensors = [torch.zeros(10_000) for _ in range(5)]
    for _ in range(3):
        jitted(*tensors)
    assert peak_bytes(lambda: jitted(*tensors)) <= 2 * 40_000


# ---- not, or not all of it ----
def the_old_one_is_needed(x, y):
    old = x * 1
    before = x.view(-1)[1:] + y[1:]
    x.mul_(2)
    return old, before, x - old


def what_follows_may_raise(x, y):
    x.mul_(2)
    return torch.gather(x, 0, (y > 0).long())


def decided_after(x, y):
    x.mul_(2)
    if x.sum() > 1000:
        return y
    return x + y


def drawn(x, y):
    x.mul_(2)
    x.uniform_()
    return torch.rand(2)


def results_of_a_view(x, y):
    x.mul_(2)
    z = x * y
    w = z.view(2, 3)
    w.neg_()
    return z, w[0]


@pytest.mark.parametrize("f", [the_old_one_is_needed, what_follows_may_raise, decided_after, drawn])
def test_as_eager_where_it_cannot(f):
    same_as_eager(f, two)


def test_results_are_views_of_what_they_are_views_of_in_eager():
    def facts(r):
        return [t._base is None for t in r]

    same_as_eager(results_of_a_view, two, reads=facts)


def test_another_way_is_taken_with_nothing_written():
    def f(x):
        x.mul_(2)
        if x.sum() > 0:
            x.add_(1)
        else:
            x.sub_(1)

    jitted = fg.jit(f)
    for sign in (1, 1, -1, 1, -1, -1, 1):
        x = torch.full((3,), float(sign))
        jitted(x)
        assert x.tolist() == [3.0 * sign] * 3
        assert x._version == 2
    assert fg.cache_hits(jitted) >= 4


def test_an_operator_that_raises_leaves_what_eager_leaves():
    def f(x, i):
        x.mul_(2)
        y = x[i]
        x.add_(1)
        return y

    jitted = fg.jit(f)
    for _ in range(3):
        jitted(torch.ones(3), torch.tensor([0, 2]))
    x = torch.ones(3)
    with pytest.raises(IndexError):
        jitted(x, torch.tensor([0, 7]))
    assert x.tolist() == [2.0] * 3
    assert x._version == 1


def test_integers_are_not_divided_by_zero_after_a_write():
    def f(x, y):
        x.add_(1)
        x.remainder_(y)

    jitted = fg.jit(f)
    for _ in range(3):
        jitted(torch.arange(4), torch.ones(4, dtype=torch.int64))
    x = torch.arange(4)
    with pytest.raises(RuntimeError, match="ZeroDivisionError"):
        jitted(x, torch.zeros(4, dtype=torch.int64))
    assert x.tolist() == [1, 2, 3, 4]


def test_numbers_that_vary_fit_before_anything_is_written():
    def f(x, g, lr):
        x.mul_(0.5)
        x.add_(g, alpha=lr)

    jitted = fg.jit(f)
    for lr in (0.1, 0.2, 0.3, 0.4):
        x = torch.ones(3)
        jitted(x, torch.ones(3), lr)
        torch.testing.assert_close(x, torch.full((3,), 0.5 + lr))
    assert fg.cache_hits(jitted) >= 2
    assert copies(jitted) == 0
    assert "expect_fits" in final(jitted)
    x = torch.ones(3)
    with pytest.raises(RuntimeError, match="overflow"):
        jitted(x, torch.ones(3), 1e300)
    assert x.tolist() == [0.5] * 3  # as eager leaves it
    jitted(x, torch.ones(3), float("inf"))
    assert x.tolist() == [float("inf")] * 3


def test_arguments_on_one_memory():
    def f(x, y):
        x.mul_(2)
        z = y + x.sum()
        x.add_(1)
        return z

    def make(k):
        whole = torch.arange(6.0)
        return [(whole[:3], whole[3:]), (whole[:4], whole[2:]), (whole, whole)][k]

    jitted = fg.jit(f)
    for k in (0, 0, 1, 1, 2, 2, 0):
        ours, eagers = make(k), make(k)
        torch.testing.assert_close((jitted(*ours), *ours), (f(*eagers), *eagers), rtol=0, atol=0)
        assert [t._version for t in ours] == [t._version for t in eagers]


def test_a_closure_on_the_memory_of_an_argument():
    whole = torch.arange(6.0)

    def f(x):
        x.mul_(2)
        return whole + 1

    other = torch.ones(6)
    jitted = fg.jit(f)
    for x in (other, other, other, whole, whole, whole[1:], other):
        want_x, want = x * 2, None
        want = (want_x if x is whole else whole.clone()) + 1
        if x.data_ptr() != whole.data_ptr() and x is not other:
            want = whole.clone()
            want[1:] *= 2
            want += 1
        got = jitted(x)
        torch.testing.assert_close(got, want, rtol=0, atol=0)
        torch.testing.assert_close(x, want_x, rtol=0, atol=0)


def test_backward_has_what_it_was_computed_with():
    def f(w, x, y):
        z = (w * x).sum() + (w * w).sum()
        x.mul_(2)
        y.add_(x)
        return z

    def outcome(call):
        w, x, y = torch.ones(3, requires_grad=True), torch.arange(3.0), torch.zeros(3)
        z = call(w, x, y)
        try:
            z.backward()
        except RuntimeError as e:
            return str(e)[:60], x, y
        return w.grad, x, y

    jitted = fg.jit(f)
    for _ in range(3):
        assert str(outcome(jitted)) == str(outcome(f))
    assert fg.cache_hits(jitted) == 2


def test_what_an_operator_saves_stays():
    """The new value is saved by an autograd node: it is a buffer of the program's own."""

    def f(w, x):
        x.mul_(2)
        return (w * x).sum()

    jitted = fg.jit(f)
    for _ in range(3):
        w, x = torch.ones(3, requires_grad=True), torch.arange(3.0)
        z = jitted(w, x)
        z.backward()
        assert w.grad.tolist() == x.tolist() == [0.0, 2.0, 4.0]
    assert copies(jitted) == 1


def test_an_executors_operator_writes_nothing_of_the_callers():
    ex = fg.extend.OperatorExecutor("doubling", version="1")
    fg.extend.register_executor(ex)
    try:
        double = ex.register_operator(
            "twice", meta=lambda a, b: torch.empty_like(a), fn=lambda a, b: a * b
        )
        ex.register_implementation(torch.mul, double)

        def f(x):
            x.mul_(2.0)
            x.add_(1)

        jitted = fg.jit(f, executors=[ex])
        for _ in range(3):
            x = torch.ones(3)
            jitted(x)
            assert x.tolist() == [3.0] * 3
            assert x._version == 2
        assert "doubling" in final(jitted)
        assert copies(jitted) == 1
    finally:
        fg.extend.deregister_executor(ex)


# ---- parameters and buffers ----
@pytest.mark.parametrize("foreach", [True, False])
@pytest.mark.parametrize(
    ("cls", "options"),
    [
        (torch.optim.SGD, {"momentum": 0.9, "weight_decay": 0.1, "nesterov": True}),
        (torch.optim.Adam, {"amsgrad": True}),
        (torch.optim.RMSprop, {"momentum": 0.9, "centered": True}),
        (torch.optim.Adagrad, {}),
    ],
)
def test_optimizers_update_in_place(cls, options, foreach):
    def make():
        torch.manual_seed(0)
        net = nn.Sequential(nn.Linear(5, 7), nn.Tanh(), nn.Linear(7, 2))
        return net, cls(net.parameters(), lr=0.01, foreach=foreach, **options)

    def step(net, opt, x):
        opt.zero_grad()
        loss = net(x).square().mean()
        loss.backward()
        opt.step()
        return loss.detach()

    (ours, our_opt), (eagers, eager_opt) = make(), make()
    jitted = fg.jit(lambda x: step(ours, our_opt, x))
    for k in range(8):
        torch.manual_seed(k)
        x = torch.randn(3, 5)
        torch.testing.assert_close(jitted(x), step(eagers, eager_opt, x), rtol=0, atol=0)
        torch.testing.assert_close(
            list(ours.parameters()), list(eagers.parameters()), rtol=0, atol=0
        )
        assert [p._version for p in ours.parameters()] == [p._version for p in eagers.parameters()]
    assert fg.cache_hits(jitted) >= 4
    state = our_opt.state[next(iter(ours.parameters()))]
    steps = len(list(ours.parameters())) if "step" in state else 0
    assert copies(jitted) <= steps  # their counters are read before anything is written


def test_running_statistics():
    def make():
        torch.manual_seed(0)
        return nn.Sequential(nn.BatchNorm1d(4), nn.Linear(4, 2))

    ours, eagers = make(), make()
    jitted = fg.jit(ours)
    for k in range(4):
        torch.manual_seed(k)
        x = torch.randn(5, 4)
        torch.testing.assert_close(jitted(x), eagers(x), rtol=0, atol=0)
        for a, b in zip(ours.buffers(), eagers.buffers(), strict=True):
            torch.testing.assert_close(a, b, rtol=0, atol=0)
            assert a._version == b._version
    assert "num_batches_tracked.add_(1)" in final(jitted)


def test_leaves_under_no_grad():
    def f(w, b, g):
        with torch.no_grad():
            w.sub_(g, alpha=0.5)
            b.data.add_(g)
            w.clamp_(-1, 1)

    def make():
        return (
            torch.randn(3, requires_grad=True),
            torch.randn(3, requires_grad=True),
            torch.randn(3),
        )

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        jitted = same_as_eager(f, make)
    assert copies(jitted) == 0


def test_leaf_inplace_is_as_it_was():
    def f(x, y):
        y.add_(1)
        return x.mul_(2)

    jitted = fg.jit(f)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for _ in range(3):
            x, y = torch.ones(3, requires_grad=True), torch.zeros(3)
            out = jitted(x, y)
            out.sum().backward()
            assert x.grad.tolist() == [2.0] * 3
            assert (x.tolist(), y.tolist()) == ([2.0] * 3, [1.0] * 3)


def test_without_reinplace_everything_is_copied():
    jitted = fg.jit(chain, reinplace=False)
    for _ in range(2):
        jitted(*two())
    assert copies(jitted) == 1
