"""Claims about names: a public class exists once, and no name is a metaphor."""

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

SOURCE = Path(__file__).parents[2] / "src" / "wakeful"
# Words that earlier versions used for parts of the program; docs/glossary.md has the plain ones.
METAPHORS = {
    *(
        "eye",
        "eyes",
        "ear",
        "ears",
        "door",
        "doors",
        "hand",
        "hands",
        "desk",
        "house",
        "scribe",
        "scout",
        "scouts",
    ),
    *(
        "voice",
        "calm",
        "roster",
        "courier",
        "witness",
        "glimpse",
        "heir",
        "lookout",
        "handwork",
        "holdings",
        "rung",
    ),
    *("mourned", "farewell", "greet", "lodge", "homeless", "trouble", "deed", "papers", "misery", "knock"),
}
# Handlers are `on_…`, commands are verbs: a participle alone says neither.
PARTICIPLES = {"told", "said", "heard", "seen", "kept", "shown", "settled", "moved", "held", "looked", "gone"}


def definitions() -> Iterator[tuple[str, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef]]:
    for path in sorted(SOURCE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                yield str(path.relative_to(SOURCE)), node


def parts_of(name: str) -> list[str]:
    return [part.lower() for part in re.findall(r"[A-Z]?[a-z]+", name)]


def test_a_public_class_name_exists_once() -> None:
    """A search for a class finds one."""
    places = defaultdict(list)
    for path, node in definitions():
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
            places[node.name].append(path)
    assert {name: found for name, found in places.items() if len(found) > 1} == {}


def test_no_name_is_a_metaphor() -> None:
    """Of modules, classes and functions."""
    modules = {str(path.relative_to(SOURCE)) for path in SOURCE.rglob("*.py")}
    found = {path for path in modules if METAPHORS & {*parts_of(path)}}
    found |= {f"{path}: {node.name}" for path, node in definitions() if METAPHORS & {*parts_of(node.name)}}
    assert found == set()


def test_no_function_is_called_by_a_participle_alone() -> None:
    """Public or private."""
    found = {
        f"{path}: {node.name}"
        for path, node in definitions()
        if not isinstance(node, ast.ClassDef) and node.name.strip("_") in PARTICIPLES
    }
    assert found == set()
