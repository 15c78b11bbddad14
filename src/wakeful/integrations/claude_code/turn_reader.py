"""Extracts one turn of a driven Claude Code from its stream-json output. Pure.

The line that replays a prompt can come as late as the end of the first block of the answer. So a running turn
that no other prompt began is taken for the wanted one, and dropped if the replayed line says otherwise. A turn
that healing begins after an interruption continues the interrupted one.
"""

from collections.abc import Sequence
from enum import Enum
from hashlib import sha256
from typing import Any, Final

import msgspec
from msgspec import Struct

from wakeful.control.briefs import BRIEF_PREFIX
from wakeful.control.turn_events import (
    AnswerText,
    Ended,
    PermissionAsked,
    PermissionClosed,
    PromptTaken,
    Spent,
    TurnEvent,
)
from wakeful.core.decoding import decode_json, json_decoder
from wakeful.core.redaction import redact
from wakeful.core.text import plain
from wakeful.integrations.claude_code.stream_json import ControlRequest, ControlResponse
from wakeful.sources.turn_failure import classify_failure

# Between two blocks of text there was a call or another message, so they become paragraphs.
BREAK: Final = "\n\n"
_ABORTED: Final = "aborted"
# A person can read this much on a phone before a decision; a note counts the rest.
CALL_CHARS_MAX: Final = 2000


class _Block(Struct, gc=False):
    type: str = ""
    text: str = ""


class _Message(Struct, gc=False):
    content: str | list[_Block] = ""


class _Event(Struct, gc=False):
    type: str = ""
    content_block: _Block | None = None
    delta: _Block | None = None


class _Usage(Struct, gc=False):
    input_tokens: int = 0
    cache_creation_input_tokens: int = 0
    output_tokens: int = 0


class _Line(Struct, gc=False):
    type: str = ""
    subtype: str = ""
    event: _Event | None = None
    message: _Message | None = None
    parent_tool_use_id: str | None = None
    uuid: str = ""
    is_replay: bool = msgspec.field(default=False, name="isReplay")
    state: str = ""
    request_id: str = ""
    request: ControlRequest | None = None
    response: ControlResponse | None = None
    error: str | None = None
    is_error: bool = False
    result: str | None = None
    errors: list[str] = []
    api_error_status: int | None = None
    terminal_reason: str | None = None
    stop_reason: str | None = None
    total_cost_usd: float | None = None
    usage: _Usage | None = None


_decode: Final = json_decoder(_Line)


class _AnswerText:
    """The main agent's text in one turn, without repeats: streamed, or whole if the stream broke."""

    def __init__(self) -> None:
        self.text = ""
        # The streamed part of a block of which the whole record is not read yet.
        self._streamed_block = ""

    def begin_block(self) -> str:
        self._streamed_block = ""
        return BREAK if self.text and not self.text.endswith(BREAK) else ""

    def add_streamed(self, text: str) -> str:
        self._streamed_block += text
        return text

    def add_whole_block(self, text: str) -> str:
        """The part of a whole block that was not streamed."""
        streamed, self._streamed_block = self._streamed_block, ""
        if text.startswith(streamed):
            return (self.begin_block() if not streamed else "") + text[len(streamed) :]
        return self.begin_block() + text


class _TurnOwner(Enum):
    """Whether the running turn belongs to the wanted prompt."""

    UNKNOWN = "unknown"
    OURS = "ours"
    FOREIGN = "foreign"


class ClaudeTurnReader:
    """Reads the turn of one delivered prompt. Feed every line of the file, from its beginning."""

    def __init__(self, prompt_id: str) -> None:
        self._prompt_id = prompt_id
        # Until the existing lines have been read, a turn may be an old one.
        self._is_live = False
        # Once the prompt was found, a turn that healing begins continues its turn.
        self._prompt_found = False
        # This process got the prompt: it comes in this file, and no turn before it is its turn.
        self._prompt_in_this_file = False
        # This process worked on another turn: the prompt waits until that one ends.
        self._other_turn_ran = False
        # The file has other prompts: a turn that healing began in it may continue one of theirs.
        self._has_other_prompts = False
        self._turn_owner: _TurnOwner | None = None
        self._pending: list[TurnEvent] = []
        self._answer_text = _AnswerText()
        self._failure_code = ""
        self._questions: dict[str, None] = {}
        self._cost_usd_before = 0.0

    def feed(self, line: bytes) -> Sequence[TurnEvent]:
        """The new events. Lines that are torn, unknown or of another shape have none."""
        try:
            record = _decode(line)
        except msgspec.DecodeError:
            return ()
        if record.parent_tool_use_id is None:
            self._dispatch(record)
        return self._take_pending()

    def on_caught_up(self) -> Sequence[TurnEvent]:
        """All existing lines have been read: the open turn is the newest one. Returns its events."""
        self._is_live = True
        return self._take_pending()

    def on_prompt_given(self) -> None:
        """The process that writes this file got the prompt: an earlier prompt by healing belongs to another turn."""
        self._prompt_in_this_file = True

    def on_new_process(self) -> bool:
        """Another process with its own file continues this conversation; returns whether the turn may go on there."""
        began = self._turn_owner is not None and self._turn_owner is not _TurnOwner.FOREIGN
        unread = self._prompt_in_this_file and self._other_turn_ran and not self._prompt_found and not began
        self._prompt_found, self._is_live = not unread, True
        self._has_other_prompts = self._has_other_prompts or unread
        self._prompt_in_this_file = self._other_turn_ran = False
        self._turn_owner = None
        self._pending = []
        self._questions.clear()
        self._cost_usd_before = 0.0
        return not unread

    def _dispatch(self, record: _Line) -> None:
        match record.type:
            case "system" if record.subtype == "session_state_changed" and record.state == "running":
                self._begin_turn()
            case "user" if record.is_replay:
                self._begin_turn()
                self._on_prompt(record)
            case "stream_event" if record.event is not None:
                self._on_stream_event(record.event)
            case "assistant" if record.message is not None:
                self._on_message(record, record.message)
            case "control_request" if record.request is not None and record.request.subtype == "can_use_tool":
                self._on_question(record.request_id, record.request)
            case "control_cancel_request":
                self._on_question_closed(record.request_id)
            case "control_response" if record.response is not None:
                self._on_question_closed(record.response.request_id)
            case "result":
                self._on_result(record)

    def _begin_turn(self) -> None:
        if self._turn_owner is not None:
            return
        self._turn_owner = _TurnOwner.UNKNOWN
        self._pending = [PromptTaken()]
        self._answer_text = _AnswerText()
        self._failure_code = ""

    def _on_prompt(self, record: _Line) -> None:
        if record.uuid == self._prompt_id:
            # Its replay proves that the turn is the wanted one.
            self._prompt_found = self._is_live = True
            self._turn_owner = _TurnOwner.OURS
        elif self._turn_owner is _TurnOwner.UNKNOWN:
            text = record.message.content if record.message is not None else ""
            by_healer = isinstance(text, str) and text.startswith(BRIEF_PREFIX)
            # A file with only healing's prompt was begun by a new process while this reader did not read.
            goes_on = by_healer and (
                self._prompt_found or not (self._has_other_prompts or self._prompt_in_this_file)
            )
            self._has_other_prompts = self._has_other_prompts or not by_healer
            self._turn_owner = _TurnOwner.OURS if goes_on else _TurnOwner.FOREIGN
            self._other_turn_ran = self._other_turn_ran or not goes_on

    def _on_stream_event(self, event: _Event) -> None:
        begun, delta = event.content_block, event.delta
        if event.type == "content_block_start" and begun is not None and begun.type == "text":
            self._add_text(self._answer_text.begin_block())
        if event.type == "content_block_delta" and delta is not None and delta.type == "text_delta":
            self._add_text(self._answer_text.add_streamed(delta.text))

    def _on_message(self, record: _Line, message: _Message) -> None:
        if record.error is not None:
            # Not the model's text but the client's, about the error.
            self._failure_code = record.error
            return
        for block in message.content if isinstance(message.content, list) else ():
            if block.type == "text":
                self._add_text(self._answer_text.add_whole_block(block.text))

    def _add_text(self, text: str) -> None:
        self._begin_turn()
        if text:
            self._answer_text.text += text
            self._pending.append(AnswerText(text))

    def _on_question(self, question_id: str, request: ControlRequest) -> None:
        self._begin_turn()
        self._questions[question_id] = None
        self._pending.append(
            PermissionAsked(question_id, request.tool_name, _request_text(request), _call_digest(request))
        )

    def _on_question_closed(self, question_id: str) -> None:
        if question_id in self._questions:
            del self._questions[question_id]
            self._pending.append(PermissionClosed(question_id))

    def _on_result(self, record: _Line) -> None:
        total, usage = record.total_cost_usd, record.usage or _Usage()
        # `total_cost_usd` counts from the start of the process: the turn's cost is its growth.
        cost_usd = None if total is None else total - self._cost_usd_before
        input_tokens = usage.input_tokens + usage.cache_creation_input_tokens
        spent = Spent(input_tokens, usage.output_tokens, cost_usd)
        self._cost_usd_before = total or self._cost_usd_before
        for question_id in list(self._questions):
            self._on_question_closed(question_id)
        turn, self._turn_owner = self._turn_owner, None
        if turn is _TurnOwner.FOREIGN or (turn is _TurnOwner.UNKNOWN and not self._is_live):
            self._pending = []
        elif turn is not None:
            self._pending.append(self._ended_event(record, spent))

    def _ended_event(self, record: _Line, spent: Spent) -> Ended:
        if (record.terminal_reason or "").startswith(_ABORTED):
            return Ended(self._answer_text.text, spent=spent, interrupted=True)
        if not record.is_error:
            text = self._answer_text.text or record.result or ""
            return Ended(text, spent=spent, stop_reason=record.stop_reason or "")
        text = record.result or " ".join(record.errors)
        return Ended(text, classify_failure(text, record.api_error_status, self._failure_code), spent)

    def _take_pending(self) -> Sequence[TurnEvent]:
        """The events that are certain now; none of another prompt's turn."""
        if self._turn_owner is _TurnOwner.FOREIGN:
            self._pending = []
        if not self._is_live:
            return ()
        events, self._pending = self._pending, []
        return events


# For these tools `description` only describes the call, with another text each time; for others it is an argument.
_TOOLS_WITH_DESCRIPTION: Final = frozenset({"Bash"})


def _call_digest(request: ControlRequest) -> str:
    """A digest of the tool and its input, equal only for equal calls. A mere description does not count."""
    try:
        given = decode_json(bytes(request.input), dict[str, Any])
    except msgspec.DecodeError:
        return ""
    if request.tool_name in _TOOLS_WITH_DESCRIPTION:
        given.pop("description", None)
    exact = msgspec.json.encode((request.tool_name, given), order="deterministic")
    return sha256(exact).hexdigest()


def _request_text(request: ControlRequest) -> str:
    """The call itself first, because the model writes the description."""
    given, description = bytes(request.input).decode("utf-8", "replace"), request.description or ""
    # Most descriptions only repeat a part of the call.
    call = given if description in given else f"{given} {description}"
    more = len(call) - CALL_CHARS_MAX
    text = plain(redact(call), CALL_CHARS_MAX)
    return text if more <= 0 else f"{text}\n[{more:,} more characters of it are not shown]"
