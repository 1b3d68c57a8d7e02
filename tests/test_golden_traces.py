"""Golden text: what every pass makes of small programs.

``FULGURITE_TEST_UPDATE=1 python -m pytest tests/test_golden_traces.py`` writes the files anew; read the
difference before you commit it.
"""

import os
import pathlib

import pytest
import torch
import torch.nn.functional as F
from torch.utils.checkpoint import checkpoint

import fulgurite as fg

GOLDEN = pathlib.Path(__file__).parent / "golden"


def leaf(*shape):
    return torch.ones(*shape, requires_grad=True)


def mlp(x, w1, w2):
    return F.linear(F.gelu(F.linear(x, w1)), w2).sum()


def writes_through_a_view(x):
    y = x * 2
    y.t()[0].mul_(3)
    return y.sum(0), x.sum()


def argument_is_written(x, w):
    x.mul_(w)
    x[0] = 1.0
    return x + 1


def saved_argument_is_written(x, w):
    y = x * w
    x.add_(1)
    return y.detach(), (x * w).sum()


def outputs_are_views(x):
    y = x.exp()
    return y[0], y.t(), x.view(-1)


def shared_inputs(p, q):
    p.add_(1)
    return p * q


def detached_write(x):
    x.detach().mul_(2)
    return x.sin()


def data_dependent(x):
    if x.sum() > 0:
        return x * x.max().item()
    return -x


def dropout(x):
    return F.dropout(x, 0.5, True)


def repeated_work(x):
    return (x.sin() * x.sin()).t().t().sum()


def leaf_is_written(x):
    return x.mul_(2)


def leaf_is_written_through_a_view(x):
    x[0] = x[1] * 2
    return x, x.sum()


def saved_leaf_is_written(x):
    x.pow_(3)
    return x + 1


def shape_of_an_argument(x):
    x.mul_(2).t_()
    return x[0]


class ScaledSquare(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, k):
        ctx.k = k
        ctx.save_for_backward(x)
        return x * x * k

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return 2 * ctx.k * x * g, None


def function_in_the_middle(x, w):
    return (ScaledSquare.apply(x @ w, 3.0) * x).sum()


def leaf_is_made(x):
    w = torch.full((2,), 2.0, requires_grad=True)
    return w, (w * x).sum()


def hook_in_the_middle(x, w):
    h = x * w
    h.register_hook(print)
    return h.sin() + h


def empty_output_is_resized(x, out):
    torch.exp(x, out=out)
    return x + 1


def checkpointed(x, w):
    block = lambda a: F.dropout((a * w).sin(), 0.5, True).exp()
    return (checkpoint(block, x, use_reentrant=False) * w).sum()


def shared():
    base = torch.ones(6)
    return base[:4], base[2:]


PROGRAMS = {
    "mlp": (mlp, lambda: (torch.ones(2, 3), leaf(4, 3), leaf(1, 4))),
    "writes_through_a_view": (writes_through_a_view, lambda: (leaf(2, 3),)),
    "argument_is_written": (argument_is_written, lambda: (leaf(2, 2).clone(), leaf(2, 2))),
    "saved_argument_is_written": (saved_argument_is_written, lambda: (torch.ones(3), leaf(3))),
    "outputs_are_views": (outputs_are_views, lambda: (leaf(2, 3),)),
    "shared_inputs": (shared_inputs, shared),
    "detached_write": (detached_write, lambda: (leaf(3),)),
    "data_dependent": (data_dependent, lambda: (torch.ones(3),)),
    "dropout": (dropout, lambda: (leaf(4),)),
    "repeated_work": (repeated_work, lambda: (leaf(2, 2),)),
    "leaf_is_written": (leaf_is_written, lambda: (leaf(3),)),
    "leaf_is_written_through_a_view": (leaf_is_written_through_a_view, lambda: (leaf(2, 2),)),
    "saved_leaf_is_written": (saved_leaf_is_written, lambda: (leaf(3),)),
    "function_in_the_middle": (function_in_the_middle, lambda: (leaf(2, 2), leaf(2, 2))),
    "leaf_is_made": (leaf_is_made, lambda: (leaf(2),)),
    "hook_in_the_middle": (hook_in_the_middle, lambda: (leaf(2), leaf(2))),
    "empty_output_is_resized": (
        empty_output_is_resized,
        lambda: (torch.ones(2), torch.empty(0)),
    ),
    "checkpointed": (checkpointed, lambda: (leaf(2), leaf(2))),
    "shape_of_an_argument": (shape_of_an_argument, lambda: (torch.ones(2, 3),)),
}


@pytest.fixture(scope="module", autouse=True)
def _import_what_checkpoint_imports():
    checkpoint(torch.sin, leaf(1), use_reentrant=False)


@pytest.mark.filterwarnings("ignore:.*writes a leaf that requires grad in place")
@pytest.mark.parametrize("name", PROGRAMS)
def test_stages_print_as_recorded_in_the_golden_file(name):
    program, arguments = PROGRAMS[name]
    f = fg.jit(program)
    f(*arguments())
    if not fg.cache_hits(f):
        f(*arguments())
    stages = [*fg.last_traces(f), *fg.last_backward_traces(f)] if not fg.fallbacks(f) else []
    text = "\n\n".join(f"#### {t.stage}\n{t.python(depth=0, locations=False)}" for t in stages)
    for fallback in fg.fallbacks(f):
        text += f"#### eager: {fallback.code}\n"
    path = GOLDEN / f"{name}.txt"
    if os.environ.get("FULGURITE_TEST_UPDATE"):
        path.write_text(text)
    assert path.exists(), f"no golden file {path.name}; write it with FULGURITE_TEST_UPDATE=1"
    assert text == path.read_text()
