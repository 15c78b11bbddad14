"""Runtime for agents in Docker containers: PID 1 sleeps, the agent runs in tmux session `agent`.

The engine's answers are cached until one of its events reports a change. Processes in a container are read from
this host's /proc; for an engine on another host, programs that run inside list them. An agent that cannot be
seen is reported as `unknown` with the reason.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from wakeful.agents.model import AgentEvent, AgentObservation, AgentSpec, event_of
from wakeful.agents.runtime import CommandMissing, ImageMissing, NotReady, UndeclaredAgent
from wakeful.core.clock import Clock
from wakeful.core.errors import WorldError
from wakeful.core.process import Process, ProcessState
from wakeful.integrations.docker.engine import Container, Engine, EngineRefused
from wakeful.integrations.docker.events import ALL_AGENTS, AgentChangeListener
from wakeful.integrations.docker.inspect import (
    ContainerScan,
    WantedAgent,
    first_process,
    inspect_from_host,
    inspect_from_inside,
    is_leftover,
    leftover_processes,
    tmux_containers,
)
from wakeful.integrations.docker.launch import (
    SESSION,
    AgentAlreadyRunning,
    AgentLaunch,
    check_ready,
    close_session,
    needs_screen,
)
from wakeful.integrations.docker.spec import (
    AGENT_LABEL,
    agent_of,
    container_body,
    container_name,
    epoch_of,
    ready_pattern,
)
from wakeful.linux import proc
from wakeful.linux.terminate import TOOL_STEPS, terminate

DEFAULT_ADDRESS: Final = "unix:///var/run/docker.sock"
INSPECT_SECONDS_MAX: Final = 5.0
# The engine records a container's end some ten milliseconds after it; a busy engine needs longer.
ENDING_SECONDS: Final = 0.05
ENDING_CHECKS_MAX: Final = 40
# A helper process of tmux at the end of a pane took 20 ms.
FORKED_SECONDS: Final = 0.005
FORKED_CHECKS_MAX: Final = 60


class _CachedContainer(Struct):
    """A container that ran at the last inspection. `first` is None if this host cannot see its processes."""

    container: Container
    first: Process | None
    scan: ContainerScan | None = None
    # The agent process, once its screen has shown that it is ready.
    ready: Process | None = None


class DockerRuntime:
    """Implements agents.runtime.Runtime. `address`: as for `docker -H`."""

    name = "docker"

    def __init__(self, address: str, clock: Clock, *, sees_processes: bool = True) -> None:
        self.address = address or DEFAULT_ADDRESS
        self._engine = Engine(self.address)
        self._change_listener = AgentChangeListener(self._engine, clock, self._invalidate)
        self._sees_processes = sees_processes
        self._containers: dict[str, _CachedContainer] = {}
        self._absent: set[str] = set()
        self._invalidations = 0

    async def start(self, spec: AgentSpec, epoch: int, environ: Mapping[str, str]) -> AgentObservation:
        ready_pattern(spec)
        body = container_body(spec, epoch, self.address)
        container = await self._engine.inspect(container_name(spec.name))
        if container is not None and container.running:
            return await self._launch_in(container, spec, epoch, environ)
        if container is not None:
            if container.labels.get(AGENT_LABEL) != spec.name:
                reason = f"a container {container.name} that Wakeful did not make is {container.status}. Remove or start it"
                raise AgentAlreadyRunning(name=spec.name, reason=reason)
            await self._engine.remove(container.id)
        container_id = await self._create_container(spec, body)
        try:
            return await self._launch_in(
                await self._start_container(container_id, spec), spec, epoch, environ
            )
        except CommandMissing:
            # No agent ever ran in it.
            await self._engine.remove(container_id)
            raise

    async def restart_session(
        self, spec: AgentSpec, epoch: int, environ: Mapping[str, str]
    ) -> AgentObservation:
        container = await self._engine.inspect(container_name(spec.name))
        if container is None or not container.running:
            reason = f"there is no running container {container_name(spec.name)}"
            raise NotReady(name=spec.name, seconds=spec.ready_seconds, reason=reason)
        return await self._launch_in(container, spec, epoch, environ)

    async def stop(self, spec: AgentSpec) -> AgentObservation:
        container = await self._engine.inspect(container_name(spec.name))
        if container is not None:
            await self._engine.remove(container.id)
        self._invalidate(spec.name)
        return await self.inspect(spec)

    async def inspect(self, spec: AgentSpec) -> AgentObservation:
        return await self._inspect_with_deadline(spec, self._inspect_readiness)

    async def _inspect_with_deadline(
        self, spec: AgentSpec, inspect: Callable[[AgentSpec], Awaitable[AgentObservation]]
    ) -> AgentObservation:
        try:
            async with asyncio.timeout(INSPECT_SECONDS_MAX):
                return await inspect(spec)
        except TimeoutError:
            return _unknown_observation(f"no answer within {INSPECT_SECONDS_MAX:g} s")
        except WorldError as problem:
            return _unknown_observation(str(problem))

    async def _inspect_readiness(self, spec: AgentSpec) -> AgentObservation:
        """Inspect the agent, and also its screen until that has shown that the agent is ready."""
        observation = await self._inspect_agent(spec)
        if (
            not needs_screen(spec)
            or observation.container_id is None
            or event_of(observation) is not AgentEvent.READY
        ):
            return observation
        cached = self._containers.get(spec.name)
        agent = cached.scan.agent.process if cached and cached.scan and cached.scan.agent else None
        if cached is not None and agent is not None and cached.ready == agent:
            return observation
        if (reason := await check_ready(self._engine, observation.container_id, spec)) is not None:
            return replace(observation, ready=False, reason=reason)
        if cached is not None:
            cached.ready = agent
        return observation

    async def find_undeclared(self, known: frozenset[str]) -> list[UndeclaredAgent]:
        """Other containers that look like agents. Raises EngineGone, EngineRefused."""
        rows = await self._engine.list_running()
        clients = await asyncio.to_thread(tmux_containers) if self._sees_processes else {}
        found = []
        for row in rows:
            agent = agent_of(row.name)
            client = next((client for path, client in clients.items() if row.id in path), None)
            if agent in known or not (agent or client or AGENT_LABEL in row.labels):
                continue
            reason = f"runs {client} in tmux" if client else "is named like an agent"
            if AGENT_LABEL in row.labels:
                reason = "was started as an agent, and no agent of this name is configured"
            found.append(UndeclaredAgent(row.name, row.id, reason))
        return found

    def attach_argv(self, spec: AgentSpec) -> tuple[str, ...]:
        engine = ("docker", "-H", self.address, "exec", "-it", container_name(spec.name))
        # -E: the session keeps the variables it was started with.
        return (*engine, "tmux", "-u", "attach-session", "-E", "-t", f"={SESSION}")

    def changes(self) -> AsyncIterator[str]:
        return self._change_listener.names()

    async def close(self) -> None:
        self._change_listener.close()
        await self._engine.close()

    async def container(self, spec: AgentSpec) -> Container | None:
        """The agent's container, whether it runs or not. Raises EngineGone, EngineRefused."""
        return await self._engine.inspect(container_name(spec.name))

    async def _launch_in(
        self, container: Container, spec: AgentSpec, epoch: int, environ: Mapping[str, str]
    ) -> AgentObservation:
        """Start the agent in a running container, after a check that none runs there."""
        if container.image != spec.image and AGENT_LABEL in container.labels:
            reason = f"its container runs image {container.image!r}, not {spec.image!r}. Stop it first"
            raise AgentAlreadyRunning(name=spec.name, reason=reason)
        # An older observation does not count here.
        self._invalidate(spec.name)
        observation = await self.inspect(spec)
        if observation.agent is ProcessState.ALIVE and not observation.ready:
            observation = await self._close_unready(container, spec)
        if observation.agent is ProcessState.ALIVE:
            raise AgentAlreadyRunning(name=spec.name, reason=f"it runs as process {observation.pid}")
        if observation.agent is ProcessState.UNKNOWN:
            # It may be alive, and two agents on one conversation corrupt it.
            raise NotReady(name=spec.name, seconds=spec.ready_seconds, reason=observation.reason)
        await self._terminate_leftovers(container, spec)
        return await AgentLaunch(
            self._engine, container, spec, lambda: self._inspect_with_deadline(spec, self._inspect_agent)
        ).launch(epoch, environ)

    async def _terminate_leftovers(self, container: Container, spec: AgentSpec) -> None:
        """End tools that outlived their agent, because the next agent may run them again. Raises AgentAlreadyRunning."""
        if not self._sees_processes:
            return
        left = await asyncio.to_thread(leftover_processes, container.id, spec.name)
        is_left = is_leftover(container.id, spec.name)
        endings = await asyncio.gather(
            *(terminate(each, TOOL_STEPS, is_meant=is_left, any_user=True) for each in left)
        )
        survivor = next((each.process.pid for each in endings if each.sight is not ProcessState.DEAD), None)
        if survivor is not None:
            reason = f"its last command still runs as process {survivor} and may still take effect"
            raise AgentAlreadyRunning(name=spec.name, reason=reason)

    async def _close_unready(self, container: Container, spec: AgentSpec) -> AgentObservation:
        """Close the session of an agent that was never ready, and inspect the agent until it has ended."""
        await close_session(self._engine, container.id)
        observation = await self._inspect_with_deadline(spec, self._inspect_agent)
        for _ in range(ENDING_CHECKS_MAX):
            if observation.agent is not ProcessState.ALIVE:
                break
            await asyncio.sleep(ENDING_SECONDS)
            observation = await self._inspect_with_deadline(spec, self._inspect_agent)
        return observation

    async def _create_container(self, spec: AgentSpec, body: Mapping[str, object]) -> str:
        try:
            return await self._engine.create(container_name(spec.name), body)
        except EngineRefused as refusal:
            if refusal.status == 404:
                raise ImageMissing(image=spec.image) from refusal
            if refusal.status == 409:
                reason = "another process is starting it now"
                raise AgentAlreadyRunning(name=spec.name, reason=reason) from refusal
            raise

    async def _start_container(self, container_id: str, spec: AgentSpec) -> Container:
        try:
            await self._engine.start(container_id)
        except EngineRefused as refusal:
            if "executable file not found" in refusal.reason:
                where = f"image {spec.image}"
                raise CommandMissing(command="sleep", where=where, reason=refusal.reason) from refusal
            raise NotReady(name=spec.name, seconds=spec.ready_seconds, reason=refusal.reason) from refusal
        container = await self._engine.inspect(container_id)
        if container is None or not container.running:
            reason = (
                "was removed while it was starting"
                if container is None
                else f"ended at once ({container.exit_code})"
            )
            raise NotReady(name=spec.name, seconds=spec.ready_seconds, reason=f"its container {reason}")
        return container

    async def _inspect_agent(self, spec: AgentSpec) -> AgentObservation:
        cached = self._containers.get(spec.name)
        if self._change_listener.is_connected and spec.name in self._absent:
            return _dead_observation(None, spec)
        if (
            cached is None
            or cached.first is None
            or not self._change_listener.is_connected
            or not _is_alive(cached.first)
        ):
            return await self._inspect_by_engine(spec, cached)
        observation = await self._inspect_after_fork(cached, cached.first, spec)
        if observation.agent is ProcessState.DEAD and (
            proc.is_ending(cached.first.pid) or not _is_alive(cached.first)
        ):
            # The whole container has ended meanwhile, not only the session in it.
            return await self._inspect_by_engine(spec, cached)
        return observation

    async def _inspect_by_engine(self, spec: AgentSpec, cached: _CachedContainer | None) -> AgentObservation:
        """Inspect the container by the engine, then the agent in it. `cached`: its last answer."""
        before = self._invalidations
        container = await self._inspect_container(spec, cached)
        if container is None and before == self._invalidations:
            self._absent.add(spec.name)
        if container is None or not (container.running or container.restarting):
            return _dead_observation(container, spec)
        if container.paused or container.restarting:
            return _unknown_observation(f"its container is {container.status}", container)
        cached = self._cached_container_of(spec, container)
        # After a change in between, the engine's answer may be older than the change.
        if before == self._invalidations:
            self._containers[spec.name] = cached
        if cached.first is None:
            return await inspect_from_inside(self._engine, cached.container, spec)
        return await self._inspect_after_fork(cached, cached.first, spec)

    async def _inspect_container(self, spec: AgentSpec, cached: _CachedContainer | None) -> Container | None:
        """The container; waits while its first process has ended and the engine has not recorded that yet."""
        container = await self._engine.inspect(container_name(spec.name))
        for _ in range(ENDING_CHECKS_MAX):
            if container is None or not container.running or not self._is_ending(container, cached):
                break
            await asyncio.sleep(ENDING_SECONDS)
            container = await self._engine.inspect(container_name(spec.name))
        return container

    def _is_ending(self, container: Container, cached: _CachedContainer | None) -> bool:
        if not self._sees_processes:
            return False
        was_seen = cached is not None and cached.first is not None
        return proc.is_ending(container.pid) or (was_seen and proc.identify_or_none(container.pid) is None)

    def _cached_container_of(self, spec: AgentSpec, container: Container) -> _CachedContainer:
        first = first_process(container.pid, container.id) if self._sees_processes else None
        cached = self._containers.get(spec.name)
        known = cached is not None and cached.container == container and cached.first == first
        return cached if cached is not None and known else _CachedContainer(container, first)

    async def _inspect_after_fork(
        self, cached: _CachedContainer, first: Process, spec: AgentSpec
    ) -> AgentObservation:
        """Inspect the processes, and again while a new child of tmux runs no program of its own yet."""
        observation = self._inspect_processes(cached, first, spec)
        for _ in range(FORKED_CHECKS_MAX):
            if cached.scan is None or not cached.scan.is_forked:
                break
            await asyncio.sleep(FORKED_SECONDS)
            observation = self._inspect_processes(cached, first, spec)
        return observation

    def _inspect_processes(
        self, cached: _CachedContainer, first: Process, spec: AgentSpec
    ) -> AgentObservation:
        container, scan = cached.container, cached.scan
        if scan is None or not scan.is_still_valid():
            marked = container.labels.get(AGENT_LABEL) == spec.name
            wanted = WantedAgent(spec.name, spec.command, marked)
            scan = cached.scan = inspect_from_host(first, container.id, wanted, scan)
            self._change_listener.watch(spec.name, (first, *scan.watched))
        return AgentObservation(
            container=ProcessState.ALIVE,
            session=scan.session,
            agent=ProcessState.ALIVE if scan.agent is not None else ProcessState.DEAD,
            pid=scan.agent.process.pid if scan.agent is not None else None,
            container_id=container.id,
            tmux_session=SESSION,
            epoch=epoch_of(container.labels) if scan.epoch is None else scan.epoch,
            reason=scan.reason and f"container running, {scan.reason}",
        )

    def _invalidate(self, name: str) -> None:
        """Drop the engine's answer about this agent, or about all of them."""
        self._invalidations += 1
        if name == ALL_AGENTS:
            self._containers.clear()
            self._absent.clear()
        else:
            self._containers.pop(name, None)
            self._absent.discard(name)


def _is_alive(first: Process) -> bool:
    return proc.state_of(first) is ProcessState.ALIVE


def _dead_observation(container: Container | None, spec: AgentSpec) -> AgentObservation:
    dead = AgentObservation(container=ProcessState.DEAD, session=ProcessState.DEAD, agent=ProcessState.DEAD)
    if container is None:
        return replace(dead, reason=f"no container {container_name(spec.name)}")
    return replace(
        dead, reason=f"container {container.status} ({container.exit_code})", epoch=epoch_of(container.labels)
    )


def _unknown_observation(reason: str, container: Container | None = None) -> AgentObservation:
    return AgentObservation(
        container=ProcessState.UNKNOWN if container is None else ProcessState.ALIVE,
        session=ProcessState.UNKNOWN,
        agent=ProcessState.UNKNOWN,
        container_id=container.id if container is not None else None,
        tmux_session=SESSION if container is not None else None,
        epoch=epoch_of(container.labels) if container is not None else 0,
        reason=reason,
    )
