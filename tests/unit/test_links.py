"""Claims about the pages of the repository: each relative link leads to a file, and each anchor to a heading of it. Decisions
name files that exist."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = sorted(path for path in (*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")) if ".venv" not in path.parts)
_LINK = re.compile(r"\]\((?!https?://|mailto:)([^)\s#]*)(?:#([^)\s]+))?\)")
_FILE = re.compile(r"`((?:\w+/)+\w+\.(?:py|js|sql|lua))`")
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


@pytest.mark.parametrize("page", sorted(ROOT.glob("docs/decisions/*.md")), ids=lambda path: path.name)
def test_a_decision_names_files_that_exist(page: Path) -> None:
    """Paths are below the repository or below `src/wakeful/`."""
    named = _FILE.findall(page.read_text())
    assert [
        file for file in named if not (ROOT / file).exists() and not (ROOT / "src/wakeful" / file).exists()
    ] == []
