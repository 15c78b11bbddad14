"""Hook payloads: whose they are, what they report, and that nothing else gets in."""

import json
from typing import Any

import pytest

from wakeful.core.ids import ConversationId
from wakeful.hooks.spool import PAYLOAD_BYTES_MAX, HookReport, read_hook
from wakeful.judging import events as e

CLAUDE = "7e3eb83f-1111-4111-8111-111111111111"
CODEX = "01a1e0b2-0000-7000-8000-000000000003"


def payload(name: str, session: str = CLAUDE, **fields: Any) -> bytes:
    common = {"session_id": session, "cwd": "/home/u/proj", "hook_event_name": name}
    return json.dumps(common | fields).encode()


def told(name: str, **fields: Any) -> e.Event:
    hook = read_hook(payload(name, **fields), 9.0)
    assert hook is not None
    (event,) = hook.events
    return event


@pytest.mark.parametrize(
    ("name", "fields", "expected"),
    [
        ("SessionStart", {"source": "startup"}, e.LogOpened(9.0, ConversationId(CLAUDE), "/home/u/proj")),
        ("UserPromptSubmit", {"prompt": "x"}, e.Prompted(9.0)),
        ("PreToolUse", {"tool_name": "Bash", "tool_use_id": "t"}, e.Progressed(9.0)),
        ("PermissionRequest", {"tool_name": "Bash", "tool_input": {}}, e.QuestionAsked(9.0, "Bash")),
        (
            "PermissionRequest",
            {"tool_name": "Bash", "tool_input": {"command": "make"}},
            e.QuestionAsked(9.0, 'Bash {"command": "make"}'),
        ),
        ("Notification", {"notification_type": "permission_prompt"}, e.QuestionAsked(9.0, "")),
        ("Notification", {"notification_type": "idle_prompt"}, e.TurnEnded(9.0, by_mark=True)),
        ("Notification", {"notification_type": "auth_success"}, e.Progressed(9.0)),
        ("PostToolUse", {"tool_name": "Bash", "tool_response": "x"}, e.QuestionAnswered(9.0, "Bash")),
        (
            "PostToolUseFailure",
            {"tool_name": "Bash", "error": "Exit code 3"},
            e.QuestionAnswered(9.0, "Bash"),
        ),
        ("SubagentStop", {"agent_id": "a"}, e.Progressed(9.0)),
        ("PreCompact", {"trigger": "manual"}, e.CompactionStarted(9.0)),
        ("PostCompact", {}, e.CompactionEnded(9.0)),
        ("PostModelRequest", {"error": None, "status": "completed"}, e.Progressed(9.0)),
        ("Stop", {"stop_hook_active": False}, e.TurnEnded(9.0, by_mark=True)),
        (
            "StopFailure",
            {"error": "authentication_failed", "last_assistant_message": "Invalid API key"},
            e.TurnFailed(9.0, e.Failure.AUTH, "Invalid API key"),
        ),
        (
            "StopFailure",
            {"error": "rate_limit", "last_assistant_message": "usage limit reached|1794794974"},
            e.TurnFailed(9.0, e.Failure.LIMIT, "usage limit reached|1794794974", until=1_794_794_974.0),
        ),
        ("StopFailure", {"error": "gremlins"}, e.TurnFailed(9.0, e.Failure.UNKNOWN)),
        ("Interrupt", {}, e.TurnInterrupted(9.0)),
        ("SessionEnd", {"reason": "other"}, e.ClientClosed(9.0)),
        ("Reboot", {"command": "rm -rf /"}, e.RecordSkipped(9.0, "Reboot")),
    ],
)
def test_what_a_hook_reports(name: str, fields: dict[str, Any], expected: e.Event) -> None:
    """Every hook becomes one event; the transcript tells the rest."""
    assert told(name, **fields) == expected


@pytest.mark.parametrize(
    ("session", "path", "provider"),
    [
        (CLAUDE, "/home/u/.claude/projects/-p/x.jsonl", "claude"),
        (CODEX, "/home/u/.codex/sessions/2026/11/15/rollout-2026-11-15T19-30-03-x.jsonl", "codex"),
        (CLAUDE, "/c/rollout-2026-x.jsonl", "codex"),
        (CODEX, "/home/rollout-fan/.claude/projects/-p/x.jsonl", "claude"),
        (CODEX, None, "codex"),
        (CLAUDE, None, "claude"),
    ],
)
def test_whose_a_hook_is(session: str, path: str | None, provider: str) -> None:
    """The transcript's name tells, and without one the version of the id."""
    hook = read_hook(payload("Stop", session, transcript_path=path), 9.0)
    assert hook == HookReport(
        provider, ConversationId(session), "/home/u/proj", (e.TurnEnded(9.0, by_mark=True),)
    )


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"{",
        b"[]",
        b"\xff",
        b'{"session_id":"\xff","hook_event_name":"Stop"}',
        b"[" * 100_000,
        payload("Stop", "../../etc/passwd"),
        payload("Stop", CLAUDE + "\n"),
        payload("Stop", CLAUDE.upper() + "-x"),
        payload("Stop", session=7),  # type: ignore[arg-type]
        payload("Stop", hook_event_name=7),
        payload("Stop", padding="x" * PAYLOAD_BYTES_MAX),
    ],
)
def test_anything_else_is_refused(raw: bytes) -> None:
    """No UUID, no object, too long: nothing comes of it, and nothing is raised."""
    assert read_hook(raw, 9.0) is None


def test_a_payload_of_the_full_size_is_read() -> None:
    """The bound is one MiB, not less: tool inputs are large."""
    spare = PAYLOAD_BYTES_MAX - len(payload("Stop", padding=""))
    assert read_hook(payload("Stop", padding="x" * spare), 9.0) is not None
