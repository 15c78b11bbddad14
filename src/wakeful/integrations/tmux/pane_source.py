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
from wakeful.core.process import Process, Sight
from wakeful.integrations.tmux.dialogs import Dialogs
from wakeful.integrations.tmux.panes import DEADLINE_SECONDS, Listing, PaneRow, list_panes, sockets
from wakeful.judging.evidence import Pane
from wakeful.linux import proc
from wakeful.sources.base import Processes, Witness

# `tmux: server` where a process may name itself, plain `tmux` elsewhere.
_SERVER_NAME: Final = "tmux"
# The kernel's __SO_ACCEPTCON: this end accepts connections.
_LISTENS: Final = 0x10000


def is_server(pid: int) -> bool:
    return proc.comm(pid).startswith(_SERVER_NAME)


def listening_at(pid: int) -> Path | None:
    """The socket of the tmux server with this pid; None if it listens nowhere or cannot be looked at.

    None may be wrong once: the kernel leaves rows out of its list of sockets while others open and close theirs.
    """
    inodes = _socket_inodes(pid)
    try:
        rows = Path(f"/proc/{pid}/net/unix").read_bytes().splitlines()
    except OSError:
        return None
    bound = next((path for inode, path in map(_listener, rows) if path and inode in inodes), None)
    # A relative path begins where the server was started, and there it stays.
    return Path(proc.cwd(pid) or "/", os.fsdecode(bound)) if bound else None


def _listener(row: bytes) -> tuple[bytes, bytes]:
    """Inode and path of a row of /proc/net/unix; no path for whoever only talks, or has no name in the file system."""
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
    """What a descriptor stands for; empty if it was closed while we looked."""
    try:
        return str(descriptor.readlink())
    except OSError:
        return ""


TICK_SECONDS: Final = 10.0
# The end of a dialog is told by the client's registry; that another one follows it, nobody tells.
DIALOG_TICK_SECONDS: Final = 2.0
# Below this many sessions nobody needs to be forgotten.
KEPT_MIN: Final = 64


_Place = tuple[str, PaneRow]
"""A pane as a server lists it: its socket and its row."""


class Tenant(Struct, frozen=True):
    """A session that may be shown in a pane: its newest holder and the pane it was last seen in."""

    session_id: SessionId
    holder: Process
    sight: Sight
    pane: Pane | None


class TmuxEye:
    """Finds the pane of every held session."""

    name = "tmux"

    def __init__(
        self,
        tenant: Callable[[SessionId], Tenant | None],
        witness: Witness,
        processes: Processes,
        extra_sockets: tuple[Path, ...] = (),
        deadline_seconds: float = DEADLINE_SECONDS,
        dialogs: Dialogs | None = None,
    ) -> None:
        self._tenant = tenant
        self._witness = witness
        self._processes = processes
        self._extra_sockets = extra_sockets
        self._deadline_seconds = deadline_seconds
        self._soon = asyncio.Event()
        self._arrived: dict[SessionId, None] = {}
        # A holder and its ancestors, nearest first. Kept, for a dead holder has no ancestors any more.
        self._chains: dict[SessionId, tuple[Process, ...]] = {}
        self._below: dict[Process, set[SessionId]] = {}
        self._named: set[Path] = set()
        self._servers: dict[Process, Path | None] = {}
        self._unheard: set[Process] = set()
        self._rows: dict[_Place, Process] = {}
        self._doubted: set[_Place] = set()
        self._panes: dict[Process, Pane] = {}
        self._swept = KEPT_MIN
        # What clients ask before they take a prompt; without it panes are listed only for sessions that are known.
        self._dialogs = dialogs
        self._tick_seconds = TICK_SECONDS
        self._slow: str | None = None
        # Listings that came to nothing, since the start.
        self.failed = 0

    @property
    def slow(self) -> str | None:
        return self._slow

    def hurry(self, session_id: SessionId) -> None:
        """This session has a new holder: list now instead of at the next tick."""
        self._arrived[session_id] = None
        self._soon.set()

    def ended(self, process: Process) -> None:
        """A process is gone: if it was a pane's, list now, for its server may have gone with it."""
        if process in self._panes:
            self._soon.set()

    async def look(self) -> None:
        """List every server once, and look who shows a dialog in its pane."""
        arrived = self._settle_arrived()
        self._learn_sockets(self._unheard)
        named = (*self._extra_sockets, *self._named)
        paths = sockets(os.getuid(), named) if self._chains or self._dialogs is not None else []
        listings = [await list_panes(path, self._deadline_seconds) for path in paths]
        unheard = [each.reason for each in listings if each.sight is Sight.UNKNOWN]
        self._slow = "; ".join(unheard) or None
        self.failed += len(unheard)
        self._compare(listings)
        for session_id in arrived:
            self._place(session_id)
        if len(self._chains) > 2 * self._swept:
            self._sweep()
        if self._dialogs is not None:
            # What is known of a session changed: its screen may have to be read though it did not change.
            anew = {pane.process.pid for each in arrived if (pane := self._pane_of(each)) is not None}
            awaited = await self._dialogs.look(listings, anew)
            self._tick_seconds = DIALOG_TICK_SECONDS if awaited else TICK_SECONDS
            # Who was found by its dialog is in one of the panes that were just listed.
            for session_id in self._settle_arrived():
                self._place(session_id)

    async def run(self) -> None:
        while True:
            self._soon.clear()
            await self.look()
            try:
                async with asyncio.timeout(self._tick_seconds):
                    await self._soon.wait()
            except TimeoutError:
                continue

    def catch_up(self, session_id: SessionId) -> None:
        """Nothing: the end of a pane's process is told by its pidfd."""

    def _settle_arrived(self) -> list[SessionId]:
        arrived = [each for each in self._arrived if self._settle_in(each)]
        self._arrived.clear()
        return arrived

    def _settle_in(self, session_id: SessionId) -> bool:
        """Learn where a new holder comes from; False if there is nobody to place."""
        tenant = self._tenant(session_id)
        if tenant is None:
            return False
        if tenant.sight is Sight.ALIVE:
            above = _above(tenant.holder)
        elif tenant.pane is not None:
            # Gone, and remembered with the pane that outlived it.
            above = [tenant.pane.process, *_above(tenant.pane.process)]
        else:
            return False
        self._forget(session_id)
        self._chains[session_id] = (tenant.holder, *above)
        for process in self._chains[session_id]:
            self._below.setdefault(process, set()).add(session_id)
        self._learn_sockets(above)
        return True

    def _learn_sockets(self, above: Iterable[Process]) -> None:
        """A pane is a child of its server, wherever that listens. One that was not found out is looked at again."""
        for process in [each for each in above if each not in self._servers]:
            serves = is_server(process.pid)
            socket = listening_at(process.pid) if serves else None
            if serves and socket is None:
                self._unheard.add(process)
                continue
            self._unheard.discard(process)
            self._servers[process] = socket
            if socket is not None:
                self._named.add(socket)

    def _forget(self, session_id: SessionId) -> None:
        for process in self._chains.pop(session_id, ()):
            self._below[process].discard(session_id)
            if not self._below[process]:
                del self._below[process]

    def _compare(self, listings: list[Listing]) -> None:
        """Report the panes that went, then those that came; a renamed one does both."""
        runtimes = {str(each.socket): each.sight for each in listings}
        listed = {(str(each.socket), row) for each in listings for row in each.panes if not row.dead}
        for place in self._rows.keys() - listed:
            runtime = runtimes.get(place[0], Sight.DEAD)
            if runtime is Sight.UNKNOWN:
                self._doubt(place)
            else:
                self._doubted.discard(place)
                self._vanish(self._rows.pop(place), runtime)
        for place in (listed - self._rows.keys()) | (listed & self._doubted):
            self._doubted.discard(place)
            self._appear(place)

    def _doubt(self, place: _Place) -> None:
        """Its server gave no answer: nobody knows, until it does."""
        if place not in self._doubted:
            self._doubted.add(place)
            self._tell(self._rows[place], Sight.UNKNOWN)

    def _appear(self, place: _Place) -> None:
        socket, row = place
        process = proc.identify_if_seen(row.pid)
        if process is None:
            return
        self._rows[place] = process
        server = proc.parent_of(process)
        self._panes[process] = Pane(
            socket, row.session, row.pane_id, process, Sight.ALIVE, Sight.ALIVE, server=server
        )
        for session_id in self._below.get(process, ()):
            self._place(session_id)

    def _vanish(self, process: Process, runtime: Sight) -> None:
        self._panes.pop(process, None)
        self._tell(process, runtime)

    def _tell(self, process: Process, runtime: Sight) -> None:
        """Everybody who was shown there hears what became of the pane."""
        for session_id in self._below.get(process, ()):
            tenant = self._tenant(session_id)
            pane = tenant.pane if tenant is not None else None
            if pane is None or pane.process != process:
                continue
            # Its process may have been seen dead already; what became of its server is news all the same.
            if pane.sight is not Sight.DEAD or pane.runtime is not runtime:
                self._lose(session_id, pane, runtime)

    def _place(self, session_id: SessionId) -> None:
        pane = self._pane_of(session_id)
        if pane is not None:
            if self._processes.watch(pane.process) is Sight.ALIVE:
                self._witness.shown(session_id, pane)
            return
        tenant = self._tenant(session_id)
        if tenant is None or tenant.pane is None or tenant.sight is not Sight.ALIVE:
            return
        if tenant.pane.sight is Sight.ALIVE:
            self._lose(session_id, tenant.pane, Sight.ALIVE)

    def _pane_of(self, session_id: SessionId) -> Pane | None:
        chain = self._chains.get(session_id, ())
        return next((self._panes[each] for each in chain if each in self._panes), None)

    def _lose(self, session_id: SessionId, pane: Pane, runtime: Sight) -> None:
        sight = Sight.UNKNOWN if runtime is Sight.UNKNOWN else Sight.DEAD
        self._witness.shown(session_id, structs.replace(pane, sight=sight, runtime=runtime))

    def _sweep(self) -> None:
        """Forget who left, once there are twice as many as after the last time."""
        tenants = {each: self._tenant(each) for each in self._chains}
        for session_id, tenant in tenants.items():
            if tenant is None or (tenant.sight is Sight.DEAD and tenant.pane is None):
                self._forget(session_id)
        self._servers = {each: socket for each, socket in self._servers.items() if each in self._below}
        self._swept = max(KEPT_MIN, len(self._chains))


def _above(process: Process) -> list[Process]:
    """Its ancestors; none where they cannot be seen.

    Up to this process: an agent that the daemon started without a terminal is not in the daemon's own pane.
    """
    try:
        found = proc.ancestors(process.pid)
    except proc.ProcessHidden:
        return []
    return list(takewhile(lambda each: each.pid != os.getpid(), found))
