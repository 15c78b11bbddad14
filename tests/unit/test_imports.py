"""Imports go one way: a package imports only itself and packages to its left."""

import ast
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[2] / "src" / "wakeful"
ORDER = (
    "core",
    "linux",
    "effects",
    "judging",
    "storage",
    "sources",
    "sessions",
    "control",
    "incidents",
    "alerts",
    "healing",
    "checkpoints",
    "agents",
    "work",
    "heartbeat",
    "metrics",
    "replay",
    "reports",
    "views",
    "integrations",
    "config",
    "hooks",
    "client",
    "journal",
    "watchdog",
    "gateway",
    "testing",
    "web",
    "http",
    "daemon",
    "cli",
    "tui",
    "mcp",
)
# The documented public modules beside the packages, and the last package that each may import.
PUBLIC = {"critical_events": "journal", "session_watchdog": "watchdog"}
# The program itself: both may import everything, when it is needed.
PROGRAM = ("__init__", "__main__")
# Rules are functions of their arguments: they reach no file, clock, log or loop.
PURE = ("core", "judging", "effects", "gateway/rules")
PURE_FILES = ("model.py", "plan.py", "policy.py", "rules.py", "*_rules.py", "case.py")
PURE_BUT = {"core/fault_points.py": {"os", "threading"}, "core/waiting.py": {"asyncio"}}
IMPURE = {"asyncio", "logging", "os", "pathlib", "random", "socket", "subprocess", "threading", "time"}
MODULES = sorted(path for path in SOURCE.rglob("*.py"))


def imported(path: Path) -> set[str]:
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names |= {node.module} | {f"{node.module}.{alias.name}" for alias in node.names}
    return names


def package_of(path: Path) -> str:
    return path.relative_to(SOURCE).parts[0].removesuffix(".py")


def rank_of(package: str) -> int:
    return ORDER.index(PUBLIC.get(package, package))


def imported_packages(path: Path) -> set[str]:
    names = {name.split(".")[1] for name in imported(path) if name.startswith("wakeful.")}
    return {name for name in names if (SOURCE / name).is_dir() or (SOURCE / f"{name}.py").exists()}


def test_every_module_has_its_place_in_the_order() -> None:
    """At the root are only the packages of the order, the public modules and the program."""
    assert {package_of(path) for path in MODULES} == {*ORDER, *PUBLIC, *PROGRAM}


@pytest.mark.parametrize("package", [*ORDER, *PUBLIC])
def test_a_package_imports_only_what_is_left_of_it(package: str) -> None:
    """One total order, for imports inside functions, too."""
    for path in (each for each in MODULES if package_of(each) == package):
        wrong = {each for each in imported_packages(path) if rank_of(each) > rank_of(package)}
        assert not wrong, f"{path.relative_to(SOURCE)} imports {wrong}"


def test_rules_are_pure() -> None:
    """Rules import no clock, no files, no loop and no log."""
    folders = [each for folder in PURE for each in (SOURCE / folder).rglob("*.py")]
    for path in sorted({*folders, *(each for name in PURE_FILES for each in SOURCE.rglob(name))}):
        allowed = PURE_BUT.get(str(path.relative_to(SOURCE)), set())
        impure = {name.split(".")[0] for name in imported(path)} & IMPURE - allowed
        assert not impure, f"{path.relative_to(SOURCE)} imports {impure}"
