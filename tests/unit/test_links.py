"""Claims about the pages of the repository: each relative link leads to a file, and each anchor to a heading of it."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = sorted(path for path in (*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")) if ".venv" not in path.parts)
_LINK = re.compile(r"\]\((?!https?://|mailto:)([^)\s#]*)(?:#([^)\s]+))?\)")
_CODE = re.compile(r"```.*?```|`[^`\n]*`", re.DOTALL)


def anchor_of(heading: str) -> str:
    words = re.sub(r"[^\w\- ]", "", heading.strip().lower())
    return words.replace(" ", "-")


def anchors_of(page: Path) -> set[str]:
    return {anchor_of(line.lstrip("#")) for line in page.read_text().splitlines() if line.startswith("#")}


@pytest.mark.parametrize("page", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_link_leads_somewhere(page: Path) -> None:
    """A page that was renamed takes its links along."""
    broken = []
    for target, anchor in _LINK.findall(_CODE.sub("", page.read_text())):
        linked = (page.parent / target).resolve() if target else page
        if not linked.exists() or (anchor and linked.suffix == ".md" and anchor not in anchors_of(linked)):
            broken.append(f"{target}#{anchor}")
    assert broken == []
