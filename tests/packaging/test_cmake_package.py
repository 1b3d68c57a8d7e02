"""find_package(fulgurite) beside another torch, or none, says what is wrong."""

import shutil
import subprocess
from pathlib import Path

import pytest

import fulgurite

CONFIG = Path(fulgurite.cmake_prefix_path, "fulgurite")


@pytest.mark.parametrize(("version", "found"), [("2.99.1+cpu", "2.99.1"), (None, "none")])
def test_another_torch_beside_the_package_is_a_clear_error(tmp_path, version, found):
    cmake = shutil.which("cmake")
    if cmake is None or not CONFIG.exists():
        pytest.skip("needs cmake and an installed fulgurite")
    shutil.copytree(CONFIG, tmp_path / "site" / "fulgurite" / "share" / "cmake" / "fulgurite")
    if version is not None:
        (tmp_path / "site" / "torch").mkdir()
        (tmp_path / "site" / "torch" / "version.py").write_text(f"__version__ = '{version}'\n")
    (tmp_path / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.18)\nproject(p LANGUAGES NONE)\nfind_package(fulgurite REQUIRED)\n"
    )
    prefix = tmp_path / "site" / "fulgurite" / "share" / "cmake"
    generator = ["-G", "Ninja"] if shutil.which("ninja") else []
    done = subprocess.run(
        [
            cmake,
            *generator,
            "-S",
            tmp_path,
            "-B",
            tmp_path / "build",
            f"-DCMAKE_PREFIX_PATH={prefix}",
        ],
        capture_output=True,
        text=True,
    )
    text = " ".join((done.stdout + done.stderr).split())
    assert done.returncode != 0
    assert "built for torch 2.13.0" in text and f"found there: {found}" in text, text
