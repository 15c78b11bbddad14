"""Reads the registry of running Claude Code processes, `sessions/<pid>.json`.

Each process rewrites its file on every change. A normal exit removes the file; one left behind by a dead
process is the positive evidence that a death needs. A container that mounts the folder writes pids of its own
namespace; they are translated, because as host pids they would make living sessions dead. Entries of a
machine that cannot be seen from here are rejected, and so are entries that name a living process which is not
this user's Claude Code: any program of this user can write such a file.
"""

from collections.abc import Callable, Sequence
from itertools import islice, pairwise
from pathlib import Path
from sys import intern
from typing import Annotated, Final

import msgspec
from msgspec import Meta, Struct
from msgspec.structs import replace

from wakeful.core.decoding import json_decoder
from wakeful.core.ids import ConversationId, SessionId, is_uuid
from wakeful.core.process import Process, ProcessState
from wakeful.judging.evidence import ClientStatus, SessionIdentity
from wakeful.linux import proc
from wakeful.linux.client_processes import reason_against
from wakeful.linux.files import entries, read_small
from wakeful.linux.proc import InnerProcesses
from wakeful.sources.base import EvidenceSink, FileChanges, FolderWatcher, ProcessWatch
from wakeful.sources.folder_watch import watch_or_await

ENTRY_BYTES_MAX: Final = 64 * 1024
# Clients remove their files when they end, so they do not write more than this. Of more files, those named after the
# pid of a process are read, then the newest.
ENTRIES_MAX: Final = 20_000
REJECTED_KEPT_MAX: Final = 1000
REJECTED_SHOWN_MAX: Final = 3
# A Linux pid has 22 bits, a start time in clock ticks fits in 62 (in 18 digits), and a time in milliseconds in a float without loss.
Pid = Annotated[int, Meta(ge=1, le=2**22)]
Ticks = Annotated[str, Meta(pattern="^[0-9]{1,18}\\Z")] | Annotated[int, Meta(ge=0, le=2**62)]
Milliseconds = Annotated[float, Meta(ge=0, le=2**53)]


class RegistryEntry(Struct, rename="camel"):
    pid: Pid
    session_id: str
    proc_start: Ticks
    started_at: Milliseconds | None = None
    cwd: str | None = None
    status: str | None = None
    status_updated_at: Milliseconds | None = None
    waiting_for: str | None = None

    @property
    def process(self) -> Process:
        return proc.process_of(self.pid, int(self.proc_start))


_decode: Final = json_decoder(RegistryEntry)


class _RejectedEntry(Struct, frozen=True):
    """The session that a rejected entry names, and the reason."""

    session_id: SessionId
    reason: str


class ClaudeRegistrySource:
    """Watches registry folders and reports which process holds which conversation."""

    name = "claude-registry"

    def __init__(
        self,
        config_folders: tuple[Path, ...],
        host: str,
        sink: EvidenceSink,
        processes: ProcessWatch,
        process_of: Callable[[RegistryEntry], Process],
        folders: FolderWatcher | None = None,
        ignored_folders: Sequence[str] = (),
    ) -> None:
        self._registries = tuple(folder / "sessions" for folder in config_folders)
        self._host = host
        self._sink = sink
        self._processes = processes
        self._folders = folders
        # Wakeful's own one-shot calls of the client run in these folders; they are no sessions.
        self._ignored_folders = ignored_folders
        # Processes in a container write the pids that they have inside.
        self._process_of = process_of
        self._session_of: dict[Process, SessionId] = {}
        self._unwatched: list[str] = []
        self._rejected: dict[Path, _RejectedEntry] = {}
        self._surplus = 0

    @property
    def skipped_logs(self) -> str | None:
        """Rejected entries with their reasons, and the number of entries that are too many to read."""
        first = islice(self._rejected.items(), REJECTED_SHOWN_MAX)
        shown = [f"{path.name}: {each.reason}" for path, each in first]
        if more := len(self._rejected) - len(shown):
            shown.append(f"and {more} more")
        if self._surplus:
            shown.append(f"{self._surplus:,} older entries are too many to read")
        return "; ".join(shown) or None

    @property
    def delay_reason(self) -> str | None:
        if not self._unwatched:
            return None
        return f"cannot be watched (inotify limit), swept instead: {', '.join(self._unwatched)}"

    def scan(self) -> None:
        self._unwatched = []
        self._rejected = {}
        self._surplus = 0
        for registry in self._registries:
            if self._folders is not None and not watch_or_await(self._folders, str(registry)):
                self._unwatched.append(str(registry))
            found = [path for path in entries(registry) if path.suffix == ".json"]
            self._surplus += max(len(found) - ENTRIES_MAX, 0)
            for path in found if len(found) <= ENTRIES_MAX else sorted(found, key=_rank)[-ENTRIES_MAX:]:
                self._read(path)

    def on_changes(self, changes: FileChanges) -> None:
        if any(changes.needs_scan(str(folder)) for folder in self._registries):
            self.scan()
            return
        # Of a deleted file, only its rejection is left to forget.
        for changed in (*changes.changed, *changes.gone):
            path = Path(changed)
            if path.suffix == ".json" and path.parent in self._registries:
                self._read(path)

    def catch_up(self, session_id: SessionId) -> None:
        """Read rejected entries again; every other change of a registry file raises an event."""
        for path in [path for path, each in self._rejected.items() if each.session_id == session_id]:
            self._read(path)

    def _read(self, path: Path) -> None:
        self._rejected.pop(path, None)
        entry = read_entry(path)
        # The known versions of the client write a UUID.
        if entry is None or not is_uuid(entry.session_id) or entry.cwd in self._ignored_folders:
            return
        identity = identity_of(entry.session_id, self._host)
        try:
            process = self._process_named_by(path, entry)
        except ValueError as problem:
            if len(self._rejected) < REJECTED_KEPT_MAX:
                self._rejected[path] = _RejectedEntry(identity.id, str(problem))
            return
        before = self._session_of.get(process)
        if before is not None and before != identity.id:
            self._sink.on_release(before, process)
        self._session_of[process] = identity.id
        self._sink.on_process(
            identity,
            process,
            self._processes.watch(process),
            source="registry",
            status=ClientStatus(entry.status) if entry.status in set(ClientStatus) else None,
            status_wall=entry.status_updated_at / 1000 if entry.status_updated_at else None,
            waiting_for=entry.waiting_for,
            cwd=entry.cwd,
        )

    def _process_named_by(self, path: Path, entry: RegistryEntry) -> Process:
        """The process of an entry; the client names the file after its own pid. Raises ValueError."""
        if path.stem != str(entry.pid):
            raise ValueError(f"it names process {entry.pid}")
        return self._process_of(entry)


def _rank(path: Path) -> tuple[bool, float]:
    """Whether a process has the pid in the file's name, and how new the file is."""
    has_process = path.stem.isdecimal() and Path("/proc", path.stem).exists()
    try:
        return has_process, path.lstat().st_mtime
    except OSError:
        return has_process, 0.0


def read_entry(path: Path) -> RegistryEntry | None:
    """The file's entry; None while it is being written or if it is no entry."""
    content = read_small(path, ENTRY_BYTES_MAX)
    try:
        return _decode(content) if content else None
    except msgspec.DecodeError:
        return None


def identity_of(conversation: str, host: str, folder: str = "") -> SessionIdentity:
    """The session of a Claude Code conversation, which must be a UUID: that is always a valid id.

    `folder` is the folder of its log, if that is known.
    """
    session_id, conversation_id = SessionId(f"claude-{conversation}"), ConversationId(conversation)
    # Interned: one string for the many sessions of a folder.
    return SessionIdentity(session_id, "claude", host, "claude-code", conversation_id, folder=intern(folder))


# The client writes its file within seconds of its start. A clock change in between is smaller than this.
OFF_SECONDS_MAX: Final = 600.0
PROVIDER: Final = "claude"
_WITHOUT_TERMINAL: Final = frozenset({"-p", "--print"})
_NAMING: Final = frozenset({"--session-id", "--resume", "-r"})


class EntryProcessResolver:
    """Finds the process of an entry. `now` is the wall clock."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._inside = InnerProcesses()

    def process_of(self, entry: RegistryEntry) -> Process:
        """The process with its pid on this host.

        Raises ValueError for an entry without a start time or of another machine, and for a living process that is
        not the client.
        """
        process = entry.process
        if proc.state_of(process) is ProcessState.DEAD:
            inside = self._inside.find(process.pid, process.started)
            if inside is None and self._is_foreign(entry, process):
                raise ValueError(f"the times of process {process.pid} are from another machine")
            process = inside or process
        if proc.state_of(process) is not ProcessState.DEAD:
            reason = reason_against(process, PROVIDER) or _mismatch_reason(entry, process)
            if reason is not None:
                raise ValueError(reason)
        return process

    def _is_foreign(self, entry: RegistryEntry, process: Process) -> bool:
        """Whether it was written since this host booted, and its start time does not fit this host's clock."""
        if entry.started_at is None:
            return False
        seconds_ago = self._now() - entry.started_at / 1000
        since_boot = seconds_ago < proc.age_seconds(replace(process, started=0))
        return since_boot and abs(proc.age_seconds(process) - seconds_ago) > OFF_SECONDS_MAX


def _mismatch_reason(entry: RegistryEntry, process: Process) -> str | None:
    """Why this process runs another conversation; None if it may hold this one.

    Without a terminal the conversation in the arguments stays the same; in a terminal a person can change it.
    """
    argv = proc.command(process.pid)
    if _WITHOUT_TERMINAL.isdisjoint(argv) or "--fork-session" in argv:
        return None
    for word, following in pairwise((*argv, "")):
        name, _, value = word.partition("=")
        named = value or following
        if name in _NAMING and is_uuid(named) and named.lower() != entry.session_id.lower():
            return f"process {process.pid} runs another conversation"
    return None


def config_folder_of(
    process: Process, variable: str = "CLAUDE_CONFIG_DIR", usual: str = ".claude"
) -> Path | None:
    """A client's configuration folder; None if its environment cannot be read."""
    if folder := proc.environ_value(process.pid, variable):
        return Path(folder)
    home = proc.environ_value(process.pid, "HOME")
    return Path(home) / usual if home else None


def entry_of(process: Process) -> RegistryEntry | None:
    """The process's entry; None if it wrote none yet, or if the file is another process's."""
    folder = config_folder_of(process)
    if folder is None:
        return None
    entry = read_entry(folder / "sessions" / f"{process.pid}.json")
    try:
        return entry if entry is not None and entry.process == process else None
    except ValueError:
        # The known versions of the client write a start time.
        return None


def status_of(process: Process) -> str | None:
    """`busy`, `idle` or `waiting`; None if the process reports nothing."""
    entry = entry_of(process)
    return None if entry is None else entry.status
