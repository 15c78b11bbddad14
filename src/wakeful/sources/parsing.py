"""Shared parsing for log readers: damaged lines, timestamps, call kinds, and ends of usage limits.

A line may be torn, glued to another one, or contain invalid Unicode. None of this loses a good record or
counts as a change of format. The kind of an open call (person, subagent or tool) comes from the name of its
tool, unless the log states it. The end of a usage limit comes from the client's sentence after a failed turn:
an epoch, a span or a time of day, in this host's zone unless it names one.
"""

import re
from collections.abc import Callable, Container, Sequence
from datetime import UTC, datetime, timedelta, tzinfo
from functools import lru_cache
from typing import Any, Final

import msgspec
from msgspec import Raw, Struct

from wakeful.core.decoding import decode_json, json_decoder
from wakeful.core.errors import BadSessionId
from wakeful.core.ids import ConversationId, parse_session_id
from wakeful.core.redaction import redact
from wakeful.judging import events as e
from wakeful.judging.events import CallKind
from wakeful.judging.questions import question_in
from wakeful.judging.wording import subject_first
from wakeful.sources.log_file import AROUND, rescue

MALFORMED: Final = e.LineMalformed(0.0, "not a JSON object")

# Programs that cut text at a fixed length may leave half a surrogate pair.
_SURROGATES: Final = re.compile(
    rb"(\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2})|\\u[dD][89a-fA-F][0-9a-fA-F]{2}"
)


class _Timed(Struct, gc=False):
    """The timeout that a call declares, in milliseconds."""

    timeout: float | None = None
    timeout_ms: float | None = None


# A question mark followed by emphasis, quotes and a line break.
_TAIL_BYTES: Final = 24
_QUESTION_MARKS: Final = (b"?", b"\xef\xbc\x9f", b"\xd8\x9f")

_decode_timed: Final = json_decoder(_Timed)
_decode_text: Final = json_decoder(str)


def read_undecodable(
    line: bytes,
    error: Exception,
    read: Callable[[bytes], Sequence[e.Event]],
    malformed_event: Callable[[dict[str, Any], msgspec.ValidationError], e.Event],
) -> Sequence[e.Event]:
    """The events of a line that `read` failed to decode: of another shape, torn, or blank."""
    if isinstance(error, msgspec.ValidationError) and (record := plain_record(line)) is not None:
        return (malformed_event(record, error),)
    return read_damaged(line, read) if line.strip(AROUND) else ()


def drift_event(known: Container[str], record: dict[str, Any], error: msgspec.ValidationError) -> e.Event:
    """The event for a record of another shape: only a record of a known event can drift."""
    event = record.get("event")
    if isinstance(event, str) and event not in known:
        return e.RecordSkipped(0.0, event[:40])
    return e.FormatDrifted(0.0, path_in(error))


def read_damaged(line: bytes, read: Callable[[bytes], Sequence[e.Event]]) -> Sequence[e.Event]:
    """The events of a line that `read` could not decode: of the repaired line, or of its last complete record."""
    # Without blanks around it, and invalid Unicode replaced; a second repair changes nothing more.
    whole = _SURROGATES.sub(lambda found: found[1] or rb"\ufffd", line.strip(AROUND))
    repaired = whole.decode("utf-8", "replace").encode()
    if repaired and repaired != line:
        return read(repaired)
    rescued = rescue(line)
    if rescued is None or len(rescued) == len(line):
        return (MALFORMED,)
    events = read(rescued)
    # The end of a torn record can look like a record; its missing fields are no format drift.
    has_drift = any(isinstance(event, e.FormatDrifted) for event in events)
    return (MALFORMED,) if has_drift else (MALFORMED, *events)


def plain_record(line: bytes) -> dict[str, Any] | None:
    """The record, decoded without a schema; None if the line has none.

    Decoders report the first wrong type, also in a line that is torn behind it.
    """
    try:
        record = decode_json(line)
    except msgspec.DecodeError:
        return None
    return record if isinstance(record, dict) else None


def path_in(error: msgspec.ValidationError) -> str:
    """The place a validation error names, such as `message.content`."""
    _, _, path = str(error).rpartition("`$")
    return path.strip("`.[]") or "object"


def text_of(raw: bytes) -> str:
    """The text of a raw JSON string; the raw text if it cannot be decoded."""
    try:
        return _decode_text(raw)
    except msgspec.DecodeError:
        return raw.decode("utf-8", "replace")


def asked_call(tool: str, given: Raw) -> str:
    """A call that a client asks permission for, before its log has it. Redacted whole: only its beginning is kept.

    The client's description is no part of it, because the model writes that.
    """
    words = redact(subject_first(bytes(given)))
    return f"{tool} {words}" if len(words) > len("{}") and words[0] == "{" else tool


def question_of(raw: bytes) -> bytes:
    """The question at the end of a raw JSON string; the last bytes exclude nearly every text without one."""
    tail = raw[-_TAIL_BYTES:]
    return question_in(text_of(raw)).encode() if any(mark in tail for mark in _QUESTION_MARKS) else b""


def conversation_of(text: str | None) -> ConversationId | None:
    """The id if it is valid, else None: ids are used in commands and paths."""
    try:
        return ConversationId(parse_session_id(text)) if text else None
    except BadSessionId:
        return None


def declared_timeout_seconds(given: bytes) -> float | None:
    """How long the call may run according to its input, if that has a known field."""
    if given.find(b'"timeout') < 0:  # done for every call, and `in` takes twice as long
        return None
    try:
        timed = _decode_timed(given)
    except msgspec.DecodeError:
        return None
    milliseconds = timed.timeout if timed.timeout is not None else timed.timeout_ms
    return milliseconds / 1000 if milliseconds is not None else None


def wall_of(stamp: datetime | str | float | None) -> float | None:
    """Epoch seconds of a datetime, an ISO 8601 string or a number; None for anything else."""
    try:
        if isinstance(stamp, datetime):
            return stamp.timestamp()
        if isinstance(stamp, str):
            return datetime.fromisoformat(stamp).timestamp()
    except (ValueError, OverflowError):
        return None
    return float(stamp) if stamp is not None else None


_NAMED: Final = {
    "AskUserQuestion": CallKind.PERSON,
    "ExitPlanMode": CallKind.PERSON,
    "Task": CallKind.SUBAGENT,
    "Agent": CallKind.SUBAGENT,
}
# Tools of other programs and of MCP servers: `mcp__desk__ask_user`.
_PERSON: Final = re.compile(
    r"(?:^|[_.-])(?:ask(?:_the)?_(?:user|human|person|question|follow_?up_question)"
    r"|request_(?:user_input|human_input|approval|permissions?|confirmation)"
    r"|(?:get|await|wait_for)_(?:user|human)_(?:input|response|reply|approval)|human_input)$"
)
_SUBAGENT: Final = re.compile(
    r"(?:^|[_.-])(?:(?:run_?)?sub_?agent|(?:dispatch|delegate|launch|wait)_agents?|delegate_task|new_task)$",
    re.IGNORECASE,
)


@lru_cache(maxsize=256)
def kind_of(tool: str) -> CallKind:
    if tool in _NAMED:
        return _NAMED[tool]
    if _PERSON.search(tool) is not None:
        return CallKind.PERSON
    return CallKind.SUBAGENT if _SUBAGENT.search(tool) is not None else CallKind.TOOL


# The longest limit windows are a month: a date that is longer ago is next year's.
LATE_DAYS_MAX: Final = 31
_ABOUT: Final = ("limit", "usage", "quota", "credit")
_UNIT_SECONDS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
_EPOCH: Final = re.compile(r"\|\s?(\d{10})\b")
# `try again in 3 hours 5 minutes`, `resets in 2h 15m`.
_IN: Final = re.compile(r"(?:again|resets?)(?: again)? in (?P<span>.{1,60})")
_SPAN: Final = re.compile(r"(\d{1,4})\s?(s(?:ec(?:ond)?s?)?|m(?:in(?:ute)?s?)?|h(?:ou)?r?s?|d(?:ays?)?)\b")
_MONTHS: Final = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_DAYS: Final = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_WEEKDAY: Final = rf"(?:{'|'.join(_DAYS)})[a-z]*"
# `resets 2:09am (UTC)`, `resets 15:30`, `resets Nov 18, 7:42am (Europe/Berlin)`, `resets May 28 at 19:00`,
# `Resets by 4:00 AM Friday`, `resets Mon 12:00am`, `try again at Nov 19th, 2026 2:09 AM.`
_CLOCK: Final = re.compile(
    r"(?:resets?|again)(?: (?:at|by|on))?\s+"
    rf"(?:(?P<weekday>{_WEEKDAY}),? (?:at )?)?"
    rf"(?:(?P<month>{'|'.join(_MONTHS)})[a-z]* (?P<day>\d{{1,2}})(?:st|nd|rd|th)?(?:, (?P<year>\d{{4}}))?,? (?:at )?)?"
    r"(?=\d{1,2}(?::\d\d| ?[ap]m))(?P<hour>\d{1,2})(?::(?P<minute>\d\d))?(?: ?(?P<half>[ap]m))?\b"
    r"(?: \((?P<zone>[a-z0-9_/+-]{1,64})\)| (?P<utc>UTC|GMT)\b)?"
    rf"(?:,? (?:on )?(?P<weekday_after>{_WEEKDAY}))?",
    re.IGNORECASE,
)


def limit_end_in(text: str, at: float) -> float | None:
    """The wall time at which a limit ends, if the sentence, written at `at`, contains it."""
    lower = text.lower()
    if not any(word in lower for word in _ABOUT):
        return None
    epoch = _EPOCH.search(text)
    if epoch is not None:
        return float(epoch[1])
    return _after_span(lower, at) or _at_clock(text, at)


def _after_span(lower: str, at: float) -> float | None:
    found = _IN.search(lower)
    if found is None:
        return None
    seconds = sum(int(count) * _UNIT_SECONDS[unit[0]] for count, unit in _SPAN.findall(found["span"]))
    return at + seconds if seconds else None


def _at_clock(text: str, at: float) -> float | None:
    """The next such time of day, on the named day if there is one; None if the calendar has no such moment."""
    found = _CLOCK.search(text)
    if found is None:
        return None
    written = datetime.fromtimestamp(at, UTC).astimezone(_zone(found["zone"] or found["utc"]))
    try:
        end = written.replace(hour=_hour(found), minute=int(found["minute"] or 0), second=0, microsecond=0)
        return _on_day(found, end, written).timestamp()
    except (ValueError, OverflowError):
        return None


def _hour(found: re.Match[str]) -> int:
    """The hour from 0 to 23."""
    hour = int(found["hour"])
    return hour if found["half"] is None else hour % 12 + (12 if found["half"].lower() == "pm" else 0)


def _on_day(found: re.Match[str], end: datetime, written: datetime) -> datetime:
    if found["month"] is not None:
        month = _MONTHS.index(found["month"].lower()) + 1
        end = end.replace(year=int(found["year"] or written.year), month=month, day=int(found["day"]))
        # A day that passed long ago is next year's: clients omit the year if it is the current one.
        is_current = found["year"] or end > written - timedelta(days=LATE_DAYS_MAX)
        return end if is_current else end.replace(year=written.year + 1)
    weekday = found["weekday"] or found["weekday_after"]
    if weekday is None:
        return end if end > written else end + timedelta(days=1)
    end += timedelta(days=(_DAYS.index(weekday[:3].lower()) - written.weekday()) % 7)
    return end if end > written else end + timedelta(days=7)


def _zone(name: str | None) -> tzinfo | None:
    """The named zone; None, which means the host's zone, if it is unknown here."""
    from zoneinfo import ZoneInfo  # noqa: PLC0415 - it searches files, and only a limit with a zone needs it

    try:
        return ZoneInfo(name) if name else None
    except (ValueError, OSError, LookupError):
        return None
