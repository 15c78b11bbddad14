"""Claims about placing sessions in panes: a real tmux server, real processes, and a witness that takes notes."""

import asyncio
import os
import signal
from pathlib import Path
from typing import Final

import pytest

from support.real_clients import require_tmux, wait_for
from support.tmux_server import Server
from wakeful.core.ids import SessionId
from wakeful.core.process import Process, ProcessState
from wakeful.daemon.observer import PlainProcesses
from wakeful.integrations.tmux.pane_source import PaneSession, TmuxPaneSource
from wakeful.judging.evidence import Pane
from wakeful.linux import proc
from wakeful.linux.machine import boot_id

# Longer than a listing takes on a busy machine.
SHORT_SECONDS: Final = 2.0
LOOKS_MAX: Final = 50
ONE, TWO = SessionId("one"), SessionId("two")


class House:
    """Who lives where, as the source learns and reports it; it counts how often it is asked."""

    def __init__(self, socket: Path) -> None:
        self.tenants: dict[SessionId, PaneSession] = {}
        self.asked = 0
        self.eye = TmuxPaneSource(self.tenant, self, PlainProcesses(), (socket,), SHORT_SECONDS)  # type: ignore[arg-type]

    def tenant(self, session_id: SessionId) -> PaneSession | None:
        self.asked += 1
        return self.tenants.get(session_id)

    def on_pane(self, session_id: SessionId, pane: Pane | None) -> None:
        before = self.tenants[session_id]
        self.tenants[session_id] = PaneSession(session_id, before.holder, before.sight, pane)

    def move_in(self, session_id: SessionId, pid: int) -> Process:
        process = proc.identify(pid)
        assert process is not None, "it was started for this"
        kept = self.tenants.get(session_id)
        self.tenants[session_id] = PaneSession(
            session_id, process, ProcessState.ALIVE, kept.pane if kept else None
        )
        self.eye.request_scan(session_id)
        return process

    def look(self) -> None:
        asyncio.run(self.eye.scan())

    def look_until_sure(self, session_id: SessionId) -> None:
        """A server that is just ending answers somehow; afterwards there is no answer."""
        for _ in range(LOOKS_MAX):
            self.look()
            if self.pane(session_id).sight is not ProcessState.UNKNOWN:
                return

    def pane(self, session_id: SessionId) -> Pane:
        pane = self.tenants[session_id].pane
        assert pane is not None, "nobody showed it"
        return pane


@pytest.fixture
def house(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> House:
    monkeypatch.setenv("TMUX_TMPDIR", str(tmp_path))
    return House(server.socket)


def test_a_session_is_shown_in_the_pane_above_its_holder(server: Server, house: House) -> None:
    """The agent is a child of the pane's shell, and the pane is found by that line."""
    shell = server.start("work", "sh -c 'sleep 600; true'")
    house.move_in(ONE, shell)
    house.look()
    assert (house.pane(ONE).session, house.pane(ONE).sight) == ("work", ProcessState.ALIVE)


def test_what_this_process_started_is_not_in_its_own_pane(
    server: Server, house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A daemon in a pane, and an agent that it started without a terminal: that agent is not seen there."""
    daemon = server.start("daemon", "sh -c 'sleep 600; true'")
    shell = proc.identify(daemon)
    assert shell is not None
    agent = wait_for(lambda: next(iter(proc.children(shell)), None), "agent")
    monkeypatch.setattr(os, "getpid", lambda: daemon)
    house.move_in(ONE, agent.pid)
    house.look()
    assert house.tenants[ONE].pane is None


def test_who_neither_moved_nor_arrived_is_not_asked_about(server: Server, house: House) -> None:
    """A tick with nothing new costs nothing per session."""
    for number in range(20):
        house.move_in(SessionId(f"s{number}"), server.start(f"t{number}", "sleep", "600"))
    house.look()
    house.asked = 0
    house.look()
    assert house.asked == 0


def test_a_renamed_tmux_session_is_followed(server: Server, house: House) -> None:
    """The name people attach by is the one it has now."""
    house.move_in(ONE, server.start("before", "sleep", "600"))
    house.look()
    server.tmux("rename-session", "-t", "before", "after")
    house.look()
    assert (house.pane(ONE).session, house.pane(ONE).sight) == ("after", ProcessState.ALIVE)


def test_a_closed_pane_is_dead_while_its_server_lives(server: Server, house: House) -> None:
    """The server goes on with another session: the pane is gone, the runtime is not."""
    house.move_in(ONE, server.start("mine", "sleep", "600"))
    server.start("other", "sleep", "600")
    house.look()
    server.tmux("kill-session", "-t", "mine")
    house.look()
    assert (house.pane(ONE).sight, house.pane(ONE).runtime) == (ProcessState.DEAD, ProcessState.ALIVE)


def test_a_killed_server_takes_its_panes_along(server: Server, house: House) -> None:
    """No server answers at the socket any more: pane and runtime are dead."""
    house.move_in(ONE, server.start("mine", "sleep", "600"))
    house.look()
    server.end()
    house.look_until_sure(ONE)
    assert (house.pane(ONE).sight, house.pane(ONE).runtime) == (ProcessState.DEAD, ProcessState.DEAD)


def test_a_stopped_server_makes_its_panes_unknown_and_they_return(server: Server, house: House) -> None:
    """A server that does not answer is not dead, and its panes are shown again when it does."""
    house.move_in(ONE, server.start("mine", "sleep", "600"))
    house.look()
    pid = server.pid
    os.kill(pid, signal.SIGSTOP)
    try:
        house.look()
        assert house.pane(ONE).sight is ProcessState.UNKNOWN
        assert house.eye.delay_reason is not None
    finally:
        os.kill(pid, signal.SIGCONT)
    house.look()
    assert house.pane(ONE).sight is ProcessState.ALIVE


def test_a_server_that_dies_while_nobody_knows_is_dead_in_the_end(server: Server, house: House) -> None:
    """First it does not answer, then it is gone: unknown, then dead."""
    house.move_in(ONE, server.start("mine", "sleep", "600"))
    house.look()
    pid = server.pid
    os.kill(pid, signal.SIGSTOP)
    house.look()
    assert house.pane(ONE).sight is ProcessState.UNKNOWN
    os.kill(pid, signal.SIGKILL)
    house.look_until_sure(ONE)
    assert (house.pane(ONE).sight, house.pane(ONE).runtime) == (ProcessState.DEAD, ProcessState.DEAD)


def test_a_session_resumed_outside_tmux_leaves_its_pane(server: Server, house: House) -> None:
    """Its new holder descends from no process there."""
    house.move_in(ONE, server.start("mine", "sleep", "600"))
    house.look()
    house.move_in(ONE, os.getpid())
    house.look()
    assert house.pane(ONE).sight is ProcessState.DEAD


def test_a_neighbour_keeps_its_pane(server: Server, house: House) -> None:
    """What happens to one pane is not told of another."""
    house.move_in(ONE, server.start("mine", "sleep", "600"))
    house.move_in(TWO, server.start("yours", "sleep", "600"))
    house.look()
    server.tmux("kill-session", "-t", "mine")
    house.look()
    assert (house.pane(ONE).sight, house.pane(TWO).sight) == (ProcessState.DEAD, ProcessState.ALIVE)


@pytest.mark.parametrize("given", ["absolute", "relative"])
def test_a_server_elsewhere_is_found_without_a_word_from_the_pane(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, given: str
) -> None:
    """An agent started with a cleared environment has no `$TMUX`; its server is still its ancestor."""
    require_tmux()
    monkeypatch.setenv("TMUX_TMPDIR", str(tmp_path))
    place = tmp_path / "elsewhere"
    place.mkdir()
    monkeypatch.chdir(place)
    server = Server(Path("sock") if given == "relative" else place / "sock")
    house = House(tmp_path / "nothing")
    try:
        house.move_in(ONE, server.start("work", "env", "-i", "/bin/sleep", "600"))
        monkeypatch.chdir(tmp_path)
        house.look()
        assert (house.pane(ONE).socket, house.pane(ONE).session) == (str(place / "sock"), "work")
    finally:
        monkeypatch.chdir(place)
        server.end()


def test_a_socket_left_out_of_the_kernels_list_is_found_at_the_next_look(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The list skips rows while others open and close sockets: one reading without it proves nothing."""
    monkeypatch.setenv("TMUX_TMPDIR", str(tmp_path))
    house = House(tmp_path / "nothing")
    house.move_in(ONE, server.start("work", "sleep", "600"))
    with monkeypatch.context() as skipped:
        skipped.setattr("wakeful.integrations.tmux.pane_source.socket_of_server", lambda _pid: None)
        house.look()
    assert house.tenants[ONE].pane is None
    house.look()
    assert house.pane(ONE).session == "work"


def test_a_dead_agents_pane_is_looked_for_after_a_restart(server: Server, house: House) -> None:
    """Only its pane is remembered: that it is still there, and under which name, is learnt from tmux."""
    shell = server.start("before", "sleep", "600")
    agent = Process(1, 1, boot_id())
    process = proc.identify(shell)
    assert process is not None
    known = Pane(str(server.socket), "before", "%0", process, ProcessState.ALIVE, ProcessState.UNKNOWN)
    server.tmux("rename-session", "-t", "before", "after")
    house.tenants[ONE] = PaneSession(ONE, agent, ProcessState.DEAD, known)
    house.eye.request_scan(ONE)
    house.look()
    assert (house.pane(ONE).session, house.pane(ONE).runtime) == ("after", ProcessState.ALIVE)
    server.end()
    house.look_until_sure(ONE)
    assert house.pane(ONE).sight is ProcessState.DEAD
