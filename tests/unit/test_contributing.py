"""Claims about CONTRIBUTING.md: its map names every package, and its walks name files that exist, without a gap."""

import ast
import re
from functools import cache
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
# Interfaces, which walks do not list: a file on one side reaches a file on the other through them.
INTERFACES = {
    "client/api.py",
    "control/driver.py",
    "core/process.py",
    "http/asgi.py",
    "sources/base.py",
    "storage/base.py",
}
# Joined by a socket, by the HTTP server, or by a function that `wakeful.daemon` passes from one to the other.
JOINED = (
    {"client/wire.py", "http/connection.py"},
    {"client/async_client.py", "http/gate.py"},
    {"http/connection.py", "http/gate.py"},
    {"healing/notifier.py", "incidents/critical_log.py"},
)


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


@pytest.mark.parametrize("heading", FILES_MAX)
def test_a_walk_has_no_gap(heading: str) -> None:
    """Every Python file is connected with the first one through files of the walk: by an import, an interface or a socket."""
    _, files = walk(heading)
    waiting = {file for file in files if file.endswith(".py")}
    reached = [waiting.pop()]
    for file in reached:
        near = {other for other in waiting | INTERFACES if is_joined(file, other)} - {*reached}
        reached += near
        waiting -= near
    assert waiting == set()


def is_joined(one: str, other: str) -> bool:
    return other in imports(one) or one in imports(other) or {one, other} in JOINED


@cache
def imports(file: str) -> set[str]:
    """The files of Wakeful that a file imports names from, or imports as modules."""
    modules = {
        module
        for node in ast.walk(ast.parse((SOURCE / file).read_text()))
        if isinstance(node, ast.ImportFrom) and node.module
        for module in (node.module, *(f"{node.module}.{alias.name}" for alias in node.names))
    }
    return {f"{module.removeprefix('wakeful.').replace('.', '/')}.py" for module in modules}


def test_the_map_names_every_package() -> None:
    packages = {path.parent.name for path in SOURCE.glob("*/__init__.py")}
    listing = TEXT.partition("```\ncore ")[2].partition("```")[0]
    assert {line.split()[0] for line in f"core {listing}".splitlines() if line.strip()} == packages
