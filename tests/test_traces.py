"""Every stage of a program is a program: it prints, parses back to itself, runs, and means what the call means."""

from __future__ import annotations

import subprocess
import sys

import pytest
import torch

import fulgurite as fg
from helpers import traces


def attention(x, w, b):
    q, k, v = torch.nn.functional.linear(x, w, b).chunk(3, -1)
    y = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
    return torch.nn.functional.layer_norm(y, y.shape[-1:]).tanh()


def writes(x, w):
    y = x @ w
    y.t()[0].add_(1)
    x.mul_(2)
    return y.sum(0), x


def constants(x):
    return x * torch.tensor([1.5, float("inf"), -0.0]) + torch.arange(3)


def random_numbers(x):
    return torch.nn.functional.dropout(x, 0.5) * torch.rand_like(x)


PROGRAMS = {
    "attention": (
        attention,
        lambda: (
            torch.randn(5, 4, requires_grad=True),
            torch.randn(12, 4, requires_grad=True),
            torch.randn(12),
        ),
    ),
    "writes": (writes, lambda: (torch.randn(3, 4), torch.randn(4, 3, requires_grad=True))),
    "constants": (constants, lambda: (torch.randn(2, 3, requires_grad=True),)),
    "random_numbers": (random_numbers, lambda: (torch.randn(6),)),
}


def compiled(name: str):
    program, make = PROGRAMS[name]
    if name == "writes":  # eager's backward would raise: x is overwritten
        make = lambda: (torch.randn(3, 4), torch.randn(4, 3))
    jitted = fg.jit(program)
    for _ in range(2):
        jitted(*make())
    assert fg.cache_hits(jitted) == 1, str(fg.explain(jitted))
    return jitted, make


@pytest.mark.parametrize("name", PROGRAMS)
def test_stages_print_parse_and_run(name: str) -> None:
    jitted, make = compiled(name)
    assert not traces.problems(jitted)
    assert not traces.run_problems(jitted, list(make()))


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("depth", [0, 1, 2])
def test_text_of_every_depth_runs_as_the_call(name: str, depth: int) -> None:
    jitted, make = compiled(name)
    for trace in fg.last_traces(jitted):
        inputs = make()
        text = trace.python(depth=depth)
        if (
            f"def computation({'' if not inputs else 'x'}" not in text
            or "cotangent" in text
            or "g_t" in text.split("):")[0]
        ):
            continue
        scope: dict = {}
        exec(compile(text, trace.stage, "exec"), scope)
        torch.manual_seed(1)
        got = scope["computation"](*[t.detach().clone() for t in inputs])
        got = got[0] if isinstance(got, tuple) else got
        torch.manual_seed(1)
        want = PROGRAMS[name][0](*[t.detach().clone() for t in inputs])
        want = want if isinstance(want, tuple) else (want,)
        for a, b in zip(got["flat_output"], want, strict=True):
            torch.testing.assert_close(a.detach(), b.detach(), rtol=0, atol=0)


def test_the_printed_text_runs_in_a_fresh_interpreter() -> None:
    jitted, _ = compiled("attention")
    text = fg.last_traces(jitted)[-1].python()
    call = "\nout, saved = computation(torch.ones(5, 4), torch.ones(12, 4), torch.ones(12))\nprint(out['flat_output'][0].shape)\n"
    done = subprocess.run(
        [sys.executable, "-c", text + call],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr + text
    assert done.stdout.strip() == "torch.Size([5, 4])"


def test_printed_backward_gives_the_gradients() -> None:
    jitted, make = compiled("attention")
    forward, backward = fg.last_traces(jitted)[-1], fg.last_backward_traces(jitted)[-1]
    scope: dict = {}
    exec(forward.python(), scope)
    exec(backward.python(), scope)
    x, w, b = make()
    out, saved = scope["computation"](x.detach(), w.detach(), b)
    cotangent = torch.randn(5, 4)
    got = scope["backward"](saved, (cotangent,))
    want = torch.autograd.grad(attention(x, w, b), (x, w), cotangent)
    given = [g for g in got if g is not None]
    assert len(given) == 2
    for a, e in zip(given, want, strict=True):
        torch.testing.assert_close(a, e)


def test_names_locations_and_stages() -> None:
    jitted, _ = compiled("attention")
    forward = fg.last_traces(jitted)
    assert forward[0].stage == "recorded"
    assert all(t.name == "attention" for t in forward)
    assert len(forward[0]) == len(forward[0].ops())
    text = str(forward[0])
    assert "test_traces.py:" in text
    assert "torch.nn.functional.linear" in text
    assert "torch.nn.functional.linear" in forward[0].python(depth=1)
    assert "aten.linear" not in " ".join(forward[0].ops())
    assert "def backward(saved_for_backward, cotangents):" in str(
        fg.last_backward_traces(jitted)[-1]
    )
    assert "at::" in forward[0].cpp()
    (prologue,) = fg.last_prologue_traces(jitted)
    assert "x: Float[5, 4]" in str(prologue)


def test_text_that_is_no_trace_is_an_error_with_line_and_column() -> None:
    jitted, _ = compiled("constants")
    text = fg.last_traces(jitted)[0].python(depth=0)
    for broken in (
        "",
        "def f(:",
        text.replace("torch.mul", "torch.no_such_operator"),
        text.replace("return", "retrun"),
        text[: len(text) // 2],
    ):
        with pytest.raises(ValueError, match=r"FG-30\d: line \d+, column \d+"):
            fg.Trace.parse(broken)


def test_a_changed_text_is_another_trace() -> None:
    jitted, _ = compiled("constants")
    trace = fg.last_traces(jitted)[0]
    other = fg.Trace.parse(trace.python(depth=0, full_paths=True).replace("torch.add", "torch.sub"))
    assert not other.identical(trace)
    assert other.difference(trace)
    x = torch.ones(2, 3)
    assert torch.equal(other(x)[0], x * torch.tensor([1.5, float("inf"), -0.0]) - torch.arange(3))


def test_wrong_inputs_are_an_error() -> None:
    jitted, _ = compiled("constants")
    trace = fg.last_traces(jitted)[0]
    with pytest.raises(ValueError, match="FG-310"):
        trace()
    with pytest.raises(ValueError, match="FG-311"):
        trace("text")
