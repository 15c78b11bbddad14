"""No program that Wakeful starts gets a secret of Wakeful's: one function builds every environment, and all use it."""

import ast
from pathlib import Path

import pytest

from wakeful.config import KEYS
from wakeful.domain.child_environ import child_environ, removed_names

SOURCE = Path(__file__).parents[2] / "src" / "wakeful"
STARTS = {"Popen", "run", "call", "check_call", "check_output", "create_subprocess_exec"}
REPLACES = {"execv", "execvp", "execl", "execlp", "posix_spawn", "posix_spawnp", "system", "popen"}
# Wakeful's own programs, the daemon and the gateway: they read their settings in their environment.
OWN = {"adapters/system/kept_child.py", "interfaces/cli/detaching.py", "interfaces/cli/demo_stage.py"}
NAMED = [name for name in KEYS if KEYS[name].is_secret]


@pytest.mark.parametrize("name", [*NAMED, "store.url", "gateway.allow"])
def test_no_setting_is_passed_on(name: str) -> None:
    """Every secret of the configuration, and every other setting, is left out; what is not ours stays."""
    variable = f"WAKEFUL_{name.replace('.', '__').upper()}"
    given = {variable: "s3cret", "PATH": "/bin", "WAKEFUL_HOME": "/h", "GH_TOKEN": "theirs"}
    assert child_environ(given) == {"PATH": "/bin", "WAKEFUL_HOME": "/h", "GH_TOKEN": "theirs"}
    assert removed_names(given) == [variable]


def test_a_mistyped_secret_is_not_passed_on() -> None:
    """One underscore is forgotten easily, and the value is no less secret."""
    assert child_environ({"WAKEFUL_GATEWAY_TOKEN": "s3cret", "WAKEFUL_JOURNAL_KEY": "k"}) == {
        "WAKEFUL_JOURNAL_KEY": "k"
    }


def test_every_start_of_a_program_uses_it() -> None:
    """Whoever starts a program says `env=child_environ(…)`; only Wakeful's own two programs are started without."""
    wrong = [
        f"{path.relative_to(SOURCE)}:{call.lineno}"
        for path in SOURCE.rglob("*.py")
        if path.relative_to(SOURCE).parts[0] != "testing"
        for call in _starts(path)
        if not _is_clean(call)
    ]
    assert {each for each in wrong if not each.startswith(tuple(OWN))} == set()


def _starts(path: Path) -> list[ast.Call]:
    calls = [each for each in ast.walk(ast.parse(path.read_text())) if isinstance(each, ast.Call)]
    return [call for call in calls if _starts_a_program(call.func)]


def _starts_a_program(called: ast.expr) -> bool:
    if not isinstance(called, ast.Attribute) or not isinstance(called.value, ast.Name):
        return False
    module, name = called.value.id, called.attr
    return (
        module in ("subprocess", "asyncio") and name in STARTS and (module, name) != ("asyncio", "run")
    ) or (module == "os" and (name in REPLACES or name.startswith("exec")))


def _is_clean(call: ast.Call) -> bool:
    given = [each.value for each in call.keywords if each.arg == "env"] or call.args[2:3]
    return any(
        isinstance(each, ast.Call) and isinstance(each.func, ast.Name) and each.func.id == "child_environ"
        for each in given
    )
