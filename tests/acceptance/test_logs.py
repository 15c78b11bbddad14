"""`wakeful logs`: the conversation of a session, once and live."""

import json
import os
import re
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from support import claude_transcripts as claude
from support.cli_user import DONE, Operator, bash
from support.daemon_process import RunningDaemon
from support.gateway_process import end_agents
from support.real_clients import wait_for
from support.stub_claude import install
from wakeful.testing.scripted_model import script

SHOP = "5a74ada3-0000-4000-8000-000000000001"
OLD = "77aa0c1d-0000-4000-8000-000000000002"
KEY = "sk-ant-api03-" + "A7b" * 30


def result(wall: float, call_id: str, text: str, *, is_error: bool = False) -> dict[str, Any]:
    block = {"type": "tool_result", "tool_use_id": call_id, "content": text, "is_error": is_error}
    return claude.record("user", wall, SHOP, message={"role": "user", "content": [block]})


@pytest.fixture
def log(daemon: RunningDaemon) -> Path:
    """A conversation of a session whose agent is not there any more."""
    now = time.time()
    daemon.watch(CLAUDE_CONFIG_DIR=daemon.home / "claude", TZ="UTC")
    return claude.write(
        daemon.home / "claude",
        SHOP,
        claude.prompt(now - 7200, SHOP, "build it"),
        claude.call(now - 7100, SHOP, "make", "t1"),
        result(now - 7090, "t1", "built 3 files"),
        claude.call(now - 300, SHOP, "make test", "t2"),
        result(now - 200, "t2", "2 failed", is_error=True),
        claude.answer(now - 100, SHOP, f"Two tests\x1b]0;owned\x07 fail \u202ewith {KEY}.\nSee below."),
    )


def add(log: Path, *records: dict[str, Any]) -> None:
    with log.open("a") as file:
        file.write("".join(f"{json.dumps(each)}\n" for each in records))


class Follower:
    """A running `logs -f`, with what it has printed."""

    def __init__(self, daemon: RunningDaemon, *arguments: str) -> None:
        self._out, self._err = daemon.home / "logs.out", daemon.home / "logs.err"
        with self._out.open("wb") as out, self._err.open("wb") as err:
            self.process = subprocess.Popen(
                daemon.argv("logs", *arguments),
                env=daemon.environ,
                cwd=daemon.home,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
            )

    @property
    def out(self) -> str:
        return self._out.read_text()

    @property
    def err(self) -> str:
        return self._err.read_text()

    def wait_for(self, text: str) -> None:
        wait_for(lambda: text in self.out + self.err or None, text)

    def interrupt(self) -> int:
        self.process.send_signal(signal.SIGINT)
        return self.process.wait(20)


@pytest.fixture
def followers() -> Iterator[list[Follower]]:
    started: list[Follower] = []
    yield started
    for each in started:
        each.process.kill()
        each.process.wait()


def test_a_conversation_is_read_like_a_chat(daemon: RunningDaemon, log: Path) -> None:
    """Who, when, what; calls with their results in one line; nothing hidden, nothing secret."""
    assert log.exists()
    daemon.up()
    said = daemon.run("logs", "proj")
    assert (said.exit_code, said.err) == (0, "")
    lines = said.out.splitlines()
    assert re.fullmatch(r"\d{4}-\d\d-\d\d", lines[0])
    body = [line for line in lines if not re.fullmatch(r"\d{4}-\d\d-\d\d", line)]
    assert [re.sub(r"^[\d:]{8} ", "", line) for line in body] == [
        "you     build it",
        "        ✓ Bash: make  10s → built 3 files",
        "        ✗ Bash: make test  1m → 2 failed",
        "claude  Two tests fail with [key].",
        "                 See below.",
    ]
    assert daemon.run("logs", SHOP[:6], "-n", "1").out.splitlines()[-2:] == body[-2:]
    assert daemon.run("logs", "proj", "-n", "0").out == ""
    recent = daemon.run("logs", "proj", "--since", "10m").out
    assert ("make test" in recent, "build it" in recent) == (True, False)
    objects = [json.loads(line) for line in daemon.run("logs", "proj", "--json").out.splitlines()]
    assert [each["by"] for each in objects] == ["person", "agent", "agent", "agent"]
    assert objects[1]["call"]["untrusted"]["result"] == '"built 3 files"'
    assert KEY not in json.dumps(objects)
    for wrong in (("nowhere",), ("proj", "-n", "501"), ("proj", "--since", "soon")):
        refused = daemon.run("logs", *wrong)
        assert (refused.exit_code, refused.out, refused.err.count("\n")) == (2, "", 1)


def test_it_is_read_without_a_daemon_and_followed_only_with_one(daemon: RunningDaemon, log: Path) -> None:
    assert log.exists()
    said = daemon.run("logs", SHOP[:6])
    assert (said.exit_code, "built 3 files" in said.out) == (0, True)
    assert "no daemon" in said.err
    refused = daemon.run("logs", SHOP[:6], "-f")
    assert (refused.exit_code, refused.out) == (3, "")
    assert "wakeful up" in refused.err


def test_what_follows_is_shown_as_it_is_written(
    daemon: RunningDaemon, log: Path, followers: list[Follower]
) -> None:
    """A call when it begins and when it ends, over a restart of the daemon and a new log; Ctrl-C ends it."""
    daemon.up()
    follower = Follower(daemon, "proj", "-f", "-n", "1")
    followers.append(follower)
    follower.wait_for("See below.")
    assert "build it" not in follower.out
    now = time.time()
    add(log, claude.prompt(now, SHOP, "fix them"), claude.call(now, SHOP, "sed -i s/a/b/ x", "t3"))
    follower.wait_for("Bash: sed -i s/a/b/ x")
    add(log, result(now + 5, "t3", "done so"))
    follower.wait_for("✓ Bash: sed -i s/a/b/ x  5s → done so")
    assert follower.out.count("fix them") == 1
    daemon.kill()
    follower.wait_for("waiting for the daemon")
    add(log, claude.answer(now + 6, SHOP, "written while it was down"))
    daemon.up()
    follower.wait_for("written while it was down")
    log.write_text("")
    add(log, claude.prompt(now + 9, SHOP, "begun again"))
    follower.wait_for("begun again")
    assert follower.interrupt() == 130
    assert follower.err.count("\n") == 1
    assert follower.out.count("See below.") == follower.out.count("fix them") == 1


def test_a_follower_hears_that_the_log_is_deleted(
    daemon: RunningDaemon, log: Path, followers: list[Follower]
) -> None:
    daemon.up()
    follower = Follower(daemon, "proj", "-f")
    followers.append(follower)
    follower.wait_for("See below.")
    log.unlink()
    assert follower.process.wait(20) == 1
    assert "proj has no log" in follower.err


def test_json_lines_are_whole(daemon: RunningDaemon, log: Path, followers: list[Follower]) -> None:
    daemon.up()
    follower = Follower(daemon, "proj", "-f", "--json", "-n", "1")
    followers.append(follower)
    now = time.time()
    add(log, claude.call(now, SHOP, "ls", "t4"))
    follower.wait_for("ls")
    add(log, result(now + 1, "t4", "Makefile"))
    follower.wait_for("Makefile")
    assert follower.interrupt() == 130
    last = [json.loads(line) for line in follower.out.splitlines()][-2:]
    assert [each["call"]["untrusted"]["tool"] for each in last] == ["Bash"] * 2
    assert len({each["call_id"] for each in last}) == 1
    assert [each["call"]["ended_at"] is None for each in last] == [True, False]


def test_a_reader_that_has_enough_ends_it(daemon: RunningDaemon, log: Path) -> None:
    """As `logs | head -1` does: no remark."""
    assert log.exists()
    daemon.up()
    with subprocess.Popen(
        daemon.argv("logs", "proj", "-f"), env=daemon.environ, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.readline()
        process.stdout.close()
        add(log, claude.prompt(time.time(), SHOP, "more"))
        assert (process.wait(20), process.stderr.read()) == (141, b"")


def test_a_session_without_its_log_says_so(daemon: RunningDaemon) -> None:
    config, project = daemon.home / "claude", daemon.home / "project"
    project.mkdir()
    daemon.watch(CLAUDE_CONFIG_DIR=config)
    daemon.up()
    try:
        started = daemon.run("run", "--json", "--headless", "--", install(daemon.home / "bin"), cwd=project)
        session_id = str(started.json["session_id"])
        gone = daemon.run("logs", session_id)
        assert (gone.exit_code, gone.out, "project has no log" in gone.err) == (1, "", True)
    finally:
        end_agents(daemon.home, daemon)


def test_a_real_session_of_claude(operator: Operator) -> None:
    """By its name, while it lives and after it was stopped."""
    started = operator.start(
        *("--headless", "--name", "docs", "--prompt", script(bash("echo one two"), DONE), "--", "claude")
    )
    operator.wait_until(started, "end of its turn", state="idle")
    for _ in range(2):
        said = operator.type("logs", "docs")
        assert said.exit_code == 0, said.err
        assert re.search(r"✓ Bash: echo one two.*→ one two\n", said.out), said.out
        assert re.search(r"claude  All done\n", said.out)
        assert operator.type("stop", "docs").exit_code == 0


def test_a_follower_says_that_the_session_waits_for_you(
    operator: Operator, followers: list[Follower]
) -> None:
    """A question is in no log: its state says so."""
    asking = script({"text": "I begin"}, DONE)
    started = operator.start("--headless", "--name", "docs", "--prompt", asking, "--", "claude")
    operator.wait_until(started, "end of its turn", state="idle")
    follower = Follower(operator.daemon, "docs", "-f")
    followers.append(follower)
    follower.wait_for("I begin")
    assert operator.type("send", "docs", script(bash("touch made"), DONE)).exit_code == 0
    waits = re.compile(r"wakeful waiting for you · .*Bash: touch made")
    wait_for(lambda: waits.search(follower.out), "its question", 20)
    assert follower.interrupt() == 130


@pytest.mark.parametrize("encoding", ["ascii", "latin-1"])
def test_a_terminal_without_utf8_gets_plain_marks(daemon: RunningDaemon, log: Path, encoding: str) -> None:
    assert log.exists()
    done = subprocess.run(
        daemon.argv("logs", SHOP),
        env={**daemon.environ, "PYTHONIOENCODING": encoding},
        capture_output=True,
        check=True,
        timeout=60,
    )
    assert b"+ Bash: make  10s > built 3 files" in done.stdout
    assert os.linesep.encode() in done.stdout
