"""Log source for Claude Code in containers: reads transcripts and registry from this host.

Claude Code's folder is a mount or the container's own root. Symlinks in a container can point anywhere on
this host, so none is followed. The sources of a container are added and removed while the daemon runs, with
this host's pids; the daemon sees them as one source. An unreachable folder is reported in `skipped_logs` with
the fix, and allows no conclusion. A container is inspected once for each agent process, and again while its
folder cannot be read.
"""

import asyncio
import logging
import os
import stat
from collections.abc import Collection, Iterator
from pathlib import Path, PurePosixPath
from typing import Final

from msgspec import Struct

from wakeful.agents.model import AgentObservation, AgentSpec
from wakeful.core.clock import Clock
from wakeful.core.errors import WorldError
from wakeful.core.ids import SessionId
from wakeful.core.process import FOREIGN_BOOT_ID, Process, ProcessState
from wakeful.integrations.claude_code.registry import PROVIDER, ClaudeRegistrySource, RegistryEntry
from wakeful.integrations.claude_code.transcript import claude_logs
from wakeful.integrations.docker.agent_runtime import INSPECT_SECONDS_MAX, DockerRuntime
from wakeful.integrations.docker.engine import Container
from wakeful.integrations.docker.inspect import first_process, process_inside
from wakeful.judging.events import Event
from wakeful.linux import proc
from wakeful.linux.client_processes import reason_against
from wakeful.linux.files import read_small
from wakeful.sources.base import EvidenceSink, FileChanges, FolderWatcher, ProcessWatch
from wakeful.sources.log_source import LogExcerpt, LogFileSource
from wakeful.storage.base import Bookmark

PASSWD_BYTES_MAX: Final = 256 * 1024
NOT_VISIBLE: Final = "transcript not visible"
_FIX: Final = "mount a folder of this host at {inner} in the agent's `mounts`"


class TranscriptFolder(Struct, frozen=True):
    """Claude Code's configuration folder in a container, as a path of this host; without one, the reason and the fix."""

    folder: Path | None
    # Whether the folder disappears with the container.
    passing: bool = False
    reason: str = ""


def find_transcripts(container: Container, agent_pid: int | None = None) -> TranscriptFolder:
    """The transcript folder of a running container's Claude Code. The agent's own environment comes first."""
    first = first_process(container.pid, container.id)
    inner = _config_folder(container, agent_pid)
    fix = _FIX.format(inner=inner)
    if first is None:
        reason = f"{NOT_VISIBLE}: the container's processes are not this host's; {fix} and name it in eyes.claude_dirs"
        return TranscriptFolder(None, reason=reason)
    ways = [(Path(f"/proc/{first.pid}/root"), inner.relative_to("/"), True)]
    if (mounted := _find_mount(container, inner)) is not None:
        ways.insert(0, (*mounted, False))
    problems = []
    for base, rest, passing in ways:
        problem = _problem(base, rest)
        if not problem:
            return TranscriptFolder(base / rest, passing)
        problems.append(problem)
    return TranscriptFolder(None, reason=f"{NOT_VISIBLE}: {problems[0]}; {fix}")


def _config_folder(container: Container, agent_pid: int | None) -> PurePosixPath:
    """Claude Code's folder as a path inside."""
    chosen = _variable(agent_pid, "CLAUDE_CONFIG_DIR")
    if chosen.startswith("/"):
        return _plain(chosen)
    home = _variable(agent_pid, "HOME") or container.home or _home_of(container)
    return _plain(home) / ".claude"


def _variable(pid: int | None, name: str) -> str:
    return (proc.environ_value(pid, name) or "") if pid is not None else ""


def _plain(path: str) -> PurePosixPath:
    """An absolute path without `..`."""
    return PurePosixPath("/", *(part for part in PurePosixPath(path).parts if part not in ("/", "..")))


def _home_of(container: Container) -> str:
    """The home of the container's user, from its own list of users."""
    user = container.user.partition(":")[0] or "0"
    users = read_small(Path(f"/proc/{container.pid}/root/etc/passwd"), PASSWD_BYTES_MAX) or b""
    for line in users.decode(errors="replace").splitlines():
        fields = line.split(":")
        if len(fields) > 5 and user in (fields[0], fields[2]):
            return fields[5]
    return "/root" if user in ("0", "root") else f"/home/{user}"


def _find_mount(container: Container, inner: PurePosixPath) -> tuple[Path, PurePosixPath] | None:
    """The folder of this host that is mounted at or above this path, and the rest of the path."""
    above = [each for each in container.mounts if inner.is_relative_to(each.destination)]
    if not above:
        return None
    nearest = max(above, key=lambda each: len(each.destination))
    return Path(nearest.source), inner.relative_to(nearest.destination)


def _problem(base: Path, rest: PurePosixPath) -> str:
    """Why this folder cannot be read; empty if it can, or if it does not exist yet."""
    place = base
    try:
        os.listdir(f"{base}/")  # noqa: PTH208 - the slash follows only the kernel's own link
        for part in rest.parts:
            place /= part
            mode = place.lstat().st_mode
            if stat.S_ISLNK(mode):
                return f"{part} is a link, and links out of a container are not followed"
            if not os.access(place, os.R_OK | os.X_OK):
                return f"{part} is closed to us"
    except FileNotFoundError:
        return "" if place != base else "its root is gone"
    except OSError as problem:
        return f"{place.name} cannot be read: {problem.strerror}"
    return ""


class _ContainerSources(Struct):
    """The sources of one container's folder. `open`: whether its container runs."""

    folder: Path
    logs: LogFileSource
    registry: ClaudeRegistrySource
    open: bool = True


class ContainerSource:
    """The sources of Claude Code in containers. Other sources read the folders in `watched` already."""

    name = "claude-in-containers"

    def __init__(
        self,
        host: str,
        clock: Clock,
        sink: EvidenceSink,
        processes: ProcessWatch,
        *,
        fold_after_seconds: float,
        folders: FolderWatcher | None = None,
        watched: Collection[Path] = (),
    ) -> None:
        self._host = host
        self._clock = clock
        self._sink = sink
        self._processes = processes
        self._fold_after_seconds = fold_after_seconds
        self._folders = folders
        self._watched_elsewhere = frozenset(watched)
        self._by_agent: dict[str, _ContainerSources] = {}
        self._not_visible: dict[str, str] = {}
        self._failed_before = 0

    @property
    def delay_reason(self) -> str | None:
        pairs = self._by_agent.values()
        reasons = (each for pair in pairs for each in (pair.logs.delay_reason, pair.registry.delay_reason))
        return "; ".join(dict.fromkeys(each for each in reasons if each)) or None

    @property
    def failed_reads(self) -> int:
        return self._failed_before + sum(pair.logs.failed_reads for pair in self._by_agent.values())

    @property
    def skipped_logs(self) -> str | None:
        not_visible = [f"agent {agent}: {reason}" for agent, reason in sorted(self._not_visible.items())]
        pairs = self._by_agent.values()
        skipped = (each for pair in pairs for each in (pair.logs.skipped_logs, pair.registry.skipped_logs))
        return "; ".join((*not_visible, *(each for each in skipped if each))) or None

    def add_container(self, agent: str, container: Container, agent_pid: int | None = None) -> bool:
        """Read the transcripts of an agent's running container from now on. A second call changes nothing.

        False while they cannot be read: `skipped_logs` has the reason, and the caller may try again.
        """
        found = find_transcripts(container, agent_pid)
        self._not_visible.pop(agent, None)
        if found.folder is None:
            self._not_visible[agent] = found.reason
        before = self._by_agent.get(agent)
        if before is not None and before.folder == found.folder:
            before.open = True
            return True
        if before is not None:
            del self._by_agent[agent]
            self._failed_before += before.logs.failed_reads
            # Its logs are read again below another path: reported twice, they would look like a loop.
            before.logs.release()
        if found.folder is not None and found.folder not in self._watched_elsewhere:
            pair = self._by_agent[agent] = self._make_sources(found.folder, container.id)
            _scan(pair)
        return found.folder is not None

    def remove_container(self, agent: str) -> None:
        """Read nothing more of an ended container. Its evidence stays until the agent has a container again."""
        self._not_visible.pop(agent, None)
        pair = self._by_agent.get(agent)
        if pair is not None:
            pair.open = False

    def scan(self) -> None:
        for pair in self._running_containers():
            _scan(pair)

    async def sweep(self) -> None:
        """Read everything again, for changes that raised no event."""
        for pair in self._running_containers():
            await pair.logs.sweep()
            pair.registry.scan()

    def on_changes(self, changes: FileChanges) -> None:
        for pair in self._running_containers():
            pair.logs.on_changes(changes)
            pair.registry.on_changes(changes)

    def catch_up(self, session_id: SessionId) -> None:
        for pair in self._running_containers():
            pair.logs.catch_up(session_id)
            pair.registry.catch_up(session_id)

    def read_last_events(self, session_id: SessionId, limit: int) -> list[Event]:
        # A copy: the caller may be a thread, while containers are added and removed.
        pairs = tuple(self._by_agent.values())
        return [event for pair in pairs for event in pair.logs.read_last_events(session_id, limit)]

    def read_conversation(self, session_id: SessionId, after: str) -> LogExcerpt | None:
        pairs = tuple(self._by_agent.values())
        found = (pair.logs.read_conversation(session_id, after) for pair in pairs)
        return next((excerpt for excerpt in found if excerpt is not None), None)

    def read_last_lines(self, session_id: SessionId) -> list[bytes]:
        pairs = list(self._by_agent.values())
        return [line for pair in pairs for line in pair.logs.read_last_lines(session_id)]

    def mark_unsaved(self, session_id: SessionId) -> None:
        """Nothing to do: there are no bookmarks."""

    def take_bookmarks(self) -> Iterator[Bookmark]:
        """No bookmarks: the paths are valid only while the containers run, and the logs inside are read again soon."""
        yield from ()

    def _running_containers(self) -> list[_ContainerSources]:
        return [pair for pair in self._by_agent.values() if pair.open]

    def _make_sources(self, folder: Path, container_id: str) -> _ContainerSources:
        logs = LogFileSource(
            claude_logs((folder,), self._host),
            self._clock,
            self._sink,
            fold_after_seconds=self._fold_after_seconds,
            folders=self._folders,
        )
        inner = _ContainerPids(container_id)
        registry = ClaudeRegistrySource(
            (folder,), self._host, self._sink, self._processes, inner.process_of, self._folders
        )
        return _ContainerSources(folder, logs, registry)


class _ContainerPids:
    def __init__(self, container_id: str) -> None:
        self._container_id = container_id
        self._known: dict[tuple[int, int], Process] = {}

    def process_of(self, entry: RegistryEntry) -> Process:
        """The process with its pid on this host. Raises ValueError for an entry without a time, or of another program.

        A container has its own users, so any of them may run the client.
        """
        key = entry.pid, int(entry.proc_start)
        found = self._known.get(key) or process_inside(self._container_id, *key)
        if found is None:
            # It has ended, and its pid never belonged to a process of this host.
            return Process(*key, f"{FOREIGN_BOOT_ID} {self._container_id}")
        is_dead = proc.state_of(found) is ProcessState.DEAD
        if not is_dead and (reason := reason_against(found, PROVIDER, any_user=True)) is not None:
            raise ValueError(reason)
        self._known[key] = found
        return found


def _scan(pair: _ContainerSources) -> None:
    pair.logs.scan()
    pair.registry.scan()


log: Final = logging.getLogger("wakeful.hub")


class ContainerSourceUpdater:
    """Adds and removes the containers of one engine."""

    def __init__(self, runtime: DockerRuntime, source: ContainerSource) -> None:
        self._runtime = runtime
        self._source = source
        self._added: dict[str, tuple[str, int | None]] = {}

    async def update(self, spec: AgentSpec, observation: AgentObservation) -> None:
        if spec.runtime != self._runtime.name:
            return
        if observation.container is ProcessState.DEAD:
            self._source.remove_container(spec.name)
            self._added.pop(spec.name, None)
        elif observation.container is ProcessState.ALIVE and observation.container_id is not None:
            await self._add_container(spec, observation.container_id, observation.pid)

    async def _add_container(self, spec: AgentSpec, container_id: str, pid: int | None) -> None:
        known_id, known_pid = self._added.get(spec.name, ("", None))
        # While no agent runs in it, the last result for the same container is good enough.
        if known_id == container_id and pid in (None, known_pid):
            return
        try:
            async with asyncio.timeout(INSPECT_SECONDS_MAX):
                container = await self._runtime.container(spec)
        except (WorldError, TimeoutError) as problem:
            log.debug("agent %s: its container cannot be queried: %s", spec.name, problem)
            return
        if (
            container is not None
            and container.running
            and self._source.add_container(spec.name, container, pid)
        ):
            self._added[spec.name] = (container_id, pid)
