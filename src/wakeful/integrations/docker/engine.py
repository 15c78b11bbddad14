"""Client of the Docker engine's API, with a deadline on every request.

Without an answer it raises EngineGone; for a refusal, EngineRefused. It does not interpret the answers. The
environment of a program run in a container is sent in the request only: the engine neither stores nor shows it.
"""

import asyncio
import json
import os
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final

import aiohttp
import msgspec
from aiodocker import Docker, DockerError
from msgspec import Struct

from wakeful.agents.runtime import EngineGone
from wakeful.core.errors import WorldError
from wakeful.core.redaction import redact
from wakeful.core.text import plain
from wakeful.linux.child_environment import given_environ

ASK_SECONDS_MAX: Final = 5.0
# It takes long to copy an image for a new container, or to end a container with stuck processes.
ACT_SECONDS_MAX: Final = 60.0
PING_SECONDS: Final = 10.0
OUTPUT_BYTES_MAX: Final = 256 * 1024
REASON_CHARS_MAX: Final = 300
# aiodocker's status for an engine that it could not reach.
_UNREACHED: Final = 900
# These change whether an agent runs. Programs of health checks are events, too, and are left out.
_EVENTS: Final = ("start", "die", "destroy", "pause", "unpause", "rename", "oom")


class EngineRefused(WorldError):
    """The engine refused ({status}): {reason}."""

    code = "engine-refused"

    @property
    def status(self) -> int:
        status = self.facts["status"]
        assert isinstance(status, int), "an HTTP status is a number"
        return status

    @property
    def reason(self) -> str:
        return str(self.facts["reason"])


class _State(Struct, rename="pascal"):
    status: str = ""
    running: bool = False
    paused: bool = False
    restarting: bool = False
    pid: int = 0
    exit_code: int = 0


class _Config(Struct, rename="pascal"):
    image: str = ""
    user: str = ""
    labels: dict[str, str] | None = None
    env: list[str] | None = None


class Mount(Struct, frozen=True, rename="pascal"):
    """A folder of the host, or a volume, and its path inside."""

    source: str = ""
    destination: str = ""


class _InspectBody(Struct, rename="pascal"):
    id: str
    name: str
    state: _State
    config: _Config
    mounts: list[Mount] | None = None


class Container(Struct, frozen=True, kw_only=True):
    """A container as the engine describes it. `pid` is that of its first process on the engine's host."""

    id: str
    name: str
    status: str
    running: bool
    paused: bool
    restarting: bool
    pid: int
    exit_code: int
    image: str
    user: str
    labels: Mapping[str, str]
    # HOME as the image sets it, empty if it does not.
    home: str = ""
    mounts: tuple[Mount, ...] = ()


class ContainerRow(Struct, frozen=True):
    id: str
    name: str
    labels: Mapping[str, str]


class ExecResult(Struct, frozen=True):
    exit_code: int
    output: bytes

    @property
    def text(self) -> str:
        return safe_text(self.output.decode(errors="replace"))


class Engine:
    """The engine at one address. Its connections are opened at first use, and belong to the event loop of that moment."""

    def __init__(self, address: str) -> None:
        self.address = address
        self._client: Docker | None = None

    async def close(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            await client.close()

    async def inspect(self, name: str) -> Container | None:
        """The container of this name or id, None if there is none. Raises EngineGone, EngineRefused."""
        try:
            async with self._request(ASK_SECONDS_MAX) as client:
                answer = await client.containers.container(name).show()
        except EngineRefused as refusal:
            if refusal.status == 404:
                return None
            raise
        return _container(self._read(answer))

    async def list_running(self) -> list[ContainerRow]:
        """Every running container. Raises EngineGone, EngineRefused."""
        async with self._request(ASK_SECONDS_MAX) as client:
            rows = await client.containers.list()
        return [
            ContainerRow(row.id, row["Names"][0].removeprefix("/"), row["Labels"] or {})
            for row in rows
            if row["Names"]
        ]

    async def create(self, name: str, wanted: Mapping[str, Any]) -> str:
        """Create a container; returns its id. Raises EngineGone, EngineRefused (409: the name is taken, 404: no image)."""
        async with self._request(ACT_SECONDS_MAX) as client:
            return (await client.containers.create(dict(wanted), name=name)).id

    async def start(self, container_id: str) -> None:
        """Raises EngineGone, EngineRefused."""
        async with self._request(ACT_SECONDS_MAX) as client:
            await client.containers.container(container_id).start()

    async def remove(self, container_id: str) -> None:
        """End and remove a container, if it exists. Raises EngineGone, EngineRefused."""
        try:
            async with self._request(ACT_SECONDS_MAX) as client:
                await client.containers.container(container_id).delete(force=True)
        except EngineRefused as refusal:
            # 409: another client is removing it at this moment.
            if refusal.status not in (404, 409):
                raise

    async def run(
        self,
        container_id: str,
        argv: Sequence[str],
        *,
        environ: Mapping[str, str] | None = None,
        workdir: str = "",
        seconds_max: float = ASK_SECONDS_MAX,
    ) -> ExecResult:
        """Run a program in a running container to its end. Raises EngineGone, EngineRefused."""
        async with self._request(seconds_max) as client:
            program = await client.containers.container(container_id).exec(
                list(argv), environment=given_environ(environ or {}), workdir=workdir or None
            )
            output = bytearray()
            async with program.start() as stream:
                while (message := await stream.read_out()) is not None:
                    output += message.data
                    if len(output) > OUTPUT_BYTES_MAX:
                        break
            # 126 and 127 come from the runtime: the program could not be run.
            exit_code = (await program.inspect())["ExitCode"]
        return ExecResult(-1 if exit_code is None else exit_code, bytes(output))

    async def events(self, since: float) -> AsyncGenerator[Mapping[str, str], None]:
        """The attributes of every container with an event, from `since` on; first an empty mapping, once connected.

        Raises EngineGone when the engine ends, or no longer answers.
        """
        filters = json.dumps({"type": ["container"], "event": list(_EVENTS)})
        # Its own client: aiodocker keeps one stream per client, and never replaces a failed one.
        client = Docker(self.address)
        try:
            async with self._translate_errors(ASK_SECONDS_MAX):
                await client.version()
            # Untyped in aiodocker.
            events: Any = client.events
            queue = events.subscribe(filters=filters, since=f"{since:.9f}")
            yield {}
            while (event := await self._next(client, queue)) is not None:
                yield event.get("Actor", {}).get("Attributes") or {}
        finally:
            try:
                await client.close()
            except (aiohttp.ClientError, OSError, DockerError):
                # The stream's error, raised once more. A second close closes the rest.
                client.events.task = None
                await client.close()
        raise EngineGone(address=self.address, reason="it ended the connection")

    async def _next(self, client: Docker, queue: Any) -> Any:
        """The next event; pings the engine while there is none. None: the engine ended the connection."""
        while True:
            try:
                # Not wait_for: before Python 3.12 it loses a cancellation that comes together with an event.
                async with asyncio.timeout(PING_SECONDS):
                    return await queue.get()
            except TimeoutError:
                async with self._translate_errors(ASK_SECONDS_MAX):
                    await client.version()

    @asynccontextmanager
    async def _request(self, seconds_max: float) -> AsyncIterator[Docker]:
        if self._client is None:
            self._client = Docker(self.address)
        async with self._translate_errors(seconds_max):
            yield self._client

    @asynccontextmanager
    async def _translate_errors(self, seconds_max: float) -> AsyncIterator[None]:
        try:
            async with asyncio.timeout(seconds_max):
                yield
        except TimeoutError as problem:
            raise EngineGone(address=self.address, reason=f"no answer within {seconds_max:g} s") from problem
        except DockerError as problem:
            if problem.status == _UNREACHED:
                raise EngineGone(
                    address=self.address, reason=_reason_of(problem.__context__ or problem)
                ) from problem
            raise EngineRefused(status=problem.status, reason=safe_text(str(problem.message))) from problem
        except (aiohttp.ClientError, OSError) as problem:
            raise EngineGone(address=self.address, reason=_reason_of(problem)) from problem

    def _read(self, answer: object) -> _InspectBody:
        try:
            return msgspec.convert(answer, _InspectBody)
        except msgspec.ValidationError as problem:
            reason = f"it sent an unknown answer: {problem}"
            raise EngineGone(address=self.address, reason=reason) from problem


def safe_text(text: str) -> str:
    return plain(redact(text), REASON_CHARS_MAX)


def _reason_of(problem: BaseException) -> str:
    """The system's text for an error number, if there is one; aiohttp's is far too long."""
    if isinstance(problem, OSError) and problem.errno:
        return os.strerror(problem.errno)
    return safe_text(str(problem)) or type(problem).__name__


def _container(body: _InspectBody) -> Container:
    state, config = body.state, body.config
    homes = [each.removeprefix("HOME=") for each in config.env or () if each.startswith("HOME=")]
    return Container(
        id=body.id,
        name=body.name.removeprefix("/"),
        status=state.status,
        running=state.running,
        paused=state.paused,
        restarting=state.restarting,
        pid=state.pid,
        exit_code=state.exit_code,
        image=config.image,
        user=config.user,
        labels=config.labels or {},
        home=homes[-1] if homes else "",
        mounts=tuple(body.mounts or ()),
    )
