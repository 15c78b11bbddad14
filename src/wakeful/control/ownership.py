"""Managed sessions, and the leases that give each conversation one live owner.

Managed sessions are in the store, so a restarted daemon and other daemons on the same store find them with the
same epoch. The lease is renewed as long as its session is managed. If another owner claims the lease, the
session is not managed here any more: a late owner does nothing.
"""

import asyncio
import logging
from collections.abc import Collection, Sequence
from typing import Final

from msgspec.structs import replace

from wakeful.control.person_stops import PersonStops
from wakeful.core.errors import OperatorError, WorldError
from wakeful.core.ids import SessionId
from wakeful.core.labels import label
from wakeful.core.leases import Lease, LeaseConflict, LeaseKey, conversation_held_error
from wakeful.core.managed_session import ManagedSession
from wakeful.core.process import Process, ProcessState
from wakeful.judging.available_actions import adoption_refusal
from wakeful.judging.evidence import Pane, SessionIdentity
from wakeful.sessions.supervisor import Supervisor
from wakeful.sources.base import ProcessWatch
from wakeful.storage.base import SessionElsewhere, Store

# A lease lasts 60 s: two renewals may fail before another owner can claim it.
RENEW_SECONDS: Final = 20.0
# Changes by another daemon on this store appear at most this late; an action checks at once.
FOLLOW_SECONDS: Final = 2.0

log = logging.getLogger("wakeful")


class NotManaged(OperatorError, code="not-managed", http_status=409):
    """{shown} is not managed by Wakeful. Adopt it first: `wakeful adopt {shown}`"""


class NotAdoptable(NotManaged):
    """{shown} is not managed by Wakeful and cannot be adopted: {reason}."""


class HostedByAgent(OperatorError, code="hosted-by-agent", http_status=409):
    """{shown} runs in agent {agent}. Use `wakeful attach {agent}` or `wakeful agent stop {agent}`."""


class RunsElsewhere(WorldError, code="runs-elsewhere", http_status=409, exit_code=1):
    """{shown} runs on another machine, {host}. Wakeful acts on it only there: run the command on {host}."""


class NothingToRelease(OperatorError, code="nothing-to-release", http_status=409):
    """{shown} is not managed by Wakeful: there is nothing to release."""


class ManagedSessions:
    def __init__(
        self,
        store: Store,
        supervisor: Supervisor,
        host: str,
        processes: ProcessWatch,
        person_stops: PersonStops,
        clients: Collection[str] = ("claude", "codex"),
    ) -> None:
        self._store = store
        self._supervisor = supervisor
        self._host = host
        self._owner = f"wakeful on {host}"
        self._processes = processes
        self._person_stops = person_stops
        # The sessions of other machines on this store, with the names of those machines.
        self._hosts: dict[SessionId, str] = {}
        # The id of a session of these clients begins with the client's name; any other id is the session's name.
        self._clients = clients
        self._sessions: dict[SessionId, ManagedSession] = {}
        # Held between two epochs: a claim has no owner for a moment then, and is not lost.
        self._advancing = asyncio.Lock()
        # A reload is discarded if this changed meanwhile.
        self._change_count = 0

    async def load(self) -> None:
        for managed in await self._store.managed_sessions():
            self._set(managed)
            self._restore_pane(managed)
        self._show_elsewhere(await self._store.sessions_elsewhere())
        await self.renew_all()

    async def reload(self) -> None:
        """Add the sessions that other daemons on this store manage now, and forget those that they released."""
        changes = self._change_count
        stored = {each.session_id: each for each in await self._store.managed_sessions()}
        self._show_elsewhere(await self._store.sessions_elsewhere())
        if changes != self._change_count:
            return
        for session_id in self._sessions.keys() - stored.keys():
            self._forget(session_id)
        for session_id, managed in stored.items():
            if self._sessions.get(session_id) != managed:
                self._set(managed)

    def _show_elsewhere(self, sessions: Sequence[SessionElsewhere]) -> None:
        """Show the sessions of other machines as such: their processes cannot be seen from here."""
        self._hosts = {each.session_id: each.host for each in sessions}
        managed = [each.managed for each in sessions if each.managed is not None]
        named = [(replace(self._identity_of(each), name=each.name), each.cwd) for each in managed]
        self._supervisor.set_elsewhere(self._hosts, named)

    async def follow(self) -> None:
        """Reload at intervals, until cancelled."""
        while True:
            await asyncio.sleep(FOLLOW_SECONDS)
            await self.reload()

    def find(self, session_id: SessionId) -> ManagedSession | None:
        return self._sessions.get(session_id)

    def is_managed(self, session_id: SessionId) -> bool:
        return session_id in self._sessions

    def get(self, session_id: SessionId) -> ManagedSession:
        """The managed session. Raises RunsElsewhere, HostedByAgent, NotManaged."""
        managed = self._sessions.get(session_id)
        if managed is None:
            self.require_here(session_id)
            self.require_no_agent(session_id)
            session = self._supervisor.known.sessions.get(session_id)
            if session is not None and (
                reason := adoption_refusal(session.subject, session.activity, session.presence)
            ):
                raise NotAdoptable(shown=self._name_of(session_id), reason=reason)
            raise NotManaged(shown=self._name_of(session_id))
        return managed

    def _name_of(self, session_id: SessionId) -> str:
        """What lists show for it."""
        session = self._supervisor.known.sessions.get(session_id)
        return session.shown_name if session is not None else session_id

    def require_here(self, session_id: SessionId) -> None:
        """Only its own machine knows whether its agent lives. Raises RunsElsewhere."""
        host = self._hosts.get(session_id)
        session = self._supervisor.known.sessions.get(session_id)
        lives_here = session is not None and session.presence.living_processes
        if host is not None and not lives_here:
            raise RunsElsewhere(shown=self._name_of(session_id), host=label(host))

    def require_no_agent(self, session_id: SessionId) -> None:
        """The declaration of an agent decides what resumes its session. Raises HostedByAgent."""
        session = self._supervisor.known.sessions.get(session_id)
        if session is not None and (agent := session.subject.agent) is not None:
            raise HostedByAgent(shown=session.shown_name, agent=agent)

    def all(self) -> list[ManagedSession]:
        return list(self._sessions.values())

    async def claim(self, session_id: SessionId, holder: Process | None = None) -> Lease:
        """Claim the lease of a conversation without an owner. Raises RunsElsewhere, ConversationHeld, which names the owner."""
        self.require_here(session_id)
        lease = await self._store.claim_lease(LeaseKey(session_id), self._owner, holder=holder)
        if isinstance(lease, LeaseConflict):
            raise conversation_held_error(lease)
        return lease

    async def advance_epoch(self, managed: ManagedSession) -> ManagedSession:
        """The same session under its next epoch, which fences processes of earlier ones.

        Raises ConversationHeld if another owner claimed it first; then it is not managed here any more.
        """
        async with self._advancing:
            reclaimed = await self._store.reclaim_managed_session(managed, self._owner)
            if isinstance(reclaimed, LeaseConflict):
                await self._on_lease_lost(managed)
                raise conversation_held_error(reclaimed)
            self._set(reclaimed)
            return reclaimed

    async def release_lease(self, lease: Lease) -> None:
        await self._store.yield_lease(lease.key, lease.epoch)

    async def save(self, managed: ManagedSession) -> None:
        """Store a session, which is managed from now on."""
        await self._store.save_managed_session(managed)
        self._set(managed)

    async def save_result(self, managed: ManagedSession) -> None:
        """Store the result of an action under the current claim. A stop or release in between stays in force."""
        known = self.find(managed.session_id)
        if known is not None:
            ended = {"stopped": known.stopped, "by_gateway": known.by_gateway, "heir": known.heir}
            await self.save(replace(managed, epoch=known.epoch, **ended))

    async def release(self, managed: ManagedSession) -> None:
        """Stop managing it; its agent goes on. An end that a person ordered stays no problem."""
        session = self._supervisor.known.sessions.get(managed.session_id)
        is_stopped = managed.stopped and not managed.by_gateway
        if session is not None and is_stopped and not session.presence.living_processes:
            ended = [each.process for each in session.presence.holders.values()]
            await self._person_stops.record_order(ended, (managed.session_id,))
        await self._store.drop_managed_session(managed.session_id)
        await self._store.yield_lease(LeaseKey(managed.session_id), managed.epoch)
        self._forget(managed.session_id)

    async def abandon(self, planned: ManagedSession) -> None:
        """Release the claim of a failed start, and forget the session that existed only for it."""
        known = self.find(planned.session_id)
        if known is None:
            await self._store.yield_lease(LeaseKey(planned.session_id), planned.epoch)
            return
        await self.release(known)
        if known.process is not None:
            self._supervisor.on_release(known.session_id, known.process)
            self._supervisor.on_log_deleted(known.session_id)

    async def confirm_lease(self, managed: ManagedSession) -> bool:
        """Renew the claim in the store, right before every action; False if another owner has it."""
        async with self._advancing:
            renewed = await self._store.renew_lease(LeaseKey(managed.session_id), managed.epoch)
            if renewed is None:
                await self._on_lease_lost(managed)
        return renewed is not None

    async def renew_all(self) -> None:
        for managed in self.all():
            await self.confirm_lease(managed)

    async def run(self) -> None:
        """Renew every claim before it ends, until cancelled."""
        while True:
            await asyncio.sleep(RENEW_SECONDS)
            await self.renew_all()

    def _set(self, managed: ManagedSession) -> None:
        self._change_count += 1
        self._sessions[managed.session_id] = managed
        self._supervisor.manage(managed.session_id, managed)
        if managed.process is not None:
            self._report_process(managed, managed.process)

    def _report_process(self, managed: ManagedSession, process: Process) -> None:
        """Report its process, which is known before its client registers; a status that the client gave stays."""
        session = self._supervisor.known.sessions.get(managed.session_id)
        known = session.presence.holders.get(process.pid) if session is not None else None
        if known is not None and known.process != process:
            known = None
        self._supervisor.on_process(
            self._identity_of(managed),
            process,
            self._processes.watch(process),
            source="hands" if known is None else known.source,
            status=None if known is None else known.status,
            status_wall=known.status_at.wall if known is not None and known.status_at is not None else None,
            waiting_for=None if known is None else known.waiting_for,
            cwd=managed.cwd,
        )

    def _restore_pane(self, managed: ManagedSession) -> None:
        """If its tmux server ended while no daemon ran, that ended the session; otherwise a person closed it."""
        pane = managed.pane
        if pane is None or pane.process is None or pane.server is None:
            return
        if all(self._processes.watch(each) is ProcessState.DEAD for each in (pane.process, pane.server)):
            dead = ProcessState.DEAD
            ended = Pane(pane.socket, pane.session, pane.target, pane.process, dead, dead, pane.server)
            self._supervisor.on_pane(managed.session_id, ended)

    def _identity_of(self, managed: ManagedSession) -> SessionIdentity:
        provider, dash, _ = managed.session_id.partition("-")
        is_client = dash and provider in self._clients
        return SessionIdentity(
            managed.session_id,
            provider if is_client else "events",
            self._host,
            "wakeful",
            managed.conversation_id if is_client else None,
        )

    def _forget(self, session_id: SessionId) -> None:
        self._change_count += 1
        self._sessions.pop(session_id, None)
        self._supervisor.manage(session_id, None)

    async def _on_lease_lost(self, managed: ManagedSession) -> None:
        known = self._sessions.get(managed.session_id)
        if known is not None and known.epoch == managed.epoch:
            newer = await self._find_newer(managed)
            if newer is not None:
                # Another daemon on this store continues it: still managed, under its next epoch.
                self._set(newer)
                return
            log.warning("%s was claimed by another process: no longer managed here", managed.session_id)
            await self._store.drop_managed_session(managed.session_id)
            self._forget(managed.session_id)

    async def _find_newer(self, managed: ManagedSession) -> ManagedSession | None:
        stored = await self._store.managed_sessions()
        newer = (each for each in stored if each.session_id == managed.session_id)
        return next((each for each in newer if each.epoch > managed.epoch), None)
