"""Shows the eyes each agent's container while it is there: the hub tells what it saw, and the engine where that lies.

The engine is asked once for each container and agent process in it, and again while nothing can be seen.
"""

import asyncio
import logging
from typing import Final

from wakeful.agents.model import AgentSpec, Glimpse
from wakeful.core.errors import WorldError
from wakeful.core.process import Sight
from wakeful.integrations.docker.agent_runtime import LOOK_SECONDS_MAX, DockerRuntime
from wakeful.integrations.docker.eyes import ContainerEyes

log: Final = logging.getLogger("wakeful.hub")


class ContainerWindows:
    """Windows into the containers of one engine."""

    def __init__(self, runtime: DockerRuntime, eyes: ContainerEyes) -> None:
        self._runtime = runtime
        self._eyes = eyes
        self._shown: dict[str, tuple[str, int | None]] = {}

    async def open(self, spec: AgentSpec, glimpse: Glimpse) -> None:
        if spec.runtime != self._runtime.name:
            return
        if glimpse.container is Sight.DEAD:
            self._eyes.hide(spec.name)
            self._shown.pop(spec.name, None)
        elif glimpse.container is Sight.ALIVE and glimpse.container_id is not None:
            await self._show(spec, glimpse.container_id, glimpse.pid)

    async def _show(self, spec: AgentSpec, container_id: str, pid: int | None) -> None:
        known_id, known_pid = self._shown.get(spec.name, ("", None))
        # Without an agent in it, what was shown of the same container is as good.
        if known_id == container_id and pid in (None, known_pid):
            return
        try:
            async with asyncio.timeout(LOOK_SECONDS_MAX):
                there = await self._runtime.container(spec)
        except (WorldError, TimeoutError) as problem:
            log.debug("agent %s: its container cannot be asked for: %s", spec.name, problem)
            return
        if there is not None and there.running and self._eyes.show(spec.name, there, pid):
            self._shown[spec.name] = (container_id, pid)
