"""Agents in containers, over and over: started, looked at, attached to by tmux, stopped, and never once called stale.

The suite does a few rounds; `WAKEFUL_ENDURANCE=10` does fifty.
"""

import asyncio
import os

from support.docker_engine import IMAGE, DockerEngine
from wakeful.agents.model import AgentEvent, AgentRuntime, AgentSpec, event_of
from wakeful.integrations.docker.agent_runtime import DockerRuntime
from wakeful.linux.clock import SystemClock

FACTOR = int(os.environ.get("WAKEFUL_ENDURANCE", "1"))
CYCLES = 3 if FACTOR == 1 else 5 * FACTOR
LOOKS = 40


def test_an_agent_that_runs_is_never_called_stale(docker: DockerEngine) -> None:
    """From the moment a start returns until a stop is ordered, every look sees it alive, whatever comes and goes."""
    spec = AgentSpec(name="bot", runtime=AgentRuntime.DOCKER, image=IMAGE, command=("sleep", "1000"))

    async def come_and_go() -> None:
        """A person's terminal, without a person: a client that attaches and is detached again."""
        argv = (
            "exec",
            "agent-bot",
            "sh",
            "-c",
            "tmux -C attach -t =agent </dev/null; tmux has-session -t =agent",
        )
        await asyncio.to_thread(docker.docker, *argv)

    async def cycle(runtime: DockerRuntime, epoch: int) -> list[AgentEvent]:
        moves = [event_of(await runtime.start(spec, epoch, {}))]
        visit = asyncio.create_task(come_and_go())
        for _ in range(LOOKS):
            moves.append(event_of(await runtime.inspect(spec)))
            await asyncio.sleep(0.005)
        await visit
        moves.append(event_of(await runtime.inspect(spec)))
        assert event_of(await runtime.stop(spec)) is AgentEvent.GONE
        return moves

    async def scene() -> list[AgentEvent]:
        runtime = DockerRuntime(docker.address, SystemClock())
        listening = asyncio.create_task(_listen(runtime))
        try:
            return [event for epoch in range(CYCLES) for event in await cycle(runtime, epoch)]
        finally:
            listening.cancel()
            await asyncio.wait([listening])
            await runtime.close()

    moves = asyncio.run(scene())
    assert len(moves) == CYCLES * (LOOKS + 2)
    assert set(moves) == {AgentEvent.READY}


async def _listen(runtime: DockerRuntime) -> None:
    async for _ in runtime.changes():
        pass
