"""Gathers the facts about a session that the plan needs, from evidence and ownership. It decides nothing."""

from collections.abc import Collection, Coroutine
from pathlib import PurePath
from typing import Final, Protocol

from wakeful.control.controller import CLIENT_PROGRAMS, InterruptedCallClassifier
from wakeful.control.gate import ActionRecord
from wakeful.control.ownership import ManagedSessions
from wakeful.core.clock import Instant
from wakeful.core.ids import SessionId
from wakeful.core.managed_session import ManagedSession
from wakeful.core.process import ProcessState
from wakeful.effects.rules import Effect
from wakeful.healing.case import HealingCase
from wakeful.healing.plan import AgentRecovery, Situation
from wakeful.incidents.many_deaths import DeathCounter
from wakeful.incidents.model import DEATHS, Cause, IncidentContext, Origin, cause_of_loss, origin_of
from wakeful.judging.findings import FindingCode, State
from wakeful.judging.interrupted_calls import InterruptedCall
from wakeful.judging.summary import quiet_seconds
from wakeful.judging.wording import quote
from wakeful.sessions.session import TrackedSession

_WORST: Final = {Effect.LOCAL: 0, Effect.UNKNOWN: 1, Effect.REMOTE: 2}
# After an approval there is nothing left to wait for.
_LONG_ENOUGH_SECONDS: Final = 86_400.0


class HostFacts(Protocol):
    host: str
    boot_id: str
    machine_id: str

    def exists(self, folder: str) -> bool:
        """Whether a folder exists."""

    def oom_killed(self) -> bool:
        """Whether the kernel killed processes for lack of memory in the last minute."""


class AgentHosts(Protocol):
    """Agents that host sessions. The hub is one."""

    def agent_name_of(self, session_id: SessionId) -> str | None:
        """The agent that hosts this session, or hosted it last."""

    def recovery_of(self, session_id: SessionId) -> AgentRecovery:
        """How this session comes back if its agent is gone."""

    def resume_agent(self, session_id: SessionId) -> Coroutine[None, None, ActionRecord] | None:
        """Start the agent that hosts this session, in its conversation; None where no agent does."""


class SituationBuilder:
    def __init__(
        self,
        managed_sessions: ManagedSessions,
        host: HostFacts,
        own_tmux: str,
        classifier: InterruptedCallClassifier,
    ) -> None:
        self._managed_sessions = managed_sessions
        self._host = host
        self._own_tmux = own_tmux
        self._agent_hosts: list[AgentHosts] = []
        # Sessions of a queue: its own watchdog treats them.
        self.queue_sessions: frozenset[SessionId] = frozenset()
        # Sessions that a person is restoring at this moment: the healer leaves them alone.
        self.restoring_sessions: set[SessionId] = set()
        self._classifier = classifier
        self._deaths = DeathCounter()

    def add_agents(self, hosts: AgentHosts) -> None:
        self._agent_hosts.append(hosts)

    def set_queue_sessions(self, session_ids: Collection[SessionId]) -> None:
        self.queue_sessions = frozenset(session_ids)

    def agent_name_of(self, session_id: SessionId) -> str | None:
        """The agent that hosts this session, or hosted it last."""
        return next((name for each in self._agent_hosts if (name := each.agent_name_of(session_id))), None)

    def _agent_recovery(self, session_id: SessionId) -> AgentRecovery:
        recoveries = (each.recovery_of(session_id) for each in self._agent_hosts)
        return next((each for each in recoveries if each is not AgentRecovery.NOTIFY), AgentRecovery.NOTIFY)

    def require_managed(self, session_id: SessionId) -> None:
        """Raises NotManaged; HostedByAgent, unless Wakeful may restart its agent."""
        if self._agent_recovery(session_id) is AgentRecovery.NOTIFY:
            self._managed_sessions.get(session_id)

    async def refresh_ownership(self, session_id: SessionId) -> None:
        """Reload an unmanaged session: another daemon on this store may have started it a moment ago."""
        if self._managed_sessions.find(session_id) is None:
            await self._managed_sessions.reload()

    def build(self, session: TrackedSession, case: HealingCase, now: Instant) -> Situation:
        verdict, activity = session.verdict, session.activity
        assert verdict is not None, "judged before it is treated"
        managed = self._managed_sessions.find(session.subject.id)
        cwd = managed.cwd if managed is not None else activity.cwd
        program = managed.argv[0] if managed is not None and managed.argv else ""
        is_client = session.subject.provider in CLIENT_PROGRAMS
        limit = activity.limit_until
        holder = session.presence.newest_process
        process = holder.process if holder is not None else None
        found = next((each.since for each in verdict.findings if each.code is case.code), None)
        # Its folder may be one of a container: the start there shows whether it is gone.
        agent_name = self.agent_name_of(session.subject.id)
        return Situation(
            code=case.code,
            state=verdict.state,
            agent=verdict.agent,
            # Wakeful does not resume a session that a person stopped, or continues elsewhere.
            managed=managed is not None and (case.approved or not managed.is_ended),
            for_seconds=_LONG_ENOUGH_SECONDS if case.approved else now.wall - case.code_since,
            found_seconds=now.wall - found.wall if found is not None else None,
            since_progress_seconds=quiet_seconds(activity, now),
            effect=max(
                (each.verdict.effect for each in self.classify_interrupted(session)),
                key=_WORST.__getitem__,
                default=None,
            ),
            resumable=is_client and activity.known > 0,
            renewable=is_client or PurePath(program).name in CLIENT_PROGRAMS,
            place_gone=cwd is not None and agent_name is None and not self._host.exists(cwd),
            stopped=not case.approved
            and (session.presence.stopped or (managed is not None and managed.is_ended_in(process))),
            failure_told=is_failure_told(managed, session, case),
            lost=self.loss_origin(session) is not None,
            limit_in_seconds=limit.wall - now.wall if limit is not None else None,
            agent_name=agent_name,
            agent_way=self._agent_recovery(session.subject.id),
        )

    def classify_interrupted(self, session: TrackedSession) -> tuple[InterruptedCall, ...]:
        return tuple(self._classifier.classify_interrupted(session))

    def describe_remote_calls(self, session: TrackedSession) -> list[str]:
        """The interrupted calls that may have had effects elsewhere, as text."""
        return [
            f"{each.tool} {quote(each.verdict.words)} ({each.verdict.effect})"
            for each in self.classify_interrupted(session)
            if each.verdict.effect is not Effect.LOCAL
        ]

    def loss_origin(self, session: TrackedSession) -> Origin | None:
        """The cause that ended an idle managed session, unless a person stopped or closed it.

        A tmux server that Wakeful did not start may have ended because its last window was closed: that is no loss.
        """
        managed = self._managed_sessions.find(session.subject.id)
        verdict = session.verdict
        if managed is None or managed.is_ended or managed.closed:
            return None
        if verdict is None or verdict.state is not State.STOPPED:
            return None
        if verdict.agent is not ProcessState.DEAD or session.subject.provider not in CLIENT_PROGRAMS:
            return None
        origin = cause_of_loss(session.presence, self._incident_context(session))
        if origin is not None and origin.cause is Cause.TMUX_SERVER and origin.scope != self._own_tmux:
            return None
        return origin

    def is_cause_over(self, session: TrackedSession, code: FindingCode | None, now: Instant) -> bool:
        """Whether its cause is over: a limit was lifted. Only its user resumes an unmanaged session."""
        limit = session.activity.limit_until
        is_over = code is FindingCode.USAGE_LIMITED and limit is not None and limit.wall <= now.wall
        return is_over and self._managed_sessions.find(session.subject.id) is None

    def is_shared(self, session: TrackedSession, code: FindingCode | None) -> bool:
        """Whether its cause can affect other sessions as well."""
        return self.origin(session, code).cause is not Cause.SESSION

    def origin(self, session: TrackedSession, code: FindingCode | None) -> Origin:
        """The cause of its problem, which names its incident."""
        context = self._incident_context(session)
        if code is None:
            lost = cause_of_loss(session.presence, context)
            assert lost is not None, "a session without a finding is treated only if it was lost"
            return lost
        origin = origin_of(code, session.activity, session.presence, context)
        alone = origin.cause is Cause.SESSION and code in DEATHS
        if alone and self._deaths.died_with_many(session.subject.id):
            return Origin(Cause.MANY_DEATHS, context.host)
        return origin

    def count_death(self, session: TrackedSession, now: Instant) -> None:
        """Count a session that was found dead, before any of those found with it is treated."""
        for finding in session.verdict.findings if session.verdict is not None else ():
            if finding.code in DEATHS:
                self._deaths.on_death(session.subject.id, finding.since.wall, now.awake)

    def _incident_context(self, session: TrackedSession) -> IncidentContext:
        return IncidentContext(
            provider=session.subject.provider,
            session_id=session.subject.id,
            host=self._host.host,
            boot_id=self._host.boot_id,
            machine_id=self._host.machine_id,
            oom_killed=self._host.oom_killed(),
        )


def is_failure_told(managed: ManagedSession | None, session: TrackedSession, case: HealingCase) -> bool:
    """Whether the chat gateway told its user that its turn failed, and neither a prompt nor a person's yes came since."""
    told_at = managed.failure_told_at if managed is not None else None
    if told_at is None or case.approved:
        return False
    prompts = (session.activity.turn_since, session.activity.person_at)
    return all(at is None or at.wall <= told_at for at in prompts)
