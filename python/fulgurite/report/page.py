"""Renders explanations: functions, their programs, the stages of each, guards, and the source beside them."""

from __future__ import annotations

import difflib
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from html import escape
from importlib.resources import files
from itertools import groupby
from typing import Any

from fulgurite.inspection import Explanation, Guard, Program
from fulgurite.report.code import (
    highlight,
    split_comment,
    split_files,
    split_location,
    split_parameters,
)
from fulgurite.report.sources import Sources


def render(explanations: Sequence[Explanation], title: str) -> str:
    sources = Sources()
    body = "".join(_function(e, sources) for e in explanations)
    here = files("fulgurite.report")
    style = here.joinpath("style.css").read_text(encoding="utf-8")
    script = here.joinpath("script.js").read_text(encoding="utf-8")
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title>'
        f'<meta name="viewport" content="width=device-width, initial-scale=1"><style>\n{style}</style></head>\n'
        f"<body><header><h1>{escape(title)}</h1>"
        '<p class="note">Each stage is a program. <b class="new">Marked lines</b> are new in a stage. Point at a '
        "line of a trace to see its source, at a marked line of the source to see what became of it; click to "
        "go there.</p></header>\n"
        f'<div class="columns"><main>{body}</main>\n<aside><h2>Source</h2>{sources.render()}</aside></div>'
        f'<div id="bar" hidden></div><script>\n{script}</script></body></html>\n'
    )


def _function(e: Explanation, sources: Sources) -> str:
    facts = [
        (len(e.programs), "programs", ""),
        (e.hits, "calls served by them", ""),
        (e.misses, "calls recorded or run eagerly", ""),
        (len(e.fallbacks), "reasons to run eagerly", "bad" if e.fallbacks else ""),
    ]
    tiles = "".join(
        f'<div class="tile {c}"><b>{n}</b>{escape(words)}</div>' for n, words, c in facts
    )
    several = len(e.programs) > 1
    return (
        f'<section><h2>{escape(e.name)}</h2><div class="tiles">{tiles}</div>{_refusals(e)}{_branches(e)}'
        + "".join(_program(i, p, sources, several) for i, p in enumerate(e.programs))
        + "</section>"
    )


def _branches(e: Explanation) -> str:
    lines = list(e.branch_lines())
    return f"<pre>{escape(chr(10).join(lines))}</pre>" if lines else ""


def _refusals(e: Explanation) -> str:
    rows = [(f"eager, {f.count}×", f.code, f.reason) for f in e.fallbacks]
    rows += [(f"recorded again, {count}×", "", why) for why, count in Counter(e.recompiles).items()]
    if not rows:
        return '<p class="note">Nothing was refused, and nothing was recorded twice.</p>'
    cells = "".join(
        f"<tr><td>{escape(what)}</td><td>{escape(code)}</td><td>{_reason(reason)}</td></tr>"
        for what, code, reason in rows
    )
    return f'<table class="reasons"><tr><th>what</th><th>code</th><th>why</th></tr>{cells}</table>'


def _reason(text: str) -> str:
    first, *rest = text.splitlines() or [""]
    if not rest:
        return escape(first)
    return f"<details><summary>{escape(first)}</summary><pre>{escape(chr(10).join(rest))}</pre></details>"


def _program(number: int, p: Program, sources: Sources, several: bool) -> str:
    gradient = f", {len(p.backward[-1])} backward" if p.backward else ", no gradient"
    head = (
        f"Program {number}: {len(p.forward[-1])} operators forward{gradient}, {len(p.guards)} guards; "
        f"served {p.hits} calls"
    )
    parts = [_times(p), "<h3>Forward</h3>", *_stages(p.forward, sources)]
    if p.backward:
        parts += ["<h3>Backward</h3>", *_stages(p.backward, sources)]
    parts += ["<h3>Guards</h3>", _guards(p.guards, sources)]
    is_open = "" if several and number > 0 else " open"
    return f'<details class="program"{is_open}><summary>{escape(head)}</summary>{"".join(parts)}</details>'


def _times(p: Program) -> str:
    """What the first call cost, as bars."""
    rows = [
        ("recorded run", len(p.forward[0]), p.record_ms, "run"),
        *((*row, "") for row in p.passes()),
    ]
    rest = p.compile_ms - sum(ms for _, _, ms in p.passes())
    rows.append(("plan and the rest", None, max(0.0, rest), ""))
    longest = max(ms for _, _, ms, _ in rows) or 1.0
    cells = "".join(
        f"<tr><td>{escape(name)}</td><td class=num>{'' if n is None else n}</td><td class=num>{ms:.2f}</td>"
        f'<td><span class="meter {kind}" style="width:{100 * ms / longest:.1f}%"></span></td></tr>'
        for name, n, ms, kind in rows
    )
    total = p.record_ms + p.compile_ms
    return (
        f"<h3>The first call: {total:.1f} ms</h3><table class=times><tr><th>pass</th><th class=num>operators</th>"
        f"<th class=num>ms</th><th></th></tr>{cells}</table>"
    )


def _guards(guards: Sequence[Guard], sources: Sources) -> str:
    out = []
    for kind, group in groupby(sorted(guards, key=lambda g: g.kind), key=lambda g: g.kind):
        lines = [_guard(g, sources) for g in group]
        words = kind.replace("_", " ")
        out.append(
            f'<details class="kind"><summary>{escape(words)}<span class="note">{len(lines)}</span></summary>'
            f'<div class="code">{"".join(lines)}</div></details>'
        )
    return (
        '<details class="stage"><summary>what must still hold<span class="note">'
        f"{len(guards)} guards of {len(out)} kinds</span></summary>{''.join(out)}</details>"
    )


_READ_AT = re.compile(r"^(?P<text>.*?)(?P<file>[^\s:]+\.py):(?P<line>\d+)$")


def _guard(g: Guard, sources: Sources) -> str:
    match = _READ_AT.match(g.reason)
    reason = escape(g.reason)
    if match is not None and match["file"].startswith("/"):
        anchor, label, text = sources.place(match["file"], int(match["line"]))
        reason = escape(match["text"]) + _link(anchor, label, text)
    return f'<div class="l"><span class="x">{escape(g.expression)}</span> <span class="t">{reason}</span></div>'


def _link(anchor: str, label: str, text: str) -> str:
    return f'<a href="#{anchor}" title="{escape(text)}">{escape(label)}</a>'


def _stages(traces: Sequence[Any], sources: Sources) -> Iterator[str]:
    before: list[str] | None = None
    for i, trace in enumerate(traces):
        lines, paths = split_files(trace.python(full_paths=True))
        keys = [_key(line) for line in lines]
        added, removed = _changes(before, keys)
        before = keys
        change = "" if i == 0 else f"+{len(added)} −{removed}" if added or removed else "unchanged"
        is_open = " open" if i == len(traces) - 1 else ""
        last = '<span class="runs">what runs</span>' if is_open else ""
        time = f"{trace.milliseconds:.2f} ms" if i else ""
        rendered = "".join(_line(line, k in added, paths, sources) for k, line in enumerate(lines))
        yield (
            f'<details class="stage"{is_open}><summary>{escape(trace.stage)}{last}<span class="note">'
            f"{_operators(trace, lines)}</span><span class=note>{change}</span><span class=note>{time}</span></summary>"
            f'<div class="code">{rendered}</div></details>'
        )


_PRINTED = re.compile(r": (\d+) ops?\b")


def _operators(trace: Any, lines: list[str]) -> str:
    """How many operators run, and in how many lines they are printed where composite ones stay folded."""
    match = _PRINTED.search(lines[0]) if lines else None
    folded = f", {match[1]} as printed" if match and int(match[1]) != len(trace) else ""
    return f"{len(trace)} operators{folded}"


def _key(line: str) -> str:
    """What makes a line the same line in the next stage: its code without alignment, type and place."""
    code = split_comment(split_location(line)[0])[0].strip()
    return "" if code.startswith("#") else code


def _changes(before: list[str] | None, now: list[str]) -> tuple[set[int], int]:
    """Indices of lines that are new, and how many are gone. Signature, result and comments do not count."""
    if before is None:
        return set(), 0
    added: set[int] = set()
    removed = 0
    matcher = difflib.SequenceMatcher(None, before, now, autojunk=False)
    for tag, a, b, c, d in matcher.get_opcodes():
        if tag == "equal":
            continue
        added.update(k for k in range(c, d) if _is_operator(now[k]))
        removed += sum(_is_operator(text) for text in before[a:b])
    return added, removed


def _is_operator(key: str) -> bool:
    return " = " in key and not key.startswith(("def ", "return", "@", "import"))


def _line(line: str, is_new: bool, paths: dict[str, str], sources: Sources) -> str:
    text, file, number = split_location(line)
    code, comment = split_comment(text)
    link = source = ""
    if file:
        anchor, _, source_line = sources.place(paths.get(file, file), number)
        link = _link(anchor, f"{file}:{number}", source_line)
        source = f' data-s="{anchor}"'
    note = f'<span class="t">{escape(comment)}</span>' if comment else ""
    new = " new" if is_new else ""
    if not code.strip() and not comment:
        return '<div class="l">&nbsp;</div>'
    pieces = split_parameters(code)
    first = "".join(
        f"<div {_indented('l', piece)}>{highlight(piece.lstrip())}</div>" for piece in pieces[:-1]
    )
    last = pieces[-1]
    return f"{first}<div {_indented('l' + new, last)}{source}>{highlight(last.lstrip())} {note} {link}</div>"


def _indented(classes: str, text: str) -> str:
    """Attributes of a line: what does not fit goes on below, further in than its own indentation."""
    width = len(text) - len(text.lstrip())
    return f'class="{classes}" style="--in:{width}ch"' if width else f'class="{classes}"'
