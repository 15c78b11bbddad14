"""Shared by tests of agents in containers: a declared agent, a runtime that is closed again, and waiting for states."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any, TypeVar

from support.docker_engine import IMAGE, DockerEngine
from wakeful.agents.model import AgentEvent, AgentObservation, AgentRuntime, AgentSpec, event_of
from wakeful.integrations.docker.agent_runtime import DockerRuntime
from wakeful.linux.clock import SystemClock

T = TypeVar("T")
PATIENCE_SECONDS = 30.0
# Loopback, and a port without a listener.
NO_ENGINE = "tcp://127.0.0.1:1"


def spec(name: str = "bot", *command: str, **fields: Any) -> AgentSpec:
    return AgentSpec(
        name=name,
        runtime=AgentRuntime.DOCKER,
        command=command or ("sleep", "1000"),
        **{"image": IMAGE, **fields},
    )


@asynccontextmanager
async def runtime(engine: DockerEngine, **options: Any) -> AsyncIterator[DockerRuntime]:
    made = DockerRuntime(engine.address, SystemClock(), **options)
    try:
        yield made
    finally:
        await made.close()


def with_runtime(engine: DockerEngine, scene: Callable[[DockerRuntime], Awaitable[T]], **options: Any) -> T:
    async def play() -> T:
        async with runtime(engine, **options) as made:
            return await scene(made)

    return asyncio.run(play())


@asynccontextmanager
async def heard(made: DockerRuntime) -> AsyncIterator[list[str]]:
    """The runtime's reports; the engine is asked for nothing that the runtime does not report."""
    names: list[str] = []

    async def listen() -> None:
        async for name in made.changes():
            names.append(name)  # noqa: PERF401 - each as it comes

    listening = asyncio.create_task(listen())
    try:
        await until(lambda: "" in names)
        yield names
    finally:
        listening.cancel()
        with suppress(asyncio.CancelledError):
            await listening


async def until(reached: Callable[[], bool], seconds: float = PATIENCE_SECONDS) -> None:
    async with asyncio.timeout(seconds):
        while not reached():  # noqa: ASYNC110 - the world has no events
            await asyncio.sleep(0.005)


async def look_until(
    made: DockerRuntime, wanted: AgentSpec, move: AgentEvent, seconds: float = PATIENCE_SECONDS
) -> AgentObservation:
    async with asyncio.timeout(seconds):
        while event_of(observation := await made.inspect(wanted)) is not move:  # noqa: ASYNC110
            await asyncio.sleep(0.05)
    return observation


def in_container(engine: DockerEngine, *words: str, name: str = "agent-bot") -> str:
    return engine.docker("exec", name, *words)
