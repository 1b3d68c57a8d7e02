"""Thunder's names: scripts that were written for it run unchanged."""

import inspect
import subprocess
import sys
import textwrap

import pytest
import torch

import fulgurite as fg
import fulgurite.thunder

pytestmark = pytest.mark.filterwarnings("ignore:.*writes a leaf that requires grad in place")


@pytest.fixture
def thunder():
    fulgurite.thunder.install()
    import thunder

    yield thunder
    fulgurite.thunder.uninstall()
    executor = fulgurite.thunder.executors.torchex.ex
    if executor in fg.extend.get_all_executors():
        fg.extend.deregister_executor(executor)
    assert "thunder" not in sys.modules and "thunder.core.prims" not in sys.modules


def run(f, x):
    v = torch.tensor([1.0, 2.0, 3.0])
    out = f(x)
    if out.grad_fn is not None:
        out.backward(v)
    return out, v


def doubled(x):
    return x.mul_(2)


@pytest.mark.parametrize("skip", [False, True])
def test_the_write_of_a_leaf(thunder, skip):
    jitted = thunder.jit(doubled, skip_inplace_functionalization=skip)
    for _ in range(3):
        x = torch.ones(3, requires_grad=True)
        out, v = run(jitted, x)
        assert out.grad_fn is not None
        assert torch.equal(x.grad, 2 * v)
        assert torch.equal(x, torch.full((3,), 2.0))
    assert thunder.cache_hits(jitted) == 2
    assert "copy_(" in str(thunder.last_traces(jitted)[-1])
    assert "torch.mul" in str(thunder.last_backward_traces(jitted)[0])


def test_sources_of_the_default_rules(thunder):
    from thunder.core import prims
    from thunder.core.transforms import augmented_forward_impls, backward_impls

    for op in (prims.copy_.id, prims.PrimIDs.COPY_, "aten.sin", "aten.mul.Tensor"):
        assert "def " in inspect.getsource(augmented_forward_impls[op])
        assert "def " in inspect.getsource(backward_impls[op])
    assert "cos" in inspect.getsource(backward_impls["aten.sin"])


@pytest.mark.parametrize("recorded_first", [False, True])
def test_another_rule_for_the_write_back(thunder, recorded_first):
    from thunder.core import prims
    from thunder.core.transforms import backward_impls

    jitted = thunder.jit(doubled)
    if recorded_first:
        run(jitted, torch.ones(3, requires_grad=True))
    try:
        backward_impls[prims.copy_.id] = lambda g: (2 * g, None)
        for _ in range(3):
            x = torch.ones(3, requires_grad=True)
            _, v = run(jitted, x)
            assert torch.equal(x.grad, 4 * v)
        backward_impls[prims.copy_.id] = lambda g: (None, None)
        for _ in range(3):
            x = torch.ones(3, requires_grad=True)
            run(jitted, x)
            assert x.grad is None or not x.grad.any()
        assert "return (None,)" in str(thunder.last_backward_traces(jitted)[-1])
    finally:
        del backward_impls[prims.copy_.id]
    x = torch.ones(3, requires_grad=True)
    _, v = run(jitted, x)
    assert torch.equal(x.grad, 2 * v)


def test_another_implementation_of_the_write_back(thunder):
    from thunder.core import prims
    from thunder.executors.torchex import _always_executable, _register_implementation, ex

    calls = []

    def copy_and_tell(source, destination):
        calls.append(tuple(source.shape))
        return destination.copy_(source)

    own = ex.register_operator(
        "copy_", meta=prims.copy_, tags=(prims.OpTags.DONT_DCE,), fn=copy_and_tell
    )
    jitted = thunder.jit(doubled)
    _register_implementation(prims.copy_, own, checker=_always_executable)
    try:
        for k in range(3):
            x = torch.ones(3, requires_grad=True)
            _, v = run(jitted, x)
            assert torch.equal(x.grad, 2 * v) and torch.equal(x, torch.full((3,), 2.0))
            assert len(calls) == k + 1  # the first call, too

        def copy_and_add(source, destination):
            return destination.copy_(source) + 10

        ex.register_operator(
            "copy_", meta=prims.copy_, tags=(prims.OpTags.DONT_DCE,), fn=copy_and_add
        )
        for _ in range(3):
            x = torch.ones(3, requires_grad=True)
            out, v = run(jitted, x)
            assert torch.equal(out, torch.full((3,), 12.0))
            assert torch.equal(x, torch.full((3,), 2.0)) and torch.equal(x.grad, 2 * v)
    finally:
        fg.extend.deregister_executor(ex)  # what it runs goes with it


def test_names_that_are_not_there(thunder):
    with pytest.raises(AttributeError, match="no counterpart"):
        thunder.nonexistent  # noqa: B018
    with pytest.raises(TypeError, match="FG-350"):
        thunder.compile(doubled, recipe="auto")


def test_the_real_one_is_imported_already(monkeypatch):
    monkeypatch.setitem(sys.modules, "thunder", type(sys)("thunder"))
    with pytest.raises(ImportError, match="FG-351"):
        fulgurite.thunder.install()


def test_a_script(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(
        textwrap.dedent(
            """
            import sys
            import thunder
            import torch
            from thunder.core.transforms import backward_impls

            @thunder.jit
            def f(x):
                return torch.sin(x).sum()

            x = torch.ones(3, requires_grad=True)
            f(x), f(x)
            print(thunder.cache_hits(f), sys.argv[1:])
            """
        )
    )
    done = subprocess.run(
        [sys.executable, "-m", "fulgurite.thunder", str(script), "--steps", "3"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "1 ['--steps', '3']\n"
