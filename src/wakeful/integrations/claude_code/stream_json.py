"""Parses Claude Code's stream-json output into the state a driver needs, and talks to a running process.

`StreamState` is pure: lines in, state out. Torn, unknown or malformed lines change nothing, and it does not store
the agent's answers. `StreamConnection` writes lines to the FIFO and reads the output file from its beginning each
time, so a restart of Wakeful loses nothing.
"""

import asyncio
from collections.abc import Callable
from contextlib import AsyncExitStack
from types import TracebackType
from typing import Any, Final, Self
from uuid import uuid4

import msgspec
from msgspec import Raw, Struct

from wakeful.core.decoding import json_decoder
from wakeful.core.process import Process
from wakeful.core.redaction import redact
from wakeful.core.text import plain
from wakeful.integrations.driver_support import RunFolder, WriteResult
from wakeful.sources.follow import FileFollower

# An id is looked up right after it was sent; older ones are not needed.
IDS_KEPT_MAX: Final = 256
QUESTIONS_MAX: Final = 64
TEXT_CHARS_MAX: Final = 300
IDLE: Final = "idle"


class PermissionRequest(Struct, frozen=True):
    """A call that waits for a person's permission."""

    id: str
    tool: str
    input: bytes


class ControlRequest(Struct, gc=False):
    subtype: str = ""
    tool_name: str = ""
    description: str | None = None
    input: Raw = Raw(b"{}")


class ControlResponse(Struct, gc=False):
    request_id: str = ""


class _Line(Struct, gc=False):
    type: str = ""
    subtype: str | None = None
    state: str | None = None
    uuid: str = ""
    is_replay: bool = msgspec.field(default=False, name="isReplay")
    request_id: str = ""
    request: ControlRequest | None = None
    response: ControlResponse | None = None
    is_error: bool = False
    result: str | None = None
    errors: list[str] | None = None
    error: Any = None


_decode: Final = json_decoder(_Line)


class StreamState:
    def __init__(self) -> None:
        self._state = IDLE
        self.questions: dict[str, PermissionRequest] = {}
        # The newest ids of answered requests (Wakeful's requests and the client's questions) and of replayed prompts.
        self.answered_requests: dict[str, None] = {}
        self.replayed_prompts: dict[str, None] = {}
        self.results = 0
        # Messages of the model, or of the client on its behalf.
        self.model_messages = 0
        # How the newest turn failed: the client's code and text.
        self.failure: str | None = None
        self.last_result_text = ""

    @property
    def is_busy(self) -> bool:
        """Whether a turn runs, also while it waits for a person. Before its first prompt a client writes no state."""
        return self._state != IDLE

    def feed(self, line: bytes) -> None:
        try:
            record = _decode(line)
        except msgspec.DecodeError:
            return
        match record.type:
            case "system" if record.subtype == "session_state_changed":
                self._state = record.state or IDLE
            case "user" if record.is_replay:
                _remember(self.replayed_prompts, record.uuid)
            case "stream_event" | "assistant":
                self._on_model_message(record)
            case "system" if record.subtype == "api_retry":
                self._on_model_message(record)
            case "control_request" if record.request is not None and record.request.subtype == "can_use_tool":
                self._on_question(record.request_id, record.request)
            case "control_cancel_request":
                self.questions.pop(record.request_id, None)
            case "control_response" if record.response is not None:
                _remember(self.answered_requests, record.response.request_id)
                self.questions.pop(record.response.request_id, None)
            case "result":
                self._on_result(record)

    def _on_model_message(self, record: _Line) -> None:
        self.model_messages += 1
        if isinstance(record.error, str):
            self.failure = record.error

    def _on_question(self, question_id: str, request: ControlRequest) -> None:
        if len(self.questions) < QUESTIONS_MAX:
            self.questions[question_id] = PermissionRequest(
                question_id, request.tool_name, bytes(request.input)
            )

    def _on_result(self, record: _Line) -> None:
        self.results += 1
        self.questions.clear()
        text = record.result or " ".join(record.errors or ())
        self.last_result_text = plain(redact(text), TEXT_CHARS_MAX)
        if not record.is_error:
            self.failure = None


def _remember(ids: dict[str, None], new: str) -> None:
    ids[new] = None
    if len(ids) > IDS_KEPT_MAX:
        # A dict keeps its order: the first is the oldest.
        del ids[next(iter(ids))]


# Partial messages fill a file fast. Between turns its content is not needed, and a file above this size is emptied.
OUTPUT_BYTES_MAX: Final = 16 * 1024 * 1024


class StreamConnection:
    """A context manager; `stream` is the state at the last read."""

    def __init__(self, folder: RunFolder, process: Process, write_seconds: float) -> None:
        self.folder = folder
        self.stream = StreamState()
        self._follower = FileFollower(folder.output, process)
        self._write_seconds = write_seconds
        self._exit_stack = AsyncExitStack()

    async def __aenter__(self) -> Self:
        await self._exit_stack.enter_async_context(self._follower)
        while lines := self._follower.read():
            for line in lines:
                self.stream.feed(line)
            # A long file is read in slices of a few ms; other tasks run in between.
            await asyncio.sleep(0)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._exit_stack.aclose()

    @property
    def is_alive(self) -> bool:
        return self._follower.is_alive

    def trim(self) -> None:
        """Empty the file if it is long and no turn runs."""
        if not self.stream.is_busy and self.folder.output.stat().st_size > OUTPUT_BYTES_MAX:
            self.folder.trim()

    async def send(self, message: dict[str, Any]) -> WriteResult:
        return await self.folder.write_line(msgspec.json.encode(message), self._write_seconds)

    async def request(self, subtype: str) -> tuple[str, WriteResult]:
        """Send a control request; returns the id that its answer will have."""
        request_id = str(uuid4())
        message = {"type": "control_request", "request_id": request_id, "request": {"subtype": subtype}}
        return request_id, await self.send(message)

    async def wait_until(self, reached: Callable[[StreamState], bool], seconds: float) -> bool:
        """Whether `reached` became true before the process ended or the time was up."""
        return await self._follower.feed_until(self.stream.feed, lambda: reached(self.stream), seconds)
