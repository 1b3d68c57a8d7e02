"""``thunder.core.prims``: our prims, ``OpTags`` and ``PrimIDs``; any other name is the operator of ``torch.ops.aten``.

Thunder's prims are its own small operators; ours are PyTorch's. ``prims.sin`` is ``aten.sin``, with the overloads that it
has there.
"""

from __future__ import annotations

from typing import Any

import torch

from fulgurite.extend import OpTags as OpTags
from fulgurite.prims import copy_ as copy_
from fulgurite.thunder._install import missing as _missing


class _PrimIDs:
    """``PrimIDs.COPY_``: what ``prims.copy_.id`` is."""

    COPY_ = copy_.id

    def __getattr__(self, name: str) -> str:
        op = getattr(torch.ops.aten, name.lower(), None)
        if op is None:
            raise _missing("thunder.core.prims.PrimIDs", name)
        return f"aten.{name.lower()}"


PrimIDs = _PrimIDs()


def __getattr__(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(name)
    op = getattr(torch.ops.aten, name, None)
    if op is None:
        raise _missing("thunder.core.prims", name)
    return op
