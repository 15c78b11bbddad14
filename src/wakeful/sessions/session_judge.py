"""Judges one session from its newest evidence and makes its record; also says when to judge it again.

A session that cannot be judged becomes unknown and affects no other session. The supervisor decides which
sessions are judged, and when.
"""

import logging
from collections.abc import Collection, Mapping
from math import inf
from typing import Final, Protocol

import msgspec

from wakeful.core.clock import Clock, Instant
from wakeful.core.ids import SessionId
from wakeful.core.managed_session import ManagedSession
from wakeful.core.process import Process
from wakeful.judging.activity import Activity
from wakeful.judging.available_actions import is_cut_off
from wakeful.judging.events import FormatDrifted
from wakeful.judging.evidence import Elsewhere, SessionIdentity
from wakeful.judging.folding import fold
from wakeful.judging.judge import judge
from wakeful.judging.session_record import build_record
from wakeful.judging.thresholds import Policy
from wakeful.judging.turn_state import TurnPhase
from wakeful.judging.wake_eligibility import UNREACHABLE, Reachability
from wakeful.sessions.session import TrackedSession
from wakeful.sessions.short_names import ShortNames

# The log gets tracebacks of this many sessions; further ones add nothing.
UNJUDGED_LOGGED_MAX: Final = 10
# The process of a call shows that its guessed permission question was answered. The first probe comes before the 10 s
# after which a question raises an alert; later ones come once a minute.
PROBE_SECONDS_MIN: Final = 5.0
PROBE_SECONDS_MAX: Final = 60.0

log = logging.getLogger("wakeful")


class JudgingHost(Protocol):
    def reach(self, session_id: SessionId) -> Reachability:
        """Whether Wakeful may act on a managed session, and whether a prompt would arrive there now."""

    def needs_approval(self, session_id: SessionId) -> bool:
        """Whether a person has to check its interrupted calls before a resume: one may have had effects elsewhere."""


class ToolProbe(Protocol):
    def has_live_tool(self, agent: Process, within_seconds: float) -> bool:
        """Whether the agent has a living descendant that was started within these last seconds."""


class SessionOwners:
    """The managed sessions, the agents that host sessions, and the stops that a person ordered."""

    def __init__(self) -> None:
        self._managed: dict[SessionId, ManagedSession] = {}
        self._agents: dict[SessionId, str | None] = {}
        self._elsewhere: dict[SessionId, Elsewhere] = {}
        self._stopped_processes: set[Process] = set()
        self._stopped_sessions: set[SessionId] = set()

    def get(self, session_id: SessionId) -> ManagedSession | None:
        return self._managed.get(session_id)

    def set_managed(self, session_id: SessionId, managed: ManagedSession | None) -> None:
        if managed is None:
            self._managed.pop(session_id, None)
        else:
            self._managed[session_id] = managed

    def set_elsewhere(self, hosts: Mapping[SessionId, str], now: Instant) -> set[SessionId]:
        """Set which other machines have which sessions; returns the sessions with which that changed."""
        known = self._elsewhere
        changed = {each for each in known if hosts.get(each) != known[each].host} | (
            hosts.keys() - known.keys()
        )
        for session_id in changed:
            known.pop(session_id, None)
            if session_id in hosts:
                known[session_id] = Elsewhere(hosts[session_id], now)
        return changed

    def elsewhere(self, session_id: SessionId) -> Elsewhere | None:
        return self._elsewhere.get(session_id)

    def set_agent(self, session_id: SessionId, agent: str | None) -> None:
        self._agents[session_id] = agent

    def mark_stopped(self, processes: Collection[Process], sessions: Collection[SessionId]) -> None:
        self._stopped_processes.update(processes)
        self._stopped_sessions.update(sessions)

    def unmark_stopped(self, processes: Collection[Process], sessions: Collection[SessionId]) -> None:
        self._stopped_processes.difference_update(processes)
        self._stopped_sessions.difference_update(sessions)

    def with_owner(self, identity: SessionIdentity) -> SessionIdentity:
        managed, agent = self._managed.get(identity.id), self._agents.get(identity.id)
        if managed is not None:
            known = {"attempt": managed.epoch, "name": managed.name, "note": managed.note}
            return msgspec.structs.replace(identity, managed=True, agent=agent, **known)
        if not identity.managed and identity.agent == agent:
            return identity
        return msgspec.structs.replace(identity, managed=False, agent=agent, attempt=0, note="")

    def is_stopped(self, session: TrackedSession) -> bool:
        """Whether the session ended on purpose, or the process that ran it last."""
        managed, process = self._managed.get(session.subject.id), session.presence.newest_process
        if managed is not None and managed.is_ended:
            return managed.is_ended_in(process.process if process is not None else None)
        if process is None:
            return session.subject.id in self._stopped_sessions
        return process.process in self._stopped_processes


class SessionJudge:
    def __init__(
        self,
        clock: Clock,
        policy: Policy,
        owners: SessionOwners,
        host: JudgingHost,
        tools: ToolProbe,
        names: ShortNames,
    ) -> None:
        self._clock = clock
        self._policy = policy
        self._owners = owners
        self._host = host
        self._tools = tools
        self._names = names
        self._unjudged: set[SessionId] = set()

    def set_policy(self, policy: Policy) -> None:
        self._policy = policy

    def judge(self, session: TrackedSession, now: Instant) -> float | None:
        """Update verdict and record. Returns the awake time of the next check; None if only evidence changes it."""
        session_id = session.subject.id
        try:
            due = self._judge(session, now)
            session.body()
        except Exception as error:
            if len(self._unjudged) < UNJUDGED_LOGGED_MAX and session_id not in self._unjudged:
                self._unjudged.add(session_id)
                log.exception("%s cannot be judged", session_id, exc_info=error)
            session.activity = Activity()
            fold(session.activity, FormatDrifted(now.wall, "evidence that can be judged"), now)
            due = self._judge(session, now)
        return due

    def _judge(self, session: TrackedSession, now: Instant) -> float | None:
        identity, activity, runtime = session.subject, session.activity, session.presence
        managed = self._owners.get(identity.id)
        # What this machine manages is its own, whatever another one stored before.
        runtime.elsewhere = None if identity.is_managed else self._owners.elsewhere(identity.id)
        runtime.stopped = self._owners.is_stopped(session)
        ended = managed if runtime.stopped else None
        runtime.heir = ended.heir if ended is not None else None
        runtime.by_gateway = ended is not None and ended.by_gateway
        newest = runtime.newest_process
        runtime.ended_by_wakeful = (
            managed is not None and newest is not None and newest.process == managed.ended_process
        )
        verdict = judge(activity, runtime, self._policy, now)
        guess = next((wait for wait in verdict.waits if wait.probable), None)
        if guess is not None and self.probe_tool(session):
            verdict, guess = judge(activity, runtime, self._policy, now), None
        reachability = self._host.reach(identity.id) if identity.is_managed else UNREACHABLE
        # A costly check, so only for sessions that can be resumed.
        held = identity.managed and is_cut_off(activity, verdict) and self._host.needs_approval(identity.id)
        record = build_record(identity, activity, runtime, verdict, now, reachability, held=held)
        session.update(verdict, msgspec.structs.replace(record, short_name=self._names.put(record)))
        due = verdict.next_check_at.awake if verdict.next_check_at is not None else None
        if guess is not None:
            probe_seconds = min(max(PROBE_SECONDS_MIN, now.seconds_since(guess.since) / 2), PROBE_SECONDS_MAX)
            due = min(now.awake + probe_seconds, due or inf)
        return due

    def probe_tool(self, session: TrackedSession) -> bool:
        """Whether the agent waits for a tool with a living process. Called when a wait runs out."""
        living, activity, now = session.presence.living_processes, session.activity, self._clock.now()
        awaited = activity.background if activity.phase is not TurnPhase.TOOL else activity.calls
        if not living or not awaited:
            return False
        # Helpers that an agent keeps for its whole life (MCP servers) are older than the call.
        oldest_seconds = now.wall - min(each.since.wall for each in awaited.values())
        is_alive = self._tools.has_live_tool(living[0].process, oldest_seconds)
        if is_alive:
            session.presence.tool_seen_at = now
        return is_alive
