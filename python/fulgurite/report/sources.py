"""The user's source lines that traces point to."""

from __future__ import annotations

import linecache
import os
from html import escape

from fulgurite.report.code import highlight

# Of longer files only the surroundings of the lines that are pointed to are shown.
WHOLE_FILE = 600
SURROUNDINGS = 6


class Sources:
    """Collects places (file, line) while stages are rendered; then renders the files."""

    def __init__(self) -> None:
        self._files: dict[str, set[int]] = {}

    def place(self, file: str, line: int) -> tuple[str, str, str]:
        """Takes note of a place. Its anchor, its label and the text of the line ("" if it cannot be read)."""
        self._files.setdefault(file, set()).add(line)
        return (
            self.anchor(file, line),
            f"{os.path.basename(file)}:{line}",
            linecache.getline(file, line).strip(),
        )

    def anchor(self, file: str, line: int) -> str:
        return f"s{list(self._files).index(file)}-{line}"

    def render(self) -> str:
        parts = [self._render_file(file, used) for file, used in self._files.items()]
        return "".join(parts) or '<p class="note">No source lines are known.</p>'

    def _render_file(self, file: str, used: set[int]) -> str:
        lines = linecache.getlines(file)
        title = f'<summary><b>{escape(os.path.basename(file))}</b> <span class="note">{escape(_short(file))}</span></summary>'
        if not lines:
            return f'<details open class="file">{title}<p class="note">The file cannot be read.</p></details>'
        shown = set(range(1, len(lines) + 1))
        if len(lines) > WHOLE_FILE:
            shown = {k for n in used for k in range(n - SURROUNDINGS, n + SURROUNDINGS + 1)} & shown
        out, previous = [], 0
        for number in sorted(shown):
            if number != previous + 1:
                out.append('<div class="gap">⋯</div>')
            previous = number
            mark = " used" if number in used else ""
            out.append(
                f'<div class="sl{mark}" id="{self.anchor(file, number)}"><span class="no">{number}</span>'
                f"{highlight(lines[number - 1].rstrip())}</div>"
            )
        return f'<details open class="file">{title}<div class="code">{"".join(out)}</div></details>'


def _short(path: str) -> str:
    """The directory of a path, its middle left out if it is long."""
    parts = os.path.dirname(path).split(os.sep)
    return os.sep.join(parts if len(parts) <= 5 else [*parts[:2], "…", *parts[-3:]])
