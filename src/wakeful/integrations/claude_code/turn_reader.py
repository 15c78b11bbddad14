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

from wakeful.control.briefs import SPEAKER
from wakeful.control.turn_events import Asked, Ended, Heard, Settled, Spent, Taken, Words
from wakeful.core.decoding import decode_json, json_decoder
from wakeful.core.redaction import redact
from wakeful.core.text import plain
from wakeful.sources.failure_words import failure_in

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


class _Spoken:
    """The main agent's words in one turn, each once: as they stream, or whole where the stream broke."""

    def __init__(self) -> None:
        self.text = ""
        # What streamed of a block whose whole record has not come yet.
        self._streamed = ""

    def begin_block(self) -> str:
        self._streamed = ""
        return BREAK if self.text and not self.text.endswith(BREAK) else ""

    def stream(self, text: str) -> str:
        self._streamed += text
        return text

    def whole(self, text: str) -> str:
        """What of a whole block was not streamed."""
        streamed, self._streamed = self._streamed, ""
        if text.startswith(streamed):
            return (self.begin_block() if not streamed else "") + text[len(streamed) :]
        return self.begin_block() + text


class _Whose(Enum):
    """Whose turn it is that runs, as far as its prompt was replayed."""

    UNKNOWN = "unknown"
    OURS = "ours"
    FOREIGN = "foreign"


class ClaudeHearing:
    """Hears the turn of one prompt that was delivered. Feed every line of the file, from its beginning."""

    def __init__(self, prompt_id: str) -> None:
        self._prompt_id = prompt_id
        # Until everything that was there has been read, a turn may turn out to be an old one.
        self._live = False
        # Whether the prompt was seen: from then on a turn that the healer begins is its continuation.
        self._seen = False
        # Whether this very process was given the prompt: then it comes in this file, and nothing before it is its turn.
        self._given_here = False
        # Whether this process worked on another turn than ours: then the prompt waits behind that one.
        self._waited = False
        # Whether the file has prompts of other people: then what the healer began in it may be theirs.
        self._others = False
        self._turn: _Whose | None = None
        self._heard: list[Heard] = []
        self._spoken = _Spoken()
        self._failure_code = ""
        self._questions: dict[str, None] = {}
        self._cost_usd_before = 0.0

    def feed(self, line: bytes) -> Sequence[Heard]:
        """What is new. Lines that are torn, unknown or of another shape tell nothing."""
        try:
            said = _decode(line)
        except msgspec.DecodeError:
            return ()
        if said.parent_tool_use_id is None:
            self._take(said)
        return self._told()

    def caught_up(self) -> Sequence[Heard]:
        """All that was there has been read: what comes now is new, and the turn that is open now is the newest."""
        self._live = True
        return self._told()

    def given_here(self) -> None:
        """The process that writes this file was given the prompt: what the healer told it before is another turn's."""
        self._given_here = True

    def begin_anew(self) -> bool:
        """Another process goes on in this conversation, with a file of its own; whether our turn may go on there."""
        began = self._turn is not None and self._turn is not _Whose.FOREIGN
        unread = self._given_here and self._waited and not self._seen and not began
        self._seen, self._live = not unread, True
        self._others = self._others or unread
        self._given_here = self._waited = False
        self._turn = None
        self._heard = []
        self._questions.clear()
        self._cost_usd_before = 0.0
        return not unread

    def _take(self, said: _Line) -> None:
        match said.type:
            case "system" if said.subtype == "session_state_changed" and said.state == "running":
                self._begin()
            case "user" if said.is_replay:
                self._begin()
                self._prompted(said)
            case "stream_event" if said.event is not None:
                self._streamed(said.event)
            case "assistant" if said.message is not None:
                self._said(said, said.message)
            case "control_request" if said.request is not None and said.request.subtype == "can_use_tool":
                self._asked(said.request_id, said.request)
            case "control_cancel_request":
                self._settled(said.request_id)
            case "control_response" if said.response is not None:
                self._settled(said.response.request_id)
            case "result":
                self._ended(said)

    def _begin(self) -> None:
        if self._turn is not None:
            return
        self._turn = _Whose.UNKNOWN
        self._heard = [Taken()]
        self._spoken = _Spoken()
        self._failure_code = ""

    def _prompted(self, said: _Line) -> None:
        if said.uuid == self._prompt_id:
            # From here on it is certain, whatever else is in the file.
            self._seen = self._live = True
            self._turn = _Whose.OURS
        elif self._turn is _Whose.UNKNOWN:
            words = said.message.content if said.message is not None else ""
            by_healer = isinstance(words, str) and words.startswith(SPEAKER)
            # Where the file holds no prompt at all but the healer's, it was begun anew while nobody listened.
            goes_on = by_healer and (self._seen or not (self._others or self._given_here))
            self._others = self._others or not by_healer
            self._turn = _Whose.OURS if goes_on else _Whose.FOREIGN
            self._waited = self._waited or not goes_on

    def _streamed(self, event: _Event) -> None:
        begun, delta = event.content_block, event.delta
        if event.type == "content_block_start" and begun is not None and begun.type == "text":
            self._say(self._spoken.begin_block())
        if event.type == "content_block_delta" and delta is not None and delta.type == "text_delta":
            self._say(self._spoken.stream(delta.text))

    def _said(self, said: _Line, message: _Message) -> None:
        if said.error is not None:
            # Not the model's words but the client's, about what went wrong.
            self._failure_code = said.error
            return
        for block in message.content if isinstance(message.content, list) else ():
            if block.type == "text":
                self._say(self._spoken.whole(block.text))

    def _say(self, text: str) -> None:
        self._begin()
        if text:
            self._spoken.text += text
            self._heard.append(Words(text))

    def _asked(self, question_id: str, request: _Request) -> None:
        self._begin()
        self._questions[question_id] = None
        self._heard.append(Asked(question_id, request.tool_name, _shown(request), _call(request)))

    def _settled(self, question_id: str) -> None:
        if question_id in self._questions:
            del self._questions[question_id]
            self._heard.append(Settled(question_id))

    def _ended(self, said: _Line) -> None:
        total = said.total_cost_usd
        spent = _spent(said.usage, None if total is None else total - self._cost_usd_before)
        self._cost_usd_before = total or self._cost_usd_before
        for question_id in list(self._questions):
            self._settled(question_id)
        turn, self._turn = self._turn, None
        if turn is _Whose.FOREIGN or (turn is _Whose.UNKNOWN and not self._live):
            self._heard = []
        elif turn is not None:
            self._heard.append(self._end(said, spent))

    def _end(self, said: _Line, spent: Spent) -> Ended:
        if (said.terminal_reason or "").startswith(_ABORTED):
            return Ended(self._spoken.text, spent=spent, interrupted=True)
        if not said.is_error:
            text = self._spoken.text or said.result or ""
            return Ended(text, spent=spent, stop_reason=said.stop_reason or "")
        words = said.result or " ".join(said.errors)
        return Ended(words, failure_in(words, said.api_error_status, self._failure_code), spent)

    def _told(self) -> Sequence[Heard]:
        """What may be told now; of a turn of somebody else, nothing."""
        if self._turn is _Whose.FOREIGN:
            self._heard = []
        if not self._live:
            return ()
        told, self._heard = self._heard, []
        return told


# Their `description` says what they do, in other words each time. Of other tools it is what they are given.
_DESCRIBED: Final = frozenset({"Bash"})


def _call(request: _Request) -> str:
    """The same for the same call only: its tool and all of its input but what merely describes it."""
    try:
        given = decode_json(bytes(request.input), dict[str, Any])
    except msgspec.DecodeError:
        return ""
    if request.tool_name in _DESCRIBED:
        given.pop("description", None)
    exact = msgspec.json.encode((request.tool_name, given), order="deterministic")
    return sha256(exact).hexdigest()


def _shown(request: _Request) -> str:
    """What is asked for: the call itself first, for what describes it is the model's to write."""
    given, told = bytes(request.input).decode("utf-8", "replace"), request.description or ""
    # Clients mostly repeat what stands in the call anyway.
    call = given if told in given else f"{given} {told}"
    more = len(call) - CALL_CHARS_MAX
    words = plain(redact(call), CALL_CHARS_MAX)
    return words if more <= 0 else f"{words}\n[{more:,} more characters of it are not shown]"


def _spent(usage: _Usage | None, cost_usd: float | None) -> Spent:
    """`total_cost_usd` counts from the start of the process: what this turn cost is what it grew by."""
    counted = usage or _Usage()
    tokens = counted.input_tokens + counted.cache_creation_input_tokens
    return Spent(tokens, counted.output_tokens, cost_usd)
