"""One session in memory: activity, presence, verdict, and its record, encoded once per verdict."""

from math import inf
from operator import attrgetter
from typing import Final

import msgspec
from msgspec import Struct, field

from wakeful.core.clock import Instant
from wakeful.core.process import ProcessState
from wakeful.judging.activity import Activity
from wakeful.judging.evidence import AgentProcess, Pane, RuntimeState, SessionIdentity
from wakeful.judging.findings import Attention, FindingCode, Health, State, Verdict
from wakeful.judging.session_record import SessionRecord, health_view
from wakeful.storage.base import Transition

_encode: Final = msgspec.json.Encoder().encode
_code: Final = attrgetter("code")

TransitionKey = tuple[State, Health, tuple[FindingCode, ...], Attention, bool, bool]
"""What must differ for a change to be a transition; times and texts move without one."""


class SessionSnapshot(Struct):
    """What outlives the daemon beside a bookmark. Instants are only good within the boot they were taken in."""

    boot_id: str
    activity: Activity
    holders: dict[int, AgentProcess]
    pane: Pane | None = None
    written_after_at: Instant | None = None


class TrackedSession(Struct, gc=False):
    """A session under watch. Only the supervisor writes it."""

    subject: SessionIdentity
    activity: Activity = field(default_factory=Activity)
    presence: RuntimeState = field(default_factory=RuntimeState)
    verdict: Verdict | None = None
    record: SessionRecord | None = None
    standing: TransitionKey | None = None
    check_at: float | None = None
    # False while a log is known by its name and age only.
    is_log_read: bool = True
    # The last sign of it that people can compare with a clock; for ever while its agent lives.
    last_seen_wall: float = inf
    # The record's bytes once somebody read them: `body` makes them.
    encoded_record: bytes | None = None
    _health_body: bytes | None = None

    def update(self, verdict: Verdict, record: SessionRecord) -> None:
        """Take a new verdict; the record is encoded when somebody first reads it."""
        self.verdict, self.record = verdict, record
        self.encoded_record = self._health_body = None
        last_at = self.activity.last_at
        self.last_seen_wall = (
            inf if verdict.agent is ProcessState.ALIVE else last_at.wall if last_at else -inf
        )

    def body(self) -> bytes:
        """The record as every door sends it."""
        if self.encoded_record is None:
            assert self.record is not None, "a session is judged before it is shown"
            self.encoded_record = _encode(self.record)
        return self.encoded_record

    def health_body(self) -> bytes:
        """The health fields as every listener sends them."""
        if self._health_body is None:
            assert self.record is not None, "a session is judged before it is shown"
            self._health_body = _encode(health_view(self.record))
        return self._health_body


def transition_key_of(record: SessionRecord) -> TransitionKey:
    return (
        record.state,
        record.health,
        tuple(map(_code, record.findings)),
        record.attention,
        record.session_alive,
        record.active_prompt,
    )


def transition_of(
    session: TrackedSession, before: TransitionKey | None, reason: str, at: float
) -> Transition:
    """The change from one standing to the newest one, with the record it led to."""
    record = session.record
    assert record is not None, "a transition follows a judgement"
    return Transition(
        session_id=record.id,
        at=at,
        old_state=before[0] if before else "",
        new_state=record.state,
        old_health=before[1] if before else "",
        new_health=record.health,
        reason=reason,
        record=session.body(),
        turn_ended_at=turn_ended_at(session),
    )


def turn_ended_at(session: TrackedSession) -> float | None:
    """When the newest turn that is known to have ended well did, in seconds of the epoch."""
    record = session.record
    assert record is not None, "judged before its turns are counted"
    settled = not record.active_prompt and record.health is not Health.DEAD
    end = session.activity.newest_well_end(settled=settled)
    return end.wall if end is not None else None
