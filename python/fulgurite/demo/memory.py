"""How much tensor memory a piece of code needs at its peak."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import torch


def peak_bytes(run: Callable[[], Any]) -> int:
    """The largest number of bytes that ``run`` holds at one time in CPU tensors beyond those that were there
    when it began, counted from the allocator's events (scratch memory inside kernels that does not come from
    PyTorch's allocator is not seen)."""
    os.environ.setdefault("KINETO_LOG_LEVEL", "99")  # it reports its own start and end otherwise
    with torch.profiler.profile(
        activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True
    ) as profile:
        run()
    events = [e for e in profile.profiler.kineto_results.events() if e.name() == "[memory]"]
    events.sort(key=lambda e: e.start_ns())
    held = peak = 0
    for event in events:
        held += event.nbytes()
        peak = max(peak, held)
    return peak
