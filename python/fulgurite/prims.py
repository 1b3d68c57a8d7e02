"""Our few operators of our own, as printed traces call them.

``copy_(source, destination)`` writes a value back into something that the caller can see; ``set_data(self,
data)`` gives the values of ``data`` the history of ``self``; ``conform``, ``strided_view`` and
``strided_scatter`` are conversions between layouts; ``index_sum`` is the gradient of values that a mask put somewhere; ``expect_*`` are value guards;
``function`` stands for the call of a custom ``autograd.Function``, ``function_backward`` for its backward. ``float_*`` and ``int_*`` are
arithmetic on numbers as Python does it. Each has an ``id``, by which rules and executors name it.
"""

import torch

from fulgurite.extend import OpTags as OpTags

_ops = torch.ops.fulgurite

copy_ = _ops.copy_.default
set_data = _ops.set_data.default
data = _ops.data.default
conform = _ops.conform.default
strided_view = _ops.strided_view.default
strided_scatter = _ops.strided_scatter.default
index_sum = _ops.index_sum.default
set_grad = _ops.set_grad.default
set_requires_grad = _ops.set_requires_grad.default
expect_int = _ops.expect_int.default
expect_float = _ops.expect_float.default
expect_bool = _ops.expect_bool.default
expect_sizes = _ops.expect_sizes.default
expect_values = _ops.expect_values.default
replace = _ops.replace.default
open_leaf = _ops.open_leaf.default
close_leaf = _ops.close_leaf.default
bump_version_ = _ops.bump_version_.default
function = _ops.function.default
function_backward = _ops.function_backward.default
keep = _ops.keep.default

for _op in [op for op in globals().values() if isinstance(op, torch._ops.OpOverload)]:
    _op.id = _op._schema.name.replace("::", ".")
del _op


def __getattr__(name):
    if name.startswith(("float_", "int_", "number_")):
        return getattr(_ops, name).default
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
