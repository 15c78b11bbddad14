"""Row "tmux": one listing of all panes against has-session for each session, CPU of both ends counted."""

import asyncio
import resource
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Final

from bench.crowd import Stage
from bench.figures import Figure, milliseconds
from bench.peers import has_sessions
from bench.room import Room, cpu_seconds
from bench.scale import TMUX_SESSIONS
from wakeful.core.process import ProcessState
from wakeful.integrations.tmux.panes import list_panes

ROW: Final = "tmux"
# The kernel counts a process's CPU in ticks of 10 ms, more than one listing takes.
LISTINGS: Final = 25


def measure(stage: Stage) -> list[Figure]:
    with Room() as room, _server(room.tmux / "private") as (socket, server_pid), asyncio.Runner() as runner:
        names = [f"session-{number}" for number in range(TMUX_SESSIONS)]
        _start(socket, names)
        pairs = [
            (
                _cost_seconds(server_pid, lambda: _list(runner, socket)) / LISTINGS,
                _cost_seconds(server_pid, lambda: has_sessions(socket, names)),
            )
            for _ in range(stage.scale.repeats)
        ]
    listing, asking = (median(each) for each in zip(*pairs, strict=True))
    measured = (
        f"{TMUX_SESSIONS} sessions: one listing {milliseconds(listing)} CPU of us, client and server; "
        f"has-session each {milliseconds(asking)}"
    )
    return [Figure(ROW, measured, listing / asking, 0.01)]


@contextmanager
def _server(socket: Path) -> Iterator[tuple[Path, int]]:
    """A server of our own with nothing of the user's configuration, ended with the block."""
    tmux = ["tmux", "-f", "/dev/null", "-S", str(socket)]
    subprocess.run([*tmux, "new-session", "-d", "-s", "first", "sleep 86400"], check=True)
    try:
        asked = subprocess.run([*tmux, "display-message", "-p", "#{pid}"], check=True, capture_output=True)
        yield socket, int(asked.stdout)
    finally:
        subprocess.run([*tmux, "kill-server"], check=True)


def _start(socket: Path, names: list[str]) -> None:
    for name in names:
        subprocess.run(
            ["tmux", "-S", str(socket), "new-session", "-d", "-s", name, "exec sleep 86400"], check=True
        )


def _list(runner: asyncio.Runner, socket: Path) -> None:
    for _ in range(LISTINGS):
        found = runner.run(list_panes(socket))
        assert found.sight is ProcessState.ALIVE, found.reason
        assert len(found.panes) > TMUX_SESSIONS, "every session has a pane"


def _cost_seconds(server_pid: int, work: Callable[[], None]) -> float:
    """CPU of this process, of the programs it ran and of the server."""
    began = time.process_time() + _children_seconds() + cpu_seconds(server_pid)
    work()
    return time.process_time() + _children_seconds() + cpu_seconds(server_pid) - began


def _children_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
