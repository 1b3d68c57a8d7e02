"""Writes python/fulgurite/_C.pyi: what type checkers and editors know of the compiled module.

    python tools/generate_stubs.py            # with the built package importable
    python tools/generate_stubs.py --check    # exits with 1 if the file is not what it would write

The text is nanobind's, from the signatures that the module itself tells.
"""

from __future__ import annotations

import difflib
import sys
from pathlib import Path

HEAD = "# Written by tools/generate_stubs.py; do not edit.\n"
FILE = Path(__file__).resolve().parents[1] / "python" / "fulgurite" / "_C.pyi"


def stubs() -> str:
    from nanobind.stubgen import StubGen

    from fulgurite import _C

    generator = StubGen(_C, quiet=True, include_private=True)
    generator.put(_C)
    lines = [line.rstrip() for line in generator.get().splitlines()]
    # The values are those of one build, and nanobind leaves __version__ out.
    lines = [
        "__version__: str\ntorch_version: str" if line.startswith("torch_version") else line
        for line in lines
    ]
    lines = [line.replace(": getset_descriptor", ": types.GetSetDescriptorType") for line in lines]
    return HEAD + "\n".join(lines).strip() + "\n"


def main() -> int:
    found = stubs()
    if "--check" not in sys.argv[1:]:
        FILE.write_text(found, encoding="utf-8")
        return 0
    there = FILE.read_text(encoding="utf-8") if FILE.exists() else ""
    difference = list(
        difflib.unified_diff(
            there.splitlines(), found.splitlines(), str(FILE), "built", lineterm=""
        )
    )
    print("\n".join(difference))
    return 1 if difference else 0


if __name__ == "__main__":
    sys.exit(main())
