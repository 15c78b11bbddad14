"""The real command as a process of its own, in an empty home: what it says, how it ends, what it leaves behind."""

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from support.fake_daemon_socket import SILENCE, FakeDaemonSocket, RecordedRequest, http
from support.real_clients import wait_for
from support.run_program import run_program
from wakeful import __version__
from wakeful.cli import app
from wakeful.config.paths import StatePaths
from wakeful.core.errors import BadSessionId

COMMAND = [sys.executable, "-P", "-m", "wakeful"]
NO_DAEMON = "wakeful: no daemon: checked once, nothing is watched\n"
RECORD = (
    b'{"schema":1,"id":"claude-1","project":"p","agent":null,"provider":"claude","host":"h","source":"s",'
    b'"conversation_id":"1","attempt":0,"managed":false,"state":"waiting","health":"healthy",'
    b'"active_prompt":true,"attachable":false,"eligible_for_wake":false,"ineligibility_reason":null,'
    b'"session_alive":true,"attention":"person","findings":[],"expected_waits":[{"kind":"person",'
    b'"since":"2026-01-01T00:00:00.000Z","until":null,"evidence":"e","untrusted":"x\\u001b[2Jy"}],'
    b'"alive_to":"turn","broken_at":null,"actions":[],"last_activity_at":null,"last_presence_at":null,'
    b'"last_error":null,"started_at":null,"judged_at":"2026-01-01T00:00:00.000Z","valid_until":null,'
    b'"updated_at":"2026-01-01T00:00:00.000Z","cwd":null,"pid":null,"rules":"1.1"}'
)
LIST = b'{"sessions":[' + RECORD + b'],"older":2000,"next_cursor":null}'
OVERVIEW = (
    b'{"schema":1,"mode":"mine","paused":false,"daemon":{"mode":"mine","version":"9","host":"h","pid":7,'
    b'"started_at":"","listening":["/s"],"eyes":[{"name":"codex","slow":"no watches left"}],"notes":[]},'
    b'"sessions":{}}'
)


@dataclass
class Home:
    """An empty home with its own state folder, and the command in it."""

    folder: Path
    environ: dict[str, str] = field(default_factory=dict)

    @property
    def places(self) -> StatePaths:
        return StatePaths(f"{self.folder}/state")

    def run(self, *words: str, **environ: str | None) -> subprocess.CompletedProcess[str]:
        merged = {**self.environ, **environ}
        return run_program(
            [*COMMAND, *words],
            env={name: value for name, value in merged.items() if value is not None},
            cwd=self.folder,
        )

    def door(self, script: dict[str, bytes]) -> FakeDaemonSocket:
        Path(self.places.state_dir).mkdir(mode=0o700)
        return FakeDaemonSocket(Path(self.places.socket), script)


@pytest.fixture
def home() -> Iterator[Home]:
    # Short: a socket's path has 107 bytes at most.
    with tempfile.TemporaryDirectory(prefix="wk") as name:
        environ = {"HOME": name, "WAKEFUL_HOME": f"{name}/state", "PATH": os.environ["PATH"]}
        yield Home(Path(name), environ)


def listing(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


def test_help_is_grouped_and_every_command_has_an_example(home: Home) -> None:
    """--help shows See, Act and Daemon; each command's help ends with one example."""
    text = home.run("--help").stdout
    assert [section in text for section in ("\nSee ", " Act\n", "\nDaemon ")] == [True] * 3
    for name in app.COMMANDS:
        done = home.run(name, "--help")
        assert (done.returncode, done.stdout.count("Example: ")) == (0, 1), name


def test_the_version_is_said(home: Home) -> None:
    """--version names program and version."""
    assert home.run("--version").stdout == f"wakeful {__version__}\n"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["sesion"], "Did you mean `wakeful session`?"),
        (["session", "helth"], "Did you mean `wakeful session health`?"),
        (["config", "chek"], "Did you mean `wakeful config check`?"),
        (["zzzzzz\x1b[2J"], "No such command"),
        (["ls", "--healt", "dead"], "--health"),
        (["ls", "--health", "fine"], "healthy"),
        (["ls", "-o", "xml"], "json"),
        (["session", "health"], "Missing argument 'NAME'"),
        (["session", "--json", "list"], "--json"),
        (["session", "wait", "x"], "--until"),
        (["session", "wait", "x", "--until", "idle", "--timeout", "soon"], "use 30s, 10m, 2h, 1d or 2w"),
        (["up", "--port", "99999"], "65535"),
    ],
)
def test_a_mistake_is_one_line_that_says_what_to_do(home: Home, words: list[str], said: str) -> None:
    """The operator's mistakes exit 2 with one printable line and leave nothing behind."""
    done = home.run(*words)
    assert (done.returncode, done.stdout) == (2, "")
    (line,) = done.stderr.splitlines()
    assert said in line
    assert line.isprintable()
    assert listing(home.folder) == []


@pytest.mark.parametrize(
    ("view", "session_id"),
    [
        ("health", "a/b"),
        ("health", "../../etc/passwd"),
        ("health", ".."),
        ("status", "a\nb"),
        ("status", "x" * 5000),
        ("status", ""),
        ("inspect", " "),
        ("inspect", "é"),
        ("inspect", "a?b=c"),
        ("wait", "a%2fb"),
        ("wait", "\x1b[2J"),
    ],
)
def test_an_id_that_is_none_is_never_part_of_a_path(home: Home, view: str, session_id: str) -> None:
    """Paths, newlines, 5,000 characters: exit 2 and one short line. The daemon is only asked what is called so."""
    until = ["--until", "idle"] if view == "wait" else []
    none = b'{"match":"none","total":0,"sessions":[]}'
    with home.door({"/api/find": http(none), "/": http(b"{}")}) as door:
        done = home.run("session", view, *until, "--json", "--", session_id)
    assert (done.returncode, done.stdout) == (2, "")
    assert all(
        each.target.startswith("/api/find?name=") and "/" not in each.target[10:] for each in door.asked
    )
    (line,) = done.stderr.splitlines()
    assert len(line) < 250
    assert line.isprintable()
    assert json.loads(line)["code"] == "bad-session-id"


def test_an_id_with_a_nul_is_refused_too() -> None:
    """No shell can pass a NUL, but callers of the library can."""
    with pytest.raises(BadSessionId):
        app.root.main(["session", "health", "a\0b"], standalone_mode=False)


def test_without_a_daemon_reading_commands_look_once(home: Home) -> None:
    """They answer from one look, say so on stderr, and leave neither file nor folder."""
    done = home.run("session", "list", "--json")
    assert (done.returncode, done.stderr) == (0, NO_DAEMON)
    assert json.loads(done.stdout) == {"sessions": [], "older": 0, "next_cursor": None, "paused": None}
    assert home.run("ls").stdout.startswith("No agent session")
    status = home.run("status")
    assert (status.returncode, status.stderr, status.stdout.split()[:2]) == (
        0,
        NO_DAEMON,
        ["mode", "managed-only"],
    )
    missing = home.run("session", "health", "claude-1", "--json")
    assert (missing.returncode, missing.stdout) == (2, "")
    assert "No session 'claude-1'" in missing.stderr
    assert listing(home.folder) == []


def test_without_a_daemon_a_session_on_disk_is_seen(home: Home) -> None:
    """The one look finds a transcript and gives the record the daemon would give."""
    uuid = "11111111-2222-4333-8444-555555555555"
    folder = home.folder / ".claude/projects/-p"
    folder.mkdir(parents=True)
    line = {
        "type": "user",
        "uuid": uuid,
        "sessionId": uuid,
        "timestamp": "2026-01-01T00:00:00.000Z",
        "cwd": "/p",
        "version": "2.1.197",
        "message": {"role": "user", "content": "hello"},
    }
    (folder / f"{uuid}.jsonl").write_text(json.dumps(line) + "\n")
    before = listing(home.folder)
    done = home.run("session", "status", "1111", "-o", "json")
    record = json.loads(done.stdout)
    assert (done.returncode, record["id"], record["health"]) == (5, f"claude-{uuid}", "unknown")
    assert listing(home.folder) == before


@pytest.mark.parametrize("words", [["down"], ["open"], ["session", "wait", "x", "--until", "idle"]])
def test_what_needs_a_daemon_says_how_to_start_one(home: Home, words: list[str]) -> None:
    """Exit 3 and the command to run; a socket without a listener is no daemon."""
    done = home.run(*words)
    assert (done.returncode, done.stdout) == (3, "")
    assert "wakeful up" in done.stderr
    Path(home.places.state_dir).mkdir(mode=0o700)
    door = FakeDaemonSocket(Path(home.places.socket), {})
    door._listener.close()
    assert home.run(*words).returncode == 3


def test_without_a_home_it_says_what_to_set(home: Home) -> None:
    """HOME missing: exit 2 and one line; with WAKEFUL_HOME alone everything that reads works."""
    for words in (["ls"], ["up"], ["doctor"], ["session", "health", "x", "--json"], ["config", "init"]):
        done = home.run(*words, HOME=None, WAKEFUL_HOME=None)
        assert (done.returncode, done.stdout) == (2, ""), words
        assert "HOME is not set" in done.stderr.splitlines()[0]
        assert len(done.stderr.splitlines()) == 1
    assert home.run("config", "show", HOME=None).returncode == 0
    relative = home.run("ls", WAKEFUL_HOME="here")
    assert (relative.returncode, "WAKEFUL_HOME" in relative.stderr) == (2, True)


# Even root cannot create a folder there.
READ_ONLY_HOME = "/sys"


def test_a_read_only_home_is_for_reading(home: Home) -> None:
    """Reading works without writing; starting and writing fail with one line and the world's exit code."""
    read_only = {"HOME": READ_ONLY_HOME, "WAKEFUL_HOME": None}
    assert home.run("ls", **read_only).returncode == 0
    for words in (["up"], ["up", "--detach"], ["config", "init"]):
        done = home.run(*words, **read_only)
        assert (done.returncode, done.stdout) == (3, ""), words
        (line,) = done.stderr.splitlines()
        assert READ_ONLY_HOME in line


def test_a_hostile_configuration_of_the_working_directory_sets_nothing(home: Home) -> None:
    """A cloned wakeful.toml is ignored with one loud line, whatever is in it, until it is trusted."""
    hostile = home.folder / "wakeful.toml"
    hostile.write_text('[daemon]\nmode = "all"\nport = 1\n')
    shown = home.run("config", "show", "--json")
    assert json.loads(shown.stdout)["config"]["daemon"]["mode"] == "mine"
    assert shown.stderr.count("not trusted") == 1
    assert "wakeful config trust" in shown.stderr
    hostile.write_bytes(b"[" * 100_000)
    assert home.run("ls").returncode == 0
    hostile.write_text('[daemon]\nmode = "all"\n')
    trusted = home.run("config", "trust")
    assert (trusted.returncode, "it sets daemon.mode" in trusted.stdout) == (0, True)
    shown = home.run("config", "show")
    assert 'daemon.mode = "all"' in shown.stdout
    assert f"# {hostile}:2" in shown.stdout
    assert shown.stderr == ""


def test_configuration_errors_name_file_line_and_key(home: Home) -> None:
    """A wrong configuration is refused by whatever needs it, every problem on a line of its own."""
    file = home.folder / "own.toml"
    file.write_text('[daemon]\nport = "x"\nmod = "all"\n[detect]\nsilence_seconds = -1\n')
    expected = [f"{file}:2: daemon.port", f"{file}:3: daemon.mod", f"{file}:5: detect.silence_seconds"]
    checked = home.run("config", "check", "--config", str(file))
    assert checked.returncode == 1
    problems = checked.stdout.splitlines()
    assert all(line.startswith(start) for line, start in zip(problems, expected, strict=True))
    told = home.run("config", "check", "--config", str(file), "--json")
    assert (told.returncode, json.loads(told.stdout)) == (1, {"ok": False, "problems": problems})
    for words, environ in ((["up", "--config", str(file)], {}), (["ls"], {"WAKEFUL_CONFIG": str(file)})):
        done = home.run(*words, **environ)
        assert (done.returncode, done.stdout) == (2, "")
        assert done.stderr.splitlines() == [f"wakeful: {line}" for line in problems]
    assert listing(home.folder) == ["own.toml"]


def test_config_init_writes_once(home: Home) -> None:
    """The default file is written, is valid, and is never overwritten."""
    path = home.folder / ".config/wakeful/wakeful.toml"
    assert home.run("config", "init").stdout == f"wrote {path}\n"
    assert home.run("config", "check").stdout == "valid\n"
    short = path.read_text()
    assert (path.stat().st_mode & 0o777, len(re.findall(r"^# \w+ = ", short, re.MULTILINE))) == (0o600, 20)
    every = home.folder / "every.toml"
    assert home.run("config", "init", "--all", "--config", str(every)).returncode == 0
    assert every.stat().st_mode & 0o777 == 0o600
    assert home.run("config", "check", "--config", str(every)).stdout == "valid\n"
    assert all(line in every.read_text() for line in short.splitlines() if " = " in line)
    path.write_text("# mine\n")
    again = home.run("config", "init")
    assert (again.returncode, path.read_text()) == (2, "# mine\n")
    assert "exists already" in again.stderr


@pytest.mark.parametrize(("view", "code"), [("health", 0), ("status", 1), ("inspect", 5)])
def test_json_is_the_daemons_body_and_its_exit_code(home: Home, view: str, code: int) -> None:
    """Every spelling of the flag prints the daemon's very bytes and exits as the daemon says."""
    with home.door({f"/api/sessions/claude-1/{view}": http(RECORD, exit_code=code)}) as door:
        for flags in (["--json"], ["-o", "json"], ["-ojson"]):
            done = home.run("session", view, "claude-1", *flags)
            assert (done.returncode, done.stdout, done.stderr) == (code, RECORD.decode() + "\n", "")
        text = home.run("session", view, "claude-1")
    assert (text.returncode, "waiting" in text.stdout) == (code, True)
    assert set(door.asked) == {RecordedRequest("GET", f"/api/sessions/claude-1/{view}")}


def test_lists_exit_0_and_ask_with_their_filters(home: Home) -> None:
    """`ls` shows who needs a person and what is folded, and passes its filters on, spelled safely."""
    with home.door({"/api/sessions?": http(LIST), "/api/status": http(OVERVIEW)}) as door:
        filters = ("--project", "a&health=dead #", "--health", "degraded", "--state", "idle")
        done = home.run("ls", "--all", *filters)
        status = home.run("status")
        plain = home.run("ls")
    assert (done.returncode, "\x1b" in done.stdout, done.stderr) == (0, False, "")
    assert door.asked[0].target == (
        "/api/sessions?include_health=true&all=true&project=a%26health%3Ddead+%23&health=degraded&state=idle"
    )
    assert plain.stdout.splitlines()[-1] == "2,000 older: wakeful ls --all"
    assert re.search(r"claude-1 +\S+ +waiting ", plain.stdout)
    assert status.stdout.startswith("mode       managed-only ")
    assert "slow       codex: no watches left" in status.stdout
    assert "asks you · xy" in status.stdout


@pytest.mark.parametrize("no_color", ["", "1"])
def test_on_a_terminal_the_list_is_a_table_in_colour(home: Home, no_color: str) -> None:
    """A terminal gets marks and, unless NO_COLOR says otherwise, colour; nothing wider than it is."""
    ours, theirs = os.openpty()
    with (
        home.door({"/api/status": http(OVERVIEW), "/": http(LIST)}),
        os.fdopen(ours, "rb", buffering=0) as screen,
    ):
        subprocess.run(
            [*COMMAND, "ls"],
            env={**home.environ, "TERM": "xterm", "COLUMNS": "60", "NO_COLOR": no_color},
            stdout=theirs,
            timeout=60,
            check=True,
        )
        os.close(theirs)
        lines = screen.read(65536).decode().splitlines()
    assert "◆ waiting" in lines[1]
    assert "asks you · xy" in "".join(lines)
    assert ("\x1b[1;33m" in lines[1]) is (no_color == "")
    assert len(re.sub("\x1b\\[[0-9;]*m", "", lines[1])) <= 60


@pytest.mark.parametrize(("exit_code", "status"), [(2, 404), (3, 503), (4, 500)])
def test_a_refusal_of_the_daemon_is_told_in_its_words(home: Home, exit_code: int, status: int) -> None:
    """The problem's detail becomes the line, its family the exit code; --json prints nothing on stdout."""
    refusal = http(b'{"detail":"because \\u001b[2J of X"}', status=status, exit_code=exit_code)
    with home.door({"/": refusal}):
        done = home.run("session", "health", "claude-1", "--json")
    assert (done.returncode, done.stdout) == (exit_code, "")
    (line,) = done.stderr.splitlines()
    assert "because of X" in line


@pytest.mark.parametrize("answer", [b"", b"rubbish", http(LIST)[:-10]])
def test_a_daemon_that_hangs_up_is_the_worlds_fault(home: Home, answer: bytes) -> None:
    """Cut-off and foreign answers exit 3 in one line."""
    with home.door({"/": answer or b"\r\n"}):
        done = home.run("ls")
    assert (done.returncode, len(done.stderr.splitlines())) == (3, 1)


def test_a_bug_is_said_to_be_one(home: Home) -> None:
    """An unforeseen error is one line and exit 4; the traceback is for those who ask for it."""
    with home.door({"/": http(LIST, exit_code="banana")}):
        done = home.run("ls")
        debugged = home.run("ls", WAKEFUL_DEBUG="1")
    assert (done.returncode, debugged.returncode) == (4, 4)
    (line,) = done.stderr.splitlines()
    assert line.startswith("wakeful: this is a bug in Wakeful")
    assert "Traceback" in debugged.stderr


@pytest.mark.parametrize("exit_code", [0, 6, 1, 3])
def test_wait_ends_as_the_daemon_says(home: Home, exit_code: int) -> None:
    """Reached, needs a person, died and timeout have different exit codes."""
    body = b'{"ending":"reached","session":' + RECORD + b"}"
    with home.door({"/api/sessions/claude-1/wait": http(body, exit_code=exit_code)}) as door:
        done = home.run("session", "wait", "claude-1", "--until", "idle", "--timeout", "1s")
    assert (done.returncode, done.stdout) == (exit_code, "reached: claude-1 is waiting for you, healthy\n")
    assert door.asked[0].target.startswith("/api/sessions/claude-1/wait?until=idle&timeout=")


def test_self_sends_what_the_clients_told_it(home: Home) -> None:
    """Conversation ids of the environment that are ids, and the processes above, ask who this is."""
    with home.door({"/api/sessions/self": http(RECORD)}) as door:
        done = home.run(
            "session",
            "self",
            "--json",
            CLAUDE_CODE_SESSION_ID="11-aa",
            CODEX_THREAD_ID="../x",
            WAKEFUL_SESSION="claude-22",
        )
    assert done.returncode == 0
    assert door.asked[0].target.startswith(
        "/api/sessions/self?conversation=claude-22&conversation=11-aa&pid="
    )
    assert f"pid={os.getpid()}" in door.asked[0].target


def test_ctrl_c_ends_quietly(home: Home) -> None:
    """Interrupted while it waits: exit 130, nothing said."""
    with home.door({"/": SILENCE}) as door:
        waiting = subprocess.Popen(
            [*COMMAND, "session", "wait", "x", "--until", "idle"],
            env=home.environ,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        wait_for(lambda: door.asked or None, "question")
        waiting.send_signal(signal.SIGINT)
        out, err = waiting.communicate(timeout=20)
    assert (waiting.returncode, out, err.strip()) == (130, b"", b"")


@pytest.mark.parametrize("words", [["ls"], ["session", "list", "--json"], ["--help"]])
def test_a_closed_pipe_is_no_complaint(home: Home, words: list[str]) -> None:
    """`wakeful ls | head -0` says nothing on stderr."""
    reading, writing = os.pipe()
    os.close(reading)
    with home.door({"/api/status": http(OVERVIEW), "/": http(LIST)}), os.fdopen(writing, "wb") as closed:
        done = subprocess.run(
            [*COMMAND, *words],
            env=home.environ,
            stdout=closed,
            stderr=subprocess.PIPE,
            timeout=60,
            check=False,
        )
    assert (done.returncode, done.stderr) == (141, b"")


def test_a_terminal_without_unicode_gets_question_marks(home: Home) -> None:
    """An encoding that lacks a character is no reason to fail."""
    with home.door({"/api/status": http(OVERVIEW), "/": http(LIST)}):
        done = home.run("ls", PYTHONIOENCODING="ascii")
    assert (done.returncode, "asks you - x" in done.stdout) == (0, True), done.stdout


def test_doctor_checks_without_changing_anything(home: Home) -> None:
    """Lines with ok, warn or fail and what to do; exit 1 only for a failure; JSON says the same."""
    done = home.run("doctor")
    assert done.returncode == 0
    assert "warn  daemon" in done.stdout
    assert "→ wakeful up --detach" in done.stdout
    assert listing(home.folder) == []
    Path(home.places.state_dir).mkdir(mode=0o755)
    Path(home.places.database).write_bytes(b"not a database")
    failed = home.run("doctor", "--json")
    checks: dict[str, Any] = {check["name"]: check for check in json.loads(failed.stdout)["checks"]}
    assert failed.returncode == 1
    assert checks["state folder"]["todo"] == f"chmod 700 {home.places.state_dir}"
    assert checks["database"]["grade"] == "fail"


def test_doctor_reads_a_clients_version_from_disk(home: Home) -> None:
    """A client is recognised by its package or its folder's name, and is not run."""
    package = home.folder / "lib/node_modules/@anthropic-ai/claude-code"
    (package / "bin").mkdir(parents=True)
    (package / "package.json").write_text('{"name":"@anthropic-ai/claude-code","version":"2.1.197"}')
    ran = home.folder / "ran"
    native = home.folder / "share/codex/versions/0.166.0"
    native.parent.mkdir(parents=True)
    (home.folder / "bin").mkdir()
    for name, program in (("claude", package / "bin/cli"), ("codex", native)):
        program.write_text(f"#!/bin/sh\ntouch {ran}\n")
        program.chmod(0o755)
        (home.folder / "bin" / name).symlink_to(program)
    done = home.run("doctor", PATH=f"{home.folder}/bin:/usr/bin:/bin")
    assert f"claude         2.1.197 at {home.folder}/bin/claude" in done.stdout
    assert f"codex          0.166.0 at {home.folder}/bin/codex" in done.stdout
    assert not ran.exists()


def test_up_and_down(home: Home) -> None:
    """--detach returns once the daemon answers; a second one is refused; the folder's file and package count for nothing."""
    (home.folder / "wakeful.toml").write_text('[daemon]\nmode = "all"\n')
    (home.folder / "wakeful").mkdir()
    (home.folder / "wakeful/__init__.py").write_text(
        "raise SystemExit('the working directory was imported')\n"
    )
    up = home.run("up", "--detach", "--no-tcp")
    try:
        assert (up.returncode, "mode: managed-only" in up.stdout) == (0, True), up.stderr
        status = home.run("status", "--json")
        assert (status.stderr, json.loads(status.stdout)["mode"]) == ("", "mine")
        for words in (["up"], ["up", "--detach"]):
            second = home.run(*words)
            assert (second.returncode, "is already running" in second.stderr) == (2, True)
    finally:
        down = home.run("down")
    assert (down.returncode, down.stdout.startswith("ended (pid ")) == (0, True)
    assert not Path(home.places.socket).exists()
    assert home.run("down").returncode == 3


def test_a_daemon_that_cannot_start_tells_why(home: Home) -> None:
    """--detach shows the child's own words and exit code, on stderr."""
    Path(home.places.state_dir).mkdir(mode=0o700)
    Path(home.places.database).write_bytes(b"not a database at all, but something a person may need" * 100)
    done = home.run("up", "--detach", "--no-tcp")
    assert done.returncode in {2, 3}
    assert (done.stdout, "wakeful.db" in done.stderr) == ("", True)
