"""``import thunder`` means ours: entries in ``sys.modules``, put there and taken away again."""

from __future__ import annotations

import importlib
import pkgutil
import sys

_OURS = "fulgurite.thunder"


def missing(module: str, name: str) -> AttributeError:
    """The error for a name of Thunder's that has no counterpart."""
    return AttributeError(
        f"{module}.{name}: fulgurite has no counterpart of this name of Thunder's; "
        f"docs/thunder.md lists those that there are"
    )


def install() -> None:
    """From here on ``import thunder`` and ``import thunder.core.prims`` ... give the modules of ``fulgurite.thunder``.

    Raises ImportError (FG-351) if the real Thunder is imported already: its functions would meet ours.
    """
    here = importlib.import_module(_OURS)
    there = sys.modules.get("thunder")
    if there is not None and there is not here:
        raise ImportError(
            "FG-351: the module thunder is imported already; call fulgurite.thunder.install() before"
        )
    sys.modules["thunder"] = here
    for found in pkgutil.walk_packages(here.__path__, _OURS + "."):
        last = found.name.rpartition(".")[2]
        if last.startswith("_"):
            continue
        sys.modules["thunder" + found.name.removeprefix(_OURS)] = importlib.import_module(
            found.name
        )


def uninstall() -> None:
    """Takes back what ``install`` did."""
    for name, module in list(sys.modules.items()):
        ours = getattr(module, "__name__", "").startswith(_OURS)
        if ours and (name == "thunder" or name.startswith("thunder.")):
            del sys.modules[name]
