"""Reads the figures of the host, of PM2 and Docker and of sessions' processes; cleans the gateway's files.

A figure that cannot be read is None. Docker is asked over its socket with one plain request, without its
library. PM2's command would start its daemon, so it runs only while that daemon listens. Only regular files
directly in the gateway's temporary folder and its rotated logs are removed, if they are old enough; no
symlink is followed.
"""

import asyncio
import ctypes
import gc
import logging
import os
import shutil
import socket
import stat
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

import msgspec
import psutil  # type: ignore[import-untyped]  # it ships no types
from msgspec import Struct

from wakeful.core.clock import Clock
from wakeful.core.decoding import decode_json
from wakeful.core.errors import WakefulError
from wakeful.core.ids import SessionId
from wakeful.core.process import Process
from wakeful.gateway.rules.host import Hog, HostReading, Unit
from wakeful.gateway.rules.messages import ConversationKey
from wakeful.linux import proc
from wakeful.linux.child_environment import helper_environ
from wakeful.linux.run_command import run_command

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


class ProcessUsage(Struct, frozen=True):
    """Processor seconds of a process since its start, and its share of the memory."""

    cpu_seconds: float
    memory_percent: float


def process_usage(pid: int) -> ProcessUsage | None:
    """The usage of this process; None if it is gone or this user may not read it."""
    try:
        process = psutil.Process(pid)
        times = process.cpu_times()
        return ProcessUsage(float(times.user + times.system), float(process.memory_percent()))
    except psutil.Error:
        return None


class HostReader:
    """Remembers which units were up. One that is down and was never seen up is not meant to run, and is left out."""

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

    async def read(self) -> HostReading:
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
        if not _is_listening(f"{_pm2_home(self._environ)}/rpc.sock"):
            ran = any(kind == "pm2" for kind, _ in self._seen_up)
            return (Unit(PM2_ITSELF, "stopped"),) if ran else None
        try:
            answer = await run_command(
                (program, "jlist"), ASK_SECONDS_MAX, environ=self._environ, with_children=True
            )
            listed = decode_json(_last_line(answer.output), list[_Pm2])
        except (OSError, msgspec.DecodeError, UnicodeError):
            return None
        units = [Unit(each.name, each.pm2_env.status) for each in listed]
        return self._units_seen_up("pm2", units, up="online", down="stopped")

    async def _docker(self) -> tuple[Unit, ...] | None:
        if not self._asks_docker or not os.access(self._docker_socket, os.W_OK):
            return None
        try:
            async with asyncio.timeout(ASK_SECONDS_MAX):
                body = await _http_get(self._docker_socket, "/containers/json?all=1")
            listed = decode_json(body, list[_Container])
        except (OSError, EOFError, ValueError, TimeoutError, msgspec.DecodeError):
            return None
        units = [Unit(each.names[0].removeprefix("/"), _state(each)) for each in listed if each.names]
        return self._units_seen_up("docker", units, up="running", down="failed")

    def _units_seen_up(self, kind: str, units: Iterable[Unit], *, up: str, down: str) -> tuple[Unit, ...]:
        units = tuple(units)
        self._seen_up |= {(kind, unit.name) for unit in units if unit.state == up}
        return tuple(unit for unit in units if unit.state != down or (kind, unit.name) in self._seen_up)


def _state(container: _Container) -> str:
    """Docker's state, with two additions: up but unhealthy, and ended with an error."""
    if "(unhealthy)" in container.status:
        return "unhealthy"
    if container.state == _EXITED and not container.status.startswith("Exited (0)"):
        return "failed"
    return container.state


async def _http_get(socket: str, target: str) -> bytes:
    """The body of a GET. In HTTP/1.0 it ends where the connection does. Raises OSError, EOFError, ValueError."""
    reader, writer = await asyncio.open_unix_connection(socket, limit=ANSWER_BYTES_MAX)
    try:
        writer.write(f"GET {target} HTTP/1.0\r\nHost: docker\r\n\r\n".encode())
        head = await reader.readuntil(b"\r\n\r\n")
        if head.split(b" ", 2)[1:2] != [b"200"]:
            raise ValueError("not 200")
        return await _read_body(reader)
    finally:
        writer.close()


async def _read_body(reader: asyncio.StreamReader) -> bytes:
    body = b""
    while chunk := await reader.read(65536):
        body += chunk
        if len(body) > ANSWER_BYTES_MAX:
            raise ValueError("too long")
    return body


def _pm2_home(environ: Mapping[str, str]) -> str:
    return environ.get("PM2_HOME") or f"{environ.get('HOME', '/')}/.pm2"


def _is_listening(path: str) -> bool:
    """Whether a process accepts connections there; the socket's file outlives its process."""
    with socket.socket(socket.AF_UNIX) as asking:
        asking.settimeout(CONNECT_SECONDS_MAX)
        try:
            asking.connect(path)
        except OSError:
            return False
    return True


def _last_line(output: bytes) -> bytes:
    """The last line of output: PM2 may print a banner before it."""
    lines = output.strip().splitlines()
    return lines[-1] if lines else b""


TEMPORARY_SECONDS_MAX: Final = 86_400.0
ROTATED_SECONDS_MAX: Final = 3 * 86_400.0


FetchPid = Callable[[SessionId], Awaitable[int | None]]

log = logging.getLogger("wakeful.gateway")


class _CpuUsage(Struct):
    """Processor seconds of a process at its last reading. `since`: since when each reading was above the limit."""

    cpu_seconds: float
    read_at: float
    since: float | None = None


class GatewayHost:
    """`temporary` is the gateway's own folder of temporary files, `log` its log, rotated as `log.1` and so on.

    `fetch_pid`: the pid of a session's agent process, as the daemon knows it. The mark in a process's environment is
    not enough: not every agent process has one, and a process that has one may be only a wrapper.
    """

    def __init__(
        self, clock: Clock, reader: HostReader, fetch_pid: FetchPid, *, temporary: Path, log: Path
    ) -> None:
        self._clock = clock
        self._reader = reader
        self._fetch_pid = fetch_pid
        self._temporary = temporary
        self._log = log
        self._cpu_usage: dict[Process, _CpuUsage] = {}

    async def read(self) -> HostReading:
        return await self._reader.read()

    async def hogs(self, sessions: Mapping[str, ConversationKey], cpu_percent_max: float) -> tuple[Hog, ...]:
        now = self._clock.now().awake
        found = {each: process for each in sessions if (process := await self._process_of(each)) is not None}
        self._cpu_usage = {each: usage for each, usage in self._cpu_usage.items() if each in found.values()}
        hogs = (
            self._measure(sessions[session_id], process, now, cpu_percent_max)
            for session_id, process in found.items()
        )
        return tuple(each for each in hogs if each is not None)

    async def _process_of(self, session_id: str) -> Process | None:
        try:
            pid = await self._fetch_pid(SessionId(session_id))
        except WakefulError as problem:
            log.info("the process of %s is not known: %s", session_id, problem)
            return None
        return proc.identify_or_none(pid) if pid is not None else None

    async def collect_memory(self) -> None:
        gc.collect()
        # Only glibc has it: the call returns freed memory to the system.
        trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
        if trim is not None:
            trim(0)

    async def clean_files(self) -> int:
        return await asyncio.to_thread(self._clean, self._clock.now().wall)

    def _measure(
        self, key: ConversationKey, process: Process, now: float, cpu_percent_max: float
    ) -> Hog | None:
        usage = process_usage(process.pid)
        if usage is None:
            return None
        before = self._cpu_usage.get(process) or _CpuUsage(usage.cpu_seconds, now)
        elapsed_seconds = now - before.read_at
        cpu_percent = (
            100 * (usage.cpu_seconds - before.cpu_seconds) / elapsed_seconds if elapsed_seconds > 0 else 0.0
        )
        since = (before.since or before.read_at) if cpu_percent > cpu_percent_max else None
        self._cpu_usage[process] = _CpuUsage(usage.cpu_seconds, now, since)
        busy_seconds = 0.0 if since is None else now - since
        return Hog(key, f"pid {process.pid}", cpu_percent, busy_seconds, usage.memory_percent)

    def _clean(self, now_wall: float) -> int:
        old = [
            *_older_files(self._temporary, "*", now_wall - TEMPORARY_SECONDS_MAX),
            *_older_files(self._log.parent, f"{self._log.name}.*", now_wall - ROTATED_SECONDS_MAX),
        ]
        removed = 0
        for path in old:
            try:
                path.unlink()
            except OSError:
                # Another process removed it first, or this user may not: continue with the others.
                continue
            removed += 1
        return removed


def _older_files(folder: Path, pattern: str, wall: float) -> Iterator[Path]:
    """Regular files directly in it that were not written to since then."""
    for path in folder.glob(pattern) if folder.is_dir() and not folder.is_symlink() else ():
        try:
            status = path.lstat()
        except OSError:
            continue
        if stat.S_ISREG(status.st_mode) and status.st_mtime < wall:
            yield path
