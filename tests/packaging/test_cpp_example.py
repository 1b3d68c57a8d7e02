"""The C++ example builds against the installed package and runs without Python."""

import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
pytestmark = pytest.mark.packaging


@pytest.fixture(scope="session")
def program(build_cpp):
    return build_cpp(ROOT / "examples" / "cpp") / "train"


def test_it_trains_and_prints_its_traces_in_an_empty_environment(program):
    done = subprocess.run([program], capture_output=True, text=True, env={}, cwd="/")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "299 calls compiled, 1 recorded" in done.stdout
    assert "def computation(" in done.stdout and "def backward(" in done.stdout
    assert "main.cpp" in done.stdout


def test_it_links_no_python(program):
    linked = subprocess.run(["ldd", program], capture_output=True, text=True).stdout
    assert "libfulgurite.so" in linked
    assert "python" not in linked.replace("/lib/python3", "").lower(), linked
