"""``check_results``: a program whose steps give something else than its trace declares raises FG-902."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
import torch

import fulgurite as fg

X = torch.arange(12.0).reshape(3, 4)
MOODS = {
    "strides": (lambda x: x.t().contiguous().t(), "f32[3, 4; 1, 3]"),
    "dtype": (lambda x: x.double(), "f64[3, 4]"),
    "shape": (lambda x: x[:2].clone(), "f32[2, 4]"),
    "history": (lambda x: x.clone().requires_grad_(), "a history"),
}


class Mood:
    of = staticmethod(torch.clone)


LIBRARY = torch.library.Library("fulgurite_check_test", "FRAGMENT")
LIBRARY.define("moody(Tensor x) -> Tensor")
LIBRARY.impl("moody", lambda x: Mood.of(x), "CPU")
LIBRARY.define("with_moody_gradient(Tensor x) -> Tensor")
LIBRARY.impl("with_moody_gradient", torch.clone, "CPU")
torch.library.register_autograd(
    "fulgurite_check_test::with_moody_gradient",
    lambda ctx, g: MOODY(g),
    lib=LIBRARY,
)


@pytest.fixture(autouse=True)
def usual_mood() -> Iterator[None]:
    yield
    Mood.of = staticmethod(torch.clone)


# Looked up once: PyTorch looks them up by C functions that are not audited.
MOODY = torch.ops.fulgurite_check_test.moody.default
WITH_MOODY_GRADIENT = torch.ops.fulgurite_check_test.with_moody_gradient.default


def forward(x: torch.Tensor) -> torch.Tensor:
    return MOODY(x) + 1


def backward(x: torch.Tensor) -> torch.Tensor:
    return WITH_MOODY_GRADIENT(x * 2)


@pytest.mark.parametrize("mood", MOODS)
def test_a_result_that_is_not_what_is_declared_raises(mood: str) -> None:
    f = fg.jit(forward, check_results=True)
    f(X), f(X)
    assert fg.cache_hits(f) == 1
    Mood.of, found = MOODS[mood]
    with pytest.raises(fg.Error, match="FG-902") as e:
        f(X)
    for part in ("fulgurite_check_test.moody, ", "test_check_results.py:", found, "t0", "forward"):
        assert part in str(e.value), str(e.value)
    assert mood == "history" or "declared is f32[3, 4] " in str(e.value)
    Mood.of = torch.clone
    torch.testing.assert_close(f(X), X + 1)


@pytest.mark.parametrize("mood", [m for m in MOODS if m != "history"])
def test_so_does_one_in_a_backward(mood: str) -> None:
    f = fg.jit(backward, check_results=True)
    for _ in range(3):  # the first call fills caches of the operator
        x = X.clone().requires_grad_()
        f(x).sum().backward()
        torch.testing.assert_close(x.grad, torch.full_like(X, 2))
    assert fg.cache_hits(f) >= 1
    Mood.of, found = MOODS[mood]
    y = f(x)
    with pytest.raises(
        RuntimeError, match=r"FG-902: fulgurite_check_test\.moody.*" + re.escape(found)
    ):
        y.sum().backward()


def test_it_is_off_unless_it_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("FULGURITE_CHECK_RESULTS")
    f = fg.jit(forward)
    f(X)
    Mood.of = MOODS["strides"][0]
    torch.testing.assert_close(f(X), X + 1)
    assert fg.cache_hits(f) == 1 and not fg.fallbacks(f)


def test_the_environment_asks_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FULGURITE_CHECK_RESULTS", "1")
    f = fg.jit(forward)
    f(X), f(X)
    Mood.of = MOODS["strides"][0]
    with pytest.raises(fg.Error, match="FG-902"):
        f(X)


def test_what_the_data_shape_is_checked_behind_its_guard() -> None:
    f = fg.jit(lambda x: x[x > 0].reshape(-1, 1) * 2, check_results=True)
    for x in (X, X, -X, X - 5):
        torch.testing.assert_close(f(x), x[x > 0].reshape(-1, 1) * 2)
    assert fg.cache_hits(f) == 1 and not fg.fallbacks(f)
