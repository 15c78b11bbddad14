"""Claims about CONTRIBUTING.md: its map names every package, and its walks name files that are there, and not too many."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "wakeful"
TEXT = (ROOT / "CONTRIBUTING.md").read_text()
# A third fewer than when the packages were layers: 55, 60, 42 and 65.
FILES_MAX = {
    "A log line to the page": 36,
    "kill -9 to the resumed session": 40,
    "`wakeful send` to the keystrokes": 28,
    "A chat message to its answer": 43,
}


def walk(heading: str) -> tuple[int, list[str]]:
    """The number of files that a walk states, and the files it names."""
    found = re.search(
        rf"\*\*{re.escape(heading)}\*\* \((\d+) files\)\n(.*?)(?=\n\*\*|\n## )", TEXT, re.DOTALL
    )
    assert found is not None, heading
    return int(found[1]), sorted(set(re.findall(r"`([\w/]+\.(?:py|js))`", found[2])))


@pytest.mark.parametrize("heading", FILES_MAX)
def test_a_walk_names_files_that_are_there(heading: str) -> None:
    """The stated number is theirs, and within the limit."""
    stated, files = walk(heading)
    assert [file for file in files if not (SOURCE / file).exists()] == []
    assert stated == len(files) <= FILES_MAX[heading]


def test_the_map_names_every_package() -> None:
    packages = {path.parent.name for path in SOURCE.glob("*/__init__.py")}
    listing = TEXT.partition("```\ncore ")[2].partition("```")[0]
    assert {line.split()[0] for line in f"core {listing}".splitlines() if line.strip()} == packages
