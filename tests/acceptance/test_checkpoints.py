"""Claims about agents cut off inside a call: what may have changed something elsewhere waits for a person.

A real daemon, real Claude Code, a real `git push` to a bare repository whose hook takes its time.
"""

import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from support.cli_user import DONE, Operator, Record, bash
from support.daemon_process import RunningDaemon
from support.real_clients import ClaudeHome, wait_for
from wakeful.testing.scripted_model import script

PUSH = "git push origin main"


class Repository:
    """A bare repository that takes a push only after a switch is set, and counts the pushes."""

    def __init__(self, folder: Path, project: Path) -> None:
        self.path = folder / "bare.git"
        self._runs, self._gate = folder / "runs", folder / "gate"
        _git(folder, "init", "--bare", "-b", "main", str(self.path))
        hook = self.path / "hooks" / "pre-receive"
        hook.write_text(
            f"#!/bin/sh\necho run >> {self._runs}\nwhile [ ! -e {self._gate} ]; do sleep 0.1; done\n"
        )
        hook.chmod(0o755)
        _git(project, "init", "-b", "main")
        _git(project, "-c", "user.name=a", "-c", "user.email=a@b", "commit", "--allow-empty", "-m", "one")
        _git(project, "remote", "add", "origin", str(self.path))

    @property
    def pushes(self) -> int:
        return len(self._runs.read_text().splitlines()) if self._runs.exists() else 0

    def open(self) -> None:
        self._gate.touch()

    def has_main(self) -> bool:
        return (self.path / "refs" / "heads" / "main").exists()


def _git(folder: Path, *arguments: str) -> None:
    subprocess.run(["git", *arguments], cwd=folder, check=True, capture_output=True)


@pytest.fixture
def operator(claude: ClaudeHome, daemon: RunningDaemon) -> Operator:
    daemon.watch(**claude.environ(), WAKEFUL_HEAL__CONFIRM_SECONDS="1")
    daemon.up()
    return Operator(daemon, claude)


@pytest.fixture
def repository(tmp_path: Path, claude: ClaudeHome) -> Repository:
    return Repository(tmp_path, claude.project)


def started(operator: Operator, *steps: Record, where: Sequence[str] = ("--headless",)) -> str:
    asked = ("--prompt", script(*steps, DONE))
    return operator.start(*where, *asked, "--", "claude", "--allowedTools", "Bash")


def killed_in_push(operator: Operator, repository: Repository) -> str:
    """A managed session whose agent was killed while its push was in the hook."""
    session_id = started(operator, bash(PUSH))
    wait_for(lambda: repository.pushes or None, "push")
    alive = operator.wait_until(session_id, "work", state="prompting")
    os.kill(alive["pid"], signal.SIGKILL)
    return session_id


def checkpoints(operator: Operator, *arguments: str) -> list[Record]:
    found: list[Record] = operator.type("checkpoint", "list", *arguments, "--json").json["checkpoints"]
    return found


def asked(operator: Operator) -> Record:
    return wait_for(lambda: checkpoints(operator) or None, "checkpoint", 40)[0]


def test_a_push_that_was_cut_off_waits_for_a_person_and_goes_on(
    operator: Operator, repository: Repository
) -> None:
    """Held with a file to read; the push that lived on has landed, and after `continue` nothing is pushed a second time."""
    session_id = killed_in_push(operator, repository)
    checkpoint = asked(operator)
    assert (checkpoint["number"], checkpoint["subject"], checkpoint["state"]) == (1, session_id, "open")
    assert [f"`{PUSH}`" in each and "remote" in each for each in checkpoint["may_have"]] == [True]
    file = Path(operator.daemon.environ["WAKEFUL_HOME"]) / "checkpoints" / "CHECKPOINT_1.md"
    assert "wakeful checkpoint continue 1" in file.read_text()
    why = operator.type("session", "why", session_id, "--json").json["command"]
    assert why == ["wakeful", "checkpoint", "show", "1"]
    assert "git push" in operator.type("checkpoint", "show", "1").out
    assert "1 checkpoint waits for you: `wakeful checkpoint list`" in operator.type("status").out
    repository.open()
    wait_for(lambda: repository.has_main() or None, "landed push")
    done = operator.type("checkpoint", "continue", "1", "--json")
    assert (done.exit_code, done.json["outcome"]) == (0, "recovered"), done.err + done.out
    operator.wait_until(session_id, "end of its work", state="idle", session_alive=True, attempt=2)
    assert repository.pushes == 1
    again = operator.type("checkpoint", "abort", "1")
    assert (again.exit_code, "is already continued by" in again.err) == (1, True)
    assert "- state: continued" in file.read_text()


@pytest.mark.parametrize("where", [("--headless",), ("--detach",)], ids=["stream", "terminal"])
def test_a_push_that_its_log_does_not_know_of_waits_for_a_person(
    operator: Operator, repository: Repository, where: Sequence[str]
) -> None:
    """A client writes its log a tenth of a second after its tool began; killed before, its stream or the tool tells."""
    # Before that it also has to write down that it was asked for something.
    steps = bash("sleep 0.3"), bash(f"kill -9 $PPID; {PUSH}")
    sessions = [started(operator, *steps, where=where) for _ in range(3)]
    held = wait_for(lambda: found if len(found := checkpoints(operator)) == 3 else None, "checkpoints", 60)
    assert {each["subject"] for each in held} == set(sessions)
    told = [" ".join(each["may_have"]) for each in held]
    assert all("git push" in each for each in told), told
    assert [record["attempt"] for each in sessions if (record := operator.record(each))] == [1, 1, 1]
    repository.open()


def test_after_an_abort_nothing_is_pushed_and_nobody_comes_back(
    operator: Operator, repository: Repository, claude: ClaudeHome
) -> None:
    """What still ran is ended, the session stays stopped, and the repository is as it was."""
    session_id = killed_in_push(operator, repository)
    asked(operator)
    assert claude.tool_pids() != []
    done = operator.type("checkpoint", "abort", "1", "--json")
    assert (done.exit_code, done.json["checkpoint"]["state"]) == (0, "aborted"), done.err + done.out
    assert claude.tool_pids() == []
    repository.open()
    record = operator.record(session_id)
    assert record is not None
    assert (record["session_alive"], record["attempt"]) == (False, 1)
    assert (repository.pushes, repository.has_main()) == (1, False)
    assert checkpoints(operator) == []
    assert checkpoints(operator, "--all")[0]["decided_by"]
    told = operator.type("incidents", "--all").out
    assert ("closed: a person stopped it" in told, "recovered" in told) == (True, False), told
    happened = [each["event"] for each in operator.type("events", "--json").json["events"]]
    assert happened == ["session_unhealthy"]


def test_a_test_run_that_was_cut_off_is_resumed_without_asking(
    operator: Operator, claude: ClaudeHome
) -> None:
    """What is local is repeated by the agent itself, and no checkpoint is ever opened."""
    (claude.project / "Makefile").write_text("test:\n\tsleep 100\n")
    session_id = started(operator, bash("make test"))
    claude.wait_for_tool("sleep")
    alive = operator.wait_until(session_id, "work", state="prompting")
    os.kill(alive["pid"], signal.SIGKILL)
    operator.wait_until(session_id, "end of its work", state="idle", session_alive=True, attempt=2)
    assert checkpoints(operator, "--all") == []


def test_an_agent_may_not_let_another_one_go_on_and_a_person_counts_its_push_as_done(
    operator: Operator, repository: Repository, claude: ClaudeHome, tmp_path: Path
) -> None:
    """A real Claude that runs `wakeful checkpoint continue 1` is refused; after `--done` the other one obeys."""
    session_id = killed_in_push(operator, repository)
    asked(operator)
    said = tmp_path / "said"
    inside = " ".join(
        f"{name}={shlex.quote(operator.daemon.environ[name])}"
        for name in ("WAKEFUL_HOME", "PYTHONPATH")
        if name in operator.daemon.environ
    )
    order = (
        f"{inside} {sys.executable} -m wakeful checkpoint continue 1 > {said} 2>&1; echo exit $? >> {said}"
    )
    started(operator, bash(order))
    wait_for(lambda: (said.exists() and "exit" in said.read_text()) or None, "answer", 40)
    words = said.read_text()
    assert "Only people may decide" in words, words
    assert words.splitlines()[-1] == "exit 1"
    assert checkpoints(operator)[0]["state"] == "open"
    done = operator.type("checkpoint", "continue", "1", "--done", "--json")
    assert (done.exit_code, done.json["checkpoint"]["state"]) == (0, "counted_done"), done.err + done.out
    operator.wait_until(session_id, "end of its work", state="idle", session_alive=True, attempt=2)
    assert repository.pushes == 1
    told = next(each for each in claude.logs() if each.stem in session_id).read_text()
    assert "every call named above has happened. Do not repeat any of them." in told


def test_resume_asks_first_and_goes_on_after_a_call_that_has_happened(
    operator: Operator, repository: Repository
) -> None:
    """In a pipe it names both answers and does nothing; `--done` answers the checkpoint, and nothing is pushed again."""
    session_id = killed_in_push(operator, repository)
    operator.wait_until(session_id, "death", health="dead")
    repository.open()
    wait_for(lambda: repository.has_main() or None, "the push that lived on")
    asked = operator.type("resume", session_id)
    assert (asked.exit_code, "--done" in asked.err, "--yes" in asked.err) == (1, True, True)
    assert operator.type("resume", session_id, "--done", "--yes").exit_code == 2
    assert operator.wait_until(session_id, "its death", health="dead")["session_alive"] is False
    done = operator.type("resume", session_id, "--done")
    assert done.exit_code in (0, 5), done.err + done.out
    operator.wait_until(session_id, "life", session_alive=True)
    assert operator.type("checkpoint", "list", "--json").json["checkpoints"] == []
    assert repository.pushes == 1
