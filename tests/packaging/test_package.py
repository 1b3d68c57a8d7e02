"""What is in the installed package, and that it is found from anywhere."""

import importlib.metadata
import re
import subprocess
import sys
from pathlib import Path

import pytest

import fulgurite

PACKAGE = Path(fulgurite._C.__file__).parent
installed = pytest.mark.skipif(
    not (PACKAGE / "lib" / "libfulgurite.so").exists(),
    reason=f"fulgurite is not installed as a package at {PACKAGE}",
)


def python(code: str, cwd="/") -> subprocess.CompletedProcess:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=cwd)


def needed_paths(library: Path) -> list[str]:
    """The RUNPATH of an ELF file, read out of its dynamic section."""
    import struct

    data = library.read_bytes()
    assert data[:5] == b"\x7fELF\x02", "64 bit ELF expected"
    start, size, count = (
        struct.unpack_from("<Q", data, 0x28)[0],
        *struct.unpack_from("<HH", data, 0x3A),
    )
    for i in range(count):
        section = struct.unpack_from("<IIQQQQIIQQ", data, start + i * size)
        if section[1] != 6:  # SHT_DYNAMIC
            continue
        strings = struct.unpack_from("<IIQQQQIIQQ", data, start + section[6] * size)[4]
        for at in range(section[4], section[4] + section[5], 16):
            tag, value = struct.unpack_from("<qQ", data, at)
            if tag in (15, 29):  # DT_RPATH, DT_RUNPATH
                end = data.index(b"\0", strings + value)
                return data[strings + value : end].decode().split(":")
    return []


@installed
def test_files_are_where_they_belong():
    for name in (
        "lib/libfulgurite.so",
        "include/fulgurite/fulgurite.h",
        "share/cmake/fulgurite/fulgurite-config.cmake",
        "share/cmake/fulgurite/fulgurite-config-version.cmake",
        "_build_info.py",
        "py.typed",
    ):
        assert (PACKAGE / name).exists(), name
    assert not list(PACKAGE.rglob("*.cpp"))


@installed
def test_libraries_are_found_relative_to_the_package():
    assert needed_paths(PACKAGE / "lib" / "libfulgurite.so") == ["$ORIGIN/../../torch/lib"]
    assert needed_paths(Path(fulgurite._C.__file__)) == ["$ORIGIN/lib", "$ORIGIN/../torch/lib"]


@installed
def test_import_works_from_another_directory(tmp_path):
    done = python("import fulgurite; print(fulgurite.__version__)", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == importlib.metadata.version("fulgurite")


def test_another_minor_of_torch_is_a_clear_error():
    done = python("import torch; torch.__version__ = '2.99.1+cpu'; import fulgurite")
    assert done.returncode != 0
    last = done.stderr.strip().splitlines()[-1]
    assert last.startswith("ImportError: FG-001: "), done.stderr
    assert re.search(r"built for torch 2\.13\.0, but torch 2\.99\.1\+cpu is installed", last), last


def test_the_core_knows_no_python():
    linked = subprocess.run(
        ["ldd", next(PACKAGE.rglob("libfulgurite.so"), "")], capture_output=True, text=True
    ).stdout
    assert "libtorch_python" not in linked and "libpython" not in linked
