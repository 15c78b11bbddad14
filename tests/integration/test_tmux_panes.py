"""Claims about looking into tmux: a real server on a private socket, and programs that only pretend to be tmux."""

import asyncio
import os
import signal
import socket
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest

from support.tmux_server import Server
from wakeful.core.process import ProcessState
from wakeful.integrations.tmux.panes import Listing, list_panes, sockets
from wakeful.linux import proc

PATIENCE_SECONDS: Final = 30.0
SHORT_SECONDS: Final = 0.3


@pytest.fixture
def pretend(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Path]:
    """Put a shell script in tmux's place; the file that will hold its pid."""

    def install(script: str) -> Path:
        folder, pid_file = tmp_path / "bin", tmp_path / "pid"
        folder.mkdir()
        program = folder / "tmux"
        program.write_text(f"#!/bin/sh\necho $$ > {pid_file}\n{script}\n")
        program.chmod(0o755)
        monkeypatch.setenv("PATH", str(folder), prepend=os.pathsep)
        return pid_file

    return install


def eventually(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not condition():
        assert time.monotonic() < deadline, "it never came true"
        time.sleep(0.01)


def timed(socket: Path, deadline_seconds: float = SHORT_SECONDS) -> tuple[Listing, float]:
    began = time.monotonic()
    listing = asyncio.run(list_panes(socket, deadline_seconds))
    return listing, time.monotonic() - began


def ended(pid_file: Path) -> bool:
    return proc.identify(int(pid_file.read_text())) is None


def test_one_listing_shows_every_pane(server: Server) -> None:
    """Sessions, windows and panes with the processes in them."""
    one = server.start("one", "sleep", "600")
    two = server.start("two", "sleep", "601")
    split = int(server.tmux("split-window", "-d", "-P", "-F", "#{pane_pid}", "-t", "two", "sleep", "602"))
    listing = server.look()
    assert listing.sight is ProcessState.ALIVE
    assert listing.socket == server.socket
    assert {(pane.session, pane.pid, pane.dead) for pane in listing.panes} == {
        ("one", one, False),
        ("two", two, False),
        ("two", split, False),
    }
    assert len({pane.pane_id for pane in listing.panes}) == 3
    eventually(lambda: proc.command(split) == ("sleep", "602"))


def test_an_agent_that_left_its_shell_behind_leaves_the_pane(server: Server) -> None:
    """tmux alive is not agent alive: the pane and its shell stay, the agent below it is gone."""
    shell = server.start("agent", "bash", "--norc", "-i")
    server.tmux("send-keys", "-t", "agent", "-l", "exec 2>/dev/null; sleep 600")
    server.tmux("send-keys", "-t", "agent", "Enter")
    inside = proc.identify(shell) or pytest.fail("the shell is not there")
    eventually(lambda: [proc.comm(each.pid) for each in proc.children(inside)] == ["sleep"])
    (agent,) = proc.children(inside)
    os.kill(agent.pid, signal.SIGKILL)
    eventually(lambda: proc.state_of(agent) is ProcessState.DEAD)
    assert (server.pane().pid, server.pane().dead) == (shell, False)


def test_a_pane_that_stays_after_its_program_is_dead(server: Server) -> None:
    """With remain-on-exit the pane is listed, and says itself that it is empty."""
    pid = server.start("agent", "sleep", "600")
    server.tmux("set-option", "-t", "agent", "remain-on-exit", "on")
    os.kill(pid, signal.SIGKILL)
    eventually(lambda: server.pane().dead)


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("a b", "a b"),
        ("ünï ✳ 漢", "ünï ✳ 漢"),
        ("tab\there", "tab\\there"),
        ("new\nline", "new\\nline"),
        ("#[fg=red]x", "#[fg=red]x"),
        ("'; $(id) `id`", "'; $(id) `id`"),
        ("-S", "-S"),
    ],
)
def test_a_session_with_an_odd_name_is_listed(server: Server, name: str, shown: str) -> None:
    """Nothing in a name is obeyed, splits a row or is lost without need."""
    pid = server.start(name, "sleep", "600")
    pane = server.pane()
    assert (pane.session, pane.pid) == (shown, pid)


def test_a_session_cannot_forge_a_row(server: Server) -> None:
    """It may be renamed to anything, newlines and all; it stays one pane."""
    pid = server.start("agent", "sleep", "600")
    server.tmux("rename-session", "-t", "agent", "x\ny\t%9\x1b[2J")
    pane = server.pane()
    assert pane.pid == pid
    assert pane.session.isprintable()


def test_a_server_without_sessions_is_alive(server: Server) -> None:
    """No pane is an answer, not a failure."""
    server.start("agent", "sleep", "600")
    server.tmux("set-option", "-g", "exit-empty", "off")
    server.tmux("kill-session", "-t", "agent")
    assert server.look() == Listing(server.socket, ProcessState.ALIVE)


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL])
def test_a_server_that_was_ended_is_dead(server: Server, how: signal.Signals) -> None:
    """Asked to end or killed with its socket left behind: no server answers there."""
    server.start("agent", "sleep", "600")
    pid = server.pid
    os.kill(pid, how)
    eventually(lambda: proc.identify(pid) is None)
    assert server.look().sight is ProcessState.DEAD


def test_a_socket_that_is_gone_is_dead(tmp_path: Path) -> None:
    """There is nothing anybody could serve."""
    assert timed(tmp_path / "never", PATIENCE_SECONDS)[0].sight is ProcessState.DEAD


def test_a_server_that_hangs_is_unknown(server: Server) -> None:
    """Stopped, it neither answers nor is it gone; the look ends at its deadline, and later it is alive."""
    server.start("agent", "sleep", "600")
    pid = server.pid
    os.kill(pid, signal.SIGSTOP)
    try:
        listing, took_seconds = timed(server.socket)
        assert listing.sight is ProcessState.UNKNOWN
        assert listing.reason == "tmux gave no complete answer within 0.3 s"
        assert SHORT_SECONDS <= took_seconds < SHORT_SECONDS + 5.0
    finally:
        os.kill(pid, signal.SIGCONT)
    assert server.look().sight is ProcessState.ALIVE


@pytest.mark.parametrize(
    "script", ["exec sleep 600", "trap '' TERM INT HUP; while :; do read x < /dev/zero; done"]
)
def test_a_tmux_that_hangs_is_ended_at_the_deadline(
    pretend: Callable[[str], Path], tmp_path: Path, script: str
) -> None:
    """Whatever it ignores, it is gone when the answer is given, and the answer is unknown."""
    pid_file = pretend(script)
    listing, took_seconds = timed(tmp_path / "socket")
    assert listing.sight is ProcessState.UNKNOWN
    assert took_seconds < SHORT_SECONDS + 5.0
    assert ended(pid_file)


def test_a_server_that_came_up_after_tmux_was_refused_is_asked_again(
    pretend: Callable[[str], Path], tmp_path: Path
) -> None:
    """Many are started at once, and one of them asks before the first server serves: that is not a server out of sight."""
    asked = tmp_path / "asked"
    pretend(
        f"if [ -e {asked} ]; then echo 'no current target' >&2; exit 1; fi; touch {asked}; "
        "echo 'error connecting to socket (No such file or directory)' >&2; exit 1"
    )
    with socket.socket(socket.AF_UNIX) as serving:
        serving.bind(str(tmp_path / "socket"))
        serving.listen()
        listing, _ = timed(tmp_path / "socket", PATIENCE_SECONDS)
    assert (listing.sight, listing.panes, listing.reason) == (ProcessState.ALIVE, (), "")


def test_a_tmux_that_leaves_its_output_open_does_not_hold_us(
    pretend: Callable[[str], Path], tmp_path: Path
) -> None:
    """It exited, but a child of it keeps the pipe: half an answer is none, and the deadline holds."""
    child_file = tmp_path / "child"
    pretend(f"sleep 600 & echo $! > {child_file}; exit 0")
    try:
        listing, took_seconds = timed(tmp_path / "socket")
        assert listing.sight is ProcessState.UNKNOWN
        assert took_seconds < SHORT_SECONDS + 5.0
    finally:
        os.kill(int(child_file.read_text()), signal.SIGKILL)


def test_a_tmux_that_prints_without_end_is_cut_off(pretend: Callable[[str], Path], tmp_path: Path) -> None:
    """It is ended when it has said too much, long before the deadline."""
    pid_file = pretend("exec yes")
    listing, took_seconds = timed(tmp_path / "socket", PATIENCE_SECONDS)
    assert listing.sight is ProcessState.UNKNOWN
    assert took_seconds < PATIENCE_SECONDS
    assert ended(pid_file)


def test_a_tmux_that_answers_otherwise_is_unknown(pretend: Callable[[str], Path], tmp_path: Path) -> None:
    """A form we did not ask for is not read as an empty server."""
    pretend("echo hello")
    listing, _ = timed(tmp_path / "socket", PATIENCE_SECONDS)
    assert listing == Listing(tmp_path / "socket", ProcessState.UNKNOWN, reason="tmux sent an unknown answer")


def test_a_refusal_is_unknown_and_says_why(server: Server, pretend: Callable[[str], Path]) -> None:
    """The server lives and this tmux may not talk to it: its words are passed on, cleaned."""
    server.start("agent", "sleep", "600")
    pretend("printf '\\033[31maccess not allowed\\n' >&2; exit 1")
    listing, _ = timed(server.socket, PATIENCE_SECONDS)
    assert (listing.sight, listing.reason) == (ProcessState.UNKNOWN, "access not allowed")


def test_a_missing_tmux_is_unknown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not being able to ask says nothing about the sessions."""
    monkeypatch.setenv("PATH", str(tmp_path))
    listing, _ = timed(tmp_path / "socket")
    assert listing.sight is ProcessState.UNKNOWN
    assert listing.reason == "tmux cannot be run: No such file or directory"


async def test_a_cancelled_look_leaves_no_process(pretend: Callable[[str], Path], tmp_path: Path) -> None:
    """A wait that is cancelled leaves no tmux behind."""
    pid_file = pretend("exec sleep 600")
    looking = asyncio.create_task(list_panes(tmp_path / "socket", PATIENCE_SECONDS))
    while not pid_file.exists() or not pid_file.read_text():  # noqa: ASYNC110 - a script writes it
        await asyncio.sleep(0.01)
    looking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await looking
    assert ended(pid_file)


def test_a_running_server_is_found_where_tmux_puts_it(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The default folder and a socket elsewhere are both looked at."""
    monkeypatch.setenv("TMUX_TMPDIR", str(tmp_path))
    server.start("agent", "sleep", "600")
    default = tmp_path / f"tmux-{os.getuid()}" / "default"
    own = Server(default)
    default.parent.mkdir(mode=0o700)
    try:
        own.start("agent", "sleep", "600")
        assert sockets(os.getuid(), extra=[server.socket]) == sorted([default, server.socket])
    finally:
        own.tmux("kill-server")
