"""Interfaces of log sources: readers turn lines into events, sources report to an evidence sink.

They draw no conclusions. All calls are synchronous, in the daemon's event loop and in the order of observation.
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
        """The events of one complete line. Never raises: bad bytes become an event."""

    def is_boundary(self, line: bytes) -> bool:
        """Whether folding may begin at this line, because judging needs nothing from before it."""


class ProcessWatch(Protocol):
    def watch(self, process: Process) -> ProcessState:
        """The state of the process; if it is alive, its exit will be reported to the sink."""


class EvidenceSink(Protocol):
    """Receives the reports of all sources."""

    def on_events(
        self, identity: SessionIdentity, events: Sequence[Event], *, live: bool, replaced: bool = False
    ) -> None:
        """Events of a log. `live`: appended while watching. `replaced`: the log was; its earlier events do not count."""

    def on_report(
        self,
        identity: SessionIdentity,
        events: Sequence[Event],
        *,
        live: bool,
        written_wall: float | None = None,
    ) -> None:
        """Events from outside the log, such as a hook. Without `live` they count only if the log has nothing newer.

        `written_wall` is the kernel's time of writing: events written after the end of the process do not count.
        """

    def restore(self, identity: SessionIdentity, stored: bytes) -> bool:
        """Restore the state folded from this log before a restart; False if it is unusable: read the log again."""

    def on_restored(self, session_id: SessionId) -> None:
        """The log of a session with a stored state was read to its end."""

    def on_growth(self, session_id: SessionId) -> None:
        """A file of the session grew while watching: a subagent's log, a stream."""

    def on_recent_log(self, identity: SessionIdentity, last_wall: float, cwd: str | None) -> None:
        """A recent log without a known process. It is shown; `catch_up` reads it when needed."""

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
        """A process runs, or ran, this conversation."""

    def on_dialog(
        self, identity: SessionIdentity, process: Process, kind: DialogKind, text: str, *, cwd: str | None
    ) -> None:
        """A client shows a dialog that blocks prompts. Without a conversation, `identity` is that of the next one."""

    def on_dialog_closed(self, process: Process) -> None: ...

    def on_release(self, session_id: SessionId, process: Process) -> None:
        """A process left this conversation and goes on."""

    def on_exit(self, process: Process) -> None: ...

    def on_pane(self, session_id: SessionId, pane: Pane | None) -> None:
        """The pane that shows the session; None if there is none any more."""

    def on_orphans(self, session_id: SessionId, orphans: tuple[Orphan, ...]) -> None:
        """Tools that outlived their agent."""

    def snapshot(self, session_id: SessionId) -> bytes | None:
        """The folded state of this session, for `restore`; None without any events."""

    def on_log_deleted(self, session_id: SessionId) -> None: ...


class FileChanges(Struct, gc=False):
    """Changes that the file system reported since the last batch; for each path the last change counts.

    `changed`: files written, created or moved in. `folders`: new ones, not watched yet and perhaps not empty.
    `gone`: files and folders. `rescan`: an event was lost, so everything must be scanned.
    """

    changed: set[str]
    folders: set[str]
    gone: set[str]
    rescan: bool = False

    def __bool__(self) -> bool:
        return bool(self.changed or self.folders or self.gone or self.rescan)

    def needs_scan(self, root: str) -> bool:
        """Whether a root must be scanned and watched again: it, or a folder above it, is new or gone; or one below is new."""
        above = f"{root}/"
        return (
            self.rescan
            or any(
                above.startswith(f"{folder}/") or f"{folder}/".startswith(above) for folder in self.folders
            )
            or any(above.startswith(f"{folder}/") for folder in self.gone)
        )


class FolderWatcher(Protocol):
    def add(self, folder: str) -> bool:
        """Watch this folder's entries; False if that is impossible and it must be swept."""


class Source(Protocol):
    """A source of evidence. It is called for changes; it never waits and never polls by itself."""

    @property
    def name(self) -> str: ...

    @property
    def delay_reason(self) -> str | None:
        """Why this source is late, as text for `status` and `doctor`; None while it gets notifications."""

    @property
    def skipped_logs(self) -> str | None:
        """Logs that are not read, and why; None without any."""

    def scan(self) -> None:
        """Report everything that is visible now. The first scan also sets up watches."""

    def on_changes(self, changes: FileChanges) -> None:
        """Report the evidence in these changes."""

    def catch_up(self, session_id: SessionId) -> None:
        """Report everything new about this session now, before a verdict depends on it."""
