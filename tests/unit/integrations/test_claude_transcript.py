"""Claude Code's transcript, line by line: every record type that says something, and the ones that do not."""

import json
from typing import Any
from zlib import crc32

import pytest

from wakeful.core.ids import ConversationId
from wakeful.integrations.claude_code.driver import DENIAL
from wakeful.integrations.claude_code.transcript import TranscriptReader
from wakeful.judging import events as e

AT = 1_767_603_600.0
HELLO = crc32(b'"hello"')
STAMP = "2026-01-05T09:00:00.000Z"
ID = "11111111-1111-4111-8111-111111111111"
# What client 2.1.199 put before an agent's id.
METADATA = (
    "This tool result is internal metadata — never quote or paste any part of it, including the agentId below"
)


def record(kind: str, **fields: Any) -> bytes:
    common = {"type": kind, "timestamp": STAMP, "sessionId": ID, "cwd": "/home/u/proj", "version": "2.1.197"}
    return json.dumps(common | fields).encode()


def user(content: Any, **fields: Any) -> bytes:
    return record("user", message={"role": "user", "content": content}, **fields)


def assistant(*blocks: Any, stop: str | None = None, **fields: Any) -> bytes:
    message = {"id": "msg_1", "role": "assistant", "content": blocks, "stop_reason": stop}
    return record("assistant", message=message, **fields)


def told(line: bytes) -> list[e.Event]:
    """The events of a line, except the one that identifies the log."""
    return [event for event in TranscriptReader().read(line) if not isinstance(event, e.LogOpened)]


def test_the_first_record_says_whose_log_it_is() -> None:
    """Conversation, folder and version come once, and again only when one of them changes."""
    reader = TranscriptReader()
    assert reader.read(user("hello"))[0] == e.LogOpened(AT, ConversationId(ID), "/home/u/proj", "2.1.197")
    assert not any(isinstance(event, e.LogOpened) for event in reader.read(user("more")))
    assert isinstance(reader.read(user("more", cwd="/home/u/other"))[0], e.LogOpened)


def test_an_id_that_could_be_an_option_is_no_conversation() -> None:
    """Ids end up in commands: a transcript cannot smuggle an option or a path into one."""
    for hostile in ("--dangerously-skip", "../../etc", "a b", "x" * 300):
        opened = TranscriptReader().read(user("hello", sessionId=hostile))[0]
        assert isinstance(opened, e.LogOpened)
        assert opened.conversation_id is None


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("fix the bug", [e.Prompted(AT)]),
        ([{"type": "text", "text": "fix the bug"}], [e.Prompted(AT)]),
        ("<task-notification>\n<task-id>b7", [e.Prompted(AT, by_person=False)]),
        (
            '<task-notification>\n<task-id>b7</task-id>\n<summary>Monitor event: "x"</summary>\n<event>tick</event>',
            [e.Prompted(AT, by_person=False)],
        ),
        (
            "<task-notification>\n<task-id>b7</task-id>\n<status>completed</status>",
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
    assert told(user("This session is being continued", isCompactSummary=True)) == [e.CompactionEnded(AT)]


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
        ("stop_sequence", e.TurnEnded(AT)),
        (None, e.TextWritten(AT, HELLO)),
    ],
)
def test_text_ends_a_turn_only_if_the_record_says_so(stop: str | None, expected: e.Event) -> None:
    """Dialects without a stop reason leave it open whether more follows; the client's own text is no answer."""
    assert told(assistant({"type": "text", "text": "hello"}, stop=stop)) == [expected]


@pytest.mark.parametrize(
    ("tool", "given", "kind", "seconds", "limit"),
    [
        ("Bash", {"command": "ls"}, e.CallKind.TOOL, 120.0, 120.0),
        ("Bash", {"command": "make", "timeout": 300_000}, e.CallKind.TOOL, 300.0, 300.0),
        ("Bash", {"command": "make", "timeout": 900_000}, e.CallKind.TOOL, 900.0, 600.0),
        ("Bash", {"command": "make", "timeout": "soon"}, e.CallKind.TOOL, 120.0, 120.0),
        ("Edit", {"file_path": "a"}, e.CallKind.TOOL, None, 5.0),
        ("WebFetch", {"url": "https://example.org"}, e.CallKind.TOOL, None, None),
        ("Task", {"prompt": "look"}, e.CallKind.SUBAGENT, None, None),
        ("AskUserQuestion", {"questions": []}, e.CallKind.PERSON, None, None),
    ],
)
def test_a_call_says_what_it_waits_for_and_how_long(
    tool: str, given: dict[str, Any], kind: e.CallKind, seconds: float | None, limit: float | None
) -> None:
    """A call carries its kind, its input as written, the patience it declared, and its client's own limit."""
    block = {"type": "tool_use", "id": "t1", "name": tool, "input": given}
    asked = json.dumps(given).encode()
    assert told(assistant(block)) == [
        e.CallStarted(
            AT, "t1", tool, kind, asked, seconds, enforced=True, limit_seconds=limit, message="msg_1"
        )
    ]


def test_the_permission_mode_is_read_wherever_it_is_written() -> None:
    """Prompts carry it, a record of its own changes it in a turn; an event comes when it changes; `claude -p`
    asks no questions."""
    reader = TranscriptReader()
    modes = [
        user("hi", permissionMode="default", entrypoint="cli"),
        user("again", permissionMode="default", entrypoint="cli"),
        b'{"type":"permission-mode","permissionMode":"acceptEdits","sessionId":"s"}',
        user("headless", permissionMode="default", entrypoint="sdk-cli"),
    ]
    events = [event for line in modes for event in reader.read(line)]
    told_modes = [event for event in events if isinstance(event, e.PermissionModeSet)]
    assert told_modes == [
        e.PermissionModeSet(AT, "default"),
        e.PermissionModeSet(0.0, "acceptEdits"),
        e.PermissionModeSet(AT, e.HEADLESS),
    ]


@pytest.mark.parametrize(
    ("content", "task"),
    [
        ("Command running in background with ID: bb007yyq3. Output is being written to: x", "bb007yyq3"),
        ("Command was manually backgrounded by user with ID: b1. Output is", "b1"),
        ([{"type": "text", "text": "Async agent launched successfully.\nagentId: a5c3 (internal)"}], "a5c3"),
        (
            [{"type": "text", "text": f"Async agent launched successfully. ({METADATA})\nagentId: a5 (i"}],
            "a5",
        ),
        (
            "Command did not complete within its 120s timeout and was moved to the background (ID: b3). O",
            "b3",
        ),
        ("Monitor started (task bki6zyz60, timeout 120000ms). You will be notified", "bki6zyz60"),
        ("Monitor started (task b4, expires in 30m unless the source ends first)", "b4"),
        ("Workflow launched in background. Task ID: w82qt1zg0\nSummary: Repair", "w82qt1zg0"),
        ("Command not found", ""),
        ("the log says: Command running in background with ID: b2", ""),
    ],
)
def test_a_call_that_leaves_something_running_says_so(content: Any, task: str) -> None:
    """Only the client's own sentence counts, at the beginning of a result."""
    (ended,) = told(user([{"type": "tool_result", "tool_use_id": "t1", "content": content}]))
    assert isinstance(ended, e.CallEnded)
    assert ended.background == task


@pytest.mark.parametrize(
    ("result", "task"),
    [
        ({"isAsync": True, "status": "async_launched", "agentId": "a7", "outputFile": "x"}, "a7"),
        ({"status": "async_launched", "taskId": "w1", "taskType": "local_workflow", "runId": "wf_1"}, "w1"),
        ({"status": "async_launched", "taskId": "w1", "error": "it does not compile"}, ""),
        ({"status": "remote_launched", "taskId": "r1"}, "r1"),
        ({"taskId": "b5", "timeoutMs": 60000, "persistent": False}, "b5"),
        ({"stdout": "half of it", "stderr": "", "backgroundTaskId": "b6"}, "b6"),
        ({"stdout": '"backgroundTaskId"', "stderr": ""}, ""),
        ({"status": "completed", "agentId": "a8", "content": []}, ""),
        ({"backgroundTaskId": 7}, ""),
        ('a text with _launched" in it', ""),
    ],
)
def test_what_goes_on_is_read_from_the_results_own_fields(result: Any, task: str) -> None:
    """Words change with every version; the fields beside them say the same."""
    block = {"type": "tool_result", "tool_use_id": "t1", "content": "in words nobody has read yet"}
    (ended,) = told(user([block], toolUseResult=result))
    assert isinstance(ended, e.CallEnded)
    assert ended.background == task


@pytest.mark.parametrize(
    ("result", "task"),
    [
        ({"message": "Successfully stopped task: b1", "task_id": "b1", "task_type": "local_bash"}, "b1"),
        (
            {
                "retrieval_status": "success",
                "task": {"task_id": "b1", "task_type": "x", "status": "completed"},
            },
            "b1",
        ),
        (
            {"retrieval_status": "timeout", "task": {"task_id": "b1", "task_type": "x", "status": "running"}},
            "",
        ),
    ],
)
def test_a_call_that_ends_a_task_or_finds_it_over_tells_of_it(result: Any, task: str) -> None:
    """No notification follows for a task that the agent ended itself or saw ended."""
    told_of = told(user([{"type": "tool_result", "tool_use_id": "t1", "content": "x"}], toolUseResult=result))
    assert [event.task for event in told_of if isinstance(event, e.TaskEnded)] == ([task] if task else [])


@pytest.mark.parametrize(
    ("fields", "ends"),
    [
        ({"toolEndsTurn": True}, True),
        ({"mcpMeta": {"_meta": {"claude/endTurn": True}}}, True),
        ({"toolEndsTurn": False}, False),
        ({}, False),
    ],
)
def test_a_result_can_be_the_last_word_of_a_turn(fields: dict[str, Any], ends: bool) -> None:
    """A run that was given a schema ends with the call that fills it, and no text follows."""
    block = {"type": "tool_result", "tool_use_id": "t1", "content": "Structured output provided successfully"}
    assert (told(user([block], **fields))[-1] == e.TurnEnded(AT)) is ends
    failed = told(user([block | {"is_error": True}], **fields))
    assert not any(isinstance(event, e.TurnEnded) for event in failed), "a wrong answer is asked for again"


@pytest.mark.parametrize(
    ("kind", "ends"),
    [("max_turns_reached", True), ("hook_stopped_continuation", True), ("skill_listing", False)],
)
def test_a_run_that_reached_its_own_limit_is_over(kind: str, ends: bool) -> None:
    """`--max-turns` and a hook that lets nothing follow leave their mark beside the messages."""
    attached = {"type": kind, "maxTurns": 2, "turnCount": 3}
    assert told(record("attachment", attachment=attached)) == (
        [e.TurnEnded(AT, by_mark=True)] if ends else []
    )
    assert told(record("attachment", attachment=attached, isSidechain=True)) == []


def test_what_a_run_has_spent_of_its_budget_is_told_before_each_request() -> None:
    """A record of another shape is counted as unknown: a turn can be judged without it."""
    said = {"type": "budget_usd", "used": 0.0002, "total": 0.0007, "remaining": 0.0005}
    assert told(record("attachment", attachment=said)) == [e.BudgetReported(AT, 0.0002, 0.0007)]
    assert told(record("attachment", attachment={"type": "budget_usd", "usd": 1})) == [
        e.RecordSkipped(0.0, "attachment.budget_usd")
    ]


def read_all(*lines: bytes) -> list[e.Event]:
    reader = TranscriptReader()
    return [event for line in lines for event in reader.read(line) if not isinstance(event, e.LogOpened)]


COMMAND = "<command-message>deploy</command-message>\n<command-name>/deploy</command-name>"


def test_the_text_of_a_skill_or_a_command_is_the_prompt_of_a_turn() -> None:
    """The client writes it as its own, right behind the record that names the command."""
    text = user([{"type": "text", "text": "Base directory for this skill: /x"}], isMeta=True)
    assert read_all(user(COMMAND), record("attachment", attachment={"type": "x"}), text) == [e.Prompted(AT)]
    assert read_all(user("<command-name>/compact</command-name>"), text) == []
    assert read_all(user(COMMAND), user("fix it"), text) == [e.Prompted(AT)]
    assert read_all(user(COMMAND), assistant({"type": "thinking"}), text) == [e.Progressed(AT)]


def test_what_the_clients_queue_submits_is_a_prompt() -> None:
    """A task that fires at its time has no person behind it, and the model is asked."""
    fired = user("check the build", isMeta=True, promptSource="system")
    assert told(fired) == [e.Prompted(AT, by_person=False)]
    assert told(user("<local-command-stdout>bye", isMeta=True, promptSource="system")) == []
    assert told(user("a reminder", isMeta=True, promptSource=None)) == []


def test_a_hook_that_refuses_the_end_asks_the_model_again() -> None:
    """The mark behind its feedback closes nothing."""
    refused = user("Stop hook feedback:\n[check]: go on", isMeta=True)
    mark = record("system", subtype="stop_hook_summary")
    assert read_all(refused, mark) == [e.Prompted(AT, by_person=False)]
    assert read_all(refused, mark, mark) == [e.Prompted(AT, by_person=False), e.TurnEnded(AT, by_mark=True)]
    end = assistant({"type": "text", "text": "hello"}, stop="end_turn")
    assert read_all(refused, end, mark)[-1] == e.TurnEnded(AT, by_mark=True)


def test_a_task_that_ended_within_a_turn_is_told_by_the_queue() -> None:
    """Its word waits in the queue until the model is asked again; other queued words are quiet."""

    def queued(content: str) -> list[e.Event]:
        return told(json.dumps({"type": "queue-operation", "timestamp": STAMP, "content": content}).encode())

    over = "<task-notification>\n<task-id>b7</task-id>\n<status>completed</status>\n"
    assert queued(over) == [e.TaskEnded(AT, "b7")]
    assert queued("<task-notification>\n<task-id>b7</task-id>\n<event>tick</event>\n") == []
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
        ("rate_limit", 429, "API Error: Request rejected (429)", e.Failure.PROVIDER),
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
    assert told(record("system", subtype="compact_boundary")) == [e.CompactionEnded(AT)]
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
        spent += [event for event in reader.read(line) if isinstance(event, e.TokensSpent)]
    assert spent == [e.TokensSpent(AT, 105, 7, 165.0), e.TokensSpent(AT, 105, 7, 165.0)]


def test_unknown_types_are_skipped_whatever_their_shape() -> None:
    """A new record type is no drift, even where its fields bear names we know with other types."""
    assert told(record("hologram", message="a text", cwd=7)) == [e.RecordSkipped(0.0, "hologram")]
    assert told(record("file-history-snapshot")) == []


def test_a_known_record_with_another_shape_has_drifted() -> None:
    """A field that changed its type is as lost as one that changed its name."""
    assert told(record("user", message="a text")) == [e.FormatDrifted(0.0, "message")]
    assert told(record("user")) == [e.FormatDrifted(AT, "user.message")]
    assert told(b'{"kind":"user"}') == [e.FormatDrifted(0.0, "type")]


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
    assert told(line) == [e.LineMalformed(0.0, "not a JSON object")]


def test_half_a_character_costs_nothing() -> None:
    """Text that was cut inside of an emoji, or that is no UTF-8, does not cost the record."""
    for broken in (rb"\ud83d", rb"\ude00\ud83d", b"\xff\xfe"):
        line = user("PLACE").replace(b"PLACE", broken)
        assert told(line) == [e.Prompted(AT)], broken


def test_a_record_glued_to_a_torn_one_is_kept() -> None:
    """The good record is read, the torn one is marked, and a torn piece is no drift."""
    torn = user("hello")[:-20]
    assert told(torn + user("fix it")) == [e.LineMalformed(0.0, "not a JSON object"), e.Prompted(AT)]
    assert told(b'{"type":"user","message":{"role":"user"}') == [e.LineMalformed(0.0, "not a JSON object")]


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


def test_hooks_of_a_sessions_start_are_no_turn() -> None:
    """They run before the first prompt; those of a call are its progress."""
    assert told(record("progress", data={"type": "hook_progress", "hookEvent": "SessionStart"})) == []
    assert told(record("progress", data={"type": "hook_progress", "hookEvent": "PreToolUse"})) == [
        e.Progressed(AT)
    ]
