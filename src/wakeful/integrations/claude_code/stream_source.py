"""Log source for the output streams of driven Claude Code.

It reports model activity, retried requests and permission questions. A permission question exists only on
this stream; everything else comes from the transcript, except what a killed client had no time to write there:
its last calls, or the end of its turn. Offsets are kept in memory: after a restart, the end of the file shows
whether a question is still open.
"""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final
from zlib import crc32

import msgspec
from msgspec import Raw, Struct

from wakeful.core.clock import Clock
from wakeful.core.decoding import json_decoder
from wakeful.core.errors import BadSessionId
from wakeful.core.ids import ConversationId, SessionId, parse_session_id
from wakeful.integrations.claude_code.transcript import calls_in
from wakeful.judging.events import (
    CallStarted,
    Event,
    QuestionAnswered,
    QuestionAsked,
    RequestRetried,
    TurnEnded,
    TurnInterrupted,
)
from wakeful.judging.evidence import STREAM, SessionIdentity
from wakeful.judging.kept_ids import kept_id
from wakeful.sources.base import EvidenceSink, FileChanges, FolderWatcher
from wakeful.sources.folder_watch import watch_or_await
from wakeful.sources.parsing import asked_call, question_of, text_of
from wakeful.sources.turn_failure import turn_failed_event

OUTPUT: Final = "out.jsonl"
# A question and the lines after it have a few KB, partial messages between them many.
TAIL_BYTES: Final = 256 * 1024
_PARTIAL: Final = b'{"type":"stream_event"'
# A file's time of writing is up to 4 ms late by the kernel's clock; a newly started client writes after 0.7 s.
OLDER_SECONDS_MAX: Final = 0.5
# The run's own limits end a turn as the transcript's mark does: nothing failed.
_LIMITS: Final = frozenset({"error_max_turns", "error_max_budget_usd"})


class _Request(Struct, gc=False):
    subtype: str = ""
    tool_name: str = ""
    input: Raw = Raw(b"")


class _Line(Struct, gc=False):
    type: str = ""
    subtype: str | None = None
    state: str | None = None
    request: _Request | None = None
    parent_tool_use_id: str | None = None
    error: Raw = Raw(b"")


class _Result(Struct, gc=False):
    subtype: str = ""
    is_error: bool = False
    api_error_status: int | None = None
    result: Raw = Raw(b"")
    errors: list[str] = []
    terminal_reason: str | None = None


_decode: Final = json_decoder(_Line)
_decode_result: Final = json_decoder(_Result)


class _ReadPosition(Struct):
    """The position in one stream; `torn` is the beginning of an incomplete line."""

    offset: int
    torn: bytes = b""


class _StreamPart(Struct):
    """A piece of a stream, and when the stream was last written."""

    content: bytes
    begin: int
    written_at: float


class ClaudeStreamSource:
    """Follows the streams below the run folders' root. Without `folders` it reads them once."""

    name = "claude-streams"
    delay_reason = None
    skipped_logs = None

    def __init__(
        self, root: Path, host: str, clock: Clock, sink: EvidenceSink, folders: FolderWatcher | None = None
    ) -> None:
        self._root = root
        self._host = host
        self._clock = clock
        self._sink = sink
        self._folders = folders
        self._positions: dict[SessionId, _ReadPosition] = {}

    def scan(self) -> None:
        if self._folders is not None:
            watch_or_await(self._folders, str(self._root))
        if not self._root.is_dir():
            return
        for folder in self._root.iterdir():
            self._scan_folder(folder.name)

    def on_changes(self, changes: FileChanges) -> None:
        root = str(self._root)
        if changes.needs_scan(root):
            self.scan()
            return
        for path in changes.changed:
            if path.startswith(f"{root}/") and path.endswith(f"/{OUTPUT}"):
                self._scan_folder(path[len(root) + 1 : -len(OUTPUT) - 1])

    def catch_up(self, session_id: SessionId) -> None:
        self._read(session_id)

    def calls_after(self, session_id: SessionId, call: str) -> list[CallStarted]:
        """The main agent's calls after this one in the stream's last turn; all of them, if it is not there."""
        fetched = self._fetch(session_id, None)
        if fetched is None:
            return []
        lines, _torn = _lines(fetched.content)
        # Lines have no time, so calls get the time of the file. A subagent's own calls are left out.
        calls: list[CallStarted] = []
        for line, record in _whole_messages(lines):
            if record.type == "result":
                calls.clear()
            elif record.type == "assistant" and record.parent_tool_use_id is None:
                calls += calls_in(line, fetched.written_at)
        known = next(
            (number for number, each in enumerate(calls, 1) if call in {each.call, kept_id(each.call)}), 0
        )
        return calls[known:]

    def turn_end(self, session_id: SessionId, last_wall: float) -> Event | None:
        """The end of the stream's last turn; None if that goes on, or if the stream is older than the log's last line."""
        fetched = self._fetch(session_id, None)
        if fetched is None or fetched.written_at < last_wall - OLDER_SECONDS_MAX:
            return None
        lines, _torn = _lines(fetched.content)
        ended, in_turn, code = None, False, ""
        for line, record in _whole_messages(lines):
            if record.type == "result":
                # Without a turn before it, the client refused to start.
                ended = _turn_end(line, fetched.written_at, code) if in_turn else None
                in_turn, code = False, ""
            elif record.parent_tool_use_id is None and (
                record.type in {"assistant", "user"} or record.state == "running"
            ):
                ended, in_turn = None, True
                code = text_of(bytes(record.error)) or code
        return ended

    def _scan_folder(self, name: str) -> None:
        try:
            session_id = parse_session_id(name)
        except BadSessionId:
            return
        if name.startswith("claude-"):
            if self._folders is not None and session_id not in self._positions:
                self._folders.add(str(self._root / name))
            self._read(session_id)

    def _read(self, session_id: SessionId) -> None:
        """Report the appended lines; at the first read of a stream, only its open question."""
        position = self._positions.get(session_id)
        fetched = self._fetch(session_id, position.offset if position is not None else None)
        if fetched is None:
            self._positions.pop(session_id, None)
            return
        content = fetched.content
        lines, torn = _lines((position.torn if position is not None and fetched.begin else b"") + content)
        self._positions[session_id] = _ReadPosition(fetched.begin + len(content), torn)
        if position is None:
            self._report(session_id, _open_question(_events(lines, self._clock.now().wall)))
        elif content:
            self._report(session_id, _events(lines, self._clock.now().wall))
            self._sink.on_growth(session_id)

    def _fetch(self, session_id: SessionId, offset: int | None) -> _StreamPart | None:
        """The part after the offset, or all if the file was emptied since; without an offset, the end of the file."""
        try:
            descriptor = os.open(self._root / session_id / OUTPUT, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        except OSError:
            return None
        try:
            status = os.fstat(descriptor)
            size = status.st_size
            # A file that is shorter than the offset was emptied between two turns.
            begin = max(0, size - TAIL_BYTES) if offset is None else offset if offset <= size else 0
            return _StreamPart(os.pread(descriptor, size - begin, begin), begin, status.st_mtime)
        finally:
            os.close(descriptor)

    def _report(self, session_id: SessionId, events: list[Event]) -> None:
        if events:
            conversation = ConversationId(session_id.removeprefix("claude-"))
            identity = SessionIdentity(session_id, "claude", self._host, STREAM, conversation)
            self._sink.on_events(identity, events, live=True)


def _lines(content: bytes) -> tuple[list[bytes], bytes]:
    *lines, torn = content.split(b"\n")
    return lines, torn


def _events(lines: list[bytes], at: float) -> list[Event]:
    events = (_event(record, at) for _line, record in _whole_messages(lines))
    return [event for event in events if event is not None]


def _whole_messages(lines: list[bytes]) -> Iterator[tuple[bytes, _Line]]:
    """Every whole message with its fields, without the many partial messages."""
    for line in lines:
        if line.startswith(_PARTIAL):
            continue
        try:
            yield line, _decode(line)
        except msgspec.DecodeError:
            continue


def _event(record: _Line, at: float) -> Event | None:
    match record.type, record.subtype:
        case "control_request", _ if record.request is not None and record.request.subtype == "can_use_tool":
            return QuestionAsked(at, asked_call(record.request.tool_name, record.request.input))
        case "control_cancel_request", _:
            return QuestionAnswered(at)
        case "system", "session_state_changed" if record.state == "running":
            return QuestionAnswered(at)
        case "system", "api_retry":
            return RequestRetried(at)
        case _:
            return None


def _turn_end(line: bytes, at: float, code: str) -> Event | None:
    """The end of a turn, as the transcript has it. `code` is the client's code of a failed request."""
    try:
        ended = _decode_result(line)
    except msgspec.DecodeError:
        return None
    if (ended.terminal_reason or "").startswith("aborted"):
        return TurnInterrupted(at)
    if ended.subtype in _LIMITS:
        return TurnEnded(at, by_mark=True)
    text = bytes(ended.result)
    if not ended.is_error:
        return TurnEnded(at, words=crc32(text), asks=question_of(text))
    message = text_of(text) if text else " ".join(ended.errors)
    return turn_failed_event(message, at, status=ended.api_error_status, code=code)


def _open_question(events: list[Event]) -> list[Event]:
    """The question that has no answer yet; older retries and answers do not matter."""
    questions = [event for event in events if isinstance(event, QuestionAsked | QuestionAnswered)]
    newest = questions[-1] if questions else None
    return [newest] if isinstance(newest, QuestionAsked) else []
