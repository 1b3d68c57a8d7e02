"""fulgurite: a source-to-source compiler for PyTorch programs.

    import torch, fulgurite as fg

    @fg.jit
    def f(x, w):
        return torch.nn.functional.gelu(x @ w).sum()

``jit`` records the first call while it runs, and serves later ones from a compiled program that gives
eager's results; ``last_traces``, ``last_backward_traces`` and ``last_prologue_traces`` print every stage of
it, ``explain`` says what happened and why.
"""

try:
    from fulgurite._load import _C  # checks the torch version before the core is loaded
except ImportError as problem:
    from fulgurite import doctor

    doctor.take_over(problem)  # if `python -m fulgurite doctor` is what runs
    raise
from fulgurite import extend, logs, prims, rules
from fulgurite._C import CompileError, Error, RuleError, Trace
from fulgurite.inspection import (
    cache_hits,
    cache_misses,
    explain,
    fallbacks,
    last_backward_traces,
    last_prologue_traces,
    last_traces,
    parts,
    programs,
    recompiles,
)
from fulgurite.jit import jit
from fulgurite.options import options
from fulgurite.rules import (
    get_grad,
    put_grad,
    register_augmented_forward,
    register_backward,
    register_grad,
)
from fulgurite.transforms import grad, value_and_grad, vjp

__version__ = _C.__version__
logs.install()


def _cmake_prefix_path() -> str:
    import os

    return os.path.join(os.path.dirname(os.path.abspath(_C.__file__)), "share", "cmake")


cmake_prefix_path = _cmake_prefix_path()
"""Where ``find_package(fulgurite)`` looks: pass it as ``-DCMAKE_PREFIX_PATH``."""

__all__ = [
    "CompileError",
    "Error",
    "RuleError",
    "Trace",
    "cache_hits",
    "cache_misses",
    "cmake_prefix_path",
    "explain",
    "extend",
    "fallbacks",
    "get_grad",
    "grad",
    "jit",
    "last_backward_traces",
    "last_prologue_traces",
    "last_traces",
    "options",
    "parts",
    "prims",
    "programs",
    "put_grad",
    "recompiles",
    "register_augmented_forward",
    "register_backward",
    "register_grad",
    "rules",
    "value_and_grad",
    "vjp",
]
