"""Resumes all sessions that a reboot or a dead tmux server ended: each in its directory, under its name.

Managed sessions come back without it. This is the full list for a person's command, with sessions that are
only watched. It skips sessions that are alive, and sessions with an interrupted call that may have had
effects elsewhere.
"""

from collections.abc import Iterator
from typing import Final

from msgspec import Struct

from wakeful.control.controller import CLIENT_PROGRAMS, SessionController
from wakeful.control.gate import ActionRecord
from wakeful.control.ownership import ManagedSessions
from wakeful.core.errors import OperatorError
from wakeful.core.ids import SessionId
from wakeful.core.managed_session import ManagedSession
from wakeful.core.process import ProcessState
from wakeful.healing.rate_limit import RevivalLimiter
from wakeful.healing.situation import HostFacts, SituationBuilder
from wakeful.incidents.model import CAUSE_TEXTS, IncidentContext, cause_of_loss
from wakeful.judging.evidence import why_final
from wakeful.judging.session_record import safe
from wakeful.sessions.registry import SessionRegistry
from wakeful.sessions.session import TrackedSession

NEEDS_APPROVAL: Final = (
    "a call that may have had effects elsewhere was interrupted: `wakeful resume {name} --yes`"
)


class NotLost(OperatorError, code="not-lost", http_status=409, exit_code=1):
    """{shown} cannot be resumed: {reason}."""


class LostSession(Struct, frozen=True):
    """A session that ended with its host or tmux server. `skipped`: why it cannot be resumed."""

    session_id: SessionId
    name: str
    cwd: str
    managed: bool
    because: str
    skipped: str | None = None


class Restorer:
    def __init__(
        self,
        registry: SessionRegistry,
        managed_sessions: ManagedSessions,
        controller: SessionController,
        host: HostFacts,
        limiter: RevivalLimiter,
        situations: SituationBuilder,
    ) -> None:
        self._registry = registry
        self._managed_sessions = managed_sessions
        self._controller = controller
        self._host = host
        self._limiter = limiter
        self._situations = situations

    def list_lost(self) -> list[LostSession]:
        """Every session that a reboot or a dead tmux server ended, by name."""
        found = [each for session in self._registry.sessions.values() for each in self._find_lost(session)]
        return sorted(found, key=lambda each: (each.name, each.session_id))

    async def resume(self, text: str) -> ActionRecord:
        """Resume one of them, once the limiter allows it. Raises NotLost, and the errors of a resume."""
        session = self._registry.find(text)
        session_id = session.subject.id
        lost = next(self._find_lost(session), None)
        if lost is None or lost.skipped is not None:
            raise NotLost(
                shown=session_id, reason=lost.skipped if lost else "its host and its tmux server are alive"
            )
        await self._limiter.acquire()
        self._situations.restoring_sessions.add(session_id)
        try:
            if self._managed_sessions.find(session_id) is None:
                pane = session.presence.pane
                await self._controller.adopt(session_id, named=pane.session if pane is not None else None)
            return await self._controller.resume(session_id)
        finally:
            self._situations.restoring_sessions.discard(session_id)

    def _find_lost(self, session: TrackedSession) -> Iterator[LostSession]:
        identity, runtime = session.subject, session.presence
        if identity.provider not in CLIENT_PROGRAMS or runtime.agent_state is not ProcessState.DEAD:
            return
        host = self._host
        context = IncidentContext(
            identity.provider, identity.id, host.host, host.boot_id, machine_id=host.machine_id
        )
        origin = cause_of_loss(runtime, context)
        if origin is None:
            return
        managed = self._managed_sessions.find(identity.id)
        if managed is not None and managed.closed:
            return
        pane_name = runtime.pane.session if runtime.pane is not None else None
        cwd = managed.cwd if managed is not None else session.activity.cwd or runtime.cwd or ""
        yield LostSession(
            session_id=identity.id,
            name=(managed.name if managed is not None else None) or pane_name or identity.id,
            cwd=safe(cwd),
            managed=managed is not None,
            because=CAUSE_TEXTS[origin.cause].format(scope=origin.scope),
            skipped=self._skip_reason(session, cwd, managed),
        )

    def _skip_reason(self, session: TrackedSession, cwd: str, managed: ManagedSession | None) -> str | None:
        if managed is not None and managed.is_ended:
            return why_final(managed.heir, by_gateway=managed.by_gateway)
        if (agent := session.subject.agent) is not None and not session.subject.managed:
            return f"agent {agent} hosts it: `wakeful attach {agent}`"
        if not cwd or not self._host.exists(cwd):
            return "its working directory is gone"
        if session.activity.known == 0:
            return "nothing was said in it, so there is nothing to continue"
        if self._situations.describe_remote_calls(session):
            return NEEDS_APPROVAL.format(name=session.shown_name)
        return None
