"""What a crash left half done, settled by looking at the world. Nothing is ever done again here.

An intent without an outcome says that an act may have happened. A start is looked for by the process that carries
its intent, or by what a client has said that names its conversation itself; a stop by the absence of one, a prompt in a
terminal by what is left of it in the input line; what leaves no trace of its own is said to be unverified, also where the
session is looked at: a prompt that nobody saw taken is for a person to send again.
"""

from collections.abc import Awaitable, Callable, Sequence
from typing import Final

import msgspec
from msgspec.structs import replace

from wakeful.control.acts import INTERRUPTED, Act, ActGate, Purpose
from wakeful.control.driver import Seen, TypedText, World
from wakeful.control.ownership import Holdings
from wakeful.core.decoding import json_decoder
from wakeful.core.leases import ConversationHeld
from wakeful.core.managed_session import INTENT_VARIABLE, SESSION_VARIABLE, Hosting
from wakeful.core.moment import iso
from wakeful.core.process import Process, Sight
from wakeful.storage.store import Intent, Outcome, Store

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
