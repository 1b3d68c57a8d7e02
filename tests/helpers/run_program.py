"""Runs a program eagerly and jitted on the same data, and says what differs."""

from __future__ import annotations

import contextlib
import dataclasses
import linecache
import warnings
from typing import Any

import torch

import fulgurite as fg
from helpers import traces
from helpers.compare import coarsest, facts_differ, memory_pattern, values_differ

CALLS = 3  # one recorded, two with new data
REFUSED = "FG-181"  # an error of ours that says that a gradient cannot be differentiated again
SLIPS = (NameError, UnboundLocalError, SyntaxError)


@dataclasses.dataclass
class Report:
    wrong: list[str]
    hits: int = 0
    reasons: tuple[str, ...] = ()
    eager_raises: bool = False
    refused: bool = False  # to differentiate a gradient again
    freed: bool = False  # more of a graph than eager, after backward from one of several outputs
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

    def __init__(self, make: Any, call: Any, seed: int, mode: Any) -> None:
        self.error: str | None = None
        self.slip = False
        torch.manual_seed(seed)
        self.arguments, self.leaves = make(seed)
        distinct: dict[int, torch.Tensor] = {}
        for t in [*self.arguments, *self.leaves]:
            distinct.setdefault(id(t), t)
        self.inputs = list(distinct.values())
        versions = [_version(t) for t in self.inputs]
        # Views of leaves that were made without grad mode: they require grad, and gradients do not reach them.
        self.unreached = any(
            t.requires_grad and t._base is not None and t.grad_fn is None for t in self.inputs
        )
        self.was_leaf = [t.is_leaf for t in self.inputs]
        self.outputs: list[Any] = []
        torch.manual_seed(seed + 1000)
        try:
            with mode() if mode is not None else contextlib.nullcontext():
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
        # Of its own size: of a tensor of inference mode, stack() returns what it made as a view.
        self.whole = [
            t._base is not None and not t.requires_grad and t._base.shape != t.shape
            and t._base.numel() == t.numel() for t in self.tensors
        ]  # fmt: skip
        self.gradients: list[list[Any] | str] = []
        self.refused = self.freed = False
        # The same gradients, from when all was there that they need; None where that was not asked.
        self.earlier: list[list[Any] | str | None] = []
        self.kept: dict[tuple[int, ...], list[Any] | str] = {}
        # Whether they were asked for results of an operator that has several.
        self.siblings: list[bool] = []

    def differentiate(self, variant: str) -> None:
        """Gradients of the last output alone, then of all; then as ``variant`` says: "again" differentiates the
        gradients, "partly" asks for those of single leaves, "overwritten" writes a tensor before backward and does
        not keep the graph."""
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
        if variant != "overwritten":
            self.gradient(sources[-1:], leaves, True)
            self.gradient(sources, leaves, True)
        if variant == "again":
            self.gradient(sources, leaves, True, create_graph=True)
            if not isinstance(first := self.gradients[-1], str):
                # Eager may give a constant a history; it is the others that are compared.
                places = [i for i, g in enumerate(first) if g is not None and g.requires_grad]
                if places:
                    self.gradient([first[i] for i in places], leaves, True, places=places)
                else:  # a constant
                    self.gradients.append([None for _ in leaves])
                    self.earlier.append(None)
        if variant != "overwritten":  # of one result for the others, which it may be computed from
            for source in sources:
                others = [o for o in sources if o is not source]
                if others:
                    self.gradient([source], others, True)
        if variant == "partly":
            for source in sources:
                self.gradient([source], leaves[:1], True)
            self.gradient(sources[:1], leaves, True)
            self.gradient(sources, leaves[-1:], False)
            self.gradient(sources[:1], leaves, False)
        if variant == "overwritten":
            for source in sources:
                self.gradient([source], leaves, True)
            self.gradient(sources, leaves, True)
            written = everything[len(self.leaves) % len(everything)]
            others = [
                (t, _version(t))
                for t in everything
                if t is not written
                and t.untyped_storage()._cdata == written.untyped_storage()._cdata
            ]
            with contextlib.suppress(RuntimeError), torch.no_grad():
                written.logical_not_() if written.dtype == torch.bool else written.add_(1)
            if any(_version(t) == before for t, before in others):
                return  # through .data: nothing tells what was saved (docs/known_differences.md)
            for source in sources:
                self.gradient([source], leaves, False)
            self.gradient(sources, leaves, False)

    def gradient(
        self,
        of: list[torch.Tensor],
        leaves: list[torch.Tensor],
        keep: bool,
        create_graph: bool = False,
        places: list[int] | None = None,
    ) -> None:
        weights = []
        for i, s in zip(places or range(len(of)), of, strict=True):
            g = torch.Generator().manual_seed(77 + i)
            weights.append(torch.randn(s.shape, generator=g, dtype=s.dtype))
        torch.manual_seed(99)
        try:
            found = torch.autograd.grad(
                of,
                leaves,
                weights,
                retain_graph=keep,
                create_graph=create_graph,
                allow_unused=True,
            )
            self.gradients.append(list(found))
        except Exception as e:
            self.gradients.append(f"{type(e).__name__}: {e}")
        nodes = [t.grad_fn for t in leaves if t.grad_fn is not None]
        self.siblings += [any(len(n._input_metadata) > 1 for n in nodes)] * (
            len(self.gradients) - len(self.siblings)
        )
        asked = (*map(id, of), -1, *map(id, leaves))
        self.earlier.append(self.kept.get(asked))
        if keep:
            self.kept[asked] = self.gradients[-1]

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


def _compare(
    where: str, got: _Run, want: _Run, variant: str, exact: bool, inference: bool
) -> list[str]:
    out: list[str] = []
    if got.error is None and want.error is not None and UNFIT in want.error:
        return []  # of a write that nobody sees, left out (docs/known_differences.md)
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
    # Products of complex numbers are rounded in another way where memory is strided, or in place.
    rounded = any(v.is_complex() for v in want.values)
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
            d = values_differ(gv, wv, tight=rounded)
            if d:
                out.append(f"{label(i)}: {d}")
    if inference:
        want.base = [b and not (w and not g) for b, w, g in zip(want.base, want.whole, got.base, strict=True)]  # fmt: skip
    for name in ("bumped", "identity", "memory", "base"):
        if getattr(got, name) != getattr(want, name):
            out.append(f"{name}: {getattr(got, name)}, in eager {getattr(want, name)}")
    if not torch.equal(got.random, want.random):
        out.append("the generator is in another state")
    if out:
        return [f"{where}: {o}" for o in out]
    precision = coarsest([*want.inputs, *want.tensors])
    got.differentiate(variant)
    want.differentiate(variant)
    for k, g in enumerate(got.gradients):
        if isinstance(g, str) and REFUSED in g:  # what follows needs it
            got.refused = True
            got.gradients, want.gradients = got.gradients[:k], want.gradients[:k]
            break
    for k, g in enumerate(got.gradients if want.unreached else []):
        if isinstance(g, str) and any(p in g for p in GONE):  # see docs/known_differences.md
            got.gradients, want.gradients = got.gradients[:k], want.gradients[:k]
            break
    for k, w in enumerate(want.gradients):
        if isinstance(w, str) and DETACHED in w:  # what a compiled program saves is not detached
            got.gradients, want.gradients = got.gradients[:k], want.gradients[:k]
            break
    if len(got.gradients) != len(want.gradients):
        out.append(f"{len(got.gradients)} gradient computations, in eager {len(want.gradients)}")
    for k, (g, w) in enumerate(zip(got.gradients, want.gradients, strict=False)):
        if isinstance(g, str) or isinstance(w, str):
            if isinstance(g, str) and FREED in g and want.earlier[k] is not None:
                got.freed = got.freed or not isinstance(w, str)
                continue
            if (
                g != w
                and not _same_error(g, w, want.earlier[k], precision)
                and not (want.siblings[k] and _is_of_no_use(g, w))
                and not _asks_in_vain(g, w)
            ):
                out.append(
                    f"gradient {k}: {g if isinstance(g, str) else 'no error'}, in eager {w if isinstance(w, str) else 'no error'}"
                )
            continue
        for j, (a, b) in enumerate(zip(g, w, strict=True)):
            if variant == "again" and k == 3 and (a is None or b is None):
                if any(t is not None and t.any() for t in (a, b)):
                    out.append(f"second gradient {j}: {a}, in eager {b}")
            elif (a is None) != (b is None):
                out.append(
                    f"gradient {k}.{j}: {'None' if a is None else 'a tensor'}, in eager {'None' if b is None else 'a tensor'}"
                )
            elif a is not None:
                d = values_differ(a, b, tight=not exact, within=precision)
                if d:
                    out.append(f"gradient {k}.{j}: {d}")
    got.write_afterwards()
    want.write_afterwards()
    if got.afterwards != want.afterwards:
        out.append(
            f"versions after writing into outputs: {got.afterwards}, in eager {want.afterwards}"
        )
    for i, (a, b) in enumerate(zip(got.late_values, want.late_values, strict=True)):
        d = values_differ(a, b, tight=rounded)
        if d:
            out.append(f"{label(i)} after writing into outputs: {d}")
    return [f"{where}: {o}" for o in out]


DETACHED = "Trying to use a saved tensor that has been detached in-place"
UNFIT = "shape mismatch: value tensor of shape"
FREED = "Trying to backward through the graph a second time"
GONE = (FREED, "modified by an inplace operation", "has been modified inplace")


def _same_error(got: Any, want: Any, earlier: Any, precision: torch.dtype | None) -> bool:
    """Errors of the engine name the node that failed, and compiled programs have other nodes, in another order. They
    save less than eager, so that they may give the gradient (``earlier``: eager's, from when all was there) where eager raises."""
    if not isinstance(want, str) or not any(p in want for p in GONE):
        return False
    if isinstance(got, str):
        return any(p in got for p in GONE)
    return isinstance(earlier, list) and all(
        (a is None) == (b is None)
        and (a is None or values_differ(a, b, tight=True, within=precision) is None)
        for a, b in zip(got, earlier, strict=True)
    )


def _asks_in_vain(got: Any, want: Any) -> bool:
    """There is no such gradient; the nodes of a compiled program lead to it all the same (an operator with several results
    is one node), past something that was overwritten."""
    return (
        isinstance(got, str)
        and any(p in got for p in GONE)
        and isinstance(want, list)
        and all(g is None for g in want)
    )


def _is_of_no_use(got: Any, want: Any) -> bool:
    """Eager computes what leads to the node of an operator with several results (``a, b = x.split(2)``), also where only
    the result that is not asked for leads there, and raises where something on the way was overwritten."""
    return (
        isinstance(want, str)
        and any(p in want for p in GONE)
        and isinstance(got, list)
        and all(g is None for g in got)
    )


def check(source: str, seed: int, check_traces: bool = False) -> Report:
    """Compares eager and jitted on CALLS calls with different data."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            scope, scope_of_jitted = functions(source), functions(source)
        except SyntaxError:
            return Report([], invalid=True)
        make, program, mode = scope["inputs"], scope["program"], scope.get("MODE")
        jitted = fg.jit(scope_of_jitted["program"], leaf_inplace="error")
        report = Report([])
        for k in range(CALLS):
            data = seed * 10 + k
            try:
                want = _Run(make, program, data, mode)
            except SLIPS:
                return Report([], invalid=True)
            except Exception:
                return Report([], invalid=True)
            if want.slip:
                return Report([], invalid=True)
            got = _Run(scope_of_jitted["inputs"], jitted, data, mode)
            variant = "again" if k == 1 else "partly" if (seed + k) % 2 else "overwritten"
            report.eager_raises = report.eager_raises or want.error is not None
            report.wrong += _compare(
                "recorded call" if k == 0 else f"call {k}",
                got,
                want,
                variant,
                exact=k == 0,
                inference="inference_mode" in source,
            )
            report.refused = report.refused or got.refused
            report.freed = report.freed or got.freed
        report.hits = fg.cache_hits(jitted)
        report.reasons = tuple(
            f"{f.code}: {f.reason}" for f in fg.fallbacks(jitted) if f.code != "FG-209"
        ) or tuple(f"recorded again: {r}" for r in fg.recompiles(jitted))
        if check_traces:
            report.wrong += traces.problems(jitted)
        return report
