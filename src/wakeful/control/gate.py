"""The action gate, which every action on an agent passes, and the check of open intents after a crash.

The gate runs one action at a time per session: it stores the intent, reads the evidence again, performs the
action, and stores the outcome. A crash in between leaves an open intent. `reconcile` concludes it at the next
start by inspecting the host and never repeats the action: it finds a start by the process that carries the
intent id, or by the conversation that the client named; a stop by the absence of processes; a typed prompt by
its rest in the input line. Anything without a trace is unverified, and the session's note asks a person to
send an unseen prompt again.
"""

import asyncio
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from enum import StrEnum
from typing import Final
from uuid import uuid4

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from wakeful.control.driver import Seen, TypedText, World
from wakeful.control.ownership import Holdings
from wakeful.core.clock import Clock, Instant, iso
from wakeful.core.decoding import json_decoder
from wakeful.core.errors import WakefulError
from wakeful.core.fault_points import reach
from wakeful.core.ids import SessionId
from wakeful.core.leases import ConversationHeld
from wakeful.core.managed_session import INTENT_VARIABLE, SESSION_VARIABLE, Hosting
from wakeful.core.process import Process, Sight
from wakeful.judging.findings import State
from wakeful.judging.session_record import safe
from wakeful.storage.base import Conclusion, Intent, Outcome, Store

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


_decode_purpose: Final = json_decoder(Purpose)

FindBegun = Callable[[Hosting, str, Sequence[Process]], Awaitable[Seen | None]]
"""What a start began whose client names its conversation itself, by its plan, its intent and its living processes."""


async def find_nothing(_planned: Hosting, _intent_id: str, _carriers: Sequence[Process]) -> Seen | None:
    """Where no client does."""
    return None


async def reconcile(
    store: Store,
    gate: ActGate,
    holdings: Holdings,
    world: World,
    typed: Sequence[TypedText] = (),
    find_begun: FindBegun = find_nothing,
) -> list[Seen]:
    """Conclude every open intent with what can be seen now, oldest first.

    `typed`: what became of texts that were being typed into terminals.
    """
    concluded = []
    for intent in await store.open_intents():
        purpose = _purpose(intent)
        text = _text_of(intent, typed)
        prompted = _prompted(text)
        if text is not None and text.is_command and text.seen.outcome is Outcome.INEFFECTIVE:
            # The command that was to start it never ran.
            seen = text.seen
        elif (begun := await _begun(intent, purpose, holdings, world, find_begun)) is not None:
            seen = begun
            prompted = begun if begun.outcome is Outcome.RECOVERED else None
        else:
            seen = _seen(intent, purpose, holdings, world, prompted)
        await _settle(intent, purpose, seen, holdings, prompted)
        await gate.conclude(intent, seen)
        concluded.append(seen)
    return concluded


async def _begun(
    intent: Intent, purpose: Purpose, holdings: Holdings, world: World, find_begun: FindBegun
) -> Seen | None:
    """A conversation that got its name after Wakeful ended, claimed now; None: nothing is known of one."""
    planned = purpose.planned
    if intent.act != Act.START or planned is None or planned.conversation_id:
        return None
    carriers = world.carriers(INTENT_VARIABLE, intent.id)
    seen = await find_begun(planned, intent.id, carriers)
    if seen is None or seen.hosting is None:
        return None
    try:
        lease = await holdings.claim(seen.hosting.session_id, seen.hosting.process)
    except ConversationHeld as problem:
        return Seen(Outcome.UNVERIFIED, str(problem))
    return replace(seen, hosting=replace(seen.hosting, epoch=lease.epoch))


def _text_of(intent: Intent, typed: Sequence[TypedText]) -> TypedText | None:
    """What was typed for this intent; a text from before it was typed for another one, which is concluded."""
    found = [each for each in typed if each.session_id == intent.session_id and each.at >= intent.at]
    return max(found, key=lambda each: each.at, default=None)


def _prompted(text: TypedText | None) -> Seen | None:
    """What became of the prompt; None if that is unknown. A prompt is typed after the command that starts its agent."""
    if text is None or not text.is_command:
        return None if text is None else text.seen
    return Seen(Outcome.INEFFECTIVE, "the text was not typed, nothing was sent")


async def _settle(
    intent: Intent, purpose: Purpose, seen: Seen, holdings: Holdings, prompted: Seen | None
) -> None:
    """Bring what is kept into line with what was seen."""
    known = holdings.find(seen.hosting.session_id if seen.hosting is not None else intent.session_id)
    if purpose.final and known is not None:
        # It was asked for, whatever came of it; of the process that it had then.
        process = purpose.planned.process if purpose.planned is not None else known.process
        await holdings.keep(replace(known, stopped=True, process=process))
    elif seen.hosting is not None:
        # A resume claims its epoch after it was intended; what is kept knows it.
        epoch = known.epoch if known is not None else seen.hosting.epoch
        await holdings.keep(replace(seen.hosting, epoch=epoch, note=_note(intent, purpose, prompted)))
    elif intent.act == Act.DELIVER and known is not None:
        await holdings.keep(replace(known, note=_note(intent, purpose, prompted)))
    elif intent.act == Act.START and purpose.planned is not None and known is None:
        # Claimed for somebody who never came: the name is free again.
        await holdings.abandon(purpose.planned)


def _note(intent: Intent, purpose: Purpose, prompted: Seen | None) -> str:
    if not purpose.prompt_chars or (prompted is not None and prompted.outcome is Outcome.RECOVERED):
        return ""
    which = f"the prompt of {iso(intent.at)} ({purpose.prompt_chars:,} characters)"
    if prompted is not None and prompted.outcome is Outcome.INEFFECTIVE:
        return f"Wakeful ended while it typed {which}: {prompted.words}. Send it again"
    return f"Wakeful ended before it saw {which} taken: send it again if the conversation does not show it"


def _seen(intent: Intent, purpose: Purpose, holdings: Holdings, world: World, prompted: Seen | None) -> Seen:
    match intent.act:
        case Act.START | Act.RESUME:
            return _seen_start(intent, purpose, holdings, world, prompted)
        case Act.STOP:
            return _seen_stop(intent, purpose, world)
        case Act.DELIVER if prompted is not None:
            return prompted
        case _:
            return Seen(Outcome.UNVERIFIED, INTERRUPTED)


def _seen_start(
    intent: Intent, purpose: Purpose, holdings: Holdings, world: World, prompted: Seen | None
) -> Seen:
    carriers = world.carriers(INTENT_VARIABLE, intent.id)
    if not carriers:
        return Seen(Outcome.UNVERIFIED, "no process of this start lives; it may have come and gone unseen")
    hosting = _hosting_of(purpose, carriers, holdings)
    pid = min(carriers, key=lambda process: process.started).pid
    if hosting is None:
        unknown = f"process {pid} lives, but nothing says which session it is: `wakeful ls`, then adopt it"
        return Seen(Outcome.UNVERIFIED, unknown)
    found = f"process {pid} of this start was found running"
    if not purpose.prompt_chars:
        return Seen(Outcome.RECOVERED, found, hosting)
    if prompted is not None:
        is_sent = prompted.outcome is Outcome.RECOVERED
        outcome = Outcome.RECOVERED if is_sent else Outcome.UNVERIFIED
        return Seen(outcome, f"{found}; its prompt: {prompted.words}", hosting)
    return Seen(Outcome.UNVERIFIED, f"{found}; nobody saw whether it was given its prompt", hosting)


def _hosting_of(purpose: Purpose, carriers: list[Process], holdings: Holdings) -> Hosting | None:
    """What is kept of these processes already, else what was planned for them."""
    kept = next((each for each in holdings.all() if each.process in carriers), None)
    if kept is not None or purpose.planned is None or not purpose.planned.conversation_id:
        # A client that names its conversation itself, and had not yet: its plan is nobody's address.
        return kept
    return replace(purpose.planned, process=min(carriers, key=lambda process: process.started))


def _seen_stop(intent: Intent, purpose: Purpose, world: World) -> Seen:
    planned = purpose.planned
    left = world.carriers(SESSION_VARIABLE, intent.session_id)
    if planned is not None and planned.process is not None and world.sight(planned.process) is not Sight.DEAD:
        left.append(planned.process)
    if left:
        return Seen(Outcome.INEFFECTIVE, f"process {left[0].pid} still runs")
    return Seen(Outcome.RECOVERED, "nothing of it runs any more")


def _purpose(intent: Intent) -> Purpose:
    try:
        return _decode_purpose(intent.evidence)
    except msgspec.DecodeError:
        # Written by another version: what it meant is not known here.
        return Purpose()
