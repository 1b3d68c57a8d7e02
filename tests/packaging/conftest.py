"""What the packaging tests need, or why they are skipped."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import fulgurite


def tool(name: str) -> str | None:
    """The program ``name``: of this environment first, then of the system."""
    own = Path(sys.prefix) / "bin" / name
    return str(own) if own.exists() else shutil.which(name)


@pytest.fixture(scope="session")
def build_cpp(tmp_path_factory):
    """Configures and builds a folder with CMake against the installed package; returns the build folder."""
    cmake, compiler = tool("cmake"), shutil.which("g++") or shutil.which("clang++")
    if cmake is None or compiler is None:
        pytest.skip("needs cmake and a C++ compiler")
    if not Path(fulgurite.cmake_prefix_path, "fulgurite", "fulgurite-config.cmake").exists():
        pytest.skip(
            f"fulgurite is not installed as a package: nothing at {fulgurite.cmake_prefix_path}"
        )
    ninja = tool("ninja")
    generator = ["-G", "Ninja", f"-DCMAKE_MAKE_PROGRAM={ninja}"] if ninja else []

    def build(source: Path) -> Path:
        binary = tmp_path_factory.mktemp(source.name)
        prefix = f"-DCMAKE_PREFIX_PATH={fulgurite.cmake_prefix_path}"
        for command in (
            [cmake, "-S", source, "-B", binary, prefix, *generator],
            [cmake, "--build", binary],
        ):
            done = subprocess.run(command, capture_output=True, text=True)
            assert done.returncode == 0, done.stdout + done.stderr
        return binary

    return build
