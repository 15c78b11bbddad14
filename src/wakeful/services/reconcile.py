"""What a crash left half done, settled by looking at the world. Nothing is ever done again here.

An intent without an outcome says that an act may have happened. A start is looked for by the process that carries
its intent, a stop by the absence of one; what leaves no trace of its own is said to be unverified.
"""

from typing import Final

import msgspec
from msgspec.structs import replace

from wakeful.domain.hosting import INTENT_VARIABLE, SESSION_VARIABLE, Hosting
from wakeful.domain.process import Sight
from wakeful.ports.hands import Seen, World
from wakeful.ports.store import Intent, Outcome, Store
from wakeful.services.acts import Act, ActGate, Purpose
from wakeful.services.holdings import Holdings

INTERRUPTED: Final = "Wakeful ended in the middle of it and nobody saw what it did"
_decode_purpose: Final = msgspec.json.Decoder(Purpose).decode


async def reconcile(store: Store, gate: ActGate, holdings: Holdings, world: World) -> list[Seen]:
    """Conclude every open intent with what can be seen now, oldest first."""
    concluded = []
    for intent in await store.open_intents():
        seen, planned = _seen(intent, world), _planned(intent)
        if seen.hosting is not None:
            known = holdings.find(seen.hosting.session_id)
            # A resume claims its epoch after it was intended; what is kept knows it.
            epoch = known.epoch if known is not None else seen.hosting.epoch
            await holdings.keep(replace(seen.hosting, epoch=epoch))
        elif intent.act == Act.START and planned is not None:
            # Claimed for somebody who never came: the name is free again.
            await holdings.abandon(planned)
        await gate.conclude(intent, seen)
        concluded.append(seen)
    return concluded


def _seen(intent: Intent, world: World) -> Seen:
    match intent.act:
        case Act.START | Act.RESUME:
            return _seen_start(intent, world)
        case Act.STOP:
            return _seen_stop(intent, world)
        case _:
            return Seen(Outcome.UNVERIFIED, INTERRUPTED)


def _seen_start(intent: Intent, world: World) -> Seen:
    carriers = world.carriers(INTENT_VARIABLE, intent.id)
    planned = _planned(intent)
    if not carriers:
        return Seen(Outcome.UNVERIFIED, "no process of this start lives; it may have come and gone unseen")
    if planned is None:
        return Seen(
            Outcome.UNVERIFIED, f"process {carriers[0].pid} lives, but nothing says what it was to be"
        )
    oldest = min(carriers, key=lambda process: process.started)
    found = f"process {oldest.pid} of this start was found running"
    return Seen(Outcome.RECOVERED, found, replace(planned, process=oldest))


def _seen_stop(intent: Intent, world: World) -> Seen:
    planned = _planned(intent)
    left = world.carriers(SESSION_VARIABLE, intent.session_id)
    if planned is not None and planned.process is not None and world.sight(planned.process) is not Sight.DEAD:
        left.append(planned.process)
    if left:
        return Seen(Outcome.INEFFECTIVE, f"process {left[0].pid} still runs")
    return Seen(Outcome.RECOVERED, "nothing of it runs any more")


def _planned(intent: Intent) -> Hosting | None:
    try:
        return _decode_purpose(intent.evidence).planned
    except msgspec.DecodeError:
        # Written by another version: what it meant is not known here.
        return None
