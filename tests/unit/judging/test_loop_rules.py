"""The rules about steps, launches, plans and other agents, as far as labelled cases cannot tell: see loop-rules.jsonl."""

import json
from typing import Any

import pytest

from support.judging_helpers import at
from wakeful.integrations.claude_code.transcript import TranscriptReader
from wakeful.judging import events as e
from wakeful.judging.activity import Activity
from wakeful.judging.call_identity import call_of, identity_of, is_spawn, starts_something, writes_nothing
from wakeful.judging.folding import BACKGROUND_MAX, fold
from wakeful.judging.loops import detect_loop
from wakeful.judging.plan_items import is_plan
from wakeful.judging.spawns import PROMPTS_KEPT_MAX, SPAWNS_KEPT_MAX, detect_storm
from wakeful.judging.thresholds import Policy

POLICY = Policy()


def folded(*events: e.Event) -> Activity:
    activity = Activity()
    for event in (e.Prompted(1.0), *events):
        fold(activity, event, at(event.at))
    return activity


def exchange(
    number: int, message: str = "", *, result: bytes = b'"x"', background: str = ""
) -> tuple[e.Event, e.Event]:
    given = b'{"command":"npm run dev"}'
    return (
        e.CallStarted(10.0 * number, f"c{number}", "Bash", input=given, message=message),
        e.CallEnded(10.0 * number + 1, f"c{number}", result=result, background=background),
    )


def is_loop(activity: Activity) -> bool:
    return detect_loop(activity.circles, POLICY, at(1000.0)) is not None


def test_equal_calls_of_one_message_are_one_step_though_the_first_came_back_before_the_second() -> None:
    """A client runs a call while the message that makes it is still streamed."""
    assert not is_loop(folded(*(event for number in range(8) for event in exchange(number, "msg_1"))))
    assert is_loop(folded(*(event for number in range(8) for event in exchange(number, f"msg_{number}"))))


def test_without_message_ids_calls_with_no_result_between_them_are_one_step() -> None:
    """No call was repeated: the first result was not there yet."""
    pairs = [exchange(number) for number in range(8)]
    together = [*(started for started, _ in pairs), *(ended for _, ended in pairs)]
    assert not is_loop(folded(*sorted(together, key=lambda event: isinstance(event, e.CallEnded))))
    assert is_loop(folded(*(event for pair in pairs for event in pair)))


@pytest.mark.parametrize(("command", "loops"), [("cat src/part%d", True), ("npm run build:part%d", False)])
def test_only_looks_with_one_answer_get_nowhere(command: str, loops: bool) -> None:
    """Eight builds that say the same are work, also behind a look that said so too."""
    events: list[e.Event] = []
    for number in range(9):
        given = json.dumps({"command": command % number if number else "cat src/all"}).encode()
        result = b'"Everything is up to date, and there is nothing to do."'
        events += [
            e.CallStarted(10.0 * number + 2, f"c{number}", "Bash", input=given),
            e.CallEnded(10.0 * number + 3, f"c{number}", result=result),
        ]
    assert is_loop(folded(*events)) is loops


def test_a_transcript_names_the_message_of_a_call() -> None:
    """Two blocks of one message stand in two records."""
    block: dict[str, Any] = {"type": "tool_use", "id": "t1", "name": "Bash", "input": {"command": "ls"}}
    message = {"id": "msg_7", "role": "assistant", "content": [block], "stop_reason": "tool_use"}
    record = {"type": "assistant", "timestamp": "2026-01-05T09:00:00Z", "message": message}
    (started,) = [
        event
        for event in TranscriptReader().read(json.dumps(record).encode())
        if isinstance(event, e.CallStarted)
    ]
    assert started.message == "msg_7"


def test_a_launch_is_the_same_launch_under_any_id() -> None:
    """Whatever the id looks like: the reader knows it."""
    told = (
        b'"Command running in background with ID: %s. Output is being written to: /w/%s.output' + b"." * 300
    )
    events = [
        event
        for number, task in enumerate(("zq7", "kkw", "p0p", "mno"))
        for event in exchange(number, result=told % (task.encode(), task.encode()) + b'"', background=task)
    ]
    assert is_loop(folded(*events))
    assert not is_loop(folded(*events[:6]))


@pytest.mark.parametrize(
    ("command", "starts"),
    [
        ("npm run dev", True),
        ("docker compose up -d", True),
        ("./start.sh", True),
        ("make", True),
        ("./state", False),
        ("./scripts/status.sh", False),
        ("curl -s localhost:3000/health", False),
        ("gh run view 7", False),
    ],
)
def test_what_starts_something_is_no_look(command: str, starts: bool) -> None:
    """By the known effect of its program, else by a word in it; an unknown script may be a status check."""
    call = call_of("Bash", json.dumps({"command": command}).encode())
    assert starts_something("Bash", identity_of(call)) is starts


@pytest.mark.parametrize(
    ("tool", "given", "only_looks"),
    [
        ("Bash", {"command": "curl -s https://a.example/b"}, True),
        ("Bash", {"command": "curl -s -X POST https://a.example/b"}, False),
        ("Bash", {"command": "git fetch && git log -1"}, False),
        ("Bash", {"command": "npm test"}, False),
        ("WebFetch", {"url": "https://a.example"}, True),
        ("mcp__tracker__get_issue", {"id": 1}, True),
        ("mcp__tracker__close_issue", {"id": 1}, False),
    ],
)
def test_a_look_writes_nothing(tool: str, given: dict[str, object], only_looks: bool) -> None:
    """Here or elsewhere; what is not known to look does not."""
    call = call_of(tool, json.dumps(given).encode())
    assert writes_nothing(identity_of(call)) is only_looks


def test_names_of_tools_that_plan_and_that_send_out_agents() -> None:
    """Of several clients; reading a plan writes none, and waiting for an agent sends out none."""
    plans = ("TodoWrite", "update_plan", "todo_write", "write_todos", "TaskUpdate", "mcp__x__update_plan")
    assert all(map(is_plan, plans))
    assert not any(map(is_plan, ("TodoRead", "TaskList", "TaskCreate", "Write", "update_planet")))
    assert all(map(is_spawn, ("Task", "Agent", "spawn_agent", "run_subagent", "delegate_task")))
    assert not any(
        map(is_spawn, ("TaskOutput", "wait_agent", "list_subagents", "TaskCreate", "get_subagent"))
    )


def test_agents_left_running_behind_the_turn_count_as_out() -> None:
    """Their call came back at once; each goes on until its task ends."""
    events: list[e.Event] = []
    for number in range(POLICY.spawns_open_max + 1):
        given = json.dumps({"prompt": f"part {number}"}).encode()
        events += [
            e.CallStarted(10.0 + number, f"c{number}", "Agent", e.CallKind.SUBAGENT, given),
            e.CallEnded(10.5 + number, f"c{number}", result=b'"launched"', background=f"a{number}"),
        ]
    assert POLICY.spawns_open_max < BACKGROUND_MAX
    assert detect_storm(folded(*events), POLICY) is not None
    assert detect_storm(folded(*events, e.TaskEnded(40.0, "a3")), POLICY) is None
    assert detect_storm(folded(*events, e.TurnEnded(50.0), e.Prompted(60.0)), POLICY) is None


def test_what_is_remembered_of_agents_is_bounded() -> None:
    """However many a turn sends out."""
    activity = Activity()
    for number in range(3 * SPAWNS_KEPT_MAX):
        given = json.dumps({"prompt": f"part {number}"}).encode()
        fold(activity, e.CallStarted(float(number), f"c{number}", "Task", input=given), at(float(number)))
    assert activity.spawns is not None
    assert len(activity.spawns.times) == SPAWNS_KEPT_MAX
    assert len(activity.spawns.prompts) == PROMPTS_KEPT_MAX
