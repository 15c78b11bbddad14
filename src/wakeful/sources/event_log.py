"""Reads neutral event logs, `<folder>/<session id>.jsonl`, and turns their lines into events.

The reader is pure; `docs/reference/event-log.md` describes the format. Unknown keys are ignored and unknown
events skipped, so programs may write more. A known event without a field it needs counts as format drift.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final
from zlib import crc32

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from wakeful.core.decoding import json_decoder
from wakeful.core.errors import BadSessionId
from wakeful.core.ids import parse_log_name
from wakeful.judging import events as e
from wakeful.judging.evidence import SessionIdentity
from wakeful.judging.masking import count_repeated_ends
from wakeful.sources.log_source import LogFormat, LogOwner
from wakeful.sources.parsing import (
    conversation_of,
    drift_event,
    kind_of,
    limit_end_in,
    question_of,
    read_undecodable,
    wall_of,
)


class _Record(Struct, gc=False):
    at: str | float | UnsetType = UNSET
    event: str | UnsetType = UNSET
    conversation: str | None = None
    cwd: str | None = None
    version: str | None = None
    pid: int | None = None
    project: str | None = None
    by_person: bool = True
    call: str | int | UnsetType = UNSET
    tool: str | UnsetType = UNSET
    input: Raw = Raw(b"{}")
    timeout_seconds: float | None = None
    kind: str | None = None
    error: bool = False
    refused: bool = False
    result: Raw = Raw(b"")
    text: Raw = Raw(b"")
    about: str | UnsetType = UNSET
    reason: str | UnsetType = UNSET
    message: str = ""


_decode: Final = json_decoder(_Record)


class NeutralReader:
    """Reads one event log; has no state."""

    def read(self, line: bytes) -> Sequence[e.Event]:
        try:
            record = _decode(line)
        except msgspec.DecodeError as error:
            return read_undecodable(line, error, self.read, partial(drift_event, _EVENTS))
        if record.event is UNSET:
            return (e.FormatDrifted(0.0, "event"),)
        write = _EVENTS.get(record.event)
        if write is None:
            return (e.RecordSkipped(0.0, record.event[:40]),)
        if record.at is UNSET or (at := wall_of(record.at)) is None:
            return (e.FormatDrifted(0.0, "at"),)
        missing = next(
            (name for name in _NEEDED.get(record.event, ()) if getattr(record, name) is UNSET), None
        )
        return (write(record, at) if missing is None else e.FormatDrifted(at, f"{record.event}.{missing}"),)

    def is_boundary(self, line: bytes) -> bool:
        # Only this event names the process; a turn read without it would have no process.
        return b"opened" in line and any(type(event) is e.LogOpened for event in self.read(line))


def _log_opened(record: _Record, at: float) -> e.Event:
    conversation = conversation_of(record.conversation)
    return e.LogOpened(at, conversation, record.cwd, record.version, record.pid, record.project)


def _call_started(record: _Record, at: float) -> e.Event:
    kind = e.CallKind(record.kind) if record.kind in set(e.CallKind) else kind_of(str(record.tool))
    given = bytes(record.input)
    return e.CallStarted(at, str(record.call), str(record.tool), kind, given, record.timeout_seconds)


def _call_ended(record: _Record, at: float) -> e.Event:
    return e.CallEnded(at, str(record.call), record.error, record.refused, bytes(record.result))


def _text_written(record: _Record, at: float) -> e.Event:
    text = bytes(record.text)
    return e.TextWritten(at, crc32(text), count_repeated_ends(text), question_of(text))


def _progress(record: _Record, at: float) -> e.Event:
    text = bytes(record.text)
    return e.Progressed(at, crc32(text), count_repeated_ends(text))


def _turn_failed(record: _Record, at: float) -> e.Event:
    failure = e.Failure(record.reason) if record.reason in set(e.Failure) else e.Failure.UNKNOWN
    return e.TurnFailed(at, failure, record.message, until=limit_end_in(record.message, at))


_NEEDED: Final[Mapping[str, tuple[str, ...]]] = {
    "call": ("call", "tool"),
    "result": ("call",),
    "asking": ("about",),
    "failed": ("reason",),
}
_EVENTS: Final[Mapping[str, Callable[[Any, float], e.Event]]] = {
    "opened": _log_opened,
    "prompt": lambda record, at: e.Prompted(at, by_person=record.by_person),
    "text": _text_written,
    "progress": _progress,
    "call": _call_started,
    "result": _call_ended,
    "asking": lambda record, at: e.QuestionAsked(at, record.about),
    "answered": lambda _record, at: e.QuestionAnswered(at),
    "done": lambda _record, at: e.TurnEnded(at),
    "failed": _turn_failed,
    "interrupted": lambda _record, at: e.TurnInterrupted(at),
    "closed": lambda _record, at: e.ClientClosed(at),
}


def event_logs(folders: tuple[Path, ...], host: str) -> LogFormat:
    """Logs that any program appends to. A session counts as alive until its log names a process or says `closed`."""

    def owner(parts: tuple[str, ...]) -> LogOwner | None:
        try:
            session_id = parse_log_name(parts[-1].removesuffix(".jsonl"))
        except BadSessionId:
            return None
        return LogOwner(
            SessionIdentity(session_id, "events", host, "event-log", project=session_id, vouched=True)
        )

    return LogFormat("event-logs", folders, ".jsonl", 1, owner, NeutralReader)
