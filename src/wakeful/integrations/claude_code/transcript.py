"""Reads Claude Code transcripts: parses lines into events, and locates the files.

The parser is pure and knows every dialect from 2.0.76 on by shape, not version. It decodes only the fields
named here. A known record that lacks one of them has drifted; a record of an unknown type is skipped and
counted, because formats grow. Transcripts are at `projects/<folder>/<uuid>.jsonl`, those of subagents in a
folder beside each.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, Final
from zlib import crc32

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from wakeful.control.briefs import OWN_PROMPT_PREFIXES
from wakeful.core.decoding import json_decoder
from wakeful.core.ids import is_uuid
from wakeful.integrations.claude_code.background import (
    NOTIFICATION_BYTES_MAX,
    is_notification,
    task_ended,
    task_ended_by,
    task_left_running,
)
from wakeful.integrations.claude_code.registry import identity_of
from wakeful.judging import events as e
from wakeful.judging.folding import is_boundary
from wakeful.judging.masking import count_repeated_ends
from wakeful.judging.resume_command import project_folder
from wakeful.sources.log_source import LogFormat, LogOwner
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
from wakeful.sources.turn_failure import turn_failed_event


# Fields are in the order in which clients write them: the decoder searches for each key after the last one.
class _Usage(Struct, gc=False):
    input_tokens: int = 0
    cache_creation_input_tokens: int = 0
    cache_read_input_tokens: int = 0
    output_tokens: int = 0

    @property
    def weight(self) -> float:
        """Their relative cost, which is the same in the price list of every model so far."""
        written, read = 1.25 * self.cache_creation_input_tokens, 0.1 * self.cache_read_input_tokens
        return self.input_tokens + written + read + 5.0 * self.output_tokens


class _Budget(Struct, gc=False):
    used: float
    total: float


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
    permission_mode: str | None = None
    entrypoint: str | None = None
    is_meta: bool = False
    is_compact_summary: bool = False
    is_api_error_message: bool = False
    error: Raw = Raw(b"")
    api_error_status: int | None = None
    content: Raw = Raw(b"")
    attachment: Raw = Raw(b"")
    prompt_source: Raw = Raw(b"")
    tool_use_result: Raw = Raw(b"")
    tool_ends_turn: Raw = Raw(b"")
    mcp_meta: Raw = Raw(b"")
    data: Raw = Raw(b"")


_decode: Final = json_decoder(_Record)

_FILE_TOOLS: Final = frozenset({"Edit", "MultiEdit", "NotebookEdit", "Read", "Write"})
# In modes that ask nothing about files the longest of 106 recorded calls took 1.0 s.
_FILE_SECONDS_MAX: Final = 5.0
# Claude Code ends a Bash call that declared nothing after two minutes, and any after ten.
_BASH_TIMEOUT_SECONDS: Final = 120.0
_BASH_SECONDS_MAX: Final = 600.0
# `claude -p` and its stream: permission questions are refused, or asked on the stream.
_HEADLESS_ENTRY: Final = "sdk-cli"
_INTERRUPTED: Final = b"[Request interrupted by user"
# Calls that never ran: a person refused, or another call of the same message failed.
_REFUSED: Final = re.compile(
    rb"The user doesn't want to (?:proceed with this tool use|take this action)|<tool_use_error>Sibling tool call errored"
    # The text of Wakeful's driver for a refusal; a test compares the two.
    rb"|A person refused this\."
)
_REFUSAL_BYTES_MAX: Final = 200
# Typed by a person or written by the client, but for the client itself: no turn follows.
_LOCAL: Final = (
    b"<command-",
    b"<local-command-",
    b"<bash-input>",
    b"<bash-stdout>",
    b"<bash-stderr>",
    b"Caveat: ",
)
# A command of the client, or of its shell mode, as a person typed it.
_TYPED: Final = re.compile(
    r"\A.{0,400}?<command-name>\s*([^<]{1,200})</command-name>|\A<bash-input>([^<]{1,4000})", re.DOTALL
)
# The client closes a turn that was cut off with this message of its own, at the first prompt after a resume.
_CUT_OFF_CLOSED: Final = b'"No response requested."'
# Names a skill or a command. The client's next record has its text, which is the prompt of a turn.
_COMMAND: Final = b"<command-message>"
# A hook refused the end of the turn, or the answer to a schema is missing: the model gets another request.
_STOP_REFUSED: Final = (b"Stop hook feedback:", b"[structured-output-enforce]")
# The client writes this in place of a prompt that a hook stopped.
_STOPPED_BY_HOOK: Final = b"Operation stopped by hook"
# An answer did not fit its schema. After five of them, or as many as configured, the client gives up without a record.
_SCHEMA_MISMATCH: Final = b'"Output does not match required schema'
_SCHEMA_FAILURES_MAX: Final = 5
_NOWHERE: Final = (b"", b"null")
_SESSION_START: Final = b'"SessionStart"'
# Enough to recognize any of the above.
_OPENING_MAX: Final = NOTIFICATION_BYTES_MAX
_FINAL_STOPS: Final = frozenset({"end_turn", "stop_sequence", "refusal"})
# Dialects without other stop reasons have this one, for the client's own messages.
_CLIENTS_STOP: Final = "stop_sequence"
# A server may put this beside its result.
_END_TURN: Final = re.compile(rb'"claude/endTurn": ?true')
_BUDGET: Final = re.compile(rb'\{"type": ?"budget_usd"')
_decode_budget: Final = json_decoder(_Budget)
# The run's own limit or a hook ended the run.
_LIMIT_REACHED: Final = re.compile(rb'\{"type": ?"(?:max_turns_reached|hook_stopped_continuation)"')

# Known records that say nothing about a turn, with the exceptions in `_side_record_events`.
_QUIET: Final = frozenset(
    {
        "agent-color", "agent-name", "agent-setting", "ai-title", "attachment", "attribution-snapshot",
        "bridge-session", "content-replacement", "custom-title", "file-history-snapshot", "fork-context-ref",
        "mode", "pr-link", "queue-operation", "summary", "tag",
        "worktree-state",
    }
)  # fmt: skip


class TranscriptReader:
    """Reads one transcript. It stores the last message id, because every block of a message repeats its usage."""

    def __init__(self) -> None:
        self._counted_message = ""
        self._header: tuple[str | None, str | None, str | None] = (None, None, None)
        # The previous record named a command; a hook refused the turn's end.
        self._after_command = self._stop_refused = False
        self._mode: str | None = None
        # How many answers in a row did not fit their schema, and the failure if the turn ends with the last one.
        self._schema_failures = 0
        self._last_schema_failure: e.TurnFailed | None = None

    def read(self, line: bytes) -> Sequence[e.Event]:
        try:
            record = _decode(line)
        except msgspec.DecodeError as error:
            return read_undecodable(line, error, self.read, _malformed_record)
        read = _RECORD_READERS.get(record.type)
        if read is None:
            if record.type == "permission-mode":
                return self._permission_mode_events(record, 0.0)
            if record.type == "last-prompt":
                return (*self._take_schema_failure(), e.LogClosed(0.0))
            return _side_record_events(record) if record.type in _QUIET else (_unknown(record.type),)
        at = wall_of(record.timestamp)
        if at is None:
            return (e.FormatDrifted(0.0, "timestamp"),)
        if record.is_sidechain:
            events: Sequence[e.Event] = (e.Progressed(at),)
        else:
            events = self._in_context(record, read(record, at), at)
            if (message := record.message) is not None and message.usage is not None:
                events = self._with_usage(events, message.id, message.usage, at)
        if record.permission_mode is not None:
            events = (*self._permission_mode_events(record, at), *events)
        header = (record.session_id, record.cwd, record.version)
        if header == self._header:
            return events
        self._header = header
        opened = e.LogOpened(at, conversation_of(record.session_id), record.cwd, record.version)
        return (opened, *events)

    def _in_context(self, record: _Record, events: Sequence[e.Event], at: float) -> Sequence[e.Event]:
        """The events of a record, given the record before it."""
        if record.type == "user":
            commanded, self._after_command = self._after_command, False
            if not events and not record.is_compact_summary:
                # The client's own text is a prompt after a command, from its queue, or after a hook refused
                # the end.
                opening = _opening(record)
                if not record.is_meta:
                    self._after_command = opening.startswith(_COMMAND)
                    return ()
                self._stop_refused = opening.startswith(_STOP_REFUSED)
                queued = bytes(record.prompt_source) not in _NOWHERE and not opening.startswith(_LOCAL)
                is_prompt = commanded or queued or self._stop_refused
                return (e.Prompted(at, by_person=commanded),) if is_prompt else ()
            return self._count_schema_failures(events, at)
        if record.type == "assistant":
            self._after_command = self._stop_refused = False
        elif record.subtype == "stop_hook_summary" and self._stop_refused:
            self._stop_refused = False
            return ()
        return events

    def _count_schema_failures(self, events: Sequence[e.Event], at: float) -> Sequence[e.Event]:
        """Count the answers that did not fit their schema: after the most that the client accepts, the turn fails."""
        ended = next((event for event in events if isinstance(event, e.CallEnded)), None)
        if ended is None or not (ended.is_error and ended.result.startswith(_SCHEMA_MISMATCH)):
            self._schema_failures, self._last_schema_failure = 0, None
            return events
        self._schema_failures += 1
        self._last_schema_failure = e.TurnFailed(at, e.Failure.REQUEST, text_of(ended.result))
        if self._schema_failures < _SCHEMA_FAILURES_MAX:
            return events
        return (*events, *self._take_schema_failure())

    def _take_schema_failure(self) -> Sequence[e.Event]:
        """The failure by schema mismatches, which the client does not log; reported once."""
        failed, self._schema_failures, self._last_schema_failure = self._last_schema_failure, 0, None
        return (failed,) if failed is not None else ()

    def is_boundary(self, line: bytes) -> bool:
        # Cheap checks first: marks between messages and results of calls never begin a turn.
        if b'"user"' not in line and b'"assistant"' not in line:
            return False
        if b'"tool_result"' in line or b'"thinking"' in line or b'"tool_use"' in line:
            return False
        return any(is_boundary(event) for event in TranscriptReader().read(line))

    def _permission_mode_events(self, record: _Record, at: float) -> Sequence[e.Event]:
        # A person can change the mode in the middle of a turn.
        mode = e.HEADLESS if record.entrypoint == _HEADLESS_ENTRY else record.permission_mode
        if mode is None or mode == self._mode:
            return ()
        self._mode = mode
        return (e.PermissionModeSet(at, mode),)

    def _with_usage(
        self, events: Sequence[e.Event], message_id: str, usage: _Usage, at: float
    ) -> Sequence[e.Event]:
        if message_id == self._counted_message:
            return events
        self._counted_message = message_id
        tokens = usage.input_tokens + usage.cache_creation_input_tokens
        return (*events, e.TokensSpent(at, tokens, usage.output_tokens, usage.weight))


def calls_in(line: bytes, at: float) -> list[e.CallStarted]:
    """The calls that a message of the agent begins, in a transcript or on a stream; none if it cannot be read."""
    try:
        record = _decode(line)
    except msgspec.DecodeError:
        return []
    return [event for event in _assistant(record, at) if isinstance(event, e.CallStarted)]


def texts_in(line: bytes) -> Sequence[e.Said]:
    """The texts of a person, the agent and the client in one line; none if it cannot be read."""
    if b'"text"' not in line and b'"content":"' not in line and b'"content": "' not in line:
        return ()
    try:
        record = _decode(line)
    except msgspec.DecodeError:
        return ()
    at, message = wall_of(record.timestamp), record.message
    if at is None or message is None or message.content is UNSET or record.type not in {"user", "assistant"}:
        return ()
    if record.is_sidechain or record.is_meta or record.is_compact_summary or record.is_api_error_message:
        return ()
    blocks = message.content
    if isinstance(blocks, str):
        texts = [blocks]
    elif any(block.type == "tool_result" for block in blocks):
        return ()  # text beside results is the client's
    else:
        texts = [text_of(bytes(block.text)) for block in blocks if block.type == "text"]
    if record.type == "assistant":
        return [e.Said(at, e.Speaker.AGENT, text.encode()) for text in texts if text.strip()]
    return [said for text in texts if (said := _text_of_user(text, at)) is not None]


def _text_of_user(text: str, at: float) -> e.Said | None:
    """What a person typed, also as a command of the client; Wakeful and the client write such records as well."""
    opening = text[:_OPENING_MAX].encode()
    if opening.startswith(_INTERRUPTED):  # an event of its own
        return None
    if (typed := _TYPED.search(text)) is not None:
        return e.Said(at, e.Speaker.PERSON, (typed[1] or f"! {typed[2]}").encode())
    if opening.startswith(_LOCAL):
        return None
    by = e.Speaker.WAKEFUL if opening.startswith(OWN_PROMPT_PREFIXES) else e.Speaker.PERSON
    return e.Said(at, e.Speaker.CLIENT if is_notification(opening) else by, text.encode())


def _side_record_events(record: _Record) -> Sequence[e.Event]:
    """The events of records between messages, of which few are about a turn: a task's end, a reached limit, a budget."""
    if record.type == "queue-operation" and (at := wall_of(record.timestamp)) is not None:
        return task_ended(bytes(record.content)[1:], at)
    if record.type == "attachment" and not record.is_sidechain:
        at = wall_of(record.timestamp)
        return _attachment_events(bytes(record.attachment), at) if at is not None else ()
    return ()


def _attachment_events(attachment: bytes, at: float) -> Sequence[e.Event]:
    if _LIMIT_REACHED.match(attachment) is not None:
        return (e.TurnEnded(at, by_mark=True),)
    if _BUDGET.match(attachment) is None:
        return ()
    try:
        budget = _decode_budget(attachment)
    except msgspec.DecodeError:  # a turn can be judged without it
        return (e.RecordSkipped(0.0, "attachment.budget_usd"),)
    return (e.BudgetReported(at, budget.used, budget.total),)


def _unknown(kind: object) -> e.Event:
    return e.RecordSkipped(0.0, kind[:40]) if isinstance(kind, str) else e.FormatDrifted(0.0, "type")


def _malformed_record(record: dict[str, Any], error: msgspec.ValidationError) -> e.Event:
    # Only a record of a type that is read here can drift.
    kind = record.get("type")
    known = isinstance(kind, str) and kind in _RECORD_READERS
    return e.FormatDrifted(0.0, path_in(error)) if known else _unknown(kind)


def _user(record: _Record, at: float) -> Sequence[e.Event]:
    if record.message is None or record.message.content is UNSET:
        missing = "user.message" if record.message is None else "user.message.content"
        return (e.FormatDrifted(at, missing),)
    if record.is_compact_summary:
        return (e.CompactionEnded(at),)
    content = record.message.content
    if isinstance(content, str):
        return _user_text_events(content[:_OPENING_MAX].encode(), at, is_meta=record.is_meta)
    events = _user_blocks(record, content, at)
    # The result is the turn's end, for example the answer of a run with a schema.
    is_end = bytes(record.tool_ends_turn) == b"true" or _END_TURN.search(bytes(record.mcp_meta)) is not None
    failed = any(block.is_error for block in content)
    return (*events, e.TurnEnded(at)) if is_end and not failed else events


def _opening(record: _Record) -> bytes:
    content = record.message.content if record.message is not None else UNSET
    if isinstance(content, str):
        return content[:_OPENING_MAX].encode()
    blocks = content if isinstance(content, list) else []
    text = next((block.text for block in blocks if block.type == "text"), Raw(b""))
    return bytes(text)[1:_OPENING_MAX]


def _user_text_events(opening: bytes, at: float, *, is_meta: bool) -> Sequence[e.Event]:
    if opening.startswith(_INTERRUPTED):
        return (e.TurnInterrupted(at),)
    if is_meta or opening.startswith(_LOCAL):
        return ()
    if opening.startswith(_STOPPED_BY_HOOK):
        return (e.TurnEnded(at, by_mark=True),)
    if is_notification(opening):
        return (*task_ended(opening, at), e.Prompted(at, by_person=False))
    return (e.Prompted(at, by_wakeful=opening.startswith(OWN_PROMPT_PREFIXES)),)


def _user_blocks(record: _Record, blocks: list[_Block], at: float) -> list[e.Event]:
    events: list[e.Event] = []
    others: list[_Block] = []
    for block in blocks:
        if block.type == "tool_result":
            events += _call_end_events(block, bytes(record.tool_use_result), at)
        else:
            others.append(block)
    # Text beside results is the client's, not a prompt; it can still report an interrupted turn.
    is_meta = record.is_meta or bool(events)
    for block in others:
        if block.type == "text":
            events += _text_block_events(block, at, is_meta=is_meta)
        elif block.type is UNSET:
            events.append(e.FormatDrifted(at, "user.message.content.type"))
    return events


def _text_block_events(block: _Block, at: float, *, is_meta: bool) -> Sequence[e.Event]:
    text = bytes(block.text)
    if not text:
        return (e.FormatDrifted(at, "user.message.content.text"),)
    return _user_text_events(text[1:_OPENING_MAX], at, is_meta=is_meta)


def _call_end_events(block: _Block, result: bytes, at: float) -> Sequence[e.Event]:
    if block.tool_use_id is UNSET:
        return (e.FormatDrifted(at, "tool_result.tool_use_id"),)
    content = bytes(block.content)
    is_error = block.is_error is True
    refused = is_error and _REFUSED.search(content, 0, _REFUSAL_BYTES_MAX) is not None
    background = "" if is_error else task_left_running(result, content)
    ended = e.CallEnded(at, block.tool_use_id, is_error, refused, content, background=background)
    task = "" if is_error or background else task_ended_by(result)
    return (ended, e.TaskEnded(at, task)) if task else (ended,)


def _assistant(record: _Record, at: float) -> Sequence[e.Event]:
    message = record.message
    if message is None or not isinstance(message.content, list):
        missing = "assistant.message" if message is None else "assistant.message.content"
        return (e.FormatDrifted(at, missing),)
    if record.is_api_error_message:
        text = " ".join(text_of(bytes(block.text)) for block in message.content)
        code = bytes(record.error).decode("utf-8", "replace").strip('"')
        return (turn_failed_event(text, at, status=record.api_error_status, code=code),)
    if message.stop_reason == _CLIENTS_STOP and any(
        bytes(each.text) == _CUT_OFF_CLOSED for each in message.content
    ):
        return ()
    if message.stop_reason is UNSET:
        return (e.FormatDrifted(at, "assistant.message.stop_reason"),)
    if len(message.content) == 1:  # as clients write them
        return (_assistant_block(message.content[0], message, at),)
    return [_assistant_block(block, message, at) for block in message.content]


def _assistant_block(block: _Block, message: _Message, at: float) -> e.Event:
    if block.type == "tool_use":
        return _call_start_event(block, message.id, at)
    if block.type == "text":
        return _text(message.stop_reason or None, bytes(block.text), at)
    if block.type is UNSET:
        return e.FormatDrifted(at, "assistant.message.content.type")
    return e.Progressed(at)


def _text(stop_reason: str | None, text: bytes, at: float) -> e.Event:
    text_key = crc32(text)
    if stop_reason in _FINAL_STOPS:
        ending_key = text_key if stop_reason != _CLIENTS_STOP else 0
        return e.TurnEnded(at, words=ending_key, asks=question_of(text))
    echoes = count_repeated_ends(text)
    if stop_reason == "tool_use":
        return e.Progressed(at, text_key, echoes)
    return e.TextWritten(at, text_key, echoes, question_of(text))


def _call_start_event(block: _Block, message: str, at: float) -> e.Event:
    if block.id is UNSET or block.name is UNSET or block.input is UNSET:
        missing = next(name for name in ("id", "name", "input") if getattr(block, name) is UNSET)
        return e.FormatDrifted(at, f"tool_use.{missing}")
    given, kind = bytes(block.input), kind_of(block.name)
    seconds = declared_timeout_seconds(given)
    limit = _FILE_SECONDS_MAX if block.name in _FILE_TOOLS else None
    if block.name == "Bash":
        seconds = _BASH_TIMEOUT_SECONDS if seconds is None else seconds
        limit = min(seconds, _BASH_SECONDS_MAX)
    return e.CallStarted(
        at, block.id, block.name, kind, given, seconds, enforced=True, limit_seconds=limit, message=message
    )


def _system(record: _Record, at: float) -> Sequence[e.Event]:
    if not record.subtype:
        return (e.FormatDrifted(at, "system.subtype"),)
    if record.subtype in {"turn_duration", "stop_hook_summary"}:
        return (e.TurnEnded(at, by_mark=True),)
    if record.subtype.endswith("compact_boundary"):
        return (e.CompactionEnded(at),)
    return (e.RequestRetried(at),) if record.subtype == "api_error" else ()


def _progress(record: _Record, at: float) -> Sequence[e.Event]:
    # Hooks that run at the start of a session are no progress: there is no prompt yet.
    return () if _SESSION_START in bytes(record.data)[:_OPENING_MAX] else (e.Progressed(at),)


_RecordReader = Callable[[_Record, float], Sequence[e.Event]]
_RECORD_READERS: Final[Mapping[object, _RecordReader]] = {
    "user": _user,
    "assistant": _assistant,
    "system": _system,
    "progress": _progress,
}


def claude_logs(config_folders: tuple[Path, ...], host: str) -> LogFormat:
    """The transcripts below these configuration folders (`~/.claude` by default)."""

    def owner(parts: tuple[str, ...]) -> LogOwner | None:
        # Called for every log, so the common case comes first.
        if len(parts) == 2:
            conversation = parts[1].removesuffix(".jsonl")
            return LogOwner(identity_of(conversation, host, parts[0])) if is_uuid(conversation) else None
        match parts:
            case (folder, conversation, "subagents", _) if is_uuid(conversation):
                return LogOwner(identity_of(conversation, host, folder), side=True)
        return None

    return LogFormat(
        name="claude-transcripts",
        roots=tuple(folder / "projects" for folder in config_folders),
        suffix=".jsonl",
        depth_max=4,
        owner=owner,
        reader=TranscriptReader,
        folder_of=project_folder,
        texts=texts_in,
    )
