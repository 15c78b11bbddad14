"""Managed sessions: their stored hostings, and the leases that give each conversation one live owner.

Hostings are in the store, so a restarted daemon and other daemons on the same store find the sessions with
the same epoch. The lease is renewed as long as the hosting is kept. If another owner claims the lease, the
hosting ends here: a late owner does nothing more.
"""

import asyncio
import logging
from collections.abc import Callable, Collection
from typing import Final

from msgspec.structs import replace

from wakeful.core.errors import OperatorError
from wakeful.core.ids import SessionId
from wakeful.core.leases import HeldLease, Lease, LeaseKey, held
from wakeful.core.managed_session import Hosting
from wakeful.core.process import Process, Sight
from wakeful.judging.evidence import Pane, Subject
from wakeful.sessions.supervisor import Supervisor
from wakeful.storage.base import Store

# A lease lasts 60 s: two renewals may fail before anybody else can claim it.
RENEW_SECONDS: Final = 20.0
# What another daemon on this store began to manage, or let go, is shown so late; whoever acts asks at once.
FOLLOW_SECONDS: Final = 2.0

log = logging.getLogger("wakeful")


class NotManaged(OperatorError):
    """{shown} was found, not handed over, so Wakeful does not touch it. `wakeful session adopt {shown}` changes that."""

    code = "not-managed"
    http_status = 409


class HostedByAgent(OperatorError):
    """Agent {agent} hosts {shown}, so it is treated there: `wakeful attach {agent}`, `wakeful agent stop {agent}`."""

    code = "hosted-by-agent"
    http_status = 409


class NothingToRelease(OperatorError):
    """{shown} is only watched: there is nothing to release."""

    code = "nothing-to-release"
    http_status = 409


class Holdings:
    """The managed sessions. Whoever acts on one asks here first, and again right before."""

    def __init__(
        self,
        store: Store,
        supervisor: Supervisor,
        host: str,
        watch: Callable[[Process], Sight],
        clients: Collection[str] = ("claude", "codex"),
    ) -> None:
        self._store = store
        self._supervisor = supervisor
        self._host = host
        self._owner = f"wakeful on {host}"
        self._watch = watch
        # Whose sessions are called after their client; any other is called as it was named.
        self._clients = clients
        self._hosted: dict[SessionId, Hosting] = {}
        # Between two epochs a claim is nobody's for a moment; that must not be taken for a loss.
        self._advancing = asyncio.Lock()
        # How often something changed here; a reading that a change overtook is not believed.
        self._changes = 0

    async def load(self) -> None:
        """Find again what an earlier daemon managed."""
        for hosting in await self._store.hostings():
            self._take(hosting)
            self._recall_pane(hosting)
        await self.renew_all()

    async def read_again(self) -> None:
        """Take over what other daemons on this store manage now, and let go of what they let go."""
        changes = self._changes
        kept = {each.session_id: each for each in await self._store.hostings()}
        if changes != self._changes:
            return
        for session_id in self._hosted.keys() - kept.keys():
            self._forget(session_id)
        for session_id, hosting in kept.items():
            if self._hosted.get(session_id) != hosting:
                self._take(hosting)

    async def follow(self) -> None:
        """Read again now and then, until cancelled."""
        while True:
            await asyncio.sleep(FOLLOW_SECONDS)
            await self.read_again()

    def find(self, session_id: SessionId) -> Hosting | None:
        return self._hosted.get(session_id)

    def get(self, session_id: SessionId) -> Hosting:
        """The hosting of a session that is held by itself. Raises HostedByAgent, NotManaged."""
        hosting = self._hosted.get(session_id)
        if hosting is None:
            self.require_no_agent(session_id)
            raise NotManaged(shown=session_id)
        return hosting

    def require_no_agent(self, session_id: SessionId) -> None:
        """Whoever brings an agent's session back is named in its declaration. Raises HostedByAgent."""
        watched = self._supervisor.roster.watched.get(session_id)
        if watched is not None and (agent := watched.subject.agent) is not None:
            raise HostedByAgent(shown=session_id, agent=agent)

    def all(self) -> list[Hosting]:
        return list(self._hosted.values())

    async def claim(self, session_id: SessionId, holder: Process | None = None) -> Lease:
        """The lease of a conversation nobody has. Raises ConversationHeld, naming who has it."""
        taken = await self._store.claim_lease(LeaseKey(session_id), self._owner, holder=holder)
        if isinstance(taken, HeldLease):
            raise held(taken)
        return taken

    async def advance(self, hosting: Hosting) -> Hosting:
        """The same session under its next epoch: whoever was started before is fenced from here on.

        Raises ConversationHeld if somebody else was quicker; then it is not ours any more.
        """
        async with self._advancing:
            following = await self._store.rehost(hosting, self._owner)
            if isinstance(following, HeldLease):
                await self._lose(hosting)
                raise held(following)
            self._take(following)
            return following

    async def yield_(self, lease: Lease) -> None:
        """Give back a claim that came to nothing."""
        await self._store.yield_lease(lease.key, lease.epoch)

    async def keep(self, hosting: Hosting) -> None:
        """Manage this session from now on, durably."""
        await self._store.host(hosting)
        self._take(hosting)

    async def keep_seen(self, seen: Hosting) -> None:
        """Keep what an act found, under the claim it has. What was stopped or released meanwhile stays so."""
        known = self.find(seen.session_id)
        if known is not None:
            ended = {"stopped": known.stopped, "by_gateway": known.by_gateway, "heir": known.heir}
            await self.keep(replace(seen, epoch=known.epoch, **ended))

    async def drop(self, hosting: Hosting) -> None:
        """Manage it no longer; its agent goes on as it is."""
        await self._store.unhost(hosting.session_id)
        await self._store.yield_lease(LeaseKey(hosting.session_id), hosting.epoch)
        self._forget(hosting.session_id)

    async def abandon(self, planned: Hosting) -> None:
        """Give back the claim of a start that came to nothing; a session that lived only for it is forgotten."""
        known = self.find(planned.session_id)
        if known is None:
            await self._store.yield_lease(LeaseKey(planned.session_id), planned.epoch)
            return
        await self.drop(known)
        if known.process is not None:
            self._supervisor.released(known.session_id, known.process)
            self._supervisor.forgotten(known.session_id)

    async def is_ours(self, hosting: Hosting) -> bool:
        """Whether nobody claimed it since; renews the claim. Asked of the store right before every act."""
        async with self._advancing:
            renewed = await self._store.renew_lease(LeaseKey(hosting.session_id), hosting.epoch)
            if renewed is None:
                await self._lose(hosting)
        return renewed is not None

    async def renew_all(self) -> None:
        for hosting in self.all():
            await self.is_ours(hosting)

    async def run(self) -> None:
        """Renew every claim before it ends, until cancelled."""
        while True:
            await asyncio.sleep(RENEW_SECONDS)
            await self.renew_all()

    def _take(self, hosting: Hosting) -> None:
        self._changes += 1
        self._hosted[hosting.session_id] = hosting
        self._supervisor.manage(hosting.session_id, hosting)
        if hosting.process is not None:
            self._hold(hosting, hosting.process)

    def _hold(self, hosting: Hosting, process: Process) -> None:
        """Its process is known before its client has registered itself anywhere; what that said since stays said."""
        watched = self._supervisor.roster.watched.get(hosting.session_id)
        known = watched.presence.holders.get(process.pid) if watched is not None else None
        said = known if known is not None and known.process == process else None
        self._supervisor.held(
            self._subject(hosting),
            process,
            self._watch(process),
            source="hands" if said is None else said.source,
            status=None if said is None else said.status,
            status_wall=said.status_at.wall if said is not None and said.status_at is not None else None,
            waiting_for=None if said is None else said.waiting_for,
            cwd=hosting.cwd,
        )

    def _recall_pane(self, hosting: Hosting) -> None:
        """Where its tmux server ended while nobody watched, that took it along; else somebody closed it."""
        pane = hosting.pane
        if pane is None or pane.process is None or pane.server is None:
            return
        if self._watch(pane.process) is Sight.DEAD and self._watch(pane.server) is Sight.DEAD:
            shown = Pane(
                pane.socket, pane.session, pane.target, pane.process, Sight.DEAD, Sight.DEAD, pane.server
            )
            self._supervisor.shown(hosting.session_id, shown)

    def _subject(self, hosting: Hosting) -> Subject:
        provider, dash, _ = hosting.session_id.partition("-")
        known = dash and provider in self._clients
        return Subject(
            hosting.session_id,
            provider if known else "events",
            self._host,
            "wakeful",
            hosting.conversation_id if known else None,
        )

    def _forget(self, session_id: SessionId) -> None:
        self._changes += 1
        self._hosted.pop(session_id, None)
        self._supervisor.manage(session_id, None)

    async def _lose(self, hosting: Hosting) -> None:
        known = self._hosted.get(hosting.session_id)
        if known is not None and known.epoch == hosting.epoch:
            newer = await self._newer(hosting)
            if newer is not None:
                # Another daemon on this store went on with it: still ours, in its next attempt.
                self._take(newer)
                return
            log.warning("%s was claimed by somebody else: not managed here any more", hosting.session_id)
            await self._store.unhost(hosting.session_id)
            self._forget(hosting.session_id)

    async def _newer(self, hosting: Hosting) -> Hosting | None:
        kept = await self._store.hostings()
        return next(
            (each for each in kept if each.session_id == hosting.session_id and each.epoch > hosting.epoch),
            None,
        )
