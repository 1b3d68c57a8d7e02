"""Printed traces and Python source as HTML lines."""

from __future__ import annotations

import re
from html import escape

_TOKEN = re.compile(
    r"""(?P<c>\#.*$)|(?P<s>"[^"]*"|'[^']*')|(?P<k>\b(?:def|return|import|from|with|as|if|elif|else|for|while|in|not|and|
    or|is|class|lambda|raise|try|except|finally|pass|None|True|False)\b)|(?P<d>@[\w.]+)|(?P<n>\b\d[\w.]*)|
    (?P<f>[A-Za-z_][\w.]*(?=\())""",
    re.VERBOSE,
)
# "t0 = ...  # f32[2, 3]+g    train.py:6": the type, then the place.
_LOCATION = re.compile(r"\s{2,}(?P<file>\S+):(?P<line>\d+)$")


def highlight(text: str) -> str:
    """One line of Python as HTML."""
    out, end = [], 0
    for match in _TOKEN.finditer(text):
        out.append(escape(text[end : match.start()], quote=False))
        out.append(f'<i class="{match.lastgroup}">{escape(match[0], quote=False)}</i>')
        end = match.end()
    out.append(escape(text[end:], quote=False))
    return "".join(out)


_FILE = re.compile(r"# (?P<label>\S+) is (?P<path>/.*)$")


def split_files(text: str) -> tuple[list[str], dict[str, str]]:
    """The lines of a trace printed with full paths, and which path each of its file labels stands for."""
    lines, paths = [], {}
    for line in text.splitlines():
        match = _FILE.match(line)
        if match is None:
            lines.append(line)
        else:
            paths[match["label"]] = match["path"]
    return lines, paths


def split_location(line: str) -> tuple[str, str, int]:
    """A line of a trace without its place, and the place: ``(text, file, line)``; file is "" if there is none."""
    match = _LOCATION.search(line) if "#" in line else None
    if match is None:
        return line, "", 0
    return line[: match.start()].rstrip(), match["file"], int(match["line"])


def split_comment(line: str) -> tuple[str, str]:
    """Code and the trailing comment of a line that a trace printed; a line that is a comment is code."""
    if line.lstrip().startswith("#"):
        return line, ""
    code, mark, comment = line.rpartition("  # ")
    return (code.rstrip(), comment.strip()) if mark else (line, "")


def split_parameters(line: str) -> list[str]:
    """A long ``def`` line, one parameter a line; other lines as they are."""
    match = re.match(r"(def \w+\()(.*)(\):)$", line)
    if match is None or len(line) < 100:
        return [line]
    parameters = re.findall(r"""\w+(?:: (?:"[^"]*"|'[^']*'|\w+))?(?:=[^,]+)?""", match[2])
    return [match[1], *(f"    {p}," for p in parameters), match[3]]
