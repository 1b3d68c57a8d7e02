"""What the documentation lists is what there is."""

import re
from pathlib import Path

from fulgurite.options import TABLE

ROOT = Path(__file__).resolve().parents[1]


def test_every_option_is_documented_with_its_default():
    text = (ROOT / "docs" / "options.md").read_text(encoding="utf-8")
    rows = dict(re.findall(r"^\| `(\w+)` \|[^|]*\| `([^`]*)` \|", text, flags=re.MULTILINE))
    expected = {
        name: f'"{o.default}"' if isinstance(o.default, str) else str(o.default)
        for name, o in TABLE.items()
    }
    assert rows == expected


def test_links_between_documents_lead_somewhere():
    for page in [ROOT / "README.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").rglob("*.md"))]:
        for link in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8")):
            assert (page.parent / link).exists(), f"{page.relative_to(ROOT)}: {link}"


def test_headers_that_the_architecture_page_names_exist():
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    for folder, start in re.findall(
        r"^\| `(\w+)/` \|[^|]*\| `([\w./]+)`", text, flags=re.MULTILINE
    ):
        assert (ROOT / "src" / folder / start).exists(), f"{folder}/{start}"
