"""Reads tool logs of hooks, `<folder>/<session id>/tool_use.jsonl`, and turns their lines into events.

Any line may be the first one that is read. Such a log has calls and no turns. Only the calls themselves end a
series of errors or repeats, so no line is a boundary, and the log is read from its start.
"""

import re
from collections.abc import Sequence
from functools import partial
from itertools import count
from pathlib import Path
from typing import Final

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from wakeful.core.decoding import json_decoder
from wakeful.core.errors import BadSessionId
from wakeful.core.ids import parse_log_name
from wakeful.judging import events as e
from wakeful.judging.evidence import SessionIdentity
from wakeful.sources.log_source import LogFormat, LogOwner
from wakeful.sources.parsing import declared_timeout_seconds, drift_event, read_undecodable, wall_of


class _Record(Struct, gc=False):
    event: str | UnsetType = UNSET
    tool_name: str | UnsetType = UNSET
    tool_input: Raw = Raw(b"{}")
    tool_use_id: str | None = None
    start_time: str | float | None = None
    end_time: str | float | None = None
    timestamp: str | float | None = None
    tool_output_preview: Raw = Raw(b"")
    is_error: Raw = Raw(b"")
    error: Raw = Raw(b"")
    exit_code: Raw = Raw(b"")


_decode: Final = json_decoder(_Record)

_EVENTS: Final = frozenset({"pre_tool_use", "post_tool_use"})
_ABSENT: Final = frozenset({b"", b"null"})
_EMPTY: Final = frozenset({b"", b"null", b"false", b'""', b"0", b"[]", b"{}"})
_ZERO: Final = frozenset({b"", b"null", b"0", b'"0"', b"0.0"})
# Used if no field states the outcome; exit code 0 is an explicit success.
_ERROR_TEXT: Final = re.compile(
    rb'"(?:Error|Traceback|(?:<|\\u003[cC])tool_use_error(?:>|\\u003[eE])|Exit code -?0*[1-9])'
)
# The client's text about a person's refusal.
_REFUSED: Final = re.compile(rb'"The user doesn\'t want to (?:proceed|take this action)')


class ToolUseReader:
    """Reads one log. A post without an id belongs to the newest open pre of its tool."""

    def __init__(self) -> None:
        self._numbers = count(1)

    def read(self, line: bytes) -> Sequence[e.Event]:
        try:
            record = _decode(line)
        except msgspec.DecodeError as error:
            return read_undecodable(line, error, self.read, partial(drift_event, _EVENTS))
        if record.event is UNSET:
            return (e.FormatDrifted(0.0, "event"),)
        if record.event not in _EVENTS:
            return (e.RecordSkipped(0.0, record.event[:40]),)
        if record.tool_name is UNSET:
            return (e.FormatDrifted(0.0, f"{record.event}.tool_name"),)
        is_start = record.event == "pre_tool_use"
        read = self._call_started if is_start else _call_ended
        return (read(record, record.tool_name),)

    def is_boundary(self, line: bytes) -> bool:  # noqa: ARG002 - the protocol asks about a line
        return False

    def _call_started(self, record: _Record, tool: str) -> e.Event:
        at = _time_of(record.start_time, record.timestamp)
        if at is None:
            return e.FormatDrifted(0.0, "pre_tool_use.start_time")
        # Unique among simultaneous calls, also when a restart begins to count again.
        call = record.tool_use_id or f"{tool[:100]}#{at}#{next(self._numbers)}"
        given = bytes(record.tool_input)
        seconds = declared_timeout_seconds(given)
        return e.CallStarted(at, call, tool, input=given, timeout_seconds=seconds)


def project_in(session_id: str) -> str | None:
    """The project in an id like `tg_popoto_-5294327191_4469`; None for ids of another form."""
    parts = session_id.split("_")
    return parts[1] if len(parts) == 4 else None


def _call_ended(record: _Record, tool: str) -> e.Event:
    at = _time_of(record.end_time, record.timestamp)
    if at is None:
        return e.FormatDrifted(0.0, "post_tool_use.end_time")
    result = bytes(record.tool_output_preview)
    is_error = _is_error(record, result)
    refused = is_error and _REFUSED.match(result) is not None
    return e.CallEnded(at, record.tool_use_id or "", is_error, refused, result, tool)


def _time_of(*stamps: str | float | None) -> float | None:
    return next((at for stamp in stamps if (at := wall_of(stamp)) is not None), None)


def _is_error(record: _Record, preview: bytes) -> bool:
    """By the hook's fields; only without them by the beginning of the result."""
    is_error, error, exit_code = bytes(record.is_error), bytes(record.error), bytes(record.exit_code)
    if {is_error, error, exit_code} <= _ABSENT:
        return _ERROR_TEXT.match(preview) is not None
    return is_error == b"true" or error not in _EMPTY or exit_code not in _ZERO


def tool_use_logs(folders: tuple[Path, ...], host: str) -> LogFormat:
    """Folders of tool logs. A log alone does not prove a live session, so it is never judged silent."""

    def owner(parts: tuple[str, ...]) -> LogOwner | None:
        if len(parts) != 2 or parts[1] != "tool_use.jsonl":
            return None
        try:
            session_id = parse_log_name(parts[0])
        except BadSessionId:
            return None
        return LogOwner(
            SessionIdentity(
                session_id, "tool-use", host, "tool_use.jsonl", project=project_in(session_id) or session_id
            )
        )

    return LogFormat("tool-use-logs", folders, "tool_use.jsonl", 2, owner, ToolUseReader)
