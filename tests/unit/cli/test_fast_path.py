"""The command's fast path: which command lines take it, what it imports, when it gives way."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from support.fake_daemon_socket import FakeDaemonSocket, http
from support.run_program import run_program
from wakeful import __main__ as entry

BODY = b'{"schema":1,"id":"claude-x"}'
# Everything the fast path may load beyond what `python -m` of an empty module loads.
ALLOWED = {
    "_socket",
    "wakeful",
    "wakeful.client",
    "wakeful.config",
    "wakeful.client.wire",
    "wakeful.config.paths",
}


def imports_of(*argv: str, environ: dict[str, str]) -> tuple[set[str], subprocess.CompletedProcess[str]]:
    done = run_program([sys.executable, "-X", "importtime", *argv], env=environ, timeout=30)
    lines = [line for line in done.stderr.splitlines() if line.startswith("import time:")]
    return {line.rpartition("|")[2].strip() for line in lines}, done


@pytest.fixture
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    # Its name is short: a socket's path has 107 bytes at most.
    return tmp_path_factory.mktemp("w")


def test_the_fast_path_imports_almost_nothing(home: Path) -> None:
    """Asking for a session's health loads nothing beyond the allow-list, no typing, no re, no click."""
    environ = {**os.environ, "WAKEFUL_HOME": str(home)}
    (home / "empty.py").touch()
    baseline, _ = imports_of("-m", "empty", environ={**environ, "PYTHONPATH": str(home)})
    with FakeDaemonSocket(home / "wakeful.sock", {"/api/sessions/x/health": http(BODY, exit_code=5)}):
        loaded, done = imports_of("-m", "wakeful", "session", "health", "x", "--json", environ=environ)
    assert (done.returncode, done.stdout) == (5, BODY.decode() + "\n")
    assert loaded - baseline <= ALLOWED


@pytest.mark.parametrize(
    ("words", "target"),
    [
        ("session health claude-1 --json", "/api/sessions/claude-1/health"),
        ("session health --json claude-1", "/api/sessions/claude-1/health"),
        ("session status claude-1 -o json", "/api/sessions/claude-1/status"),
        ("session inspect -o json a.b:c@d+e_f", "/api/sessions/a.b:c@d+e_f/inspect"),
        ("session why claude-1 --json", "/api/sessions/claude-1/why"),
        ("session list --json", "/api/sessions?include_health=true"),
        ("ls -o json", "/api/sessions?include_health=true"),
        ("status --json", "/api/status"),
    ],
)
def test_simple_questions_are_recognised(words: str, target: str) -> None:
    """The questions scripts ask are known in every order of their flags."""
    assert entry._target(words.split()) == target


@pytest.mark.parametrize(
    "words",
    [
        [],
        ["session", "health", "x"],
        ["session", "health", "--json"],
        ["session", "health", "", "--json"],
        ["session", "health", "x", "y", "--json"],
        ["session", "health", "x", "--json", "--json"],
        ["session", "--json", "health", "x"],
        ["--json", "session", "health", "x"],
        ["session", "wait", "x", "--json"],
        ["session", "list", "--all", "--json"],
        ["session", "health", "x", "-o", "text"],
        ["session", "health", "../x", "--json"],
        ["session", "health", "a..b", "--json"],
        ["session", "health", "-x", "--json"],
        ["session", "health", ".x", "--json"],
        ["session", "health", "a/b", "--json"],
        ["session", "health", "a\nb", "--json"],
        ["session", "health", "a b", "--json"],
        ["session", "health", "a?b", "--json"],
        ["session", "health", "é", "--json"],
        ["session", "health", "x" * 201, "--json"],
    ],
)
def test_everything_else_goes_to_the_full_command(words: list[str]) -> None:
    """Odd ids and unusual options are never sent to the socket by the fast path."""
    assert entry._target(words) is None


@pytest.mark.parametrize(
    "answer",
    [
        http(b'{"detail":"no"}', status=404, exit_code=2),
        http(BODY, exit_code="banana"),
        http(BODY)[:-1],
        http(BODY) + b"more",
        b"HTTP/1.1 200 OK\r\nx-wakeful-exit: 0\r\n\r\n" + BODY,
        b"SSH-2.0-OpenSSH\r\n",
        b"\r\n",
    ],
)
def test_an_answer_that_is_not_good_is_not_printed(
    answer: bytes,
    home: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfdbinary: pytest.CaptureFixture[bytes],
) -> None:
    """Errors, cut-off answers and rubbish give way to the full command, with nothing printed before it."""
    monkeypatch.setenv("WAKEFUL_HOME", str(home))
    with FakeDaemonSocket(home / "wakeful.sock", {"/": answer}):
        assert entry._answer("/api/status") is None
    assert capfdbinary.readouterr().out == b""


def test_without_a_socket_or_a_home_it_gives_way(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither a missing daemon nor a missing HOME is the fast path's to explain."""
    monkeypatch.setenv("WAKEFUL_HOME", str(home))
    assert entry._answer("/api/status") is None
    for variable in ("WAKEFUL_HOME", "XDG_STATE_HOME", "HOME"):
        monkeypatch.delenv(variable, raising=False)
    assert entry._answer("/api/status") is None
