"""The specification pages name tests that exist, are linked, and explain themselves by nothing outside of the repository."""

import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve()
while not (ROOT / "pyproject.toml").exists():
    ROOT = ROOT.parent
DOCS = ROOT / "docs"
PAGES = sorted((DOCS / "specs").glob("*.md"))
TEST_NAME = re.compile(r"\btest_\w+")
TEST_PATH = re.compile(r"tests/\w")
# Numbers of source documents, letters as row ids, and places that no reader of the repository has.
OUTSIDE = re.compile(
    r"(?<![,.\d])00[0-9]\b|\b[A-F][0-9]{1,2}\b|(?i:\bseeds?\b|\bcontract\b|\bthe design\b)|(?<![\w.])/(?:work|tmp|root|home)\b"
)
# The same in sources and tests, where such letters and numbers are also data.
REFERENCE = re.compile(
    r"(?<![\w,.:+\-/])00[0-4](?:'s)?(?![\w.])|\b[A-E](?:1[0-7]|[1-9])'s\b|\([A-F][0-9]{1,2}\)|# [A-F][0-9]{1,2}[.:]"
    r"|\b[Tt]he design(?:'s)?\b|\bContract [A-F]|the seed's|_00[0-4]s?(?:_|\b)"
)
DATA = re.compile(r"mode 000|\d_00|only-000|project-000|\\u00", re.IGNORECASE)
NO_TEST_OR_NAMES = re.compile(r"no test|`test_\w+`(, `test_\w+`)*")


@cache
def names_of_tests() -> set[str]:
    return {
        name
        for path in (ROOT / "tests").rglob("*.py")
        for name in re.findall(r"def (test_\w+)\(", path.read_text())
    }


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_named_test_exists(page: Path) -> None:
    """A row cannot rest on a test that was renamed or removed."""
    named = set(TEST_NAME.findall(page.read_text()))
    assert named - names_of_tests() == set()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_row_names_a_test_or_says_that_there_is_none(page: Path) -> None:
    """Each row of a table with a `tests` column has test names, or the words `no test`."""
    rows = rows_with_tests(page.read_text())
    assert rows or page.name == "README.md"
    assert [row for row in rows if not NO_TEST_OR_NAMES.fullmatch(row)] == []


@pytest.mark.parametrize("page", [*PAGES, DOCS / "glossary.md"], ids=lambda page: page.name)
def test_a_page_explains_itself_by_the_repository_alone(page: Path) -> None:
    """No number of a source document, no letter as a row id, no place elsewhere; and no path of a test, which may move."""
    text = TEST_NAME.sub("", page.read_text())
    assert OUTSIDE.findall(text) == []
    assert TEST_PATH.findall(text) == []


@pytest.mark.parametrize("folder", ["src", "tests", "bench"])
def test_no_source_refers_to_a_document_outside(folder: str) -> None:
    """A reason is given in words, or by a page of docs/specs."""
    found = [
        f"{path.relative_to(ROOT)}:{number}: {line.strip()}"
        for path in sorted((ROOT / folder).rglob("*.py"))
        if path.name != "test_specs.py" and "__pycache__" not in path.parts
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if REFERENCE.search(line) and not DATA.search(line)
    ]
    assert found == []


@pytest.mark.parametrize("page", [*PAGES, DOCS / "glossary.md"], ids=lambda page: page.name)
def test_every_page_is_linked_from_the_index(page: Path) -> None:
    """A reader who starts at docs/README.md finds it."""
    assert f"]({page.relative_to(DOCS)})" in (DOCS / "README.md").read_text()


def test_glossary_is_alphabetical() -> None:
    """A term is where a reader looks for it."""
    terms = re.findall(r"^\| \*\*(.+?)\*\*", (DOCS / "glossary.md").read_text(), re.MULTILINE)
    assert len(terms) >= 60
    assert terms == sorted(terms, key=str.casefold)


def rows_with_tests(text: str) -> list[str]:
    """The last cells of all rows below a header that ends in `tests`."""
    rows: list[str] = []
    inside = False
    for line in text.splitlines():
        if not line.startswith("|"):
            inside = False
        elif line.endswith("| tests |"):
            inside = True
        elif inside and not line.startswith("|---"):
            rows.append(line.removesuffix(" |").rpartition(" | ")[2])
    return rows
