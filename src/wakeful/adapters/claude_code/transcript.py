"""One line of a Claude Code transcript to events. Pure; knows every dialect from 2.0.76 on by shape, not version.

Only the fields named here are decoded. A known record that lacks one of them has drifted; a record of an
unknown type is skipped and counted, for formats grow.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any, Final
from zlib import crc32

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from wakeful.adapters.call_kinds import kind_of
from wakeful.adapters.limit_end import limit_end_in
from wakeful.adapters.shapes import (
    UNREADABLE,
    conversation_of,
    declared_timeout_seconds,
    path_in,
    read_strange,
    text_of,
)
from wakeful.adapters.stamps import wall_of
from wakeful.domain import events as e
from wakeful.domain.activity import is_boundary
from wakeful.domain.echoes import echoes_in


# Fields stand in the order clients write them: the decoder looks for the next key behind the last one.
class _Usage(Struct, gc=False):
    input_tokens: int = 0
    cache_creation_input_tokens: int = 0
    output_tokens: int = 0


class _Block(Struct, gc=False):
    tool_use_id: str | UnsetType = UNSET
    type: str | UnsetType = UNSET
    id: str | UnsetType = UNSET
    name: str | UnsetType = UNSET
    input: Raw | UnsetType = UNSET
    text: Raw = Raw(b"")
    content: Raw = Raw(b"")
    is_error: bool | None = None


class _Message(Struct, gc=False):
    id: str = ""
    content: str | list[_Block] | UnsetType = UNSET
    stop_reason: str | UnsetType | None = UNSET
    usage: _Usage | None = None


class _Record(Struct, gc=False, rename="camel"):
    is_sidechain: bool = False
    cwd: str | None = None
    session_id: str | None = None
    version: str | None = None
    type: str | UnsetType = UNSET
    message: _Message | None = None
    subtype: str = ""
    timestamp: datetime | None = None
    is_meta: bool = False
    is_compact_summary: bool = False
    is_api_error_message: bool = False
    error: Raw = Raw(b"")
    api_error_status: int | None = None
    content: Raw = Raw(b"")


_decode: Final = msgspec.json.Decoder(_Record).decode

_INSTANT_TOOLS: Final = frozenset({"Edit", "MultiEdit", "NotebookEdit", "Read", "Write"})
# Claude Code ends a Bash call that declared nothing after two minutes.
_BASH_TIMEOUT_SECONDS: Final = 120.0
_INTERRUPTED: Final = b"[Request interrupted by user"
# Calls that never ran: a person said no, or another call of the same message failed.
_REFUSED: Final = re.compile(
    rb"The user doesn't want to (?:proceed with this tool use|take this action)|<tool_use_error>Sibling tool call errored"
    # What our own driver says for a person; its test holds the two together.
    rb"|A person refused this\."
)
_REFUSAL_BYTES_MAX: Final = 200
# Typed by a person or written by the client, but addressed to the client: no turn follows.
_LOCAL: Final = (
    b"<command-",
    b"<local-command-",
    b"<bash-input>",
    b"<bash-stdout>",
    b"<bash-stderr>",
    b"Caveat: ",
)
_NOTIFICATION: Final = b"<task-notification>"
_TASK: Final = re.compile(rb"<task-id>([\w-]{1,40})<")
# What a call says that came back although its command or its agent goes on.
_GOES_ON: Final = re.compile(
    rb'(?:"Command [^"]{0,100}? with ID: |\[\{"type": ?"text", ?"text": ?"Async agent [^"]{0,60}?agentId: )'
    rb"([\w-]{1,40})"
)
# Enough to know any of the above by.
_OPENING_MAX: Final = 64
_FINAL_STOPS: Final = frozenset({"end_turn", "stop_sequence", "refusal"})

FAILURES: Final[Mapping[str, e.Failure]] = {
    "authentication_failed": e.Failure.AUTH,
    "oauth_org_not_allowed": e.Failure.AUTH,
    "billing_error": e.Failure.LIMIT,
    "rate_limit": e.Failure.LIMIT,
    "overloaded": e.Failure.PROVIDER,
    "server_error": e.Failure.PROVIDER,
    "invalid_request": e.Failure.REQUEST,
    "model_not_found": e.Failure.REQUEST,
    "max_output_tokens": e.Failure.REQUEST,
}
_AUTH_WORDS: Final = ("invalid api key", "please run /login", "failed to authenticate", "not logged in")
# The status of the provider's answer, as the sentence says it.
_STATUS: Final = re.compile(r"api error:? \(?([45]\d\d)\b")
_LIMIT_WORDS: Final = ("usage limit", "limit reached", "hit your limit", "credit balance")

# Records that are known and say nothing about a turn.
_QUIET: Final = frozenset(
    {
        "agent-color", "agent-name", "agent-setting", "ai-title", "attachment", "attribution-snapshot",
        "bridge-session", "content-replacement", "custom-title", "file-history-snapshot", "fork-context-ref",
        "last-prompt", "mode", "permission-mode", "pr-link", "queue-operation", "summary", "tag",
        "worktree-state",
    }
)  # fmt: skip


class TranscriptReader:
    """Reads one transcript. Remembers the last message id, for every block of a message repeats its usage."""

    def __init__(self) -> None:
        self._counted_message = ""
        self._header: tuple[str | None, str | None, str | None] = (None, None, None)

    def read(self, line: bytes) -> Sequence[e.Event]:
        try:
            record = _decode(line)
        except UNREADABLE as error:
            return read_strange(line, error, self.read, _misshapen)
        read = _READS.get(record.type)
        if read is None:
            return _quiet(record) if record.type in _QUIET else (_unknown(record.type),)
        at = wall_of(record.timestamp)
        if at is None:
            return (e.Drifted(0.0, "timestamp"),)
        events = (e.Progressed(at),) if record.is_sidechain else read(record, at)
        message = record.message
        if message is not None and message.usage is not None and not record.is_sidechain:
            events = self._counted(events, message.id, message.usage, at)
        header = (record.session_id, record.cwd, record.version)
        if header == self._header:
            return events
        self._header = header
        opened = e.Opened(at, conversation_of(record.session_id), record.cwd, record.version)
        return (opened, *events)

    def is_boundary(self, line: bytes) -> bool:
        # Cheap looks first: marks between messages and the results of calls never begin a turn.
        if b'"user"' not in line and b'"assistant"' not in line:
            return False
        if b'"tool_result"' in line or b'"thinking"' in line or b'"tool_use"' in line:
            return False
        return any(is_boundary(event) for event in TranscriptReader().read(line))

    def _counted(
        self, events: Sequence[e.Event], message_id: str, usage: _Usage, at: float
    ) -> Sequence[e.Event]:
        """The events with the tokens of their message, if it was not counted yet."""
        if message_id == self._counted_message:
            return events
        self._counted_message = message_id
        tokens = usage.input_tokens + usage.cache_creation_input_tokens
        return (*events, e.Spent(at, tokens, usage.output_tokens))


def calls_in(line: bytes, at: float) -> list[e.CallStarted]:
    """The calls that a message of the agent's begins, in a transcript or on a stream; none in what cannot be read."""
    try:
        record = _decode(line)
    except UNREADABLE:
        return []
    return [event for event in _assistant(record, at) if isinstance(event, e.CallStarted)]


def _quiet(record: _Record) -> Sequence[e.Event]:
    """Of the records that tell nothing of a turn one tells of a background task: the queued word of its end."""
    at = wall_of(record.timestamp) if record.type == "queue-operation" else None
    return _task_ended(bytes(record.content)[1:_OPENING_MAX], at) if at is not None else ()


def _task_ended(opening: bytes, at: float) -> Sequence[e.Event]:
    task = _TASK.search(opening) if opening.startswith(_NOTIFICATION) else None
    return (e.TaskEnded(at, task[1].decode()),) if task is not None else ()


def _unknown(kind: object) -> e.Event:
    return e.Skipped(0.0, kind[:40]) if isinstance(kind, str) else e.Drifted(0.0, "type")


def _misshapen(record: dict[str, Any], error: msgspec.ValidationError) -> e.Event:
    """Only a record we would have read can drift."""
    kind = record.get("type")
    known = isinstance(kind, str) and kind in _READS
    return e.Drifted(0.0, path_in(error)) if known else _unknown(kind)


def _user(record: _Record, at: float) -> Sequence[e.Event]:
    if record.message is None or record.message.content is UNSET:
        missing = "user.message" if record.message is None else "user.message.content"
        return (e.Drifted(at, missing),)
    if record.is_compact_summary:
        return (e.Compacted(at),)
    content = record.message.content
    if isinstance(content, str):
        return _said(content[:_OPENING_MAX].encode(), at, is_meta=record.is_meta)
    return _user_blocks(content, at, is_meta=record.is_meta)


def _said(opening: bytes, at: float, *, is_meta: bool) -> Sequence[e.Event]:
    """What a person's message does, by its first words."""
    if opening.startswith(_INTERRUPTED):
        return (e.TurnInterrupted(at),)
    if is_meta or opening.startswith(_LOCAL):
        return ()
    if opening.startswith(_NOTIFICATION):
        return (*_task_ended(opening, at), e.Prompted(at, by_person=False))
    return (e.Prompted(at),)


def _user_blocks(blocks: list[_Block], at: float, *, is_meta: bool) -> Sequence[e.Event]:
    events: list[e.Event] = []
    others: list[_Block] = []
    for block in blocks:
        if block.type == "tool_result":
            events.append(_call_ended(block, at))
        else:
            others.append(block)
    # Text beside results is the client's, not a prompt; it can still say that the turn was cut.
    is_meta = is_meta or bool(events)
    for block in others:
        if block.type == "text":
            events += _text_said(block, at, is_meta=is_meta)
        elif block.type is UNSET:
            events.append(e.Drifted(at, "user.message.content.type"))
    return events


def _text_said(block: _Block, at: float, *, is_meta: bool) -> Sequence[e.Event]:
    text = bytes(block.text)
    if not text:
        return (e.Drifted(at, "user.message.content.text"),)
    return _said(text[1:_OPENING_MAX], at, is_meta=is_meta)


def _call_ended(block: _Block, at: float) -> e.Event:
    if block.tool_use_id is UNSET:
        return e.Drifted(at, "tool_result.tool_use_id")
    content = bytes(block.content)
    is_error = block.is_error is True
    refused = is_error and _REFUSED.search(content, 0, _REFUSAL_BYTES_MAX) is not None
    goes_on = None if is_error else _GOES_ON.match(content)
    background = goes_on[1].decode() if goes_on is not None else ""
    return e.CallEnded(at, block.tool_use_id, is_error, refused, content, background=background)


def _assistant(record: _Record, at: float) -> Sequence[e.Event]:
    message = record.message
    if message is None or not isinstance(message.content, list):
        missing = "assistant.message" if message is None else "assistant.message.content"
        return (e.Drifted(at, missing),)
    if record.is_api_error_message:
        return (_turn_failed(record, message.content, at),)
    if message.stop_reason is UNSET:
        return (e.Drifted(at, "assistant.message.stop_reason"),)
    if len(message.content) == 1:  # as clients write them
        return (_assistant_block(message.content[0], message.stop_reason, at),)
    return [_assistant_block(block, message.stop_reason, at) for block in message.content]


def _assistant_block(block: _Block, stop_reason: str | None, at: float) -> e.Event:
    if block.type == "tool_use":
        return _call_started(block, at)
    if block.type == "text":
        return _text(stop_reason, bytes(block.text), at)
    if block.type is UNSET:
        return e.Drifted(at, "assistant.message.content.type")
    return e.Progressed(at)


def _text(stop_reason: str | None, text: bytes, at: float) -> e.Event:
    words = crc32(text)
    if stop_reason in _FINAL_STOPS:
        return e.TurnEnded(at, words=words)
    echoes = echoes_in(text)
    return e.Progressed(at, words, echoes) if stop_reason == "tool_use" else e.Spoke(at, words, echoes)


def _call_started(block: _Block, at: float) -> e.Event:
    if block.id is UNSET or block.name is UNSET or block.input is UNSET:
        missing = next(name for name in ("id", "name", "input") if getattr(block, name) is UNSET)
        return e.Drifted(at, f"tool_use.{missing}")
    given = bytes(block.input)
    seconds, kind = _timeout_seconds(block.name, given), kind_of(block.name)
    return e.CallStarted(at, block.id, block.name, kind, given, seconds, True, block.name in _INSTANT_TOOLS)


def _timeout_seconds(tool: str, given: bytes) -> float | None:
    declared = declared_timeout_seconds(given)
    return _BASH_TIMEOUT_SECONDS if declared is None and tool == "Bash" else declared


def _turn_failed(record: _Record, blocks: list[_Block], at: float) -> e.Event:
    text = " ".join(text_of(bytes(block.text)) for block in blocks)
    code = bytes(record.error).decode("utf-8", "replace").strip('"')
    failure = failure_of(code, text, record.api_error_status)
    return e.TurnFailed(at, failure, text, record.api_error_status, limit_end_in(text, at))


def failure_of(code: str, text: str, status: int | None) -> e.Failure:
    """Why a turn failed. Older dialects give no code, only the sentence shown to the person."""
    if code in FAILURES:
        return FAILURES[code]
    lower = text.lower()
    if status is None and (stated := _STATUS.search(lower)) is not None:
        status = int(stated[1])
    if status in {401, 403} or any(words in lower for words in _AUTH_WORDS):
        return e.Failure.AUTH
    if status == 429 or any(words in lower for words in _LIMIT_WORDS):
        return e.Failure.LIMIT
    if status is not None and 400 <= status < 500:
        return e.Failure.REQUEST
    return e.Failure.PROVIDER if lower.startswith("api error") else e.Failure.UNKNOWN


def _system(record: _Record, at: float) -> Sequence[e.Event]:
    if not record.subtype:
        return (e.Drifted(at, "system.subtype"),)
    if record.subtype in {"turn_duration", "stop_hook_summary"}:
        return (e.TurnEnded(at, by_mark=True),)
    if record.subtype.endswith("compact_boundary"):
        return (e.Compacted(at),)
    return (e.Retried(at),) if record.subtype == "api_error" else ()


def _progress(_record: _Record, at: float) -> Sequence[e.Event]:
    return (e.Progressed(at),)


_Read = Callable[[_Record, float], Sequence[e.Event]]
_READS: Final[Mapping[object, _Read]] = {
    "user": _user,
    "assistant": _assistant,
    "system": _system,
    "progress": _progress,
}
