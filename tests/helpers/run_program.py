"""Runs a program eagerly and jitted on the same data, and says what differs."""

from __future__ import annotations

import dataclasses
import linecache
import warnings
from typing import Any

import torch

import fulgurite as fg
from helpers import traces
from helpers.compare import facts_differ, memory_pattern, values_differ

CALLS = 3  # one recorded, two with new data
SLIPS = (NameError, UnboundLocalError, SyntaxError)


@dataclasses.dataclass
class Report:
    wrong: list[str]
    hits: int = 0
    reasons: tuple[str, ...] = ()
    eager_raises: bool = False
    invalid: bool = False  # the program is none (a name it uses is gone)


def functions(source: str) -> dict[str, Any]:
    """What the source defines. Lines show up in tracebacks and traces."""
    name = f"<program {abs(hash(source)) % 10**8}>"
    linecache.cache[name] = (len(source), None, source.splitlines(True), name)
    scope: dict[str, Any] = {"torch": torch, "__name__": "program"}
    exec(compile(source, name, "exec"), scope)
    return scope


class _Run:
    """One call and all that can be seen of it afterwards."""

    def __init__(self, make: Any, call: Any, seed: int) -> None:
        self.error: str | None = None
        self.slip = False
        torch.manual_seed(seed)
        self.arguments, self.leaves = make(seed)
        distinct: dict[int, torch.Tensor] = {}
        for t in [*self.arguments, *self.leaves]:
            distinct.setdefault(id(t), t)
        self.inputs = list(distinct.values())
        versions = [_version(t) for t in self.inputs]
        self.was_leaf = [t.is_leaf for t in self.inputs]
        self.outputs: list[Any] = []
        torch.manual_seed(seed + 1000)
        try:
            result = call(*self.arguments)
            self.outputs = list(result) if isinstance(result, tuple) else [result]
        except Exception as e:
            self.slip = isinstance(e, SLIPS)
            self.error = f"{type(e).__name__}: {e}"
        self.random = torch.get_rng_state()
        self.bumped = [_version(t) != v for t, v in zip(self.inputs, versions, strict=True)]
        self.unusable: list[str] = []
        usable = [
            (t, leaf)
            for t, leaf in zip(self.inputs, self.was_leaf, strict=True)
            if _unusable(t) is None
        ]
        for i, t in enumerate(self.inputs):
            if (error := _unusable(t)) is not None:
                self.unusable.append(f"input {i}: {error}")
        self.inputs, self.was_leaf = [t for t, _ in usable], [leaf for _, leaf in usable]
        self.tensors = []
        for i, o in enumerate(self.outputs):
            if not isinstance(o, torch.Tensor):
                continue
            error = _unusable(o)
            if error is None:
                self.tensors.append(o)
            else:
                self.unusable.append(f"output {i}: {error}")
        everything = [*self.inputs, *self.tensors]
        self.identity = [next(j for j, o in enumerate(everything) if o is t) for t in everything]
        self.memory = memory_pattern(everything)
        self.values = [t.detach().clone() for t in everything]
        self.base = [t._base is not None for t in self.tensors]
        self.gradients: list[list[Any] | str] = []

    def differentiate(self) -> None:
        """Gradients of the last output alone, then of all."""
        everything = [*self.inputs, *self.tensors]
        sources: list[torch.Tensor] = []
        for t, leaf in zip(everything, [*self.was_leaf, *[False] * len(self.tensors)], strict=True):
            if (
                t.requires_grad
                and not (leaf and t.is_leaf)
                and (t.is_floating_point() or t.is_complex())
                and not any(t is s for s in sources)
            ):
                sources.append(t)
        leaves = [t for t in self.leaves if t.requires_grad]
        if not sources or not leaves:
            return
        for chosen in (sources[-1:], sources):
            weights = []
            for i, s in enumerate(chosen):
                g = torch.Generator().manual_seed(77 + i)
                weights.append(torch.randn(s.shape, generator=g, dtype=s.dtype))
            try:
                torch.manual_seed(99)
                self.gradients.append(
                    list(
                        torch.autograd.grad(
                            chosen, leaves, weights, retain_graph=True, allow_unused=True
                        )
                    )
                )
            except Exception as e:
                self.gradients.append(f"{type(e).__name__}: {e}")

    def write_afterwards(self) -> None:
        """Writes into each output in turn: what else changes, and whose version?"""
        everything = [*self.inputs, *self.tensors]
        self.afterwards: list[Any] = []
        for t in self.tensors:
            before = [_version(o) for o in everything]
            try:
                with torch.no_grad():
                    t.logical_not_() if t.dtype == torch.bool else t.add_(1)
            except Exception as e:
                self.afterwards.append(f"{type(e).__name__}: {e}")
                continue
            self.afterwards.append(
                [_version(o) != v for o, v in zip(everything, before, strict=True)]
            )
        self.late_values = [t.detach().clone() for t in everything]


def _unusable(t: torch.Tensor) -> str | None:
    """What eager says of a view whose history it cannot make (its base was written in a forbidden way)."""
    try:
        _ = t.grad_fn
    except RuntimeError as e:
        return str(e)
    return None


def _version(t: torch.Tensor) -> int:
    return -1 if t.is_inference() else t._version


def _compare(where: str, got: _Run, want: _Run, exact: bool) -> list[str]:
    out: list[str] = []
    if got.error != want.error:
        out.append(f"error {got.error!r}, eager's {want.error!r}")
        return [f"{where}: {o}" for o in out]

    def label(i: int) -> str:
        return f"input {i}" if i < len(want.inputs) else f"output {i - len(want.inputs)}"

    if got.unusable != want.unusable:
        out.append(f"unusable outputs {got.unusable}, in eager {want.unusable}")
        return [f"{where}: {o}" for o in out]
    if len(got.outputs) != len(want.outputs) or len(got.tensors) != len(want.tensors):
        out.append(
            f"{len(got.tensors)} of {len(got.outputs)} outputs are tensors, in eager {len(want.tensors)} of {len(want.outputs)}"
        )
        return [f"{where}: {o}" for o in out]
    everything = zip(
        [*got.inputs, *got.tensors],
        [*want.inputs, *want.tensors],
        got.values,
        want.values,
        strict=True,
    )
    for i, (g, w, gv, wv) in enumerate(everything):
        out += [f"{label(i)}: {d}" for d in facts_differ(g, w)]
        if gv.shape == wv.shape and gv.dtype == wv.dtype:
            d = values_differ(gv, wv)
            if d:
                out.append(f"{label(i)}: {d}")
    for name in ("bumped", "identity", "memory", "base"):
        if getattr(got, name) != getattr(want, name):
            out.append(f"{name}: {getattr(got, name)}, in eager {getattr(want, name)}")
    if not torch.equal(got.random, want.random):
        out.append("the generator is in another state")
    if out:
        return [f"{where}: {o}" for o in out]
    got.differentiate()
    want.differentiate()
    if len(got.gradients) != len(want.gradients):
        out.append(f"{len(got.gradients)} gradient computations, in eager {len(want.gradients)}")
    for k, (g, w) in enumerate(zip(got.gradients, want.gradients, strict=False)):
        if isinstance(g, str) or isinstance(w, str):
            if g != w and not (isinstance(g, str) and isinstance(w, str) and _same_error(g, w)):
                out.append(
                    f"gradient {k}: {g if isinstance(g, str) else 'no error'}, in eager {w if isinstance(w, str) else 'no error'}"
                )
            continue
        for j, (a, b) in enumerate(zip(g, w, strict=True)):
            if (a is None) != (b is None):
                out.append(
                    f"gradient {k}.{j}: {'None' if a is None else 'a tensor'}, in eager {'None' if b is None else 'a tensor'}"
                )
            elif a is not None:
                d = values_differ(a, b, tight=not exact)
                if d:
                    out.append(f"gradient {k}.{j}: {d}")
    got.write_afterwards()
    want.write_afterwards()
    if got.afterwards != want.afterwards:
        out.append(
            f"versions after writing into outputs: {got.afterwards}, in eager {want.afterwards}"
        )
    for i, (a, b) in enumerate(zip(got.late_values, want.late_values, strict=True)):
        d = values_differ(a, b)
        if d:
            out.append(f"{label(i)} after writing into outputs: {d}")
    return [f"{where}: {o}" for o in out]


def _same_error(got: str, want: str) -> bool:
    """Errors of the engine name the node that failed, and compiled programs have other nodes."""
    phrase = "modified by an inplace operation"
    return phrase in got and phrase in want


def check(source: str, seed: int, check_traces: bool = False) -> Report:
    """Compares eager and jitted on CALLS calls with different data."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            scope = functions(source)
        except SyntaxError:
            return Report([], invalid=True)
        make, program = scope["inputs"], scope["program"]
        jitted = fg.jit(program, leaf_inplace="error")
        report = Report([])
        for k in range(CALLS):
            data = seed * 10 + k
            try:
                want = _Run(make, program, data)
            except SLIPS:
                return Report([], invalid=True)
            except Exception:
                return Report([], invalid=True)
            if want.slip:
                return Report([], invalid=True)
            got = _Run(make, jitted, data)
            report.eager_raises = report.eager_raises or want.error is not None
            report.wrong += _compare(
                "recorded call" if k == 0 else f"call {k}", got, want, exact=k == 0
            )
        report.hits = fg.cache_hits(jitted)
        report.reasons = tuple(
            f"{f.code}: {f.reason}" for f in fg.fallbacks(jitted) if f.code != "FG-209"
        )
        if check_traces:
            report.wrong += traces.problems(jitted)
        return report
