"""Agents in containers of a real engine: started, seen from the host, lost in every way, and never dead for a bad look."""

import asyncio
import json
import os
import shutil
import signal
import time
from pathlib import Path
from typing import Any, Final

import msgspec
import pytest
from msgspec import Struct

from support.docker_engine import IMAGE, DockerEngine, make_image
from support.docker_fixture import heard, in_container, look_until, runtime, spec, until, with_runtime
from support.real_clients import wait_for
from wakeful.agents.model import AgentEvent, AgentObservation, AgentSpec, event_of
from wakeful.agents.runtime import CommandMissing, ImageMissing, NotReady
from wakeful.core.process import Process, ProcessState
from wakeful.integrations.docker.agent_runtime import DockerRuntime
from wakeful.integrations.docker.engine import Engine
from wakeful.integrations.docker.launch import AgentAlreadyRunning, AgentLaunch
from wakeful.integrations.docker.spec import AgentRefused
from wakeful.linux.terminate import SignalSteps, TerminationResult

pytestmark = pytest.mark.usefixtures("quick_starts")


class Started(Struct, frozen=True):
    """An agent in a container that several tests look at and none changes."""

    engine: DockerEngine
    glimpse: AgentObservation
    shown: dict[str, Any]

    @property
    def screen(self) -> list[str]:
        return in_container(self.engine, "tmux", "capture-pane", "-p").split()


@pytest.fixture(scope="module")
def started(docker_engine: DockerEngine, tmp_path_factory: pytest.TempPathFactory) -> Started:
    """Declared with everything but a network. The first test that needs an engine for itself removes it."""
    docker_engine.clear()
    given = tmp_path_factory.mktemp("given")
    (given / "here").write_text("seen")
    for folder in (given, *given.parents[:3]):
        folder.chmod(folder.stat().st_mode | 0o055)
    declared = spec(
        "bot",
        *("sh", "-c", 'echo "$GIVEN-$LEFT_OUT"; pwd; cat /given/here; exec sleep 1000'),
        env=("GIVEN",),
        workdir="/code",
        user="plain",
        mounts=(f"{given}:/given:ro",),
    )
    environ = {"GIVEN": "s3cret-value", "LEFT_OUT": "no"}
    observation = with_runtime(docker_engine, lambda made: made.start(declared, 7, environ))
    return Started(docker_engine, observation, docker_engine.inspect("agent-bot"))


def test_an_agent_is_started_in_tmux_beside_a_sleeping_pid_1(started: Started) -> None:
    """PID 1 sleeps, the agent runs in tmux session `agent`, and labels carry its name and epoch."""
    observation, shown = started.glimpse, started.shown
    assert event_of(observation) is AgentEvent.READY
    assert (observation.epoch, observation.tmux_session, observation.container_id) == (
        7,
        "agent",
        shown["Id"],
    )
    assert shown["Config"]["Labels"] == {"wakeful.agent": "bot", "wakeful.epoch": "7"}
    assert shown["Config"]["Entrypoint"] + shown["Config"]["Cmd"] == ["sleep", "infinity"]
    listed = in_container(
        started.engine, "tmux", "list-panes", "-a", "-F", "#{session_name} #{pane_current_command}"
    )
    assert listed == "agent sleep"


def test_a_program_in_a_container_gets_no_secret_of_ours(started: Started) -> None:
    """Whatever a declaration passes through: a setting of Wakeful stays on the host."""

    async def environ() -> str:
        async with runtime(started.engine) as made:
            given = {"WAKEFUL_GATEWAY__TOKEN": "1:s3cret", "GIVEN": "yes"}
            ran = await made._engine.run("agent-bot", ("env",), environ=given)
            return ran.output.decode()

    shown = asyncio.run(environ())
    assert ("GIVEN=yes" in shown, "s3cret" in shown) == (True, False)


def test_a_container_has_no_privileges_and_no_network_unless_asked(started: Started) -> None:
    """What is not declared is not given."""
    host = started.shown["HostConfig"]
    assert (host["Privileged"], host["CapAdd"], host["NetworkMode"]) == (False, None, "none")
    assert (host["PidMode"], host["Devices"], host["Binds"]) == ("", None, None)
    assert [each["Destination"] for each in started.shown["Mounts"]] == ["/given"]


def test_values_of_the_environment_reach_the_agent_and_nobody_else(started: Started) -> None:
    """The engine does not show them, no command line holds them, and what is not named is not passed."""
    assert started.screen[0] == "s3cret-value-"
    assert "s3cret" not in json.dumps(started.shown)
    assert "s3cret" not in in_container(started.engine, "sh", "-c", "cat /proc/[0-9]*/cmdline")


def test_a_session_keeps_what_is_declared_of_its_place(started: Started) -> None:
    """User, working folder and mounts are those of the specification."""
    assert started.screen[1:] == ["/code", "seen"]
    assert started.shown["Mounts"][0]["RW"] is False
    assert started.shown["Config"]["User"] == "plain"


@pytest.mark.parametrize("by", ["exit", "tmux server"])
def test_a_lost_session_is_told_at_once(docker: DockerEngine, by: str) -> None:
    """The agent exits, or its tmux server is killed with -9: told by a pidfd, seen as lost, the container alive."""

    async def scene(made: DockerRuntime) -> tuple[AgentObservation, float]:
        async with heard(made) as names:
            await made.start(spec(), 1, {})
            await look_until(made, spec(), AgentEvent.READY)
            names.clear()
            victim = "#{pane_pid}" if by == "exit" else "#{pid}"
            pid = in_container(docker, "tmux", "display-message", "-p", "-t", "agent:", victim)
            names.clear()
            await asyncio.to_thread(in_container, docker, "sh", "-c", f"kill -9 {pid}")
            began = time.monotonic()
            await until(lambda: "bot" in names)
            return await look_until(made, spec(), AgentEvent.SESSION_LOST, 1.0), time.monotonic() - began

    observation, seconds = with_runtime(docker, scene)
    assert (observation.container, observation.agent) == (ProcessState.ALIVE, ProcessState.DEAD)
    assert "session dead" in observation.reason
    assert seconds < 1.0


@pytest.mark.parametrize("host_sees", [True, False])
@pytest.mark.parametrize("ending", ["exec sh", "sh"])
async def test_an_agent_that_exited_to_a_shell_is_lost(
    docker: DockerEngine, ending: str, host_sees: bool
) -> None:
    """tmux alive is not agent alive, whether a shell took the agent's place or runs below its script."""
    declared = spec("bot", "sleep", "1000")
    async with runtime(docker, sees_processes=host_sees) as made:
        await made.start(spec("bot", "sh", "-c", f"sleep 1000; {ending}"), 1, {})
        await look_until(made, declared, AgentEvent.READY)
        pane = in_container(docker, "tmux", "display-message", "-p", "-t", "agent:", "#{pane_pid}")
        in_container(docker, "sh", "-c", f"read agent < /proc/{pane}/task/{pane}/children; kill $agent")
        observation = await look_until(made, declared, AgentEvent.SESSION_LOST)
    assert (observation.session, observation.agent) == (ProcessState.ALIVE, ProcessState.DEAD)
    assert observation.reason == "container running, agent exited to a shell"
    assert in_container(docker, "tmux", "has-session", "-t", "=agent") == ""


def test_a_container_removed_by_hand_while_stale_is_gone(docker: DockerEngine) -> None:
    """Heard of, and seen as no container at all."""

    async def scene(made: DockerRuntime) -> list[AgentEvent]:
        async with heard(made) as names:
            await made.start(spec(), 1, {})
            in_container(docker, "tmux", "kill-server")
            moves = [event_of(await look_until(made, spec(), AgentEvent.SESSION_LOST))]
            names.clear()
            docker.docker("rm", "-f", "agent-bot")
            await until(lambda: "bot" in names)
            return [*moves, event_of(await made.inspect(spec()))]

    assert with_runtime(docker, scene) == [AgentEvent.SESSION_LOST, AgentEvent.GONE]


@pytest.mark.parametrize("ended_by", [("rm", "-f"), ("stop",), ("kill",)], ids=" ".join)
async def test_a_container_ended_by_hand_is_never_unknown_nor_stale(
    docker: DockerEngine, ended_by: tuple[str, ...]
) -> None:
    """Between its agent's end and the engine's notice of its own, no agent is reported as silent or dead."""
    async with runtime(docker) as made:
        moves = set()
        async with heard(made) as names:
            await made.start(spec(), 1, {})
            await look_until(made, spec(), AgentEvent.READY)
            names.clear()
            removal = asyncio.create_task(asyncio.to_thread(docker.docker, *ended_by, "agent-bot"))
            while AgentEvent.GONE not in moves:
                # Inspected at every report, as the hub does.
                await until(lambda: bool(names))
                names.clear()
                moves.add(event_of(await made.inspect(spec())))
            await removal
        assert moves <= {AgentEvent.READY, AgentEvent.GONE}


def test_a_passing_child_of_tmux_is_not_taken_for_the_agent(docker: DockerEngine, tmp_path: Path) -> None:
    """After a pane's end tmux runs a program of its own; no agent counts as alive by that."""
    # What the kernel calls a process is the name of its file: a stand-in for the server, and one for its child.
    errand, server = tmp_path / "errand" / "tmux: server", tmp_path / "tmux: server"
    errand.parent.mkdir()
    shutil.copy("/usr/bin/sleep", errand)
    server.write_text('#!/bin/sh\n"/code/errand/tmux: server" 0.1 &\nwait\n')
    server.chmod(0o755)

    async def scene(made: DockerRuntime) -> set[AgentEvent]:
        declared = spec(mounts=(f"{tmp_path}:/code",))
        async with heard(made):
            await made.start(declared, 1, {})
            in_container(docker, "tmux", "kill-server")
            await look_until(made, declared, AgentEvent.SESSION_LOST)
            in_container(docker, "sh", "-c", '"/code/tmux: server" >/dev/null 2>&1 &')
            ends = asyncio.get_running_loop().time() + 0.5
            moves = set()
            while asyncio.get_running_loop().time() < ends:
                moves.add(event_of(await made.inspect(declared)))
                await asyncio.sleep(0.001)
            return moves

    assert with_runtime(docker, scene) == {AgentEvent.SESSION_LOST}


async def test_another_window_of_the_same_tmux_is_not_the_agent(docker: DockerEngine) -> None:
    """A person reads something in a session of their own while the agent is gone."""
    async with runtime(docker) as made:
        await made.start(spec(), 1, {})
        in_container(docker, "tmux", "new-session", "-d", "-s", "other", "exec cat")
        in_container(docker, "tmux", "kill-session", "-t", "=agent")
        observation = await look_until(made, spec(), AgentEvent.SESSION_LOST)
    assert (observation.container, observation.session, observation.agent) == (
        ProcessState.ALIVE,
        ProcessState.ALIVE,
        ProcessState.DEAD,
    )


async def test_a_new_session_is_made_in_the_container_that_is_there(docker: DockerEngine) -> None:
    """The container stays, the epoch is the new one's, and one that lives is never doubled."""
    async with runtime(docker) as made:
        first = await made.start(spec(), 1, {})
        with pytest.raises(AgentAlreadyRunning):
            await made.restart_session(spec(), 2, {})
        in_container(docker, "tmux", "kill-server")
        await look_until(made, spec(), AgentEvent.SESSION_LOST)
        second = await made.restart_session(spec(), 2, {})
    assert first.container_id == second.container_id
    assert (second.epoch, event_of(second)) == (2, AgentEvent.READY)
    assert first.pid != second.pid


TOOL = "setsid sleep 4321 </dev/null >/dev/null 2>&1 &"


@pytest.mark.parametrize("user", ["", "plain"])
async def test_what_an_agent_left_running_is_ended_before_the_next_one_starts(
    docker: DockerEngine, user: str
) -> None:
    """A command that outlived its agent in the container would run beside its own repetition."""
    declared = spec("bot", "sh", "-c", f"{TOOL} exec sleep 1000", user=user)

    def tools() -> int:
        listed = in_container(docker, "sh", "-c", "cat /proc/[0-9]*/cmdline 2>/dev/null || true")
        return listed.count("sleep\0004321")

    async with runtime(docker) as made:
        first = await made.start(declared, 1, {})
        assert first.pid is not None
        os.kill(first.pid, signal.SIGKILL)
        await look_until(made, declared, AgentEvent.SESSION_LOST)
        left = tools()
        await made.restart_session(declared, 2, {})
        assert (left, tools()) == (1, 1)


def test_an_agent_is_not_started_beside_a_command_that_cannot_be_ended(
    docker: DockerEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It says which one still runs and may still take effect."""

    async def unmoved(process: Process, _steps: SignalSteps, **_proof: object) -> TerminationResult:
        return TerminationResult(process, ProcessState.ALIVE, None, 0.0)

    monkeypatch.setattr("wakeful.integrations.docker.agent_runtime.terminate", unmoved)

    async def scene(made: DockerRuntime) -> None:
        declared = spec("bot", "sh", "-c", f"{TOOL} exec sleep 1000")
        first = await made.start(declared, 1, {})
        assert first.pid is not None
        os.kill(first.pid, signal.SIGKILL)
        await look_until(made, declared, AgentEvent.SESSION_LOST)
        with pytest.raises(AgentAlreadyRunning, match=r"still runs as process \d+ and may still take effect"):
            await made.restart_session(declared, 2, {})

    with_runtime(docker, scene)


async def test_a_stop_removes_the_container_and_a_second_one_is_harmless(docker: DockerEngine) -> None:
    """What is seen afterwards is that it is gone."""
    async with runtime(docker) as made:
        await made.start(spec(), 1, {})
        assert [event_of(await made.stop(spec())) for _ in range(2)] == [AgentEvent.GONE, AgentEvent.GONE]
    assert docker.docker("ps", "-aq") == ""


@pytest.mark.parametrize(
    ("declared", "problem"),
    [
        (spec(image="no-such-image"), ImageMissing),
        (spec("bot", "no-such-command"), CommandMissing),
        (spec("bot", "/code/not-here"), CommandMissing),
        (spec(mounts=("relative:/x",)), AgentRefused),
        (spec(ready="["), AgentRefused),
        (spec(network="no-such-network"), NotReady),
    ],
    ids=["image", "command", "path", "mount", "pattern", "network"],
)
def test_a_bad_declaration_says_what_is_wrong_and_leaves_no_container_of_a_kind(
    docker: DockerEngine, declared: AgentSpec, problem: type[Exception]
) -> None:
    """Image missing, command missing, nonsense: one error each, and nothing that runs."""
    with pytest.raises(problem):
        with_runtime(docker, lambda made: made.start(declared, 1, {}))
    assert docker.docker("ps", "-q") == ""


def test_an_image_without_tmux_is_named(docker: DockerEngine) -> None:
    """The operator reads what is missing, and where."""
    make_image(docker, "without-tmux", without=("tmux",))
    with pytest.raises(CommandMissing, match="'tmux' was not found in image without-tmux"):
        with_runtime(docker, lambda made: made.start(spec(image="without-tmux"), 1, {}))


def test_the_last_words_of_an_agent_that_ends_at_once_are_told(docker: DockerEngine) -> None:
    """Why it did not start stands in the error; its container stays to be looked at."""
    declared = spec("bot", "sh", "-c", "echo no licence; sleep 0.05; exit 3")
    with pytest.raises(NotReady, match=r"it ended at once: .*no licence"):
        with_runtime(docker, lambda made: made.start(declared, 1, {}))
    assert docker.docker("ps", "--format", "{{.Names}}") == "agent-bot"


def test_one_bad_look_ends_no_start(docker: DockerEngine) -> None:
    """Not seen at the moment it takes its shell's place, it is inspected again before it has failed."""

    async def scene(made: DockerRuntime) -> AgentObservation:
        docker.docker("run", "-d", "--network", "none", "--name", "agent-bot", IMAGE, "sleep", "infinity")
        container = await made.container(spec())
        assert container is not None
        looks = 0

        async def look() -> AgentObservation:
            nonlocal looks
            looks += 1
            observation = await made.inspect(spec())
            return (
                msgspec.structs.replace(observation, agent=ProcessState.DEAD) if looks == 1 else observation
            )

        engine = Engine(docker.address)
        try:
            return await AgentLaunch(engine, container, spec(), look).launch(1, {})
        finally:
            await engine.close()

    assert event_of(with_runtime(docker, scene)) is AgentEvent.READY


def test_ready_is_what_its_screen_shows(docker: DockerEngine) -> None:
    """With a pattern the start returns once it is shown, and fails if it never is."""
    shows = spec("bot", "sh", "-c", "sleep 0.7; echo 'Ready > '; exec sleep 1000", ready="Ready >")
    began = time.monotonic()
    with_runtime(docker, lambda made: made.start(shows, 1, {}))
    assert time.monotonic() - began > 0.7
    never = spec("other", ready="Ready >", ready_seconds=0.6)
    with pytest.raises(NotReady, match="never showed 'Ready >'"):
        with_runtime(docker, lambda made: made.start(never, 1, {}))


# It shows a dialog of Claude Code, and once a key was pressed an input line with the cursor in it.
DIALOG: Final = """\
printf 'Quick safety check: is this a project you trust?\\n %s 1. Yes, I trust this folder\\n' "$ANGLE"
read -r key
printf '\\033[2J\\033[H'
printf '%s\\n%s \\n%s\\n' "$RULE" "$ANGLE" "$RULE"
printf '\\033[2;3H'
sleep 1000
:
"""


async def test_a_client_at_a_dialog_is_not_ready_and_the_dialog_is_named(docker: DockerEngine) -> None:
    """The reason says which dialog it is and how to answer it; once that is done the agent runs."""
    docker.docker("run", "-d", "--network", "none", "--name", "agent-bot", IMAGE, "sleep", "infinity")
    docker.docker("cp", "-L", "/bin/sh", "agent-bot:/bin/claude")
    environ = {"ANGLE": "\u276f", "RULE": "\u2500" * 20, "LANG": "C.UTF-8"}
    declared = spec("bot", "claude", "-c", DIALOG, env=tuple(environ), ready_seconds=1.5)
    async with runtime(docker) as made:
        with pytest.raises(NotReady, match=r"\(folder trust\): `wakeful attach bot` and answer it"):
            await made.start(declared, 1, environ)
        asks = await made.inspect(declared)
        in_container(docker, "tmux", "send-keys", "-t", "=agent:", "Enter")
        ready = await look_until(made, declared, AgentEvent.READY)
    assert (asks.agent, asks.ready, "folder trust" in asks.reason) == (ProcessState.ALIVE, False, True)
    assert event_of(ready) is AgentEvent.READY


def test_of_two_starts_at_once_one_wins(docker: DockerEngine) -> None:
    """One agent, one container, and the loser gets the error."""

    async def scene(made: DockerRuntime) -> list[Any]:
        async with runtime(docker) as other:
            starts = (each.start(spec(), 1, {}) for each in (made, other))
            return list(await asyncio.gather(*starts, return_exceptions=True))

    results = with_runtime(docker, scene)
    assert [type(each) for each in results if isinstance(each, Exception)] == [AgentAlreadyRunning]
    assert in_container(docker, "tmux", "list-panes", "-a", "-F", "#{pane_current_command}") == "sleep"


async def test_a_stop_while_starting_ends_the_start(docker: DockerEngine) -> None:
    """The start fails in its own words, and nothing is left."""
    async with runtime(docker) as made:
        slow = spec(ready="never", ready_seconds=30.0)
        starting = asyncio.create_task(made.start(slow, 1, {}))
        await look_until(made, slow, AgentEvent.NOT_YET)
        stopped = await made.stop(slow)
        (outcome,) = await asyncio.gather(starting, return_exceptions=True)
        event = event_of(stopped)
    assert isinstance(outcome, NotReady), outcome
    assert "container was removed" in str(outcome)
    assert event is AgentEvent.GONE
    assert docker.docker("ps", "-aq") == ""


def _has_begun(docker: DockerEngine) -> bool:
    return "agent-bot" in docker.docker("ps", "--format", "{{.Names}}") and "sleep 100\n" in (
        docker.docker("top", "agent-bot") + "\n"
    )


async def test_a_container_removed_while_its_session_is_made_went_away(
    docker: DockerEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The program inside is killed with it, and tmux is not blamed."""
    monkeypatch.setattr("wakeful.integrations.docker.launch._SCRIPT", "exec sleep 100")
    async with runtime(docker) as made:
        starting = asyncio.create_task(made.start(spec(), 1, {}))
        await asyncio.to_thread(wait_for, lambda: _has_begun(docker) or None, "program")
        await asyncio.to_thread(docker.docker, "rm", "-f", "agent-bot")
        (outcome,) = await asyncio.gather(starting, return_exceptions=True)
        assert "its container was removed while it was starting" in str(outcome)


async def test_a_container_without_labels_is_adopted_by_its_name(docker: DockerEngine) -> None:
    """A container made by hand: seen running, seen stale, and given a new session."""
    docker.docker("run", "-d", "--network", "none", "--name", "agent-bot", IMAGE, "sleep", "infinity")
    in_container(docker, "tmux", "new-session", "-d", "-s", "agent", "sleep 1000")
    async with runtime(docker) as made:
        moves = [event_of(await made.inspect(spec()))]
        in_container(docker, "tmux", "kill-server")
        moves.append(event_of(await look_until(made, spec(), AgentEvent.SESSION_LOST)))
        moves.append(event_of(await made.restart_session(spec(), 4, {})))
        assert moves == [AgentEvent.READY, AgentEvent.SESSION_LOST, AgentEvent.READY]


def test_an_exited_container_that_is_not_ours_is_not_removed(docker: DockerEngine) -> None:
    """What is in it may be a person's work."""
    docker.docker("run", "--network", "none", "--name", "agent-bot", IMAGE, "sleep", "0")
    with pytest.raises(AgentAlreadyRunning, match="did not make is exited"):
        with_runtime(docker, lambda made: made.start(spec(), 1, {}))
    assert docker.inspect("agent-bot")["State"]["Status"] == "exited"


def test_what_looks_like_an_agent_is_found_and_reported_only(docker: DockerEngine) -> None:
    """By its name, or by a known client in tmux; what is configured or looks like nothing is left out."""
    quiet = ("run", "-d", "--network", "none")
    docker.docker(*quiet, "--name", "agent-hers", IMAGE, "sleep", "infinity")
    docker.docker(*quiet, "--name", "agent-bot", IMAGE, "sleep", "infinity")
    docker.docker(*quiet, "--name", "database", IMAGE, "sleep", "infinity")
    docker.docker(*quiet, "--name", "dev", IMAGE, "sleep", "infinity")
    in_container(docker, "tmux", "new-session", "-d", "exec codex 1000", name="dev")
    shown = ("tmux", "list-panes", "-F", "#{pane_current_command}")
    wait_for(lambda: in_container(docker, *shown, name="dev") == "codex" or None, "codex in its pane")
    found = with_runtime(docker, lambda made: made.find_undeclared(frozenset({"bot"})))
    assert {each.name: each.words for each in found} == {
        "agent-hers": "is named like an agent",
        "dev": "runs codex in tmux",
    }
