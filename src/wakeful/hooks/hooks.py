"""One hook payload of Claude Code or Codex to events. Pure; nothing in a payload is obeyed or opened.

Both clients send the same shape and neither says who it is: a transcript named `rollout-…` is Codex's, any
other is Claude Code's, and without one the id decides, for Codex makes UUIDs of version 7 and Claude Code
random ones. Payloads carry no time: `at` is when the payload was dropped.
"""

import re
from collections.abc import Callable, Mapping
from typing import Final

import msgspec
from msgspec import Raw, Struct

from wakeful.control.briefs import OPENINGS
from wakeful.core.decoding import json_decoder
from wakeful.core.ids import ConversationId
from wakeful.judging import events as e
from wakeful.sources.failure_words import turn_failed

PAYLOAD_BYTES_MAX: Final = 1024 * 1024
_TEXT_CHARS_MAX: Final = 2000
_UUID: Final = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-([0-9a-f])[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}")


class Hook(Struct, frozen=True):
    """What a hook reported, and of whom."""

    provider: str
    conversation_id: ConversationId
    cwd: str | None
    events: tuple[e.Event, ...]


class _Payload(Struct, gc=False):
    session_id: str
    hook_event_name: str
    transcript_path: str | None = None
    cwd: str | None = None
    tool_name: str | None = None
    notification_type: str | None = None
    last_assistant_message: str | None = None
    error: Raw = Raw(b"")
    prompt: Raw = Raw(b"")


_decode: Final = json_decoder(_Payload)


def read_hook(payload: bytes, at: float) -> Hook | None:
    """What the payload reports; None if it is too long, not (yet) whole, or of no conversation. Never raises."""
    if len(payload) > PAYLOAD_BYTES_MAX:
        return None
    try:
        hook = _decode(payload)
    except msgspec.DecodeError:
        return None
    # A UUID is the only id of both clients, and the only one that may become part of a session's name.
    version = _UUID.fullmatch(hook.session_id)
    if version is None:
        return None
    provider = "codex" if _is_codex(hook.transcript_path, version[1]) else "claude"
    return Hook(
        provider,
        ConversationId(hook.session_id),
        hook.cwd[:_TEXT_CHARS_MAX] if hook.cwd else None,
        tuple(_events(hook, at)),
    )


def _is_codex(transcript_path: str | None, version: str) -> bool:
    if transcript_path:
        return transcript_path.rpartition("/")[2].startswith("rollout-")
    return version == "7"


def _events(hook: _Payload, at: float) -> list[e.Event]:
    tell = _TELLS.get(hook.hook_event_name)
    if tell is not None:
        return [tell(hook, at)]
    if hook.hook_event_name in _PROGRESS:
        return [e.Progressed(at)]
    return [e.Skipped(at, hook.hook_event_name[:40])]


def _opened(hook: _Payload, at: float) -> e.Event:
    return e.Opened(at, ConversationId(hook.session_id), hook.cwd)


def _answered(hook: _Payload, at: float) -> e.Event:
    """The call that asked has run, or was refused; the transcript tells how."""
    return e.Answered(at, hook.tool_name)


def _notified(hook: _Payload, at: float) -> e.Event:
    if hook.notification_type in {"permission_prompt", "elicitation_dialog"}:
        return e.Asked(at, "")
    # Written a minute after a turn, also after one that was cut short.
    return e.TurnEnded(at, by_mark=True) if hook.notification_type == "idle_prompt" else e.Progressed(at)


def _failed(hook: _Payload, at: float) -> e.Event:
    code = bytes(hook.error).decode("utf-8", "replace").strip('"')
    message = (hook.last_assistant_message or "")[:_TEXT_CHARS_MAX]
    return turn_failed(message, at, code=code)


_TELLS: Final[Mapping[str, Callable[[_Payload, float], e.Event]]] = {
    "SessionStart": _opened,
    "UserPromptSubmit": lambda hook, at: e.Prompted(
        at, by_wakeful=bytes(hook.prompt)[1:].startswith(OPENINGS)
    ),
    "PermissionRequest": lambda hook, at: e.Asked(at, hook.tool_name or ""),
    "Elicitation": lambda _hook, at: e.Asked(at, ""),
    "Notification": _notified,
    "PostToolUse": _answered,
    "PostToolUseFailure": _answered,
    "PermissionDenied": _answered,
    "ElicitationResult": lambda _hook, at: e.Answered(at),
    "PreCompact": lambda _hook, at: e.Compacting(at),
    "PostCompact": lambda _hook, at: e.Compacted(at),
    # A turn that failed stays one: clients were seen to report its end in any order.
    "Stop": lambda _hook, at: e.TurnEnded(at, by_mark=True),
    "StopFailure": _failed,
    "Interrupt": lambda _hook, at: e.TurnInterrupted(at),
    "SessionEnd": lambda _hook, at: e.Closed(at),
}
_PROGRESS: Final = frozenset(
    {
        "PreToolUse", "PostToolBatch", "MessageDisplay", "SubagentStart", "SubagentStop",
        "PreModelRequest", "PostModelRequest", "UserPromptExpansion", "TaskCreated", "TaskCompleted",
    }
)  # fmt: skip
