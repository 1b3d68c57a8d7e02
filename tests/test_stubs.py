"""The stubs of the compiled module are what the module says of itself."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def test_the_stubs_are_those_of_the_module():
    done = subprocess.run(
        [sys.executable, ROOT / "tools" / "generate_stubs.py", "--check"],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, f"run tools/generate_stubs.py\n{done.stdout}{done.stderr}"
