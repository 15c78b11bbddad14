"""Claims about a daemon that is killed between two steps of an act: the next one looks, and never repeats.

Real daemon, real tmux; the agent is a sleep, for what it does is not the point.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from support.daemon_process import RunningDaemon
from support.real_clients import end_tmux, require_tmux, wait_for
from support.tmux_server import Server

NAME = "nightly"


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[RunningDaemon]:
    require_tmux()
    daemon = RunningDaemon(tmp_path / "wakeful")
    yield daemon
    daemon.end()
    end_tmux(state(daemon) / "tmux.sock")


def state(daemon: RunningDaemon) -> Path:
    return Path(daemon.environ["WAKEFUL_HOME"])


def panes(daemon: RunningDaemon) -> list[int]:
    """The processes in panes of the daemon's own tmux server."""
    socket = state(daemon) / "tmux.sock"
    return [row.pid for row in Server(socket).look().panes] if socket.exists() else []


def killed_at(daemon: RunningDaemon, point: str, *command: str) -> None:
    """The daemon dies at this point of the command's act, and comes up again without a fault."""
    daemon.watch(WAKEFUL_FAULTS=f"{point}:1:kill")
    daemon.up()
    cut_off = daemon.run(*command)
    assert (cut_off.exit_code, "The daemon stopped during the request" in cut_off.err) == (3, True), (
        cut_off.err
    )
    wait_for(lambda: daemon.has_ended() or None, "death of the daemon")
    del daemon.environ["WAKEFUL_FAULTS"]
    daemon.up()


RUN = ("run", "--detach", "--name", NAME, "--", "sleep", "600")


def test_killed_before_the_act_nothing_was_done_and_nothing_is(daemon: RunningDaemon) -> None:
    """The intent is there, the process is not: it is not started by the restart either, and its name is free."""
    killed_at(daemon, "act.intended", *RUN)
    assert panes(daemon) == []
    assert daemon.sessions() == []
    again = daemon.run(*RUN)
    assert (again.exit_code, len(panes(daemon))) == (0, 1), again.err


def test_killed_after_the_act_the_session_is_found_and_managed(daemon: RunningDaemon) -> None:
    """The process carries its intent: the next daemon takes it up, once, and can stop it."""
    killed_at(daemon, "act.done", *RUN)
    (pid,) = panes(daemon)
    found = daemon.wait_for_session(lambda record: record["managed"], "managed session")
    assert (found["id"], found["pid"]) == (NAME, pid)
    stopped = daemon.run("session", "stop", NAME, "--json")
    assert stopped.json["outcome"] == "recovered", stopped.out
    assert panes(daemon) == []


def test_killed_in_a_stop_the_next_daemon_says_what_is_left(daemon: RunningDaemon) -> None:
    """A restart stops no session: it goes on and can be stopped again."""
    daemon.up()
    assert daemon.run(*RUN).exit_code == 0
    daemon.end()
    killed_at(daemon, "act.intended", "session", "stop", NAME)
    assert len(panes(daemon)) == 1
    assert daemon.run("session", "stop", NAME, "--json").json["outcome"] == "recovered"


def test_killed_around_a_prompt_the_session_says_that_nobody_saw_it_taken(daemon: RunningDaemon) -> None:
    """What was seen taken before the kill is known; of what was not, the session warns until a prompt was seen taken."""
    killed_at(daemon, "act.done", "run", "--detach", "--name", NAME, "--prompt", "first", "--", "cat")
    assert (len(panes(daemon)), warnings(daemon)) == (1, [])
    daemon.end()
    killed_at(daemon, "act.intended", "session", "send", NAME, "a third time")
    assert ["12 characters" in each for each in warnings(daemon)] == [True]
    assert "12 characters" in daemon.run("session", "why", NAME).out
    sent = daemon.run("session", "send", NAME, "once more")
    assert (sent.exit_code, warnings(daemon)) == (0, []), sent.out + sent.err


def warnings(daemon: RunningDaemon) -> list[str]:
    found: list[str] = daemon.run("session", "status", NAME, "--json").json["supervision"]["warnings"]
    return found
