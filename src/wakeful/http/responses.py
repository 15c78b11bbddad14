"""Responses with bodies that are already encoded, and the structs that describe them in the API description.

A record is encoded once, where it is made. A test compares real bodies with these structs.
"""

from collections.abc import Iterator, Mapping
from typing import Annotated, Final, Generic, TypeVar

import msgspec
from msgspec import Meta, Struct

from wakeful.core.query_result import QueryResult
from wakeful.heartbeat.model import Audit, PolicySnapshot, WakeState
from wakeful.heartbeat.policy import PolicyProblem as HeartbeatProblem
from wakeful.http.asgi import Send
from wakeful.http.errors import EXIT_CODE_HEADER
from wakeful.judging.session_record import SessionRecord
from wakeful.judging.thresholds import Policy
from wakeful.judging.wake_eligibility import IneligibilityReason, PolicyState
from wakeful.replay.cases import NOTE_CHARS_MAX, Expect
from wakeful.sessions.registry import WaitResult
from wakeful.views.sessions import EvidenceRecord, SupervisionRecord

# About the size of a socket's send buffer on Linux.
CHUNK_BYTES_MAX: Final = 256 * 1024

T = TypeVar("T")


class EncodedResponse(Generic[T]):
    """The bytes of a `T`, sent unchanged; the type is for the API description. `status` overrides the route's own."""

    def __init__(
        self,
        answer: QueryResult,
        *,
        status: int | None = None,
        media_type: str = "application/json",
        headers: Mapping[str, str] | None = None,
    ) -> None:
        self._status = status
        self._body = answer.body
        self._headers = [
            (b"content-type", media_type.encode()),
            (b"content-length", b"%d" % len(answer.body)),
            (EXIT_CODE_HEADER.encode(), b"%d" % answer.exit_code),
            *((name.encode(), value.encode()) for name, value in (headers or {}).items()),
        ]

    async def send(self, send: Send, status: int) -> None:
        """`status` counts unless the response has its own."""
        status = self._status or status
        await send({"type": "http.response.start", "status": status, "headers": self._headers})
        for piece, more in _chunks(self._body):
            await send({"type": "http.response.body", "body": piece, "more_body": more})


class TextResponse(EncodedResponse[str]):
    """A response that is not JSON and has no exit code."""

    def __init__(self, body: bytes, media_type: str) -> None:
        self._status = None
        self._body = body
        self._headers = [
            (b"content-type", media_type.encode()),
            (b"content-length", b"%d" % len(body)),
        ]


def _chunks(body: bytes) -> Iterator[tuple[bytes | memoryview, bool]]:
    """The body in parts that a socket takes at once, each with whether more follow.

    Sent whole, 12 MB would lie in the server's buffer a second time and cost three times the CPU.
    """
    if len(body) <= CHUNK_BYTES_MAX:
        yield body, False
        return
    view = memoryview(body)
    for begin in range(0, len(body), CHUNK_BYTES_MAX):
        yield view[begin : begin + CHUNK_BYTES_MAX], begin + CHUNK_BYTES_MAX < len(body)


def encode_response(value: T, *, headers: Mapping[str, str] | None = None) -> EncodedResponse[T]:
    return EncodedResponse(QueryResult(msgspec.json.encode(value)), headers=headers)


class SessionStatus(SessionRecord, frozen=True, kw_only=True):
    """The record with supervision timers and warnings."""

    supervision: SupervisionRecord


class SessionInspection(SessionStatus, frozen=True, kw_only=True):
    """The status with the evidence, the policy that was applied, and what wake and audit know."""

    evidence: EvidenceRecord
    policy: Policy
    # Of the session's agent; null for a session without one.
    policy_state: PolicyState | None
    policy_snapshot: PolicySnapshot | None
    policy_problem: HeartbeatProblem | None
    wake_state: WakeState | None
    last_audit: Audit | None
    wake_reason: IneligibilityReason | None


class SessionWait(Struct, frozen=True):
    """How the wait ended, and the session at that time."""

    ending: WaitResult
    session: SessionRecord


class LoginCode(Struct, frozen=True):
    """A one-time code. `url` carries it in the fragment, which browsers never send."""

    code: str
    url: str
    expires_at: str


class LoginRequest(Struct, frozen=True, forbid_unknown_fields=True):
    code: str


class LoginAnswer(Struct, frozen=True):
    """The cookie is in its header; `csrf` goes into the x-wakeful-csrf header of every write request."""

    csrf: str


class WrongVerdictReport(Struct, frozen=True, forbid_unknown_fields=True):
    """The correct verdict and a note, for a verdict that was wrong."""

    expect: Expect = Expect.OK
    note: Annotated[str, Meta(max_length=NOTE_CHARS_MAX)] = ""


class Acknowledgement(Struct, frozen=True):
    """The request was carried out or has begun."""

    done: bool
