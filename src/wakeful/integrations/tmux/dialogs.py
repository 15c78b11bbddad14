"""Finds clients in panes that show a dialog which must be answered before any prompt.

It reads screens and never types. Claude Code writes its registry file after its start dialogs: a client in
front of a terminal without one is starting, and only its screen tells what it waits for. Later its screen is
read only if the registry reports an open dialog. Codex reports nothing: it has started once its screen showed
an input line. A pane without new output is not read again, so idle sessions cost nothing.
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
from wakeful.integrations.tmux.panes import DEADLINE_SECONDS, Listing, PaneRow
from wakeful.integrations.tmux.server import TmuxFailed, TmuxServer
from wakeful.integrations.tmux.start_clients import PaneClient, client_in
from wakeful.integrations.tmux.start_screens import StartDialog
from wakeful.judging.evidence import DialogKind, SessionIdentity
from wakeful.linux import proc
from wakeful.sources.base import EvidenceSink

# The input line or a dialog stood there 0.7 to 2 s after the start; on two busy cores it took up to ten times that.
STARTING_SECONDS_MAX: Final = 20.0
_DIALOG_OPEN: Final = "dialog open"


class _PaneCheck(Struct, frozen=True):
    """What was found in a pane that had last shown something new at `wrote`."""

    wrote: int
    # The client whose screen matters; None if there is none in front of this pane.
    client: PaneClient | None
    # Whether the screen has been read and nothing but news can change what it said.
    read: bool


class DialogDetector:
    """Looks at the screens of clients that are starting, or say that a dialog is open."""

    def __init__(
        self,
        sink: EvidenceSink,
        held_by: Callable[[Process], SessionIdentity | None],
        folders: Mapping[str, Sequence[Path]],
        host: str,
        apart: Sequence[str] = (),
        deadline_seconds: float = DEADLINE_SECONDS,
        starting_seconds: float = STARTING_SECONDS_MAX,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self._sink = sink
        self._session_of = held_by
        # Where each client's conversations are watched.
        self._folders = folders
        self._host = host
        # Who works in these folders was asked something by us, and is no session.
        self._ignored_folders = apart
        self._deadline_seconds = deadline_seconds
        self._starting_seconds = starting_seconds
        self._wall = wall
        self._with_dialog: set[Process] = set()
        # Clients that tell nothing themselves: those seen from their start on, and those that have started.
        self._seen_starting: set[Process] = set()
        self._already_started: set[Process] = set()
        self._checks: dict[tuple[Path, PaneRow], _PaneCheck] = {}

    async def scan(self, listings: Iterable[Listing], anew: Collection[int] = ()) -> bool:
        """Report every dialog, and those that are over; whether a client is starting or asks something.

        The panes with the pids `anew` are looked at even if they show nothing new.
        """
        glances: dict[tuple[Path, PaneRow], _PaneCheck] = {}
        for listing in listings:
            if listing.sight is ProcessState.UNKNOWN:
                # It gave no answer: what was seen there stays seen.
                glances |= {at: each for at, each in self._checks.items() if at[0] == listing.socket}
                continue
            server = TmuxServer(str(listing.socket), self._deadline_seconds)
            for row, wrote in zip(listing.panes, listing.wrote, strict=True):
                place = listing.socket, row
                if not row.dead:
                    before = None if row.pid in anew else self._checks.get(place)
                    glances[place] = await self._check_pane(server, row, wrote, before)
        self._checks = glances
        awaited = {each.client.process for each in glances.values() if each.client is not None}
        # One that is not in front for a while (Ctrl-Z) comes back; one that ended was told by its process.
        for known in (self._with_dialog, self._seen_starting, self._already_started):
            known -= {
                each
                for each in known
                if each not in awaited and proc.state_of(each) is not ProcessState.ALIVE
            }
        return bool(awaited)

    async def _check_pane(
        self, server: TmuxServer, row: PaneRow, wrote: int, before: _PaneCheck | None
    ) -> _PaneCheck:
        """Who is in front of this pane and what it shows, looked up only where that may have changed."""
        # tmux tells whole seconds: what is written later in the same one would not be noticed.
        is_over = int(self._wall()) > wrote
        known = before if before is not None and before.wrote == wrote else None
        client = client_in(row.pid) if known is None else known.client
        if client is None or not self._is_relevant(client):
            return _PaneCheck(wrote if is_over else 0, None, read=True)
        if known is not None and known.read:
            return known
        read = await self._read_screen(client, server, row.pane_id)
        return _PaneCheck(wrote if is_over else 0, client, read=read)

    def _is_relevant(self, client: PaneClient) -> bool:
        """Whether its screen has to be looked at. One whose folder is not watched would never become a session."""
        process = client.process
        if process in self._already_started:
            return False
        if (
            client.reports_status
            and (entry := entry_of(process)) is not None
            and entry.waiting_for != _DIALOG_OPEN
        ):
            self._on_dialog_end(process)
            return False
        if self._session_of(process) is not None:
            return True
        folder = client.folder
        watched = folder is not None and Path(os.path.realpath(folder)) in self._folders.get(
            client.program, ()
        )
        return watched and proc.cwd(process.pid) not in self._ignored_folders

    async def _read_screen(self, client: PaneClient, server: TmuxServer, target: str) -> bool:
        """Report what its screen shows; False if it has to be looked at again though nothing new is shown."""
        process = client.process
        if proc.age_seconds(process) <= self._starting_seconds:
            self._seen_starting.add(process)
        try:
            seen = client.dialog_on(await server.capture(target))
        except TmuxFailed:
            # The screen was not seen: what was said of it stays said.
            return False
        if seen is None:
            self._on_dialog_end(process)
            if not client.reports_status:
                self._already_started.add(process)
            return True
        if seen.kind is DialogKind.UNKNOWN and not self._is_unexpected(client):
            return proc.age_seconds(process) > self._starting_seconds
        self._report(client, seen)
        return True

    def _is_unexpected(self, client: PaneClient) -> bool:
        """Whether it should show something known by now. A dialog that its registry tells of has been told."""
        if proc.age_seconds(client.process) <= self._starting_seconds:
            return False
        # One that tells nothing may have been in its conversation before it was first looked at.
        return (
            entry_of(client.process) is None
            if client.reports_status
            else client.process in self._seen_starting
        )

    def _report(self, client: PaneClient, seen: StartDialog) -> None:
        process = client.process
        self._with_dialog.add(process)
        identity = self._session_of(process) or client.identity(self._host)
        self._sink.on_dialog(
            identity, process, seen.kind, safe_screen_text(seen.words), cwd=proc.cwd(process.pid)
        )

    def _on_dialog_end(self, process: Process) -> None:
        if process in self._with_dialog:
            self._with_dialog.discard(process)
            self._sink.on_dialog_closed(process)
