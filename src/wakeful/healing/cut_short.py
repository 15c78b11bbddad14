"""The end of a prompt that timed out: interrupted through the act gate, so that its session can be spoken to again.

Only a model that left a managed session without a word is cut short. Whoever runs a tool or waits for something named is
excused, and what healing treats is healing's. Health is never written here: evidence tells of the end of the turn.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import Final

from wakeful.control.hands import Hands
from wakeful.core.errors import WakefulError
from wakeful.core.ids import SessionId
from wakeful.core.moment import Instant
from wakeful.judging.verdict import WaitKind
from wakeful.sessions.registry import Roster
from wakeful.sessions.session import Watched

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
