"""Follows engine events and process exits, and yields the agents to inspect again in order of arrival.

The event stream is reopened whenever it ends, with growing delays. Both its loss and its return mean that
every agent must be inspected.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import aclosing
from typing import Final

from wakeful.core.clock import Clock
from wakeful.core.errors import WorldError
from wakeful.core.process import Process, ProcessState
from wakeful.integrations.docker.engine import Engine
from wakeful.integrations.docker.spec import agent_of
from wakeful.linux.exit_watch import ExitWatch

RETRY_SECONDS_MIN: Final = 0.25
RETRY_SECONDS_MAX: Final = 10.0
# Events from the time in which the stream was being opened come once more.
OVERLAP_SECONDS: Final = 1.0
ALL_AGENTS: Final = ""

log = logging.getLogger("wakeful")


class AgentChangeListener:
    """Yields names of agents to inspect again. `is_connected` is true while the engine's events arrive.

    It calls `invalidate` with a name before it yields that name, if the engine's answer about the agent is outdated.
    """

    def __init__(self, engine: Engine, clock: Clock, invalidate: Callable[[str], None]) -> None:
        self.is_connected = False
        self._engine = engine
        self._clock = clock
        self._invalidate = invalidate
        self._pending_names: dict[str, None] = {}
        self._has_pending = asyncio.Event()
        self._exit_watch: ExitWatch | None = None
        self._watched: dict[str, frozenset[Process]] = {}

    def watch(self, agent: str, processes: Iterable[Process]) -> None:
        """Yield the agent's name when one of these ends; they replace those watched for it before."""
        exits = self._exit_watch = self._exit_watch or ExitWatch(self._on_exit)
        before, wanted = self._watched.get(agent, frozenset()), frozenset(processes)
        self._watched[agent] = wanted
        for process in before - wanted:
            exits.unwatch(process)
        for process in wanted - before:
            if exits.watch(process) is ProcessState.DEAD:
                self._queue_name(agent)

    def close(self) -> None:
        if self._exit_watch is not None:
            self._exit_watch.close()
        self._watched.clear()

    async def names(self) -> AsyncIterator[str]:
        listening = asyncio.create_task(self._listen())
        listening.add_done_callback(lambda _: self._has_pending.set())
        try:
            while True:
                await self._has_pending.wait()
                if listening.done():
                    # Only a bug ends it: raise it here, so that the caller does not wait in vain.
                    listening.result()
                name = next(iter(self._pending_names))
                del self._pending_names[name]
                if not self._pending_names:
                    self._has_pending.clear()
                yield name
        finally:
            self.is_connected = False
            listening.cancel()
            await asyncio.wait([listening])

    async def _listen(self) -> None:
        retry_seconds = RETRY_SECONDS_MIN
        while True:
            began = self._clock.now().awake
            try:
                async with aclosing(self._engine.events(self._clock.now().wall - OVERLAP_SECONDS)) as events:
                    async for attributes in events:
                        if not attributes:
                            self.is_connected = True
                            self._on_engine_change(ALL_AGENTS)
                        # A rename comes under the new name, and changes both agents.
                        for key in ("name", "oldName"):
                            if name := agent_of(attributes.get(key, "").removeprefix("/")):
                                self._on_engine_change(name)
            except WorldError as problem:
                if self.is_connected:
                    log.warning("no more events about agents arrive: %s", problem)
            if self.is_connected:
                self.is_connected = False
                self._on_engine_change(ALL_AGENTS)
            if self._clock.now().awake - began > RETRY_SECONDS_MAX:
                retry_seconds = RETRY_SECONDS_MIN
            await asyncio.sleep(retry_seconds)
            retry_seconds = min(RETRY_SECONDS_MAX, 2 * retry_seconds)

    def _on_engine_change(self, name: str) -> None:
        self._invalidate(name)
        self._queue_name(name)

    def _on_exit(self, process: Process) -> None:
        for agent, watched in self._watched.items():
            if process in watched:
                self._queue_name(agent)

    def _queue_name(self, name: str) -> None:
        self._pending_names[name] = None
        self._has_pending.set()
