"""The HTML report: one self-contained page with every stage of what was compiled, beside its source."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from fulgurite.inspection import Explanation
from fulgurite.report.page import render


def page(functions: Iterable[Any], title: str = "fulgurite") -> str:
    """The report on what ``jit`` returned (or on explanations of it) as HTML. It needs no network."""
    explanations = [f if isinstance(f, Explanation) else Explanation(f) for f in functions]
    return render(explanations, title)


def write(path: str | Path, functions: Iterable[Any], title: str = "fulgurite") -> Path:
    """Writes the report; returns its absolute path."""
    path = Path(path).resolve()
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(page(functions, title), encoding="utf-8")
    return path
