"""Parses lines of a Codex rollout into events. Pure.

It knows the dialects from 0.142 to 0.166 by shape, not version, and decodes only the fields named here. A
known record that lacks one of them has drifted; a record of an unknown type is skipped and counted, because
formats grow. Codex reports failed calls and turns mostly as text: a call's output begins with header lines up
to `Output:`, and the text after them, which the program wrote, is never taken for an outcome.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any, Final
from zlib import crc32

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType
from msgspec.structs import replace

from wakeful.control.briefs import OWN_PROMPT_PREFIXES
from wakeful.core.decoding import json_decoder
from wakeful.judging import events as e
from wakeful.judging.folding import BACKGROUND_MAX, is_boundary
from wakeful.judging.masking import count_repeated_ends
from wakeful.sources.parsing import (
    conversation_of,
    declared_timeout_seconds,
    kind_of,
    path_in,
    question_of,
    read_undecodable,
    text_of,
    wall_of,
)
from wakeful.sources.turn_failure import status_in, turn_failed_event as failed_turn

# The longest header seen has 130 bytes; a list of parts begins with some more around its first text.
_HEADER_BYTES_MAX: Final = 400
_OUTPUT: Final = b"Output:"
# `Process exited with code 3` or `Exit code: 3`; a single literal, because every output is searched.
_EXIT: Final = re.compile(rb"code:? (-?\d+)")
# The call has returned, but its command goes on in its own terminal.
_STILL_RUNNING: Final = re.compile(rb"Process running with session ID (\d{1,20})")
# Texts of Codex itself. Failures in the output of other tools do not count.
_BROKEN: Final = re.compile(
    rb"(?:Script failed|[a-z]+_[a-z_]+ (?:verification )?failed|failed to parse|unsupported )"
)
_REFUSED: Final = re.compile(
    rb"(?:(?:exec command|patch) rejected by user|(?:Wall time: [\d.]+ seconds\\n)?aborted by user)"
)
# Older dialects put JSON into the string; its quotes are escaped there.
_JSON_FAILED: Final = re.compile(
    rb'\\?"(?:exit_code\\?":\s*-?0*[1-9]|is_?[eE]rror\\?":\s*true|success\\?":\s*false)'
)
_JSON_STARTS: Final = (b'"{', b"{")
# A call returns after this time although its command goes on; 1,207 of 1,419 recorded calls returned sooner.
_YIELD_SECONDS: Final = 10.0
# A patch takes no time: the longest of 100 recorded ones took 0.15 s.
_PATCH_SECONDS_MAX: Final = 5.0
# The tools that start commands. Reading more from a running command needs no permission.
_COMMANDS: Final = frozenset({"exec_command", "shell", "shell_command", "local_shell"})
# The call requests to run outside the sandbox. In a script that calls tools the key has no quotes.
_ESCALATED: Final = re.compile(rb'sandbox_permissions"?\s*:\s*"require_escalated"')


def call_end_event(call: str, output: bytes, at: float) -> e.CallEnded:
    """The end of a call, from the JSON of its output. The result leaves out the parts that always differ."""
    head, separator, _ = output[:_HEADER_BYTES_MAX].partition(_OUTPUT)
    result = output[len(head) :] if separator else output
    exited = _EXIT.search(head) if separator else None
    if exited is not None:
        return e.CallEnded(at, call, int(exited[1]) != 0, result=exited[1] + result)
    goes_on = _STILL_RUNNING.search(head) if separator else None
    if goes_on is not None:
        return e.CallEnded(at, call, result=result, background=goes_on[1].decode())
    # The output is a text or a list of parts.
    opening = head.partition(b'"text":')[2].lstrip(b' "') if head.startswith(b"[") else head.lstrip(b'"')
    refused = _REFUSED.match(opening) is not None
    is_error = not refused and (_BROKEN.match(opening) is not None or _is_json_failure(output))
    return e.CallEnded(at, call, is_error, refused, result)


def _is_json_failure(output: bytes) -> bool:
    if not output.startswith(_JSON_STARTS):
        return False
    edges = output[:_HEADER_BYTES_MAX] + output[-_HEADER_BYTES_MAX:]
    return _JSON_FAILED.search(edges) is not None


def turn_failure_event(message: str, cause: bytes, at: float) -> e.TurnFailed:
    """The failure of a turn, from the text for the person and the client's own cause."""
    code = cause.decode("utf-8", "replace")
    return failed_turn(message, at, status=status_in(f"{message} {code}"), code=code)


class _Usage(Struct, gc=False):
    input_tokens: int = 0
    cached_input_tokens: int = 0
    output_tokens: int = 0


class _TokenCounts(Struct, gc=False):
    total_token_usage: _Usage | None = None
    last_token_usage: _Usage | None = None


class _Item(Struct, gc=False):
    """The item of `item_completed`; its texts and outputs stay undecoded."""

    type: str | UnsetType = UNSET
    id: str = ""
    status: str | None = None
    content: Raw = Raw(b"")
    aggregated_output: Raw = Raw(b"")


class _Part(Struct, gc=False):
    """A part of a message: text, or an image without text."""

    text: str = ""


class _Error(Struct, gc=False):
    message: str = ""
    codex_error_info: Raw = Raw(b"")


class _Payload(Struct, frozen=True, gc=False):
    type: str = ""
    id: str | None = None
    role: str = ""
    content: Raw = Raw(b"")
    name: str = ""
    arguments: Raw | UnsetType = UNSET
    call_id: str | None = None
    output: Raw | UnsetType = UNSET
    input: Raw | UnsetType = UNSET
    action: Raw | UnsetType = UNSET
    message: Raw = Raw(b"")
    last_agent_message: Raw = Raw(b"")
    cwd: str | None = None
    cli_version: str | None = None
    approval_policy: Raw = Raw(b"")
    approvals_reviewer: str | None = None
    item: _Item | UnsetType = UNSET
    error: _Error | None = None
    info: _TokenCounts | None = None
    usage: _Usage | UnsetType = UNSET
    root_turn_id: Raw | UnsetType = UNSET
    turn_attribution: Raw | UnsetType = UNSET
    source: Raw = Raw(b"")


_NO_PAYLOAD: Final = _Payload()


class _Record(Struct, gc=False):
    timestamp: datetime | None = None
    type: str = ""
    payload: _Payload = _NO_PAYLOAD


class _YieldArguments(Struct, gc=False):
    yield_time_ms: float | None = None


_decode: Final = json_decoder(_Record)
_decode_parts: Final = json_decoder(list[_Part])
_decode_yielding: Final = json_decoder(_YieldArguments)

_NESTED: Final = frozenset({"event_msg", "response_item"})
# The field of a call's arguments, and the tool's name if the record has none.
_CALLS: Final[Mapping[str, tuple[str, str]]] = {
    "function_call": ("arguments", ""),
    "custom_tool_call": ("input", ""),
    "local_shell_call": ("action", "local_shell"),
    "tool_search_call": ("arguments", "tool_search"),
}
_SESSION: Final = re.compile(rb'"session_id"\s*:\s*"?(\d{1,20})')
# `codex exec` runs only prompts. Dialects without an attribution of turns say only how the thread began.
_BY_EXEC: Final = re.compile(rb'"turn_trigger"\s*:\s*"exec"')
_EXEC: Final = b'"exec"'
# Codex wakes itself by such a message; the parts of a user message are JSON inside JSON here.
_HEARTBEAT: Final = b"<heartbeat>"
_HEARTBEAT_BYTES_MAX: Final = 200
# Precedes the first of several texts of a person.
_FIRST_TEXT: Final = b'[{"type":"text","text":'
_NO_TEXT: Final = b"[]"
_TEXT_END: Final = b'"}]'
# A boundary line has one of these. Inside texts the quotes are escaped.
_BOUNDARY_WORDS: Final = (b'"user_message"', b'"UserMessage"', b'"task_complete"', b'"turn_aborted"')


class RolloutReader:
    """Reads one rollout. It stores the thread's id, because a fork begins with a copy of another thread's records."""

    def __init__(self) -> None:
        self._thread: str | None = None
        self._total: _Usage | None = None
        self._has_usage_records = False
        self._is_exec = False
        # By call: the commands that went on after it, and the commands that it polls.
        self._running_tasks: dict[str, str] = {}
        self._polled_tasks: dict[str, str] = {}

    def read(self, line: bytes) -> Sequence[e.Event]:
        try:
            record = _decode(line)
        except msgspec.DecodeError as error:
            return read_undecodable(line, error, self.read, _malformed_record)
        payload = record.payload
        read = _NESTED_READERS.get((record.type, payload.type)) or _RECORD_READERS.get(record.type)
        if read is None:
            # Quiet, unknown, or without the fields that say what a record is.
            if not record.type or (record.type in _NESTED and not record.payload.type):
                missing = "payload.type" if record.type else "type"
                return (
                    e.FormatDrifted(
                        0.0, "payload" if record.payload is _NO_PAYLOAD and record.type else missing
                    ),
                )
            key = _key_of(record.type, record.payload.type)
            return () if key in _QUIET else (e.RecordSkipped(0.0, key[:40]),)
        at = wall_of(record.timestamp)
        if at is None:
            return (e.FormatDrifted(0.0, "timestamp"),)
        return read(self, payload, at)

    def is_boundary(self, line: bytes) -> bool:
        if not any(word in line for word in _BOUNDARY_WORDS):
            return False
        return any(is_boundary(event) for event in RolloutReader().read(line))

    def on_session_meta(self, payload: _Payload, at: float) -> Sequence[e.Event]:
        """Only the first record is this thread's own; later ones may be its ancestors'."""
        if payload.id is None:
            return (e.FormatDrifted(at, "session_meta.id"),)
        self._thread = self._thread or payload.id
        if payload.id != self._thread:
            return ()
        self._is_exec = bytes(payload.source) == _EXEC
        return (e.LogOpened(at, conversation_of(payload.id), payload.cwd, payload.cli_version),)

    def on_usage(self, payload: _Payload, at: float) -> Sequence[e.Event]:
        """Dialects with usage records repeat the same figures as counts, which are then ignored."""
        if payload.usage is UNSET:
            return (e.FormatDrifted(at, "token_usage_record.usage"),)
        self._has_usage_records = True
        return (_spent_event(payload.usage, at),)

    def on_token_count(self, payload: _Payload, at: float) -> Sequence[e.Event]:
        """A count is repeated with every change of a rate limit; only a new total is a new message."""
        if self._has_usage_records or payload.info is None or payload.info.total_token_usage == self._total:
            return ()
        self._total = payload.info.total_token_usage
        last = payload.info.last_token_usage
        return (_spent_event(last, at),) if last is not None else ()

    def on_call_end(self, payload: _Payload, at: float) -> Sequence[e.Event]:
        if not payload.call_id or payload.output is UNSET:
            return (e.FormatDrifted(at, f"{payload.type}.{'output' if payload.call_id else 'call_id'}"),)
        ended = call_end_event(payload.call_id, bytes(payload.output), at)
        polled = self._polled_tasks.pop(payload.call_id, None)
        if polled is not None:
            # Polling a running command is no new task; the last answer is the task's end.
            return (replace(ended, background=""),) if ended.background else (ended, e.TaskEnded(at, polled))
        if ended.background:
            _remember(self._running_tasks, payload.call_id, ended.background)
        return (ended,)

    def on_call(self, payload: _Payload, at: float) -> Sequence[e.Event]:
        event = _call_start_event(payload, at)
        if payload.name == "write_stdin" and isinstance(event, e.CallStarted):
            session = _SESSION.search(event.input)
            if session is not None:
                _remember(self._polled_tasks, event.call, session[1].decode())
        return (event,)

    def on_turn_start(self, payload: _Payload, at: float) -> Sequence[e.Event]:
        """The next message shows whether a person asked; none follows for a command typed with `!`, or for `/compact`.

        In dialects that attribute turns, only `/compact` has no attribution.
        """
        attribution = payload.turn_attribution
        if payload.root_turn_id is not UNSET and attribution is UNSET:
            return (e.Prompted(at, by_person=False), e.CompactionStarted(at))
        is_exec = self._is_exec if attribution is UNSET else _BY_EXEC.search(bytes(attribution)) is not None
        return (e.Prompted(at, by_person=False, unasked=not is_exec),)

    def on_item_completed(self, payload: _Payload, at: float) -> Sequence[e.Event]:
        events, item = _item_events(payload, at), payload.item
        task = self._running_tasks.pop(item.id, None) if item is not UNSET else None
        return events if task is None else (*events, e.TaskEnded(at, task))


def texts_in(line: bytes) -> Sequence[e.Said]:
    """The texts of a person and of the agent in one line; none if it cannot be read."""
    try:
        record = _decode(line)
    except msgspec.DecodeError:
        return ()
    at, payload = wall_of(record.timestamp), record.payload
    if at is None:
        return ()
    match _key_of(record.type, payload.type):
        case "response_item.message" if payload.role == "assistant":
            return [e.Said(at, e.Speaker.AGENT, text) for text in _parts_of(payload.content)]
        case "event_msg.user_message":
            return (_prompt_text(text_of(bytes(payload.message)).encode(), at),)
        case "event_msg.item_completed" if payload.item is not UNSET and payload.item.type == "UserMessage":
            return [_prompt_text(text, at) for text in _parts_of(payload.item.content)]
    return ()


def _prompt_text(text: bytes, at: float) -> e.Said:
    by = e.Speaker.WAKEFUL if text.startswith(OWN_PROMPT_PREFIXES) else e.Speaker.PERSON
    return e.Said(at, e.Speaker.CLIENT if _HEARTBEAT in text[:_HEARTBEAT_BYTES_MAX] else by, text)


def _parts_of(content: Raw) -> list[bytes]:
    try:
        return [part.text.encode() for part in _decode_parts(content) if part.text]
    except msgspec.DecodeError:
        return []


def _remember(tasks: dict[str, str], call: str, task: str) -> None:
    if len(tasks) >= BACKGROUND_MAX:
        del tasks[next(iter(tasks))]
    tasks[call] = task


def _key_of(kind: str, nested: str) -> str:
    return f"{kind}.{nested}" if kind in _NESTED else kind


def _malformed_record(record: dict[str, Any], error: msgspec.ValidationError) -> e.Event:
    # Only a record of a type that is read here can drift.
    kind, payload = record.get("type"), record.get("payload")
    if not isinstance(kind, str):
        return e.FormatDrifted(0.0, "type")
    nested = payload.get("type") if isinstance(payload, dict) else None
    key = _key_of(kind, str(nested))
    known = key in _RECORD_READERS or (kind in _NESTED and not isinstance(nested, str))
    return e.FormatDrifted(0.0, path_in(error)) if known else e.RecordSkipped(0.0, key[:40])


def _spent_event(usage: _Usage, at: float) -> e.Event:
    return e.TokensSpent(at, max(0, usage.input_tokens - usage.cached_input_tokens), usage.output_tokens)


def _on_turn_context(_reader: RolloutReader, payload: _Payload, at: float) -> Sequence[e.Event]:
    """Comes before every request, so that a log read from its last turn has its folder and permission mode."""
    events = (e.LogOpened(at, cwd=payload.cwd), e.Progressed(at))
    policy = bytes(payload.approval_policy)
    if not policy:
        return events
    by_person = payload.approvals_reviewer in {None, "user"}
    return (*events, e.PermissionModeSet(at, text_of(policy) if by_person else "auto"))


def _prompt_event(text: Raw, at: float) -> e.Event:
    opening = bytes(text)[:_HEARTBEAT_BYTES_MAX]
    by_wakeful = opening.removeprefix(_FIRST_TEXT)[1:].startswith(OWN_PROMPT_PREFIXES)
    return e.Prompted(at, by_person=_HEARTBEAT not in opening, by_wakeful=by_wakeful)


def _on_progress(_reader: RolloutReader, _payload: _Payload, at: float) -> Sequence[e.Event]:
    return (e.Progressed(at),)


def _on_message(_reader: RolloutReader, payload: _Payload, at: float) -> Sequence[e.Event]:
    """Messages of users and developers are mostly context here; prompts have their own records."""
    if payload.role != "assistant":
        return ()
    text = bytes(payload.content)
    if len(text) <= len(_NO_TEXT):
        return (e.Progressed(at),)
    return (e.Progressed(at, crc32(text), count_repeated_ends(text.removesuffix(_TEXT_END))),)


def _on_compaction(_reader: RolloutReader, _payload: _Payload, at: float) -> Sequence[e.Event]:
    return (e.CompactionEnded(at),)


def _on_turn_end(_reader: RolloutReader, payload: _Payload, at: float) -> Sequence[e.Event]:
    if payload.error is None:
        return (e.TurnEnded(at, asks=question_of(bytes(payload.last_agent_message))),)
    return (turn_failure_event(payload.error.message, bytes(payload.error.codex_error_info), at),)


def _item_events(payload: _Payload, at: float) -> Sequence[e.Event]:
    item = payload.item
    if item is UNSET or item.type is UNSET:
        return (e.FormatDrifted(at, "item_completed.item" if item is UNSET else "item_completed.item.type"),)
    if item.type == "UserMessage":
        return (_prompt_event(item.content, at),)
    if item.type == "Plan":
        return (e.PlanProposed(at),)
    if item.type == "CommandExecution" and item.id and item.status in {"failed", "declined"}:
        refused = item.status == "declined"
        return (e.CallEnded(at, item.id, not refused, refused, bytes(item.aggregated_output)),)
    return (e.Progressed(at),)


def _call_start_event(payload: _Payload, at: float) -> e.Event:
    field, tool = _CALLS[payload.type]
    tool = tool or payload.name
    given = getattr(payload, field)
    if not tool or given is UNSET or not payload.call_id:
        missing = "name" if not tool else field if given is UNSET else "call_id"
        return e.FormatDrifted(at, f"{payload.type}.{missing}")
    # Arguments are JSON in a JSON string, or plain JSON.
    text = bytes(given)
    if text.startswith(b'"'):
        text = text_of(text).encode()
    seconds = declared_timeout_seconds(text)
    limit, escalated = _limit_seconds(tool, text, seconds), _ESCALATED.search(text) is not None
    return e.CallStarted(at, payload.call_id, tool, kind_of(tool), text, seconds, True, limit, escalated)


def _limit_seconds(tool: str, given: bytes, declared_seconds: float | None) -> float | None:
    """The time after which Codex ends a call although its command goes on; None for tools without such a limit."""
    if tool == "apply_patch":
        return _PATCH_SECONDS_MAX
    if tool not in _COMMANDS:
        return None
    return declared_seconds or _yield_seconds(given) or _YIELD_SECONDS


def _yield_seconds(given: bytes) -> float | None:
    if b"yield_time_ms" not in given:
        return None
    try:
        milliseconds = _decode_yielding(given).yield_time_ms
    except msgspec.DecodeError:
        return None
    return milliseconds / 1000 if milliseconds is not None else None


def _on_search_end(_reader: RolloutReader, payload: _Payload, at: float) -> Sequence[e.Event]:
    # Without a result: loop detection does not need the found tools.
    if not payload.call_id:
        return (e.FormatDrifted(at, "tool_search_output.call_id"),)
    return (e.CallEnded(at, payload.call_id),)


_RecordReader = Callable[[RolloutReader, _Payload, float], Sequence[e.Event]]
_RECORD_READERS: Final[Mapping[str, _RecordReader]] = {
    "session_meta": RolloutReader.on_session_meta,
    "turn_context": _on_turn_context,
    "compacted": _on_compaction,
    "token_usage_record": RolloutReader.on_usage,
    "event_msg.task_started": RolloutReader.on_turn_start,
    "event_msg.task_complete": _on_turn_end,
    "event_msg.turn_aborted": lambda _reader, _payload, at: (e.TurnInterrupted(at),),
    "event_msg.user_message": lambda _reader, payload, at: (_prompt_event(payload.message, at),),
    "event_msg.token_count": RolloutReader.on_token_count,
    "event_msg.context_compacted": _on_compaction,
    "event_msg.item_completed": RolloutReader.on_item_completed,
    "event_msg.agent_message": _on_progress,
    "event_msg.agent_reasoning": _on_progress,
    "event_msg.mcp_tool_call_end": _on_progress,
    "event_msg.patch_apply_end": _on_progress,
    "event_msg.web_search_end": _on_progress,
    "event_msg.stream_error": _on_progress,
    "response_item.message": _on_message,
    "response_item.reasoning": _on_progress,
    # Written when the call is over; it has no id for an end.
    "response_item.web_search_call": _on_progress,
    "response_item.function_call": RolloutReader.on_call,
    "response_item.custom_tool_call": RolloutReader.on_call,
    "response_item.local_shell_call": RolloutReader.on_call,
    "response_item.tool_search_call": RolloutReader.on_call,
    "response_item.function_call_output": RolloutReader.on_call_end,
    "response_item.custom_tool_call_output": RolloutReader.on_call_end,
    "response_item.tool_search_output": _on_search_end,
}
# By both types, because joining them for every line would cost more than the lookup.
_NESTED_READERS: Final = {
    (kind, nested): read
    for key, read in _RECORD_READERS.items()
    for kind, _, nested in [key.partition(".")]
    if nested
}
# Known records that say nothing about a turn. The end of a turn repeats its failure.
_QUIET: Final = frozenset(
    {
        "world_state", "event_msg.error", "event_msg.warning", "event_msg.thread_settings_applied",
        "event_msg.thread_rolled_back", "event_msg.plan_update", "event_msg.entered_review_mode",
        "event_msg.exited_review_mode", "event_msg.hook_started", "event_msg.hook_completed",
        "response_item.ghost_snapshot",
    }
)  # fmt: skip
