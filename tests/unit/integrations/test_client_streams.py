"""Claims about what drivers fold out of the clients' output: bounded, and never troubled by a bad line."""

import json
from typing import Any

import pytest

from wakeful.integrations.claude_code.stream_json import IDS_KEPT_MAX, QUESTIONS_MAX, StreamState
from wakeful.integrations.codex.driver import CodexTurn


def fed(*records: dict[str, Any]) -> StreamState:
    stream = StreamState()
    for record in records:
        stream.feed(json.dumps(record).encode())
    return stream


def state(name: str) -> dict[str, Any]:
    return {"type": "system", "subtype": "session_state_changed", "state": name}


def asks(question_id: str) -> dict[str, Any]:
    request = {"subtype": "can_use_tool", "tool_name": "Bash", "input": {"command": "x"}, "description": "x"}
    return {"type": "control_request", "request_id": question_id, "request": request}


def test_a_client_that_said_nothing_is_idle() -> None:
    """Before its first prompt a client prints nothing; waiting for a person it is inside a turn."""
    assert not fed().is_busy
    assert fed(state("running")).is_busy
    assert fed(state("running"), state("requires_action")).is_busy
    assert not fed(state("running"), state("idle")).is_busy


@pytest.mark.parametrize(
    "closing",
    [
        {"type": "control_cancel_request", "request_id": "q1"},
        {"type": "control_response", "response": {"subtype": "success", "request_id": "q1"}},
        {"type": "result", "subtype": "success", "is_error": False, "result": "done"},
    ],
)
def test_a_question_is_open_until_something_closes_it(closing: dict[str, Any]) -> None:
    """Its answer, its withdrawal, or the end of its turn; the input is kept as it was asked."""
    assert fed(asks("q1")).questions["q1"].input == b'{"command": "x"}'
    assert fed(asks("q1"), closing).questions == {}


def test_prompts_are_taken_by_their_own_id_only() -> None:
    """A tool's result is a user record too, and is no prompt taken up."""
    stream = fed({"type": "user", "uuid": "a"}, {"type": "user", "uuid": "b", "isReplay": True})
    assert list(stream.replayed_prompts) == ["b"]


@pytest.mark.parametrize(
    "line", [b"", b"{", b"[]", b"null", b'{"type": 7}', b'{"type": "result", "errors": "x"}', b"\xff\xfe"]
)
def test_bad_lines_change_nothing(line: bytes) -> None:
    """Torn, of another shape or no text at all: what was known stays known."""
    stream, turn = fed(state("running"), asks("q1")), CodexTurn()
    stream.feed(line)
    turn.feed(line)
    assert stream.is_busy
    assert list(stream.questions) == ["q1"]
    assert (stream.results, turn.thread_id, turn.is_over) == (0, None, False)


def test_what_is_kept_is_bounded() -> None:
    """However long a client talks, the newest ids stay and the rest goes."""
    stream = fed(*({"type": "user", "uuid": str(n), "isReplay": True} for n in range(1000)))
    assert list(stream.replayed_prompts) == [str(n) for n in range(1000 - IDS_KEPT_MAX, 1000)]
    assert len(fed(*(asks(str(n)) for n in range(1000))).questions) == QUESTIONS_MAX


def test_a_codex_turn_from_name_to_failure() -> None:
    """A warning before the turn is not the model, and a refused key is a matter of login."""
    turn = CodexTurn()
    for record in (
        {"type": "thread.started", "thread_id": "t"},
        {"type": "item.completed", "item": {"type": "error", "message": "unknown model"}},
    ):
        turn.feed(json.dumps(record).encode())
    assert (turn.thread_id, turn.has_begun, turn.has_answered) == ("t", False, False)
    turn.feed(b'{"type":"turn.started"}')
    turn.feed(b'{"type":"turn.failed","error":{"message":"unexpected status 401 Unauthorized: no"}}')
    assert (turn.has_begun, turn.is_over, turn.needs_login) == (True, True, True)
