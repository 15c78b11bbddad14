"""A fixture in which every agent sends hostile text, wherever an agent can send text."""

from pathlib import Path

import msgspec
from msgspec.structs import replace

from support.healing_fixture import HealingFixture
from support.hostile_texts import HOSTILE_TEXTS
from support.supervisor_fixture import BOOT, subject
from wakeful.checkpoints.model import Checkpoint, CheckpointChoice, CheckpointKind, ChoiceName
from wakeful.core.ids import ConversationId
from wakeful.core.process import Process, ProcessState
from wakeful.incidents.critical_event import critical_event
from wakeful.incidents.critical_log import CriticalLog
from wakeful.incidents.model import Cause, MemberStatus, Origin
from wakeful.judging.events import (
    CallEnded,
    CallStarted,
    Event,
    Failure,
    LogOpened,
    Prompted,
    QuestionAsked,
    Said,
    Speaker,
    TurnFailed,
)


def speak(clinic: HealingFixture, number: int, text: str) -> None:
    """A session with this text wherever an agent can send text."""
    name, at = f"h{number:03}", clinic.wall()
    process = Process(500_000 + number, 1, BOOT)
    clinic.supervisor.on_process(subject(name), process, ProcessState.ALIVE, source="a test")
    events: list[Event] = [
        LogOpened(at, ConversationId(name), f"/home/me/{text.replace('/', '|')}"),
        Prompted(at),
        CallStarted(at, "1", text, input=msgspec.json.encode({"command": text, text: text})),
        CallEnded(at, "1", is_error=True, result=text.encode()),
        CallStarted(at, "2", "Bash", input=text.encode()),
    ]
    if number == 0:
        events += [
            each for number, said in enumerate(HOSTILE_TEXTS) for each in called(at, f"all {number}", said)
        ]
    last = QuestionAsked(at, text) if number % 2 else TurnFailed(at, Failure.REQUEST, text)
    clinic.log[subject(name).id] = [*events, *spoken(at), last] if number == 1 else [*events, last]
    clinic.supervisor.on_events(subject(name), [*events, last], live=True)


def spoken(at: float) -> list[Said]:
    """All of the texts, by every speaker in turn; only the log has them."""
    speakers = list(Speaker)
    return [
        Said(at, speakers[each % len(speakers)], text.encode()) for each, text in enumerate(HOSTILE_TEXTS)
    ]


def called(at: float, call: str, text: str) -> tuple[CallStarted, CallEnded]:
    return CallStarted(at, call, text, input=text.encode()), CallEnded(at, call, result=text.encode())


async def speak_elsewhere(clinic: HealingFixture, folder: Path) -> None:
    """The same text in checkpoints, incidents and critical events."""
    log = CriticalLog(folder / "critical_events.jsonl")
    for number, text in enumerate(HOSTILE_TEXTS):
        name = subject(f"h{number:03}").id
        incident = await clinic.incidents.join(name, Origin(Cause.SESSION, text), text, text)
        await clinic.incidents.update(
            replace(incident.with_treatment(name, MemberStatus.REVIVED, text), issue_url=text)
        )
        if number % 5 == 0:
            choices = (
                CheckpointChoice(ChoiceName.CONTINUE, text, (text,)),
                CheckpointChoice(ChoiceName.ABORT, text),
            )
            draft = Checkpoint(0, CheckpointKind.JOURNAL, text, text, 0.0, (text,), (text,), (text,), choices)
            await clinic.checkpoints.open(draft)
            event = critical_event(
                "queue_stalled", text, text, text, "none", text, {text: text}, at_wall=clinic.wall()
            )
            log.append(event)
