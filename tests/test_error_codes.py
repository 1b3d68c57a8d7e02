"""Every code that the sources use has a section in docs/errors.md, and the other way round."""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
CODE = re.compile(r"FG-\d{3}")


def codes_in_sources() -> dict[str, str]:
    """Code -> a file that uses it. Lines that are comments do not count: they may speak of codes in general."""
    found: dict[str, str] = {}
    for folder in ("src", "include", "python"):
        for path in sorted((ROOT / folder).rglob("*")):
            if path.suffix not in (".cpp", ".h", ".inc", ".c", ".py"):
                continue
            for line in path.read_text(encoding="utf-8").splitlines():
                if line.lstrip().startswith(("//", "#")):
                    continue
                for code in CODE.findall(line):
                    found.setdefault(code, str(path.relative_to(ROOT)))
    return found


def sections() -> dict[str, str]:
    text = (ROOT / "docs" / "errors.md").read_text(encoding="utf-8")
    parts = re.split(r"^### (FG-\d{3})$", text, flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def test_every_code_has_a_section():
    missing = {c: where for c, where in codes_in_sources().items() if c not in sections()}
    assert not missing, f"no section in docs/errors.md for {missing}"


def test_every_section_has_a_code():
    stale = sorted(set(sections()) - set(codes_in_sources()))
    assert not stale, f"docs/errors.md has sections for codes that no source uses: {stale}"


def test_sections_are_in_order_within_their_chapters_and_not_empty():
    for code, text in sections().items():
        assert len(text.split()) > 10, f"the section of {code} is empty"
