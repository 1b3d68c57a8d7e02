"""``thunder.executors.torchex``: the executor ``torch``, in which implementations are registered that run in the place
of PyTorch's. It is a default executor; what it does not implement stays with ATen."""

from __future__ import annotations

from typing import Any

from fulgurite import extend as _extend

ex = _extend.OperatorExecutor("torch")
_extend.register_executor(ex)
_extend.add_default_executor(ex)


def _always_executable(*args: Any, **kwargs: Any) -> bool:
    """A checker that takes everything."""
    return True


def _register_implementation(op: Any, by: Any = None, **options: Any) -> None:
    """``ex.register_implementation``."""
    ex.register_implementation(op, by, **options)
