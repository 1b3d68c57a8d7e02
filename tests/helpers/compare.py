"""Comparison of what a compiled call left behind with what eager left behind."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch.utils._pytree import tree_flatten

EXACT = (0.0, 0.0)
TIGHT = {
    torch.float16: (1e-3, 1e-4),
    torch.bfloat16: (1e-2, 1e-3),
    torch.float32: (2e-6, 1e-6),
    torch.complex64: (2e-6, 1e-6),
    torch.float64: (1e-12, 1e-12),
    torch.complex128: (1e-12, 1e-12),
}
"""(relative, absolute) per dtype: what another order of additions may change."""


def tensors_in(tree: Any) -> list[torch.Tensor]:
    """The tensors of a pytree, in order."""
    return [t for t in tree_flatten(tree)[0] if isinstance(t, torch.Tensor)]


def plain(t: torch.Tensor) -> torch.Tensor:
    """The values of ``t`` without history, conjugate or negative bit, as a dense tensor."""
    t = t.detach()
    if t.layout != torch.strided:
        t = t.to_dense()
    return t.resolve_conj().resolve_neg()


def coarsest(tensors: Sequence[torch.Tensor]) -> torch.dtype | None:
    """The least precise dtype of the floating tensors."""
    dtypes = {t.dtype for t in tensors if t.dtype in TIGHT}
    return max(dtypes, key=lambda d: TIGHT[d], default=None)


def values_differ(
    got: torch.Tensor, want: torch.Tensor, tight: bool = False, within: torch.dtype | None = None
) -> str | None:
    """None if equal (NaN equals NaN): exactly, or within TIGHT (of ``within``, if given)."""
    got, want = plain(got), plain(want)
    if got.shape != want.shape:
        return f"shape {tuple(got.shape)} != {tuple(want.shape)}"
    if got.dtype != want.dtype:
        return f"dtype {got.dtype} != {want.dtype}"
    rtol, atol = TIGHT.get(within or want.dtype, EXACT) if tight else EXACT
    try:
        if torch.allclose(got, want, rtol=rtol, atol=atol, equal_nan=True):
            return None
    except RuntimeError:  # no allclose for this dtype
        if torch.equal(got, want):
            return None
    if got.numel() == 0:
        return None
    if want.is_floating_point() or want.is_complex():
        difference = (got - want).abs()
        worst = difference[~difference.isnan()]
        largest = f", largest difference {worst.max().item():.3g}" if worst.numel() else ""
    else:
        largest = ""
    return f"values differ in {int((got != want).sum())} of {got.numel()}{largest}: {_short(got)} != {_short(want)}"


def _short(t: torch.Tensor) -> str:
    values = t.flatten()[:6].tolist()
    return (
        "["
        + ", ".join(f"{v:.5g}" if isinstance(v, float) else str(v) for v in values)
        + (", ...]" if t.numel() > 6 else "]")
    )


def facts_differ(got: torch.Tensor, want: torch.Tensor, strides: bool = True) -> list[str]:
    """What differs in shape, dtype, layout, strides, requires_grad, is_leaf, conjugate bit and type."""
    out = []
    for name in ("shape", "dtype", "layout", "device", "requires_grad", "is_leaf"):
        a, b = getattr(got, name), getattr(want, name)
        if a != b:
            out.append(f"{name} {a} != {b}")
    if type(got) is not type(want):
        out.append(f"type {type(got).__name__} != {type(want).__name__}")
    if want.layout == torch.strided and got.layout == torch.strided:
        if strides and _steps(got) != _steps(want):
            out.append(f"stride {got.stride()} != {want.stride()}")
        if got.is_conj() != want.is_conj():
            out.append(f"is_conj {got.is_conj()} != {want.is_conj()}")
        if got.is_neg() != want.is_neg():
            out.append(f"is_neg {got.is_neg()} != {want.is_neg()}")
        if got.is_inference() != want.is_inference():
            out.append(f"is_inference {got.is_inference()} != {want.is_inference()}")
    return out


def _steps(t: torch.Tensor) -> list[int]:
    """Strides, of dimensions in which one moves."""
    return [s for s, n in zip(t.stride(), t.shape, strict=True) if n > 1]


def tensors_differ(
    label: str,
    got: Sequence[Any],
    want: Sequence[Any],
    tight: bool = False,
    values: bool = True,
    strides: bool = True,
) -> list[str]:
    """Every difference between two lists of tensors (or Nones), each in a line that begins with ``label``."""
    if len(got) != len(want):
        return [f"{label}: {len(got)} tensors, eager has {len(want)}"]
    out = []
    for i, (g, w) in enumerate(zip(got, want, strict=True)):
        if (g is None) != (w is None):
            out.append(
                f"{label} {i}: {'None' if g is None else 'a tensor'}, eager has {'None' if w is None else 'a tensor'}"
            )
        if g is None or w is None:
            continue
        found = facts_differ(g, w, strides)
        if values:
            v = values_differ(g, w, tight)
            if v and not v.startswith(("shape", "dtype")):
                found.append(v)
        out += [f"{label} {i}: {d}" for d in found]
    return out


def leaves_differ(label: str, got: Any, want: Any) -> list[str]:
    """Differences in structure and in what is not a tensor between two results."""
    a, sa = tree_flatten(got)
    b, sb = tree_flatten(want)
    if sa != sb:
        return [f"{label}: structure {sa} != {sb}"]
    out = []
    for i, (x, y) in enumerate(zip(a, b, strict=True)):
        if isinstance(x, torch.Tensor) and isinstance(y, torch.Tensor):
            continue
        same = type(x) is type(y) and (x == y or (x != x and y != y))
        if not same:
            out.append(f"{label} {i}: {x!r:.80} != {y!r:.80}")
    return out


def memory_pattern(tensors: Sequence[torch.Tensor]) -> list[tuple[int, int]]:
    """For each tensor: the index of the first one that shares its storage, and its storage offset."""
    first: dict[int, int] = {}
    out = []
    for i, t in enumerate(tensors):
        if t.layout != torch.strided:
            out.append((i, 0))
            continue
        storage = t.untyped_storage()._cdata
        out.append((first.setdefault(storage, i), t.storage_offset()))
    return out
