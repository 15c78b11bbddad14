"""Finds clients in panes that show a dialog which must be answered before any prompt.

It reads screens and never types. Claude Code writes its registry file after its start dialogs: a client in
front of a terminal without one is starting, and only its screen shows a dialog. Later its screen is read only if
the registry reports an open dialog. Codex reports nothing: it has started once its screen showed an input line.
A pane without new output is not read again, so idle sessions cost nothing.
"""

import os
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final

from msgspec import Struct

from wakeful.core.process import Process, ProcessState
from wakeful.integrations.claude_code.registry import entry_of
from wakeful.integrations.tmux.pane import safe_screen_text
from wakeful.integrations.tmux.panes import Listing, PaneRow
from wakeful.integrations.tmux.server import TmuxFailed, TmuxServer
from wakeful.integrations.tmux.start_clients import PaneClient, client_in
from wakeful.integrations.tmux.start_screens import StartDialog
from wakeful.judging.evidence import DialogKind, SessionIdentity
from wakeful.linux import proc
from wakeful.sources.base import EvidenceSink

# The input line or a dialog appeared 0.7 to 2 s after the start; on two busy cores it took up to ten times that.
STARTING_SECONDS_MAX: Final = 20.0
_DIALOG_OPEN: Final = "dialog open"


class _PaneCheck(Struct, frozen=True):
    """The result for a pane; `wrote` is the time of its last output."""

    wrote: int
    # The client in front of this pane, if its screen must be read.
    client: PaneClient | None
    # The screen has been read; only new output can change the result.
    read: bool
    # The age of the client at which its screen became one that is not known.
    unknown_since: float | None = None


class DialogDetector:
    """Reads the screens of clients that are starting or report an open dialog."""

    def __init__(
        self,
        sink: EvidenceSink,
        session_of: Callable[[Process], SessionIdentity | None],
        folders: Mapping[str, Sequence[Path]],
        host: str,
        ignored_folders: Sequence[str] = (),
        starting_seconds: float = STARTING_SECONDS_MAX,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self._sink = sink
        self._session_of = session_of
        # The watched folders of each client's conversations.
        self._folders = folders
        self._host = host
        # Wakeful's own one-shot calls of the clients run in these folders; they are no sessions.
        self._ignored_folders = ignored_folders
        self._starting_seconds = starting_seconds
        self._wall = wall
        self._with_dialog: set[Process] = set()
        # Clients that report no status: those seen since their start, and those that have started.
        self._seen_starting: set[Process] = set()
        self._already_started: set[Process] = set()
        self._checks: dict[tuple[Path, PaneRow], _PaneCheck] = {}

    async def scan(self, listings: Iterable[Listing], reread: Collection[int] = ()) -> bool:
        """Report every dialog and its end; returns whether a client is starting or asks something.

        The panes with the pids `reread` are read even without new output.
        """
        checks: dict[tuple[Path, PaneRow], _PaneCheck] = {}
        for listing in listings:
            if listing.sight is ProcessState.UNKNOWN:
                # Without an answer the last results stay.
                checks |= {at: each for at, each in self._checks.items() if at[0] == listing.socket}
                continue
            server = TmuxServer(str(listing.socket))
            for row, wrote in zip(listing.panes, listing.wrote, strict=True):
                place = listing.socket, row
                if not row.dead:
                    before = self._checks.get(place)
                    valid = before if row.pid not in reread else None
                    checks[place] = await self._check_pane(server, row, wrote, before, valid)
        self._checks = checks
        waiting = {each.client.process for each in checks.values() if each.client is not None}
        # A client in the background (Ctrl-Z) may come back; only dead ones are dropped.
        for processes in (self._with_dialog, self._seen_starting, self._already_started):
            absent = processes - waiting
            processes -= {each for each in absent if proc.state_of(each) is not ProcessState.ALIVE}
        return bool(waiting)

    async def _check_pane(
        self,
        server: TmuxServer,
        row: PaneRow,
        wrote: int,
        before: _PaneCheck | None,
        valid: _PaneCheck | None,
    ) -> _PaneCheck:
        """The client in front of this pane and its screen, read only if they may have changed since the `valid` check.

        `before` is the last check, valid or not.
        """
        # tmux reports whole seconds: later output in the same second would not be noticed.
        is_over = int(self._wall()) > wrote
        known = valid if valid is not None and valid.wrote == wrote else None
        client = client_in(row.pid) if known is None else known.client
        if client is None or not self._is_relevant(client):
            return _PaneCheck(wrote if is_over else 0, None, read=True)
        if known is not None and known.read:
            return known
        read, unknown_since = await self._read_screen(client, server, row.pane_id, before)
        return _PaneCheck(wrote if is_over else 0, client, read, unknown_since)

    def _is_relevant(self, client: PaneClient) -> bool:
        """Whether its screen must be read. A client with an unwatched folder never becomes a session."""
        process = client.process
        if process in self._already_started:
            return False
        entry = entry_of(process) if client.reports_status else None
        if entry is not None and entry.waiting_for != _DIALOG_OPEN:
            self._on_dialog_end(process)
            return False
        if self._session_of(process) is not None:
            return True
        folder, watched = client.folder, self._folders.get(client.program, ())
        is_watched = folder is not None and Path(os.path.realpath(folder)) in watched
        return is_watched and proc.cwd(process.pid) not in self._ignored_folders

    async def _read_screen(
        self, client: PaneClient, server: TmuxServer, target: str, before: _PaneCheck | None
    ) -> tuple[bool, float | None]:
        """Report the dialog on its screen; False if it must be read again even without new output.

        Also the age of the client since which its screen has been unknown.
        """
        process = client.process
        age = proc.age_seconds(process)
        if age <= self._starting_seconds:
            self._seen_starting.add(process)
        try:
            dialog = client.dialog_on(await server.capture(target))
        except TmuxFailed:
            # The screen could not be read: the last report stays.
            return False, before.unknown_since if before is not None else None
        if dialog is None:
            self._on_dialog_end(process)
            if not client.reports_status:
                self._already_started.add(process)
            return True, None
        if dialog.kind is not DialogKind.UNKNOWN:
            self._report(client, dialog)
            return True, None
        since = _unknown_since(process, age, before)
        is_over = age - since > self._starting_seconds
        if is_over and self._is_unexpected(client):
            self._report(client, dialog)
        return is_over, since

    def _is_unexpected(self, client: PaneClient) -> bool:
        """Whether an unknown screen that stays is a problem: the client's registry reports no dialog."""
        if client.reports_status:
            return entry_of(client.process) is None
        # A client without status may have been in its conversation before it was first seen.
        return client.process in self._seen_starting

    def _report(self, client: PaneClient, dialog: StartDialog) -> None:
        process = client.process
        self._with_dialog.add(process)
        identity = self._session_of(process) or client.identity(self._host)
        self._sink.on_dialog(
            identity, process, dialog.kind, safe_screen_text(dialog.words), cwd=proc.cwd(process.pid)
        )

    def _on_dialog_end(self, process: Process) -> None:
        if process in self._with_dialog:
            self._with_dialog.discard(process)
            self._sink.on_dialog_closed(process)


def _unknown_since(process: Process, age: float, before: _PaneCheck | None) -> float:
    """The age of the client at which its screen became unknown.

    A client that goes on after a dialog, or ends, shows such a screen for a moment. One that was never seen
    otherwise has shown it since its start.
    """
    if before is None:
        return 0.0
    is_same = before.client is not None and before.client.process == process
    return before.unknown_since if is_same and before.unknown_since is not None else age
