"""Codex's rollout, line by line: calls, their outcomes, turns and whose log it is."""

import json
from typing import Any
from zlib import crc32

import pytest

from support.judging_helpers import folded, held
from wakeful.core.clock import Instant
from wakeful.core.ids import ConversationId
from wakeful.core.process import ProcessState
from wakeful.integrations.codex.rollout import RolloutReader
from wakeful.judging import events as e
from wakeful.judging.findings import Attention, FindingCode, Health, State, Verdict, WaitKind
from wakeful.judging.judge import judge
from wakeful.judging.thresholds import Policy

AT = 1_782_945_610.0
STAMP = "2026-07-01T22:40:10.000Z"
ID = "019f0000-0000-7000-8000-000000000001"


OPENED = e.Prompted(AT, by_person=False, unasked=True)


def line(kind: str, **payload: Any) -> bytes:
    return json.dumps({"timestamp": STAMP, "type": kind, "payload": payload}).encode()


def event(kind: str, **payload: Any) -> bytes:
    return line("event_msg", type=kind, **payload)


def item(kind: str, **payload: Any) -> bytes:
    return line("response_item", type=kind, **payload)


def told(raw: bytes) -> list[e.Event]:
    return list(RolloutReader().read(raw))


def ended(output: Any) -> e.CallEnded:
    (told_end,) = told(item("function_call_output", call_id="c1", output=output))
    assert isinstance(told_end, e.CallEnded)
    return told_end


def test_a_fork_keeps_its_own_name() -> None:
    """A forked thread begins with a copy of its parent's records; only the first one is about itself."""
    reader = RolloutReader()
    own = line("session_meta", id=ID, cwd="/home/u/proj", cli_version="0.142.5")
    parents = line("session_meta", id="019f0000-0000-7000-8000-000000000000", cwd="/elsewhere")
    assert reader.read(own) == (e.LogOpened(AT, ConversationId(ID), "/home/u/proj", "0.142.5"),)
    assert reader.read(parents) == ()
    assert len(reader.read(own)) == 1


def test_every_turn_tells_the_folder() -> None:
    """A log read from its last turn on still has the session's folder, and that the model is asked."""
    told_of = told(line("turn_context", cwd="/home/u/proj"))
    assert told_of == [e.LogOpened(AT, cwd="/home/u/proj"), e.Progressed(AT)]


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        (event("task_started", turn_id="t"), [OPENED]),
        (event("task_started", root_turn_id="t", turn_attribution={"turn_trigger": None}), [OPENED]),
        (
            event("task_started", turn_id="t", root_turn_id="t"),
            [e.Prompted(AT, by_person=False), e.CompactionStarted(AT)],
        ),
        (event("item_completed", item={"type": "Plan", "id": "p", "text": "# Plan"}), [e.PlanProposed(AT)]),
        (event("user_message", message="fix it"), [e.Prompted(AT)]),
        (event("user_message", message="<heartbeat>\n"), [e.Prompted(AT, by_person=False)]),
        (
            event("item_completed", item={"type": "UserMessage", "content": [{"type": "text", "text": "x"}]}),
            [e.Prompted(AT)],
        ),
        (item("message", role="user", content=[{"text": "<environment_context>"}]), []),
        (item("message", role="user", content=[{"text": "<turn_aborted>"}]), []),
        (item("message", role="developer", content=[]), []),
        (item("message", role="assistant", content=[]), [e.Progressed(AT)]),
        (item("reasoning", summary=[]), [e.Progressed(AT)]),
        (event("agent_message", message="hm"), [e.Progressed(AT)]),
        (item("web_search_call", status="completed", action={}), [e.Progressed(AT)]),
        (event("task_complete", last_agent_message="done"), [e.TurnEnded(AT)]),
        (event("turn_aborted", reason="interrupted"), [e.TurnInterrupted(AT)]),
        (event("context_compacted"), [e.CompactionEnded(AT)]),
        (line("compacted", message=""), [e.CompactionEnded(AT)]),
        (line("world_state", full=True), []),
        (event("brand_new"), [e.RecordSkipped(0.0, "event_msg.brand_new")]),
        (line("brand_new", name=7), [e.RecordSkipped(0.0, "brand_new")]),
    ],
)
def test_what_a_record_does_to_the_turn(raw: bytes, expected: list[e.Event]) -> None:
    """Only what a person said begins a turn afresh; context in the user's name does not."""
    assert told(raw) == expected


def test_equal_words_have_equal_numbers_and_a_stammer_is_told() -> None:
    """The numbers identify a monologue."""
    said = [{"type": "output_text", "text": "I will wait for what comes next. " * 20}]
    one, same = told(item("message", role="assistant", content=said)) * 2
    assert isinstance(one, e.Progressed)
    assert (one.words, one.echoes) == (crc32(json.dumps(said).encode()), 20)
    assert same == one


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        (
            item("function_call", name="exec_command", call_id="c1", arguments='{"cmd":"ls"}'),
            e.CallStarted(
                AT, "c1", "exec_command", e.CallKind.TOOL, b'{"cmd":"ls"}', enforced=True, limit_seconds=10.0
            ),
        ),
        (
            item("function_call", name="request_user_input", call_id="c1", arguments="{}"),
            e.CallStarted(AT, "c1", "request_user_input", e.CallKind.PERSON, b"{}", enforced=True),
        ),
        (
            item("function_call", name="wait_agent", call_id="c1", arguments="{}"),
            e.CallStarted(AT, "c1", "wait_agent", e.CallKind.SUBAGENT, b"{}", enforced=True),
        ),
        (
            item("custom_tool_call", name="apply_patch", call_id="c1", input="*** Begin"),
            e.CallStarted(
                AT, "c1", "apply_patch", e.CallKind.TOOL, b"*** Begin", enforced=True, limit_seconds=5.0
            ),
        ),
        (
            item("local_shell_call", call_id="c1", action={"timeout_ms": 9000}),
            e.CallStarted(
                AT,
                "c1",
                "local_shell",
                e.CallKind.TOOL,
                b'{"timeout_ms": 9000}',
                9.0,
                True,
                limit_seconds=9.0,
            ),
        ),
        (
            item("tool_search_call", call_id="c1", arguments={"query": "x"}),
            e.CallStarted(AT, "c1", "tool_search", e.CallKind.TOOL, b'{"query": "x"}', enforced=True),
        ),
        (item("tool_search_output", call_id="c1", tools=[]), e.CallEnded(AT, "c1")),
    ],
)
def test_calls_of_every_kind(raw: bytes, expected: e.Event) -> None:
    """Arguments stand in a string, in an object or in an action; all become the call's input."""
    assert told(raw) == [expected]


HEADER = "Chunk ID: ac7b86\nWall time: 5.8604 seconds\nProcess exited with code {}\nOutput:\n{}"


@pytest.mark.parametrize(
    ("output", "is_error"),
    [
        (HEADER.format(0, "hi"), False),
        (HEADER.format(3, "oops"), True),
        (HEADER.format(0, "Process exited with code 9"), False),
        ("Chunk ID: x\nWall time: 10 seconds\nProcess running with session ID 42\nOutput:\n", False),
        ("Process running with session ID 42\nOutput:\nProcess exited with code 9", False),
        ("Exit code: 0\nWall time: 0 seconds\nOutput:\nSuccess.", False),
        ("Exit code: 1\nWall time: 0 seconds\nOutput:\nNo.", True),
        ("apply_patch verification failed: Failed to find expected lines", True),
        ("failed to parse function arguments: missing field", True),
        ("Plan updated", False),
        ("3 tests failed", False),
        ('{"output":"x","metadata":{"exit_code":0,"duration_seconds":0.1}}', False),
        ('{"output":"x","metadata":{"exit_code":2,"duration_seconds":0.1}}', True),
        ('{"content":[],"isError":true}', True),
        ([{"type": "input_text", "text": "Script completed\nWall time 1 seconds\nOutput:\n"}], False),
        ([{"type": "input_text", "text": "Script failed\nWall time 0 seconds\nOutput:\n"}], True),
    ],
)
def test_an_output_says_whether_the_call_failed(output: Any, is_error: bool) -> None:
    """The header decides, never what the program printed behind it."""
    assert ended(output).is_error is is_error


@pytest.mark.parametrize(
    "output",
    [
        "exec command rejected by user",
        "aborted by user after 3.2s",
        "Wall time: 2.6 seconds\naborted by user",
    ],
)
def test_a_persons_no_is_no_error(output: str) -> None:
    """A refused or aborted call says nothing about the agent."""
    assert ended(output).refused
    assert not ended(output).is_error


def test_equal_results_look_equal() -> None:
    """Chunk ids and wall times differ every time; the result leaves them out and keeps the exit code."""
    again = HEADER.replace("ac7b86", "000000").replace("5.8604", "0.1")
    assert ended(HEADER.format(1, "x")).result == ended(again.format(1, "x")).result
    assert ended(HEADER.format(1, "x")).result != ended(HEADER.format(2, "x")).result


def test_a_failed_command_ends_its_call_as_an_error() -> None:
    """The item of a command may be the first to tell; a command that went well tells nothing new."""

    def command(status: str) -> list[e.Event]:
        return told(event("item_completed", item={"type": "CommandExecution", "id": "c1", "status": status}))

    assert command("failed") == [e.CallEnded(AT, "c1", is_error=True)]
    assert command("declined") == [e.CallEnded(AT, "c1", refused=True)]
    assert command("completed") == [e.Progressed(AT)]


def test_a_command_that_goes_on_is_a_background_task_until_its_end() -> None:
    """Codex gives a call back after ten seconds and tells of its command's end later, perhaps after the turn."""
    reader, ended_item = RolloutReader(), {"type": "CommandExecution", "id": "c1", "status": "completed"}
    running = (
        "Chunk ID: ac7b86\nWall time: 10.0 seconds\nProcess running with session ID 42979\nOutput:\nhi\n"
    )
    (came_back,) = reader.read(item("function_call_output", call_id="c1", output=running))
    assert isinstance(came_back, e.CallEnded)
    assert (came_back.background, came_back.is_error) == ("42979", False)
    completed = event("item_completed", item=ended_item)
    assert reader.read(completed) == (e.Progressed(AT), e.TaskEnded(AT, "42979"))
    assert list(reader.read(completed)) == [e.Progressed(AT)]


def test_asking_a_running_command_for_more_is_no_task_of_its_own() -> None:
    """Older dialects tell of its end in the last answer only."""
    reader = RolloutReader()
    for call, state, events in (
        ("p1", "Process running with session ID 42979", []),
        ("p2", "Process exited with code 0", [e.TaskEnded(AT, "42979")]),
    ):
        reader.read(item("function_call", name="write_stdin", call_id=call, arguments='{"session_id":42979}'))
        output = f"Wall time: 5 seconds\n{state}\nOutput:\n"
        came_back, *more = reader.read(item("function_call_output", call_id=call, output=output))
        assert isinstance(came_back, e.CallEnded)
        assert (came_back.background, more) == ("", events)


def test_a_usage_limit_says_when_it_ends() -> None:
    """As the client says it, in its own zone's time of day."""
    message = "You've hit your usage limit. Upgrade to Pro or try again in 2 hours."
    raw = event("task_complete", error={"message": message, "codex_error_info": "usage_limit_exceeded"})
    assert told(raw) == [e.TurnFailed(AT, e.Failure.LIMIT, message, until=AT + 7200)]


@pytest.mark.parametrize(
    ("message", "info", "failure", "status"),
    [
        (
            "unexpected status 401 Unauthorized: no",
            {"http_connection_failed": {"http_status_code": 401}},
            "auth",
            401,
        ),
        ("unexpected status 403 Forbidden: no", None, "auth", 403),
        ("Missing environment variable: `FAKE_KEY`.", None, "auth", None),
        ("exceeded retry limit, last status: 429 Too Many Requests", None, "provider", 429),
        ("Quota exceeded. Check your plan and billing details.", None, "limit", None),
        ("You\u2019ve hit your usage limit. Upgrade to Pro", "usage_limit_exceeded", "limit", None),
        ("We\u2019re currently experiencing high demand", None, "provider", None),
        ("Selected model is at capacity.", None, "provider", None),
        ("stream disconnected before completion: x", None, "provider", None),
        ("no", {"response_stream_failed": {"http_status_code": 503}}, "provider", 503),
        ("Codex ran out of room in the model's context window.", None, "request", None),
        ("{}", "bad_request", "request", None),
        ("who knows", "other", "unknown", None),
    ],
)
def test_a_failed_turn_says_why(message: str, info: Any, failure: str, status: int | None) -> None:
    """A status decides, else the words; every sentence the client was seen to say is placed."""
    raw = event("task_complete", error={"message": message, "codex_error_info": info})
    assert told(raw) == [e.TurnFailed(AT, e.Failure(failure), message, status)]


def usage(total: int, last: int) -> dict[str, Any]:
    def tokens(count: int) -> dict[str, int]:
        return {"input_tokens": count, "cached_input_tokens": count // 2, "output_tokens": 1}

    return {"total_token_usage": tokens(total), "last_token_usage": tokens(last)}


def test_a_repeated_count_is_spent_once() -> None:
    """Counts are written again when only a rate limit changed."""
    reader = RolloutReader()
    spent: list[e.Event] = []
    for info in (usage(10, 10), usage(10, 10), None, usage(30, 20)):
        spent += reader.read(event("token_count", info=info))
    assert spent == [e.TokensSpent(AT, 5, 1), e.TokensSpent(AT, 10, 1)]


def test_records_and_counts_are_never_both_spent() -> None:
    """Where usage has records of its own, the counts beside them say the same again."""
    reader = RolloutReader()
    record = line("token_usage_record", usage={"input_tokens": 10, "output_tokens": 5})
    assert reader.read(record) == (e.TokensSpent(AT, 10, 5),)
    assert reader.read(event("token_count", info=usage(10, 10))) == ()


@pytest.mark.parametrize(
    ("raw", "field"),
    [
        (line("session_meta", cwd="/"), "session_meta.id"),
        (item("function_call", call_id="c", arguments="{}"), "function_call.name"),
        (item("function_call", call_id="c", name="x"), "function_call.arguments"),
        (item("function_call", name="x", arguments="{}"), "function_call.call_id"),
        (item("function_call_output", call_id="c"), "function_call_output.output"),
        (item("function_call_output", output="x"), "function_call_output.call_id"),
        (event("item_completed"), "item_completed.item"),
        (line("token_usage_record"), "token_usage_record.usage"),
        (line("event_msg", name="task_started"), "payload.type"),
        (json.dumps({"timestamp": STAMP, "type": "event_msg"}).encode(), "payload"),
        (json.dumps({"timestamp": STAMP, "payload": {}}).encode(), "type"),
        (json.dumps({"type": "event_msg", "payload": {"type": "task_complete"}}).encode(), "timestamp"),
        (line("session_meta", id=7), "payload.id"),
    ],
)
def test_a_known_record_without_a_needed_field_has_drifted(raw: bytes, field: str) -> None:
    """The mark names the field, so that a person can see what changed."""
    (drifted,) = told(raw)
    assert isinstance(drifted, e.FormatDrifted)
    assert drifted.field == field


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        (event("user_message", message="fix it"), False),
        (event("user_message", message="<heartbeat>"), False),
        (event("task_started"), False),
        (event("task_complete"), True),
        (event("task_complete", error={"message": "no"}), False),
        (event("turn_aborted"), True),
        (item("function_call_output", call_id="c", output='"task_complete"'), False),
        (b'"task_complete"', False),
    ],
)
def test_a_boundary_is_where_nothing_before_matters(raw: bytes, expected: bool) -> None:
    """Only an end or an interruption: whether the prompts before the last one failed matters."""
    assert RolloutReader().is_boundary(raw) is expected


ALIVE = ProcessState.ALIVE
STARTED = event("task_started", turn_id="t", collaboration_mode_kind="plan")
CONTEXT = line("turn_context", cwd="/home/u/proj", collaboration_mode={"mode": "plan"})
PROMPT = event("item_completed", item={"type": "UserMessage", "content": []})
PLAN = event("item_completed", item={"type": "Plan", "id": "t-plan", "text": "# Plan"})
COMPLETE = event("task_complete", turn_id="t", last_agent_message="Here it is")


def judged(seconds: float, sight: ProcessState, *lines: bytes) -> Verdict:
    reader, now = RolloutReader(), Instant(AT + seconds, AT + seconds)
    activity = folded([event for raw in lines for event in reader.read(raw)])
    return judge(activity, held(sight, ended_at=now if sight is ProcessState.DEAD else None), Policy(), now)


def test_a_plan_waits_for_a_persons_yes() -> None:
    """A turn that ends with a plan ends with a question, until the next one begins; an end there is no death."""
    asking = judged(4000, ALIVE, STARTED, CONTEXT, PROMPT, PLAN, COMPLETE)
    assert (asking.state, asking.attention, asking.active_prompt) == (State.WAITING, Attention.PERSON, False)
    assert [(wait.kind, wait.until) for wait in asking.waits] == [(WaitKind.PERSON, None)]
    assert asking.findings == ()
    gone = judged(5, ProcessState.DEAD, STARTED, CONTEXT, PROMPT, PLAN, COMPLETE)
    assert (gone.state, gone.health, gone.findings) == (State.STOPPED, Health.HEALTHY, ())
    again = [STARTED, CONTEXT, PROMPT]
    assert judged(5, ALIVE, *again, PLAN, COMPLETE, *again).state is State.PROMPTING
    assert judged(5, ALIVE, *again, PLAN, COMPLETE, *again, COMPLETE).state is State.IDLE
    cut = event("turn_aborted", reason="interrupted")
    assert judged(5, ALIVE, *again, PLAN, cut).state is State.IDLE


def test_a_command_that_a_person_typed_is_no_wait_for_the_model() -> None:
    """`!npm run dev` opens a turn without output until it ends: at work for hours, never silent, no death."""
    running = judged(4 * 3600, ALIVE, COMPLETE, STARTED)
    assert (running.state, running.findings) == (State.PROMPTING, ())
    assert [wait.kind for wait in running.waits] == [WaitKind.TOOL]
    assert judged(5, ProcessState.DEAD, COMPLETE, STARTED).findings == ()
    assert judged(5, ALIVE, COMPLETE, STARTED, COMPLETE).state is State.IDLE


@pytest.mark.parametrize("asked", [[CONTEXT], [PROMPT], [CONTEXT, PROMPT]])
def test_a_turn_that_asks_the_model_is_waited_for_as_ever(asked: list[bytes]) -> None:
    """Whatever shows that a request follows makes it a wait for the model."""
    assert [wait.kind for wait in judged(5, ALIVE, STARTED, *asked).waits] == [WaitKind.MODEL]
    assert [finding.code for finding in judged(700, ALIVE, STARTED, *asked).findings] == [FindingCode.SILENT]
    assert [finding.code for finding in judged(5, ProcessState.DEAD, STARTED, *asked).findings] == [
        FindingCode.SESSION_DEAD
    ]


BY_EXEC = event("task_started", root_turn_id="t", turn_attribution={"turn_id": "t", "turn_trigger": "exec"})
BY_NOBODY = event("task_started", root_turn_id="t", turn_attribution={"turn_id": "t", "turn_trigger": None})
EXEC_THREAD = line("session_meta", id=ID, source="exec")


@pytest.mark.parametrize("begun", [[BY_EXEC], [EXEC_THREAD, STARTED], [EXEC_THREAD, COMPLETE, STARTED]])
def test_a_run_of_codex_exec_that_died_before_its_prompt_was_written_is_dead(begun: list[bytes]) -> None:
    """It runs nothing but prompts: what it opened a turn for is owed an answer, also for the first milliseconds."""
    assert [finding.code for finding in judged(5, ProcessState.DEAD, *begun).findings] == [
        FindingCode.SESSION_DEAD
    ]
    assert [wait.kind for wait in judged(5, ALIVE, *begun).waits] == [WaitKind.MODEL]


def test_a_command_typed_into_a_thread_that_exec_began_is_a_persons() -> None:
    """Such a thread can be opened in a terminal later; there each turn says for itself that exec did not begin it."""
    assert judged(5, ProcessState.DEAD, EXEC_THREAD, COMPLETE, BY_NOBODY).findings == ()


def test_a_summary_that_hangs_is_silent() -> None:
    """`/compact` opens a turn without a prompt, and the model works in it."""
    begun = event("task_started", turn_id="t", root_turn_id="t")
    assert [wait.kind for wait in judged(5, ALIVE, COMPLETE, begun).waits] == [WaitKind.COMPACTION]
    assert [finding.code for finding in judged(700, ALIVE, COMPLETE, begun).findings] == [FindingCode.SILENT]
