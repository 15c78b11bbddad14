"""Critical events (docs/specs/watchdog.md): fixed values, a fixed order of keys, one line each. Pure.

Programs read these lines, so nothing here may be renamed. Text from outside is redacted when the line is
made, because the operator may show the log to other people.
"""

from collections.abc import Mapping
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any, Final

import msgspec
from msgspec import Struct

from wakeful.core.clock import iso
from wakeful.core.errors import OperatorError
from wakeful.core.named_secrets import SECRET, names_a_secret
from wakeful.core.redaction import redact
from wakeful.judging.findings import FindingCode

# The longest queued message (20,000 characters) fits, even if JSON escapes every character.
LINE_BYTES_MAX: Final = 256 * 1024
# Real events nest less deeply; a structure that contains itself is cut here.
_DEPTH_MAX: Final = 20
_INTEGER_MAX: Final = 2**63 - 1
_encode: Final = msgspec.json.Encoder().encode


class CriticalEventKind(StrEnum):
    SESSION_UNHEALTHY = "session_unhealthy"
    SESSION_RECOVERED = "session_recovered"
    REVIVAL_FAILED = "revival_failed"
    QUEUE_STALLED = "queue_stalled"
    MESSAGE_UNROUTED = "message_unrouted"


class ActionTaken(StrEnum):
    REVIVAL_ATTEMPTED = "revival_attempted"
    FAILURE_MESSAGE_SENT = "failure_message_sent"
    HELD_FOR_APPROVAL = "held_for_approval"
    NONE = "none"


class CriticalEvent(Struct, frozen=True):
    timestamp: str
    event: CriticalEventKind
    session_id: str
    project_key: str
    reason: str
    action_taken: ActionTaken
    github_issue: str | None
    details: dict[str, Any]


class BadCriticalEvent(OperatorError):
    """A critical event's {key} is one of {allowed}, not {shown!r}."""

    code = "bad-critical-event"


def critical_event(
    event: str,
    session_id: str,
    project_key: str,
    reason: str,
    action_taken: str,
    github_issue: str | None,
    details: Mapping[str, Any],
    *,
    at_wall: float,
) -> CriticalEvent:
    """Check the fixed values of an event and redact the texts from outside. Raises BadCriticalEvent."""
    return CriticalEvent(
        timestamp=stamp(at_wall),
        event=_parse_value(CriticalEventKind, "event", event),
        session_id=_text(session_id),
        project_key=redact(_text(project_key)),
        reason=redact(_text(reason)),
        action_taken=_parse_value(ActionTaken, "action_taken", action_taken),
        github_issue=None if github_issue is None else redact(_text(github_issue)),
        details={redact(_text(key)): _redact_named(_text(key), value, 1) for key, value in details.items()},
    )


def line_of(event: CriticalEvent) -> bytes:
    """The event as one line with its line end. Details that are too large are left out, and counted."""
    line = _encode(event)
    if len(line) > LINE_BYTES_MAX:
        line = _encode(msgspec.structs.replace(event, details={"left_out_bytes": len(line)}))
    return line + b"\n"


def stamp(wall: float) -> str:
    """The time in whole seconds, UTC, with `Z`."""
    return f"{iso(wall)[:19]}Z"


def wall_of_stamp(text: str) -> float | None:
    """The time of a line in any form of ISO 8601, UTC without a zone; None if it is no time."""
    try:
        moment = datetime.fromisoformat(text)
        return (moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError):
        return None


def reason_of(code: FindingCode | str, *, seconds: float | None = None, errors: int | None = None) -> str:
    """The documented reason of silence, errors and runaways, else the finding's code.

    `seconds` is how long it was silent or ran, `errors` how many there were in a row.
    """
    if code == FindingCode.SILENT and seconds is not None:
        return f"silent_for_{max(1, int(seconds // 60))}_minutes"
    if code == FindingCode.RUNAWAY and seconds is not None:
        return f"running_for_{max(1, int(seconds // 3600))}_hours"
    if code == FindingCode.ERROR_CASCADE and errors is not None:
        return f"{errors}_consecutive_errors"
    return str(code)


def _parse_value(values: type[CriticalEventKind] | type[ActionTaken], key: str, given: str) -> Any:
    try:
        return values(given)
    except ValueError as problem:
        raise BadCriticalEvent(key=key, allowed=", ".join(values), shown=str(given)[:40]) from problem


def _clean(value: Any, depth: int) -> Any:
    """The parts that JSON can express, with texts redacted."""
    if value is None or isinstance(value, bool | float):
        return value
    if isinstance(value, int):
        return value if abs(value) <= _INTEGER_MAX else hex(value)
    if depth > _DEPTH_MAX:
        return "…"
    if isinstance(value, Mapping):
        return {
            redact(_text(key)): _redact_named(_text(key), inner, depth + 1) for key, inner in value.items()
        }
    if isinstance(value, list | tuple | set | frozenset):
        return [_clean(inner, depth + 1) for inner in value]
    return redact(value.isoformat() if isinstance(value, datetime) else _text(value))


def _redact_named(name: str, value: Any, depth: int) -> Any:
    return SECRET if isinstance(value, str) and names_a_secret(name, value) else _clean(value, depth)


def _text(value: object) -> str:
    """Replace lone surrogates, which JSON cannot express: a text that was cut may end with one."""
    return str(value).encode("utf-8", "replace").decode()
