"""Runtime for agents in Docker containers: PID 1 sleeps, the agent runs in tmux session `agent`.

The engine's answers are kept until one of its events says that something changed. Processes in a container
are read from this host's /proc; only for an engine on another host is a program run inside to look. Every
obstacle to seeing an agent is reported as `unknown` with its reason.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from wakeful.agents.model import AgentSpec, Glimpse, Move, move_of
from wakeful.agents.runtime import CommandMissing, Found, ImageMissing, NotReady
from wakeful.core.clock import Clock
from wakeful.core.errors import WorldError
from wakeful.core.process import Process, Sight
from wakeful.integrations.docker import inspect as remote, inspect as sightings
from wakeful.integrations.docker.engine import Container, Engine, EngineRefused
from wakeful.integrations.docker.events import EVERYBODY, Ears
from wakeful.integrations.docker.launch import SESSION, AgentThere, Launching, close_session, why_unready
from wakeful.integrations.docker.readiness import needs_screen
from wakeful.integrations.docker.spec import (
    AGENT_LABEL,
    agent_of,
    container_name,
    epoch_of,
    ready_pattern,
    wanted,
)
from wakeful.linux import proc
from wakeful.linux.terminate import TOOL_STEPS, end

DEFAULT_ADDRESS: Final = "unix:///var/run/docker.sock"
LOOK_SECONDS_MAX: Final = 5.0
# The engine writes a container's end down some ten milliseconds after it; a busy one needs longer.
ENDING_SECONDS: Final = 0.05
ENDING_LOOKS_MAX: Final = 40
# tmux's errand at the end of a pane was seen to take 20 ms.
FORKED_SECONDS: Final = 0.005
FORKED_LOOKS_MAX: Final = 60


class _Place(Struct):
    """A container that ran when the engine was last asked. `first` is None where this host cannot see into it."""

    container: Container
    first: Process | None
    scene: sightings.Scene | None = None
    # The agent whose screen was seen to say that it is ready.
    ready: Process | None = None


class DockerRuntime:
    """The engine at `address`, in the words of `docker -H`."""

    name = "docker"

    def __init__(self, address: str, clock: Clock, *, sees_processes: bool = True) -> None:
        self.address = address or DEFAULT_ADDRESS
        self._engine = Engine(self.address)
        self._ears = Ears(self._engine, clock, self._forget)
        self._sees_processes = sees_processes
        self._places: dict[str, _Place] = {}
        self._absent: set[str] = set()
        self._forgotten = 0

    async def start(self, spec: AgentSpec, epoch: int, environ: Mapping[str, str]) -> Glimpse:
        ready_pattern(spec)
        body = wanted(spec, epoch, self.address)
        there = await self._engine.inspect(container_name(spec.name))
        if there is not None and there.running:
            return await self._into(there, spec, epoch, environ)
        if there is not None:
            await self._clear_away(there, spec)
        container_id = await self._make(spec, body)
        try:
            return await self._into(await self._begun(container_id, spec), spec, epoch, environ)
        except CommandMissing:
            # Nothing ever ran in it.
            await self._engine.remove(container_id)
            raise

    async def restart_session(self, spec: AgentSpec, epoch: int, environ: Mapping[str, str]) -> Glimpse:
        there = await self._engine.inspect(container_name(spec.name))
        if there is None or not there.running:
            reason = f"there is no running container {container_name(spec.name)}"
            raise NotReady(name=spec.name, seconds=spec.ready_seconds, reason=reason)
        return await self._into(there, spec, epoch, environ)

    async def stop(self, spec: AgentSpec) -> Glimpse:
        there = await self._engine.inspect(container_name(spec.name))
        if there is not None:
            await self._engine.remove(there.id)
        self._forget(spec.name)
        return await self.look(spec)

    async def look(self, spec: AgentSpec) -> Glimpse:
        return await self._looked(spec, self._look_for_ready)

    async def _looked(self, spec: AgentSpec, look: Callable[[AgentSpec], Awaitable[Glimpse]]) -> Glimpse:
        try:
            async with asyncio.timeout(LOOK_SECONDS_MAX):
                return await look(spec)
        except TimeoutError:
            return _unseen(f"no answer within {LOOK_SECONDS_MAX:g} s")
        except WorldError as problem:
            return _unseen(str(problem))

    async def _look_for_ready(self, spec: AgentSpec) -> Glimpse:
        """A look that also asks the screen of an agent nobody has seen ready yet."""
        seen = await self._look(spec)
        if not needs_screen(spec) or seen.container_id is None or move_of(seen) is not Move.READY:
            return seen
        place = self._places.get(spec.name)
        agent = place.scene.agent.process if place and place.scene and place.scene.agent else None
        if place is not None and agent is not None and place.ready == agent:
            return seen
        if (reason := await why_unready(self._engine, seen.container_id, spec)) is not None:
            return replace(seen, ready=False, reason=reason)
        if place is not None:
            place.ready = agent
        return seen

    async def found(self, known: frozenset[str]) -> list[Found]:
        """What else looks like an agent. Raises EngineGone, EngineRefused."""
        rows = await self._engine.running()
        clients = await asyncio.to_thread(sightings.tmux_containers) if self._sees_processes else {}
        found = []
        for row in rows:
            agent = agent_of(row.name)
            client = next((client for path, client in clients.items() if row.id in path), None)
            if agent in known or not (agent or client or AGENT_LABEL in row.labels):
                continue
            words = f"runs {client} in tmux" if client else "is named like an agent"
            if AGENT_LABEL in row.labels:
                words = "was started as an agent, and no agent of this name is configured"
            found.append(Found(row.name, row.id, words))
        return found

    def attach_argv(self, spec: AgentSpec) -> tuple[str, ...]:
        engine = ("docker", "-H", self.address, "exec", "-it", container_name(spec.name))
        # -E: the session keeps the variables it was started with, whoever attaches.
        return (*engine, "tmux", "-u", "attach-session", "-E", "-t", f"={SESSION}")

    def changes(self) -> AsyncIterator[str]:
        return self._ears.names()

    async def close(self) -> None:
        self._ears.close()
        await self._engine.close()

    async def container(self, spec: AgentSpec) -> Container | None:
        """The agent's container, whether it runs or not. Raises EngineGone, EngineRefused."""
        return await self._engine.inspect(container_name(spec.name))

    async def _into(
        self, there: Container, spec: AgentSpec, epoch: int, environ: Mapping[str, str]
    ) -> Glimpse:
        """Start the agent in a container that runs, after seeing that none lives there."""
        if there.image != spec.image and AGENT_LABEL in there.labels:
            reason = f"its container runs image {there.image!r}, not {spec.image!r}. Stop it first"
            raise AgentThere(name=spec.name, reason=reason)
        # What was seen before does not count for this.
        self._forget(spec.name)
        seen = await self.look(spec)
        if seen.agent is Sight.ALIVE and not seen.ready:
            seen = await self._ended(there, spec)
        if seen.agent is Sight.ALIVE:
            raise AgentThere(name=spec.name, reason=f"it runs as process {seen.pid}")
        if seen.agent is Sight.UNKNOWN:
            # It might live, and two agents on one conversation corrupt it.
            raise NotReady(name=spec.name, seconds=spec.ready_seconds, reason=seen.reason)
        await self._end_left_behind(there, spec)
        return await Launching(self._engine, there, spec, lambda: self._looked(spec, self._look)).launch(
            epoch, environ
        )

    async def _end_left_behind(self, there: Container, spec: AgentSpec) -> None:
        """Tools that outlived their agent go, as on the host: the next one will run them again. Raises AgentThere."""
        if not self._sees_processes:
            return
        left = await asyncio.to_thread(sightings.left_behind, there.id, spec.name)
        meant = sightings.is_left_behind(there.id, spec.name)
        endings = await asyncio.gather(
            *(end(each, TOOL_STEPS, is_meant=meant, any_user=True) for each in left)
        )
        still = next((each.process.pid for each in endings if each.sight is not Sight.DEAD), None)
        if still is not None:
            reason = f"its last command still runs as process {still} and may yet happen"
            raise AgentThere(name=spec.name, reason=reason)

    async def _ended(self, there: Container, spec: AgentSpec) -> Glimpse:
        """What is seen of an agent that was never ready, after its session was closed."""
        await close_session(self._engine, there.id)
        seen = await self._looked(spec, self._look)
        for _ in range(ENDING_LOOKS_MAX):
            if seen.agent is not Sight.ALIVE:
                break
            await asyncio.sleep(ENDING_SECONDS)
            seen = await self._looked(spec, self._look)
        return seen

    async def _clear_away(self, there: Container, spec: AgentSpec) -> None:
        if there.labels.get(AGENT_LABEL) != spec.name:
            reason = (
                f"a container {there.name} that Wakeful did not make is {there.status}. Remove or start it"
            )
            raise AgentThere(name=spec.name, reason=reason)
        await self._engine.remove(there.id)

    async def _make(self, spec: AgentSpec, body: Mapping[str, object]) -> str:
        try:
            return await self._engine.create(container_name(spec.name), body)
        except EngineRefused as refusal:
            if refusal.status == 404:
                raise ImageMissing(image=spec.image) from refusal
            if refusal.status == 409:
                reason = "somebody else is starting it at this moment"
                raise AgentThere(name=spec.name, reason=reason) from refusal
            raise

    async def _begun(self, container_id: str, spec: AgentSpec) -> Container:
        try:
            await self._engine.begin(container_id)
        except EngineRefused as refusal:
            if "executable file not found" in refusal.reason:
                where = f"image {spec.image}"
                raise CommandMissing(command="sleep", where=where, reason=refusal.reason) from refusal
            raise NotReady(name=spec.name, seconds=spec.ready_seconds, reason=refusal.reason) from refusal
        there = await self._engine.inspect(container_id)
        if there is None or not there.running:
            reason = "was removed while it started" if there is None else f"ended at once ({there.exit_code})"
            raise NotReady(name=spec.name, seconds=spec.ready_seconds, reason=f"its container {reason}")
        return there

    async def _look(self, spec: AgentSpec) -> Glimpse:
        place = self._places.get(spec.name)
        if self._ears.hears and spec.name in self._absent:
            return _gone(None, spec)
        if place is None or place.first is None or not self._ears.hears or not _is_alive(place.first):
            return await self._look_anew(spec, place)
        seen = await self._settled(place, place.first, spec)
        if seen.agent is Sight.DEAD and (proc.is_ending(place.first.pid) or not _is_alive(place.first)):
            # Its container ended meanwhile and took it along: that is not a session that died in there.
            return await self._look_anew(spec, place)
        return seen

    async def _look_anew(self, spec: AgentSpec, place: _Place | None) -> Glimpse:
        """The engine is asked first. `place`: what it said before."""
        before = self._forgotten
        there = await self._inspected(spec, place)
        if there is None and before == self._forgotten:
            self._absent.add(spec.name)
        if there is None or not (there.running or there.restarting):
            return _gone(there, spec)
        if there.paused or there.restarting:
            return _unseen(f"its container is {there.status}", there)
        place = self._place_of(spec, there)
        # Otherwise something happened while the engine answered, and its answer may be older than that.
        if before == self._forgotten:
            self._places[spec.name] = place
        if place.first is None:
            return await remote.look_from_inside(self._engine, place.container, spec)
        return await self._settled(place, place.first, spec)

    async def _inspected(self, spec: AgentSpec, place: _Place | None) -> Container | None:
        """The container, waited for while it is between the end of its first process and the engine's notice of that."""
        there = await self._engine.inspect(container_name(spec.name))
        for _ in range(ENDING_LOOKS_MAX):
            if there is None or not there.running or not self._is_ending(there, place):
                break
            await asyncio.sleep(ENDING_SECONDS)
            there = await self._engine.inspect(container_name(spec.name))
        return there

    def _is_ending(self, there: Container, place: _Place | None) -> bool:
        if not self._sees_processes:
            return False
        was_seen = place is not None and place.first is not None
        return proc.is_ending(there.pid) or (was_seen and proc.identify_if_seen(there.pid) is None)

    def _place_of(self, spec: AgentSpec, there: Container) -> _Place:
        first = sightings.first_process(there.pid, there.id) if self._sees_processes else None
        place = self._places.get(spec.name)
        known = place is not None and place.container == there and place.first == first
        return place if place is not None and known else _Place(there, first)

    async def _settled(self, place: _Place, first: Process, spec: AgentSpec) -> Glimpse:
        """A look that is not misled by a child of tmux's which nobody can tell yet what it will be."""
        seen = self._seen(place, first, spec)
        for _ in range(FORKED_LOOKS_MAX):
            if place.scene is None or not place.scene.is_forked:
                break
            await asyncio.sleep(FORKED_SECONDS)
            seen = self._seen(place, first, spec)
        return seen

    def _seen(self, place: _Place, first: Process, spec: AgentSpec) -> Glimpse:
        there, scene = place.container, place.scene
        if scene is None or not scene.holds():
            marked = there.labels.get(AGENT_LABEL) == spec.name
            sought = sightings.Sought(spec.name, spec.command, marked)
            scene = place.scene = sightings.look_from_host(first, there.id, sought, scene)
            self._ears.watch(spec.name, (first, *scene.told_by))
        alive = Sight.ALIVE if scene.agent is not None else Sight.DEAD
        return Glimpse(
            container=Sight.ALIVE,
            session=scene.session,
            agent=alive,
            pid=scene.agent.process.pid if scene.agent is not None else None,
            container_id=there.id,
            tmux_session=SESSION,
            epoch=epoch_of(there.labels) if scene.epoch is None else scene.epoch,
            reason=scene.reason and f"container running, {scene.reason}",
        )

    def _forget(self, name: str) -> None:
        """What the engine said of this agent is no longer true, or of all of them."""
        self._forgotten += 1
        if name == EVERYBODY:
            self._places.clear()
            self._absent.clear()
        else:
            self._places.pop(name, None)
            self._absent.discard(name)


def _is_alive(first: Process) -> bool:
    return proc.sight(first) is Sight.ALIVE


def _gone(there: Container | None, spec: AgentSpec) -> Glimpse:
    dead = Glimpse(container=Sight.DEAD, session=Sight.DEAD, agent=Sight.DEAD)
    if there is None:
        return replace(dead, reason=f"no container {container_name(spec.name)}")
    return replace(dead, reason=f"container {there.status} ({there.exit_code})", epoch=epoch_of(there.labels))


def _unseen(reason: str, there: Container | None = None) -> Glimpse:
    return Glimpse(
        container=Sight.UNKNOWN if there is None else Sight.ALIVE,
        session=Sight.UNKNOWN,
        agent=Sight.UNKNOWN,
        container_id=there.id if there is not None else None,
        tmux_session=SESSION if there is not None else None,
        epoch=epoch_of(there.labels) if there is not None else 0,
        reason=reason,
    )
