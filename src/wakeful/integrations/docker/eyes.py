"""Eyes for Claude Code in containers, put up and taken down while the daemon runs; to the daemon they are one eye.

Each container has the eyes that the host has: one for its transcripts, one for its registry, with pids as this host
numbers them. What cannot be seen is said in `left_out`.
"""

from collections.abc import Collection, Iterator
from pathlib import Path

from msgspec import Struct

from wakeful.core.clock import Clock
from wakeful.core.ids import SessionId
from wakeful.core.process import ELSEWHERE, Process, Sight
from wakeful.integrations.claude_code.entry_holder import PROVIDER
from wakeful.integrations.claude_code.logs import claude_logs
from wakeful.integrations.claude_code.registry import Entry, RegistryEye
from wakeful.integrations.docker.engine import Container
from wakeful.integrations.docker.inside import seek
from wakeful.integrations.docker.sightings import process_inside
from wakeful.judging.events import Event
from wakeful.linux import proc
from wakeful.linux.client_processes import reason_against
from wakeful.sources.base import Changes, Eye, Folders, Processes, Witness
from wakeful.sources.eye import LogEye
from wakeful.storage.store import Bookmark


class _Pair(Struct):
    """The eyes on one container's folder. `open`: its container runs."""

    folder: Path
    logs: LogEye
    registry: RegistryEye
    open: bool = True


class ContainerEyes:
    """What the host's eyes on Claude Code do, for folders that come and go. `watched` are seen by others already."""

    name = "claude-in-containers"

    def __init__(
        self,
        host: str,
        clock: Clock,
        witness: Witness,
        processes: Processes,
        *,
        fold_after_seconds: float,
        folders: Folders | None = None,
        watched: Collection[Path] = (),
    ) -> None:
        self._host = host
        self._clock = clock
        self._witness = witness
        self._processes = processes
        self._fold_after_seconds = fold_after_seconds
        self._folders = folders
        self._elsewhere = frozenset(watched)
        self._pairs: dict[str, _Pair] = {}
        self._unseen: dict[str, str] = {}
        self._failed_before = 0

    @property
    def slow(self) -> str | None:
        told = [
            each for pair in self._pairs.values() for each in (pair.logs.slow, pair.registry.slow) if each
        ]
        return "; ".join(dict.fromkeys(told)) or None

    @property
    def failed(self) -> int:
        """Readings that were refused, since the start."""
        return self._failed_before + sum(pair.logs.failed for pair in self._pairs.values())

    @property
    def left_out(self) -> str | None:
        unseen = [f"agent {agent}: {reason}" for agent, reason in sorted(self._unseen.items())]
        told = (
            each for pair in self._pairs.values() for each in (pair.logs.left_out, pair.registry.left_out)
        )
        odd = [each for each in told if each]
        return "; ".join((*unseen, *odd)) or None

    def show(self, agent: str, container: Container, agent_pid: int | None = None) -> bool:
        """An agent's container runs: look at its transcripts from now on. The same one again changes nothing.

        False while they cannot be seen: `left_out` says why, and it may be tried again.
        """
        found = seek(container, agent_pid)
        self._unseen.pop(agent, None)
        if found.folder is None:
            self._unseen[agent] = found.reason
        before = self._pairs.get(agent)
        if before is not None and before.folder == found.folder:
            before.open = True
            return True
        if before is not None:
            del self._pairs[agent]
            self._failed_before += before.logs.failed
            # Its logs are read anew below another path: told twice, they would look like a loop.
            before.logs.let_go()
        if found.folder is not None and found.folder not in self._elsewhere:
            pair = self._pairs[agent] = self._pair(found.folder, container.id)
            _look(pair)
        return found.folder is not None

    def hide(self, agent: str) -> None:
        """Its container is gone. What it said stays until it is shown again; nothing new is looked for."""
        self._unseen.pop(agent, None)
        pair = self._pairs.get(agent)
        if pair is not None:
            pair.open = False

    def look(self) -> None:
        for pair in self._open():
            _look(pair)

    async def sweep(self) -> None:
        """The backstop behind being told."""
        for pair in self._open():
            await pair.logs.sweep()
            pair.registry.look()

    def told(self, changes: Changes) -> None:
        for pair in self._open():
            pair.logs.told(changes)
            pair.registry.told(changes)

    def catch_up(self, session_id: SessionId) -> None:
        for eye in self._eyes():
            eye.catch_up(session_id)

    def recall_events(self, session_id: SessionId, limit: int) -> list[Event]:
        # A copy: whoever asks may do so in a thread, while containers come and go.
        pairs = tuple(self._pairs.values())
        return [event for pair in pairs for event in pair.logs.recall_events(session_id, limit)]

    def recall_lines(self, session_id: SessionId) -> list[bytes]:
        pairs = list(self._pairs.values())
        return [line for pair in pairs for line in pair.logs.recall_lines(session_id)]

    def take_bookmarks(self) -> Iterator[Bookmark]:
        """None: the paths are true only as long as their containers run, and what is inside is soon read again."""
        yield from ()

    def _open(self) -> list[_Pair]:
        return [pair for pair in self._pairs.values() if pair.open]

    def _eyes(self) -> Iterator[Eye]:
        for pair in self._open():
            yield from (pair.logs, pair.registry)

    def _pair(self, folder: Path, container_id: str) -> _Pair:
        logs = LogEye(
            claude_logs((folder,), self._host),
            self._clock,
            self._witness,
            fold_after_seconds=self._fold_after_seconds,
            folders=self._folders,
        )
        inner = _Inner(container_id)
        registry = RegistryEye(
            (folder,), self._host, self._witness, self._processes, inner.process_of, self._folders
        )
        return _Pair(folder, logs, registry)


class _Inner:
    """Who is meant by the numbers inside one container."""

    def __init__(self, container_id: str) -> None:
        self._container_id = container_id
        self._known: dict[tuple[int, int], Process] = {}

    def process_of(self, entry: Entry) -> Process:
        """The process as this host numbers it. Raises ValueError for an entry without a time, or of another program.

        A container's users are its own: which of them runs the client says nothing.
        """
        key = entry.pid, int(entry.proc_start)
        found = self._known.get(key) or process_inside(self._container_id, *key)
        if found is None:
            # Gone, and nobody on this host has had these numbers.
            return Process(*key, f"{ELSEWHERE} {self._container_id}")
        is_dead = proc.sight(found) is Sight.DEAD
        if not is_dead and (reason := reason_against(found, PROVIDER, any_user=True)) is not None:
            raise ValueError(reason)
        self._known[key] = found
        return found


def _look(pair: _Pair) -> None:
    pair.logs.look()
    pair.registry.look()
