"""Lists of expected exceptions: text files under tests/expected, one line per case, strict both ways."""

from __future__ import annotations

import os
import re

_FOLDER = os.path.join(os.path.dirname(os.path.dirname(__file__)), "expected")
_HEADER = """\
# {title}
# A line: case | served/of | reason. A case that is not listed is served by a compiled program in all samples.
# A listed case that does better fails the test: take it off (FULGURITE_TEST_UPDATE=1 rewrites the list).
"""
updating = os.environ.get("FULGURITE_TEST_UPDATE", "0") == "1"


def tidy(reason: str) -> str:
    """A reason without what changes from run to run: paths, lines, names of values, native backtraces."""
    reason = reason.split("Exception raised from")[0].strip().split("\n")[0]
    reason = re.sub(r"(/[\w./-]+|\w+)\.py:\d+:? ?", "", reason)
    reason = re.sub(r'"?(/[\w.+-]+)+"?(:\d+)?', "<path>", reason)
    reason = re.sub(r"<program \d+>:\d+:? ?", "", reason)
    reason = re.sub(r"\b(t|a|x|y|b)\d+\b", "<value>", reason)
    reason = re.sub(r"0x[0-9a-f]+", "<address>", reason)
    reason = re.sub(r"\[-?[\d, -]*\]", "[...]", reason)
    return reason.replace("|", "/")[:180].strip()


class Expected:
    """The list ``name``.txt."""

    def __init__(self, name: str, title: str) -> None:
        self.path = os.path.join(_FOLDER, name + ".txt")
        self.title = title
        self.lines: dict[str, tuple[str, str]] = {}
        self.found: dict[str, tuple[str, str]] = {}
        self.ran: set[str] = set()
        if os.path.exists(self.path):
            with open(self.path) as f:
                for line in f:
                    if line.strip() and not line.startswith("#"):
                        case, served, reason = (part.strip() for part in line.split("|", 2))
                        self.lines[case] = (served, reason)

    def check(self, case: str, served: int, samples: int, reasons: list[str]) -> list[str]:
        """Complaints about a case: served fewer or more samples than the list says, or for other reasons."""
        now = (f"{served}/{samples}", "; ".join(sorted({tidy(r) for r in reasons}))[:300].strip())
        complete = served == samples and samples > 0
        self.ran.add(case)
        if not complete:
            self.found[case] = now
        if updating:
            return []
        was = self.lines.get(case)
        if complete:
            return (
                []
                if was is None
                else [f"{case}: is served now in all {samples} samples; take it off {self.path}"]
            )
        if was is None:
            return [f"{case}: served in {now[0]} samples: {now[1]}"]
        if was != now:
            return [f"{case}: served {now[0]} ({now[1]}); the list says {was[0]} ({was[1]})"]
        return []

    def save(self) -> None:
        """Writes what was found, if lists are being updated. Cases that did not run keep their lines."""
        if not updating:
            return
        os.makedirs(_FOLDER, exist_ok=True)
        with open(self.path, "w") as f:
            f.write(_HEADER.format(title=self.title))
            kept = {c: line for c, line in self.lines.items() if c not in self.ran}
            for case, (served, reason) in sorted((kept | self.found).items()):
                f.write(f"{case} | {served} | {reason}\n")
