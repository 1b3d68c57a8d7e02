"""Whole models as they are used: a few training steps, evaluation, generation. ``study.py`` says what one is."""

from __future__ import annotations

from bench.zoo import graphs, sequence, vision
from bench.zoo.study import Study, has_transformers

__all__ = ["STUDIES", "Study", "has_transformers", "huggingface"]

STUDIES: list[type[Study]] = [*sequence.STUDIES, *vision.STUDIES, *graphs.STUDIES]


def huggingface() -> list[type[Study]]:
    """Those that need ``transformers``; empty if it is not installed."""
    if not has_transformers():
        return []
    from bench.zoo import hf

    return hf.STUDIES
