"""The host's figures by psutil, and what PM2 and Docker say of their own where they are there. Reads only.

Whatever cannot be read is None. Docker is asked over its socket with one plain request, without its library. PM2's
command starts its daemon where none runs: it is asked only while one listens.
"""

import asyncio
import os
import shutil
import socket
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Final

import msgspec
import psutil  # type: ignore[import-untyped]  # it ships no types
from msgspec import Struct

from wakeful.core.decoding import decode_json
from wakeful.gateway.rules.host_watch import HostReading, Unit
from wakeful.linux.child_environment import helper_environ
from wakeful.linux.inquiry import ask

ASK_SECONDS_MAX: Final = 5.0
ANSWER_BYTES_MAX: Final = 4 * 1024 * 1024
DOCKER_SOCKET: Final = "/var/run/docker.sock"
_EXITED: Final = "exited"
CONNECT_SECONDS_MAX: Final = 1.0
PM2_ITSELF: Final = "PM2 itself"


class _Pm2Env(Struct):
    status: str = "unknown"


class _Pm2(Struct):
    name: str
    pm2_env: _Pm2Env


class _Container(Struct, rename="pascal"):
    names: list[str]
    state: str
    status: str = ""


class Taken(Struct, frozen=True):
    """What a process takes: processor seconds since its start, and its share of the memory."""

    cpu_seconds: float
    memory_percent: float


def taken_by(pid: int) -> Taken | None:
    """What this process takes; None if it is gone or not ours to look at."""
    try:
        process = psutil.Process(pid)
        times = process.cpu_times()
        return Taken(float(times.user + times.system), float(process.memory_percent()))
    except psutil.Error:
        return None


class HostFigures:
    """One look at a time. Remembers which units were up: one that was never seen up was not meant to be."""

    def __init__(
        self,
        folder: str,
        *,
        pm2: bool = True,
        docker: bool = True,
        docker_socket: str = DOCKER_SOCKET,
        environ: Mapping[str, str] | None = None,
    ) -> None:
        self._folder = folder
        self._asks_pm2 = pm2
        self._asks_docker = docker
        self._docker_socket = docker_socket
        self._environ = helper_environ(os.environ if environ is None else environ)
        self._seen_up: set[tuple[str, str]] = set()

    async def reading(self) -> HostReading:
        """The host now."""
        pm2, docker = await asyncio.gather(self._pm2(), self._docker())
        reading = HostReading(pm2=pm2, docker=docker, cores=psutil.cpu_count() or 1)
        with suppress(OSError, psutil.Error):
            return msgspec.structs.replace(
                reading,
                disk_percent=psutil.disk_usage(self._folder).percent,
                memory_percent=psutil.virtual_memory().percent,
                load=psutil.getloadavg()[0],
            )
        return reading

    async def _pm2(self) -> tuple[Unit, ...] | None:
        program = shutil.which("pm2", path=self._environ.get("PATH")) if self._asks_pm2 else None
        if program is None:
            return None
        if not _listens(f"{_pm2_home(self._environ)}/rpc.sock"):
            ran = any(kind == "pm2" for kind, _ in self._seen_up)
            return (Unit(PM2_ITSELF, "stopped"),) if ran else None
        try:
            answer = await ask((program, "jlist"), ASK_SECONDS_MAX, environ=self._environ, with_children=True)
            listed = decode_json(_last_line(answer.output), list[_Pm2])
        except (OSError, msgspec.DecodeError, UnicodeError):
            return None
        units = [Unit(each.name, each.pm2_env.status) for each in listed]
        return self._once_up("pm2", units, up="online", down="stopped")

    async def _docker(self) -> tuple[Unit, ...] | None:
        if not self._asks_docker or not os.access(self._docker_socket, os.W_OK):
            return None
        try:
            async with asyncio.timeout(ASK_SECONDS_MAX):
                body = await _get(self._docker_socket, "/containers/json?all=1")
            listed = decode_json(body, list[_Container])
        except (OSError, EOFError, ValueError, TimeoutError, msgspec.DecodeError):
            return None
        units = [Unit(each.names[0].removeprefix("/"), _state(each)) for each in listed if each.names]
        return self._once_up("docker", units, up="running", down="failed")

    def _once_up(self, kind: str, units: Iterable[Unit], *, up: str, down: str) -> tuple[Unit, ...]:
        units = tuple(units)
        self._seen_up |= {(kind, unit.name) for unit in units if unit.state == up}
        return tuple(unit for unit in units if unit.state != down or (kind, unit.name) in self._seen_up)


def _state(container: _Container) -> str:
    """Docker's word, with two of ours: what is up and unhealthy, and what ended with an error."""
    if "(unhealthy)" in container.status:
        return "unhealthy"
    if container.state == _EXITED and not container.status.startswith("Exited (0)"):
        return "failed"
    return container.state


async def _get(socket: str, target: str) -> bytes:
    """The body of a GET. In HTTP/1.0 it ends where the connection does. Raises OSError, EOFError, ValueError."""
    reader, writer = await asyncio.open_unix_connection(socket, limit=ANSWER_BYTES_MAX)
    try:
        writer.write(f"GET {target} HTTP/1.0\r\nHost: docker\r\n\r\n".encode())
        head = await reader.readuntil(b"\r\n\r\n")
        if head.split(b" ", 2)[1:2] != [b"200"]:
            raise ValueError("not 200")
        return await _rest(reader)
    finally:
        writer.close()


async def _rest(reader: asyncio.StreamReader) -> bytes:
    body = b""
    while chunk := await reader.read(65536):
        body += chunk
        if len(body) > ANSWER_BYTES_MAX:
            raise ValueError("too long")
    return body


def _pm2_home(environ: Mapping[str, str]) -> str:
    return environ.get("PM2_HOME") or f"{environ.get('HOME', '/')}/.pm2"


def _listens(path: str) -> bool:
    """Whether somebody accepts connections there; the socket's file outlives whoever made it."""
    with socket.socket(socket.AF_UNIX) as asking:
        asking.settimeout(CONNECT_SECONDS_MAX)
        try:
            asking.connect(path)
        except OSError:
            return False
    return True


def _last_line(output: bytes) -> bytes:
    """PM2 may greet on the lines before."""
    lines = output.strip().splitlines()
    return lines[-1] if lines else b""
