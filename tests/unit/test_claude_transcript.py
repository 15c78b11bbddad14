"""Claude Code's transcript, line by line: every record type that says something, and the ones that do not."""

import json
from typing import Any
from zlib import crc32

import pytest

from wakeful.adapters.claude_code.driver import DENIAL
from wakeful.adapters.claude_code.transcript import TranscriptReader
from wakeful.domain import events as e
from wakeful.domain.ids import ConversationId

AT = 1_767_603_600.0
HELLO = crc32(b'"hello"')
STAMP = "2026-01-05T09:00:00.000Z"
ID = "11111111-1111-4111-8111-111111111111"


def record(kind: str, **fields: Any) -> bytes:
    common = {"type": kind, "timestamp": STAMP, "sessionId": ID, "cwd": "/home/u/proj", "version": "2.1.197"}
    return json.dumps(common | fields).encode()


def user(content: Any, **fields: Any) -> bytes:
    return record("user", message={"role": "user", "content": content}, **fields)


def assistant(*blocks: Any, stop: str | None = None, **fields: Any) -> bytes:
    message = {"id": "msg_1", "role": "assistant", "content": blocks, "stop_reason": stop}
    return record("assistant", message=message, **fields)


def told(line: bytes) -> list[e.Event]:
    """The events of a line, but for the one that says whose log it is."""
    return [event for event in TranscriptReader().read(line) if not isinstance(event, e.Opened)]


def test_the_first_record_says_whose_log_it_is() -> None:
    """Conversation, folder and version are told once, and again only when one of them changes."""
    reader = TranscriptReader()
    assert reader.read(user("hello"))[0] == e.Opened(AT, ConversationId(ID), "/home/u/proj", "2.1.197")
    assert not any(isinstance(event, e.Opened) for event in reader.read(user("more")))
    assert isinstance(reader.read(user("more", cwd="/home/u/other"))[0], e.Opened)


def test_an_id_that_could_be_an_option_is_no_conversation() -> None:
    """Ids end up in commands: a transcript cannot smuggle an option or a path into one."""
    for hostile in ("--dangerously-skip", "../../etc", "a b", "x" * 300):
        opened = TranscriptReader().read(user("hello", sessionId=hostile))[0]
        assert isinstance(opened, e.Opened)
        assert opened.conversation_id is None


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("fix the bug", [e.Prompted(AT)]),
        ([{"type": "text", "text": "fix the bug"}], [e.Prompted(AT)]),
        ("<task-notification>\n<task-id>b7", [e.Prompted(AT, by_person=False)]),
        (
            "<task-notification>\n<task-id>b7</task-id>",
            [e.TaskEnded(AT, "b7"), e.Prompted(AT, by_person=False)],
        ),
        ("<command-name>/exit</command-name>", []),
        ("<local-command-stdout>bye", []),
        ("<bash-input>ls</bash-input>", []),
        ([{"type": "text", "text": "[Request interrupted by user]"}], [e.TurnInterrupted(AT)]),
        ([{"type": "text", "text": "[Request interrupted by user for tool use]"}], [e.TurnInterrupted(AT)]),
    ],
)
def test_what_a_user_record_does(content: Any, expected: list[e.Event]) -> None:
    """A prompt begins a turn; talk with the client does not; an interruption ends one."""
    assert told(user(content)) == expected


def test_meta_messages_and_summaries_are_no_prompts() -> None:
    """What the client puts into the conversation by itself begins no turn."""
    assert told(user("Caveat: …", isMeta=True)) == []
    assert told(user("This session is being continued", isCompactSummary=True)) == [e.Compacted(AT)]


def test_text_beside_results_is_no_prompt() -> None:
    """A reminder the client adds to a tool's result does not begin a turn; an interruption there counts."""
    result = {"type": "tool_result", "tool_use_id": "t1", "content": "ok"}
    assert told(user([result, {"type": "text", "text": "by the way"}])) == [
        e.CallEnded(AT, "t1", result=b'"ok"')
    ]
    cut = told(user([result, {"type": "text", "text": "[Request interrupted by user]"}]))
    assert cut[-1] == e.TurnInterrupted(AT)


@pytest.mark.parametrize(
    ("stop", "expected"),
    [
        ("end_turn", e.TurnEnded(AT, words=HELLO)),
        ("tool_use", e.Progressed(AT, HELLO)),
        (None, e.Spoke(AT, HELLO)),
    ],
)
def test_text_ends_a_turn_only_if_the_record_says_so(stop: str | None, expected: e.Event) -> None:
    """Dialects without a stop reason leave it open whether more follows."""
    assert told(assistant({"type": "text", "text": "hello"}, stop=stop)) == [expected]


@pytest.mark.parametrize(
    ("tool", "given", "kind", "seconds"),
    [
        ("Bash", {"command": "ls"}, e.CallKind.TOOL, 120.0),
        ("Bash", {"command": "make", "timeout": 900_000}, e.CallKind.TOOL, 900.0),
        ("Bash", {"command": "make", "timeout": "soon"}, e.CallKind.TOOL, 120.0),
        ("Edit", {"file_path": "a"}, e.CallKind.TOOL, None),
        ("Task", {"prompt": "look"}, e.CallKind.SUBAGENT, None),
        ("AskUserQuestion", {"questions": []}, e.CallKind.PERSON, None),
    ],
)
def test_a_call_says_what_it_waits_for_and_how_long(
    tool: str, given: dict[str, Any], kind: e.CallKind, seconds: float | None
) -> None:
    """A call carries its kind, its input as it was written, and the patience it declared."""
    block = {"type": "tool_use", "id": "t1", "name": tool, "input": given}
    asked, instant = json.dumps(given).encode(), tool == "Edit"
    assert told(assistant(block)) == [
        e.CallStarted(AT, "t1", tool, kind, asked, seconds, enforced=True, instant=instant)
    ]


@pytest.mark.parametrize(
    ("content", "task"),
    [
        ("Command running in background with ID: bb007yyq3. Output is being written to: x", "bb007yyq3"),
        ("Command was manually backgrounded by user with ID: b1. Output is", "b1"),
        ([{"type": "text", "text": "Async agent launched successfully.\nagentId: a5c3 (internal)"}], "a5c3"),
        ("Command not found", ""),
        ("the log says: Command running in background with ID: b2", ""),
    ],
)
def test_a_call_that_leaves_something_running_says_so(content: Any, task: str) -> None:
    """Only the client's own sentence counts, at the beginning of a result."""
    (ended,) = told(user([{"type": "tool_result", "tool_use_id": "t1", "content": content}]))
    assert isinstance(ended, e.CallEnded)
    assert ended.background == task


def test_a_task_that_ended_within_a_turn_is_told_by_the_queue() -> None:
    """Its word waits in the queue until the model is asked again; other queued words are quiet."""

    def queued(content: str) -> list[e.Event]:
        return told(json.dumps({"type": "queue-operation", "timestamp": STAMP, "content": content}).encode())

    assert queued("<task-notification>\n<task-id>b7</task-id>\n") == [e.TaskEnded(AT, "b7")]
    assert queued("fix it") == []
    assert told(b'{"type":"queue-operation","operation":"remove"}') == []


@pytest.mark.parametrize(
    ("content", "refused"),
    [
        ("Exit code 3\noops", False),
        ("The user doesn't want to proceed with this tool use. The tool use was rejected", True),
        ("<tool_use_error>Sibling tool call errored</tool_use_error>", True),
        (DENIAL, True),
    ],
)
def test_a_call_that_never_ran_is_refused(content: str, refused: bool) -> None:
    """A person's no and a cancelled sibling are not the agent's errors."""
    block = {"type": "tool_result", "tool_use_id": "t1", "content": content, "is_error": True}
    assert told(user([block])) == [e.CallEnded(AT, "t1", True, refused, json.dumps(content).encode())]


@pytest.mark.parametrize(
    ("error", "status", "text", "failure"),
    [
        ("authentication_failed", 401, "Invalid API key · Fix external API key", e.Failure.AUTH),
        ("authentication_failed", None, "Not logged in · Please run /login", e.Failure.AUTH),
        ("billing_error", 400, "Credit balance is too low", e.Failure.LIMIT),
        ("rate_limit", 429, "API Error: Request rejected (429)", e.Failure.LIMIT),
        ("server_error", 529, "API Error: 529", e.Failure.PROVIDER),
        ("model_not_found", 404, "There's an issue with the selected model", e.Failure.REQUEST),
        (None, None, "Claude AI usage limit reached|1760000000", e.Failure.LIMIT),
        (None, None, "API Error: Connection error.", e.Failure.PROVIDER),
        (None, None, "API Error: 400 due to tool use concurrency issues.", e.Failure.REQUEST),
        (None, None, "API Error (500 Internal server error)", e.Failure.PROVIDER),
        (None, None, "Please run /login · API Error: 403", e.Failure.AUTH),
        ("brand_new", None, "Something else", e.Failure.UNKNOWN),
    ],
)
def test_a_failed_turn_says_why(error: str | None, status: int | None, text: str, failure: e.Failure) -> None:
    """The code of the client decides, else its sentence, as older dialects have it."""
    fields: dict[str, Any] = {"isApiErrorMessage": True} | ({"error": error} if error else {})
    fields |= {"apiErrorStatus": status} if status else {}
    line = assistant({"type": "text", "text": text}, stop="stop_sequence", **fields)
    until = 1760000000.0 if "|" in text else None
    assert told(line) == [e.TurnFailed(AT, failure, text, status, until)]


def test_the_books_of_a_turn_are_a_mark() -> None:
    """`turn_duration` closes failed turns too, so it is an end only for those that had none."""
    for subtype in ("turn_duration", "stop_hook_summary"):
        assert told(record("system", subtype=subtype)) == [e.TurnEnded(AT, by_mark=True)]
    assert told(record("system", subtype="compact_boundary")) == [e.Compacted(AT)]
    assert told(record("system", subtype="local_command")) == []


def test_a_subagents_line_is_progress_and_nothing_else() -> None:
    """What a side chain does is not the session's own turn."""
    assert told(assistant({"type": "text", "text": "hi"}, stop="end_turn", isSidechain=True)) == [
        e.Progressed(AT)
    ]


def test_tokens_are_counted_once_per_message() -> None:
    """Every block of a message repeats its usage."""
    usage = {"input_tokens": 5, "cache_creation_input_tokens": 100, "output_tokens": 7}
    blocks = [{"type": "text", "text": "a"}]
    message = {"id": "msg_1", "content": blocks, "stop_reason": None, "usage": usage}
    reader, spent = TranscriptReader(), []
    for name in ("msg_1", "msg_1", "msg_2"):
        line = record("assistant", message=message | {"id": name})
        spent += [event for event in reader.read(line) if isinstance(event, e.Spent)]
    assert spent == [e.Spent(AT, 105, 7), e.Spent(AT, 105, 7)]


def test_unknown_types_are_skipped_whatever_their_shape() -> None:
    """A new record type is no drift, even where its fields bear names we know with other types."""
    assert told(record("hologram", message="a text", cwd=7)) == [e.Skipped(0.0, "hologram")]
    assert told(record("file-history-snapshot")) == []


def test_a_known_record_with_another_shape_has_drifted() -> None:
    """A field that changed its type is as lost as one that changed its name."""
    assert told(record("user", message="a text")) == [e.Drifted(0.0, "message")]
    assert told(record("user")) == [e.Drifted(AT, "user.message")]
    assert told(b'{"kind":"user"}') == [e.Drifted(0.0, "type")]


@pytest.mark.parametrize(
    "line",
    [
        b"[]",
        b"7",
        b"null",
        b'"text"',
        b"{",
        b"\x00\x01",
        b"[" * 100_000,
        b'{"type":"user","message":7,"n":1e999}',
    ],
)
def test_what_is_no_record_is_malformed(line: bytes) -> None:
    """Bytes that hold no object get a mark, not an exception and not a drift."""
    assert told(line) == [e.Malformed(0.0, "not a JSON object")]


def test_half_a_character_costs_nothing() -> None:
    """Text that was cut inside of an emoji, or that is no UTF-8, does not cost the record."""
    for broken in (rb"\ud83d", rb"\ude00\ud83d", b"\xff\xfe"):
        line = user("PLACE").replace(b"PLACE", broken)
        assert told(line) == [e.Prompted(AT)], broken


def test_a_record_glued_to_a_torn_one_is_kept() -> None:
    """The good record is read, the torn one is marked, and a torn piece is no drift."""
    torn = user("hello")[:-20]
    assert told(torn + user("fix it")) == [e.Malformed(0.0, "not a JSON object"), e.Prompted(AT)]
    assert told(b'{"type":"user","message":{"role":"user"}') == [e.Malformed(0.0, "not a JSON object")]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (user("fix it"), False),
        (user("<task-notification>"), False),
        (user("<command-name>/exit"), False),
        (user([{"type": "text", "text": "[Request interrupted by user]"}]), True),
        (user([{"type": "tool_result", "tool_use_id": "t", "content": "x"}]), False),
        (assistant({"type": "text", "text": "x"}, stop="end_turn"), True),
        (assistant({"type": "text", "text": "x"}), False),
        (record("system", subtype="turn_duration"), False),
        (record("hologram"), False),
        (b"garbage", False),
    ],
)
def test_a_boundary_is_where_nothing_before_matters(line: bytes, expected: bool) -> None:
    """Only an end that says so and an interruption: whether prompts before the last one failed matters."""
    assert TranscriptReader().is_boundary(line) is expected
