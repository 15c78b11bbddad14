"""What every log reader needs when a line is not the record it should be. Pure.

A line may be torn, glued to another one, or hold text that is no Unicode; none of that may cost a good
record, and none of it is a change of format. What a record means is its own reader's business.
"""

import re
from collections.abc import Callable, Sequence
from typing import Any, Final

import msgspec
from msgspec import Struct

from wakeful.core.decoding import decode_json, json_decoder
from wakeful.core.errors import BadSessionId
from wakeful.core.ids import ConversationId, parse_session_id
from wakeful.judging import events as e
from wakeful.judging.questions import question_in
from wakeful.sources.lines import AROUND, rescue

MALFORMED: Final = e.Malformed(0.0, "not a JSON object")

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


def read_strange(
    line: bytes,
    error: Exception,
    read: Callable[[bytes], Sequence[e.Event]],
    misshapen: Callable[[dict[str, Any], msgspec.ValidationError], e.Event],
) -> Sequence[e.Event]:
    """The events of a line that `read` failed to decode : of another shape, torn, or blank."""
    if isinstance(error, msgspec.ValidationError) and (strange := plain_record(line)) is not None:
        return (misshapen(strange, error),)
    return read_torn(line, read) if line.strip(AROUND) else ()


def read_torn(line: bytes, read: Callable[[bytes], Sequence[e.Event]]) -> Sequence[e.Event]:
    """The events of a line that `read` could not decode: mended, or the last whole record in it."""
    mended = _mend(line)
    if mended and mended != line:
        return read(mended)
    rescued = rescue(line)
    if rescued is None or len(rescued) == len(line):
        return (MALFORMED,)
    events = read(rescued)
    # The end of a torn record can look like a record of its own; what such a piece lacks is no drift.
    return (MALFORMED,) if any(isinstance(event, e.Drifted) for event in events) else (MALFORMED, *events)


def _mend(line: bytes) -> bytes:
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
