"""Claims about what the command says when it refuses, and about what reading commands leave behind. The real command."""

import json
import os
import signal
import socket
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path

import pytest

from support.daemon_process import RunningDaemon
from support.fake_daemon_socket import FakeDaemonSocket, http
from support.run_program import run_program


def environ_of(home: Path) -> dict[str, str]:
    return {"HOME": str(home), "WAKEFUL_HOME": str(home / "state"), "PATH": os.environ["PATH"]}


def typed(home: Path, *words: str) -> subprocess.CompletedProcess[str]:
    argv = [sys.executable, "-m", "wakeful", *words]
    return run_program(argv, env=environ_of(home), cwd=home)


@pytest.mark.parametrize(
    ("words", "exit_code", "code"),
    [
        (["session", "health", "nobody", "--json"], 2, "session-not-found"),
        (["session", "health", "/etc/passwd", "-o", "json"], 2, "bad-session-id"),
        (["session", "send", "x", "hello", "--json"], 3, "daemon-not-running"),
        (["report", "--since", "tomorrow", "--json"], 2, "bad-moment"),
        (["report", "--line", "--json"], 2, "usage"),
        (["ls", "--json", "--nonsense"], 2, "usage"),
        (["nonsense", "--json"], 2, "usage"),
        (["nonsense", "-o", "json"], 2, "usage"),
        (["--json"], 2, "usage"),
        (["session", "--json"], 2, "usage"),
        (["session", "nonsense", "--json"], 2, "usage"),
        (["ls", "--json=yes"], 2, "usage"),
        (["agent", "start", "--json"], 2, "usage"),
        (["agent", "start", "--json", "--", "-x"], 2, "bad-agent-name"),
        (["checkpoint", "show", "9", "--json"], 2, "checkpoint-not-found"),
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


def test_a_remark_is_part_of_the_error(tmp_path: Path) -> None:
    """What would be a line of its own beside the error is in its object."""
    (tmp_path / "wakeful.toml").write_text("[daemon]\nport = 4748\n")
    told = typed(tmp_path, "session", "health", "nobody", "--json")
    assert "not trusted" in json.loads(told.stderr)["notes"][0]
    well = typed(tmp_path, "ls", "--json")
    assert (json.loads(well.stdout)["sessions"], well.stderr.startswith("wakeful: ignored ")) == ([], True)


def test_doctor_goes_on_where_the_daemon_hangs_up(tmp_path: Path) -> None:
    """A daemon that ends while it is asked is one finding among the others, not the end of them."""
    (tmp_path / "state").mkdir(mode=0o700)

    def hang_up(listening: socket.socket) -> None:
        with suppress(OSError):
            while True:
                listening.accept()[0].close()

    with socket.socket(socket.AF_UNIX) as dying:
        dying.bind(str(tmp_path / "state" / "wakeful.sock"))
        dying.listen()
        threading.Thread(target=hang_up, args=(dying,), daemon=True).start()
        told = typed(tmp_path, "doctor", "--json")
        dying.shutdown(socket.SHUT_RDWR)
    grades = {each["name"]: each["grade"] for each in json.loads(told.stdout)["checks"]}
    assert (told.returncode, grades["daemon"], grades["tools"]) == (1, "fail", "ok")


def test_doctor_sees_a_file_that_is_not_trusted(tmp_path: Path) -> None:
    """It exists and does not count: doctor says so and what to do, instead of "no file"."""
    (tmp_path / "wakeful.toml").write_text("[daemon]\nport = 4748\n")
    checks = json.loads(typed(tmp_path, "doctor", "--json").stdout)["checks"]
    (found,) = [each for each in checks if each["name"] == "configuration"]
    ignored = f"ignored {tmp_path / 'wakeful.toml'}: not trusted"
    assert (found["grade"], found["said"], "config trust" in found["todo"]) == ("warn", ignored, True)


@pytest.mark.parametrize(
    ("words", "code"),
    [(["status", "--json"], "interrupted"), (["incidents", "--json"], "interrupted"), (["incidents"], None)],
)
def test_ctrl_c_is_told_in_json(tmp_path: Path, words: list[str], code: str | None) -> None:
    """Interrupted while it waits for an answer: exit 130, and one object that says so; without `--json` not a word."""
    (tmp_path / "state").mkdir(mode=0o700)
    with socket.socket(socket.AF_UNIX) as silent:
        silent.bind(str(tmp_path / "state" / "wakeful.sock"))
        silent.listen()
        silent.settimeout(30)
        argv = [sys.executable, "-m", "wakeful", *words]
        pipe = subprocess.PIPE
        asking = subprocess.Popen(argv, env=environ_of(tmp_path), stdout=pipe, stderr=pipe, text=True)
        with silent.accept()[0]:
            asking.send_signal(signal.SIGINT)
            out, err = asking.communicate(timeout=30)
    assert (asking.returncode, out) == (130, "")
    assert (json.loads(err)["code"] if err else None) == code


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
        ["agent", "heartbeat", "status", "nobody"],
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


def test_an_error_in_json_has_one_code_with_and_without_a_daemon(daemon: RunningDaemon) -> None:
    """The daemon's refusal keeps its own code: a program need not know who refused."""
    alone = json.loads(daemon.run("session", "health", "nobody", "--json").err)
    daemon.up()
    refused = json.loads(daemon.run("session", "health", "nobody", "--json").err)
    assert refused == alone
    assert refused["code"] == "session-not-found"


# The whole id of a client's session, which is not looked up first.
_ID = "claude-3f2a91bc-1111-4222-8333-444455556666"


@pytest.mark.parametrize(
    ("words", "command"),
    [
        (["session", "send", _ID, "hello"], f"wakeful session why {_ID}"),
        (["agent", "start", "fox"], "wakeful agent list"),
        (["pause"], "wakeful status"),
    ],
)
def test_a_daemon_that_ends_in_an_order_is_followed_by_the_command_that_shows_it(
    tmp_path_factory: pytest.TempPathFactory, words: list[str], command: str
) -> None:
    """The next daemon shows the outcome of the request, where the message says."""
    home = tmp_path_factory.mktemp("w")
    (home / "state").mkdir(mode=0o700)
    with FakeDaemonSocket(
        home / "state" / "wakeful.sock", {"/api": b"HTTP/1.1 200 OK\r\ncontent-length: 99\r\n\r\n{"}
    ):
        done = typed(home, *words)
    assert (done.returncode, f"`{command}`" in done.stderr) == (3, True), done.stderr


@pytest.mark.parametrize(
    "words", [["stop", "docs"], ["resume", "docs"], ["send", "docs", "go on"], ["why", "docs"]]
)
def test_a_daemon_that_ends_while_it_looks_for_a_name_is_no_missing_session(
    tmp_path_factory: pytest.TempPathFactory, words: list[str]
) -> None:
    """Between two requests of one command: whether there is such a session is unknown."""
    home = tmp_path_factory.mktemp("w")
    (home / "state").mkdir(mode=0o700)
    unknown = b'{"code":"session-not-found","detail":"No session \'docs\'.","exit_code":2}'
    script = {
        "/api/agents": http(b'{"agents":[],"found":[]}'),
        "/api/sessions": http(unknown, status=404, exit_code=2),
        "/api/find": b"HTTP/1.1 200 OK\r\ncontent-length: 99\r\n\r\n{",
    }
    with FakeDaemonSocket(home / "state" / "wakeful.sock", script):
        done = typed(home, *words)
    assert (done.returncode, "No session" in done.stderr) == (3, False), done.stderr
    assert "it ended before it had answered" in done.stderr
