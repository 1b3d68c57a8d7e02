"""``python -m fulgurite doctor``: does it work here, and if not, what to do.

Imports nothing of the package at its top: it must run where the package cannot be loaded.
"""

from __future__ import annotations

import contextlib
import difflib
import os
import platform
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Finding:
    """One line of the diagnosis. ``advice`` says what to do; a finding with ``good`` None is information."""

    name: str
    good: bool | None
    found: str
    advice: str = ""


def main(problem: BaseException | None = None) -> int:
    """Prints the diagnosis; 0 if everything needed works. ``problem``: why the package could not be loaded."""
    findings = []
    for finding in diagnose(problem):
        findings.append(finding)
        print(_line(finding), flush=True)
    bad = [f for f in findings if f.good is False]
    if not bad:
        print("\nfulgurite works here.")
        return 0
    print(f"\n{len(bad)} of {len(findings)} checks failed. What to do:")
    for f in bad:
        print(f"  {f.name}: {f.advice}")
    return 1


def take_over(problem: BaseException) -> None:
    """Ends the process with a diagnosis if it is ``python -m fulgurite doctor`` whose package cannot be
    loaded; returns otherwise."""
    given = sys.orig_argv
    place = given.index("-m") if "-m" in given else len(given)
    if given[place + 1 : place + 3] == ["fulgurite", "doctor"]:
        sys.exit(main(problem))


def _line(finding: Finding) -> str:
    mark, colour = {True: ("ok  ", "32"), False: ("FAIL", "31"), None: ("    ", "0")}[finding.good]
    if sys.stdout.isatty() and "NO_COLOR" not in os.environ:
        mark = f"\x1b[{colour}m{mark}\x1b[0m"
    return f"{mark} {finding.name:<22} {finding.found}"


def diagnose(problem: BaseException | None = None) -> Iterator[Finding]:
    """The findings, one by one; those that need a loaded core are left out if there is none."""
    python = _python()
    yield python
    if not python.good:
        return
    torch_fits = _torch()
    yield torch_fits
    core = _core(problem)
    yield core
    if not (torch_fits.good and core.good):
        return
    import torch

    yield _recorder()
    yield _watcher()
    for check in (_program, _gradient, _random_numbers, _in_place):
        yield _attempt(check)
    yield Finding("cpu", None, f"{torch.backends.cpu.get_cpu_capability()}, {torch.get_num_threads()} threads, "
                               f"oneDNN {'yes' if torch.backends.mkldnn.is_available() else 'no'}")  # fmt: skip
    yield Finding(
        "kernels",
        None,
        "every operator runs through ATen; this version compiles no kernels of its own",
    )
    yield _variables()


def _python() -> Finding:
    from fulgurite._python import EITHER, why_not

    built = None
    with contextlib.suppress(ImportError):
        from fulgurite._build_info import PYTHON_VERSION as built
    found = f"{platform.python_version()} on {platform.system()} {platform.machine()}"
    wrong = why_not(built_for=built)
    return Finding("python", not wrong, f"{found}: {wrong}" if wrong else found,
                   f"use CPython {EITHER}, and build fulgurite there with `pip install .`")  # fmt: skip


def _torch() -> Finding:
    try:
        from fulgurite._build_info import TORCH_VERSION as built
    except ImportError:
        return Finding(
            "torch", False, "the package was never built", "run `pip install .` in the sources"
        )
    try:
        import torch
    except ImportError as e:
        return Finding("torch", False, f"built for {built}; torch cannot be imported ({e})",
                       f"run `pip install torch=={built}`")  # fmt: skip
    found = torch.__version__
    fits = found.split("+")[0].split(".")[:2] == built.split(".")[:2]
    advice = f"run `pip install torch=={built}`, or build fulgurite again with `pip install .`"
    return Finding("torch", fits, f"built for {built}, found {found}", "" if fits else advice)


def _core(problem: BaseException | None) -> Finding:
    if problem is not None:
        return Finding("core", False, str(problem),
                       "build fulgurite again with `pip install --force-reinstall --no-deps .`")  # fmt: skip
    from fulgurite import _C

    return Finding("core", True, f"fulgurite {_C.__version__}, {_C.__file__}")


def _recorder() -> Finding:
    from fulgurite import _C

    wrong = _C._self_test()
    found = f"dispatch key {_C._key_name()}, self-test " + (
        f"failed: {wrong}" if wrong else "passed"
    )
    return Finding("recorder", not wrong, found,
                   "another library may use this dispatch key: import fulgurite without it, and report it")  # fmt: skip


def _watcher() -> Finding:
    from fulgurite import _C

    supported, why = _C._watcher_supported()
    found = "reads of Python state are observed" if supported else f"not supported: {why}"
    return Finding("watcher", supported, found,
                   "leave one of the tools (debugger, profiler, coverage) in this process away")  # fmt: skip


def _attempt(check: Callable[[], str]) -> Finding:
    """Runs a self-test, which returns what it saw, or raises."""
    name = check.__name__.strip("_").replace("_", " ")
    try:
        with _NoNewProcess():
            return Finding(name, True, check())
    except Exception as e:
        what = f"{type(e).__name__}: {e}".splitlines()[0]
        return Finding(
            name, False, what, "this is a bug: please report it with the output of this command"
        )


class _NoNewProcess:
    """Raises if Python starts a process meanwhile: no compiler may be needed when a program runs."""

    _started: list[str] = []
    _hooked = False

    def __enter__(self) -> None:
        if not _NoNewProcess._hooked:
            sys.addaudithook(_NoNewProcess._audit)
            _NoNewProcess._hooked = True
        self._started.clear()

    def __exit__(self, kind: Any, *_: Any) -> None:
        if self._started and kind is None:
            raise RuntimeError(f"a process was started: {self._started[0]}")

    @staticmethod
    def _audit(event: str, arguments: tuple) -> None:
        if event in ("subprocess.Popen", "os.system", "os.posix_spawn", "os.exec"):
            _NoNewProcess._started.append(f"{event} {arguments[:1]}")


def _served(f: Any, calls: int = 1) -> None:
    import fulgurite

    if fulgurite.cache_hits(f) < calls:
        reasons = [f"{r.code}: {r.reason}" for r in fulgurite.fallbacks(f)]
        raise RuntimeError(
            f"the second call was not served by the compiled program ({reasons or 'no reason'})"
        )


def _expect(what: str, found: Any, expected: Any) -> None:
    import torch

    if not torch.equal(found, expected):
        raise RuntimeError(f"{what}: eager gives {expected}, the compiled program {found}")


def _program() -> str:
    import torch

    import fulgurite

    def f(x, w):
        return torch.nn.functional.gelu(x @ w).sum(0)

    g = fulgurite.jit(f)
    with torch.no_grad():
        for _ in range(2):
            x, w = torch.randn(3, 4), torch.randn(4, 5)
            _expect("values", g(x, w), f(x, w))
    _served(g)
    trace = fulgurite.last_traces(g)[-1]
    if not fulgurite.Trace.parse(trace.python(depth=0, full_paths=True)).identical(trace):
        raise RuntimeError("a printed trace does not parse back")
    return "recorded, compiled, printed, parsed and served again; no compiler was started"


def _gradient() -> str:
    import torch

    import fulgurite

    def f(x, w):
        return torch.tanh(x @ w).square().mean()

    g = fulgurite.jit(f)
    for _ in range(2):
        x, w = torch.randn(3, 4, requires_grad=True), torch.randn(4, 5, requires_grad=True)
        expected = torch.autograd.grad(f(x, w), (x, w))
        for found, right in zip(torch.autograd.grad(g(x, w), (x, w)), expected, strict=True):
            _expect("gradients", found, right)
    _served(g)
    return "equal to eager's"


def _random_numbers() -> str:
    import torch

    import fulgurite

    def f(x):
        return torch.nn.functional.dropout(x, 0.5) + torch.rand(4)

    g = fulgurite.jit(f)
    x = torch.randn(4)
    with torch.random.fork_rng(devices=[]):
        for seed in range(2):
            torch.manual_seed(seed)
            expected, state = f(x), torch.get_rng_state()
            torch.manual_seed(seed)
            _expect("values", g(x), expected)
            _expect("random state", torch.get_rng_state(), state)
    _served(g)
    return "the same as eager's, in the same order"


def _in_place() -> str:
    import torch

    import fulgurite

    def f(x):
        x[1:].mul_(2)
        return x.sum()

    g = fulgurite.jit(f)
    for _ in range(2):
        x = torch.randn(4)
        y = x.clone()
        _expect("values", g(x), f(y))
        _expect("the written argument", x, y)
    _served(g)
    return "writes through views reach the arguments"


def _variables() -> Finding:
    from fulgurite.logs import VARIABLE
    from fulgurite.options import TABLE

    known = {VARIABLE, *(o.variable for o in TABLE.values())}
    given = sorted(v for v in os.environ if v.startswith("FULGURITE_"))
    unknown = [v for v in given if v not in known]
    if not unknown:
        return Finding(
            "environment",
            None,
            ", ".join(f"{v}={os.environ[v]}" for v in given) or "no FULGURITE_ variables",
        )
    near = difflib.get_close_matches(unknown[0], known, n=1)
    hint = f"did you mean {near[0]}?" if near else f"known are {', '.join(sorted(known))}"
    return Finding("environment", False, f"nothing reads {', '.join(unknown)}", hint)
