"""How ``jit`` behaves around the program: exceptions, options, re-entrancy, threads, modes, lifetime."""

from __future__ import annotations

import gc
import threading
import weakref

import pytest
import torch

import fulgurite as fg
from helpers.compare import memory_pattern


def served(f: object, n: int) -> bool:
    return fg.cache_hits(f) == n


# ---- results -----------------------------------------------------------------------------------------------
def test_later_calls_are_served_and_equal() -> None:
    def f(x, w):
        return torch.nn.functional.gelu(x @ w).sum()

    g = fg.jit(f)
    for i in range(4):
        x, w = torch.randn(3, 4), torch.randn(4, 4)
        assert torch.equal(g(x, w), f(x, w))
        assert served(g, i)
    assert fg.cache_misses(g) == 1


def test_other_shapes_dtypes_and_strides_are_recorded_again() -> None:
    g = fg.jit(lambda x: (x * 2).cumsum(0))
    for x in (
        torch.ones(3),
        torch.ones(4),
        torch.ones(3, dtype=torch.float64),
        torch.ones(6)[::2],
        torch.ones(3),
    ):
        assert torch.equal(g(x), (x * 2).cumsum(0))
    assert fg.cache_misses(g) == 4
    assert served(g, 1)
    assert len(fg.recompiles(g)) == 3
    assert all(fg.recompiles(g))


def test_containers_come_back_as_they_are() -> None:
    def f(x, d):
        return {"a": [x + 1, (d["k"], None)], "b": 3, "c": "text", "d": x}

    g = fg.jit(f)
    for _ in range(3):
        x, d = torch.randn(2), {"k": torch.randn(2)}
        out = g(x, d)
        assert list(out) == ["a", "b", "c", "d"]
        assert torch.equal(out["a"][0], x + 1)
        assert out["a"][1][0] is d["k"]
        assert out["a"][1][1] is None
        assert (out["b"], out["c"]) == (3, "text")
        assert out["d"] is x
    assert served(g, 2)


def test_python_numbers_are_guarded_by_value_and_type() -> None:
    g = fg.jit(lambda x, k: x * k)
    for k in (2, 2, 2.0, True, 3, 2):
        x = torch.ones(2, dtype=torch.int64)
        got, want = g(x, k), x * k
        assert got.dtype == want.dtype and torch.equal(got, want)


def test_keyword_and_default_arguments() -> None:
    def f(x, *, scale=2.0, shift=None):
        return x * scale if shift is None else x * scale + shift

    g = fg.jit(f)
    x, s = torch.randn(3), torch.randn(3)
    for _ in range(2):
        assert torch.equal(g(x), f(x))
        assert torch.equal(g(x, shift=s), f(x, shift=s))
        assert torch.equal(g(x, scale=3.0, shift=s), f(x, scale=3.0, shift=s))
    assert served(g, 3)


def test_an_input_returned_is_the_same_object() -> None:
    g = fg.jit(lambda x, y: (x.mul_(2), y))
    for _ in range(3):
        x, y = torch.ones(2), torch.ones(2)
        a, b = g(x, y)
        assert a is x and b is y
        assert torch.equal(x, torch.full((2,), 2.0))


# ---- exceptions --------------------------------------------------------------------------------------------
class OwnError(Exception):
    pass


def test_exceptions_of_the_program_come_through_unchanged() -> None:
    def f(x, bad):
        y = x * 2
        if bad:
            raise OwnError("mine", 7)
        return y

    g = fg.jit(f)
    x = torch.ones(2)
    g(x, False)
    g(x, False)
    with pytest.raises(OwnError) as info:
        g(x, True)
    assert info.value.args == ("mine", 7)
    assert info.value.__cause__ is None
    assert torch.equal(g(x, False), x * 2)
    assert served(g, 2)


def test_errors_of_operators_have_eagers_text() -> None:
    def f(x, i):
        return x.index_select(0, i)

    g = fg.jit(f)
    x, good, bad = torch.randn(3), torch.tensor([0, 2]), torch.tensor([0, 7])
    for _ in range(3):
        assert torch.equal(g(x, good), f(x, good))
    with pytest.raises(Exception) as want:
        f(x, bad)
    for _ in range(2):
        with pytest.raises(type(want.value)) as got:
            g(x, bad)
        assert str(got.value) == str(want.value)
    assert torch.equal(g(x, good), f(x, good))


def test_an_exception_leaves_inputs_and_generator_as_eager_leaves_them() -> None:
    def f(x, i):
        y = torch.nn.functional.dropout(x, 0.5)
        x.add_(1)
        return y.index_select(0, i)

    g = fg.jit(f)
    for i in (torch.tensor([0]), torch.tensor([1]), torch.tensor([9])):
        results = []
        for h in (f, g):
            torch.manual_seed(5)
            x = torch.ones(3)
            try:
                h(x, i)
                error = None
            except IndexError as e:
                error = str(e)
            results.append((error, x, torch.get_rng_state()))
        (e0, x0, r0), (e1, x1, r1) = results
        assert e0 == e1
        assert torch.equal(x0, x1)
        assert torch.equal(r0, r1)


def test_warnings_of_the_program_come_through() -> None:
    import warnings

    def f(x):
        warnings.warn("careful", UserWarning, stacklevel=1)
        return x + 1

    g = fg.jit(f)
    for _ in range(3):
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            g(torch.ones(2))
        assert [str(w.message) for w in seen] == ["careful"]


def test_wrong_arguments_are_the_functions_own_type_error() -> None:
    g = fg.jit(lambda x: x + 1)
    g(torch.ones(1))
    with pytest.raises(TypeError, match="missing 1 required positional argument"):
        g()
    with pytest.raises(TypeError, match="unexpected keyword argument 'y'"):
        g(torch.ones(1), y=2)


# ---- falling back ------------------------------------------------------------------------------------------
def test_what_cannot_be_compiled_runs_eagerly_with_a_reason() -> None:
    import time

    def f(x):
        return x + time.time() * 0

    g = fg.jit(f)
    for _ in range(3):
        assert torch.equal(g(torch.ones(2)), torch.ones(2))
    assert served(g, 0)
    (first, *_) = fg.fallbacks(g)
    assert first.code.startswith("FG-")
    assert "time" in first.reason
    assert "test_jit.py" in first.reason
    with pytest.raises(RuntimeError, match="FG-014"):
        fg.last_traces(g)
    assert first.code in str(fg.explain(g))


def test_fullgraph_raises_instead() -> None:
    import time

    g = fg.jit(lambda x: x + time.time() * 0, fullgraph=True)
    with pytest.raises(fg.CompileError, match=r"^FG-\d{3}: "):
        g(torch.ones(2))
    h = fg.jit(lambda x: x + 1, fullgraph=True)
    for _ in range(3):
        assert torch.equal(h(torch.ones(2)), torch.full((2,), 2.0))
    assert served(h, 2)


def test_fullgraph_lets_the_programs_exceptions_through() -> None:
    def f(x):
        raise OwnError("mine")

    with pytest.raises(OwnError, match="mine"):
        fg.jit(f, fullgraph=True)(torch.ones(1))


# ---- options -----------------------------------------------------------------------------------------------
def test_an_unknown_option_names_the_nearest() -> None:
    with pytest.raises(ValueError, match=r"FG-011.*'fulgraph'.*did you mean 'fullgraph'"):
        fg.jit(lambda x: x, fulgraph=True)
    with pytest.raises(ValueError, match=r"FG-010.*'cache'.*'sometimes'"):
        fg.jit(lambda x: x, cache="sometimes")
    with pytest.raises(TypeError, match="FG-012"):
        fg.jit(3)
    with pytest.raises(TypeError, match="FG-013"):
        fg.cache_hits(lambda x: x)


def test_options_in_scope_and_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    import time

    def f(x):
        return x + time.time() * 0

    with fg.options(fullgraph=True):
        g = fg.jit(f)
        h = fg.jit(f, fullgraph=False)
    with pytest.raises(fg.CompileError):
        g(torch.ones(1))
    h(torch.ones(1))
    monkeypatch.setenv("FULGURITE_FULLGRAPH", "1")
    with pytest.raises(fg.CompileError):
        fg.jit(f)(torch.ones(1))
    monkeypatch.setenv("FULGURITE_FULLGRAPH", "perhaps")
    with pytest.raises(ValueError, match="FG-010"):
        fg.jit(f)


def test_no_caching_records_every_call() -> None:
    g = fg.jit(lambda x: x + 1, cache="no caching")
    for _ in range(3):
        g(torch.ones(1))
    assert served(g, 0)
    assert fg.cache_misses(g) == 3


def test_max_entries_bounds_what_is_kept() -> None:
    g = fg.jit(lambda x: x + 1, max_entries=2)
    for n in (1, 2, 3, 4):
        g(torch.ones(n))
    assert len(fg._C._entries(g)) <= 2
    assert torch.equal(g(torch.ones(1)), torch.full((1,), 2.0))


def test_jit_as_a_decorator_with_options_keeps_name_and_doc() -> None:
    @fg.jit(max_entries=3)
    def named(x):
        """What it does."""
        return x

    assert (named.__name__, named.__doc__) == ("named", "What it does.")
    assert named.__wrapped__(3) == 3
    assert "named" in repr(named)
    again = fg.jit(named)
    assert again.__wrapped__ is named.__wrapped__


# ---- nesting -----------------------------------------------------------------------------------------------
def test_jit_inside_jit() -> None:
    inner = fg.jit(lambda x: x.sin() * 2)

    @fg.jit
    def outer(x):
        return inner(x) + inner(x + 1)

    for _ in range(3):
        x = torch.randn(3)
        assert torch.equal(outer(x), x.sin() * 2 + (x + 1).sin() * 2)
        assert torch.equal(inner(x), x.sin() * 2)
    assert served(inner, 2)


def test_recursion() -> None:
    @fg.jit
    def power(x, n):
        return x if n == 0 else power(x * 2, n - 1)

    for _ in range(3):
        x = torch.randn(2)
        assert torch.equal(power(x, 4), x * 16)


def test_a_jitted_method() -> None:
    class Scale:
        def __init__(self, k: float) -> None:
            self.k = torch.tensor(k)

        @fg.jit
        def __call__(self, x):
            return x * self.k

    a, b = Scale(2.0), Scale(3.0)
    for _ in range(3):
        assert torch.equal(a(torch.ones(2)), torch.full((2,), 2.0))
        assert torch.equal(b(torch.ones(2)), torch.full((2,), 3.0))


def test_hooks_of_tensors_inside_call_back_into_jit() -> None:
    g = fg.jit(lambda x: x * 3)
    x = torch.ones(2, requires_grad=True)
    seen = []
    y = g(x)
    y = g(x)
    y.register_hook(lambda grad: seen.append(g(grad.detach())))
    y.sum().backward()
    assert torch.equal(seen[0], torch.full((2,), 3.0))
    assert torch.equal(x.grad, torch.full((2,), 3.0))


# ---- threads -----------------------------------------------------------------------------------------------
def test_several_threads_call_one_function() -> None:
    def f(x, w):
        return torch.tanh(x @ w) + x.sum(-1, keepdim=True)

    g = fg.jit(f)
    failures: list[object] = []

    def work(seed: int) -> None:
        generator = torch.Generator().manual_seed(seed)
        for i in range(60):
            n = 3 + (i + seed) % 3
            x = torch.randn(n, 4, generator=generator)
            w = torch.randn(4, 4, generator=generator, requires_grad=True)
            try:
                a, b = g(x, w), f(x, w)
                (ga,), (gb,) = torch.autograd.grad(a.sum(), w), torch.autograd.grad(b.sum(), w)
                if not torch.allclose(a, b) or not torch.allclose(ga, gb, atol=1e-5):
                    failures.append((seed, i))
            except Exception as e:
                failures.append(e)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join(60)
    assert not any(t.is_alive() for t in threads)
    assert not failures, failures[:3]
    assert fg.cache_hits(g) > 0


# ---- modes -------------------------------------------------------------------------------------------------
def test_grad_mode_is_a_guard() -> None:
    g = fg.jit(lambda x: x * 2)
    x = torch.ones(2, requires_grad=True)
    for _ in range(2):
        assert g(x).requires_grad
        with torch.no_grad():
            assert not g(x).requires_grad
        with torch.inference_mode():
            assert g(x).is_inference()


def test_what_attention_is_made_of_is_a_guard() -> None:
    from torch.nn.attention import SDPBackend, sdpa_kernel

    def f(q):
        return torch.nn.functional.scaled_dot_product_attention(q, q, q)

    g = fg.jit(f)
    q = torch.randn(1, 2, 8, 16)
    for backend in (SDPBackend.FLASH_ATTENTION, SDPBackend.MATH, SDPBackend.FLASH_ATTENTION):
        with sdpa_kernel(backend):
            for _ in range(3):
                assert torch.equal(g(q), f(q))
    assert fg.cache_misses(g) == 2


def test_autocast_and_default_dtype_are_guards() -> None:
    g = fg.jit(lambda x: (x @ x) + torch.ones(2, 2))
    x = torch.ones(2, 2)
    for _ in range(2):
        assert g(x).dtype == torch.float32
        with torch.autocast("cpu", dtype=torch.bfloat16):
            assert g(x).dtype == ((x @ x) + torch.ones(2, 2)).dtype
        torch.set_default_dtype(torch.float64)
        try:
            assert g(x).dtype == torch.float64
        finally:
            torch.set_default_dtype(torch.float32)


def test_globals_and_closures_are_guards() -> None:
    k = 2.0
    t = torch.ones(2)

    def f(x):
        return x * k + t

    g = fg.jit(f)
    x = torch.ones(2)
    for _ in range(2):
        assert torch.equal(g(x), torch.full((2,), 3.0))
    k = 5.0
    assert torch.equal(g(x), torch.full((2,), 6.0))
    t = torch.zeros(2)
    assert torch.equal(g(x), torch.full((2,), 5.0))
    t.add_(1)
    assert torch.equal(g(x), torch.full((2,), 6.0))


def test_data_dependent_branches_take_the_right_path() -> None:
    def f(x):
        if x.sum() > 0:
            return x * 2
        return x - 1

    g = fg.jit(f)
    for v in (1.0, 2.0, -1.0, -2.0, 3.0, -3.0):
        x = torch.full((2,), v)
        assert torch.equal(g(x), f(x))


def test_random_numbers_are_eagers() -> None:
    def f(x):
        return torch.nn.functional.dropout(x, 0.5) + torch.rand(3)

    g = fg.jit(f)
    x = torch.ones(3)
    torch.manual_seed(3)
    want = [f(x) for _ in range(4)]
    torch.manual_seed(3)
    got = [g(x) for _ in range(4)]
    assert all(torch.equal(a, b) for a, b in zip(got, want, strict=True))
    assert served(g, 3)


# ---- lifetime ----------------------------------------------------------------------------------------------
def test_inputs_and_outputs_are_not_kept_alive() -> None:
    g = fg.jit(lambda x, w: (x * w).sin())
    for _ in range(3):
        x, w = torch.randn(4), torch.randn(4, requires_grad=True)
        y = g(x, w)
        y.sum().backward()
        dead = [weakref.ref(t) for t in (x, w, y)]
        del x, w, y
        gc.collect()
        assert [r() for r in dead] == [None] * 3


def test_saved_tensors_are_freed_by_backward() -> None:
    g = fg.jit(lambda x, w: (x * w).sin())
    w = torch.randn(4, requires_grad=True)
    for _ in range(3):
        x = torch.randn(4)
        y = g(x, w)
        y.sum().backward()
        dead = weakref.ref(x)
        del x
        gc.collect()
        assert dead() is None
        del y


@pytest.mark.no_round_trip
def test_a_jitted_function_and_its_closure_die() -> None:
    class Marker:
        k = 2.0

    def make():
        marker = Marker()

        def f(x):
            return x * marker.k

        g = fg.jit(f)
        for _ in range(3):
            g(torch.ones(2))
        return [weakref.ref(t) for t in (marker, g, f)]

    dead = make()
    gc.collect()
    assert [r() for r in dead] == [None] * 3


def test_use_after_the_original_is_garbage() -> None:
    def make():
        k = torch.full((2,), 3.0)

        def f(x):
            return x * k

        return fg.jit(f)

    g = make()
    gc.collect()
    for _ in range(3):
        assert torch.equal(g(torch.ones(2)), torch.full((2,), 3.0))
    assert served(g, 2)


def test_an_attribute_set_on_an_argument_tensor_is_seen():
    def scaled(x):
        return x * getattr(x, "scale", 1.0)

    f = fg.jit(scaled)
    x = torch.ones(2)
    for _ in range(3):
        assert torch.equal(f(x), scaled(x))
    for scale in (3.0, 4.0):
        x.scale = scale
        assert torch.equal(f(x), scaled(x))
    del x.scale
    assert torch.equal(f(x), scaled(x))


def test_inference_mode_inside_the_function() -> None:
    weight = torch.randn(3, requires_grad=True)

    def f(x: torch.Tensor) -> torch.Tensor:
        with torch.inference_mode():
            scale = (x.sin() * weight).abs().max()
        with torch.inference_mode():
            if scale > 100:
                return x
            n = scale.item()
        return x * weight + n

    g = fg.jit(f)
    for i in range(5):
        x = torch.linspace(0, 1, 3) + i
        a, b = f(x), g(x)
        assert torch.equal(a, b) and not b.is_inference() and b.requires_grad
    assert fg.cache_hits(g) >= 3, fg.fallbacks(g)


def test_tensors_made_in_inference_mode_leave_the_function() -> None:
    """They are tensors of inference mode, on the memory that they share with each other."""
    weight = torch.randn(3, requires_grad=True)

    def f(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        h = x * weight
        with torch.inference_mode():
            y = (x * 2 + h).clamp_(min=0)
            first, second = y.split(1)
            z = y.to(torch.complex64).conj()
            second.mul_(3)
        return y.view(-1), y, first, z, h, second, x

    g = fg.jit(f)
    for i in range(4):
        x = torch.linspace(0, 1, 6).view(2, 3) + i
        a, b = f(x), g(x)
        for s, t in zip(a, b, strict=True):
            assert torch.equal(s, t)
            for name in ("is_inference", "is_conj", "stride", "storage_offset", "_is_view"):
                assert getattr(s, name)() == getattr(t, name)(), name
            assert s.requires_grad == t.requires_grad and s.is_leaf == t.is_leaf
        assert memory_pattern(a) == memory_pattern(b)
        assert b[6] is x
        with pytest.raises(RuntimeError, match="Inference tensors cannot be saved for backward"):
            b[1] * weight
    assert fg.cache_hits(g) == 3, fg.fallbacks(g)


def test_a_decorated_function_in_inference_mode() -> None:
    model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4), torch.nn.ReLU())

    @torch.inference_mode()
    def predict(x: torch.Tensor) -> dict[str, torch.Tensor]:
        logits = model.eval()(x)
        return {"logits": logits, "best": logits.argmax(-1)}

    g = fg.jit(predict)
    for _ in range(4):
        x = torch.randn(2, 3)
        a, b = predict(x), g(x)
        assert all(torch.equal(a[k], b[k]) and b[k].is_inference() for k in a)
    assert fg.cache_hits(g) >= 2, fg.fallbacks(g)


def test_a_view_made_in_inference_mode_is_eagers() -> None:
    def f(x: torch.Tensor) -> torch.Tensor:
        with torch.inference_mode():
            return x.view(-1)

    g = fg.jit(f)
    for _ in range(3):
        x = torch.ones(2, 2)
        assert not g(x).is_inference() and g(x)._base is x
    assert [r.code for r in fg.fallbacks(g) if r.code != "FG-209"] == ["FG-132"]
