"""Checks that includes point downwards only, and that Python stays in its layer.

    python tools/check_layers.py

The layers of src/, lowest first, are in ``LAYERS``: a file may include its own layer and those below. Headers of Python,
nanobind and torch's Python part may be included in src/python alone. A public header (include/fulgurite) includes
nothing of src/. Prints each offending include, and exits with 1 if there is one.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
LAYERS = ("ir", "ops", "record", "passes", "exec", "run", "inspect", "api", "python")
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')
PYTHON = re.compile(
    r"^(Python\.h|structmember\.h|frameobject\.h|opcode\.h|nanobind/|pybind11/|torch/extension\.h|torch/csrc/(Exceptions|THP|python_|"
    r"autograd/python_|utils/(py|python_)|jit/python/|DynamicTypes|Dtype|Device|Layout|PyInterpreter|Generator))|internal/pycore_"
)
SUFFIXES = {".h", ".cpp", ".c", ".inc"}


def target(path: Path, name: str) -> Path | None:
    """The file of ours that ``name`` means in ``path``, or None."""
    for candidate in (path.parent / name, ROOT / "src" / name, ROOT / "include" / name):
        if candidate.is_file():
            return candidate.resolve()
    return None


def problems(path: Path) -> list[str]:
    found = []
    parts = path.relative_to(ROOT).parts
    public = parts[0] == "include"
    layer = None if public else parts[1]
    if layer is not None and layer not in LAYERS:
        return [
            f"{path.relative_to(ROOT)}: folder {layer!r} is no layer; known are {', '.join(LAYERS)}"
        ]
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        match = INCLUDE.match(line)
        if match is None:
            continue
        where = f"{path.relative_to(ROOT)}:{number}: {line.strip()}"
        if layer != "python" and PYTHON.search(match[2]):
            found.append(f"{where}  (Python belongs into src/python)")
            continue
        file = target(path, match[2])
        if file is None:
            if match[1] == '"':
                found.append(f"{where}  (no such file; headers of others are included with <>)")
            continue
        into = file.relative_to(ROOT).parts
        if into[0] == "include":
            if layer is not None and LAYERS.index(layer) < LAYERS.index("api"):
                found.append(f"{where}  (the public API is above layer {layer!r})")
        elif public:
            found.append(f"{where}  (a public header may not include src/)")
        elif LAYERS.index(into[1]) > LAYERS.index(layer):
            found.append(f"{where}  (layer {into[1]!r} is above {layer!r})")
    return found


def main() -> int:
    files = [
        p
        for top in ("src", "include")
        for p in sorted((ROOT / top).rglob("*"))
        if p.suffix in SUFFIXES
    ]
    found = [problem for path in files for problem in problems(path)]
    for problem in found:
        print(problem)
    print(f"{len(files)} files, {len(found)} includes that point upwards")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
