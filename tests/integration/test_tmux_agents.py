"""The tmux runtime alone: what it sees, remembers and never shows."""

import asyncio
import os
import shutil
import signal
import subprocess
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import TypeVar

import pytest
from msgspec.structs import replace

from support.real_clients import end_tmux, require_tmux, wait_for
from support.tmux_server import Server
from wakeful.agents.model import AgentEvent, AgentObservation, AgentRuntime, AgentSpec, event_of
from wakeful.agents.runtime import EngineGone, NotReady
from wakeful.core.process import Process, ProcessState
from wakeful.integrations.tmux.agent_runtime import (
    SERVER_LOSS_SECONDS,
    AgentMarks,
    TmuxAgentRuntime,
    runs_on_server,
)
from wakeful.linux import proc
from wakeful.testing.virtual_clock import VirtualClock

SECRET = "a-value-nobody-may-read"
T = TypeVar("T")


def spec(name: str = "bot", *command: str, ready: str = "", ready_seconds: float = 20) -> AgentSpec:
    words = command or ("sleep", "1000")
    return AgentSpec(
        name=name,
        runtime=AgentRuntime.TMUX,
        command=words,
        workdir="/",
        ready=ready,
        ready_seconds=ready_seconds,
    )


class Place:
    """A runtime with a server of its own, and a clock that stands still."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.socket = folder / "t.sock"
        self.clock = VirtualClock()
        self.server = Server(self.socket)
        # What a runtime that lives on remembers of the servers it lost.
        self.lost_since: dict[Process | None, float] = {}

    def do(self, act: Callable[[TmuxAgentRuntime], Awaitable[T]], deadline_seconds: float = 10) -> T:
        async def done() -> T:
            agents = TmuxAgentRuntime(
                str(self.socket), str(self.folder / "agents"), self.clock, deadline_seconds
            )
            vars(agents)["_lost_since"] = self.lost_since
            return await act(agents)

        return asyncio.run(done())

    def start(self, wanted: AgentSpec, environ: dict[str, str] | None = None) -> AgentObservation:
        return self.do(lambda agents: agents.start(wanted, 3, environ or {}))

    def look(self, wanted: AgentSpec) -> AgentObservation:
        return self.do(lambda agents: agents.inspect(wanted))


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    require_tmux()
    made = Place(tmp_path)
    yield made
    end_tmux(made.socket)


def test_what_was_never_started_is_gone(place: Place) -> None:
    """No server, no session, no memory: stopped, and nothing is left behind by looking."""
    assert event_of(place.look(spec())) is AgentEvent.GONE
    assert list(place.folder.iterdir()) == []


def test_a_start_carries_epoch_and_values_and_shows_no_value(place: Place) -> None:
    """The agent has its variables; no command line, file or option of tmux holds their values."""
    observation = place.start(spec(), {"API_KEY": SECRET})
    assert (event_of(observation), observation.epoch, observation.tmux_session) == (
        AgentEvent.READY,
        3,
        "agent-bot",
    )
    assert observation.pid is not None
    assert proc.environ_value(observation.pid, "API_KEY") == SECRET
    assert proc.environ_value(observation.pid, "WAKEFUL_EPOCH") == "3"
    assert place.server.tmux("display-message", "-p", "-t", "=agent-bot:", "#{@wakeful_epoch}") == "3"
    commands = subprocess.run(("ps", "-eo", "args"), capture_output=True, text=True, check=True).stdout
    assert SECRET not in commands
    written = [each.read_text() for each in (place.folder / "agents").iterdir() if each.is_file()]
    assert SECRET not in "".join(written)


def test_every_way_to_end_without_a_stop_is_stale(place: Place) -> None:
    """Killed, its session closed, its pane closed beside another one."""
    for end in ("kill", "session", "pane"):
        observation = place.start(spec())
        assert observation.pid is not None
        if end == "kill":
            os.kill(observation.pid, signal.SIGKILL)
        elif end == "session":
            place.server.tmux("kill-session", "-t", "=agent-bot")
        else:
            place.server.tmux("split-window", "-t", "=agent-bot:", "sleep", "1000")
            os.kill(observation.pid, signal.SIGKILL)
        wait_for(
            lambda: event_of(place.look(spec())) is AgentEvent.SESSION_LOST or None, f"stale after {end}"
        )


def test_a_stop_ends_children_and_a_shell_that_stays(place: Place) -> None:
    """What the agent started goes with it, also behind a shell that ignores polite signals."""
    shelly = spec("bot", "sh", "-c", "trap '' INT TERM; sleep 1000 & exec sh -i")
    place.start(shelly)
    gone = place.do(lambda agents: agents.stop(shelly))
    assert event_of(gone) is AgentEvent.GONE
    left = proc.processes_with_variable("WAKEFUL_SESSION", "agent-bot", os.getuid())
    assert [each for each in left if runs_on_server(str(place.server.socket), each.pid)] == []


@pytest.mark.parametrize("own", [True, False])
def test_a_stop_ends_what_was_started_on_its_own_server_only(place: Place, own: bool) -> None:
    """Another daemon of the same user may have an agent of this name: its tools are left alone."""
    place.start(spec())
    socket = place.socket if own else place.folder / "another.sock"
    marks = {"WAKEFUL_SESSION": "agent-bot", "TMUX": f"{socket},1,0", "PATH": os.environ["PATH"]}
    tool = subprocess.Popen(("sleep", "1000"), env=marks, stdin=subprocess.DEVNULL, start_new_session=True)
    try:
        wait_for(lambda: proc.environ_value(tool.pid, "TMUX"), "its environment")
        place.do(lambda agents: agents.stop(spec()))
        assert (tool.poll() is not None) == own
    finally:
        tool.kill()
        tool.wait()


def test_a_session_somebody_made_by_hand_is_adopted(place: Place) -> None:
    """Without our marks, by its name alone."""
    pid = place.server.start("agent-bot", "sleep", "1000")
    observation = place.look(spec())
    assert (event_of(observation), observation.pid, observation.epoch) == (AgentEvent.READY, pid, 0)


def test_strangers_are_found_by_name(place: Place) -> None:
    """Sessions that are called like agents and declared nowhere."""
    place.server.start("agent-other", "sleep", "1000")
    place.server.start("unrelated", "sleep", "1000")
    found = place.do(lambda agents: agents.find_undeclared(frozenset({"bot"})))
    assert [each.name for each in found] == ["other"]


def test_a_server_that_hangs_prevents_seeing(place: Place) -> None:
    """Unknown, with the reason, within the deadline; and nothing can be stopped blindly."""
    place.start(spec())
    server = place.server.pid
    os.kill(server, signal.SIGSTOP)
    try:
        observation = place.do(lambda agents: agents.inspect(spec()), deadline_seconds=0.5)
        assert event_of(observation) is AgentEvent.UNSEEN
        assert "no complete answer" in observation.reason
        with pytest.raises(EngineGone):
            place.do(lambda agents: agents.stop(spec()), deadline_seconds=0.5)
    finally:
        os.kill(server, signal.SIGCONT)
    assert event_of(place.look(spec())) is AgentEvent.READY


def test_a_server_that_died_is_doubted_first(place: Place) -> None:
    """Unknown for a few seconds; then a second look at the process settles it."""
    place.start(spec())
    os.kill(place.server.pid, signal.SIGKILL)
    wait_for(lambda: event_of(place.look(spec())) is AgentEvent.UNSEEN or None, "loss of sight")
    place.clock.advance(SERVER_LOSS_SECONDS)
    wait_for(lambda: event_of(place.look(spec())) is AgentEvent.SESSION_LOST or None, "second look")


def test_a_loss_that_was_settled_is_not_doubted_again(place: Place) -> None:
    """The next daemon remembers no servers: what was stale stays stale, and can be started at once."""
    place.start(spec())
    os.kill(place.server.pid, signal.SIGKILL)
    wait_for(lambda: event_of(place.look(spec())) is AgentEvent.UNSEEN or None, "loss of sight")
    place.clock.advance(SERVER_LOSS_SECONDS)
    wait_for(lambda: event_of(place.look(spec())) is AgentEvent.SESSION_LOST or None, "second look")
    place.lost_since.clear()
    found = place.look(spec())
    assert (event_of(found), found.reason) == (AgentEvent.SESSION_LOST, "its tmux server ended")
    assert event_of(place.start(spec())) is AgentEvent.READY


def test_the_end_of_the_doubt_is_told(place: Place) -> None:
    """The hub looks again at once: its next round may be ten seconds away."""

    async def scene(agents: TmuxAgentRuntime) -> str:
        told = asyncio.ensure_future(anext(agents.changes()))
        await agents.inspect(spec())
        await asyncio.sleep(0)
        place.clock.advance(SERVER_LOSS_SECONDS)
        async with asyncio.timeout(5):
            return await told

    place.start(spec())
    os.kill(place.server.pid, signal.SIGKILL)
    wait_for(lambda: place.server.look().sight is ProcessState.DEAD or None, "end of the server")
    assert place.do(scene) == ""


def test_a_server_that_took_its_place_does_not_make_agents_stale(place: Place) -> None:
    """The one that showed them is gone: unknown for as long as without any server, whatever serves the socket now."""
    for name in ("one", "two"):
        place.start(spec(name))
    os.kill(place.server.pid, signal.SIGKILL)
    wait_for(lambda: place.server.look().sight is ProcessState.DEAD or None, "end of the server")
    place.server.start("somebody", "sleep", "1000")
    wait_for(lambda: _unseen(place.look(spec("one"))), "loss of sight")
    assert event_of(place.look(spec("two"))) is AgentEvent.UNSEEN
    place.clock.advance(SERVER_LOSS_SECONDS)
    for name in ("one", "two"):
        observation = place.look(spec(name))
        assert (event_of(observation), observation.reason) == (
            AgentEvent.SESSION_LOST,
            "its tmux server ended",
        )
    assert event_of(place.start(spec("one"))) is AgentEvent.READY
    assert event_of(place.look(spec("two"))) is AgentEvent.SESSION_LOST


def test_an_agent_that_outlives_its_server_stays_unknown(place: Place) -> None:
    """A living process is never called dead; a stop ends it by its identity."""
    stubborn = spec("bot", "sh", "-c", "trap '' HUP; while :; do sleep 1; done")
    observation = place.start(stubborn)
    mark = AgentMarks(str(place.folder / "agents")).find("bot")
    assert observation.pid is not None
    assert mark is not None
    os.kill(place.server.pid, signal.SIGKILL)
    wait_for(lambda: _unseen(place.look(stubborn)), "loss of sight")
    place.clock.advance(10 * SERVER_LOSS_SECONDS)
    found = place.look(stubborn)
    assert event_of(found) is AgentEvent.UNSEEN
    assert "still runs without a terminal" in found.reason
    assert event_of(place.do(lambda agents: agents.stop(stubborn))) is AgentEvent.GONE
    assert mark.process is not None
    assert proc.state_of(mark.process) is ProcessState.DEAD


def _unseen(glimpse: AgentObservation) -> AgentObservation | None:
    return glimpse if event_of(glimpse) is AgentEvent.UNSEEN else None


def test_what_a_reboot_took_is_stale(place: Place) -> None:
    """A process of another boot is dead for certain: nothing is doubted."""
    place.start(spec())
    marks = AgentMarks(str(place.folder / "agents"))
    mark = marks.find("bot")
    assert mark is not None
    assert mark.process is not None
    end_tmux(place.socket)
    wait_for(lambda: place.server.look().sight is ProcessState.DEAD or None, "end of the server")
    marks.save("bot", replace(mark, process=replace(mark.process, boot_id="an earlier one")))
    observation = place.look(spec())
    assert (event_of(observation), observation.reason) == (AgentEvent.SESSION_LOST, "the host was restarted")


def test_two_hundred_looks_cost_one_listing(place: Place, tmp_path: Path) -> None:
    """All who ask at once get their answers from one question to the server."""
    place.start(spec())
    counter, folder = tmp_path / "count", tmp_path / "bin"
    folder.mkdir()
    real = subprocess.run(("which", "tmux"), capture_output=True, text=True, check=True).stdout.strip()
    stand_in = folder / "tmux"
    stand_in.write_text(f'#!/bin/sh\necho . >> {counter}\nexec {real} "$@"\n')
    stand_in.chmod(0o755)
    path = os.environ["PATH"]
    os.environ["PATH"] = f"{folder}:{path}"
    try:
        specs = [spec(f"bot{number}") for number in range(199)]

        async def all_of(agents: TmuxAgentRuntime) -> list[AgentObservation]:
            return await asyncio.gather(*(agents.inspect(each) for each in (spec(), *specs)))

        seen = place.do(all_of)
    finally:
        os.environ["PATH"] = path
    assert [event_of(each) for each in seen] == [AgentEvent.READY] + [AgentEvent.GONE] * 199
    assert counter.read_text() == ".\n"


def test_the_last_agent_leaves_the_server_to_the_sessions_in_it(place: Place) -> None:
    """A session that was run beside agents still ends by itself, and never with its server."""
    place.start(spec())
    place.server.start("run", "cat")
    place.do(lambda agents: agents.stop(spec()))
    place.server.tmux("send-keys", "-t", "=run:", "C-d")
    wait_for(lambda: place.server.look().panes == () or None, "end of the session")
    assert place.server.look().sight is ProcessState.ALIVE


def test_an_agent_at_a_dialog_says_which_instead_of_what_it_never_showed(
    place: Place, tmp_path: Path
) -> None:
    """The dialog and the way to answer it are the reason that it is not ready."""
    client = tmp_path / "claude"
    shutil.copy("/bin/bash", client)
    asks = "printf 'Select login method:\\n \u276f 1. Claude account'; sleep 600; :"
    wanted = spec("bot", str(client), "-c", asks, ready="never", ready_seconds=1.0)
    with pytest.raises(NotReady, match=r"\(login\): `wakeful attach bot` and answer it"):
        place.start(wanted)
    observation = place.look(wanted)
    assert (observation.ready, "(login)" in observation.reason) == (False, True)


def test_a_client_that_ends_before_it_showed_anything_was_never_ready(place: Place, tmp_path: Path) -> None:
    """It checks something for a second or two, and gives up: no start that worked, and its words are the reason."""
    client = tmp_path / "claude"
    shutil.copy("/bin/bash", client)
    gives_up = "sleep 1.5; echo cannot be used with root privileges; exit 1"
    with pytest.raises(NotReady, match="it ended at once: cannot be used with root privileges"):
        place.start(spec("bot", str(client), "-c", gives_up))


def test_a_client_is_ready_once_it_shows_its_input_line_or_a_dialog(place: Place, tmp_path: Path) -> None:
    """Without a pattern; its session says what the dialog asks. A screen that is not known is not ready."""
    client = tmp_path / "claude"
    shutil.copy("/bin/bash", client)
    shown = {
        "line": "\u2500" * 40 + "\n\u276f \n" + "\u2500" * 40,
        "ask": "Select login method:\n \u276f 1. Claude",
    }
    for name, text in shown.items():
        command = (str(client), "-c", f"sleep 1; printf '{text}\\033[2;3H'; sleep 600; :")
        assert place.start(spec(name, *command)).agent is ProcessState.ALIVE
        assert "\u276f" in place.server.tmux("capture-pane", "-p", "-t", f"=agent-{name}:")
    with pytest.raises(NotReady, match="neither an input line nor a dialog"):
        place.start(spec("odd", str(client), "-c", "echo something; sleep 600; :", ready_seconds=1.0))
