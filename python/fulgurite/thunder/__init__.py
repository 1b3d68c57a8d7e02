"""Lightning Thunder's names for what is ours.

    import fulgurite.thunder as thunder       # new code

    import fulgurite.thunder
    fulgurite.thunder.install()               # from here on, "import thunder" means ours

``python -m fulgurite.thunder script.py`` runs a script that was written for Thunder unchanged. The layout of the
modules is Thunder's (``core.transforms``, ``core.prims``, ``executors.torchex``, ``extend``, ``examine``, ...); each
is a thin mapping. A name of Thunder's that has no counterpart yet is an AttributeError that says so.
"""

from __future__ import annotations

from typing import Any

import fulgurite as _fg
from fulgurite import cache_hits as cache_hits
from fulgurite import cache_misses as cache_misses
from fulgurite import explain as explain
from fulgurite import last_backward_traces as last_backward_traces
from fulgurite import last_prologue_traces as last_prologue_traces
from fulgurite import last_traces as last_traces
from fulgurite.extend import add_always_executor as add_always_executor
from fulgurite.extend import add_default_executor as add_default_executor
from fulgurite.extend import get_all_executors as get_all_executors
from fulgurite.extend import get_always_executors as get_always_executors
from fulgurite.extend import get_default_executors as get_default_executors
from fulgurite.extend import get_executor as get_executor
from fulgurite.extend import remove_always_executor as remove_always_executor
from fulgurite.extend import remove_default_executor as remove_default_executor
from fulgurite.jit import options_of as _options_of
from fulgurite.thunder import core as core
from fulgurite.thunder import examine as examine
from fulgurite.thunder import executors as executors
from fulgurite.thunder import extend as extend
from fulgurite.thunder import functional as functional
from fulgurite.thunder._install import install as install
from fulgurite.thunder._install import missing as _missing
from fulgurite.thunder._install import uninstall as uninstall
from fulgurite.thunder.core import prims as prims
from fulgurite.thunder.core.transforms import grad as grad
from fulgurite.thunder.core.transforms import value_and_grad as value_and_grad
from fulgurite.thunder.core.transforms import vjp as vjp

__version__ = _fg.__version__

# What Thunder's jit takes and ours has no use for: how its bytecode interpreter works.
_NO_MEANING_HERE = frozenset(
    {
        "langctx",
        "interpretation",
        "sharp_edges",
        "debug_options",
        "disable_torch_autograd",
        "record_history",
    }
)


def jit(fn: Any = None, /, **options: Any) -> Any:
    """``fulgurite.jit``. Options that steer Thunder's interpreter (``langctx``, ``interpretation``, ``sharp_edges``,
    ...) are taken and have no effect; unknown ones raise ValueError (FG-011)."""
    if fn is None:
        return lambda f: jit(f, **options)
    executors.torchex.ex.enlist()
    return _fg.jit(fn, **{k: v for k, v in options.items() if k not in _NO_MEANING_HERE})


def compile(fn: Any = None, recipe: Any = None, **options: Any) -> Any:
    """``jit``; a recipe is not supported (TypeError)."""
    if recipe is not None:
        raise TypeError("FG-350: recipes are not supported; give jit's options")
    return jit(fn, **options)


def cache_option(fn: Any) -> str:
    """When a compiled program of ``fn`` is used again: a value of the option ``cache``."""
    return _options_of(fn)["cache"]


def __getattr__(name: str) -> Any:
    raise _missing("thunder", name)
