"""``thunder.executors.torchex``: the executor ``torch``, in which implementations are registered that run in the place
of PyTorch's. It is a default executor; what it does not implement stays with ATen."""

from __future__ import annotations

from typing import Any

from fulgurite import extend as _extend


class _TorchExecutor(_extend.OperatorExecutor):
    """A default executor from the first use of Thunder's names on."""

    def enlist(self) -> None:
        if self not in _extend.get_all_executors():
            _extend.register_executor(self)
        if self not in _extend.get_default_executors():
            _extend.add_default_executor(self)

    def register_implementation(self, op: Any, by: Any = None, **options: Any) -> None:
        self.enlist()
        super().register_implementation(op, by, **options)


ex = _TorchExecutor("torch")


def _always_executable(*args: Any, **kwargs: Any) -> bool:
    """A checker that takes everything."""
    return True


def _register_implementation(op: Any, by: Any = None, **options: Any) -> None:
    """``ex.register_implementation``."""
    ex.register_implementation(op, by, **options)
