"""Engines that end, hang, refuse or live elsewhere, and containers that are paused: unknown with a reason, never dead."""

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from support.docker_engine import DockerEngine
from support.docker_fixture import (
    NO_ENGINE,
    heard,
    in_container,
    look_until,
    runtime,
    spec,
    until,
    with_runtime,
)
from wakeful.agents.model import AgentEvent, AgentObservation, event_of
from wakeful.agents.runtime import EngineGone
from wakeful.integrations.docker.agent_runtime import DockerRuntime
from wakeful.linux.clock import SystemClock

pytestmark = pytest.mark.usefixtures("quick_starts")


def test_a_paused_container_cannot_be_seen(docker: DockerEngine) -> None:
    """It neither works nor is it dead; after it goes on it is seen again."""

    async def scene(made: DockerRuntime) -> list[AgentObservation]:
        async with heard(made):
            await made.start(spec(), 1, {})
            docker.docker("pause", "agent-bot")
            paused = await look_until(made, spec(), AgentEvent.UNSEEN)
            docker.docker("unpause", "agent-bot")
            return [paused, await look_until(made, spec(), AgentEvent.READY)]

    paused, _ = with_runtime(docker, scene)
    assert paused.reason == "its container is paused"


def test_without_an_engine_nothing_is_dead() -> None:
    """A port without a listener: unknown with the reason, and actions say that the engine is gone."""

    async def scene() -> AgentObservation:
        made = DockerRuntime(NO_ENGINE, SystemClock())
        try:
            for act in (made.start(spec(), 1, {}), made.stop(spec()), made.find_undeclared(frozenset())):
                with pytest.raises(EngineGone):
                    await act
            return await made.inspect(spec())
        finally:
            await made.close()

    observation = asyncio.run(scene())
    assert event_of(observation) is AgentEvent.UNSEEN
    assert f"The engine at {NO_ENGINE} does not answer" in observation.reason


def test_an_engine_that_hangs_is_unknown_by_the_deadline(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It takes the question and says nothing."""
    monkeypatch.setattr("wakeful.integrations.docker.agent_runtime.INSPECT_SECONDS_MAX", 0.3)
    socket = tmp_path_factory.mktemp("h") / "s"

    async def scene() -> AgentObservation:
        left = asyncio.Event()

        async def mute(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.read()
            writer.close()
            await writer.wait_closed()
            left.set()

        async with await asyncio.start_unix_server(mute, socket):
            made = DockerRuntime(f"unix://{socket}", SystemClock())
            observation = await made.inspect(spec())
            await made.close()
            await left.wait()
            return observation

    observation = asyncio.run(scene())
    assert (event_of(observation), observation.reason) == (AgentEvent.UNSEEN, "no answer within 0.3 s")


def test_a_socket_closed_to_us_is_unknown(tmp_path: Any) -> None:
    """A file that is no socket, and one that is not there: the system's own reason, and no agent is dead."""
    (tmp_path / "file").touch()
    for name in ("file", "missing"):

        async def scene(address: str = f"unix://{tmp_path}/{name}") -> AgentObservation:
            made = DockerRuntime(address, SystemClock())
            observation = await made.inspect(spec())
            await made.close()
            return observation

        observation = asyncio.run(scene())
        assert event_of(observation) is AgentEvent.UNSEEN
        assert observation.reason.endswith(("Connection refused.", "No such file or directory."))


@pytest.fixture
def mortal(docker: DockerEngine) -> Iterator[DockerEngine]:
    """The engine for tests that end it: runs again afterwards, as it did before."""
    yield docker
    if not docker.is_plain:
        docker.stop()
        docker.start()


def test_an_engine_that_ends_and_returns_is_unknown_in_between(mortal: DockerEngine) -> None:
    """Stopped without live-restore it takes its containers along: unknown while it is away, gone after."""

    async def scene(made: DockerRuntime) -> list[AgentEvent]:
        async with heard(made) as names:
            await made.start(spec(), 1, {})
            names.clear()
            await asyncio.to_thread(mortal.crash)
            await until(lambda: "" in names)
            moves = [event_of(await made.inspect(spec()))]
            names.clear()
            await asyncio.to_thread(mortal.start)
            await until(lambda: "" in names, 20)
            return [*moves, event_of(await made.inspect(spec()))]

    assert with_runtime(mortal, scene) == [AgentEvent.UNSEEN, AgentEvent.GONE]


def test_with_live_restore_an_agent_outlives_its_engine(mortal: DockerEngine) -> None:
    """Unknown while the engine is away, the same process running after, and its death is still told."""
    mortal.stop()
    mortal.start("--live-restore")

    async def scene(made: DockerRuntime) -> tuple[list[AgentEvent], list[int | None]]:
        async with heard(made) as names:
            first = await made.start(spec(), 1, {})
            await asyncio.to_thread(mortal.stop)
            moves = [event_of(await look_until(made, spec(), AgentEvent.UNSEEN))]
            names.clear()
            await asyncio.to_thread(mortal.start, "--live-restore")
            await until(lambda: "" in names, 20)
            second = await made.inspect(spec())
            names.clear()
            in_container(mortal, "tmux", "kill-server")
            await until(lambda: "bot" in names)
            moves += [event_of(second), event_of(await look_until(made, spec(), AgentEvent.SESSION_LOST))]
            return moves, [first.pid, second.pid]

    moves, pids = with_runtime(mortal, scene)
    assert moves == [AgentEvent.UNSEEN, AgentEvent.READY, AgentEvent.SESSION_LOST]
    assert pids[0] == pids[1]


async def test_an_engine_elsewhere_is_asked_from_inside(docker: DockerEngine) -> None:
    """Where the host cannot see the processes, tmux in the container says what it sees, and nothing else is dead."""
    async with runtime(docker, sees_processes=False) as made:
        moves = [event_of(await made.start(spec(), 1, {}))]
        in_container(docker, "tmux", "kill-server")
        moves.append(event_of(await look_until(made, spec(), AgentEvent.SESSION_LOST)))
        docker.docker("pause", "agent-bot")
        moves.append(event_of(await made.inspect(spec())))
        docker.docker("unpause", "agent-bot")
        in_container(docker, "sh", "-c", "cat /dev/null > /bin/tmux")
        moves.append(event_of(await made.inspect(spec())))
    assert moves == [AgentEvent.READY, AgentEvent.SESSION_LOST, AgentEvent.UNSEEN, AgentEvent.UNSEEN]


def test_attaching_hands_the_terminal_to_tmux_through_the_engine(docker: DockerEngine) -> None:
    """The command is the engine's own client, and names the session exactly."""
    argv = DockerRuntime(docker.address, SystemClock()).attach_argv(spec())
    assert argv[:6] == ("docker", "-H", docker.address, "exec", "-it", "agent-bot")
    assert argv[6:] == ("tmux", "-u", "attach-session", "-E", "-t", "=agent")
