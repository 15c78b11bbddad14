"""The real `wakeful top` in a real terminal, driven by keys alone."""

import json
import os
import shlex
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from websockets.sync.client import unix_connect

from support import claude_transcripts
from support.claude_transcripts import answer, call, prompt
from support.cli_user import assert_ended_quietly
from support.daemon_process import RunningDaemon
from support.gateway_process import end_agents
from support.real_clients import require_tmux, wait_for
from support.stub_claude import install
from support.tmux_server import Server
from wakeful.views.records import FEED_URL

DONE = "5a74ada3-0000-4000-8000-000000000001"
CUT_OFF = "77aa0c1d-0000-4000-8000-000000000002"


@pytest.fixture
def terminal(tmp_path: Path, daemon: RunningDaemon) -> Iterator[Server]:
    require_tmux()
    server = Server(tmp_path / "terminal")
    yield server
    server.end()
    # An agent without a stop outlives its daemon.
    end_agents(daemon.home, daemon)


def shown(terminal: Server) -> str:
    return terminal.tmux("capture-pane", "-p", "-t", "top")


def wait_until(terminal: Server, text: str) -> str:
    return wait_for(lambda: said if text in (said := shown(terminal)) else None, text)


def begun(daemon: RunningDaemon) -> str:
    """A managed session in the middle of a turn that never ends."""
    project = daemon.home / "project"
    project.mkdir()
    started = daemon.run("run", "--json", "--headless", "--", install(daemon.home / "bin"), cwd=project)
    assert started.exit_code == 0, started.err
    session_id = str(started.json["session_id"])
    assert daemon.run("session", "send", session_id, "hang").exit_code == 0
    daemon.wait_for_session(lambda each: each["id"] == session_id and each["active_prompt"], "turn")
    return session_id


def test_it_shows_what_happens_and_says_when_it_cannot(daemon: RunningDaemon, terminal: Server) -> None:
    """Live, paused, told to attach, resized, lost and back; a turn is stopped; `q` leaves the terminal as it was."""
    config, now = daemon.home / "claude", time.clock_gettime(time.CLOCK_REALTIME)
    claude_transcripts.write(config, DONE, prompt(now - 20, DONE), answer(now - 10, DONE))
    daemon.watch(CLAUDE_CONFIG_DIR=config, WAKEFUL_HEAL__CONFIRM_SECONDS="0.2")
    daemon.up()
    words = [f"{name}={shlex.quote(value)}" for name, value in daemon.environ.items()]
    command = (
        f"env -i TERM=tmux-256color {' '.join(words)} {shlex.join(daemon.argv('top'))}; echo left $?; cat"
    )
    terminal.tmux("new-session", "-d", "-x", "80", "-y", "24", "-s", "top", command)
    wait_until(terminal, "· live")
    assert "? Keys" in wait_until(terminal, "→ ")

    claude_transcripts.write(config, CUT_OFF, prompt(now - 5, CUT_OFF), call(now - 4, CUT_OFF, "make deploy"))
    wait_until(terminal, "make deploy")
    daemon.run("pause", "--reason", "repairs")
    assert "repairs" in wait_until(terminal, "PAUSED by")
    daemon.run("resume")
    wait_for(lambda: "PAUSED" not in shown(terminal) or None, "the pause to be over")

    terminal.tmux("send-keys", "-t", "top", "Enter")
    wait_until(terminal, "not open in any")
    terminal.tmux("resize-window", "-t", "top", "-x", "160", "-y", "50")
    wait_until(terminal, "q Quit")
    daemon.kill()
    wait_until(terminal, "Connection lost")
    daemon.up()
    wait_until(terminal, "· live")
    session_id = begun(daemon)
    terminal.tmux("send-keys", "-t", "top", "/")
    wait_until(terminal, "Esc Show all")
    terminal.tmux("send-keys", "-t", "top", "-l", session_id)
    wait_until(terminal, "(1 match")
    terminal.tmux("send-keys", "-t", "top", "Enter")
    wait_until(terminal, "x Stop")
    terminal.tmux("send-keys", "-t", "top", "x")
    wait_until(terminal, "y  yes")
    terminal.tmux("send-keys", "-t", "top", "y")
    assert_ended_quietly(daemon, session_id, quiet_seconds=2.0)
    terminal.tmux("send-keys", "-t", "top", "q")
    wait_until(terminal, "left 0")
    assert terminal.tmux("display-message", "-p", "-t", "top", "#{alternate_on}") == "0"


def test_the_number_of_incidents_is_pushed(daemon: RunningDaemon) -> None:
    """With the change: a viewer that asks nothing hears of an incident that opens and of its end."""
    daemon.watch(CLAUDE_CONFIG_DIR=daemon.home / "claude", WAKEFUL_HEAL__CONFIRM_SECONDS="0.2")
    daemon.up()
    try:
        session_id = begun(daemon)
        with unix_connect(str(daemon.socket), FEED_URL) as feed:
            os.kill(daemon.pid_of(session_id), signal.SIGKILL)

            def notes_until(fits: Callable[[str], bool]) -> None:
                deadline = time.monotonic() + 60
                while time.monotonic() < deadline:
                    status = json.loads(feed.recv(60)).get("status")
                    if status is not None and fits(" ".join(status["daemon"]["notes"])):
                        return
                pytest.fail("no such status was pushed")

            notes_until(lambda notes: "1 incident is open" in notes)
            assert daemon.run("stop", session_id).exit_code in {0, 1}
            notes_until(lambda notes: "incident" not in notes)
    finally:
        end_agents(daemon.home, daemon)


def test_it_needs_a_terminal_and_a_daemon(daemon: RunningDaemon) -> None:
    """One line says so, and nothing is drawn."""
    said = daemon.run("top")
    assert (said.out, said.exit_code) == ("", 2)
    assert "wakeful ls" in said.err
