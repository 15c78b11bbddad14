"""Formats facts for people: the subject of a call, durations, times of day. Pure, and always plain text.

It decides nothing, and text of an agent is always marked.
"""

import re
from typing import Any, Final

import msgspec

from wakeful.core.clock import Instant, iso
from wakeful.core.decoding import decode_json
from wakeful.core.redaction import redact
from wakeful.core.text import plain

# The subject of a call, the most telling key first. `inspect` shows the rest of its input.
_SUBJECT_KEYS: Final = (
    *("command", "cmd", "file_path", "path", "pattern", "query", "url"),
    *("description", "prompt", "question", "questions"),
)
_CUT_SUBJECTS: Final = tuple(re.compile(rf'"{key}"\s*:\s*\[?"((?:[^"\\]|\\.)*)') for key in _SUBJECT_KEYS)
# The message of an error, at any depth.
_MESSAGE: Final = re.compile(r'"message"\s*:\s*"((?:[^"\\]|\\.)+)')
# A text, or a list of parts that begins with one; it may be cut anywhere.
_RESULT_TEXT: Final = re.compile(r'(?:\[\{"type": ?"text", ?"text": ?)?"((?:[^"\\]|\\.)*)', re.DOTALL)
# Short enough that a sentence fits one line of a terminal.
QUOTED_CHARS_MAX: Final = 60


def call_subject(arguments: str) -> str:
    """The part of a call's JSON input that a person would name; empty if it has none."""
    try:
        decoded = decode_json(arguments, dict[str, Any])
    except msgspec.DecodeError:
        # Records contain only the beginning of a long input.
        found = next(filter(None, (each.search(arguments) for each in _CUT_SUBJECTS)), None)
        return plain(found[1]) if found is not None else ""
    value = next((decoded[key] for key in _SUBJECT_KEYS if key in decoded), "")
    return plain(" ".join(map(_part, value)) if isinstance(value, list) else str(value))


def subject_first(arguments: bytes) -> str:
    """A call's JSON input with its subject first: where the end is cut, no other part may stand for the call."""
    text = arguments.decode("utf-8", "replace")
    try:
        decoded = decode_json(text, dict[str, Any])
    except msgspec.DecodeError:
        return text
    subject = next((key for key in _SUBJECT_KEYS if key in decoded), None)
    if subject is None or subject == next(iter(decoded)):
        return text
    return msgspec.json.encode({subject: decoded[subject]} | decoded).decode()


def _part(value: Any) -> str:
    """One of several questions is named by its text."""
    return str(value.get("question", value) if isinstance(value, dict) else value)


def call_text(text: str) -> str:
    """A call for people: `Bash {"command": "make test"}` becomes `Bash: make test`.

    Of a question about a call (`permission prompt: Bash {…}`) only the call is used.
    """
    # Redacted as a whole: the omitted part may show that the other one is secret.
    text = redact(text)
    question, _, asked = text.partition(": ")
    if " {" in asked and " {" not in question:
        text = asked
    tool, _, arguments = text.partition(" ")
    about = call_subject(arguments) if arguments.startswith("{") else ""
    return f"{tool}: {about}" if about else text


def readable_text(text: str) -> str:
    """A text of a client or provider without JSON: the subject of a call, the message of an answer."""
    text = redact(text)
    short = call_text(text)
    before, brace, rest = text.partition("{")
    if "{" not in short or not brace or '"' not in rest:
        return short
    found = _MESSAGE.search(rest)
    about = found[1].replace('\\"', '"').replace("\\n", " ") if found is not None else "…"
    return f"{before}{about}".strip()


def result_text(raw: bytes) -> str:
    """The text of a call's result, from the beginning of its JSON."""
    # Before the lines are joined: the end of a line ends a secret.
    text = redact(raw.decode("utf-8", "replace"))
    found = _RESULT_TEXT.match(text)
    return " ".join((found[1] if found is not None else text).replace("\\n", " ").replace('\\"', '"').split())


def quote(text: str) -> str:
    """Text from outside for a sentence of Wakeful: redacted, plain, short, and unable to leave its backquotes.

    Of a call (`Bash {"command": "make"}`) only its subject.
    """
    tool, _, arguments = redact(text).partition(" ")
    about = (call_subject(arguments) or tool) if arguments.startswith("{") else f"{tool} {arguments}"
    return f"`{plain(redact(about), QUOTED_CHARS_MAX).replace('`', chr(39))}`"


def format_length(seconds: float) -> str:
    """A duration in whole minutes, so that two interfaces show the same one after the other."""
    minutes = int(seconds // 60)
    if minutes < 1:
        return "less than a minute"
    if minutes < 120:
        return f"{minutes} min"
    hours, rest = divmod(minutes, 60)
    return f"{hours} h {rest} min" if hours < 48 else f"{hours // 24} days"


def format_time_of_day(moment: Instant, now: Instant) -> str:
    """The time of day in UTC, with its date if that is not today."""
    stamp, today = iso(moment.wall), iso(now.wall)[:10]
    day = "" if stamp.startswith(today) else f"{stamp[:10]} "
    return f"{day}{stamp[11:16]} UTC"
