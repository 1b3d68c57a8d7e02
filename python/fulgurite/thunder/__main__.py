"""``python -m fulgurite.thunder script.py ...``: runs a script to which ``thunder`` means ours."""

from __future__ import annotations

import os
import runpy
import sys

from fulgurite.thunder import install


def main() -> int:
    if len(sys.argv) < 2:
        print("usage: python -m fulgurite.thunder SCRIPT [ARGUMENT ...]", file=sys.stderr)
        return 2
    script = sys.argv[1]
    if not os.path.exists(script):
        print(f"python -m fulgurite.thunder: there is no file {script}", file=sys.stderr)
        return 2
    install()
    sys.argv = sys.argv[1:]
    sys.path[0] = os.path.dirname(os.path.abspath(script))
    runpy.run_path(script, run_name="__main__")
    return 0


if __name__ == "__main__":
    sys.exit(main())
