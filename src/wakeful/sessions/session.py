"""One session in memory: activity, presence, verdict, and its record, encoded once per verdict."""

from math import inf
from operator import attrgetter
from shlex import quote
from typing import Final

import msgspec
from msgspec import Struct, field
from msgspec.structs import replace

from wakeful.core.clock import Instant
from wakeful.core.process import ProcessState
from wakeful.judging.activity import Activity
from wakeful.judging.activity_redaction import redacted_activity, redacted_process
from wakeful.judging.evidence import AgentProcess, Pane, RuntimeState, SessionIdentity
from wakeful.judging.findings import Attention, FindingCode, Health, State, Verdict
from wakeful.judging.session_record import SessionRecord, health_view
from wakeful.storage.base import Transition

_encode: Final = msgspec.json.Encoder().encode
_code: Final = attrgetter("code")

TransitionKey = tuple[State, Health, tuple[FindingCode, ...], Attention, bool, bool]
"""A change of this key is a transition; a change of times and texts is none."""


class SessionSnapshot(Struct):
    """The stored state of a session, beside its bookmark. Instants are valid only within their boot."""

    boot_id: str
    activity: Activity
    holders: dict[int, AgentProcess]
    pane: Pane | None = None
    written_after_at: Instant | None = None


class TrackedSession(Struct, gc=False):
    """A session in memory. The supervisor and the judge write it."""

    subject: SessionIdentity
    activity: Activity = field(default_factory=Activity)
    presence: RuntimeState = field(default_factory=RuntimeState)
    verdict: Verdict | None = None
    record: SessionRecord | None = None
    transition_key: TransitionKey | None = None
    check_at: float | None = None
    # False while a log is known by its name and age only.
    is_log_read: bool = True
    # Wall time of the last evidence; infinite while its agent lives or another machine has it.
    last_seen_wall: float = inf
    # The record's bytes, made by `body` at the first read.
    encoded_record: bytes | None = None
    _health_body: bytes | None = None

    @property
    def shown_name(self) -> str:
        """What lists show for it, quoted as a shell needs it: agents choose names, and people copy commands with them."""
        return quote((self.record.short_name if self.record is not None else "") or self.subject.id)

    def update(self, verdict: Verdict, record: SessionRecord) -> None:
        """Set a new verdict and record; `body` encodes the record later."""
        self.verdict, self.record = verdict, record
        self.encoded_record = self._health_body = None
        newest = self.presence.newest_process
        ended_at = newest.ended_at if newest is not None else None
        self.last_seen_wall = (
            inf
            if verdict.agent is ProcessState.ALIVE or self.presence.other_machine is not None
            else max((each.wall for each in (self.activity.last_at, ended_at) if each), default=-inf)
        )

    def rename(self, short_name: str) -> None:
        """Set the short name alone."""
        if self.record is not None:
            self.record = replace(self.record, short_name=short_name)
            self.encoded_record = None

    def body(self) -> bytes:
        """The encoded record, as every interface sends it."""
        if self.encoded_record is None:
            assert self.record is not None, "a session is judged before it is shown"
            self.encoded_record = _encode(self.record)
        return self.encoded_record

    def health_body(self) -> bytes:
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


def snapshot_of(session: TrackedSession, boot_id: str) -> bytes:
    """The encoded `SessionSnapshot`, redacted."""
    runtime = session.presence
    holders = {pid: redacted_process(process) for pid, process in runtime.holders.items()}
    activity = redacted_activity(session.activity)
    return _encode(SessionSnapshot(boot_id, activity, holders, runtime.pane, runtime.written_after_at))


def transition_of(
    session: TrackedSession, before: TransitionKey | None, reason: str, at: float
) -> Transition:
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
        alive=record.session_alive,
    )


def turn_ended_at(session: TrackedSession) -> float | None:
    """When the newest turn ended that is known to have ended well."""
    record = session.record
    assert record is not None, "judged before its turns are counted"
    is_settled = not record.active_prompt and record.health is not Health.DEAD
    end = session.activity.newest_well_end(settled=is_settled)
    return end.wall if end is not None else None
