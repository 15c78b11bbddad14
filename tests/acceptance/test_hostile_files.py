"""The real command where the world is in its way: full disks, closed descriptors, read-only homes, races."""

import errno
import json
import os
import shutil
import socket
import sqlite3
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from support import claude_transcripts
from support.daemon_process import CommandResult, RunningDaemon
from support.run_program import run_program

CONVERSATION = "11111111-2222-4333-8444-555555555555"
QUESTIONS = (
    ["ls", "--json"],
    ["ls"],
    ["status", "--json"],
    ["status"],
    ["session", "list", "--json"],
    ["session", "health", CONVERSATION, "--json"],
    ["doctor"],
    ["--help"],
    ["config", "show", "--json"],
)


def shell(daemon: RunningDaemon, words: list[str], redirection: str) -> CommandResult:
    """Type a command with its output sent elsewhere."""
    line = f'exec "$0" "$@" {redirection}'
    done = subprocess.run(
        ["/bin/sh", "-c", line, *daemon.argv(*words)],
        env=daemon.environ,
        cwd=daemon.home,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    return CommandResult(done)


@pytest.fixture
def watching(daemon: RunningDaemon) -> RunningDaemon:
    """One that answers, and knows the session whose health is asked for."""
    claude_transcripts.write(
        daemon.home / ".claude", CONVERSATION, claude_transcripts.prompt(time.time(), CONVERSATION)
    )
    daemon.up()
    return daemon


@pytest.mark.parametrize(
    ("redirection", "reason"), [(">/dev/full", os.strerror(errno.ENOSPC)), (">&-", None)]
)
def test_an_answer_that_cannot_be_written_is_one_line(
    watching: RunningDaemon, redirection: str, reason: str | None
) -> None:
    """A full disk or a closed output: exit 3 and one line that names standard output, on every path."""
    for words in QUESTIONS:
        done = shell(watching, words, redirection)
        assert done.exit_code == 3, (words, done.err)
        (line,) = done.err.splitlines()
        said = json.loads(line)["detail"] if "--json" in words else line.removeprefix("wakeful: ")
        assert said.startswith("standard output: "), words
        assert reason is None or said.endswith(reason)
    both = shell(watching, ["ls", "--json"], f"{redirection} 2>&-")
    assert (both.exit_code, both.err) == (3, "")


def test_a_closed_error_output_is_no_reason_to_fail(watching: RunningDaemon) -> None:
    """A caller that closes stderr gets the answer too."""
    for words in QUESTIONS:
        done = shell(watching, words, "2>&-")
        assert done.exit_code in {0, 5}, words
        assert done.out, words


@pytest.fixture
def read_only(tmp_path: Path) -> list[str]:
    """The words before a command that give it a state folder on a file system that is not writable."""
    mounted = (
        f'mount -t tmpfs none "{tmp_path}" && mkdir -m 700 "{tmp_path}/state" '
        f'&& mount -o remount,ro "{tmp_path}" && exec "$0" "$@"'
    )
    words = ["unshare", "--map-root-user", "--mount", "/bin/sh", "-c", mounted]
    if shutil.which("unshare") is None or subprocess.run([*words, "true"], check=False).returncode:
        pytest.skip("no mounts of one's own here")
    return words


def test_a_read_only_file_system_is_named_with_its_folder(tmp_path: Path, read_only: list[str]) -> None:
    """`up` says which folder and what to do; `doctor` does not send anybody to chmod."""
    environ = {"HOME": "/", "WAKEFUL_HOME": f"{tmp_path}/state", "PATH": os.environ["PATH"]}
    for words in (["up"], ["up", "--detach"], ["doctor"]):
        done = run_program([*read_only, sys.executable, "-P", "-m", "wakeful", *words], env=environ)
        if words == ["doctor"]:
            assert f"{tmp_path}/state is on a read-only file system" in done.stdout
            assert "chmod" not in done.stdout
        else:
            assert (done.returncode, done.stdout) == (3, ""), words
            (line,) = done.stderr.splitlines()
            assert f"{tmp_path}/state" in line
            assert "Read-only file system. Set WAKEFUL_HOME to a writable folder" in line


def test_a_home_that_does_not_exist_is_not_made(daemon: RunningDaemon) -> None:
    """HOME names no folder: exit 2 and one line, nothing is created; what is chosen outright is."""
    gone = {"HOME": f"{daemon.home}/gone", "WAKEFUL_HOME": ""}
    for words in (["up"], ["up", "--detach"], ["config", "init"]):
        done = daemon.run(*words, environ=gone)
        assert (done.exit_code, done.out) == (2, ""), words
        (line,) = done.err.splitlines()
        assert "this folder does not exist" in line
    assert not (daemon.home / "gone").exists()
    daemon.environ["HOME"] = gone["HOME"]
    daemon.up()


def test_a_failed_start_leaves_no_socket(daemon: RunningDaemon) -> None:
    """Whatever it fails at after the socket was opened, the socket is gone afterwards."""
    state = daemon.socket.parent
    state.mkdir(mode=0o700)
    (state / "token").touch(mode=0o600)
    failed = daemon.run("up", "--port", "0")
    assert (failed.exit_code, "does not contain a Wakeful token" in failed.err) == (2, True)
    assert not daemon.socket.exists()
    (state / "token").unlink()
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        for detach in ([], ["--detach"]):
            busy = daemon.run("up", *detach, "--port", str(port))
            assert (busy.exit_code, busy.out) == (3, "")
            assert busy.err == f"wakeful: Port {port} of 127.0.0.1 is in use by another program.\n"
            assert not daemon.socket.exists()


def test_of_five_starts_each_says_its_line(daemon: RunningDaemon) -> None:
    """One daemon; the winner prints its greeting, every other one that Wakeful runs already."""
    with ThreadPoolExecutor(5) as pool:
        starts = list(pool.map(lambda _: daemon.run("up", "--detach", "--no-tcp"), range(5)))
    try:
        won = [start for start in starts if start.exit_code == 0]
        lost = [start for start in starts if start.exit_code != 0]
        assert (len(won), len(lost)) == (1, 4)
        assert won[0].out.startswith("mode: managed-only"), won[0].err
        assert [("is already running" in each.err, each.exit_code) for each in lost] == [(True, 2)] * 4
        logs = daemon.socket.parent / "logs"
        assert {each.name for each in logs.iterdir()} - {"access.log"} == {"up.log"}
    finally:
        assert daemon.run("down").exit_code == 0


def checks_of(daemon: RunningDaemon) -> dict[str, Any]:
    return {check["name"]: check for check in daemon.run("doctor", "--json").json["checks"]}


def test_doctor_says_what_up_would_say(daemon: RunningDaemon) -> None:
    """A newer store is no fine store, and a link in the token's place is removed, not followed."""
    daemon.up()
    assert daemon.end() == 0
    state = daemon.socket.parent
    assert checks_of(daemon)["database"]["grade"] == "ok"
    with sqlite3.connect(state / "wakeful.db") as store:
        store.execute("PRAGMA user_version = 99")
    store.close()
    (state / "token").rename(state / "elsewhere")
    (state / "token").symlink_to("elsewhere")
    (state / "elsewhere").chmod(0o644)
    checks = checks_of(daemon)
    refused = daemon.run("up", "--port", "0")
    assert (refused.exit_code, checks["database"]["grade"]) == (2, "fail")
    assert refused.err == f"wakeful: {checks['database']['said']}\n"
    assert (checks["token"]["grade"], checks["token"]["todo"].startswith(f"rm {state}/token;")) == (
        "fail",
        True,
    )
    assert "symbolic link" in checks["token"]["said"]


def test_without_a_daemon_nobody_pretends_to_be_one(daemon: RunningDaemon) -> None:
    """The record keeps its keys, there is no pid, and one line says that there is no daemon."""
    said = daemon.run("status", "--json").json["daemon"]
    assert (said["pid"], said["started_at"], said["listening"]) == (None, None, [])
    shown = daemon.run("status")
    assert (shown.out + shown.err).count("no daemon") == 1


def test_every_request_is_in_the_access_log(daemon: RunningDaemon) -> None:
    """Who asked for what is written down, for the owner alone, without tokens."""
    daemon.up()
    token = (daemon.socket.parent / "token").read_text().strip()
    port = daemon.run("status", "--json").json["daemon"]["listening"][1].rpartition(":")[2]
    with socket.create_connection(("127.0.0.1", int(port)), 10) as stranger:
        stranger.sendall(
            f"GET /api/status/{token}?token={token} HTTP/1.0\r\nHost: 127.0.0.1:{port}\r\n\r\n".encode()
        )
        assert b" 401 " in stranger.recv(65536)
    assert daemon.end() == 0
    log = daemon.socket.parent / "logs/access.log"
    text = log.read_text()
    assert (log.stat().st_mode & 0o777, token in text) == (0o600, False)
    assert " GET /api/status/[token] 401 tcp " in text
    assert " GET /api/status 200 socket " in text


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["up", "--port", "abc"], "'abc' is not a whole number. Try"),
        (["demo", "--seconds", "abc"], "'abc' is not a number. Try"),
        (["session", "wait", "x"], "running. Try"),
        (["session", "health", "a..b"], "No session 'a..b'. List them with"),
        (["session", "health", "x" * 5000], f"Invalid session id '{'x' * 40}…'"),
    ],
)
def test_mistakes_are_told_in_whole_sentences(daemon: RunningDaemon, words: list[str], said: str) -> None:
    """What is wrong, as a person would say it, and what may be."""
    done = daemon.run(*words)
    assert done.exit_code == 2
    (line,) = done.err.splitlines()
    assert said in line
