"""State machine of a turn: its phases and steps, with all transitions in TRANSITIONS.

Events become steps first, because the meaning of a finished call depends on other open calls. The table is
total: every pair of phase and step has an answer, because logs begin anywhere, are cut, and arrive out of
order. `docs/reference/states.md` is generated from it.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Final


class TurnPhase(StrEnum):
    # Used for every event; the hash of Enum is written in Python.
    __hash__ = str.__hash__

    UNSEEN = "unseen"  # no turn was read yet
    OPENED = "opened"  # a turn without a request to the model: a command that a person typed runs
    MODEL = "model"  # the model's answer is pending
    TOOL = "tool"  # at least one call is open
    PERSON = "person"  # a question or a permission is open
    SETTLING = "settling"  # text, and the log does not say whether more follows
    ENDED = "ended"
    PROPOSED = "proposed"  # over, and its plan waits for approval
    FAILED = "failed"
    INTERRUPTED = "interrupted"


class TurnStep(StrEnum):
    __hash__ = str.__hash__

    OPENED = "turn opened"
    PROMPTED = "prompted"
    PROGRESSED = "progressed"
    SPOKE = "spoke"
    CALL_OPENED = "call opened"
    CALL_ASKED = "call asked a person"
    CALLS_REMAIN = "call ended, others open"
    CALLS_DONE = "last call ended"
    ASKED = "asked"
    ANSWERED = "answered"
    ENDED = "turn ended"
    PROPOSED = "turn ended with a plan"
    MARKED = "turn marked over"
    FAILED = "turn failed"
    INTERRUPTED = "turn interrupted"


OPEN: Final = frozenset(
    {TurnPhase.OPENED, TurnPhase.MODEL, TurnPhase.TOOL, TurnPhase.PERSON, TurnPhase.SETTLING}
)
"""Phases inside a turn."""
ANSWERED: Final = OPEN - {TurnPhase.OPENED, TurnPhase.MODEL} | {TurnPhase.ENDED, TurnPhase.PROPOSED}
"""Phases that only an answer of the model leads to."""

_ALWAYS: Final[Mapping[TurnStep, TurnPhase]] = {
    TurnStep.OPENED: TurnPhase.OPENED,
    TurnStep.PROMPTED: TurnPhase.MODEL,
    TurnStep.SPOKE: TurnPhase.SETTLING,
    TurnStep.CALL_OPENED: TurnPhase.TOOL,
    TurnStep.CALL_ASKED: TurnPhase.PERSON,
    TurnStep.CALLS_REMAIN: TurnPhase.TOOL,
    TurnStep.CALLS_DONE: TurnPhase.MODEL,
    TurnStep.ASKED: TurnPhase.PERSON,
    TurnStep.PROGRESSED: TurnPhase.MODEL,
    TurnStep.ANSWERED: TurnPhase.MODEL,
    TurnStep.ENDED: TurnPhase.ENDED,
    TurnStep.PROPOSED: TurnPhase.PROPOSED,
    TurnStep.MARKED: TurnPhase.ENDED,
    TurnStep.FAILED: TurnPhase.FAILED,
    TurnStep.INTERRUPTED: TurnPhase.INTERRUPTED,
}
_EXCEPTIONS: Final[Mapping[tuple[TurnPhase, TurnStep], TurnPhase]] = {
    # Progress marks of a running tool or of a subagent do not end it.
    (TurnPhase.TOOL, TurnStep.PROGRESSED): TurnPhase.TOOL,
    (TurnPhase.TOOL, TurnStep.SPOKE): TurnPhase.TOOL,
    # Other calls may begin and end while a dialog is open; only its answer or its result closes it.
    (TurnPhase.PERSON, TurnStep.PROGRESSED): TurnPhase.PERSON,
    (TurnPhase.PERSON, TurnStep.CALL_OPENED): TurnPhase.PERSON,
    (TurnPhase.PERSON, TurnStep.CALLS_REMAIN): TurnPhase.PERSON,
    # After an answer the call runs; its result comes later.
    (TurnPhase.PERSON, TurnStep.ANSWERED): TurnPhase.TOOL,
    (TurnPhase.TOOL, TurnStep.ANSWERED): TurnPhase.TOOL,
    # Marks written after the end (summaries, late results of background commands) open nothing.
    (TurnPhase.ENDED, TurnStep.PROGRESSED): TurnPhase.ENDED,
    (TurnPhase.ENDED, TurnStep.CALLS_DONE): TurnPhase.ENDED,
    (TurnPhase.ENDED, TurnStep.ANSWERED): TurnPhase.ENDED,
    (TurnPhase.PROPOSED, TurnStep.PROGRESSED): TurnPhase.PROPOSED,
    (TurnPhase.PROPOSED, TurnStep.CALLS_DONE): TurnPhase.PROPOSED,
    (TurnPhase.PROPOSED, TurnStep.ANSWERED): TurnPhase.PROPOSED,
    (TurnPhase.PROPOSED, TurnStep.MARKED): TurnPhase.PROPOSED,
    (TurnPhase.FAILED, TurnStep.PROGRESSED): TurnPhase.FAILED,
    (TurnPhase.FAILED, TurnStep.CALLS_DONE): TurnPhase.FAILED,
    (TurnPhase.FAILED, TurnStep.ANSWERED): TurnPhase.FAILED,
    (TurnPhase.INTERRUPTED, TurnStep.PROGRESSED): TurnPhase.INTERRUPTED,
    (TurnPhase.INTERRUPTED, TurnStep.CALLS_DONE): TurnPhase.INTERRUPTED,
    (TurnPhase.INTERRUPTED, TurnStep.ANSWERED): TurnPhase.INTERRUPTED,
    # A client also marks a failed turn as over; the failure must stay visible.
    (TurnPhase.FAILED, TurnStep.MARKED): TurnPhase.FAILED,
    (TurnPhase.INTERRUPTED, TurnStep.MARKED): TurnPhase.INTERRUPTED,
    # A tool's progress mark after text keeps the turn open without saying what it waits for.
    (TurnPhase.SETTLING, TurnStep.PROGRESSED): TurnPhase.SETTLING,
    (TurnPhase.SETTLING, TurnStep.CALLS_DONE): TurnPhase.SETTLING,
}

TRANSITIONS: Final[Mapping[tuple[TurnPhase, TurnStep], TurnPhase]] = {
    (phase, step): _EXCEPTIONS.get((phase, step), _ALWAYS[step]) for phase in TurnPhase for step in TurnStep
}
