"""Executors: who runs an operator, what a user can register, what goes wrong when it is wrong."""

import copy
import pickle
import random
import re
import threading

import pytest
import torch
import torch.nn.functional as F

import fulgurite as fg
from fulgurite import extend


@pytest.fixture
def ex(request):
    executor = extend.OperatorExecutor("mine", version="0.1")
    extend.register_executor(executor)
    yield executor
    if executor in extend.get_all_executors():
        extend.deregister_executor(executor)


def like(x):
    return torch.empty_like(x)


def listed(ex):
    return [ex, *extend.get_default_executors()]


def taken(f):
    """Operators of the forward and backward program that an executor took, by executor."""
    found = {}
    for claim in fg.programs(f)[0].claims:
        if not claim.executor:
            continue
        found.setdefault(claim.executor, []).append(claim.op)
    return found


def sine(ex, scale=1.0, calls=None):
    def fn(x):
        if calls is not None:
            calls.append(tuple(x.shape))
        return torch.sin(x) * scale

    return ex.register_operator("sine", meta=like, fn=fn)


# ---- claims ----------------------------------------------------------------------------------------------
def test_an_implementation_runs_in_the_place_of_the_operator(ex):
    calls = []
    ex.register_implementation("aten.sin", sine(ex, calls=calls))
    f = fg.jit(lambda x: torch.sin(x) + 1, executors=listed(ex))
    x = torch.randn(3)
    for _ in range(3):
        torch.testing.assert_close(f(x), torch.sin(x) + 1)
    assert calls == [(3,), (3,)]  # the recorded call is eager's
    assert taken(f) == {"mine": ["aten.sin"], "aten": ["aten.add.Tensor"]}
    assert "mine takes aten.sin (test_executors.py:" in str(fg.explain(f))
    stages = {t.stage: t for t in fg.last_traces(f)}
    assert f"torch.ops.{ex._core.namespace}.sine" in str(stages["claim"])
    text = stages["claim"].python(full_paths=True, depth=0)
    assert fg.Trace.parse(text).identical(stages["claim"])
    torch.testing.assert_close(stages["claim"](x)[0], torch.sin(x) + 1)


def test_gradients_are_those_of_the_operator_that_was_claimed(ex):
    ex.register_implementation("aten.sin", sine(ex))
    ex.register_implementation(
        torch.ops.aten.cos.default,
        ex.register_operator("cosine", meta=like, fn=lambda x: torch.cos(x)),
    )
    f = fg.jit(lambda x: torch.sin(x * 2).sum(), executors=listed(ex))
    for _ in range(3):
        x = torch.randn(3, requires_grad=True)
        f(x).backward()
        torch.testing.assert_close(x.grad, 2 * torch.cos(2 * x.detach()))
    assert taken(f)["mine"] == ["aten.sin", "aten.cos"]
    assert [t.stage for t in fg.last_backward_traces(f)] == [
        "split",
        "simplify",
        "claim",
        "reinplace",
    ]


def test_a_checker_sees_what_the_tensors_are_like_and_gives_a_reason(ex):
    seen = []

    def checker(x):
        seen.append((x.shape, x.dtype, x.device, x.requires_grad, x.ndim, x.is_contiguous()))
        return (False, "too small") if x.numel() < 10 else True

    ex.register_implementation("aten.sin", sine(ex), checker=checker)
    f = fg.jit(lambda x: torch.sin(x), executors=listed(ex))
    f(torch.ones(2, 3)), f(torch.ones(2, 3))
    assert seen == [(torch.Size((2, 3)), torch.float32, torch.device("cpu"), False, 2, True)]
    assert taken(f) == {"aten": ["aten.sin"]}
    assert "mine declined aten.sin (test_executors.py:" in str(fg.explain(f))
    assert "too small" in str(fg.explain(f))
    f(torch.ones(20)), f(torch.ones(20))
    assert taken(f) == {"mine": ["aten.sin"]}


def test_the_first_willing_executor_of_the_list_takes_it(ex):
    other = extend.OperatorExecutor("other")
    for e in (ex, other):
        e.register_implementation("aten.sin", sine(e, scale=2.0 if e is ex else 3.0))
    x = torch.randn(4)
    for order, scale in (([ex, other], 2.0), ([other, ex], 3.0), (["aten", ex], 1.0)):
        f = fg.jit(lambda x: torch.sin(x), executors=order)
        f(x)
        torch.testing.assert_close(f(x), torch.sin(x) * scale)


def test_arguments_with_other_values_than_the_defaults_are_not_lost(ex):
    add = ex.register_operator("add", meta=lambda a, b: torch.empty_like(a), fn=lambda a, b: a + b)
    ex.register_implementation("aten.add", add)
    f = fg.jit(lambda x, y: (torch.add(x, y), torch.add(x, y, alpha=2)), executors=listed(ex))
    x, y = torch.randn(2, 3)
    for _ in range(2):
        for found, expected in zip(f(x, y), (x + y, x + 2 * y), strict=True):
            torch.testing.assert_close(found, expected)
    assert taken(f) == {"mine": ["aten.add.Tensor"], "aten": ["aten.add.Tensor"]}
    assert "takes no alpha, which is 2" in str(fg.explain(f))


def test_a_composite_operator_is_taken_as_a_whole_where_that_is_possible(ex):
    calls = []

    def meta(x, normalized_shape: list[int], weight, bias):
        return torch.empty_like(x)

    def fn(x, normalized_shape, weight, bias):
        calls.append(normalized_shape)
        return F.layer_norm(x, normalized_shape, weight, bias)

    norm = ex.register_operator("layer_norm", meta=meta, fn=fn)
    ex.register_implementation("aten.layer_norm", norm)
    module = torch.nn.LayerNorm(4)
    f = fg.jit(lambda x: module(x) * 2, executors=listed(ex))
    x = torch.randn(3, 4)
    with torch.no_grad():
        for _ in range(2):
            torch.testing.assert_close(f(x), module(x) * 2)
    assert calls == [[4]]
    assert taken(f)["mine"] == ["aten.layer_norm"]
    # With gradient, backward needs what is inside: its parts are left to aten, and that is said.
    for _ in range(2):
        torch.testing.assert_close(f(x), module(x) * 2)
    assert calls == [[4]]
    assert "mine declined aten.layer_norm" in str(fg.explain(f))
    assert "is used outside it" in str(fg.explain(f))


def test_an_execution_transform_writes_the_operator_in_others(ex):
    double = ex.register_operator("double", meta=like, fn=lambda x: x + x)

    def silu(x):
        return double(x) * torch.sigmoid(x) * 0.5

    ex.register_implementation("aten.silu", execution_transform=silu)
    f = fg.jit(lambda x: F.silu(x), executors=listed(ex))
    x = torch.randn(3, 5).t()
    for _ in range(2):
        found = f(x)
        torch.testing.assert_close(found, F.silu(x))
        assert found.stride() == F.silu(x).stride()
    ops = fg.last_traces(f)[-1].ops()
    assert ops[0].endswith(".double") and "aten.sigmoid" in ops and "aten.silu" not in ops


def test_an_operator_is_a_symbol_in_programs(ex):
    twice = ex.register_operator("scale", meta=scale_meta, fn=lambda x, by: x * by)
    f = fg.jit(lambda x: twice(x, 3.0).sum() + twice(x, 2.0)[0])
    x = torch.randn(3)
    for _ in range(3):
        torch.testing.assert_close(f(x), (x * 3).sum() + 2 * x[0])
    assert fg.cache_hits(f) == 2
    assert any(op.endswith(".scale") for op in fg.last_traces(f)[-1].ops())
    with pytest.raises(RuntimeError, match="not implemented"):
        twice(torch.ones(2, requires_grad=True), 2.0).sum().backward()


def scale_meta(x: torch.Tensor, by: float) -> torch.Tensor:
    return torch.empty_like(x)


def test_what_has_an_effect_is_kept(ex):
    calls = []
    note = ex.register_operator(
        "note", meta=like, fn=lambda x: calls.append(1) or x.clone(), tags=(extend.OpTags.DONT_DCE,)
    )
    quiet = ex.register_operator("quiet", meta=like, fn=lambda x: calls.append(2) or x.clone())
    ex.register_implementation("aten.sin", note), ex.register_implementation("aten.cos", quiet)

    def program(x):
        note(x)
        quiet(x)
        return x + 1

    f = fg.jit(program, executors=listed(ex))
    f(torch.ones(2))
    if fg.fallbacks(f):
        pytest.skip(str(fg.fallbacks(f)))
    calls.clear()
    f(torch.ones(2))
    assert calls == [1]


# ---- write-backs -----------------------------------------------------------------------------------------
def test_an_implementation_of_copy_runs_for_write_backs(ex):
    calls = []

    def impl(source, destination):
        calls.append((source.tolist(), destination.tolist()))
        return destination.copy_(source)

    my_copy = ex.register_operator(
        "copy_", meta=fg.prims.copy_, tags=(fg.prims.OpTags.DONT_DCE,), fn=impl
    )
    ex.register_implementation(fg.prims.copy_, my_copy, checker=lambda *a: True)

    def program(x):
        x.mul_(2)
        return x + 1

    f = fg.jit(program, executors=listed(ex))
    for k in range(3):
        x = torch.full((2,), 1.0 + k)
        version = x._version
        torch.testing.assert_close(f(x), torch.full((2,), 3.0 + 2 * k))
        torch.testing.assert_close(x, torch.full((2,), 2.0 + 2 * k))
        assert x._version == version + 1
    assert calls == [([4.0, 4.0], [2.0, 2.0]), ([6.0, 6.0], [3.0, 3.0])]
    assert fg.prims.copy_.id == "fulgurite.copy_"
    assert f"torch.ops.{ex._core.namespace}.copy_" in str(fg.last_traces(f)[-1])


def test_history_is_written_back_through_an_implementation_of_copy(ex):
    my_copy = ex.register_operator(
        "copy_", meta=fg.prims.copy_, fn=lambda source, destination: destination.copy_(source)
    )
    ex.register_implementation(fg.prims.copy_, my_copy)

    def program(x):
        x.mul_(3)
        return x.sin()

    def gradient(f):
        leaf = torch.tensor([0.3, 0.7], requires_grad=True)
        x = leaf * 1
        out = f(x)
        (out.sum() + x.sum()).backward()
        return leaf.grad

    f = fg.jit(program, executors=listed(ex))
    for _ in range(3):
        torch.testing.assert_close(gradient(f), gradient(program))
    assert taken(f)["mine"] == ["fulgurite.copy_"]


GOLDEN = """\
# program, after claim: 4 ops
import torch

@torch.no_grad()
def computation(x: "f32[2, 2]", w: "f32[2, 2]+g"):
    t0 = torch.mul(x, 2)                      # f32[2, 2]
    t1 = torch.matmul(t0, w)                  # f32[2, 2]+g
    t2 = torch.ops.mine.sine.default(t1)      # f32[2, 2]+g
    # epilogue: what the caller can see
    t3 = torch.ops.mine.copy_.default(t0, x)  # f32[2, 2]      no_grad
    return {'output': t2, 'flat_args': [x, w], 'flat_output': (t2,)}, ((t0, t1), ())
"""


def test_a_claimed_program_as_text(ex):
    copy_ = ex.register_operator("copy_", meta=fg.prims.copy_, fn=lambda s, d: d.copy_(s))
    ex.register_implementation(fg.prims.copy_, copy_)
    ex.register_implementation("aten.sin", sine(ex))

    def program(x, w):
        x.mul_(2)
        return torch.sin(x @ w)

    f = fg.jit(program, executors=listed(ex))
    f(torch.ones(2, 2), torch.ones(2, 2, requires_grad=True))
    claimed = next(t for t in fg.last_traces(f) if t.stage == "claim")
    text = claimed.python(locations=False)
    # Another executor of that name may have been there before: then operators have a numbered namespace.
    text = re.sub(rf"(torch\.ops\.){ex._core.namespace}\.", r"\1mine.", text)
    assert re.sub(r" +", " ", text).strip() == re.sub(r" +", " ", GOLDEN).strip()


# ---- groups ----------------------------------------------------------------------------------------------
class Counting(extend.FusionExecutor):
    def __init__(self, name="counting", declines=False):
        super().__init__(name)
        self.groups, self.runs, self.declines = [], 0, declines
        for op in ("aten.sin", "aten.cos", "aten.mul", "aten.exp", "aten.dropout"):
            self.register_supported(op)

    def fuse(self, group):
        self.groups.append(group.ops())
        if self.declines:
            return "not worth it"

        def kernel(*inputs):
            self.runs += 1
            return group(*inputs)

        return kernel


def test_groups_are_fused():
    ex = Counting()

    def program(x, y):
        a = torch.sin(x) * 2
        m = y @ y
        b = a.cos()
        c = (b @ m).exp()
        return c * c, a

    f = fg.jit(program, executors=listed(ex))
    x, y = torch.randn(3, 3), torch.randn(3, 3)
    for _ in range(3):
        for found, expected in zip(f(x, y), program(x, y), strict=True):
            torch.testing.assert_close(found, expected)
    assert ex.groups == [
        ["aten.sin", "aten.mul.Tensor", "aten.cos"],
        ["aten.exp", "aten.mul.Tensor"],
    ]
    assert ex.runs == 4
    assert "counting takes aten.exp + aten.mul.Tensor" in str(fg.explain(f))


def test_gradients_of_fused_groups():
    ex = Counting("counting_gradients")
    f = fg.jit(lambda x: (torch.sin(x) * torch.cos(x)).exp().sum(), executors=listed(ex))
    for _ in range(3):
        x = torch.randn(4, requires_grad=True)
        f(x).backward()
        y = x.detach().requires_grad_()
        (torch.sin(y) * torch.cos(y)).exp().sum().backward()
        torch.testing.assert_close(x.grad, y.grad)
    assert ex.runs > 0


def test_a_group_that_is_declined_goes_to_the_next(ex):
    first = Counting("declining", declines=True)
    ex.register_implementation("aten.sin", sine(ex))
    f = fg.jit(lambda x: torch.sin(x).cos(), executors=[first, ex])
    x = torch.randn(3)
    f(x), f(x)
    assert taken(f) == {"mine": ["aten.sin"], "aten": ["aten.cos"]}
    assert "declining declined aten.sin" in str(fg.explain(f)) and "not worth it" in str(
        fg.explain(f)
    )


def _random_program(seed):
    """A straight-line program over pointwise operators, products, random numbers, writes and value reads."""
    draw = random.Random(seed)
    steps = [
        (
            draw.choice(("sin", "cos", "mul", "add", "mm", "dropout", "t", "write", "item")),
            draw.random(),
            draw.random(),
        )
        for _ in range(draw.randint(3, 12))
    ]

    def program(x, y):
        values = [x, y]
        for kind, i, j in steps:
            a = values[int(i * len(values))]
            b = values[int(j * len(values))]
            if kind in ("sin", "cos"):
                values.append(getattr(torch, kind)(a))
            elif kind in ("mul", "add"):
                values.append(getattr(torch, kind)(a, b))
            elif kind == "mm":
                values.append(a @ b * 0.3)
            elif kind == "dropout":
                values.append(F.dropout(a, 0.5, True))
            elif kind == "t":
                values.append(a.t())
            elif kind == "write":
                values.append(b.clone())
                values[-1][0].add_(a[1])
            elif kind == "item":
                values.append(a * 2 if a.detach().sum().item() > -1e9 else a)
        return values[-1].sum() + values[len(values) // 2].sum(), values[-2]

    supported = draw.sample(
        ["aten.sin", "aten.cos", "aten.mul", "aten.add", "aten.t", "aten.mm"], 4
    )
    return program, supported, draw.random() < 0.6


@pytest.mark.parametrize("seed", range(60))
def test_random_programs_with_groups_are_as_in_eager(seed):
    program, supported, needs_grad = _random_program(seed)
    ex = extend.FusionExecutor("random_groups", fuse=lambda group: lambda *inputs: group(*inputs))
    for op in supported:
        ex.register_supported(op)
    f = fg.jit(program, executors=[ex])

    def outcome(call, k):
        torch.manual_seed(k)
        x, y = torch.randn(3, 3), torch.randn(3, 3)
        if needs_grad:
            x.requires_grad_(), y.requires_grad_()
        out = call(x, y)
        if needs_grad and out[0].requires_grad:
            out[0].backward()
        return [*out, x.grad, y.grad, torch.get_rng_state()]

    for k in range(3):
        for found, expected in zip(outcome(f, k), outcome(program, k), strict=True):
            if expected is None:
                assert found is None
            else:
                torch.testing.assert_close(found, expected)


def test_a_group_that_returns_an_expanded_argument_gives_it_the_strides_that_the_program_has():
    ex = extend.FusionExecutor("expands", fuse=lambda group: lambda *inputs: group(*inputs))
    ex.register_supported("aten.t")
    ex.register_supported("aten.sin")

    def program(x):
        y = x.expand(2, 4).clone().sin()
        z = x.expand(2, 4).t()
        return y.cos(), z.unflatten(0, (2, 2)).cos(), torch.sin(z)

    f = fg.jit(program, executors=[ex], check_results=True)
    for _ in range(3):
        x = torch.randn(1, 4)
        torch.testing.assert_close(f(x), program(x))
    assert fg.cache_hits(f) == 2 and "expands" in taken(f)


# ---- changes ---------------------------------------------------------------------------------------------
def test_a_new_implementation_drops_what_was_compiled_with_the_old_one(ex):
    ex.register_implementation("aten.sin", sine(ex, scale=2.0))
    f = fg.jit(lambda x: torch.sin(x), executors=listed(ex))
    g = fg.jit(lambda x: torch.sin(x))
    x = torch.randn(3)
    f(x), g(x)
    torch.testing.assert_close(f(x), torch.sin(x) * 2)
    five = ex.register_operator("five", meta=like, fn=lambda x: torch.sin(x) * 5)
    ex.register_implementation("aten.sin", five)
    f(x)
    torch.testing.assert_close(f(x), torch.sin(x) * 5)
    extend.deregister_executor(ex)
    f(x)
    torch.testing.assert_close(f(x), torch.sin(x))
    g(x)
    assert fg.cache_misses(g) == 1  # nothing of its executors changed


def test_another_function_of_an_operator_drops_programs_that_call_it_by_name(ex):
    op = sine(ex, scale=2.0)
    f = fg.jit(lambda x: op(x))
    x = torch.randn(3)
    for scale in (2.0, 7.0):
        sine(ex, scale=scale)
        for _ in range(3):
            torch.testing.assert_close(f(x), torch.sin(x) * scale)


def test_implementations_are_replaced_by_another_thread_while_calls_run(ex):
    ex.register_implementation("aten.sin", sine(ex))
    f = fg.jit(lambda x: torch.sin(x) + 1, executors=listed(ex))
    x = torch.full((3,), 0.5)
    scales = (1.0, 2.0, 3.0)
    allowed = [torch.sin(x) * scale + 1 for scale in scales]

    def replace():
        for k in range(60):
            sine(ex, scale=scales[k % 3])

    thread = threading.Thread(target=replace)
    thread.start()
    while thread.is_alive():
        found = f(x)
        assert any(torch.allclose(found, a) for a in allowed)
    thread.join()
    for _ in range(3):
        f(x)
    torch.testing.assert_close(f(x), allowed[59 % 3])
    assert not [r for r in fg.fallbacks(f) if r.code in ("FG-208", "FG-900")]


def test_the_registry(ex):
    assert extend.get_executor("mine") is ex
    assert extend.get_all_executors()[-1].name == "aten"
    assert [e.name for e in extend.get_default_executors()] == ["aten"]
    calls = []
    ex.register_implementation("aten.sin", sine(ex, calls=calls))
    x = torch.ones(2)
    for add, remove in (
        (extend.add_default_executor, extend.remove_default_executor),
        (extend.add_always_executor, extend.remove_always_executor),
    ):
        add(ex)
        f = fg.jit(lambda x: torch.sin(x))
        remove(ex)
        calls.clear()
        f(x), f(x)
        assert calls == [(2,)]
    calls.clear()
    f = fg.jit(lambda x: torch.sin(x), executors=["mine"])
    f(x), f(x)
    assert calls == [(2,)]
    with fg.options(executors=["mine"]):
        f = fg.jit(lambda x: torch.cos(x))
    f(x)
    assert fg.programs(f)[0].claims


def test_the_option_from_the_environment(ex, monkeypatch):
    monkeypatch.setenv("FULGURITE_EXECUTORS", "mine, aten")
    f = fg.jit(lambda x: torch.cos(x))
    f(torch.ones(2))
    assert fg.programs(f)[0].claims


def test_a_jitted_module_with_executors_is_copied_and_pickled(ex):
    ex.register_implementation("aten.relu", ex.register_operator("relu", meta=like, fn=torch.relu))
    m = fg.jit(torch.nn.ReLU(), executors=listed(ex))
    x = torch.randn(4)
    for other in (copy.deepcopy(m), pickle.loads(pickle.dumps(m))):
        other(x)
        torch.testing.assert_close(other(x), torch.relu(x))


# ---- mistakes --------------------------------------------------------------------------------------------
def raises(*args, **kwargs):
    raise ZeroDivisionError("on purpose")


def test_an_executor_that_claims_and_then_fails(ex):
    def fn(x):
        torch.rand(3)
        raise ZeroDivisionError("on purpose")

    ex.register_implementation("aten.sin", ex.register_operator("bad", meta=like, fn=fn))

    def program(x):
        x.add_(1)
        return torch.sin(x)

    f = fg.jit(program, executors=listed(ex))
    f(torch.ones(2))
    x = torch.ones(2)
    state = torch.get_rng_state()
    with pytest.raises(
        extend.ExecutorError, match=r"FG-411: executor mine, .*\.bad, test_exec"
    ) as e:
        f(x)
    assert isinstance(e.value.__cause__, ZeroDivisionError)
    assert x.tolist() == [1, 1] and x._version == 0
    assert torch.equal(torch.get_rng_state(), state)
    assert isinstance(e.value, fg.Error)


def test_a_result_that_the_program_does_not_have(ex):
    op = ex.register_operator("bad", meta=like, fn=lambda x: x[:1])
    ex.register_implementation("aten.sin", op)
    f = fg.jit(lambda x: torch.sin(x), executors=listed(ex))
    f(torch.ones(2))
    with pytest.raises(extend.ExecutorError, match=r"FG-412: .*result 0 is f32\[1\].* f32\[2\]"):
        f(torch.ones(2))
    ex.register_operator("bad", meta=like, fn=lambda x: 3)
    f(torch.ones(2))
    with pytest.raises(extend.ExecutorError, match="FG-411.*found int where the schema has Tensor"):
        f(torch.ones(2))


def test_a_meta_function_that_is_wrong(ex):
    for name, meta in (
        ("a", lambda x: x.new_empty(7)),
        ("b", lambda x: torch.empty_like(x, dtype=torch.int64)),
        ("c", raises),
    ):
        op = ex.register_operator(name, meta=lambda x: meta(x), fn=torch.sin)  # noqa: B023
        ex.register_implementation("aten.sin", op)
        f = fg.jit(lambda x: torch.sin(x), executors=listed(ex))
        with pytest.raises(
            extend.ExecutorError, match="FG-413: executor mine, aten.sin, test_exec"
        ):
            f(torch.ones(2))


def test_a_meta_function_that_disagrees_with_what_ran(ex):
    op = ex.register_operator("op", meta=lambda x: x.new_empty(7), fn=lambda x: x * 2)
    f = fg.jit(lambda x: op(x) + 1)
    with pytest.raises(
        extend.ExecutorError,
        match=r"FG-413: .*says result 0 is f32\[7\], the program has f32\[2\]",
    ):
        f(torch.ones(2))


def test_a_checker_that_raises(ex):
    ex.register_implementation("aten.sin", sine(ex), checker=lambda x: 1 / 0)
    f = fg.jit(lambda x: torch.sin(x), executors=listed(ex))
    with pytest.raises(
        extend.ExecutorError, match="FG-410: executor mine, aten.sin, test_exec"
    ) as e:
        f(torch.ones(2))
    assert isinstance(e.value.__cause__, ZeroDivisionError)


def test_an_execution_transform_that_is_wrong(ex):
    for transform in (
        raises,
        lambda x: x[:1],
        lambda x: 3,
        lambda x: torch.sin(x) * x.sum().item(),
    ):
        ex.register_implementation("aten.sin", execution_transform=transform)
        f = fg.jit(lambda x: torch.sin(x), executors=listed(ex))
        with pytest.raises(extend.ExecutorError, match="FG-414: executor mine, aten.sin"):
            f(torch.ones(2))


def test_a_fuse_that_is_wrong():
    for k, fuse in enumerate((raises, lambda group: 3)):
        ex = extend.FusionExecutor(f"bad_fuse{k}", fuse=fuse)
        ex.register_supported("aten.sin")
        f = fg.jit(lambda x: torch.sin(x), executors=[ex])
        with pytest.raises(extend.ExecutorError, match="FG-415: executor bad_fuse"):
            f(torch.ones(2))


def test_mistakes_at_registration(ex):
    with pytest.raises(ValueError, match="FG-402"):
        ex.register_operator("f", fn=torch.sin)
    with pytest.raises(ValueError, match="FG-402"):
        ex.register_operator("f", meta=like)
    with pytest.raises(ValueError, match="FG-403"):
        ex.register_operator("f", meta=lambda *a: None, fn=torch.sin)
    with pytest.raises(ValueError, match="FG-403: .*takes \\(x\\), but is called with \\(a, b\\)"):
        ex.register_operator("f", meta=lambda a, b: a, fn=lambda x: x)
    op = sine(ex)
    with pytest.raises(ValueError, match="FG-403: .*is there already"):
        ex.register_operator("sine", meta=lambda x, y: x, fn=torch.sin)
    with pytest.raises(ValueError, match="FG-404.*did you mean aten.sigmoid"):
        ex.register_implementation("aten.sigmoyd", op)
    with pytest.raises(ValueError, match="FG-404"):
        ex.register_implementation("aten.sin.Nothing", op)
    with pytest.raises(ValueError, match="FG-404"):
        ex.register_implementation(print, op)
    with pytest.raises(ValueError, match="FG-405"):
        ex.register_implementation("aten.sin")
    with pytest.raises(ValueError, match="FG-405"):
        ex.register_implementation("aten.max_pool2d_with_indices.default", op)
    with pytest.raises(ValueError, match="FG-405"):
        ex.register_implementation("aten.sin", torch.ops.aten.cos.default)
    with pytest.raises(ValueError, match="FG-401"):
        extend.OperatorExecutor("aten")
    with pytest.raises(ValueError, match="FG-401"):
        extend.OperatorExecutor("no name")
    with pytest.raises(ValueError, match="FG-401.*did you mean 'mine'"):
        fg.jit(lambda x: x, executors=["mime"])
