"""Labelled sequences for the guess that a call asks for a permission: each rule, and what nearly fits it.

Every line is read by the client's own reader; live judgement and replay must say the same.
"""

import json
from collections.abc import Callable, Sequence
from typing import Any, Final

import pytest
from msgspec import Struct

from wakeful.core.clock import Instant, Sleep, iso
from wakeful.core.process import Process, ProcessState
from wakeful.integrations.claude_code.transcript import TranscriptReader
from wakeful.integrations.codex.rollout import RolloutReader
from wakeful.judging.activity import Activity
from wakeful.judging.evidence import AgentProcess, ClientStatus, RuntimeState, remember_process
from wakeful.judging.findings import Attention, FindingCode, Health, State, Verdict, WaitKind
from wakeful.judging.folding import fold
from wakeful.judging.judge import judge
from wakeful.judging.thresholds import Policy
from wakeful.replay.engine import Replay

POLICY: Final = Policy()
START: Final = 1_767_603_600.0
ALIVE: Final = Process(7, 1, "boot")

Lines = list[dict[str, Any]]


def claude(tool: str, given: dict[str, Any], mode: str | None = "default", entry: str = "cli") -> Lines:
    """A prompt in this mode, and one second later a call that does not come back."""
    common = {"sessionId": "5a74ada3-0000-4000-8000-000000000001", "cwd": "/w", "entrypoint": entry}
    prompt = {"type": "user", "timestamp": iso(START), "message": {"role": "user", "content": "go"}, **common}
    block = {"type": "tool_use", "id": "t1", "name": tool, "input": given}
    message = {"id": "m1", "role": "assistant", "content": [block], "stop_reason": "tool_use"}
    call = {"type": "assistant", "timestamp": iso(START + 1), "message": message, **common}
    return [prompt | ({"permissionMode": mode} if mode is not None else {}), call]


def changed_to(mode: str, lines: Lines) -> Lines:
    """A person changes the mode while the call is open."""
    return [*lines, {"type": "permission-mode", "permissionMode": mode}]


def came_back(lines: Lines, after: float) -> Lines:
    block = {"type": "tool_result", "tool_use_id": "t1", "content": "done"}
    stamp = iso(START + 1 + after)
    return [
        *lines,
        {"type": "user", "timestamp": stamp, "message": {"role": "user", "content": [block]}},
    ]


def codex(
    given: dict[str, Any], policy: Any = "on-request", tool: str = "exec_command", **context: Any
) -> Lines:
    stamps = [iso(START), iso(START), iso(START + 1)]
    call = {"type": "function_call", "name": tool, "call_id": "c1", "arguments": json.dumps(given)}
    payloads = [
        ("turn_context", {"cwd": "/w", "approval_policy": policy, **context}),
        ("event_msg", {"type": "task_started"}),
        ("response_item", call),
    ]
    return [
        {"timestamp": stamp, "type": kind, "payload": payload}
        for stamp, (kind, payload) in zip(stamps, payloads, strict=True)
    ]


def codex_script(code: str) -> Lines:
    """The same in a script that calls tools."""
    call = {"type": "custom_tool_call", "name": "exec", "call_id": "c1", "input": code}
    record = {"timestamp": iso(START + 1), "type": "response_item", "payload": call}
    return [*codex({})[:2], record]


def read(lines: Lines) -> list[Any]:
    reader = RolloutReader() if "payload" in lines[0] else TranscriptReader()
    return [event for line in lines for event in reader.read(json.dumps(line).encode())]


def at(seconds: float) -> Instant:
    """So long after the call began."""
    return Instant(START + 1 + seconds, START + 1 + seconds)


def presence_of(status: ClientStatus | None = None) -> RuntimeState:
    runtime = RuntimeState()
    remember_process(
        runtime, AgentProcess(ALIVE, ProcessState.ALIVE, at(-1), "a test", status=status, status_at=at(0.5))
    )
    return runtime


def judged(lines: Lines, seconds: float, presence: RuntimeState | None = None) -> Verdict:
    activity = Activity()
    for event in read(lines):
        fold(activity, event, Instant(event.at, event.at) if event.at else activity.last_at or at(0))
    return judge(activity, presence or presence_of(), POLICY, at(seconds))


def codes(verdict: Verdict) -> list[FindingCode]:
    return [finding.code for finding in verdict.findings]


class Asks(Struct, frozen=True):
    """A call that probably asks from so many seconds on."""

    name: str
    lines: Lines
    after: float


MAKE: Final = {"command": "make"}
ESCALATED: Final = {"cmd": "make", "sandbox_permissions": "require_escalated"}
ESCALATED_SCRIPT: Final = 'await tools.exec_command({cmd:"x",sandbox_permissions:"require_escalated"})'
ASKING: Final[Sequence[Asks]] = [
    Asks("bash", claude("Bash", MAKE), 150),
    Asks("bash with its own timeout", claude("Bash", {**MAKE, "timeout": 300_000}), 330),
    Asks("bash beyond the longest timeout", claude("Bash", {**MAKE, "timeout": 3_600_000}), 630),
    Asks("edit", claude("Edit", {"file_path": "a"}), 35),
    Asks("read outside of the folder", claude("Read", {"file_path": "/etc/hosts"}, "acceptEdits"), 35),
    Asks("write in plan mode", claude("Write", {"file_path": "a"}, "plan"), 35),
    Asks("mode not stated", claude("Bash", MAKE, None), 150),
    Asks("mode changed back", changed_to("default", claude("Bash", MAKE, "bypassPermissions")), 150),
    Asks("codex command", codex({"cmd": "make"}), 40),
    Asks("codex with its own yield time", codex({"cmd": "make", "yield_time_ms": 60_000}), 90),
    Asks("codex shell with a timeout", codex({"command": ["make"], "timeout_ms": 20_000}, tool="shell"), 50),
    Asks("codex granular policy", codex({"cmd": "make"}, {"granular": {"sandbox_approval": True}}), 40),
    Asks("codex escalated", codex(ESCALATED), 0),
    Asks("codex escalated inside of a script", codex_script(ESCALATED_SCRIPT), 0),
]
_BASH: Final = claude("Bash", MAKE)
# Sequences that nearly fit, each with what is found once every wait has run out.
NEARLY: Final[Sequence[tuple[str, Lines, Callable[[], RuntimeState], FindingCode]]] = [
    ("auto asks nobody", claude("Bash", MAKE, "auto"), presence_of, FindingCode.TOOL_WEDGED),
    ("bypass asks nobody", claude("Edit", {"file_path": "a"}, "bypassPermissions"), presence_of, FindingCode.TOOL_WEDGED),
    ("dontAsk asks nobody", claude("Bash", MAKE, "dontAsk"), presence_of, FindingCode.TOOL_WEDGED),
    ("mode changed in the turn", changed_to("auto", _BASH), presence_of, FindingCode.TOOL_WEDGED),
    ("claude -p asks nobody", claude("Read", {"file_path": "a"}, entry="sdk-cli"), presence_of, FindingCode.TOOL_WEDGED),
    ("the client says busy", _BASH, lambda: presence_of(ClientStatus.BUSY), FindingCode.TOOL_WEDGED),
    ("a tool without a limit", claude("WebFetch", {"url": "x"}), presence_of, FindingCode.TOOL_WEDGED),
    ("codex never asks", codex(ESCALATED, "never"), presence_of, FindingCode.TOOL_WEDGED),
    ("codex asks a reviewer", codex(ESCALATED, approvals_reviewer="auto_review"), presence_of, FindingCode.TOOL_WEDGED),
    ("asking for more", codex({"session_id": 3}, tool="write_stdin"), presence_of, FindingCode.TOOL_WEDGED),
]  # fmt: skip


@pytest.mark.parametrize("case", ASKING, ids=lambda case: case.name)
def test_a_call_open_longer_than_it_can_be_probably_asks(case: Asks) -> None:
    """Before its limit it works; from then on it waits for a person, is no problem, and is reported as a guess."""
    if case.after:
        early = judged(case.lines, case.after - 0.5)
        assert (early.state, early.attention) == (State.PROMPTING, Attention.NONE)
        assert early.next_check_at is not None
        assert early.next_check_at <= at(case.after)
    for seconds in (case.after + 0.5, 86_400.0):
        verdict = judged(case.lines, seconds)
        assert (verdict.state, verdict.health, verdict.attention) == (
            State.WAITING,
            Health.HEALTHY,
            Attention.PERSON,
        )
        (wait,) = verdict.waits
        assert (verdict.findings, wait.kind, wait.until, wait.probable) == ((), WaitKind.PERSON, None, True)
        assert wait.evidence.startswith("probably asks for permission: ")
        assert verdict.active_prompt


@pytest.mark.parametrize("case", ASKING, ids=lambda case: case.name)
def test_replay_says_the_same(case: Asks) -> None:
    """A recording with such a call has no episode, and its end is a wait for a person."""
    replay = Replay([POLICY])
    replay.feed(read(case.lines))
    (outcome,) = replay.finish(START + 3 * 3600)
    assert (outcome.episodes, outcome.verdict.state) == ((), State.WAITING)


@pytest.mark.parametrize(("_name", "lines", "presence", "code"), NEARLY, ids=[each[0] for each in NEARLY])
def test_what_nearly_fits_is_judged_as_before(
    _name: str, lines: Lines, presence: Callable[[], RuntimeState], code: FindingCode
) -> None:
    """If no person can be asked, or the client reports what it does, a call that never returns is wedged."""
    for seconds in (1.0, 40.0, 160.0, 640.0):
        assert judged(lines, seconds, presence()).state is State.PROMPTING
    late = judged(lines, 700.0, presence())
    assert (codes(late), late.attention) == ([code], Attention.OPERATOR)


def test_a_call_whose_process_was_seen_has_its_permission() -> None:
    """It runs, however long that takes; a process seen before it began is another call's."""
    runtime = presence_of()
    runtime.tool_seen_at = at(150.0)
    assert judged(_BASH, 200.0, runtime).state is State.PROMPTING
    assert codes(judged(_BASH, 800.0, runtime)) == [FindingCode.TOOL_WEDGED]
    runtime.tool_seen_at = at(-0.5)
    assert judged(_BASH, 200.0, runtime).state is State.WAITING


def test_a_host_that_slept_asks_nothing_and_wedges_nothing() -> None:
    """Eight hours of a closed lid are no open call; after it woke a client has a minute to go on."""
    for lines in (_BASH, claude("Bash", MAKE, "auto")):
        runtime = presence_of()
        woke = Instant(at(140.0).awake, at(140.0).wall + 8 * 3600)
        runtime.slept = Sleep(at(140.0), woke)
        activity = Activity()
        for event in read(lines):
            fold(activity, event, Instant(event.at, event.at))
        for seconds in (1.0, 11.0, 59.0):
            verdict = judge(activity, runtime, POLICY, woke.plus(seconds))
            assert (verdict.state, verdict.findings) == (State.PROMPTING, ())
        later = judge(activity, runtime, POLICY, woke.plus(61.0))
        assert (later.state is State.WAITING, later.findings) == (lines is _BASH, ())


def test_a_call_that_comes_back_ends_the_wait() -> None:
    """Given or refused, it is simply over: the model's answer is pending."""
    verdict = judged(came_back(_BASH, 400.0), 401.0)
    assert (verdict.state, [wait.kind for wait in verdict.waits]) == (State.PROMPTING, [WaitKind.MODEL])


def test_a_log_whose_writer_nobody_saw_is_not_guessed_about() -> None:
    """Its processes cannot be found; only a call that itself asks for more is reported."""
    grows = RuntimeState(grown_at=at(160.0))
    assert judged(_BASH, 170.0, grows).state is State.PROMPTING
    assert judged(codex(ESCALATED), 170.0, grows).state is State.WAITING


def test_a_dead_agent_asks_nobody() -> None:
    """Died with the call open: a death, whatever it waited for."""
    runtime = RuntimeState()
    remember_process(runtime, AgentProcess(ALIVE, ProcessState.DEAD, at(-1), "a test", ended_at=at(300.0)))
    verdict = judged(_BASH, 400.0, runtime)
    assert (verdict.state, codes(verdict), verdict.waits) == (State.STOPPED, [FindingCode.SESSION_DEAD], ())
