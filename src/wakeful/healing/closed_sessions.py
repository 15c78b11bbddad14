"""Marks managed sessions that a person closed, and interrupts prompts that timed out.

A session counts as closed if its process ended without a finding while its host and tmux server went on for
90 s: a host that shuts down ends agents first and Wakeful within a minute. A later reboot or end of the tmux
server does not bring it back. A prompt is interrupted, through the action gate, only if the model of a
managed session is silent: not during a tool call or another expected wait, and not while healing treats the
session. This module never writes health: evidence reports the end of the turn.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from wakeful.control.controller import Hands
from wakeful.control.ownership import Holdings
from wakeful.core.clock import Clock, Instant
from wakeful.core.errors import WakefulError
from wakeful.core.ids import SessionId
from wakeful.core.managed_session import Hosting
from wakeful.core.process import Process, Sight
from wakeful.core.waiting import told_or_due
from wakeful.healing.situation import Circumstances
from wakeful.judging.findings import WaitKind
from wakeful.sessions.registry import Roster
from wakeful.sessions.session import Watched

# A host that goes down ends agents first and us within a minute: what ended then was taken along.
SURE_SECONDS: Final = 90.0


class _Gone(Struct, frozen=True):
    """Which process ended, and when it is sure that its host did not."""

    process: Process | None
    sure_at: float


class Closing:
    """Told of every change, it keeps those that have ended until that is sure."""

    def __init__(
        self, clock: Clock, roster: Roster, holdings: Holdings, circumstances: Circumstances
    ) -> None:
        self._clock = clock
        self._roster = roster
        self._holdings = holdings
        self._around = circumstances
        # The oldest first.
        self._gone: dict[SessionId, _Gone] = {}
        self._told = asyncio.Event()

    def seen(self, session_id: SessionId) -> None:
        """This session was judged anew."""
        hosting, known = self._holdings.find(session_id), self._gone.get(session_id)
        if hosting is None or not self._has_ended(hosting):
            self._gone.pop(session_id, None)
        elif known is None or known.process != hosting.process:
            self._gone.pop(session_id, None)
            self._gone[session_id] = _Gone(hosting.process, self._clock.now().awake + SURE_SECONDS)
            self._told.set()

    async def run(self) -> None:
        """Note who has been gone for long enough, until cancelled."""
        while True:
            self._told.clear()
            due = next(iter(self._gone.items()), None)
            if due is not None and due[1].sure_at <= self._clock.now().awake:
                await self._note(due[0])
            else:
                await told_or_due(self._clock, self._told, due[1].sure_at if due is not None else None)

    async def _note(self, session_id: SessionId) -> None:
        hosting = self._holdings.find(session_id)
        if hosting is not None and self._has_ended(hosting):
            await self._holdings.keep(replace(hosting, closed=True))
        self._gone.pop(session_id, None)

    def _has_ended(self, hosting: Hosting) -> bool:
        watched = self._roster.watched.get(hosting.session_id)
        if hosting.is_ended or hosting.closed or hosting.process is None or watched is None:
            return False
        pane = watched.presence.pane
        return (
            watched.presence.agent is Sight.DEAD
            and watched.verdict is not None
            and not watched.verdict.findings
            and (pane is None or pane.runtime is Sight.ALIVE)
            and self._around.lost(watched) is None
        )


# These run out by a clock alone. Every other wait has something to show for itself.
_UNEXCUSED: Final = frozenset({WaitKind.MODEL, WaitKind.RETRY})
TREATED: Final = "healing sees to it"
EXCUSED: Final = "it waits for something"
MOVES: Final = "it moves again"

log = logging.getLogger("wakeful")


class CutShort:
    """Ends prompts. `hands` are those nobody asks for: a pause stops them."""

    def __init__(self, hands: Hands, roster: Roster, is_treated: Callable[[SessionId], bool]) -> None:
        self._hands = hands
        self._roster = roster
        self._is_treated = is_treated
        self._ending: set[asyncio.Task[None]] = set()

    def timed_out(self, session_id: SessionId) -> None:
        """End this session's prompt, in a task of its own, unless something speaks against it."""
        watched = self._roster.watched.get(session_id)
        if watched is None or not watched.subject.managed or self._excuse(watched) is not None:
            return
        task = asyncio.ensure_future(self._end(watched, watched.activity.progress_at))
        self._ending.add(task)
        task.add_done_callback(self._ending.discard)

    async def _end(self, watched: Watched, progress_at: Instant | None) -> None:
        session_id = watched.subject.id

        def objection() -> str | None:
            """Asked inside the gate, after the newest evidence was read."""
            return MOVES if watched.activity.progress_at != progress_at else self._excuse(watched)

        try:
            deed = await self._hands.interrupt(session_id, unless=objection)
        except WakefulError as error:
            log.warning("the prompt of %s timed out and was not interrupted: %s", session_id, error)
        else:
            log.warning("the prompt of %s timed out; interrupt %s: %s", session_id, deed.outcome, deed.words)

    def _excuse(self, watched: Watched) -> str | None:
        verdict = watched.verdict
        assert verdict is not None, "judged before its prompt could time out"
        if verdict.findings or self._is_treated(watched.subject.id):
            return TREATED
        return EXCUSED if any(wait.kind not in _UNEXCUSED for wait in verdict.waits) else None
