"""Shared parsing for log readers: damaged lines, timestamps, call kinds, and ends of usage limits.

A line may be torn, glued to another one, or contain invalid Unicode. None of this loses a good record or
counts as a change of format. The kind of an open call (person, subagent or tool) comes from the name of its
tool, unless the log states it. The end of a usage limit comes from the client's sentence after a failed turn:
an epoch, a span or a time of day, in this host's zone unless it names one.
"""

import re
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta, tzinfo
from functools import lru_cache
from typing import Any, Final

import msgspec
from msgspec import Struct

from wakeful.core.decoding import decode_json, json_decoder
from wakeful.core.errors import BadSessionId
from wakeful.core.ids import ConversationId, parse_session_id
from wakeful.judging import events as e
from wakeful.judging.events import CallKind
from wakeful.judging.questions import question_in
from wakeful.sources.log_file import AROUND, rescue

MALFORMED: Final = e.LineMalformed(0.0, "not a JSON object")

# Programs that cut text at a fixed length leave half a character behind: an escape without its partner.
_SURROGATES: Final = re.compile(
    rb"(\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2})|\\u[dD][89a-fA-F][0-9a-fA-F]{2}"
)


class _Timed(Struct, gc=False):
    """What a call declares about its own patience, in milliseconds."""

    timeout: float | None = None
    timeout_ms: float | None = None


# A question mark with emphasis, quotes and a line's end behind it.
_TAIL_BYTES: Final = 24
_QUESTION_MARKS: Final = (b"?", b"\xef\xbc\x9f", b"\xd8\x9f")

_decode_timed: Final = json_decoder(_Timed)
_decode_text: Final = json_decoder(str)


def read_undecodable(
    line: bytes,
    error: Exception,
    read: Callable[[bytes], Sequence[e.Event]],
    misshapen: Callable[[dict[str, Any], msgspec.ValidationError], e.Event],
) -> Sequence[e.Event]:
    """The events of a line that `read` failed to decode : of another shape, torn, or blank."""
    if isinstance(error, msgspec.ValidationError) and (strange := plain_record(line)) is not None:
        return (misshapen(strange, error),)
    return read_damaged(line, read) if line.strip(AROUND) else ()


def read_damaged(line: bytes, read: Callable[[bytes], Sequence[e.Event]]) -> Sequence[e.Event]:
    """The events of a line that `read` could not decode: mended, or the last whole record in it."""
    mended = _repair_line(line)
    if mended and mended != line:
        return read(mended)
    rescued = rescue(line)
    if rescued is None or len(rescued) == len(line):
        return (MALFORMED,)
    events = read(rescued)
    # The end of a torn record can look like a record of its own; what such a piece lacks is no drift.
    return (
        (MALFORMED,) if any(isinstance(event, e.FormatDrifted) for event in events) else (MALFORMED, *events)
    )


def _repair_line(line: bytes) -> bytes:
    """The line without blanks around it, whatever is no Unicode replaced; mending twice changes nothing more."""
    whole = _SURROGATES.sub(lambda found: found[1] or rb"\ufffd", line.strip(AROUND))
    return whole.decode("utf-8", "replace").encode()


def plain_record(line: bytes) -> dict[str, Any] | None:
    """The record without any expectation of its shape; None if the line holds none.

    Decoders complain about the first wrong type they meet, also in a line that is torn behind it.
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
    """The text of a JSON string that was kept undecoded; as it stands there if it cannot be decoded."""
    try:
        return _decode_text(raw)
    except msgspec.DecodeError:
        return raw.decode("utf-8", "replace")


def question_of(raw: bytes) -> bytes:
    """The question at the end of a JSON string that was kept undecoded; nearly every one is told by its last bytes."""
    tail = raw[-_TAIL_BYTES:]
    return question_in(text_of(raw)).encode() if any(mark in tail for mark in _QUESTION_MARKS) else b""


def conversation_of(text: str | None) -> ConversationId | None:
    """The id, unless it could not be one: ids end up in commands and paths."""
    try:
        return ConversationId(parse_session_id(text)) if text else None
    except BadSessionId:
        return None


def declared_timeout_seconds(given: bytes) -> float | None:
    """How long the call may run by its own input, where that says so in a way we know."""
    if given.find(b'"timeout') < 0:  # asked of every call, and `in` takes twice as long
        return None
    try:
        timed = _decode_timed(given)
    except msgspec.DecodeError:  # only the tool itself knows what such a timeout means
        return None
    milliseconds = timed.timeout if timed.timeout is not None else timed.timeout_ms
    return milliseconds / 1000 if milliseconds is not None else None


def wall_of(stamp: datetime | str | float | None) -> float | None:
    """Epoch seconds of an ISO 8601 string, a decoded one or a number; None if it is none of them."""
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
# Tools of other programs, and those that a server lends to an agent: `mcp__desk__ask_user`.
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
    """The kind of a call to this tool."""
    if tool in _NAMED:
        return _NAMED[tool]
    if _PERSON.search(tool) is not None:
        return CallKind.PERSON
    return CallKind.SUBAGENT if _SUBAGENT.search(tool) is not None else CallKind.TOOL


# The longest windows are a month's: an end that passed longer ago was not meant.
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
    """The wall time at which a limit ends, if the sentence written at `at` says so."""
    lower = text.lower()
    if not any(word in lower for word in _ABOUT):
        return None
    epoch = _EPOCH.search(text)
    if epoch is not None:
        return float(epoch[1])
    return _after_span(lower, at) or _at_clock(text, at)


def _after_span(lower: str, at: float) -> float | None:
    told = _IN.search(lower)
    if told is None:
        return None
    seconds = sum(int(count) * _UNIT_SECONDS[unit[0]] for count, unit in _SPAN.findall(told["span"]))
    return at + seconds if seconds else None


def _at_clock(text: str, at: float) -> float | None:
    """The next such time of day, or the day it names; None if the calendar has no such moment."""
    told = _CLOCK.search(text)
    if told is None:
        return None
    said = datetime.fromtimestamp(at, UTC).astimezone(_zone(told["zone"] or told["utc"]))
    try:
        end = said.replace(hour=_hour(told), minute=int(told["minute"] or 0), second=0, microsecond=0)
        return _on_day(told, end, said).timestamp()
    except (ValueError, OverflowError):
        return None


def _hour(told: re.Match[str]) -> int:
    """Of 24. Without its half of the day it is one of 24 already."""
    hour = int(told["hour"])
    return hour if told["half"] is None else hour % 12 + (12 if told["half"].lower() == "pm" else 0)


def _on_day(told: re.Match[str], end: datetime, said: datetime) -> datetime:
    if told["month"] is not None:
        month = _MONTHS.index(told["month"].lower()) + 1
        end = end.replace(year=int(told["year"] or said.year), month=month, day=int(told["day"]))
        # A day that has long passed is next year's: clients leave the year out where it is this one's.
        return (
            end
            if told["year"] or end > said - timedelta(days=LATE_DAYS_MAX)
            else end.replace(year=said.year + 1)
        )
    weekday = told["weekday"] or told["weekday_after"]
    if weekday is None:
        return end if end > said else end + timedelta(days=1)
    end += timedelta(days=(_DAYS.index(weekday[:3].lower()) - said.weekday()) % 7)
    return end if end > said else end + timedelta(days=7)


def _zone(name: str | None) -> tzinfo | None:
    """The named zone; None, which means this host's own, if there is no such zone here."""
    from zoneinfo import ZoneInfo  # noqa: PLC0415 - a file search and more: only a limit that names its zone needs it

    try:
        return ZoneInfo(name) if name else None
    except (ValueError, OSError, LookupError):
        return None
