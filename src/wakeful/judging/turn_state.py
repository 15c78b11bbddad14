"""State machine of a turn: its phases and steps, with all transitions in TRANSITIONS.

Events become steps first, because the meaning of a finished call depends on other open calls. The table is
total: every pair of phase and step has an answer, because logs begin anywhere, are cut, and arrive out of
order. `docs/reference/states.md` is generated from it.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Final


class Phase(StrEnum):
    """What the turn is doing."""

    # Asked for with every event; an enum's own is written in Python.
    __hash__ = str.__hash__

    UNSEEN = "unseen"  # nothing of a turn was read yet
    OPENED = "opened"  # a turn was opened and nothing was asked of the model: a person's own command runs
    MODEL = "model"  # the model's answer is pending
    TOOL = "tool"  # at least one call is open
    PERSON = "person"  # a question or a permission is open
    SETTLING = "settling"  # text came and the log does not say whether more follows
    ENDED = "ended"
    PROPOSED = "proposed"  # over, and the plan it ended with waits for a person's yes
    FAILED = "failed"
    INTERRUPTED = "interrupted"


class Step(StrEnum):
    """What an event did to the turn."""

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


OPEN: Final = frozenset({Phase.OPENED, Phase.MODEL, Phase.TOOL, Phase.PERSON, Phase.SETTLING})
"""Phases inside a turn."""
ANSWERED: Final = OPEN - {Phase.OPENED, Phase.MODEL} | {Phase.ENDED, Phase.PROPOSED}
"""Phases that only a model's word leads to."""

_ALWAYS: Final[Mapping[Step, Phase]] = {
    Step.OPENED: Phase.OPENED,
    Step.PROMPTED: Phase.MODEL,
    Step.SPOKE: Phase.SETTLING,
    Step.CALL_OPENED: Phase.TOOL,
    Step.CALL_ASKED: Phase.PERSON,
    Step.CALLS_REMAIN: Phase.TOOL,
    Step.CALLS_DONE: Phase.MODEL,
    Step.ASKED: Phase.PERSON,
    Step.PROGRESSED: Phase.MODEL,
    Step.ANSWERED: Phase.MODEL,
    Step.ENDED: Phase.ENDED,
    Step.PROPOSED: Phase.PROPOSED,
    Step.MARKED: Phase.ENDED,
    Step.FAILED: Phase.FAILED,
    Step.INTERRUPTED: Phase.INTERRUPTED,
}
_EXCEPTIONS: Final[Mapping[tuple[Phase, Step], Phase]] = {
    # Progress marks of a running tool or of a subagent do not end it.
    (Phase.TOOL, Step.PROGRESSED): Phase.TOOL,
    (Phase.TOOL, Step.SPOKE): Phase.TOOL,
    # Other calls may begin and end while a dialog is open; only its answer or its result closes it.
    (Phase.PERSON, Step.PROGRESSED): Phase.PERSON,
    (Phase.PERSON, Step.CALL_OPENED): Phase.PERSON,
    (Phase.PERSON, Step.CALLS_REMAIN): Phase.PERSON,
    # An answer lets the call that asked run; its result comes later.
    (Phase.PERSON, Step.ANSWERED): Phase.TOOL,
    (Phase.TOOL, Step.ANSWERED): Phase.TOOL,
    # Marks written after the end (summaries, late results of background commands) open nothing.
    (Phase.ENDED, Step.PROGRESSED): Phase.ENDED,
    (Phase.ENDED, Step.CALLS_DONE): Phase.ENDED,
    (Phase.ENDED, Step.ANSWERED): Phase.ENDED,
    (Phase.PROPOSED, Step.PROGRESSED): Phase.PROPOSED,
    (Phase.PROPOSED, Step.CALLS_DONE): Phase.PROPOSED,
    (Phase.PROPOSED, Step.ANSWERED): Phase.PROPOSED,
    (Phase.PROPOSED, Step.MARKED): Phase.PROPOSED,
    (Phase.FAILED, Step.PROGRESSED): Phase.FAILED,
    (Phase.FAILED, Step.CALLS_DONE): Phase.FAILED,
    (Phase.FAILED, Step.ANSWERED): Phase.FAILED,
    (Phase.INTERRUPTED, Step.PROGRESSED): Phase.INTERRUPTED,
    (Phase.INTERRUPTED, Step.CALLS_DONE): Phase.INTERRUPTED,
    (Phase.INTERRUPTED, Step.ANSWERED): Phase.INTERRUPTED,
    # A failed turn is closed by its client too; the failure is what a person needs to know.
    (Phase.FAILED, Step.MARKED): Phase.FAILED,
    (Phase.INTERRUPTED, Step.MARKED): Phase.INTERRUPTED,
    # A tool's progress mark after text keeps the turn open without saying what it waits for.
    (Phase.SETTLING, Step.PROGRESSED): Phase.SETTLING,
    (Phase.SETTLING, Step.CALLS_DONE): Phase.SETTLING,
}

TRANSITIONS: Final[Mapping[tuple[Phase, Step], Phase]] = {
    (phase, step): _EXCEPTIONS.get((phase, step), _ALWAYS[step]) for phase in Phase for step in Step
}
