"""Claims about following a driven client's own stream: real files, and a witness that takes notes."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from zlib import crc32

import msgspec
import pytest

from wakeful.core.ids import SessionId
from wakeful.integrations.claude_code.stream_source import TAIL_BYTES, ClaudeStreamSource
from wakeful.judging.events import (
    Event,
    Failure,
    QuestionAsked,
    RequestRetried,
    TurnEnded,
    TurnFailed,
    TurnInterrupted,
)
from wakeful.judging.evidence import SessionIdentity
from wakeful.sources.base import FileChanges
from wakeful.testing.virtual_clock import VirtualClock

ID = SessionId("claude-a")
RUNNING = {"type": "system", "subtype": "session_state_changed", "state": "running"}
RETRY = {"type": "system", "subtype": "api_retry", "attempt": 1}
PARTIAL = {"type": "stream_event", "event": {"type": "content_block_delta"}}


def question(command: str = "make") -> dict[str, Any]:
    """The description is the model's, and may say anything."""
    request = {
        "subtype": "can_use_tool",
        "tool_name": "Bash",
        "input": {"command": command},
        "description": "list the files",
    }
    return {"type": "control_request", "request_id": "r1", "request": request}


def said(call: str, command: str = "make", **more: Any) -> dict[str, Any]:
    block = {"type": "tool_use", "id": call, "name": "Bash", "input": {"command": command}}
    return {"type": "assistant", "message": {"content": [block], "stop_reason": None}, **more}


class Notes:
    """A witness of what the eye said."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.moves: list[SessionId] = []

    def on_events(
        self, identity: SessionIdentity, events: Sequence[Event], *, live: bool, replaced: bool = False
    ) -> None:
        assert (identity.id, identity.conversation_id, live, replaced) == (ID, "a", True, False)
        self.events += events

    def on_growth(self, session_id: SessionId) -> None:
        self.moves.append(session_id)

    def kinds(self) -> list[str]:
        return [type(each).__name__ for each in self.events]


class Run:
    """A run folder, the eye on it and its notes."""

    def __init__(self, root: Path) -> None:
        self.output = root / ID / "out.jsonl"
        self.output.parent.mkdir(parents=True)
        self.notes = Notes()
        self.eye = ClaudeStreamSource(root, "host", VirtualClock(), self.notes)  # type: ignore[arg-type]

    def say(self, *records: dict[str, Any]) -> None:
        with self.output.open("a") as file:
            file.writelines(json.dumps(each, separators=(",", ":")) + "\n" for each in records)

    def told(self) -> None:
        self.eye.on_changes(FileChanges({str(self.output)}, set(), set()))


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return Run(tmp_path / "run")


def test_a_question_and_its_answer_are_told(run: Run) -> None:
    """The client asks on its stream, and its state says when that is over."""
    run.say(RUNNING)
    run.eye.scan()
    run.say(question())
    run.told()
    assert [(each.about) for each in run.notes.events if isinstance(each, QuestionAsked)] == [
        'Bash {"command":"make"}'
    ]
    run.say(RUNNING)
    run.told()
    assert run.notes.kinds() == ["QuestionAsked", "QuestionAnswered"]


def test_an_open_question_survives_a_restart(run: Run) -> None:
    """At first sight only the unanswered question is reported."""
    run.say(RETRY, question("an old one"), RUNNING, RETRY, question("the open one"))
    run.eye.scan()
    assert [each.about for each in run.notes.events if isinstance(each, QuestionAsked)] == [
        'Bash {"command":"the open one"}'
    ]
    assert run.notes.moves == []


def test_an_answered_question_is_history(run: Run) -> None:
    """At first sight of a stream that goes on, nothing is reported."""
    run.say(question(), RUNNING, RETRY)
    run.eye.scan()
    assert run.notes.events == []


def test_partial_messages_are_life_and_nothing_else(run: Run) -> None:
    """The model speaks: the session moves, and no event says more than that."""
    run.say(RUNNING)
    run.eye.scan()
    run.say(*[PARTIAL] * 100)
    run.told()
    assert (run.notes.events, run.notes.moves) == ([], [ID])


def test_a_retry_is_told_while_it_happens(run: Run) -> None:
    """The transcript does not mention it."""
    run.eye.scan()
    run.say(RUNNING)
    run.told()
    run.say(RETRY)
    run.told()
    assert any(isinstance(each, RequestRetried) for each in run.notes.events)


def test_a_torn_line_is_read_when_it_is_whole(run: Run) -> None:
    """Half of a question is none."""
    run.say(RUNNING)
    run.eye.scan()
    line = json.dumps(question())
    with run.output.open("a") as file:
        file.write(line[:20])
    run.told()
    assert run.notes.events == []
    with run.output.open("a") as file:
        file.write(line[20:] + "\n")
    run.told()
    assert run.notes.kinds() == ["QuestionAsked"]


def test_a_file_begun_anew_is_read_from_its_beginning(run: Run) -> None:
    """Between two turns the driver empties a long one."""
    run.say(*[PARTIAL] * 50)
    run.eye.scan()
    run.output.write_text("")
    run.told()
    run.say(question())
    run.told()
    assert run.notes.kinds() == ["QuestionAsked"]


def test_only_the_end_of_a_long_stream_is_read(run: Run) -> None:
    """What was said long ago costs nothing at a restart, and cannot be an open question."""
    run.say(question())
    run.say(*[{**PARTIAL, "padding": "x" * 1000}] * (TAIL_BYTES // 1000 + 10))
    run.eye.scan()
    assert run.notes.events == []


@pytest.mark.parametrize("line", ["", "null", "[]", "{", '{"type":7}', '{"type":"control_request"}', "\x00"])
def test_what_is_no_line_of_a_client_is_skipped(run: Run, line: str) -> None:
    """The next good line still counts."""
    run.say(RUNNING)
    run.eye.scan()
    with run.output.open("a") as file:
        file.write(line + "\n")
    run.say(question())
    run.told()
    assert run.notes.kinds() == ["QuestionAsked"]


def test_strange_names_are_left_alone(run: Run, tmp_path: Path) -> None:
    """Only folders named as sessions of this client are looked into; a link is not followed."""
    outside = tmp_path / "outside.jsonl"
    outside.write_text(json.dumps(question()) + "\n")
    run.output.symlink_to(outside)
    (run.output.parents[1] / "codex-b").mkdir()
    run.eye.scan()
    run.told()
    assert run.notes.events == []


def test_the_calls_behind_one_that_the_log_knows_are_told(run: Run) -> None:
    """In their order and with their input, whether they came back or not: no other source knows of them."""
    result = {"type": "user", "message": {"content": [{"type": "tool_result", "tool_use_id": "b"}]}}
    run.say(RUNNING, said("a"), PARTIAL, said("b", "git push"), result, said("c"))
    unlogged = run.eye.calls_after(ID, "a")
    assert [(each.call, each.tool, each.input) for each in unlogged] == [
        ("b", "Bash", b'{"command":"git push"}'),
        ("c", "Bash", b'{"command":"make"}'),
    ]
    assert run.eye.calls_after(ID, "c") == []
    assert unlogged[0].at == run.output.stat().st_mtime


def test_what_no_log_knows_is_told_whole(run: Run) -> None:
    """The client was killed before it wrote its first call down; a subagent's calls are part of that which began it."""
    run.say(said("a"), said("inner", parent_tool_use_id="a"), said("b"))
    assert [each.call for each in run.eye.calls_after(ID, "")] == ["a", "b"]


def test_turns_that_ended_have_no_unknown_calls(run: Run) -> None:
    """Between two turns everything was written down."""
    run.say(said("a"), {"type": "result"})
    assert run.eye.calls_after(ID, "") == []
    run.say(said("b"))
    assert [each.call for each in run.eye.calls_after(ID, "")] == ["b"]


DONE = {"type": "result", "subtype": "success", "is_error": False, "result": "Done. Shall I push?"}
IDLE = {"type": "system", "subtype": "session_state_changed", "state": "idle"}
MAX_TURNS = {"type": "result", "subtype": "error_max_turns", "is_error": True, "errors": ["Reached maximum"]}
ABORTED = {**MAX_TURNS, "subtype": "error_during_execution", "terminal_reason": "aborted_tools"}
REFUSED = {"type": "result", "subtype": "success", "is_error": True, "result": "API Error: sorry"}


@pytest.mark.parametrize(
    ("records", "end"),
    [
        ([DONE, IDLE], TurnEnded(0.0, words=crc32(b'"Done. Shall I push?"'), asks=b"Shall I push?")),
        ([MAX_TURNS], TurnEnded(0.0, by_mark=True)),
        ([ABORTED], TurnInterrupted(0.0)),
        (
            [said("b", error="overloaded"), REFUSED],
            TurnFailed(0.0, Failure.PROVIDER, "API Error: sorry"),
        ),
        ([said("b"), {**REFUSED, "api_error_status": 401}], TurnFailed(0.0, Failure.AUTH, "API Error: sorry", 401)),
        ([DONE, said("inner", parent_tool_use_id="a")], TurnEnded(0.0, words=crc32(b'"Done. Shall I push?"'), asks=b"Shall I push?")),
    ],
    ids=["success", "max-turns", "interrupted", "provider", "login", "subagent-goes-on"],
)  # fmt: skip
def test_a_result_ends_its_turn_as_the_log_would(run: Run, records: list[dict[str, Any]], end: Event) -> None:
    """The client prints it before it writes its log: only here a killed one has said that it was done."""
    run.say(RUNNING, said("a"), PARTIAL, *records)
    written = run.output.stat().st_mtime
    assert run.eye.turn_end(ID, written - 60.0) == msgspec.structs.replace(end, at=written)


@pytest.mark.parametrize(
    "records",
    [
        [RUNNING, said("a")],
        [RUNNING, said("a"), DONE, RUNNING],
        [RUNNING, said("a"), DONE, {"type": "user", "isReplay": True}],
        [{**ABORTED, "terminal_reason": None, "errors": ["No conversation found"]}],
        [RUNNING, {"type": "result", "is_error": "x"}],
    ],
    ids=["in-its-turn", "next-turn", "next-prompt", "never-began", "another-shape"],
)
def test_a_turn_that_goes_on_has_no_end(run: Run, records: list[dict[str, Any]]) -> None:
    """A result is the end of the turn before it, and of no other."""
    assert run.eye.turn_end(ID, 0.0) is None
    run.say(*records)
    assert run.eye.turn_end(ID, 0.0) is None


def test_a_stream_that_is_older_than_the_log_ends_nothing(run: Run) -> None:
    """A client in a terminal went on with the conversation: the stream is of the process before it."""
    run.say(RUNNING, DONE)
    assert run.eye.turn_end(ID, run.output.stat().st_mtime + 5.0) is None


def test_a_broken_stream_tells_of_no_calls(run: Run) -> None:
    """None at all, a torn line, shapes of another version."""
    assert run.eye.calls_after(ID, "") == []
    run.say({"type": "assistant"}, {"type": "assistant", "message": {"content": [{"type": "tool_use"}]}})
    with run.output.open("a") as file:
        file.write(json.dumps(said("a"))[:40])
    assert run.eye.calls_after(ID, "") == []
