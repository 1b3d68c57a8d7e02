"""``thunder.examine``: does a function compile?"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import fulgurite


def examine(fn: Callable, *args: Any, **kwargs: Any) -> Any:
    """Calls ``fn`` jitted on the arguments and prints whether it compiles, and if not, why. Returns its result."""
    jitted = fulgurite.jit(fn)
    result = jitted(*args, **kwargs)
    print(fulgurite.explain(jitted))
    return result
