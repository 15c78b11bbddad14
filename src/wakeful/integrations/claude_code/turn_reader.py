"""Extracts one turn of a driven Claude Code from its stream-json output. Pure.

The line that replays a prompt comes late: as late as the end of the first block of the answer. So a running
turn that no other prompt began is taken for the wanted one, and dropped if the replayed line says otherwise.
A turn that the healer begins after an interruption continues the interrupted one.
"""

from collections.abc import Sequence
from enum import Enum
from hashlib import sha256
from typing import Any, Final

import msgspec
from msgspec import Raw, Struct

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
from wakeful.sources.turn_failure import classify_failure

# Between two blocks of text there was a call, or another message: people read them as paragraphs.
BREAK: Final = "\n\n"
_ABORTED: Final = "aborted"
# What a person can read on a phone before they decide; beyond it they are told that there is more.
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


class _Request(Struct, gc=False):
    subtype: str = ""
    tool_name: str = ""
    description: str | None = None
    input: Raw = Raw(b"{}")


class _Response(Struct, gc=False):
    request_id: str = ""


class _Usage(Struct, gc=False):
    input_tokens: int = 0
    cache_creation_input_tokens: int = 0
    output_tokens: int = 0


class _Line(Struct, gc=False):
    """Only what is read."""

    type: str = ""
    subtype: str = ""
    event: _Event | None = None
    message: _Message | None = None
    parent_tool_use_id: str | None = None
    uuid: str = ""
    is_replay: bool = msgspec.field(default=False, name="isReplay")
    state: str = ""
    request_id: str = ""
    request: _Request | None = None
    response: _Response | None = None
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
    """The main agent's words in one turn, each once: as they stream, or whole where the stream broke."""

    def __init__(self) -> None:
        self.text = ""
        # What streamed of a block whose whole record has not come yet.
        self._streamed_block = ""

    def begin_block(self) -> str:
        self._streamed_block = ""
        return BREAK if self.text and not self.text.endswith(BREAK) else ""

    def add_streamed(self, text: str) -> str:
        self._streamed_block += text
        return text

    def add_whole_block(self, text: str) -> str:
        """What of a whole block was not streamed."""
        streamed, self._streamed_block = self._streamed_block, ""
        if text.startswith(streamed):
            return (self.begin_block() if not streamed else "") + text[len(streamed) :]
        return self.begin_block() + text


class _TurnOwner(Enum):
    """Whose turn it is that runs, as far as its prompt was replayed."""

    UNKNOWN = "unknown"
    OURS = "ours"
    FOREIGN = "foreign"


class ClaudeTurnReader:
    """Hears the turn of one prompt that was delivered. Feed every line of the file, from its beginning."""

    def __init__(self, prompt_id: str) -> None:
        self._prompt_id = prompt_id
        # Until everything that was there has been read, a turn may turn out to be an old one.
        self._is_live = False
        # Whether the prompt was seen: from then on a turn that the healer begins is its continuation.
        self._prompt_found = False
        # Whether this very process was given the prompt: then it comes in this file, and nothing before it is its turn.
        self._prompt_in_this_file = False
        # Whether this process worked on another turn than ours: then the prompt waits behind that one.
        self._other_turn_ran = False
        # Whether the file has prompts of other people: then what the healer began in it may be theirs.
        self._has_other_prompts = False
        self._turn_owner: _TurnOwner | None = None
        self._pending: list[TurnEvent] = []
        self._answer_text = _AnswerText()
        self._failure_code = ""
        self._questions: dict[str, None] = {}
        self._cost_usd_before = 0.0

    def feed(self, line: bytes) -> Sequence[TurnEvent]:
        """What is new. Lines that are torn, unknown or of another shape tell nothing."""
        try:
            said = _decode(line)
        except msgspec.DecodeError:
            return ()
        if said.parent_tool_use_id is None:
            self._dispatch(said)
        return self._take_pending()

    def on_caught_up(self) -> Sequence[TurnEvent]:
        """All that was there has been read: what comes now is new, and the turn that is open now is the newest."""
        self._is_live = True
        return self._take_pending()

    def on_prompt_given(self) -> None:
        """The process that writes this file was given the prompt: what the healer told it before is another turn's."""
        self._prompt_in_this_file = True

    def on_new_process(self) -> bool:
        """Another process goes on in this conversation, with a file of its own; whether our turn may go on there."""
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

    def _dispatch(self, said: _Line) -> None:
        match said.type:
            case "system" if said.subtype == "session_state_changed" and said.state == "running":
                self._begin_turn()
            case "user" if said.is_replay:
                self._begin_turn()
                self._on_prompt(said)
            case "stream_event" if said.event is not None:
                self._on_stream_event(said.event)
            case "assistant" if said.message is not None:
                self._on_message(said, said.message)
            case "control_request" if said.request is not None and said.request.subtype == "can_use_tool":
                self._on_question(said.request_id, said.request)
            case "control_cancel_request":
                self._on_question_closed(said.request_id)
            case "control_response" if said.response is not None:
                self._on_question_closed(said.response.request_id)
            case "result":
                self._on_result(said)

    def _begin_turn(self) -> None:
        if self._turn_owner is not None:
            return
        self._turn_owner = _TurnOwner.UNKNOWN
        self._pending = [PromptTaken()]
        self._answer_text = _AnswerText()
        self._failure_code = ""

    def _on_prompt(self, said: _Line) -> None:
        if said.uuid == self._prompt_id:
            # From here on it is certain, whatever else is in the file.
            self._prompt_found = self._is_live = True
            self._turn_owner = _TurnOwner.OURS
        elif self._turn_owner is _TurnOwner.UNKNOWN:
            words = said.message.content if said.message is not None else ""
            by_healer = isinstance(words, str) and words.startswith(BRIEF_PREFIX)
            # Where the file holds no prompt at all but the healer's, it was begun anew while nobody listened.
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

    def _on_message(self, said: _Line, message: _Message) -> None:
        if said.error is not None:
            # Not the model's words but the client's, about what went wrong.
            self._failure_code = said.error
            return
        for block in message.content if isinstance(message.content, list) else ():
            if block.type == "text":
                self._add_text(self._answer_text.add_whole_block(block.text))

    def _add_text(self, text: str) -> None:
        self._begin_turn()
        if text:
            self._answer_text.text += text
            self._pending.append(AnswerText(text))

    def _on_question(self, question_id: str, request: _Request) -> None:
        self._begin_turn()
        self._questions[question_id] = None
        self._pending.append(
            PermissionAsked(question_id, request.tool_name, _request_text(request), _call_digest(request))
        )

    def _on_question_closed(self, question_id: str) -> None:
        if question_id in self._questions:
            del self._questions[question_id]
            self._pending.append(PermissionClosed(question_id))

    def _on_result(self, said: _Line) -> None:
        total = said.total_cost_usd
        spent = _turn_cost(said.usage, None if total is None else total - self._cost_usd_before)
        self._cost_usd_before = total or self._cost_usd_before
        for question_id in list(self._questions):
            self._on_question_closed(question_id)
        turn, self._turn_owner = self._turn_owner, None
        if turn is _TurnOwner.FOREIGN or (turn is _TurnOwner.UNKNOWN and not self._is_live):
            self._pending = []
        elif turn is not None:
            self._pending.append(self._ended_event(said, spent))

    def _ended_event(self, said: _Line, spent: Spent) -> Ended:
        if (said.terminal_reason or "").startswith(_ABORTED):
            return Ended(self._answer_text.text, spent=spent, interrupted=True)
        if not said.is_error:
            text = self._answer_text.text or said.result or ""
            return Ended(text, spent=spent, stop_reason=said.stop_reason or "")
        words = said.result or " ".join(said.errors)
        return Ended(words, classify_failure(words, said.api_error_status, self._failure_code), spent)

    def _take_pending(self) -> Sequence[TurnEvent]:
        """What may be told now; of a turn of somebody else, nothing."""
        if self._turn_owner is _TurnOwner.FOREIGN:
            self._pending = []
        if not self._is_live:
            return ()
        told, self._pending = self._pending, []
        return told


# Their `description` says what they do, in other words each time. Of other tools it is what they are given.
_TOOLS_WITH_DESCRIPTION: Final = frozenset({"Bash"})


def _call_digest(request: _Request) -> str:
    """The same for the same call only: its tool and all of its input but what merely describes it."""
    try:
        given = decode_json(bytes(request.input), dict[str, Any])
    except msgspec.DecodeError:
        return ""
    if request.tool_name in _TOOLS_WITH_DESCRIPTION:
        given.pop("description", None)
    exact = msgspec.json.encode((request.tool_name, given), order="deterministic")
    return sha256(exact).hexdigest()


def _request_text(request: _Request) -> str:
    """What is asked for: the call itself first, for what describes it is the model's to write."""
    given, told = bytes(request.input).decode("utf-8", "replace"), request.description or ""
    # Clients mostly repeat what stands in the call anyway.
    call = given if told in given else f"{given} {told}"
    more = len(call) - CALL_CHARS_MAX
    words = plain(redact(call), CALL_CHARS_MAX)
    return words if more <= 0 else f"{words}\n[{more:,} more characters of it are not shown]"


def _turn_cost(usage: _Usage | None, cost_usd: float | None) -> Spent:
    """`total_cost_usd` counts from the start of the process: what this turn cost is what it grew by."""
    counted = usage or _Usage()
    tokens = counted.input_tokens + counted.cache_creation_input_tokens
    return Spent(tokens, counted.output_tokens, cost_usd)
