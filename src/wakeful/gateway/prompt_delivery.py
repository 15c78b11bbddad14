"""Delivers a turn's prompt to the session of its conversation.

That is the current session, resumed if it ended, or a new one. Every request carries the turn's idempotency
key, so that a lost answer is asked for again and nothing happens twice.
"""

import logging
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

from msgspec.structs import replace

from wakeful.client.api import (
    Answered,
    DaemonCutOff,
    DaemonNotRunning,
    DaemonSilent,
    Refused,
    Seat,
    Sessions,
)
from wakeful.core.clock import Clock
from wakeful.core.fault_points import reach
from wakeful.core.ids import SessionId
from wakeful.gateway.rules.errors import NotBegun
from wakeful.gateway.rules.messages import ConversationKey
from wakeful.gateway.rules.turn import Cut, Stage, Turn
from wakeful.gateway.turn_context import Limits, Passage, SeatFor
from wakeful.gateway.turn_store import Book, Conversations
from wakeful.storage.base import Outcome

# Why a conversation cannot go on, as the daemon says it: the next one begins anew.
BEYOND: Final = frozenset({"session-not-found", "not-managed", "conversation-unknown", "cannot-resume"})
AWAY: Final = (DaemonNotRunning, DaemonSilent, DaemonCutOff)
# In these states a prompt that nobody saw arrive is being worked on.
AT_WORK: Final = frozenset({"prompting", "waiting"})

log = logging.getLogger("wakeful.gateway")
T = TypeVar("T")


class Asking:
    """The way of a prompt to its session."""

    def __init__(
        self,
        *,
        sessions: Sessions,
        clock: Clock,
        book: Book,
        conversations: Conversations,
        seat_for: SeatFor,
        limits: Limits,
    ) -> None:
        self._sessions = sessions
        self._clock = clock
        self._book = book
        self._conversations = conversations
        self._seat_for = seat_for
        self._limits = limits

    async def ask(self, passage: Passage) -> NotBegun | None:
        """Let its session have the prompt; why none has it, else None."""
        key = passage.turn.key
        seat = self._seat_for(key)
        try:
            if passage.turn.stage is Stage.PLACED:
                session_id = await self._session_of(key, seat)
                await passage.keep(stage=Stage.ASKING, provider=seat.provider, session_id=session_id)
            answered = await self._given(passage, seat)
            if _is_beyond(answered) and not passage.turn.cut:
                # Whatever the old conversation was, its user wants an answer.
                log.warning("%s cannot go on with %s: it begins anew", key, passage.turn.session_id)
                await passage.keep(session_id="")
                answered = await self._given(passage, seat)
        except AWAY as problem:
            return NotBegun(str(problem))
        reach("turn.given")
        return await self._taken(passage, seat, answered)

    async def heir_of(self, key: ConversationKey, session_id: str) -> SessionId | None:
        """The session that a healer began anew in the name of this one."""
        name = self._seat_for(key).name
        heir = await self._sessions.named(name) if name else None
        return None if heir == session_id else heir

    async def _session_of(self, key: ConversationKey, seat: Seat) -> str:
        """The one it has, if that is held as the configuration says now. Another one is ended: it may do other things."""
        known = self._conversations.get(key)
        if known is None or not known.session_id or known.held_as == seat.stamp:
            return known.session_id if known is not None else ""
        log.warning("%s begins anew: its provider, folder or permissions were changed", key)
        session_id = SessionId(known.session_id)
        try:
            await self._patiently(lambda: self._sessions.stop(session_id, by_itself=True))
        except Refused as refused:
            log.info("%s could not be ended: %s", session_id, refused)
        return ""

    async def _given(self, passage: Passage, seat: Seat) -> Answered | Refused:
        turn = passage.turn
        try:
            if not turn.session_id:
                return await self._patiently(
                    lambda: self._sessions.start(seat, turn.prompt, self._book.key_of(turn))
                )
            answered = await self._sent(turn)
            if answered.outcome is not Outcome.DECLINED or passage.turn.cut:
                return answered
            # Its process is gone: evicted, lost while nobody wrote, or replaced by the healer, who began anew.
            session_id = SessionId(turn.session_id)
            heir = await self._patiently(lambda: self.heir_of(turn.key, session_id))
            if heir is not None:
                log.warning("%s goes on with %s: %s was given up", turn.key, heir, session_id)
                return await self._sent(replace(turn, session_id=heir))
            await self._patiently(lambda: self._sessions.resume(session_id, seat.environ))
            return await self._sent(turn)
        except Refused as refused:
            return refused

    async def _sent(self, turn: Turn) -> Answered:
        key = self._book.key_of(turn)
        return await self._patiently(
            lambda: self._sessions.send(SessionId(turn.session_id), turn.prompt, key)
        )

    async def _taken(self, passage: Passage, seat: Seat, answered: Answered | Refused) -> NotBegun | None:
        turn = passage.turn
        if isinstance(answered, Refused):
            return NotBegun(str(answered))
        session_id = answered.session_id or turn.session_id
        if answered.outcome is Outcome.DECLINED:
            return NotBegun(answered.words)
        if not session_id:
            # A start that nobody saw the end of, and that left nothing to look at.
            return NotBegun(answered.words, is_sure=answered.outcome is not Outcome.UNVERIFIED)
        if turn.cut is not Cut.CONVERSATION:
            await self._conversations.seat(turn.key, seat, session_id)
        if answered.outcome is Outcome.UNVERIFIED and not await self._is_at_work(session_id):
            return NotBegun(answered.words, is_sure=False)
        # What had no effect may be told by the turn itself: a login that is refused is said there.
        doubt = answered.words if answered.outcome is Outcome.INEFFECTIVE else ""
        await passage.keep(stage=Stage.ASKED, session_id=session_id, doubt=doubt, epoch=answered.epoch)
        return None

    async def _is_at_work(self, session_id: str) -> bool:
        standing = await self._patiently(lambda: self._sessions.standing(SessionId(session_id)))
        return standing is not None and standing.state in AT_WORK

    async def _patiently(self, ask: Callable[[], Awaitable[T]]) -> T:
        """Ask a daemon that may be away for a while. Raises what it answers; and that it is away, in the end."""
        until = self._clock.now().awake + self._limits.away
        while True:
            try:
                return await ask()
            except AWAY as problem:
                if self._clock.now().awake >= until:
                    raise
                log.info("asked again in %g s: %s", self._limits.retry, problem)
                await self._clock.sleep_until(self._clock.now().awake + self._limits.retry)


def _is_beyond(answered: Answered | Refused) -> bool:
    return isinstance(answered, Refused) and answered.reason in BEYOND
