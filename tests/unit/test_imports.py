"""Imports go one way: interfaces -> services -> domain <- adapters; services -> ports <- adapters."""

import ast
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[2] / "src" / "wakeful"
# What each layer may import of Wakeful. serving.py joins everything and is imported by commands only.
ALLOWED = {
    "domain": {"domain"},
    "ports": {"domain", "ports"},
    "adapters": {"domain", "ports", "adapters", "faults", "children"},
    # Crash points stand where a crash would matter, and those between two steps of an act are in a service.
    "services": {"domain", "ports", "services", "faults"},
    "interfaces": {
        "domain",
        "ports",
        "services",
        "interfaces",
        "agents_config",
        "autostart",
        "backlog",
        "channels",
        "checkup",
        "children",
        "chatwork",
        "config",
        "config_reading",
        "critical_events",
        "places",
        "gateway_config",
        "gateway_import",
        "heartbeat_config",
        "heartbeats",
        "home",
        "hookwork",
        "hubwork",
        "journal_desk",
        "lookout",
        "person",
        "recordings",
        "recoveries",
        "reporting",
        "serving",
        "testing",
        "trusting",
    },
}
# Rules are functions of their arguments: nothing here may reach the world or wait for it.
IMPURE = {"asyncio", "logging", "os", "pathlib", "random", "socket", "subprocess", "threading", "time"}


def imported(path: Path) -> set[str]:
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names |= {node.module} | {f"{node.module}.{alias.name}" for alias in node.names}
    return names


def modules(layer: str) -> list[Path]:
    return sorted((SOURCE / layer).rglob("*.py"))


@pytest.mark.parametrize("layer", ALLOWED)
def test_a_layer_imports_only_what_it_may(layer: str) -> None:
    """No module reaches past its layer."""
    for path in modules(layer):
        layers = {name.split(".")[1] for name in imported(path) if name.startswith("wakeful.")}
        names = {name for name in layers if (SOURCE / name).exists() or (SOURCE / f"{name}.py").exists()}
        assert names <= ALLOWED[layer], f"{path.relative_to(SOURCE)} imports {names - ALLOWED[layer]}"


def test_the_domain_is_pure() -> None:
    """Rules import no clock, no files, no loop and no log."""
    for path in modules("domain"):
        roots = {name.split(".")[0] for name in imported(path)}
        assert not roots & IMPURE, f"{path.name} imports {roots & IMPURE}"


def test_every_layer_is_looked_at() -> None:
    """A folder that this test does not know would be free to import anything."""
    folders = {path.name for path in SOURCE.iterdir() if path.is_dir() and path.name != "__pycache__"}
    assert folders - {"testing"} == set(ALLOWED)
