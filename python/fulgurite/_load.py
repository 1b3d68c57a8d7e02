"""Loads the core, or says clearly why it cannot be loaded."""

from fulgurite._build_info import PYTHON_VERSION, TORCH_VERSION
from fulgurite._python import EITHER, why_not

_wrong = why_not(built_for=PYTHON_VERSION)
if _wrong:
    raise ImportError(
        f"FG-004: {_wrong}. Use CPython {EITHER}, and build fulgurite there with `pip install .`."
    )

import torch  # noqa: E402


def _check_torch() -> None:
    found = torch.__version__.split("+")[0]
    if found.split(".")[:2] != TORCH_VERSION.split(".")[:2]:
        raise ImportError(
            f"FG-001: this fulgurite was built for torch {TORCH_VERSION}, but torch {torch.__version__} is "
            f"installed. Install torch=={TORCH_VERSION}, or build fulgurite again with `pip install .`."
        )


_check_torch()

from fulgurite import _C  # noqa: E402

_problem = _C._self_test()
if _problem:
    raise ImportError(
        f"FG-003: the recorder does not work in this process ({_problem}). "
        "Run `python -m fulgurite doctor` for more."
    )


def _let_higher_order_operators_through() -> None:
    """Higher-order operators (torch.cond, ...) dispatch in Python; the recorder's key must be transparent."""
    import torch._ops as ops

    key = _C._key_name()
    for op in ops._higher_order_ops.values():
        op.non_fallthrough_keys = op.non_fallthrough_keys.remove(key)
        getattr(op, "_dispatch_cache", {}).clear()
    defaults = ops._HIGHER_ORDER_OP_DEFAULT_FALLTHROUGH_DISPATCH_KEYS
    if key not in defaults:
        defaults.append(key)


_let_higher_order_operators_through()
