"""ScriptedRuntime: a runtime of the hub whose observations and action results a test sets.

It implements the same interface as the real runtimes and uses no engine, tmux or process.
"""

import asyncio
from collections.abc import AsyncIterator, Mapping

from msgspec.structs import replace

from wakeful.agents.model import AgentObservation, AgentSpec
from wakeful.agents.runtime import UndeclaredAgent
from wakeful.core.errors import WakefulError
from wakeful.core.process import ProcessState

GONE = AgentObservation(container=ProcessState.DEAD, session=ProcessState.DEAD, agent=ProcessState.DEAD)
ALIVE = AgentObservation(container=ProcessState.ALIVE, session=ProcessState.ALIVE, agent=ProcessState.ALIVE)
SESSION_DEAD = AgentObservation(
    container=ProcessState.ALIVE, session=ProcessState.DEAD, agent=ProcessState.DEAD, reason="session dead"
)
UNKNOWN = AgentObservation(
    container=ProcessState.UNKNOWN,
    session=ProcessState.UNKNOWN,
    agent=ProcessState.UNKNOWN,
    reason="the engine does not answer",
)


class ScriptedRuntime:
    """Implements agents.runtime.Runtime. An agent that is missing in `observations` is gone."""

    def __init__(self, name: str = "tmux", first_pid: int = 500_000) -> None:
        self.name = name
        self.observations: dict[str, AgentObservation] = {}
        # Every action, as `start claude`, with the agent's command.
        self.actions: list[tuple[str, tuple[str, ...]]] = []
        self.environs: list[dict[str, str]] = []
        self.epochs: list[int] = []
        self.undeclared: list[UndeclaredAgent] = []
        # If set, starts and stops raise it.
        self.failure: WakefulError | None = None
        # Cleared: starts wait until it is set.
        self.ready = asyncio.Event()
        self.ready.set()
        self.inspections = 0
        self.changed_agents: asyncio.Queue[str] = asyncio.Queue()
        self.closed = False
        self._pid = first_pid

    async def start(self, spec: AgentSpec, epoch: int, environ: Mapping[str, str]) -> AgentObservation:
        return await self._begin("start", spec, epoch, environ)

    async def restart_session(
        self, spec: AgentSpec, epoch: int, environ: Mapping[str, str]
    ) -> AgentObservation:
        return await self._begin("restart-session", spec, epoch, environ)

    async def stop(self, spec: AgentSpec) -> AgentObservation:
        self.actions.append((f"stop {spec.name}", ()))
        if self.failure is not None:
            raise self.failure
        self.observations.pop(spec.name, None)
        return await self.inspect(spec)

    async def inspect(self, spec: AgentSpec) -> AgentObservation:
        self.inspections += 1
        return self.observations.get(spec.name, GONE)

    async def find_undeclared(self, known: frozenset[str]) -> list[UndeclaredAgent]:
        return [each for each in self.undeclared if each.name not in known]

    def attach_argv(self, spec: AgentSpec) -> tuple[str, ...]:
        return ("tmux", "attach-session", "-t", f"=agent-{spec.name}")

    async def changes(self) -> AsyncIterator[str]:
        while True:
            yield await self.changed_agents.get()

    async def close(self) -> None:
        self.closed = True

    async def _begin(
        self, action: str, spec: AgentSpec, epoch: int, environ: Mapping[str, str]
    ) -> AgentObservation:
        self.actions.append((f"{action} {spec.name}", spec.command))
        self.environs.append(dict(environ))
        self.epochs.append(epoch)
        await self.ready.wait()
        if self.failure is not None:
            raise self.failure
        self._pid += 1
        self.observations[spec.name] = replace(ALIVE, pid=self._pid, epoch=epoch)
        return self.observations[spec.name]
