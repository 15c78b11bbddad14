"""ScriptedRuntime: a runtime of the hub whose state a test sets: what is seen, and how actions end.

It implements the same interface as the real runtimes and uses no engine, tmux or process.
"""

import asyncio
from collections.abc import AsyncIterator, Mapping

from msgspec.structs import replace

from wakeful.agents.model import AgentSpec, Glimpse
from wakeful.agents.runtime import Found
from wakeful.core.errors import WakefulError
from wakeful.core.process import Sight

GONE = Glimpse(container=Sight.DEAD, session=Sight.DEAD, agent=Sight.DEAD)
ALIVE = Glimpse(container=Sight.ALIVE, session=Sight.ALIVE, agent=Sight.ALIVE)
SESSION_DEAD = Glimpse(container=Sight.ALIVE, session=Sight.DEAD, agent=Sight.DEAD, reason="session dead")
UNSEEN = Glimpse(
    container=Sight.UNKNOWN, session=Sight.UNKNOWN, agent=Sight.UNKNOWN, reason="the engine does not answer"
)


class ScriptedRuntime:
    """Implements agents.runtime.Runtime. `seen` is the whole world; whoever is missing there is gone."""

    def __init__(self, name: str = "tmux", first_pid: int = 500_000) -> None:
        self.name = name
        self.seen: dict[str, Glimpse] = {}
        # Every act, as `start claude`, with the words the agent was started with.
        self.acts: list[tuple[str, tuple[str, ...]]] = []
        self.environs: list[dict[str, str]] = []
        self.epochs: list[int] = []
        self.strangers: list[Found] = []
        # What the next starts and stops raise, if anything.
        self.failure: WakefulError | None = None
        # Cleared: starts wait until it is set.
        self.ready = asyncio.Event()
        self.ready.set()
        self.looks = 0
        self.told: asyncio.Queue[str] = asyncio.Queue()
        self.closed = False
        self._pid = first_pid

    async def start(self, spec: AgentSpec, epoch: int, environ: Mapping[str, str]) -> Glimpse:
        return await self._begin("start", spec, epoch, environ)

    async def restart_session(self, spec: AgentSpec, epoch: int, environ: Mapping[str, str]) -> Glimpse:
        return await self._begin("restart-session", spec, epoch, environ)

    async def stop(self, spec: AgentSpec) -> Glimpse:
        self.acts.append((f"stop {spec.name}", ()))
        if self.failure is not None:
            raise self.failure
        self.seen.pop(spec.name, None)
        return await self.look(spec)

    async def look(self, spec: AgentSpec) -> Glimpse:
        self.looks += 1
        return self.seen.get(spec.name, GONE)

    async def found(self, known: frozenset[str]) -> list[Found]:
        return [each for each in self.strangers if each.name not in known]

    def attach_argv(self, spec: AgentSpec) -> tuple[str, ...]:
        return ("tmux", "attach-session", "-t", f"=agent-{spec.name}")

    async def changes(self) -> AsyncIterator[str]:
        while True:
            yield await self.told.get()

    async def close(self) -> None:
        self.closed = True

    async def _begin(self, act: str, spec: AgentSpec, epoch: int, environ: Mapping[str, str]) -> Glimpse:
        self.acts.append((f"{act} {spec.name}", spec.command))
        self.environs.append(dict(environ))
        self.epochs.append(epoch)
        await self.ready.wait()
        if self.failure is not None:
            raise self.failure
        self._pid += 1
        self.seen[spec.name] = replace(ALIVE, pid=self._pid, epoch=epoch)
        return self.seen[spec.name]
