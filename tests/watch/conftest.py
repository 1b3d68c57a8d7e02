import os
import sys
import typing

import pytest
import torch
import torch.nn as nn
import torch.nn.functional as F

sys.path.insert(0, os.path.dirname(__file__))


@pytest.fixture(autouse=True)
def world_as_before():
    """Puts back what the tables of programs change in torch and the process."""
    relu, forward, math = F.relu, nn.Linear.forward, sys.modules.get("math")
    threads = torch.get_num_threads()
    operators = dict(vars(torch.Tensor))
    join, cast = os.path.join, typing.cast
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)
    torch.set_grad_enabled(True)
    torch.set_default_dtype(torch.float32)
    F.relu, nn.Linear.forward = relu, forward
    nn.modules.module._global_forward_hooks.clear()
    nn.modules.module._global_forward_hooks_always_called.clear()
    os.path.join, typing.cast = join, cast
    torch._C._set_cudnn_deterministic(False)
    torch.use_deterministic_algorithms(False)
    torch.set_float32_matmul_precision("highest")
    for name in [n for n in vars(torch.Tensor) if n not in operators]:
        delattr(torch.Tensor, name)
    for name, value in operators.items():
        if vars(torch.Tensor)[name] is not value:
            setattr(torch.Tensor, name, value)
    if math is not None:
        sys.modules["math"] = math
    for name in ("RSX", "RSY", "RSZ"):
        os.environ.pop(name, None)
