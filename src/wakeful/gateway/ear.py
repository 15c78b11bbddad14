"""Hears one turn to its end: shows its words as they grow, asks its questions, and knows when to give it up.

What limits a turn is silence, not age: a long one that is heard of is at work. A person who is asked something may
take their time; that silence is theirs.
"""

import asyncio
import logging
from collections.abc import Callable
from contextlib import aclosing
from typing import Final

from wakeful.client.ports_sessions import Sessions
from wakeful.control.auth_text import auth_tier
from wakeful.control.turn_events import Asked, Ended, Gone, Heard, Settled, Taken, Unread, Words
from wakeful.core.clock import Clock
from wakeful.core.errors import WakefulError
from wakeful.core.ids import SessionId
from wakeful.core.waiting import told_or_due
from wakeful.gateway.judging import End, Stopped
from wakeful.gateway.needs import Limits
from wakeful.gateway.permissions import Questions
from wakeful.gateway.rules.errors import NotBegun, TimedOut
from wakeful.gateway.rules.turn import Turn
from wakeful.gateway.rules.validation import without_trace
from wakeful.storage.store import Outcome

# An interrupted client says so within 10 s, or does not.
STOP_SECONDS_MAX: Final = 15.0
# A refused prompt is in the file already, if it is there at all.
DOUBT_SECONDS_MAX: Final = 5.0

log = logging.getLogger("wakeful.gateway")

Grow = Callable[[str], None]


class Ear:
    """Listens to one turn."""

    def __init__(
        self,
        *,
        turn: Turn,
        key: str,
        sessions: Sessions,
        clock: Clock,
        questions: Questions,
        limits: Limits,
        grow: Grow,
        may_propose: Callable[[], bool],
    ) -> None:
        self._turn = turn
        self._key = key
        self._sessions = sessions
        self._clock = clock
        self._questions = questions
        self._limits = limits
        self._grow = grow
        self._may_propose = may_propose
        self.session_id = SessionId(turn.session_id)
        self._text = ""
        self.heard_at = clock.now().awake
        self._last: Heard | None = None
        self._stirred = asyncio.Event()
        self._stopped_at: float | None = None

    def stop(self) -> None:
        """Its user wants no more of it."""
        self._stopped_at = self._clock.now().awake
        self._stirred.set()

    async def listen(self) -> End:
        """How the turn ended."""
        hearing = asyncio.ensure_future(self._hear())
        limit = asyncio.ensure_future(self._limit())
        try:
            await asyncio.wait({hearing, limit}, return_when=asyncio.FIRST_COMPLETED)
            end = hearing.result() if hearing.done() else limit.result()
        finally:
            hearing.cancel()
            limit.cancel()
            await asyncio.gather(hearing, limit, return_exceptions=True)
        # Only now: where we are ended ourselves, its questions stay open for whoever goes on.
        await self._questions.over(self.session_id)
        return end

    async def _hear(self) -> End:
        said = self._sessions.hear(self._turn.provider, self.session_id, self._key, self._turn.epoch)
        async with aclosing(said) as stream:  # type: ignore[type-var]
            async for heard in stream:
                self.heard_at, self._last = self._clock.now().awake, heard
                self._stirred.set()
                await self._take(heard)
                if isinstance(heard, Ended) and not heard.interrupted:
                    return heard
                if isinstance(heard, Ended | Gone | Unread) and self._stopped_at is not None:
                    return Stopped(self._text)
                if isinstance(heard, Unread):
                    # A client may take a message into the turn that runs without a word about it.
                    return NotBegun("its process ended at work on something else", is_sure=False)
        return Gone("nothing more is to be heard of it")

    async def _take(self, heard: Heard) -> None:
        match heard:
            case Taken():
                self._text = ""
            case Words(text):
                self._text += text
                # A client's complaint about its login is not for the chat, not even while it is being written.
                if auth_tier(self._text) is None:
                    self._grow(without_trace(self._text))
            case Asked():
                await self._questions.ask(self._turn.place, self.session_id, heard, self._turn.user_id)
            case Settled(question_id):
                await self._questions.settled(self.session_id, question_id)
            case Gone():
                log.warning("%s ended inside a turn: %s", self.session_id, heard.last_words)
            case _:
                pass

    async def _limit(self) -> End:
        """Returns when nothing more is waited for."""
        while (until := self._patience_until()) > self._clock.now().awake:
            self._stirred.clear()
            await told_or_due(self._clock, self._stirred, until)
        return await self._given_up()

    def _patience_until(self) -> float:
        if self._stopped_at is not None:
            return self._stopped_at + STOP_SECONDS_MAX
        if self._last is None and self._turn.doubt:
            return self.heard_at + DOUBT_SECONDS_MAX
        if isinstance(self._last, Gone):
            return self.heard_at + self._limits.gone
        if isinstance(self._last, Ended):
            return self.heard_at + self._limits.cut_short
        asked = self._limits.question if self._questions.is_open(self.session_id) else 0.0
        return self.heard_at + self._limits.turn + asked

    async def _given_up(self) -> End:
        if self._stopped_at is not None or isinstance(self._last, Ended):
            return Stopped(self._text)
        if isinstance(self._last, Gone):
            return self._last
        if self._last is None and self._turn.doubt:
            return NotBegun(self._turn.doubt)
        if await self._revived():
            self.heard_at = self._clock.now().awake
            return await self._limit()
        return TimedOut()

    async def _revived(self) -> bool:
        """Propose to bring it back; the one gate decides. Whether that is worth waiting for."""
        if not self._may_propose():
            return False
        try:
            answered = await self._sessions.revive(self.session_id)
        except WakefulError as problem:
            log.warning("%s is silent and could not be revived: %s", self.session_id, problem)
            return False
        log.warning("%s is silent; revival: %s (%s)", self.session_id, answered.outcome, answered.words)
        return answered.outcome is Outcome.RECOVERED
