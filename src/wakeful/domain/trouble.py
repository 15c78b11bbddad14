"""A session's trouble and what was done about it: the memory of healing. Pure values and the words made of them.

A trouble begins with a finding and ends when a turn of that session ends well; budgets and steps belong to it, so a
second failure of the same work is known as one, over restarts too.
"""

from collections.abc import Iterable
from enum import StrEnum
from typing import Final

from msgspec import Struct

from wakeful.domain.effect_rules import Effect
from wakeful.domain.effects import classify
from wakeful.domain.events import CallEnded, CallStarted, Event
from wakeful.domain.findings import Code
from wakeful.domain.ids import SessionId
from wakeful.domain.plan import History, Step
from wakeful.domain.wording import quoted

# An agent reads them all; more than a handful of remote effects in one turn is listed by its newest.
REMOTE_CALLS_NAMED_MAX: Final = 12

HAPPENED: Final = "A person looked: every call named above has happened. Do not repeat any of them."


class Stage(StrEnum):
    """How far a revival has come. `begun`: its budget is spent; whether anything was done is not known."""

    BEGUN = "begun"
    DONE = "done"


class Trouble(Struct, frozen=True, kw_only=True):
    """What one session is in, since when, and what was done about it so far."""

    session_id: SessionId
    # Its budget's name: the session and when the work in trouble began.
    work: str
    project: str
    code: Code | None
    opened_at: float
    # When this code was first seen: nothing is done before it has lasted.
    code_since: float
    incident: str = ""
    # Its finding's own words.
    summary: str = ""
    # In the words of the log of critical events, as it was before anything was done about it.
    reason: str = ""
    steered_at: float | None = None
    # Forgotten once it was seen well: from then on a failure is a new one.
    revived_at: float | None = None
    revival_seen: bool = False
    # The last one that was begun for it.
    revival_id: str | None = None
    revivals: int = 0
    approved: bool = False
    # A person looked: what was cut off has happened.
    happened: bool = False
    held: bool = False
    # What a person was asked about it, by its number.
    checkpoint: int | None = None
    given_up: bool = False
    # What was tried last could not be done; it is tried again, and people know.
    declined: bool = False
    continued_after_limit: bool = False
    issue_url: str | None = None
    filed_at: float | None = None
    did: str = ""
    # The finding is gone; the work may still run.
    calm_since: float | None = None
    # Its line in the log of critical events is written.
    logged: bool = False
    told: bool = False

    def history(self, now: float) -> History:
        return History(
            steered_seconds_ago=None if self.steered_at is None else now - self.steered_at,
            revived_seconds_ago=None if self.revived_at is None else now - self.revived_at,
            revival_seen=self.revival_seen,
            revivals=self.revivals,
            approved=self.approved,
            given_up=self.given_up,
            continued_after_limit=self.continued_after_limit,
        )


class Revival(Struct, frozen=True):
    """One revival, written down in the same breath as its budget is spent."""

    id: str
    session_id: SessionId
    work: str
    step: Step
    began_at: float
    epoch: int
    stage: Stage = Stage.BEGUN
    outcome: str = "unverified"
    words: str = ""


def completed_remote(events: Iterable[Event]) -> list[str]:
    """The calls that came back and changed something elsewhere, oldest first, in words an agent may read."""
    started: dict[str, CallStarted] = {}
    done: list[str] = []
    for event in events:
        if isinstance(event, CallStarted):
            started[event.call] = event
        elif isinstance(event, CallEnded) and not event.refused:
            call = started.pop(event.call, None)
            if call is not None and classify(call.tool, call.input).effect is Effect.REMOTE:
                said = f"{call.tool} {call.input.decode(errors='replace')}"
                done.append(f"{call.tool} {quoted(said)}")
    return done[-REMOTE_CALLS_NAMED_MAX:]


def context(reason: str, issue_url: str | None, remote: list[str], *, happened: bool = False) -> str:
    """What a revived agent must know beside what was interrupted. One line."""
    parts = [HAPPENED] if happened else []
    parts.append(f"Why: {reason}.")
    if remote:
        parts.append(f"Already done elsewhere, do not repeat: {'; '.join(remote)}.")
    if issue_url is not None:
        parts.append(f"Filed as {issue_url}.")
    return " ".join(parts)


def steering(code: Code | None) -> str:
    """A word to an agent that goes in circles or whose turn failed. It answers no question on a screen."""
    return _GO_ON if code is None else _STEERING.get(code, _GO_ON)


_GO_ON: Final = (
    "Wakeful: your last turn ended before its work was done. Look at what is done already, then go on."
)
_STEERING: Final = {
    Code.LOOP: (
        "Wakeful: you repeat the same calls with the same results. Stop, say what you try to find out, and try "
        "another way; if there is none, say so and end your turn."
    ),
    Code.ERROR_CASCADE: (
        "Wakeful: your last calls all failed. Stop, read the errors, find their common cause, and try another way; "
        "if there is none, say so and end your turn."
    ),
    Code.TOOL_WEDGED: (
        "Wakeful: the call you waited for did not come back and was cut off. It may have run in part. Check what it "
        "did, then go on without repeating it blindly."
    ),
    Code.USAGE_LIMITED: "Wakeful: the usage limit is lifted. Look at what is done already, then go on.",
}
