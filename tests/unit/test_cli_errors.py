"""Claims about what the command says when it refuses, and about what reading commands leave behind. The real command."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest


def typed(home: Path, *words: str) -> subprocess.CompletedProcess[str]:
    environ = {"HOME": str(home), "WAKEFUL_HOME": str(home / "state"), "PATH": os.environ["PATH"]}
    argv = [sys.executable, "-m", "wakeful", *words]
    return subprocess.run(
        argv, env=environ, cwd=home, capture_output=True, text=True, timeout=60, check=False
    )


@pytest.mark.parametrize(
    ("words", "exit_code", "code"),
    [
        (["session", "health", "nobody", "--json"], 2, "session-not-found"),
        (["session", "health", "/etc/passwd", "-o", "json"], 2, "bad-session-id"),
        (["session", "send", "x", "hello", "--json"], 3, "daemon-not-running"),
        (["report", "--since", "yesterday", "--json"], 2, "bad-moment"),
        (["report", "--line", "--json"], 2, "usage"),
        (["ls", "--json", "--nonsense"], 2, "usage"),
        (["nonsense", "--json"], 2, "usage"),
        (["backlog", "list", "--root", "/nowhere", "--json"], 2, "folder-missing"),
    ],
)
def test_whoever_asks_for_json_gets_errors_in_json(
    tmp_path: Path, words: list[str], exit_code: int, code: str
) -> None:
    """One object on standard error, nothing on standard output, the exit code as without `--json`."""
    told = typed(tmp_path, *words)
    assert (told.stdout, told.returncode) == ("", exit_code), told.stderr
    problem = json.loads(told.stderr)
    assert (problem["code"], problem["exit_code"], bool(problem["detail"])) == (code, exit_code, True)


def test_what_belongs_to_another_program_is_no_wish_for_json(tmp_path: Path) -> None:
    """`--json` behind `--` is the agent's: the error stays a line."""
    told = typed(tmp_path, "run", "--headless", "--", "claude", "--json")
    assert told.stderr.startswith("wakeful: ")


@pytest.mark.parametrize(
    "words",
    [
        ["backlog", "list"],
        ["ls"],
        ["session", "ls", "--json"],
        ["status"],
        ["report"],
        ["events"],
        ["incidents"],
        ["services"],
        ["doctor"],
        ["checkpoint", "list"],
        ["work", "list"],
        ["config", "show"],
        ["heartbeat", "status"],
        ["agent", "list"],
    ],
    ids=" ".join,
)
def test_reading_creates_nothing(tmp_path: Path, words: list[str]) -> None:
    """No database, no folder, no file, whatever the answer is."""
    typed(tmp_path, *words)
    assert [str(each.relative_to(tmp_path)) for each in tmp_path.rglob("*")] == []


def test_session_ls_is_session_list(tmp_path: Path) -> None:
    """The shorter word of `wakeful ls` is understood below `session` as well."""
    assert (
        typed(tmp_path, "session", "ls", "--json").stdout
        == typed(tmp_path, "session", "list", "--json").stdout
    )
