"""Log source for the output streams of driven Claude Code.

It reports model activity, retried requests and permission questions. A permission question exists only on
this stream; everything else comes from the transcript, except calls that a killed client had no time to write
there. Offsets are kept in memory: after a restart, the end of the file shows whether a question is still
open.
"""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct

from wakeful.core.clock import Clock
from wakeful.core.decoding import json_decoder
from wakeful.core.errors import BadSessionId
from wakeful.core.ids import ConversationId, SessionId, parse_session_id
from wakeful.integrations.claude_code.transcript import calls_in
from wakeful.judging.events import CallStarted, Event, QuestionAnswered, QuestionAsked, RequestRetried
from wakeful.judging.evidence import STREAM, SessionIdentity
from wakeful.sources.base import EvidenceSink, FileChanges, FolderWatcher
from wakeful.sources.folder_watch import watch_or_await

OUTPUT: Final = "out.jsonl"
# A question and what follows it are a few KB; partial messages between them many.
TAIL_BYTES: Final = 256 * 1024
_PARTIAL: Final = b'{"type":"stream_event"'


class _Request(Struct, gc=False):
    subtype: str = ""
    tool_name: str = ""
    description: str | None = None


class _Line(Struct, gc=False):
    type: str = ""
    subtype: str | None = None
    state: str | None = None
    request: _Request | None = None
    parent_tool_use_id: str | None = None


_decode: Final = json_decoder(_Line)


class _ReadPosition(Struct):
    """How far one stream was read; `torn` is the beginning of an incomplete line."""

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
        if changes.adds_folder_for(root):
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
        # The calls of the last turn; lines have no time. A subagent's calls are left out: the call that
        # began it counts.
        begun: list[CallStarted] = []
        for line, record in _whole_messages(lines):
            if record.type == "result":
                begun.clear()
            elif record.type == "assistant" and record.parent_tool_use_id is None:
                begun += calls_in(line, fetched.written_at)
        known = next((number for number, each in enumerate(begun, 1) if each.call == call), 0)
        return begun[known:]

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
        """Report the appended lines; of a stream that is new here, only its open question."""
        place = self._positions.get(session_id)
        fetched = self._fetch(session_id, place.offset if place is not None else None)
        if fetched is None:
            self._positions.pop(session_id, None)
            return
        fresh = fetched.content
        lines, torn = _lines((place.torn if place is not None and fetched.begin else b"") + fresh)
        self._positions[session_id] = _ReadPosition(fetched.begin + len(fresh), torn)
        if place is None:
            self._report(session_id, _open_question(_events(lines, self._clock.now().wall)))
        elif fresh:
            self._report(session_id, _events(lines, self._clock.now().wall))
            self._sink.on_growth(session_id)

    def _fetch(self, session_id: SessionId, offset: int | None) -> _StreamPart | None:
        """The part after the offset, or all if the file was emptied since; without one its end. None without a stream."""
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
            return QuestionAsked(at, record.request.description or record.request.tool_name)
        case "control_cancel_request", _:
            return QuestionAnswered(at)
        case "system", "session_state_changed" if record.state == "running":
            return QuestionAnswered(at)
        case "system", "api_retry":
            return RequestRetried(at)
        case _:
            return None


def _open_question(events: list[Event]) -> list[Event]:
    """The question that has no answer yet; older retries and answers do not matter."""
    questions = [event for event in events if isinstance(event, QuestionAsked | QuestionAnswered)]
    newest = questions[-1] if questions else None
    return [newest] if isinstance(newest, QuestionAsked) else []
