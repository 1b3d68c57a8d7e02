"""Which Pythons fulgurite works with. Needs no torch and no core."""

from __future__ import annotations

import platform
import sys
import sysconfig

SUPPORTED = ((3, 11), (3, 12), (3, 13))
NAMES = "3.11, 3.12 and 3.13 (from 3.13.1 on)"
EITHER = NAMES.replace("and", "or")


def why_not(
    version: tuple[int, int, int] | None = None,
    implementation: str | None = None,
    built_for: str | None = None,
    has_gil: bool | None = None,
) -> str:
    """Why this Python (or another that is described) cannot be watched; "" if it can.

    ``built_for``: the version, as "3.11", for which the core was compiled.
    """
    found = tuple(sys.version_info[:3]) if version is None else version
    name = sys.implementation.name if implementation is None else implementation
    gil = not sysconfig.get_config_var("Py_GIL_DISABLED") if has_gil is None else has_gil
    shown = ".".join(map(str, found))
    if name != "cpython":
        called = platform.python_implementation() if implementation is None else name
        return f"this is {called} {shown}; fulgurite works with CPython {NAMES}"
    reason = ""
    if found == (3, 13, 0):
        reason = "it changes attributes without telling anybody"
    elif found[:2] not in SUPPORTED:
        reason = "the watcher does not know its frames and instructions"
    elif not gil:
        reason = "it was built without the global lock that the watcher needs"
    if reason:
        return f"this is CPython {shown}: {reason}; fulgurite works with CPython {NAMES}"
    if built_for is not None and built_for != f"{found[0]}.{found[1]}":
        return f"this is CPython {shown}, and this fulgurite was built for CPython {built_for}"
    return ""
