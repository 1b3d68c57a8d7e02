"""Every trace is a program: its text runs, and parses back to it."""

from __future__ import annotations

import re
from typing import Any

import torch

import fulgurite as fg
from helpers.compare import tensors_in, values_differ

_DTYPES = {
    "f16": torch.float16, "bf16": torch.bfloat16, "f32": torch.float32, "f64": torch.float64,
    "c32": torch.complex32, "c64": torch.complex64, "c128": torch.complex128, "i8": torch.int8, "i16": torch.int16,
    "i32": torch.int32, "i64": torch.int64, "u8": torch.uint8, "b8": torch.bool, "bool": torch.bool,
}  # fmt: skip
_COTANGENT = re.compile(r"= cotangents\[\d+\]\s+# (\w+)\[([^\]]*)\]")


def _lines(text: str, limit: int = 40) -> str:
    lines = text.split("\n")
    return "\n".join(
        lines[:limit] + ([f"... {len(lines) - limit} more lines"] if len(lines) > limit else [])
    )


def round_trip_problems(trace: fg.Trace) -> list[str]:
    """What is lost when the trace is printed and parsed."""
    where = f"{trace.name}, {trace.stage}"
    text = trace.python(depth=0, full_paths=True)
    try:
        again = fg.Trace.parse(text)
    except Exception as e:
        return [f"{where}: does not parse: {e}\n{_lines(text)}"]
    if not again.identical(trace):
        return [f"{where}: parses to another trace: {again.difference(trace)}\n{_lines(text)}"]
    out = []
    if again.python(depth=0, full_paths=True) != text:
        out.append(f"{where}: prints differently after parsing\n{_lines(text)}")
    try:
        compile(trace.python(), where, "exec")
    except SyntaxError as e:
        out.append(f"{where}: is not Python: {e}\n{trace.python()}")
    return out


def all_traces(jitted: Any) -> list[fg.Trace]:
    """The stages of all programs of a jitted function, forward and backward."""
    out = []
    for entry in fg._C._entries(fg.inspection.function_of(jitted)):
        out += [*entry["forward"], *entry["backward"]]
    return out


def problems(jitted: Any) -> list[str]:
    """Round-trip problems of all traces of a jitted function."""
    return [p for t in all_traces(jitted) for p in round_trip_problems(t)]


def _copies(tensors: list[Any]) -> list[Any]:
    return [
        t.detach().clone(memory_format=torch.preserve_format).requires_grad_(t.requires_grad)
        if isinstance(t, torch.Tensor)
        else t
        for t in tensors
    ]


def _run(text: str, name: str) -> Any:
    scope: dict[str, Any] = {}
    exec(compile(text, f"<{name}>", "exec"), scope)
    return scope[name]


def _results_differ(where: str, got: list[Any], want: list[Any], tight: bool) -> list[str]:
    if len(got) != len(want):
        return [f"{where}: the text returns {len(got)} tensors, the trace {len(want)}"]
    out = []
    for i, (a, b) in enumerate(zip(got, want, strict=True)):
        if (a is None) != (b is None):
            out.append(
                f"{where}: result {i} is {type(a).__name__} from the text, {type(b).__name__} from the trace"
            )
        elif isinstance(a, torch.Tensor):
            d = values_differ(a, b, tight)
            if d:
                out.append(f"{where}: result {i} of the text and of the trace: {d}")
    return out


def run_problems(
    jitted: Any, inputs: list[Any], ignore_values: bool = False, tight: bool = False
) -> list[str]:
    """Runs the printed text of every stage on ``inputs`` (the program's inputs, in order, none sharing memory
    with another) and compares it with ``Trace.__call__``. Looks at the program used last."""
    out: list[str] = []
    saved: Any = None
    for trace in fg.last_traces(jitted):
        if trace.stage == "differentiate" or (
            trace.stage == "simplify" and "cotangent" in trace.python(depth=0)
        ):
            continue
        where = f"{trace.name}, {trace.stage}"
        text = trace.python(depth=0, full_paths=True)
        signature = re.search(r"^def computation\((.*)\):$", text, re.M)
        if signature is None:
            out.append(f"{where}: has no computation\n{_lines(text)}")
            continue
        if signature.group(1).count(': "') != len(inputs):
            continue  # a joint trace: takes cotangents too
        try:
            torch.manual_seed(5)
            got = _run(text, "computation")(*_copies(inputs))
        except Exception as e:
            out.append(f"{where}: the text does not run: {type(e).__name__}: {e}\n{_lines(text)}")
            continue
        if isinstance(got, tuple):
            got, saved = got
        torch.manual_seed(5)
        want = trace(*_copies(inputs))
        if not ignore_values:
            out += [
                d + "\n" + _lines(text)
                for d in _results_differ(
                    where, list(got["flat_output"]), list(want)[: len(got["flat_output"])], tight
                )
            ]
    backward = fg.last_backward_traces(jitted)
    if saved is None or not backward:
        return out
    tensors, others = saved
    for trace in backward:
        where = f"{trace.name}, {trace.stage} (backward)"
        text = trace.python(depth=0, full_paths=True)
        torch.manual_seed(6)
        cotangents = []
        for m in _COTANGENT.finditer(text):
            sizes = [int(s) for s in m.group(2).split(";")[0].split(",") if s.strip()]
            dtype = _DTYPES[m.group(1)]
            drawn = torch.complex64 if dtype == torch.complex32 else dtype  # which cannot be drawn
            cotangents.append(torch.randn(sizes, dtype=drawn).to(dtype))
        saved_tensors, saved_others = (
            [t.detach().clone() if isinstance(t, torch.Tensor) else t for t in tensors],
            list(others),
        )
        try:
            torch.manual_seed(7)
            got = _run(text, "backward")(
                (tuple(saved_tensors), tuple(saved_others)), tuple(t.clone() for t in cotangents)
            )
        except Exception as e:
            out.append(f"{where}: the text does not run: {type(e).__name__}: {e}\n{_lines(text)}")
            continue
        try:
            torch.manual_seed(7)
            want = trace(
                *[
                    t.detach().clone() if isinstance(t, torch.Tensor) else t
                    for t in (*tensors, *others)
                ],
                *[t.clone() for t in cotangents],
            )
        except Exception as e:
            out.append(f"{where}: the trace does not run: {type(e).__name__}: {e}\n{_lines(text)}")
            continue
        if not ignore_values:
            out += [
                d + "\n" + _lines(text)
                for d in _results_differ(where, list(got), list(want), tight)
            ]
    return out


__all__ = ["all_traces", "problems", "round_trip_problems", "run_problems", "tensors_in"]
