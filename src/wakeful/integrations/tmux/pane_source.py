"""Log source for tmux: finds the pane that shows each session, and the socket of each tmux server.

It lists each server once per tick and watches each relevant pane by pidfd. Panes are evidence about a
session, never sessions. A server that gives no answer leaves the last evidence in place and makes it
`unknown`. Panes that did not change since the last listing are not checked again, so idle sessions cost
nothing. Sockets are read from /proc: an agent with a cleared environment has no `$TMUX`, and for a server
started with a relative path it is only that path.
"""

import asyncio
import os
from collections.abc import Callable, Iterable
from itertools import takewhile
from pathlib import Path
from typing import Final

from msgspec import Struct, structs

from wakeful.core.ids import SessionId
from wakeful.core.process import Process, ProcessState
from wakeful.integrations.tmux.dialogs import DialogDetector
from wakeful.integrations.tmux.panes import DEADLINE_SECONDS, Listing, PaneRow, list_panes, sockets
from wakeful.judging.evidence import Pane
from wakeful.linux import proc
from wakeful.sources.base import EvidenceSink, ProcessWatch

# `tmux: server` if a process may name itself, else plain `tmux`.
_SERVER_NAME: Final = "tmux"
# The kernel's __SO_ACCEPTCON: this end accepts connections.
_LISTENS: Final = 0x10000


def is_server(pid: int) -> bool:
    return proc.comm(pid).startswith(_SERVER_NAME)


def socket_of_server(pid: int) -> Path | None:
    """The socket of the tmux server with this pid; None if it does not listen or cannot be read.

    None may be wrong once: the kernel omits rows from its list of sockets while others open and close.
    """
    inodes = _socket_inodes(pid)
    try:
        rows = Path(f"/proc/{pid}/net/unix").read_bytes().splitlines()
    except OSError:
        return None
    bound = next((path for inode, path in map(_listener, rows) if path and inode in inodes), None)
    # A relative path begins at the server's start folder, which it does not leave.
    return Path(proc.cwd(pid) or "/", os.fsdecode(bound)) if bound else None


def _listener(row: bytes) -> tuple[bytes, bytes]:
    """Inode and path of a row of /proc/net/unix; no path if it does not listen or has no name in the file system."""
    fields = row.split(maxsplit=7)
    if len(fields) < 8 or not fields[3].isalnum() or fields[7].startswith(b"@"):
        return b"", b""
    listens = fields[3] != b"Flags" and int(fields[3], 16) & _LISTENS
    return (fields[6], fields[7]) if listens else (b"", b"")


def _socket_inodes(pid: int) -> set[bytes]:
    try:
        links = [_link(each) for each in Path(f"/proc/{pid}/fd").iterdir()]
    except OSError:
        return set()
    return {os.fsencode(each[8:-1]) for each in links if each.startswith("socket:[")}


def _link(descriptor: Path) -> str:
    """The target of a descriptor; empty if it was closed meanwhile."""
    try:
        return str(descriptor.readlink())
    except OSError:
        return ""


TICK_SECONDS: Final = 10.0
# The client's registry reports the end of a dialog, but not that another dialog follows.
DIALOG_TICK_SECONDS: Final = 2.0
# Below this number of sessions none is dropped.
KEPT_MIN: Final = 64

_PaneKey = tuple[str, PaneRow]
"""A pane: its socket and its row in the listing."""


class PaneSession(Struct, frozen=True):
    """A session that may be in a pane: its newest holder and its last known pane."""

    session_id: SessionId
    holder: Process
    sight: ProcessState
    pane: Pane | None


class TmuxPaneSource:
    """Finds the pane of every session with a holder."""

    name = "tmux"

    def __init__(
        self,
        session_of: Callable[[SessionId], PaneSession | None],
        sink: EvidenceSink,
        processes: ProcessWatch,
        extra_sockets: tuple[Path, ...] = (),
        deadline_seconds: float = DEADLINE_SECONDS,
        dialogs: DialogDetector | None = None,
    ) -> None:
        self._session_of = session_of
        self._sink = sink
        self._processes = processes
        self._extra_sockets = extra_sockets
        self._deadline_seconds = deadline_seconds
        self._scan_requested = asyncio.Event()
        self._new_sessions: dict[SessionId, None] = {}
        # A holder and its ancestors, nearest first. Stored, because a dead holder has no ancestors any more.
        self._ancestry: dict[SessionId, tuple[Process, ...]] = {}
        self._sessions_below: dict[Process, set[SessionId]] = {}
        self._server_sockets: set[Path] = set()
        self._servers: dict[Process, Path | None] = {}
        self._unresolved_servers: set[Process] = set()
        self._rows: dict[_PaneKey, Process] = {}
        self._unanswered_panes: set[_PaneKey] = set()
        self._panes: dict[Process, Pane] = {}
        self._count_after_sweep = KEPT_MIN
        # Without it, panes are listed only for known sessions.
        self._dialogs = dialogs
        self._tick_seconds = TICK_SECONDS
        self._delay_reason: str | None = None
        # Since the start.
        self.failed_listings = 0

    @property
    def delay_reason(self) -> str | None:
        return self._delay_reason

    def request_scan(self, session_id: SessionId) -> None:
        """This session has a new holder: list now instead of at the next tick."""
        self._new_sessions[session_id] = None
        self._scan_requested.set()

    def on_exit(self, process: Process) -> None:
        """If the ended process was a pane's, list now, because its server may have ended too."""
        if process in self._panes:
            self._scan_requested.set()

    async def scan(self) -> None:
        """List every server once, and find the clients that show a dialog."""
        arrived = self._learn_new_sessions()
        self._learn_sockets(self._unresolved_servers)
        named = (*self._extra_sockets, *self._server_sockets)
        paths = sockets(os.getuid(), named) if self._ancestry or self._dialogs is not None else []
        listings = [await list_panes(path, self._deadline_seconds) for path in paths]
        failures = [each.reason for each in listings if each.sight is ProcessState.UNKNOWN]
        self._delay_reason = "; ".join(failures) or None
        self.failed_listings += len(failures)
        self._compare(listings)
        for session_id in arrived:
            self._report_pane(session_id)
        if len(self._ancestry) > 2 * self._count_after_sweep:
            self._sweep()
        if self._dialogs is not None:
            # These sessions changed, so their screens are read even without new output.
            changed = {pane.process.pid for each in arrived if (pane := self._pane_of(each)) is not None}
            is_waiting = await self._dialogs.scan(listings, changed)
            self._tick_seconds = DIALOG_TICK_SECONDS if is_waiting else TICK_SECONDS
            # A client found by its dialog is in one of the panes just listed.
            for session_id in self._learn_new_sessions():
                self._report_pane(session_id)

    async def run(self) -> None:
        while True:
            self._scan_requested.clear()
            await self.scan()
            try:
                async with asyncio.timeout(self._tick_seconds):
                    await self._scan_requested.wait()
            except TimeoutError:
                continue

    def catch_up(self, session_id: SessionId) -> None:
        """Does nothing: a pidfd reports the end of a pane's process."""

    def _learn_new_sessions(self) -> list[SessionId]:
        arrived = [each for each in self._new_sessions if self._learn_session(each)]
        self._new_sessions.clear()
        return arrived

    def _learn_session(self, session_id: SessionId) -> bool:
        """Record the ancestors of a new holder; False if there is none."""
        session = self._session_of(session_id)
        if session is None:
            return False
        if session.sight is ProcessState.ALIVE:
            above = _ancestors_of(session.holder)
        elif session.pane is not None:
            # The holder has ended; its pane outlived it.
            above = [session.pane.process, *_ancestors_of(session.pane.process)]
        else:
            return False
        self._forget(session_id)
        self._ancestry[session_id] = (session.holder, *above)
        for process in self._ancestry[session_id]:
            self._sessions_below.setdefault(process, set()).add(session_id)
        self._learn_sockets(above)
        return True

    def _learn_sockets(self, above: Iterable[Process]) -> None:
        """Find the sockets of servers among these: a pane is its server's child. An unresolved server is tried again."""
        for process in [each for each in above if each not in self._servers]:
            serves = is_server(process.pid)
            socket = socket_of_server(process.pid) if serves else None
            if serves and socket is None:
                self._unresolved_servers.add(process)
                continue
            self._unresolved_servers.discard(process)
            self._servers[process] = socket
            if socket is not None:
                self._server_sockets.add(socket)

    def _forget(self, session_id: SessionId) -> None:
        for process in self._ancestry.pop(session_id, ()):
            self._sessions_below[process].discard(session_id)
            if not self._sessions_below[process]:
                del self._sessions_below[process]

    def _compare(self, listings: list[Listing]) -> None:
        """Report the removed panes, then the added ones; a renamed pane is both."""
        runtimes = {str(each.socket): each.sight for each in listings}
        listed = {(str(each.socket), row) for each in listings for row in each.panes if not row.dead}
        for place in self._rows.keys() - listed:
            runtime = runtimes.get(place[0], ProcessState.DEAD)
            if runtime is not ProcessState.UNKNOWN:
                self._unanswered_panes.discard(place)
                process = self._rows.pop(place)
                self._panes.pop(process, None)
                self._report_pane_change(process, runtime)
            elif place not in self._unanswered_panes:
                self._unanswered_panes.add(place)
                self._report_pane_change(self._rows[place], ProcessState.UNKNOWN)
        for place in (listed - self._rows.keys()) | (listed & self._unanswered_panes):
            self._unanswered_panes.discard(place)
            self._on_pane_added(place)

    def _on_pane_added(self, place: _PaneKey) -> None:
        socket, row = place
        process = proc.identify_or_none(row.pid)
        if process is None:
            return
        self._rows[place] = process
        server = proc.parent_of(process)
        self._panes[process] = Pane(
            socket, row.session, row.pane_id, process, ProcessState.ALIVE, ProcessState.ALIVE, server=server
        )
        for session_id in self._sessions_below.get(process, ()):
            self._report_pane(session_id)

    def _report_pane_change(self, process: Process, runtime: ProcessState) -> None:
        for session_id in self._sessions_below.get(process, ()):
            session = self._session_of(session_id)
            pane = session.pane if session is not None else None
            if pane is None or pane.process != process:
                continue
            # The death of its process may be known already; the state of its server is still new.
            if pane.sight is not ProcessState.DEAD or pane.runtime is not runtime:
                self._report_lost_pane(session_id, pane, runtime)

    def _report_pane(self, session_id: SessionId) -> None:
        pane = self._pane_of(session_id)
        if pane is not None:
            if self._processes.watch(pane.process) is ProcessState.ALIVE:
                self._sink.on_pane(session_id, pane)
            return
        session = self._session_of(session_id)
        if session is None or session.pane is None or session.sight is not ProcessState.ALIVE:
            return
        if session.pane.sight is ProcessState.ALIVE:
            self._report_lost_pane(session_id, session.pane, ProcessState.ALIVE)

    def _pane_of(self, session_id: SessionId) -> Pane | None:
        chain = self._ancestry.get(session_id, ())
        return next((self._panes[each] for each in chain if each in self._panes), None)

    def _report_lost_pane(self, session_id: SessionId, pane: Pane, runtime: ProcessState) -> None:
        state = ProcessState.UNKNOWN if runtime is ProcessState.UNKNOWN else ProcessState.DEAD
        self._sink.on_pane(session_id, structs.replace(pane, sight=state, runtime=runtime))

    def _sweep(self) -> None:
        """Drop ended sessions; called when there are twice as many as after the last sweep."""
        sessions = {each: self._session_of(each) for each in self._ancestry}
        for session_id, session in sessions.items():
            if session is None or (session.sight is ProcessState.DEAD and session.pane is None):
                self._forget(session_id)
        servers = self._servers.items()
        self._servers = {each: socket for each, socket in servers if each in self._sessions_below}
        self._count_after_sweep = max(KEPT_MIN, len(self._ancestry))


def _ancestors_of(process: Process) -> list[Process]:
    """Its ancestors; none if they cannot be seen.

    Up to Wakeful's own process: an agent that the daemon started without a terminal is not in the daemon's pane.
    """
    try:
        ancestors = proc.ancestors(process.pid)
    except proc.ProcessHidden:
        return []
    return list(takewhile(lambda each: each.pid != os.getpid(), ancestors))
