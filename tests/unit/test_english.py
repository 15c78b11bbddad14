"""Help, errors, output and pages have none of the words that make a sentence hard to read."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest
from bench.reference import command_contexts

from wakeful.cli.app import root

ROOT: Final = Path(__file__).parents[2]
SOURCES: Final = ROOT / "src" / "wakeful"
BANNED: Final = re.compile(
    r"\b(whoever|nobody|somebody|anew|all the same|of ours|of yours|(?:is|are) told|is said|to be had|whence|doors?"
    # `is no poll` for `is not a poll`; `there is no poll` is plain.
    r"|any more|(?<!there )(?:is|are) no (?!longer|such|more)\w+)\b",
    re.IGNORECASE,
)
# In code and its comments; a literal of one of these words is a value of an interface.
BANNED_IN_CODE: Final = re.compile(r'\b(?<!")([Ww]hoever|[Nn]obody|[Ss]omebody|[Aa]new|[Ww]hence)\b')
# Text that no person of this project writes.
NOT_PROSE: Final = frozenset({"docs/reference/recovery-tried.md"})


def banned_in(text: str) -> list[str]:
    """The banned words of a text, each with the words around it; code spans may name them."""
    prose = " ".join(re.sub(r"`[^`]*`", "``", text).split())
    return [prose[max(0, found.start() - 40) : found.end() + 20] for found in BANNED.finditer(prose)]


HELP: Final = {context.command_path: context for context in command_contexts(root)}


def class_definitions() -> Iterator[tuple[str, ast.ClassDef]]:
    for path in sorted(SOURCES.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ClassDef):
                yield f"{path.relative_to(SOURCES)}:{node.name}", node


def error_messages() -> dict[str, str]:
    """The docstrings of WakefulError's subclasses, by name: an error's docstring is its message."""
    classes = list(class_definitions())
    errors = {"WakefulError"}
    while True:
        found = {
            node.name
            for _, node in classes
            if any(ast.unparse(base).rpartition(".")[2] in errors for base in node.bases)
        }
        if found <= errors:
            break
        errors |= found
    return {place: ast.get_docstring(node) or "" for place, node in classes if node.name in errors}


def printed_texts(path: Path) -> Iterator[str]:
    """The string literals of a module with more than one word, without the docstrings of code."""
    tree = ast.parse(path.read_text())
    docstrings = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        and node.body
        and isinstance(node.body[0], ast.Expr)
    }
    for node in ast.walk(tree):
        is_text = isinstance(node, ast.Constant) and isinstance(node.value, str) and " " in node.value
        if is_text and id(node) not in docstrings:
            yield str(node.value)  # type: ignore[attr-defined]


def page_names() -> Iterator[str]:
    for path in (*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))):
        name = str(path.relative_to(ROOT))
        if name not in NOT_PROSE:
            yield name


@pytest.mark.parametrize("words", HELP)
def test_the_help_of_a_command_is_plain(words: str) -> None:
    """Its text, its options and the summaries of its commands."""
    assert banned_in(HELP[words].get_help()) == []


def test_the_messages_of_errors_are_plain() -> None:
    """Every subclass of WakefulError, wherever it is."""
    messages = error_messages()
    assert len(messages) > 200
    assert {place: found for place, text in messages.items() if (found := banned_in(text))} == {}


def test_what_the_source_prints_is_plain() -> None:
    """Output, alerts, log lines, reasons and the comments of the configuration file."""
    files = sorted(SOURCES.rglob("*.py"))
    found = [(path.name, hit) for path in files for text in printed_texts(path) for hit in banned_in(text)]
    assert files
    assert found == []


def test_code_comments_and_the_page_are_plain() -> None:
    """Comments, docstrings and what the web page shows."""
    files = [each for kind in ("py", "js", "html") for each in sorted(SOURCES.rglob(f"*.{kind}"))]
    assert {each.suffix for each in files} == {".py", ".js", ".html"}
    assert [(each.name, hit[0]) for each in files for hit in BANNED_IN_CODE.finditer(each.read_text())] == []


@pytest.mark.parametrize("name", list(page_names()))
def test_a_page_is_plain(name: str) -> None:
    assert banned_in((ROOT / name).read_text()) == []
