"""Gradient rules: read, replaced, traced, wrong. Oracle: autograd, or what the rule says."""

from __future__ import annotations

import inspect
import os
import pathlib
import threading
from collections.abc import Iterator

import pytest
import torch

import fulgurite as fg
from fulgurite.rules import augmented_forward_impls, backward_impls


@pytest.fixture(autouse=True)
def defaults_again() -> Iterator[None]:
    yield
    for table in (augmented_forward_impls, backward_impls):
        for op in table.changed():
            del table[op]
    for op in list(fg.rules._grad_rules):
        fg.register_grad(op, None)


def leaf(*shape: int) -> torch.Tensor:
    torch.manual_seed(0)
    return torch.randn(*shape, dtype=torch.float64).requires_grad_()


def gradient(f, *tensors: torch.Tensor) -> torch.Tensor:
    return torch.autograd.grad(f(*tensors).sum(), tensors[0])[0]


def double(x, g):
    return 2 * g * x.cos()


# ---- tables ------------------------------------------------------------------------------------------------
def test_tables_are_mappings_with_defaults() -> None:
    assert "aten.sin" in backward_impls and "aten.nothing" not in backward_impls
    assert len(backward_impls) > 1000 and "aten.sin" in list(backward_impls)
    assert fg.prims.copy_.id == "fulgurite.copy_" and fg.prims.copy_.id in list(backward_impls)
    backward_impls["aten.sin"] = double
    assert backward_impls["aten.sin"] is double
    assert backward_impls[torch.ops.aten.sin.default] is double
    assert backward_impls.changed() == {"aten.sin": double}
    del backward_impls["aten.sin"]
    assert backward_impls.changed() == {} and "default" in repr(backward_impls["aten.sin"])


def test_unknown_ids_name_the_nearest() -> None:
    with pytest.raises(KeyError, match="FG-320.*aten.sin"):
        backward_impls["aten.sinn"]
    with pytest.raises(KeyError, match="FG-320"):
        backward_impls["aten.mul.Tensr"] = double
    with pytest.raises(KeyError, match="FG-320"):
        fg.register_grad(3, double)


def test_what_can_be_no_rule_is_refused() -> None:
    with pytest.raises(TypeError, match="FG-321"):
        backward_impls["aten.sin"] = 3
    with pytest.raises(fg.RuleError, match="FG-322.*aten.mul.Tensor"):
        backward_impls["aten.mul_.Tensor"] = double
    assert backward_impls.changed() == {}


@pytest.mark.parametrize(
    ("op", "words"),
    [
        ("aten.sin", ["cos"]),
        ("aten.tanh", ["tanh_backward"]),
        ("aten.mul.Tensor", ["mul"]),
        ("aten.mm", ["mm"]),
        ("aten.sum", ["expand"]),
        ("aten._softmax", ["softmax_backward"]),
        ("aten.native_layer_norm", ["layer_norm_backward"]),
        ("fulgurite.copy_", ["return"]),
    ],
)
def test_default_rules_have_source(op: str, words: list[str]) -> None:
    source = inspect.getsource(backward_impls[op])
    assert source.count("def backward_") == 1, source
    for word in words:
        assert word in source, source
    assert "def augmented_forward_" in inspect.getsource(augmented_forward_impls[op])


# ---- rules that are applied --------------------------------------------------------------------------------
def test_a_backward_is_used_at_once_on_recorded_and_served_calls() -> None:
    f = fg.jit(lambda x: torch.sin(x))
    x = leaf(3)
    for _ in range(2):
        torch.testing.assert_close(gradient(f, x), x.cos())
    backward_impls["aten.sin"] = double
    for _ in range(3):
        torch.testing.assert_close(gradient(f, x), 2 * x.cos())
    assert any("rule" in why for why in fg.recompiles(f))
    del backward_impls["aten.sin"]
    for _ in range(3):
        torch.testing.assert_close(gradient(f, x), x.cos())
    assert fg.fallbacks(f) == [], fg.explain(f)
    assert fg.cache_hits(f) == 1 + 2 + 2


def test_other_programs_stay_compiled() -> None:
    f = fg.jit(lambda x: torch.cos(x))
    x = leaf(3)
    gradient(f, x)
    backward_impls["aten.sin"] = double
    gradient(f, x)
    assert fg.cache_hits(f) == 1 and fg.recompiles(f) == []


def test_losing_the_gradient_is_seen_in_the_trace() -> None:
    backward_impls["aten.mul.Tensor"] = lambda a, b, g: (None, None)
    f = fg.jit(lambda x: x * x)
    x = leaf(3)
    for _ in range(2):
        out = f(x)
        assert out.grad_fn is not None
        out.sum().backward()
        assert x.grad is None
    assert "return (None,)" in str(fg.last_backward_traces(f)[-1])


def test_augmented_forward_and_backward() -> None:
    calls = []

    @fg.register_augmented_forward("aten.sin")
    def forward(x):
        calls.append("forward")
        return torch.sin(x) + 1, (torch.cos(x), "anything")

    @fg.register_backward("aten.sin")
    def backward(cos, word, g):
        assert word == "anything"
        return g * cos

    f = fg.jit(lambda x: torch.sin(x) * 2)
    x = leaf(3)
    for _ in range(2):
        torch.testing.assert_close(f(x), (x.sin() + 1) * 2)
        torch.testing.assert_close(gradient(f, x), 2 * x.cos())
    assert calls and fg.cache_hits(f) == 3
    with torch.no_grad():
        torch.testing.assert_close(f(x), x.detach().sin() * 2)  # not differentiated: the operator


def test_rule_in_one_function() -> None:
    def sin(x):
        y = torch.sin(x)
        fg.put_grad(x, fg.get_grad(y) * torch.cos(x) * 3)
        return y

    fg.register_grad("aten.sin", sin)
    f = fg.jit(lambda x: torch.sin(x))
    x = leaf(3)
    for _ in range(2):
        torch.testing.assert_close(f(x), x.sin())
        torch.testing.assert_close(gradient(f, x), 3 * x.cos())
    assert fg.cache_hits(f) == 3
    fg.register_grad("aten.sin", None)
    torch.testing.assert_close(gradient(f, x), x.cos())


def test_gradients_of_a_rule_add_up() -> None:
    def mul(a, b):
        y = a * b
        g = fg.get_grad(y)
        fg.put_grad(a, g * b)
        fg.put_grad(b, g * a)
        return y

    fg.register_grad("aten.mul.Tensor", mul)
    f = fg.jit(lambda x: x * x)
    x = leaf(3)
    for _ in range(2):
        torch.testing.assert_close(gradient(f, x), 2 * x.detach())


def test_keywords_defaults_and_numbers() -> None:
    seen = []

    @fg.register_augmented_forward("aten.add.Tensor")
    def forward(a, b, alpha=1):
        seen.append((type(b), alpha))
        return torch.ops.aten.add.Tensor(a, b, alpha=alpha), (alpha,)

    backward_impls["aten.add.Tensor"] = lambda alpha, g: (g, None)
    f = fg.jit(lambda x, y: torch.add(x, y, alpha=3) + 1)
    x, y = leaf(3), leaf(3)
    for _ in range(2):
        torch.testing.assert_close(gradient(f, x, y), torch.ones_like(x))
    assert (torch.Tensor, 3) in seen and (int, 1) in seen, seen


def test_a_number_in_place_of_a_tensor_is_saved_by_default() -> None:
    seen = []

    def backward(a, b, g):
        seen.append(b)
        return g * b, None

    backward_impls["aten.mul.Tensor"] = backward
    f = fg.jit(lambda x: x * 2.5)
    x = leaf(3)
    for _ in range(2):
        torch.testing.assert_close(gradient(f, x), torch.full_like(x, 2.5))
    assert all(b == 2.5 for b in seen)


def test_several_results_and_unused_ones() -> None:
    @fg.register_augmented_forward("aten.var_mean.correction")
    def forward(x, dim=None, correction=None, keepdim=False):
        var, mean = torch.var_mean(x, dim, correction=correction, keepdim=keepdim)
        return (var, mean), (x, mean)

    @fg.register_backward("aten.var_mean.correction")
    def backward(x, mean, g_var, g_mean):
        n = x.numel()
        return g_var * 2 / (n - 1) * (x - mean) + g_mean / n

    f = fg.jit(lambda x: torch.var_mean(x, correction=1))
    x = leaf(5)
    for k in (0, 1, 0, 1):
        (found,) = torch.autograd.grad(f(x)[k], x)
        (expected,) = torch.autograd.grad(torch.var_mean(x, correction=1)[k], x)
        torch.testing.assert_close(found, expected)


def test_in_place_operators_have_the_rule_of_their_functional_form() -> None:
    backward_impls["aten.mul.Tensor"] = lambda a, b, g: (10 * g * b, None)

    def f(x, w):
        y = x.clone()
        y.mul_(w)
        return y

    g = fg.jit(f)
    x, w = leaf(3), torch.full((3,), 2.0, dtype=torch.float64)
    for _ in range(2):
        torch.testing.assert_close(g(x, w), x * 2)
        torch.testing.assert_close(gradient(g, x, w), torch.full_like(x, 20))


def test_composites_with_a_rule_stay_whole() -> None:
    def linear(x, w, b=None):
        y = torch.nn.functional.linear(x, w, b)
        fg.put_grad(w, fg.get_grad(y).t() @ x * 7)
        return y

    f = fg.jit(lambda w, x: torch.nn.functional.linear(x, w))
    w, x = leaf(2, 3), torch.randn(4, 3, dtype=torch.float64)
    expected = gradient(lambda w, x: torch.nn.functional.linear(x, w), w, x)
    gradient(f, w, x)
    fg.register_grad("aten.linear", linear)
    for _ in range(2):
        torch.testing.assert_close(gradient(f, w, x), 7 * expected)
    assert "aten.linear" in fg.last_traces(f)[0].ops()


def test_rules_hold_when_the_call_falls_back_to_eager() -> None:
    backward_impls["aten.sin"] = double

    def f(x):
        torch.randperm(3, generator=torch.Generator())
        return torch.sin(x)

    g = fg.jit(f)
    x = leaf(3)
    for _ in range(6):
        torch.testing.assert_close(gradient(g, x), 2 * x.cos())
    assert fg.fallbacks(g)


def test_rules_are_differentiated_again() -> None:
    backward_impls["aten.sin"] = lambda x, g: g * x.pow(2)
    f = fg.jit(lambda x: torch.sin(x).exp())
    x = leaf(3)

    class Sin(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x.sin()

        @staticmethod
        def backward(ctx, g):
            return g * ctx.saved_tensors[0].pow(2)

    def second(h):
        (first,) = torch.autograd.grad(h(x).sum(), x, create_graph=True)
        return torch.autograd.grad(first.pow(2).sum(), x)[0]

    expected = second(lambda x: Sin.apply(x).exp())
    for _ in range(2):
        torch.testing.assert_close(second(f), expected)
    assert fg.cache_hits(f) == 1


def test_a_rule_can_go_on_with_the_default() -> None:
    old = backward_impls["aten.tanh"]
    backward_impls["aten.tanh"] = lambda *a: [5 * g for g in old(*a)]
    f = fg.jit(lambda x: torch.tanh(x))
    x = leaf(3)
    for _ in range(2):
        torch.testing.assert_close(gradient(f, x), 5 * (1 - torch.tanh(x.detach()) ** 2))
    forward = augmented_forward_impls["aten.tanh"]

    def scaled(x):
        result, saved = forward(x)
        return result, tuple(s * 1 for s in saved)

    augmented_forward_impls["aten.tanh"] = scaled
    torch.testing.assert_close(gradient(f, x), 5 * (1 - torch.tanh(x.detach()) ** 2))


def test_random_operators_in_rules() -> None:
    @fg.register_augmented_forward("aten.sin")
    def forward(x):
        noise = torch.rand_like(x)
        return torch.sin(x) * noise, (noise,)

    backward_impls["aten.sin"] = lambda noise, g: g * noise
    f = fg.jit(lambda x: torch.sin(x))
    x = leaf(3)
    for _ in range(3):
        torch.manual_seed(3)
        y = f(x)
        torch.manual_seed(3)
        noise = torch.rand_like(x)
        torch.testing.assert_close(y, x.sin() * noise)
        torch.testing.assert_close(torch.autograd.grad(y.sum(), x)[0], noise)


def test_the_write_back_in_a_trace() -> None:
    text = inspect.getsource(backward_impls[fg.prims.copy_.id])
    assert "def backward_copy_(g0" in text and "return (g0, None)" in text, text
    backward_impls[fg.prims.copy_.id] = lambda g: (2 * g, None)
    assert backward_impls[fg.prims.copy_.id](torch.ones(1)) == (2 * torch.ones(1), None)


# ---- rules that are wrong ----------------------------------------------------------------------------------
def value_error(x, g):
    raise ValueError("mine")


@pytest.mark.parametrize(
    ("backward", "code", "words"),
    [
        (lambda x, g: (g, g), "FG-323", ["2", "expected 1"]),
        (lambda x, g: (), "FG-323", ["0", "expected 1"]),
        (lambda x, g: g[:1], "FG-324", ["f64[1]", "expected f64[3]"]),
        (lambda x, g: g.float(), "FG-324", ["f32[3]", "expected f64[3]"]),
        (lambda x, g: 3, "FG-324", ["int", "expected a tensor or None"]),
        (lambda g: g, "FG-325", ["TypeError"]),
        (value_error, "FG-325", ["ValueError: mine", "value_error"]),
        (lambda x, g: g if x.sum() > 0 else None, "FG-326", []),
        (lambda x, g: g.mul_(x.add_(1)), "FG-326", []),
    ],
)
def test_a_wrong_backward_is_an_error(backward, code: str, words: list[str]) -> None:
    f = fg.jit(lambda x: torch.sin(x))
    x = leaf(3)
    backward_impls["aten.sin"] = backward
    state = torch.get_rng_state()
    for _ in range(2):
        with pytest.raises(fg.RuleError) as caught:
            f(x)
        message = str(caught.value)
        for word in [code, "aten.sin", "test_rules.py:", *words]:
            assert word in message, message
    assert torch.equal(torch.get_rng_state(), state)
    if code == "FG-325" and "mine" in words[0]:
        assert isinstance(caught.value.__cause__, ValueError)
    del backward_impls["aten.sin"]
    for _ in range(6):
        torch.testing.assert_close(gradient(f, x), x.cos())


@pytest.mark.parametrize(
    ("forward", "code"),
    [
        (lambda x: torch.sin(x), "FG-323"),
        (lambda x: (torch.sin(x)[:1], (x,)), "FG-324"),
        (lambda x: (torch.sin(x).float(), (x,)), "FG-324"),
        (lambda x: (3, (x,)), "FG-324"),
        (lambda: None, "FG-325"),
    ],
)
def test_a_wrong_augmented_forward_is_an_error(forward, code: str) -> None:
    augmented_forward_impls["aten.sin"] = forward
    backward_impls["aten.sin"] = lambda x, g: g
    with pytest.raises(fg.RuleError, match=code):
        fg.jit(lambda x: torch.sin(x))(leaf(3))


def test_get_grad_and_put_grad_are_for_rules() -> None:
    with pytest.raises(fg.RuleError, match="FG-329"):
        fg.get_grad(leaf(3))
    with pytest.raises(fg.RuleError, match="FG-329"):
        backward_impls["aten.sin"](leaf(3), leaf(3))

    def strange(x):
        y = torch.sin(x)
        fg.put_grad(y, fg.get_grad(y))
        return y

    fg.register_grad("aten.sin", strange)
    with pytest.raises(fg.RuleError, match="FG-324.*none of the arguments"):
        fg.jit(lambda x: torch.sin(x))(leaf(3))


# ---- threads -----------------------------------------------------------------------------------------------
def test_rules_may_change_while_calls_run() -> None:
    f = fg.jit(lambda x: torch.sin(x).sin().sin())
    x = leaf(3)
    stop = threading.Event()

    def change() -> None:
        k = 0
        while not stop.is_set():
            k += 1
            backward_impls["aten.sin"] = lambda x, g: 2 * g * x.cos()
            del backward_impls["aten.sin"]
            stop.wait(0.001)

    thread = threading.Thread(target=change)
    thread.start()
    try:
        for _ in range(100):
            out = f(x).sum()
            assert torch.autograd.grad(out, x)[0].isfinite().all()
    finally:
        stop.set()
        thread.join()
    y = x.detach().requires_grad_()
    torch.testing.assert_close(gradient(f, x), torch.autograd.grad(y.sin().sin().sin().sum(), y)[0])


# ---- the write-back of a leaf ------------------------------------------------------------------------------
def written(x):
    return x.mul_(2)


@pytest.mark.filterwarnings("ignore:.*writes a leaf that requires grad")
@pytest.mark.parametrize(
    ("rule", "factor"),
    [
        (None, 2.0),
        (lambda g: (g, None), 2.0),
        (lambda g: (2 * g, None), 4.0),
        (lambda g: (None, None), None),
    ],
    ids=["default", "same", "doubled", "lost"],
)
def test_a_rule_for_the_write_back_of_a_leaf(rule, factor) -> None:
    f = fg.jit(written, leaf_inplace="functional")
    v = torch.tensor([1.0, 2.0, 3.0])
    if rule is not None:
        x = torch.ones(3, requires_grad=True)
        f(x).backward(v)
        torch.testing.assert_close(x.grad, 2 * v)
        backward_impls[fg.prims.copy_.id] = rule
    for _ in range(3):
        x = torch.ones(3, requires_grad=True)
        out = f(x)
        assert out.grad_fn is not None
        out.backward(v)
        torch.testing.assert_close(x.detach(), torch.full((3,), 2.0))
        if factor is None:
            assert x.grad is None
        else:
            torch.testing.assert_close(x.grad, factor * v)
    backward = str(fg.last_backward_traces(f)[-1])
    assert ("return (None,)" in backward) == (factor is None), backward
    assert fg.fallbacks(f) == [] and fg.cache_hits(f) == 2


@pytest.mark.filterwarnings("ignore:.*writes a leaf that requires grad")
def test_an_augmented_forward_for_the_write_back() -> None:
    @fg.register_augmented_forward(fg.prims.copy_.id)
    def forward(source, destination):
        return fg.prims.copy_(source + 1, destination), ()

    f = fg.jit(written, leaf_inplace="functional")
    for _ in range(3):
        x = torch.ones(3, requires_grad=True)
        out = f(x)
        torch.testing.assert_close(out.detach(), torch.full((3,), 3.0))
        torch.testing.assert_close(x.detach(), torch.full((3,), 3.0))
        out.sum().backward()
        torch.testing.assert_close(x.grad, torch.full((3,), 2.0))
    assert fg.fallbacks(f) == [] and fg.cache_hits(f) == 2


# ---- text --------------------------------------------------------------------------------------------------
def test_default_rules_print_as_in_the_golden_file() -> None:
    ops = [fg.prims.copy_.id, "aten.sin", "aten.mul.Tensor", "aten.tanh", "aten.sum", "aten.mm"]
    text = "\n".join(
        f"#### {op}\n"
        + inspect.getsource(augmented_forward_impls[op])
        + "\n"
        + inspect.getsource(backward_impls[op])
        for op in ops
    )
    path = pathlib.Path(__file__).parent / "golden" / "default_rules.txt"
    if os.environ.get("FULGURITE_TEST_UPDATE"):
        path.write_text(text)
    assert text == path.read_text()
