"""Which pane shows which session: one listing per server and tick, and a pidfd on every pane that matters.

Panes are evidence about a session, never sessions. A server that cannot be asked leaves the last sight as it
was and says `unknown`.
"""

import asyncio
import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final

from msgspec import Struct

from wakeful.adapters.system import proc
from wakeful.adapters.tmux.panes import Listing, PaneRow, list_panes, sockets
from wakeful.domain.evidence import Pane
from wakeful.domain.ids import SessionId
from wakeful.domain.process import Process, Sight
from wakeful.ports.eyes import Processes, Witness

TICK_SECONDS: Final = 10.0


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
        tenants: Callable[[], Iterable[Tenant]],
        witness: Witness,
        processes: Processes,
        extra_sockets: tuple[Path, ...] = (),
    ) -> None:
        self._tenants = tenants
        self._witness = witness
        self._processes = processes
        self._extra_sockets = extra_sockets
        self._chains: dict[Process, tuple[int, ...]] = {}
        self._named: dict[Process, Path | None] = {}
        self._soon = asyncio.Event()
        self._slow: str | None = None

    @property
    def slow(self) -> str | None:
        return self._slow

    def hurry(self) -> None:
        """A session was just found: list now instead of at the next tick."""
        self._soon.set()

    async def look(self) -> None:
        """List every server once, and only if there is a session to place."""
        tenants = list(self._tenants())
        self._chains = {each.holder: self._chain(each) for each in tenants}
        self._named = {
            each.holder: self._named[each.holder] for each in tenants if each.holder in self._named
        }
        named = (*self._extra_sockets, *(path for each in tenants if (path := self._named_socket(each))))
        paths = sockets(os.getuid(), named) if tenants else []
        listings = [await list_panes(path) for path in paths]
        self._slow = "; ".join(each.reason for each in listings if each.sight is Sight.UNKNOWN) or None
        by_pid = {row.pid: (each, row) for each in listings for row in each.panes if not row.dead}
        by_socket = {str(each.socket): each for each in listings}
        for tenant in tenants:
            self._place(tenant, by_pid, by_socket)

    async def run(self) -> None:
        while True:
            self._soon.clear()
            await self.look()
            try:
                async with asyncio.timeout(TICK_SECONDS):
                    await self._soon.wait()
            except TimeoutError:
                continue

    def catch_up(self, session_id: SessionId) -> None:
        """Nothing: the end of a pane's process is told by its pidfd."""

    def _chain(self, tenant: Tenant) -> tuple[int, ...]:
        """The holder's pid and its ancestors'. Kept, for a dead holder has no ancestors any more."""
        if tenant.holder in self._chains or tenant.sight is not Sight.ALIVE:
            return self._chains.get(tenant.holder, ())
        try:
            above = proc.ancestors(tenant.holder.pid)
        except proc.ProcessHidden:
            return ()
        return (tenant.holder.pid, *(process.pid for process in above))

    def _named_socket(self, tenant: Tenant) -> Path | None:
        """The socket a holder was started under, wherever it lies: tmux tells its panes by a variable."""
        if tenant.holder not in self._named:
            told = proc.environ_value(tenant.holder.pid, "TMUX") if tenant.sight is Sight.ALIVE else None
            self._named[tenant.holder] = Path(told.partition(",")[0]) if told else None
        return self._named[tenant.holder]

    def _place(
        self, tenant: Tenant, by_pid: dict[int, tuple[Listing, PaneRow]], listings: dict[str, Listing]
    ) -> None:
        found = next((by_pid[pid] for pid in self._chains[tenant.holder] if pid in by_pid), None)
        if found is not None:
            self._show(tenant, *found)
        elif tenant.pane is not None and tenant.pane.sight is Sight.ALIVE:
            self._lose(tenant.session_id, tenant.pane, listings.get(tenant.pane.socket))

    def _show(self, tenant: Tenant, listing: Listing, row: PaneRow) -> None:
        process = proc.identify_if_seen(row.pid)
        if process is None or self._processes.watch(process) is not Sight.ALIVE:
            return
        pane = Pane(
            socket=str(listing.socket),
            session=row.session,
            target=row.pane_id,
            process=process,
            sight=Sight.ALIVE,
            runtime=Sight.ALIVE,
        )
        self._witness.shown(tenant.session_id, pane)

    def _lose(self, session_id: SessionId, pane: Pane, listing: Listing | None) -> None:
        runtime = listing.sight if listing is not None else Sight.DEAD
        sight = Sight.UNKNOWN if runtime is Sight.UNKNOWN else Sight.DEAD
        lost = Pane(pane.socket, pane.session, pane.target, pane.process, sight, runtime)
        self._witness.shown(session_id, lost)
