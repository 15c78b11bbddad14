"""What the bodies of answers look like, for the generated API description.

Nothing is encoded from these: a record is encoded once, where it was made. A test holds real bodies to them.
"""

from typing import Annotated

from msgspec import Meta, Struct

from wakeful.alerts.mute_pause_model import PauseRecord
from wakeful.heartbeat.domain_heartbeat import Problem as HeartbeatProblem
from wakeful.heartbeat.model import Audit, PolicySnapshot, WakeState
from wakeful.judging.session_record import SessionRecord
from wakeful.judging.thresholds import Policy
from wakeful.judging.wake_eligibility import PolicyState, Reason
from wakeful.replay.cases import NOTE_CHARS_MAX, Expect
from wakeful.sessions.registry import Ending
from wakeful.views.desk import Evidence, Supervision


class SessionList(Struct, frozen=True):
    """A page of sessions in order of id. Pass `next_cursor` as `cursor` to go on; `older` ones were folded.

    `paused` says who stopped everything Wakeful would do by itself, if somebody did.
    """

    sessions: list[SessionRecord]
    older: int
    next_cursor: str | None
    paused: PauseRecord | None


class SessionStatus(SessionRecord, frozen=True, kw_only=True):
    """The record with supervision timers and warnings."""

    supervision: Supervision


class SessionInspection(SessionStatus, frozen=True, kw_only=True):
    """The status with the evidence, the policy that was applied, and what wake and audit know."""

    evidence: Evidence
    policy: Policy
    # Of the agent whose session it is; null for one that is nobody's.
    policy_state: PolicyState | None
    policy_snapshot: PolicySnapshot | None
    policy_problem: HeartbeatProblem | None
    wake_state: WakeState | None
    last_audit: Audit | None
    wake_reason: Reason | None


class SessionWait(Struct, frozen=True):
    """How waiting ended, and the session as it was then."""

    ending: Ending
    session: SessionRecord


class LoginCode(Struct, frozen=True):
    """A one-time code. `url` carries it in the fragment, which browsers never send."""

    code: str
    url: str
    expires_at: str


class LoginRequest(Struct, frozen=True, forbid_unknown_fields=True):
    code: str


class LoginAnswer(Struct, frozen=True):
    """The cookie travels in its header; `csrf` goes into the x-wakeful-csrf header of every order."""

    csrf: str


class WrongReport(Struct, frozen=True, forbid_unknown_fields=True):
    """A verdict was wrong: what should have been said, and why."""

    expect: Expect = Expect.OK
    note: Annotated[str, Meta(max_length=NOTE_CHARS_MAX)] = ""


class Done(Struct, frozen=True):
    """The order was carried out or has begun."""

    done: bool
