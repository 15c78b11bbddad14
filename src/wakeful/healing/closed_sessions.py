"""Marks managed sessions that a person closed, withdraws stops that failed, and interrupts prompts that timed out.

A session counts as closed if its process ended without a finding while its host and tmux server went on for
90 s: a host that shuts down ends agents first and Wakeful within a minute. A later reboot or end of the tmux
server does not bring it back. A prompt is interrupted, through the action gate, only if the model of a
managed session is silent: not during a tool call or another expected wait, and not while healing treats the
session. This module never writes health: evidence reports the end of the turn.
"""

import asyncio
import logging
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from wakeful.control.controller import SessionController
from wakeful.control.ownership import ManagedSessions
from wakeful.control.person_stops import STOP_SECONDS_MAX
from wakeful.core.clock import Clock, Instant
from wakeful.core.errors import WakefulError
from wakeful.core.ids import SessionId
from wakeful.core.managed_session import ManagedSession
from wakeful.core.process import Process, ProcessState
from wakeful.core.waiting import wait_for_event_or_deadline
from wakeful.healing.situation import SituationBuilder
from wakeful.judging.findings import State, WaitKind
from wakeful.sessions.registry import SessionRegistry
from wakeful.sessions.session import TrackedSession

# A host that shuts down ends agents first and Wakeful within a minute.
CONFIRM_SECONDS: Final = 90.0


class _Candidate(Struct, frozen=True):
    """A process of which the condition holds, and the time from which that is lasting."""

    process: Process | None
    sure_at: float


class _LastingCondition(ABC):
    """Changes a managed session once a condition has held for its process for some time."""

    def __init__(
        self, clock: Clock, registry: SessionRegistry, managed_sessions: ManagedSessions, seconds: float
    ) -> None:
        self._clock = clock
        self._registry = registry
        self._managed_sessions = managed_sessions
        self._seconds = seconds
        # The oldest first.
        self._candidates: dict[SessionId, _Candidate] = {}
        self._wakeup = asyncio.Event()

    def on_judged(self, session_id: SessionId) -> None:
        managed, known = self._managed_sessions.find(session_id), self._candidates.get(session_id)
        if managed is None or not self._holds_for(managed):
            self._candidates.pop(session_id, None)
        elif known is None or known.process != managed.process:
            self._candidates.pop(session_id, None)
            self._candidates[session_id] = _Candidate(
                managed.process, self._clock.now().awake + self._seconds
            )
            self._wakeup.set()

    async def run(self) -> None:
        """Change sessions of which the condition has held long enough, until cancelled."""
        while True:
            self._wakeup.clear()
            due = next(iter(self._candidates.items()), None)
            if due is not None and due[1].sure_at <= self._clock.now().awake:
                await self._change(due[0])
            else:
                await wait_for_event_or_deadline(
                    self._clock, self._wakeup, due[1].sure_at if due is not None else None
                )

    async def _change(self, session_id: SessionId) -> None:
        managed = self._managed_sessions.find(session_id)
        if managed is not None and self._holds_for(managed):
            await self._managed_sessions.save(self._changed(managed))
        self._candidates.pop(session_id, None)

    def _holds_for(self, managed: ManagedSession) -> bool:
        session = self._registry.sessions.get(managed.session_id)
        return managed.process is not None and session is not None and self._holds(managed, session)

    @abstractmethod
    def _holds(self, managed: ManagedSession, session: TrackedSession) -> bool: ...

    @abstractmethod
    def _changed(self, managed: ManagedSession) -> ManagedSession: ...


class UserCloseDetector(_LastingCondition):
    """Marks sessions that a person closed."""

    def __init__(
        self,
        clock: Clock,
        registry: SessionRegistry,
        managed_sessions: ManagedSessions,
        situations: SituationBuilder,
    ) -> None:
        super().__init__(clock, registry, managed_sessions, CONFIRM_SECONDS)
        self._situations = situations

    def _holds(self, managed: ManagedSession, session: TrackedSession) -> bool:
        if managed.is_ended or managed.closed:
            return False
        pane = session.presence.pane
        return (
            session.presence.agent_state is ProcessState.DEAD
            and session.verdict is not None
            and not session.verdict.findings
            and (pane is None or pane.runtime is ProcessState.ALIVE)
            and self._situations.loss_origin(session) is None
        )

    def _changed(self, managed: ManagedSession) -> ManagedSession:
        return replace(managed, closed=True)


class FailedStopDetector(_LastingCondition):
    """Withdraws a stop that did not end its process: a later end of that process is another problem."""

    def __init__(self, clock: Clock, registry: SessionRegistry, managed_sessions: ManagedSessions) -> None:
        super().__init__(clock, registry, managed_sessions, STOP_SECONDS_MAX)

    def _holds(self, managed: ManagedSession, session: TrackedSession) -> bool:
        process = session.presence.newest_process
        return (
            managed.stopped
            and process is not None
            and process.process == managed.process
            and process.sight is ProcessState.ALIVE
            and session.record is not None
            and session.record.state is not State.STOPPING
        )

    def _changed(self, managed: ManagedSession) -> ManagedSession:
        return replace(managed, stopped=False, by_gateway=False)


# These waits end by time alone. Every other one has evidence of its own.
_TIMEOUT_WAITS: Final = frozenset({WaitKind.MODEL, WaitKind.RETRY})
HEALING_TREATS_IT: Final = "healing sees to it"
EXPECTED_WAIT: Final = "it waits for something"
MADE_PROGRESS: Final = "it moves again"

log = logging.getLogger("wakeful")


class PromptTimeout:
    """Interrupts prompts. During a pause its controller refuses to."""

    def __init__(
        self,
        controller: SessionController,
        registry: SessionRegistry,
        is_treated: Callable[[SessionId], bool],
    ) -> None:
        self._controller = controller
        self._registry = registry
        self._is_treated = is_treated
        self._tasks: set[asyncio.Task[None]] = set()

    def on_timeout(self, session_id: SessionId) -> None:
        """Interrupt the prompt of a managed session, in a task of its own, unless there is a reason not to."""
        session = self._registry.sessions.get(session_id)
        if session is None or not session.subject.managed or self._refusal_reason(session) is not None:
            return
        task = asyncio.ensure_future(self._interrupt(session, session.activity.progress_at))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _interrupt(self, session: TrackedSession, progress_at: Instant | None) -> None:
        session_id = session.subject.id

        def refusal_reason() -> str | None:
            """The gate calls it after it has read the newest evidence."""
            has_progress = session.activity.progress_at != progress_at
            return MADE_PROGRESS if has_progress else self._refusal_reason(session)

        try:
            record = await self._controller.interrupt(session_id, unless=refusal_reason)
        except WakefulError as error:
            log.warning("the prompt of %s timed out and was not interrupted: %s", session_id, error)
        else:
            log.warning(
                "the prompt of %s timed out; interrupt %s: %s", session_id, record.outcome, record.words
            )

    def _refusal_reason(self, session: TrackedSession) -> str | None:
        verdict = session.verdict
        assert verdict is not None, "judged before its prompt could time out"
        if verdict.findings or self._is_treated(session.subject.id):
            return HEALING_TREATS_IT
        return EXPECTED_WAIT if any(wait.kind not in _TIMEOUT_WAITS for wait in verdict.waits) else None
