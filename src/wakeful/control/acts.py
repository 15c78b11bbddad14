"""The act gate: whatever is done to an agent passes here, one act at a time per session.

The intent is stored, the evidence is read again, then comes the act, then its outcome as it was seen. A crash between
any two steps leaves an open intent; the next start settles it by looking at the world, never by repeating it.
"""

import asyncio
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from enum import StrEnum
from typing import Final
from uuid import uuid4

import msgspec
from msgspec import Struct

from wakeful.control.driver import Seen
from wakeful.core.clock import Clock
from wakeful.core.errors import WakefulError
from wakeful.core.fault_points import reach
from wakeful.core.ids import SessionId
from wakeful.core.managed_session import Hosting
from wakeful.core.moment import Instant
from wakeful.judging.findings import State
from wakeful.judging.session_record import safe
from wakeful.storage.store import Conclusion, Intent, Outcome, Store

INTERRUPTED: Final = "Wakeful ended in the middle of it and nobody saw what it did"


class Act(StrEnum):
    """What can be done to an agent."""

    START = "start"
    RESUME = "resume"
    DELIVER = "deliver"
    ANSWER = "answer"
    INTERRUPT = "interrupt"
    STOP = "stop"


class Purpose(Struct, frozen=True):
    """What an intent must say so that a restart can look for its effect; `planned` is where it would live."""

    planned: Hosting | None = None
    # A prompt leaves only its length: what people write is not kept twice.
    prompt_chars: int = 0
    question_id: str = ""
    # A stop that a person asked for: nothing brings the session back.
    final: bool = False


class Deed(Struct, frozen=True):
    """An act that was asked for, and what became of it. `words` say what was seen; `untrusted` is what a screen said."""

    id: str
    act: Act
    session_id: SessionId
    outcome: Outcome
    words: str
    untrusted: str = ""
    # Which process of the session was given a prompt; 0 where none was.
    epoch: int = 0


_UNDERWAY: Final = {Act.START: State.STARTING, Act.RESUME: State.STARTING, Act.STOP: State.STOPPING}

Objection = Callable[[], str | None]
"""Says why an act must not happen now, from the newest evidence; None if nothing speaks against it."""

Perform = Callable[[str], Awaitable[Seen]]
"""The act itself; it is given the intent's id, which whatever it starts will carry."""


class ActGate:
    """The only way to a driver."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        reread: Callable[[SessionId], None],
        forbidden: Objection = lambda: None,
        acted: Callable[[SessionId], None] = lambda _session_id: None,
        concluded: Callable[[SessionId], None] = lambda _session_id: None,
    ) -> None:
        self._store = store
        self._clock = clock
        self._reread = reread
        self._forbidden = forbidden
        # Told when a session begins or ceases to be started or stopped.
        self._acted = acted
        # Told when an outcome is stored: what was kept only to find it out can go.
        self._concluded = concluded
        self._underway: dict[SessionId, State] = {}
        self._turns: defaultdict[SessionId, asyncio.Lock] = defaultdict(asyncio.Lock)
        self._performed: Counter[SessionId] = Counter()
        self._prompted: dict[SessionId, Instant] = {}

    def performed(self, session_id: SessionId) -> int:
        """How many acts on this session have come to their end; who sees it grow was overtaken inside the gate."""
        return self._performed[session_id]

    def underway(self, session_id: SessionId) -> State | None:
        """What the session is being brought to now: `starting` or `stopping`."""
        return self._underway.get(session_id)

    def prompted_at(self, session_id: SessionId) -> Instant | None:
        """When the newest prompt was given here, which its log may not show yet."""
        return self._prompted.get(session_id)

    def turn(self, session_id: SessionId) -> asyncio.Lock:
        """Whoever holds it is alone with this session: for what replaces it by another one."""
        return self._turns[session_id]

    async def pass_through(
        self,
        act: Act,
        session_id: SessionId,
        purpose: Purpose,
        objection: Objection,
        perform: Perform,
        *,
        by_itself: bool = False,
    ) -> tuple[Deed, Hosting | None]:
        """Do it, unless something speaks against it. Errors of a driver mean that nothing was done, and are raised.

        `by_itself`: no person asked for it, so whatever is `forbidden` (a pause) speaks against it as well.
        """
        if by_itself:
            objection = self._unless_forbidden(objection)
        # Shielded: whoever asked may hang up, but what has begun is brought to its end and written down.
        return await asyncio.shield(self._in_turn(act, session_id, purpose, objection, perform))

    async def _in_turn(
        self, act: Act, session_id: SessionId, purpose: Purpose, objection: Objection, perform: Perform
    ) -> tuple[Deed, Hosting | None]:
        async with self._turns[session_id]:
            return await self._one(act, session_id, purpose, objection, perform)

    async def _one(
        self, act: Act, session_id: SessionId, purpose: Purpose, objection: Objection, perform: Perform
    ) -> tuple[Deed, Hosting | None]:
        intent = Intent(uuid4().hex, session_id, act, msgspec.json.encode(purpose), self._clock.now().wall)
        self._reread(session_id)
        if (reason := objection()) is not None:
            # Refused before anything was intended: there is nothing a restart would have to look for.
            return Deed(intent.id, act, session_id, Outcome.DECLINED, reason), None
        await self._store.intend(intent)
        reach("act.intended")
        with self._shown(act, session_id):
            seen = await self._attempt(intent, objection, perform)
            reach("act.done")
            await self.conclude(intent, seen)
        deed = Deed(intent.id, act, session_id, seen.outcome, seen.words, safe(seen.untrusted))
        return deed, seen.hosting

    @contextmanager
    def _shown(self, act: Act, session_id: SessionId) -> Iterator[None]:
        """Let everybody see that a start or a stop is under way, as long as it is."""
        if act not in _UNDERWAY:
            yield
            return
        self._underway[session_id] = _UNDERWAY[act]
        self._acted(session_id)
        try:
            yield
        finally:
            del self._underway[session_id]
            self._acted(session_id)

    async def _attempt(self, intent: Intent, objection: Objection, perform: Perform) -> Seen:
        """Storing took time, and the world went on: look again, then act."""
        self._reread(intent.session_id)
        if (reason := objection()) is not None:
            return Seen(Outcome.DECLINED, reason)
        began = self._clock.now()
        try:
            seen = await perform(intent.id)
        except WakefulError as error:
            await self.conclude(intent, Seen(Outcome.DECLINED, str(error)))
            raise
        if seen.outcome is not Outcome.DECLINED:
            self._performed[intent.session_id] += 1
            if intent.act == Act.DELIVER:
                self._prompted[intent.session_id] = began
        return seen

    def _unless_forbidden(self, objection: Objection) -> Objection:
        return lambda: self._forbidden() or objection()

    async def conclude(self, intent: Intent, seen: Seen) -> None:
        await self._store.conclude(Conclusion(intent.id, seen.outcome, seen.words, self._clock.now().wall))
        self._concluded(intent.session_id)
