"""Interfaces of log sources: readers turn lines into events, sources report to a witness.

They draw no conclusions. All calls are synchronous and come from the daemon's one event loop, in the order of
observation.
"""

from collections.abc import Sequence
from typing import Protocol

from msgspec import Struct

from wakeful.core.ids import SessionId
from wakeful.core.process import Process, ProcessState
from wakeful.judging.events import Event
from wakeful.judging.evidence import ClientStatus, DialogKind, Orphan, Pane, SessionIdentity


class LogReader(Protocol):
    """Bytes in, events out; one reader per log. The same input whole or in parts gives the same events."""

    def read(self, line: bytes) -> Sequence[Event]:
        """The events of one complete line. Never raises: bad bytes are an event too."""

    def is_boundary(self, line: bytes) -> bool:
        """Whether folding may begin at this line: everything about a turn that matters follows it."""


class ProcessWatch(Protocol):
    """Who lives, and being told when that ends."""

    def watch(self, process: Process) -> ProcessState:
        """Whether it lives; if it does, its end will be reported to the witness."""


class EvidenceSink(Protocol):
    """Whoever listens to the eyes."""

    def on_events(
        self, identity: SessionIdentity, events: Sequence[Event], *, live: bool, anew: bool = False
    ) -> None:
        """A log said this. `live`: appended while we watched. `anew`: the log was replaced, forget what it said."""

    def on_report(
        self,
        identity: SessionIdentity,
        events: Sequence[Event],
        *,
        live: bool,
        written_wall: float | None = None,
    ) -> None:
        """Somebody beside its log said this. `live`: just now. Else it counts only where its log says nothing newer.

        `written_wall` is when the kernel saw it written: what a process says after its end counts for nothing.
        """

    def restore(self, identity: SessionIdentity, kept: bytes) -> bool:
        """What was folded of this log before a restart; False if it cannot be used and must be read again."""

    def on_growth(self, session_id: SessionId) -> None:
        """Something of the session's grew under our eyes: a subagent's log, a stream."""

    def on_recent_log(self, identity: SessionIdentity, last_wall: float, cwd: str | None) -> None:
        """A recent log that no process is known to hold. It is shown; `catch_up` reads it when that matters."""

    def on_old_log(self, identity: SessionIdentity, last_wall: float) -> None:
        """An old log exists. It is counted, not read."""

    def on_process(
        self,
        identity: SessionIdentity,
        process: Process,
        state: ProcessState,
        *,
        source: str,
        status: ClientStatus | None = None,
        status_wall: float | None = None,
        waiting_for: str | None = None,
        cwd: str | None = None,
    ) -> None:
        """A process holds, or held, this conversation."""

    def on_dialog(
        self, identity: SessionIdentity, process: Process, kind: DialogKind, words: str, *, cwd: str | None
    ) -> None:
        """A client shows a dialog that no prompt gets past; a subject without a conversation stands for the one to come."""

    def on_dialog_closed(self, process: Process) -> None:
        """This client shows no such dialog any more."""

    def on_release(self, session_id: SessionId, process: Process) -> None:
        """A process that lives on has let go of this conversation."""

    def on_exit(self, process: Process) -> None:
        """A process ended."""

    def on_pane(self, session_id: SessionId, pane: Pane | None) -> None:
        """The pane that shows the session, or that there is none any more."""

    def on_orphans(self, session_id: SessionId, orphans: tuple[Orphan, ...]) -> None:
        """Tools that outlived their agent."""

    def snapshot(self, session_id: SessionId) -> bytes | None:
        """What `recalled` will want back: everything folded of this session so far; None if nothing was heard of it."""

    def on_log_deleted(self, session_id: SessionId) -> None:
        """The session's log was deleted."""


class FileChanges(Struct, gc=False):
    """What the file system reported since the last batch; what happened to one path last is what counts.

    `changed`: files written, created or moved in. `folders`: new ones, not watched yet and perhaps
    already full. `gone`: files and folders. `rescan`: something was missed, so look at everything.
    """

    changed: set[str]
    folders: set[str]
    gone: set[str]
    rescan: bool = False

    def __bool__(self) -> bool:
        return bool(self.changed or self.folders or self.gone or self.rescan)

    def adds_folder_for(self, root: str) -> bool:
        """Whether folders appeared that must be looked into: below the root, or on the way to it."""
        return self.rescan or any(
            f"{folder}/".startswith(f"{root}/") or f"{root}/".startswith(f"{folder}/")
            for folder in self.folders
        )


class FolderWatcher(Protocol):
    """Being told of changes below folders."""

    def add(self, folder: str) -> bool:
        """Watch this folder's entries; False if that is not possible, so that it must be swept."""


class Source(Protocol):
    """One way of seeing. It is told of changes; it never waits and never polls by itself."""

    @property
    def name(self) -> str: ...

    @property
    def delay_reason(self) -> str | None:
        """Why this eye sees late, in words for `status` and `doctor`; None while it is told."""

    @property
    def skipped_logs(self) -> str | None:
        """What lies in the place of a log and is not read, and why; None if there is nothing of the kind."""

    def scan(self) -> None:
        """Report everything that can be seen now. The first look also asks to be told of changes."""

    def on_changes(self, changes: FileChanges) -> None:
        """Report what follows from these changes."""

    def catch_up(self, session_id: SessionId) -> None:
        """Report whatever is new about this session now, before a verdict depends on it."""
