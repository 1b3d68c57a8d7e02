"""The layer check finds what it is for."""

import importlib.util
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture
def check(tmp_path, monkeypatch):
    spec = importlib.util.spec_from_file_location(
        "check_layers", ROOT / "tools" / "check_layers.py"
    )
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.setattr(module, "ROOT", tmp_path)
    for folder in ("src/ir", "src/run", "src/api", "src/python", "include/fulgurite"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "src/ir/trace.h").write_text("")
    (tmp_path / "src/run/plan.h").write_text("")
    (tmp_path / "include/fulgurite/fulgurite.h").write_text("")

    def problems(file: str, include: str) -> list[str]:
        path = tmp_path / file
        path.write_text(f"#include {include}\n")
        return module.problems(path)

    return problems


@pytest.mark.parametrize(
    ("file", "include"),
    [
        ("src/run/a.cpp", '"ir/trace.h"'),
        ("src/run/a.cpp", '"plan.h"'),
        ("src/api/a.cpp", '"fulgurite/fulgurite.h"'),
        ("src/python/a.cpp", "<Python.h>"),
        ("src/ir/a.cpp", "<torch/csrc/autograd/node.h>"),
    ],
)
def test_downward_includes_pass(check, file, include):
    assert check(file, include) == []


@pytest.mark.parametrize(
    ("file", "include"),
    [
        ("src/ir/a.cpp", '"run/plan.h"'),
        ("src/ir/a.cpp", '"fulgurite/fulgurite.h"'),
        ("src/ir/a.cpp", '"run/missing.h"'),
        ("src/run/a.cpp", "<Python.h>"),
        ("src/run/a.cpp", "<nanobind/nanobind.h>"),
        ("src/run/a.cpp", "<torch/csrc/autograd/python_variable.h>"),
        ("include/fulgurite/a.h", '"ir/trace.h"'),
    ],
)
def test_upward_includes_and_python_are_found(check, file, include):
    assert len(check(file, include)) == 1
