"""One session in memory: activity, presence, verdict, and its record, encoded once per verdict."""

from math import inf
from operator import attrgetter
from typing import Final

import msgspec
from msgspec import Struct, field

from wakeful.core.clock import Instant
from wakeful.core.process import Sight
from wakeful.judging.activity import Activity
from wakeful.judging.evidence import Holder, Pane, Presence, Subject
from wakeful.judging.findings import Attention, Code, Health, State, Verdict
from wakeful.judging.session_record import SessionRecord, health_view
from wakeful.storage.base import Transition

_encode: Final = msgspec.json.Encoder().encode
_code: Final = attrgetter("code")

Standing = tuple[State, Health, tuple[Code, ...], Attention, bool, bool]
"""What must differ for a change to be a transition; times and texts move without one."""


class Kept(Struct):
    """What outlives the daemon beside a bookmark. Instants are only good within the boot they were taken in."""

    boot_id: str
    activity: Activity
    holders: dict[int, Holder]
    pane: Pane | None = None
    written_after_at: Instant | None = None


class Watched(Struct, gc=False):
    """A session under watch. Only the supervisor writes it."""

    subject: Subject
    activity: Activity = field(default_factory=Activity)
    presence: Presence = field(default_factory=Presence)
    verdict: Verdict | None = None
    record: SessionRecord | None = None
    standing: Standing | None = None
    check_at: float | None = None
    # False while a log is known by its name and age only.
    read: bool = True
    # The last sign of it that people can compare with a clock; for ever while its agent lives.
    seen_wall: float = inf
    # The record's bytes once somebody read them: `body` makes them.
    encoded: bytes | None = None
    _health_body: bytes | None = None

    def show(self, verdict: Verdict, record: SessionRecord) -> None:
        """Take a new verdict; the record is encoded when somebody first reads it."""
        self.verdict, self.record = verdict, record
        self.encoded = self._health_body = None
        last_at = self.activity.last_at
        self.seen_wall = inf if verdict.agent is Sight.ALIVE else last_at.wall if last_at else -inf

    def body(self) -> bytes:
        """The record as every door sends it."""
        if self.encoded is None:
            assert self.record is not None, "a session is judged before it is shown"
            self.encoded = _encode(self.record)
        return self.encoded

    def health_body(self) -> bytes:
        """The health fields as every listener sends them."""
        if self._health_body is None:
            assert self.record is not None, "a session is judged before it is shown"
            self._health_body = _encode(health_view(self.record))
        return self._health_body


def standing_of(record: SessionRecord) -> Standing:
    return (
        record.state,
        record.health,
        tuple(map(_code, record.findings)),
        record.attention,
        record.session_alive,
        record.active_prompt,
    )


def transition_of(watched: Watched, before: Standing | None, reason: str, at: float) -> Transition:
    """The change from one standing to the newest one, with the record it led to."""
    record = watched.record
    assert record is not None, "a transition follows a judgement"
    return Transition(
        session_id=record.id,
        at=at,
        old_state=before[0] if before else "",
        new_state=record.state,
        old_health=before[1] if before else "",
        new_health=record.health,
        reason=reason,
        record=watched.body(),
    )
