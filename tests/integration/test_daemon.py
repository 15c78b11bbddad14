"""The daemon against the file system and the process table, without any client."""

import json
import os
import socket
import sqlite3
import subprocess
import time
import uuid
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import httpx
import pytest

from support import claude_transcripts
from support.daemon_process import RunningDaemon
from support.real_clients import wait_for
from support.stub_clients import stand_in, tool_runner

CONVERSATION = "5a74ada3-0000-4000-8000-000000000001"
SESSION = f"claude-{CONVERSATION}"


@pytest.fixture
def config(daemon: RunningDaemon) -> Path:
    folder = daemon.home / "claude"
    daemon.watch(CLAUDE_CONFIG_DIR=folder)
    return folder


@pytest.fixture
def agent(tmp_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A living process that stands for a client."""
    with stand_in(tmp_path / "bin") as process:
        yield process


def append(path: Path, *records: dict[str, object]) -> None:
    with path.open("a") as log:
        log.write("".join(f"{json.dumps(each)}\n" for each in records))


def test_folders_that_appear_later_are_seen(
    daemon: RunningDaemon, config: Path, agent: subprocess.Popen[bytes]
) -> None:
    """A client's first start makes its folders; Wakeful needs no restart for it."""
    daemon.up()
    claude_transcripts.register(config, CONVERSATION, agent.pid, "busy")
    claude_transcripts.write(config, CONVERSATION, claude_transcripts.prompt(time.time(), CONVERSATION))
    session = daemon.wait_for_session(lambda each: each["project"] == "proj", "session")
    assert (session["id"], session["state"], session["pid"]) == (SESSION, "prompting", agent.pid)


@pytest.mark.parametrize("host", ["127.0.0.1", "::1", "localhost"])
def test_a_link_logs_in_once(daemon: RunningDaemon, host: str) -> None:
    """`wakeful open` prints a link, `--json` the record it is in; each is fresh, and good for one login."""
    daemon.watch(WAKEFUL_DAEMON__HOST=host)
    daemon.up()
    printed, told = daemon.run("open").out.strip(), json.loads(daemon.run("open", "--json").out)
    assert printed != told["url"]
    for link in (printed, told["url"]):
        place, _, code = link.partition("/#code=")
        answers = [httpx.post(f"{place}/api/login", json={"code": code}).status_code for _ in range(2)]
        assert answers == [200, 401], link


def test_one_conversation_in_two_processes_is_said(
    daemon: RunningDaemon, config: Path, agent: subprocess.Popen[bytes], tmp_path: Path
) -> None:
    """Twins are found and named by pid."""
    claude_transcripts.write(config, CONVERSATION, claude_transcripts.prompt(time.time(), CONVERSATION))
    claude_transcripts.register(config, CONVERSATION, agent.pid, "busy")
    with stand_in(tmp_path / "bin") as twin:
        claude_transcripts.register(config, CONVERSATION, twin.pid, "busy")
        daemon.up()
        session = daemon.wait_for_session(lambda each: bool(each["findings"]), "finding")
        assert [finding["code"] for finding in session["findings"]] == ["twin_processes"]
        assert str(agent.pid) in session["findings"][0]["evidence"][0]
        assert str(twin.pid) in session["findings"][0]["evidence"][0]


def test_a_registry_file_of_a_vanished_process_is_evidence_of_death(
    daemon: RunningDaemon, config: Path, agent: subprocess.Popen[bytes]
) -> None:
    """Never seen alive by us, but registered, and gone inside a turn: dead."""
    now = time.time()
    claude_transcripts.write(
        config,
        CONVERSATION,
        claude_transcripts.prompt(now, CONVERSATION),
        claude_transcripts.call(now, CONVERSATION, "make"),
    )
    claude_transcripts.register(config, CONVERSATION, agent.pid, "busy")
    agent.kill()
    agent.communicate()
    daemon.up()
    session = daemon.sessions()[0]
    assert (session["health"], [each["code"] for each in session["findings"]]) == ("dead", ["session_dead"])


def test_a_restart_says_the_same_about_a_death(
    daemon: RunningDaemon, config: Path, agent: subprocess.Popen[bytes]
) -> None:
    """It died long after its last line: a restart of the daemon does not move that to the last line."""
    long_ago = time.time() - 300
    claude_transcripts.write(config, CONVERSATION, claude_transcripts.prompt(long_ago, CONVERSATION))
    claude_transcripts.register(config, CONVERSATION, agent.pid, "busy")
    daemon.up()
    daemon.wait_for_session(lambda each: each["state"] == "prompting", "turn")

    def stored() -> bool | None:
        with closing(sqlite3.connect(daemon.home / "state" / "wakeful.db")) as store:
            return bool(store.execute("select 1 from bookmarks").fetchone()) or None

    # The running turn is stored, and the death is no news of its log.
    wait_for(stored, "stored state")
    agent.kill()
    agent.communicate()
    dead = daemon.wait_for_session(lambda each: each["health"] == "dead", "death")
    assert dead["findings"][0]["code"] == "session_dead"
    daemon.end()
    daemon.up()
    assert daemon.sessions()[0]["findings"] == dead["findings"]


def test_a_transcript_nobody_was_seen_to_write_is_unknown(daemon: RunningDaemon, config: Path) -> None:
    """No process, never seen alive: stopped, unknown, no finding, exit code 5."""
    claude_transcripts.write(config, CONVERSATION, claude_transcripts.prompt(time.time(), CONVERSATION))
    daemon.up()
    health = daemon.run("session", "health", CONVERSATION, "--json")
    assert (health.json["state"], health.json["health"], health.exit_code) == ("stopped", "unknown", 5)


@pytest.mark.parametrize("kind", ["symlink", "fifo", "folder", "unreadable"])
def test_what_is_no_log_harms_nobody(
    daemon: RunningDaemon, config: Path, agent: subprocess.Popen[bytes], kind: str
) -> None:
    """A link outside, a pipe, a folder, a file of NULs in a log's place: not read, no crash, the next log is."""
    odd = config / "projects" / "-odd" / f"{uuid.uuid4()}.jsonl"
    odd.parent.mkdir(parents=True)
    outside = daemon.home / "secret.jsonl"
    outside.write_text(json.dumps(claude_transcripts.prompt(time.time(), CONVERSATION, "secret")) + "\n")
    if kind == "symlink":
        odd.symlink_to(outside)
    elif kind == "fifo":
        os.mkfifo(odd)
    elif kind == "folder":
        odd.mkdir()
    else:
        odd.write_bytes(b"\0" * 5000)
    daemon.up()
    claude_transcripts.write(config, CONVERSATION, claude_transcripts.prompt(time.time(), CONVERSATION))
    claude_transcripts.register(config, CONVERSATION, agent.pid, "busy")
    session = daemon.wait_for_session(lambda each: each["id"] == SESSION, "session")
    assert session["state"] == "prompting"
    others = [each for each in daemon.sessions() if each["id"] != SESSION]
    assert all(each["state"] == "stopped" and each["project"] == "" for each in others)


def test_a_renamed_field_is_said_once(
    daemon: RunningDaemon, config: Path, agent: subprocess.Popen[bytes]
) -> None:
    """A format that changed under us is `reader_drift`, health unknown, and never silently wrong."""
    now = time.time()
    bad = claude_transcripts.call(now, CONVERSATION, "make")
    bad["message"]["blocks"] = bad["message"].pop("content")
    claude_transcripts.write(config, CONVERSATION, claude_transcripts.prompt(now, CONVERSATION), bad, bad)
    claude_transcripts.register(config, CONVERSATION, agent.pid, "busy")
    daemon.up()
    session = daemon.sessions()[0]
    assert [finding["code"] for finding in session["findings"]] == ["reader_drift"]
    assert session["health"] == "unknown"


def test_a_neutral_log_with_a_process(daemon: RunningDaemon, agent: subprocess.Popen[bytes]) -> None:
    """Any program can be watched: it appends to a log, names its pid, and its death inside a turn is seen."""
    daemon.up()
    log = Path(daemon.environ["WAKEFUL_HOME"]) / "events" / "nightly.jsonl"
    append(log, {"at": time.time(), "event": "opened", "pid": agent.pid, "cwd": "/srv/nightly"})
    append(log, {"at": time.time(), "event": "prompt"})
    working = daemon.wait_for_session(lambda each: each["state"] == "prompting", "working session")
    assert (working["id"], working["project"], working["pid"]) == ("nightly", "nightly", agent.pid)
    agent.kill()
    dead = daemon.wait_for_session(lambda each: each["health"] == "dead", "death")
    assert dead["findings"][0]["code"] == "session_dead"


def question(daemon: RunningDaemon, conversation: str, age_seconds: float = 0.0) -> Path:
    """What a hook leaves in the spool when a client asks a person."""
    spool = Path(daemon.environ["WAKEFUL_HOME"]) / "spool"
    spool.mkdir(parents=True, exist_ok=True)
    report = spool / str(len(list(spool.iterdir())))
    payload = {
        "session_id": conversation,
        "hook_event_name": "PermissionRequest",
        "tool_name": "Bash",
        "cwd": "/x",
    }
    report.write_text(json.dumps(payload))
    # A daemon that runs has taken a fresh one already.
    if age_seconds:
        claude_transcripts.age(report, time.time() - age_seconds)
    return report


def test_what_lay_in_the_spool_does_not_prove_that_anybody_lives(
    daemon: RunningDaemon, config: Path, agent: subprocess.Popen[bytes]
) -> None:
    """Asked while Wakeful was stopped: no session waits whose agent is unseen, or whose turn went on since."""
    daemon.up()
    daemon.end()
    now = time.time()
    claude_transcripts.register(config, CONVERSATION, agent.pid)
    done = (
        claude_transcripts.prompt(now - 900, CONVERSATION),
        claude_transcripts.answer(now - 300, CONVERSATION),
    )
    claude_transcripts.write(config, CONVERSATION, *done)
    gone, fresh = (CONVERSATION.replace("5a74ada3", name) for name in ("90ae90ae", "f4e5f4e5"))
    question(daemon, CONVERSATION, 600)
    question(daemon, gone, 3600)
    question(daemon, fresh)
    daemon.up()
    found = {each["conversation_id"]: (each["state"], each["health"]) for each in daemon.sessions()}
    assert found == {
        CONVERSATION: ("idle", "healthy"),
        gone: ("stopped", "unknown"),
        fresh: ("waiting", "healthy"),
    }


def test_a_hook_report_says_that_a_person_is_needed(
    daemon: RunningDaemon, config: Path, agent: subprocess.Popen[bytes]
) -> None:
    """A report dropped into the spool changes the verdict and is removed."""
    claude_transcripts.register(config, CONVERSATION, agent.pid)
    now = time.time()
    claude_transcripts.write(
        config,
        CONVERSATION,
        claude_transcripts.prompt(now, CONVERSATION),
        claude_transcripts.call(now, CONVERSATION, "rm x"),
    )
    daemon.up()
    assert daemon.sessions()[0]["state"] == "prompting"
    report = question(daemon, CONVERSATION)
    waiting = daemon.wait_for_session(lambda each: each["state"] == "waiting", "question")
    assert waiting["attention"] == "person"
    wait_for(lambda: None if report.exists() else True, "empty spool")


def test_truncation_rotation_and_replacement(
    daemon: RunningDaemon, config: Path, agent: subprocess.Popen[bytes]
) -> None:
    """Whatever happens to the file, the verdict is about what it says now."""
    path = claude_transcripts.write(
        config, CONVERSATION, claude_transcripts.prompt(time.time(), CONVERSATION)
    )
    claude_transcripts.register(config, CONVERSATION, agent.pid)
    daemon.up()
    assert daemon.sessions()[0]["state"] == "prompting"
    path.write_text("")
    append(
        path,
        claude_transcripts.prompt(time.time(), CONVERSATION),
        claude_transcripts.answer(time.time(), CONVERSATION),
    )
    daemon.wait_for_session(lambda each: each["state"] == "idle", "truncated log")
    path.rename(path.with_suffix(".old"))
    claude_transcripts.write(config, CONVERSATION, claude_transcripts.prompt(time.time(), CONVERSATION))
    daemon.wait_for_session(lambda each: each["state"] == "prompting", "replaced log")


def test_a_second_daemon_is_refused(daemon: RunningDaemon) -> None:
    """One line, exit 2, and the first one answers on."""
    daemon.up()
    second = daemon.run("up", "--port", "0")
    assert second.exit_code == 2
    assert str(daemon.pid) in second.err
    assert daemon.run("status", "--json").json["daemon"]["pid"] == daemon.pid


def test_a_busy_port_leaves_the_socket(daemon: RunningDaemon) -> None:
    """The page is not there, everything else is, and the log says so."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        daemon.environ["WAKEFUL_PORT"] = str(taken.getsockname()[1])
        daemon.up(port=None)
        status = daemon.run("status", "--json").json
    assert status["daemon"]["listening"] == [str(daemon.socket)]
    assert "in use" in daemon.said()


def test_a_stale_socket_is_replaced(daemon: RunningDaemon) -> None:
    """Killed -9, it leaves its socket behind; the next start takes the place."""
    daemon.up()
    daemon.kill()
    assert daemon.socket.exists()
    daemon.up()
    assert daemon.end() == 0
    assert not daemon.socket.exists()


def test_self_is_the_session_one_runs_in(daemon: RunningDaemon, config: Path, tmp_path: Path) -> None:
    """By the client's variable, or by descent from the process that holds the conversation."""
    claude_transcripts.write(config, CONVERSATION, claude_transcripts.prompt(time.time(), CONVERSATION))
    daemon.up()
    with tool_runner(tmp_path / "bin", daemon.environ) as agent:
        claude_transcripts.register(config, CONVERSATION, agent.pid, "busy")
        daemon.wait_for_session(lambda each: each["pid"] == agent.pid, "held session")
        by_descent = agent.ask(daemon.argv("session", "self", "--json"))
    assert by_descent.json["id"] == SESSION
    by_name = daemon.run("session", "self", "--json", environ={"CLAUDE_CODE_SESSION_ID": CONVERSATION})
    assert by_name.json["id"] == SESSION


@pytest.mark.parametrize(
    ("status", "until", "exit_code"),
    [("idle", "idle", 0), ("waiting", "idle", 6), ("busy", "idle", 3), ("waiting", "waiting", 0)],
)
def test_wait_tells_how_it_ended(
    daemon: RunningDaemon,
    config: Path,
    agent: subprocess.Popen[bytes],
    status: str,
    until: str,
    exit_code: int,
) -> None:
    """Reached, needs a person and timeout have exits of their own."""
    claude_transcripts.register(config, CONVERSATION, agent.pid, status)
    daemon.up()
    assert daemon.run("session", "wait", SESSION, "--until", until, "--timeout", "1s").exit_code == exit_code


def test_wait_is_told_of_a_death(daemon: RunningDaemon, config: Path, agent: subprocess.Popen[bytes]) -> None:
    """The agent is killed while a caller waits: exit 1 at once, not at the timeout."""
    claude_transcripts.write(config, CONVERSATION, claude_transcripts.prompt(time.time(), CONVERSATION))
    claude_transcripts.register(config, CONVERSATION, agent.pid, "busy")
    daemon.up()
    waiting = subprocess.Popen(
        daemon.argv("session", "wait", SESSION, "--until", "idle", "--timeout", "60s"),
        env=daemon.environ,
        stdout=subprocess.DEVNULL,
    )
    wait_for(lambda: None if waiting.poll() is not None else True, "waiter")
    agent.kill()
    assert waiting.wait(60) == 1


@pytest.mark.parametrize("content", [b"", b'{"type":"us'])
def test_a_log_without_a_whole_line_is_no_session_yet(
    daemon: RunningDaemon, config: Path, content: bytes
) -> None:
    """Empty or torn in its first line: the daemon lives, keeps its place in the other logs, and ends in order."""
    new = f"{uuid.uuid4()}"
    logs = (
        config / "projects" / "-new" / f"{new}.jsonl",
        daemon.home
        / ".codex"
        / "sessions"
        / "2027"
        / "01"
        / "15"
        / f"rollout-2027-01-15T08-00-00-{new}.jsonl",
        daemon.home / "state" / "events" / "x.jsonl",
    )
    (daemon.home / "state").mkdir(mode=0o700)
    for log in logs:
        log.parent.mkdir(parents=True)
        log.write_bytes(content)
    claude_transcripts.write(config, CONVERSATION, claude_transcripts.prompt(time.time(), CONVERSATION))
    daemon.up()
    assert [each["id"] for each in daemon.sessions()] == [SESSION]
    assert (daemon.end(), "Traceback" in daemon.said()) == (0, False)
    daemon.up()
    append(logs[0], claude_transcripts.prompt(time.time(), new))
    daemon.wait_for_session(lambda each: each["id"] == f"claude-{new}", "session")
    assert daemon.end() == 0


def test_a_state_folder_that_others_can_read_is_closed_and_said(daemon: RunningDaemon) -> None:
    """The daemon starts; `up --detach` says so on the terminal."""
    daemon.up()
    daemon.end()
    state = Path(daemon.environ["WAKEFUL_HOME"])
    state.chmod(0o755)
    daemon.up()
    assert f"{state} had mode 755; now only you can use it (mode 700)" in daemon.said()
    assert state.stat().st_mode & 0o777 == 0o700
    daemon.end()
    state.chmod(0o775)
    detached = daemon.run("up", "--detach", "--port", "0")
    assert (detached.exit_code, "had mode 775" in detached.err) == (0, True)
    assert daemon.run("down").exit_code == 0
