"""Decodes popoto's records: Redis hashes of msgpack values, with the key fields also in the key. Pure.

It never raises for what it reads. A record may be partial (an interrupted or late save), of another type, or
no record at all. A missing field is None; a wrong one is None and reported.
"""

import math
from collections.abc import Sequence
from typing import Any, Final

import msgspec
from msgspec import Struct

from wakeful.core.decoding import decode_msgpack
from wakeful.core.errors import BadSessionId
from wakeful.core.ids import parse_session_id
from wakeful.core.text import plain
from wakeful.watchdog.queue import Job, QueuedSession

SESSION_FIELDS: Final = (
    "session_id",
    "project_key",
    "chat_id",
    "started_at",
    "last_activity",
    "tool_call_count",
)
JOB_FIELDS: Final = (
    "job_id", "project_key", "session_id", "created_at", "chat_id", "message_id", "working_dir", "revival_context",
)  # fmt: skip
NOT_FAILED_STATUSES: Final = ("active", "dormant", "completed")
SESSION_STATUSES: Final = (*NOT_FAILED_STATUSES, "failed")
# A job only moves forward: of two records the one with the later status is the newer.
JOB_STATUSES: Final = ("pending", "running", "completed", "failed")
_COLON: Final = "{&#58;}"
_ESCAPED: Final = frozenset("/'?*^[]-{")


class KeyParts(Struct, frozen=True):
    """A record's key: its model, its two other key fields as written, and its status."""

    model: str
    first: str
    second: str
    status: str

    def with_status(self, status: str) -> str:
        return f"{self.model}:{self.first}:{self.second}:{status}"


def parse_key(key: str) -> KeyParts | None:
    """None if it is no key of a record with three key fields."""
    parts = key.split(":")
    return KeyParts(*parts) if len(parts) == 4 else None


def session_key(project_key: str, session_id: str, status: str) -> str:
    """The key of a session's record, as popoto writes it."""
    return f"AgentSession:{escape_field(project_key)}:{escape_field(session_id)}:{status}"


def escape_field(field: str) -> str:
    """A field as a part of a key; `unescape_field` reverses it."""
    return "".join(_COLON if each == ":" else f"/{each}" if each in _ESCAPED else each for each in field)


def unescape_field(part: str) -> str:
    """A part of a key as its field: a slash precedes characters that Redis patterns would interpret."""
    out, at = [], 0
    while at < len(part):
        if part[at] == "/" and part[at + 1 : at + 2] in _ESCAPED and at + 1 < len(part):
            out.append(part[at + 1])
            at += 2
        elif part.startswith(_COLON, at):
            out.append(":")
            at += len(_COLON)
        else:
            out.append(part[at])
            at += 1
    return "".join(out)


def decode_value(raw: object) -> Any:
    """The value of a field; None if it is missing or no msgpack."""
    if not isinstance(raw, bytes):
        return None
    try:
        return decode_msgpack(raw)
    except (msgspec.DecodeError, ValueError, RecursionError):
        return None


def encode_value(value: object) -> bytes:
    """A value as popoto writes it."""
    return msgspec.msgpack.encode(value)


def session_of(key: str, fields: Sequence[object], strange: list[str]) -> QueuedSession | None:
    """The session of a record with SESSION_FIELDS; None, and an entry in `strange`, if it has no valid one."""
    values = _Values(key, dict(zip(SESSION_FIELDS, fields, strict=True)), strange)
    parts = parse_key(key)
    if parts is None or all(field is None for field in fields):
        strange.append(f"{_display_key(key)} is not a session record")
        return None
    try:
        session_id = parse_session_id(values.text("session_id") or unescape_field(parts.second))
    except BadSessionId as problem:
        strange.append(f"{_display_key(key)}: {problem}")
        return None
    return QueuedSession(
        key=key,
        session_id=session_id,
        project_key=values.text("project_key") or unescape_field(parts.first),
        chat_id=values.text("chat_id"),
        started_at=values.seconds("started_at"),
        last_activity=values.seconds("last_activity"),
        tool_call_count=int(values.seconds("tool_call_count") or 0),
    )


def job_of(key: str, fields: Sequence[object], strange: list[str]) -> Job | None:
    """The job of a record with JOB_FIELDS; None, and an entry in `strange`, if it is none."""
    values = _Values(key, dict(zip(JOB_FIELDS, fields, strict=True)), strange)
    parts = parse_key(key)
    if parts is None or all(field is None for field in fields):
        strange.append(f"{_display_key(key)} is not a job record")
        return None
    return Job(
        key=key,
        job_id=values.text("job_id") or unescape_field(parts.first),
        project_key=values.text("project_key") or unescape_field(parts.second),
        session_id=values.text("session_id"),
        created_at=values.seconds("created_at"),
        chat_id=values.text("chat_id"),
        message_id=values.number_or_text("message_id"),
        working_dir=values.text("working_dir"),
        revival_context=values.text("revival_context"),
    )


class _Values:
    """The fields of one record, by their expected type."""

    def __init__(self, key: str, fields: dict[str, object], strange: list[str]) -> None:
        self._key = key
        self._fields = fields
        self._strange = strange

    def text(self, name: str) -> str | None:
        """Numbers are accepted too: chats and messages have some."""
        value = self._value(name)
        if value is None or value == "":
            return None
        if isinstance(value, str | int) and not isinstance(value, bool):
            return str(value)
        self._note_strange(name, "text")
        return None

    def number_or_text(self, name: str) -> int | str | None:
        text, value = self.text(name), decode_value(self._fields[name])
        return value if isinstance(value, int) and text is not None else text

    def seconds(self, name: str) -> float | None:
        value = self._value(name)
        if value is None:
            return None
        if isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value):
            return float(value)
        self._note_strange(name, "a number")
        return None

    def _value(self, name: str) -> Any:
        raw = self._fields[name]
        value = decode_value(raw)
        # 0xc0 is msgpack's nil: the field has no value.
        if value is None and raw is not None and raw != b"\xc0":
            self._note_strange(name, "msgpack")
        return value

    def _note_strange(self, name: str, kind: str) -> None:
        self._strange.append(f"{_display_key(self._key)}: {name} is not {kind}")


def _display_key(key: str) -> str:
    return plain(key, 120)
