"""The files of a journal below its root: state, events, audit, timeline, suspects and locks.

No symbolic link is followed to any of them. An event is written before its audit row, so that no row exists
without its event.
"""

import os
import stat
import sys
import uuid
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Final

from msgspec import Struct

from wakeful.core.clock import iso
from wakeful.core.process import Process
from wakeful.incidents.line_log import append, lock_file, translate_errors
from wakeful.journal.database import GaiaDatabase, read_archive
from wakeful.journal.event_file import (
    ACCEPTED,
    EventLog,
    EventLogSlice,
    LocatedTrace,
    find_suspects,
    quarantine,
)
from wakeful.journal.locks import JournalLock, recovery_lock
from wakeful.journal.model import STALE_SECONDS, SessionState, StateForeign, Trace
from wakeful.journal.recovery_rules import Suspect
from wakeful.journal.state_file import load_state, replace_state
from wakeful.linux.clock import SystemClock
from wakeful.sources.parsing import wall_of
from wakeful.storage.sqlite.errors import StoreCorrupt


class JournalPaths:
    """The paths below one root."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.state = root / ".copilot" / "session_state.json"
        self.events = root / "events.ndjson"
        self.database = root / "gaia.db"
        self.tmp = root / ".tmp"
        self.lock = self.tmp / "agent_recovery.lock"
        self.timeline = self.tmp / "recovery.timeline"
        self.corrupt = self.tmp / "corrupt"
        self.logs = self.tmp / "logs"
        self.archive = root / "doc" / "todo-archive.ndjson"
        self.master = root / "MASTER_BACKLOG.md"

    @classmethod
    def of_state(cls, path: Path) -> "JournalPaths":
        """The journal of a state file. Raises StateForeign for a file in another place."""
        # Links in the path of the root are allowed; links below the root are refused when a file is opened.
        path = Path(os.path.abspath(path))  # noqa: PTH100 - see above
        paths = cls(Path(os.path.realpath(path.parent.parent)))
        if (path.parent.name, path.name) != (paths.state.parent.name, paths.state.name):
            raise StateForeign(
                path=path, reason="a journal's state is .copilot/session_state.json of its folder"
            )
        return paths

    def create_folders(self) -> None:
        """Create the folders, for this user alone. Raises StateForeign for a link, and OSError."""
        for folder in (self.state.parent, self.tmp, self.corrupt, self.logs):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.check_folders()

    def check_folders(self) -> None:
        """Raises StateForeign where a folder is a link or another user's."""
        for folder in (self.state.parent, self.tmp, self.corrupt, self.logs):
            try:
                found = folder.lstat()
            except FileNotFoundError:
                continue
            if not stat.S_ISDIR(found.st_mode):
                raise StateForeign(path=folder, reason="it is not a folder of its own")
            if found.st_uid != os.geteuid():
                raise StateForeign(path=folder, reason="it belongs to another user")


_DATABASE_ENDINGS: Final = ("", "-wal", "-shm")


class AcquiredLock(Struct, frozen=True):
    """An acquired recovery lock. `owner` is the program that still has the journal, `taken_over` a dead recovery."""

    owner: Process | None
    taken_over: str | None


class RootFiles:
    """The files below one root. `claimed`: the program itself holds the journal's lock.

    All methods block. They raise LogFull, LogBusy, LogUnusable and the errors of a store; then nothing was
    changed.
    """

    def __init__(self, paths: JournalPaths, *, command: str, claimed: bool = False) -> None:
        self.paths = paths
        self._command = command
        self._has_lock = claimed
        self._clock = SystemClock()
        self._events = EventLog(paths.events)
        self._database: GaiaDatabase | None = None
        self._trace_id: str | None = None

    @property
    def root(self) -> str:
        return str(self.paths.root)

    @property
    def state_path(self) -> str:
        return str(self.paths.state)

    @property
    def timeline_path(self) -> str:
        return str(self.paths.timeline)

    @contextmanager
    def lock(self, wait_seconds: float) -> Iterator[AcquiredLock]:
        """Hold the recovery lock of the journal. Raises RecoveryRuns."""
        with translate_errors(self.paths.tmp):
            self.paths.create_folders()
        with ExitStack() as stack:
            # The journal's lock first, then the recovery lock, as programs do: no two processes wait for each other.
            owner = None
            if not self._has_lock:
                lock = JournalLock(self.paths.state.parent)
                stack.callback(lock.close)
                owner = None if lock.acquire(wait_seconds) else lock.holder()
            taken_over = stack.enter_context(
                recovery_lock(
                    self.paths.lock, since=self.now(), command=self._command, wait_seconds=wait_seconds
                )
            )
            stack.callback(self.close)
            yield AcquiredLock(owner, taken_over)

    def read(self) -> SessionState:
        """Raises StateMissing, StateForeign, StateTorn."""
        self.paths.check_folders()
        state = load_state(self.paths.state)
        self._trace_id = state.trace_id
        return state

    def write(self, state: SessionState) -> None:
        """Replace the state, durably."""
        replace_state(self.paths.state, state)
        self._trace_id = state.trace_id

    def quarantine_state(self) -> str:
        """Move the torn state to the folder for suspects; returns its new path."""
        return self._quarantine(self.paths.state)

    def read_events(self, cursor: int) -> EventLogSlice:
        """The events after the cursor."""
        return self._events.read(cursor)

    def session_traces(self, trace_id: str) -> tuple[Trace, ...]:
        """Events and audit rows about one session's steps, oldest first."""
        return self.database().traces(trace_id) if self._has_history() else ()

    def newest_session(self) -> str | None:
        """The session that was opened or began a step last, by events and audit rows."""
        return self.database().newest_session() if self._has_history() else None

    def later_session(self, trace_id: str) -> str | None:
        """The last session that began a step after this session's last start or step.

        For a session that is not recorded, the last one that began a step.
        """
        return self.database().later_session(trace_id) if self._has_history() else None

    def events_end(self) -> int:
        return self._events.size()

    def trace(self, event: str, trace_id: str, step: str | None, details: dict[str, Any]) -> None:
        """Write an event and its audit row, durably."""
        self._trace_id = trace_id
        # The event before its row, even if the database is opened only now.
        located = self.append(event, trace_id, step, details)
        self.database().audit([located])

    def append(self, event: str, trace_id: str, step: str | None, details: dict[str, Any]) -> LocatedTrace:
        """Write an event without its audit row, which the caller adds."""
        trace = Trace(self.now(), event, trace_id, step, uuid.uuid4().hex, details)
        return LocatedTrace(trace, self._events.append(trace))

    def new_trace_id(self) -> str:
        """A trace id for a journal of which nothing is known."""
        return str(uuid.uuid4())

    def now(self) -> str:
        """The current time in ISO 8601, UTC."""
        return iso(self._clock.now().wall)

    def seconds_since(self, stamp: str) -> float:
        """Seconds since a time stamp; 0 if it is not a time."""
        wall = wall_of(stamp)
        return max(0.0, self._clock.now().wall - wall) if wall is not None else 0.0

    def stale_seconds(self, trace_id: str) -> float:
        """The number of seconds without a write after which this journal is stale."""
        kind = self.database().kind_of(trace_id)
        return STALE_SECONDS.get(kind or "", STALE_SECONDS["interactive"])

    def find_suspects(self, trace_id: str) -> tuple[Suspect, ...]:
        """Journaled files that changed or are missing; changed files are moved away."""
        known: dict[str, tuple[str, str]] = {}
        kinds = ("action.completed", "artefact.accepted")
        for event, step, details in self.database().details(kinds, trace_id):
            if event == "artefact.accepted":
                known |= dict.fromkeys(details.get("paths", ()), ("", ACCEPTED))
            else:
                known |= {path: (step or "", found) for path, found in details.get("artefacts", {}).items()}
        return find_suspects(self.paths.root, self.paths.corrupt, known, self.stamp())

    def append_timeline(self, lines: Sequence[str]) -> None:
        text = "".join(f"{line}\n" for line in lines).encode("utf-8", "replace")
        with translate_errors(self.paths.timeline), lock_file(self.paths.timeline) as file:
            append(file, text)

    def stamp(self) -> str:
        """The current time as part of a file name."""
        return self.now().replace("-", "").replace(":", "").replace(".", "")

    def database(self) -> GaiaDatabase:
        """`gaia.db`, created if it is missing, with an audit row for every event."""
        if self._database is None:
            try:
                database = GaiaDatabase(self.paths.database)
            except StoreCorrupt as problem:
                moved = [
                    self._quarantine(path)
                    for ending in _DATABASE_ENDINGS
                    if (path := Path(f"{self.paths.database}{ending}")).exists()
                ]
                self.append_timeline(
                    [f"  ! {problem.facts['path']} was damaged ({problem.facts['why']}): {', '.join(moved)}"]
                )
                database = GaiaDatabase(self.paths.database)
            try:
                self._fill(database)
            except BaseException:
                database.close()
                raise
            self._database = database
        return self._database

    def close(self) -> None:
        if self._database is not None:
            self._database.close()
            self._database = None

    def _fill(self, database: GaiaDatabase) -> None:
        if database.is_new:
            items, wrong = read_archive(self.paths.archive)
            details = {"rows_imported": len(items), "lines_left_out": len(wrong)}
            self.append("recovery.sync", self._trace_id or self.new_trace_id(), None, details)
            database.create(items.values())
        newest, end = database.audited_end()
        # A log that was restored or truncated and has grown since has other events at that offset.
        found = self._events.read(end if self._events.has_trace_at(newest, end) else 0)
        database.audit(found.entries)

    def _has_history(self) -> bool:
        """Whether there are events or rows: in an empty folder a read must not create a database."""
        return self._database is not None or self.paths.database.exists() or self._events.size() > 0

    def _quarantine(self, path: Path) -> str:
        return str(quarantine(path, self.paths.corrupt, self.stamp()).relative_to(self.paths.root))


def own_command() -> str:
    """The command line of this program, for people who inspect a lock."""
    return " ".join(os.path.basename(word) for word in sys.argv[:3]) or "python"  # noqa: PTH119 - not all are paths
