"""How runs of Claude Code end, and turns begin, as its transcript has them: read, folded and judged together."""

import json
from typing import Any

import pytest

from support import claude_transcripts
from support.judging_helpers import codes, folded, held
from wakeful.core.clock import Instant
from wakeful.core.process import ProcessState
from wakeful.integrations.claude_code.transcript import TranscriptReader
from wakeful.judging.activity import Activity
from wakeful.judging.findings import FindingCode, Health, State, Verdict, WaitKind
from wakeful.judging.judge import judge
from wakeful.judging.thresholds import Policy

AT = 1_767_603_600.0
ID = "11111111-1111-4111-8111-111111111111"
SAID = claude_transcripts.prompt(AT, ID)
CALLED = claude_transcripts.call(AT + 1, ID, "true")


def record(kind: str, seconds: float, **fields: Any) -> dict[str, Any]:
    return claude_transcripts.record(kind, AT + seconds, ID, **fields)


def result(seconds: float, content: Any = "ok", **fields: Any) -> dict[str, Any]:
    block = {"type": "tool_result", "tool_use_id": "toolu_1", "content": content}
    return record("user", seconds, message={"role": "user", "content": [block]}, **fields)


def told(seconds: float, text: str, **fields: Any) -> dict[str, Any]:
    return record("user", seconds, message={"role": "user", "content": text}, **fields)


def read(*records: dict[str, Any]) -> Activity:
    reader = TranscriptReader()
    return folded([event for each in records for event in reader.read(json.dumps(each).encode())])


def judged(seconds: float, sight: ProcessState, *records: dict[str, Any]) -> Verdict:
    now = Instant(AT + seconds, AT + seconds)
    return judge(
        read(*records), held(sight, ended_at=now if sight is ProcessState.DEAD else None), Policy(), now
    )


MAX_TURNS = record("attachment", 3, attachment={"type": "max_turns_reached", "maxTurns": 2, "turnCount": 3})
HOOK = record("attachment", 3, attachment={"type": "hook_stopped_continuation", "message": "enough"})


@pytest.mark.parametrize(
    "ending",
    [
        [result(2, "Structured output provided successfully", toolEndsTurn=True)],
        [result(2), MAX_TURNS],
        [result(2), HOOK],
    ],
)
def test_a_run_that_ended_by_its_own_rules_is_no_death(ending: list[dict[str, Any]]) -> None:
    """A schema that was filled, `--max-turns` and a hook's stop are ends: stopped, healthy, nothing found."""
    gone = judged(4, ProcessState.DEAD, SAID, CALLED, *ending)
    assert (gone.state, gone.health, gone.findings) == (State.STOPPED, Health.HEALTHY, ())
    alive = judged(4000, ProcessState.ALIVE, SAID, CALLED, *ending)
    assert (alive.state, alive.findings) == (State.IDLE, ())


def test_a_run_that_was_cut_off_is_still_a_death() -> None:
    """Without the client's word that it was the last, a result is owed an answer."""
    assert codes(judged(4, ProcessState.DEAD, SAID, CALLED, result(2))) == [FindingCode.SESSION_DEAD]
    failed = result(2, toolEndsTurn=True)
    failed["message"]["content"][0]["is_error"] = True
    assert codes(judged(4, ProcessState.DEAD, SAID, CALLED, failed)) == [FindingCode.SESSION_DEAD]


def budget(seconds: float, used: float, total: float = 0.0007) -> dict[str, Any]:
    said = {"type": "budget_usd", "used": used, "total": total, "remaining": total - used}
    return record("attachment", seconds, attachment=said)


def spending(total: float) -> list[dict[str, Any]]:
    """A run whose messages cost $0.0002 each, up to its third call."""
    called = [claude_transcripts.call(AT + each, ID, "true", f"toolu_{each}") for each in (1, 2, 3)]
    for number, each in enumerate(called, 1):
        each["message"]["content"][0]["id"] = f"toolu_{number}"
    ended = [result(each) for each in (1, 2)]
    ended[1]["message"]["content"][0]["tool_use_id"] = "toolu_2"
    told_so_far = [budget(each, 0.0002 * each, total) for each in (0, 1, 2)]
    steps = [
        told_so_far[0],
        called[0],
        ended[0],
        told_so_far[1],
        called[1],
        ended[1],
        told_so_far[2],
        called[2],
    ]
    return [SAID, *steps]


LAST_LINE = {"type": "last-prompt", "lastPrompt": "please", "leafUuid": "x", "sessionId": ID}


def test_a_run_that_used_up_its_budget_is_no_death() -> None:
    """What it had left before its last message is less than such a message costs: over, dead or alive."""
    spent = spending(0.0005)
    gone = judged(4, ProcessState.DEAD, *spent, LAST_LINE)
    assert (gone.state, gone.health, gone.findings) == (State.STOPPED, Health.HEALTHY, ())
    alive = judged(4000, ProcessState.ALIVE, *spent)
    assert (alive.state, alive.findings) == (State.IDLE, ())


def test_a_prompt_to_a_run_without_money_begins_nothing() -> None:
    """A client driven by its stream lives on behind its budget, and answers no prompt."""
    alive = judged(4000, ProcessState.ALIVE, SAID, budget(1, 0.0008))
    assert (alive.state, alive.findings) == (State.IDLE, ())


def test_a_run_with_money_left_that_was_ended_in_its_turn_is_a_death() -> None:
    """SIGTERM leaves the same last lines; what was left would have paid for many messages more."""
    assert codes(judged(4, ProcessState.DEAD, *spending(5.0), LAST_LINE)) == [FindingCode.SESSION_DEAD]


@pytest.mark.parametrize(
    "run",
    [
        pytest.param([SAID, budget(0, 0.0, 5.0), CALLED], id="no message was paid for before"),
        pytest.param(spending(0.00075), id="nearly used up"),
    ],
)
def test_whether_a_budget_ended_a_run_may_be_unknown(run: list[dict[str, Any]]) -> None:
    """Ended in order, and what its last message cost is not known well enough; without that last line it was killed."""
    unclear = judged(4, ProcessState.DEAD, *run, LAST_LINE)
    assert (unclear.state, unclear.health, unclear.findings) == (State.STOPPED, Health.UNKNOWN, ())
    assert codes(judged(4, ProcessState.DEAD, *run)) == [FindingCode.SESSION_DEAD]
    resumed = [claude_transcripts.prompt(AT + 5, ID), claude_transcripts.call(AT + 6, ID, "true", "toolu_9")]
    assert codes(judged(7, ProcessState.DEAD, *run, LAST_LINE, *resumed, LAST_LINE)) == [
        FindingCode.SESSION_DEAD
    ]


def test_what_a_subagent_costs_is_not_known() -> None:
    """It spends from the same budget in a log of its own, so that any message may have been the last."""
    run = spending(5.0)
    block = run[-1]["message"]["content"][0]
    block |= {"name": "Task", "input": {"prompt": "look"}}
    assert judged(4, ProcessState.DEAD, *run, LAST_LINE).health is Health.UNKNOWN


STOPPED_BY_HOOK = told(1, "Operation stopped by hook: enough")


def test_a_prompt_that_a_hook_stopped_is_over() -> None:
    """The client says so in the place of a prompt: no model is asked."""
    gone = judged(4, ProcessState.DEAD, SAID, STOPPED_BY_HOOK)
    assert (gone.state, gone.health, gone.findings) == (State.STOPPED, Health.HEALTHY, ())
    assert judged(4000, ProcessState.ALIVE, SAID, STOPPED_BY_HOOK).state is State.IDLE


def unfit(times: int) -> list[dict[str, Any]]:
    """So many answers to a schema, none of which fits."""
    records = [SAID]
    for number in range(times):
        called = claude_transcripts.call(AT + 1 + number, ID, "n", f"toolu_{number}")
        called["message"]["content"][0]["name"] = "StructuredOutput"
        wrong = result(1.5 + number, "Output does not match required schema: /n: must be integer")
        wrong["message"]["content"][0] |= {"is_error": True, "tool_use_id": f"toolu_{number}"}
        records += [called, wrong]
    return records


@pytest.mark.parametrize("run", [unfit(5), [*unfit(2), LAST_LINE], [*unfit(5), LAST_LINE]])
def test_a_run_whose_answer_never_fits_its_schema_failed(run: list[dict[str, Any]]) -> None:
    """The client gives up after five tries, or the configured number, and only its last line says so: no
    death, no hang."""
    gone = judged(9, ProcessState.DEAD, *run)
    assert codes(gone) == [FindingCode.TURN_FAILED]
    assert gone.findings[0].untrusted == ("Output does not match required schema: /n: must be integer",)
    assert codes(judged(4000, ProcessState.ALIVE, *run)) == [FindingCode.TURN_FAILED]


def test_an_answer_that_fits_in_the_end_is_no_failure() -> None:
    """Asked again it may succeed; killed before it answered it is dead."""
    assert codes(judged(9, ProcessState.DEAD, *unfit(3))) == [FindingCode.SESSION_DEAD]
    filled = result(8, "Structured output provided successfully", toolEndsTurn=True)
    assert judged(9, ProcessState.DEAD, *unfit(4), CALLED, filled, LAST_LINE).findings == ()
    again = [claude_transcripts.prompt(AT + 8, ID), LAST_LINE]
    assert codes(judged(9, ProcessState.DEAD, *unfit(2), *again)) == [FindingCode.SESSION_DEAD]


COMMAND = told(0, "<command-message>deploy</command-message>\n<command-name>/deploy</command-name>")
SKILL = told(0, "Base directory for this skill: /x", isMeta=True)
FIRED = told(0, "check the build", isMeta=True, promptSource="system")
REFUSED = told(0, "Stop hook feedback:\n[check]: go on", isMeta=True)
MARK = record("system", 0, subtype="stop_hook_summary")
UNFILLED = told(0, "[structured-output-enforce] You MUST call the StructuredOutput tool", isMeta=True)


@pytest.mark.parametrize("begun", [[COMMAND, SKILL], [FIRED], [REFUSED, MARK], [UNFILLED]])
def test_a_turn_that_no_typed_prompt_began_is_one(begun: list[dict[str, Any]]) -> None:
    """A skill, a task at its time, a hook that asks for more: at work, silent when it hangs, dead when killed."""
    before = [SAID, claude_transcripts.answer(AT, ID)]
    assert judged(5, ProcessState.ALIVE, *before, *begun).state is State.PROMPTING
    assert codes(judged(700, ProcessState.ALIVE, *before, *begun)) == [FindingCode.SILENT]
    assert codes(judged(5, ProcessState.DEAD, *before, *begun)) == [FindingCode.SESSION_DEAD]


@pytest.mark.parametrize(
    "launched",
    [
        {"isAsync": True, "status": "async_launched", "agentId": "a7", "description": "sub job"},
        {"status": "async_launched", "taskId": "w1", "taskType": "local_workflow"},
        {"taskId": "b5", "timeoutMs": 60000, "persistent": False},
    ],
)
def test_what_was_launched_behind_the_turn_is_waited_for(launched: dict[str, Any]) -> None:
    """An agent, a workflow and a monitor are background waits until the word of their end."""
    left = [
        SAID,
        CALLED,
        result(2, "in new words", toolUseResult=launched),
        claude_transcripts.answer(AT + 3, ID),
    ]
    waits = judged(60, ProcessState.ALIVE, *left).waits
    assert [wait.kind for wait in waits] == [WaitKind.BACKGROUND]
    task = launched.get("agentId") or launched["taskId"]
    word = f"<task-notification>\n<task-id>{task}</task-id>\n"
    event = told(50, f"{word}<event>tick</event>\n</task-notification>")
    assert judged(60, ProcessState.ALIVE, *left, event, claude_transcripts.answer(AT + 51, ID)).waits
    over = told(50, f"{word}<status>completed</status>\n</task-notification>")
    assert judged(60, ProcessState.ALIVE, *left, over, claude_transcripts.answer(AT + 51, ID)).waits == ()


def resumed(seconds: float) -> list[dict[str, Any]]:
    """What the client writes in place of the rest of a turn that was cut off, with the first prompt after a resume."""
    told = record(
        "user",
        seconds,
        message={"role": "user", "content": [{"type": "text", "text": "Continue from where you left off."}]},
        isMeta=True,
    )
    answer = {"type": "text", "text": "No response requested."}
    said = {"model": "<synthetic>", "role": "assistant", "stop_reason": "stop_sequence", "content": [answer]}
    return [told, record("assistant", seconds, message={"id": "m", **said})]


def test_a_turn_that_was_cut_off_and_resumed_has_not_ended_well() -> None:
    """The client closes it with two messages of its own, for the model: no turn ended."""
    cut_off = judged(60, ProcessState.DEAD, SAID, CALLED, *resumed(50))
    assert codes(cut_off) == [FindingCode.SESSION_DEAD]
    goes_on = judged(80, ProcessState.ALIVE, SAID, CALLED, *resumed(50), told(70, "go on"))
    assert (goes_on.state, read(SAID, CALLED, *resumed(50), told(70, "go on")).well_ended_at) == (
        State.PROMPTING,
        None,
    )
