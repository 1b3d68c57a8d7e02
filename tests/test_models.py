"""Whole models of bench/zoo: losses, gradients, buffers and outputs of eager, from a compiled program."""

from __future__ import annotations

import importlib.util
import warnings

import pytest
import torch

from bench import models, zoo

needs_transformers = pytest.mark.skipif(
    importlib.util.find_spec("transformers") is None, reason="transformers is not installed"
)
ROUNDING = 1e-5
"""Largest difference, relative to the largest value of a tensor: programs may add up in another order."""


@pytest.fixture(autouse=True)
def no_warnings():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def _agrees(report: models.Report, parts: int, may_run_eagerly: int = 0) -> None:
    assert report.difference <= ROUNDING, report
    for name in ("train", "eval"):
        use = report.uses[name]
        assert use.eager <= (may_run_eagerly if name == "train" else 0), use.reasons
        assert use.recorded <= parts + (name == "eval"), use.reasons
        assert use.served > 0


@pytest.mark.parametrize("kind", zoo.STUDIES, ids=lambda k: k.name)
def test_model_compiles_whole(kind: type[zoo.Study]) -> None:
    report, _, ours, _ = models.study(kind, steps=3)
    _agrees(report, len(ours.parts()))


HUGGINGFACE = ["Gpt2", "Llama", "Bert", "T5", "Vit", "Mixtral", "Mamba", "Whisper"]


@needs_transformers
@pytest.mark.parametrize("name", HUGGINGFACE)
def test_huggingface_model_compiles_whole(name: str) -> None:
    from bench.zoo import hf

    torch.manual_seed(0)
    report, _, _, _ = models.study(getattr(hf, name), steps=4)
    # The first call of a model installs hooks and fills caches.
    _agrees(report, parts=2, may_run_eagerly=2)
    for way, use in report.uses.items():
        # T5 hands an object made anew for each generation to its decoder: another program each time.
        if way == "generate, no cache" and name != "T5":
            assert use.eager == 0 and use.served > 0, use.reasons


def test_no_model_of_transformers_is_left_out() -> None:
    kinds = {k.__name__ for k in zoo.huggingface()}
    assert kinds in (set(), set(HUGGINGFACE))
