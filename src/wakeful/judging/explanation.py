"""Explains a verdict: evidence, rules that fired or are suppressed, liveness levels, next step. Pure.

It is computed for `why` only: a verdict never depends on it, and nothing is judged a second time. Text of
agents, clients and providers is under `untrusted`, and in backquotes in the sentence.
"""

from collections.abc import Iterator, Mapping
from enum import StrEnum
from typing import Final

import msgspec
from msgspec import Struct

from wakeful.core.clock import Instant, iso
from wakeful.core.ids import SessionId
from wakeful.core.labels import quotations
from wakeful.core.process import ProcessState
from wakeful.judging.activity import Activity
from wakeful.judging.available_actions import ActionName, AvailableAction
from wakeful.judging.evidence import AgentProcess, LivenessLevel, Pane, RuntimeState
from wakeful.judging.findings import Finding, FindingCode, Health, State, Verdict
from wakeful.judging.judge import detector_input
from wakeful.judging.next_step import next_step
from wakeful.judging.session_record import SessionRecord, safe
from wakeful.judging.summary import describe_unfinished_turn, process_state_text, summarize
from wakeful.judging.suppressed_rules import SuppressedRule, suppressed_rules
from wakeful.judging.thresholds import Policy
from wakeful.judging.waits import call_text


class LevelState(StrEnum):
    ALIVE = "alive"
    BROKEN = "broken"
    UNKNOWN = "unknown"
    NOT_APPLICABLE = "not_applicable"


class LivenessLevelRecord(Struct, frozen=True, gc=False):
    rung: LivenessLevel
    hold: LevelState


_LEVEL_STATES: Final[Mapping[ProcessState, LevelState]] = {
    ProcessState.ALIVE: LevelState.ALIVE,
    ProcessState.DEAD: LevelState.BROKEN,
    ProcessState.UNKNOWN: LevelState.UNKNOWN,
}


def liveness_levels(
    activity: Activity, runtime: RuntimeState, verdict: Verdict, policy: Policy, now: Instant
) -> tuple[LivenessLevelRecord, ...]:
    states = {
        # Wakeful runs on it.
        LivenessLevel.HOST: LevelState.ALIVE,
        LivenessLevel.CONTAINER: LevelState.NOT_APPLICABLE,
        **_pane_levels(runtime.pane),
        LivenessLevel.AGENT_PROCESS: _LEVEL_STATES[verdict.agent],
        LivenessLevel.TURN: _turn(activity, verdict),
        LivenessLevel.TOOL: _tool(activity, runtime, verdict),
        LivenessLevel.PROGRESS: _progress(activity, verdict, policy, now),
    }
    if verdict.broken_at is not None:
        states[verdict.broken_at] = LevelState.BROKEN
    return tuple(LivenessLevelRecord(level, states[level]) for level in LivenessLevel)


def _pane_levels(pane: Pane | None) -> dict[LivenessLevel, LevelState]:
    if pane is None:
        return dict.fromkeys(
            (LivenessLevel.RUNTIME, LivenessLevel.TMUX_SESSION, LivenessLevel.PANE_PROCESS),
            LevelState.NOT_APPLICABLE,
        )
    runtime, process = _LEVEL_STATES[pane.runtime], _LEVEL_STATES[pane.sight]
    # A live server is no evidence for a tmux session in which the only known pane is dead.
    is_unclear = runtime is LevelState.ALIVE and process is not LevelState.ALIVE
    session = LevelState.UNKNOWN if is_unclear else runtime
    return {
        LivenessLevel.RUNTIME: runtime,
        LivenessLevel.TMUX_SESSION: session,
        LivenessLevel.PANE_PROCESS: process,
    }


def _turn(activity: Activity, verdict: Verdict) -> LevelState:
    if verdict.active_prompt:
        return LevelState.ALIVE
    is_over = not activity.in_turn or verdict.agent is ProcessState.ALIVE
    return LevelState.NOT_APPLICABLE if is_over else LevelState.UNKNOWN


def _tool(activity: Activity, runtime: RuntimeState, verdict: Verdict) -> LevelState:
    if runtime.orphans:
        return LevelState.ALIVE
    if not activity.calls or _turn(activity, verdict) is LevelState.NOT_APPLICABLE:
        return LevelState.NOT_APPLICABLE
    return LevelState.ALIVE if verdict.alive_to is LivenessLevel.TOOL else LevelState.UNKNOWN


def _progress(activity: Activity, verdict: Verdict, policy: Policy, now: Instant) -> LevelState:
    """Progress within the silence threshold; a session that waits for a person needs none."""
    if verdict.state is State.WAITING or _turn(activity, verdict) is LevelState.NOT_APPLICABLE:
        return LevelState.NOT_APPLICABLE
    since = activity.progress_at
    is_fresh = since is not None and now.seconds_since(since) <= policy.silence_seconds
    return LevelState.ALIVE if is_fresh and verdict.active_prompt else LevelState.UNKNOWN


SCHEMA: Final = 1

# Each rule with its numbers; `docs/explanation/how-it-judges.md` has the reasons.
RULE_TEXTS: Final[Mapping[FindingCode, str]] = {
    FindingCode.SESSION_DEAD: "a process that was seen, or registered, is gone in the middle of a turn",
    FindingCode.AGENT_EXITED: "the agent is gone in the middle of a turn and its pane shows a shell",
    FindingCode.TWIN_PROCESSES: "more than one living process uses the conversation",
    FindingCode.AUTH_REQUIRED: "the last turn ended because the provider refused the login",
    FindingCode.USAGE_LIMITED: "the last turn ended because the usage limit was reached",
    FindingCode.POISONED_CONVERSATION: "more than {failures_alike_max} prompts in a row failed the same way",
    FindingCode.TURN_FAILED: "the last turn ended with an error",
    FindingCode.LOOP: (
        "the same call with the same result, or failing in any way, more than {repeats_max} times; a cycle of calls, or the same words, more"
        " than {cycles_max} times; a call and its result more than {duplicates_max} times with only reading between;"
        " a poll unchanged for {poll_seconds:.0f} s; a text that says one thing over and over; more than"
        " {compactions_max} summaries with nothing done between; more than {alike_results_max} different reading calls"
        " in a row with one result, or {plan_writes_max} writes of the plan with no item created or done"
    ),
    FindingCode.ERROR_CASCADE: "more than {errors_in_a_row_max} failed calls in a row",
    FindingCode.SILENT: "no progress for {silence_seconds:.0f} s, and every expected wait has run out",
    FindingCode.TOOL_WEDGED: (
        "a call is open {tool_grace_seconds:.0f} s beyond the timeout it declared, or {tool_seconds:.0f} s if it"
        " declared none, with no progress for {silence_seconds:.0f} s, none of its processes seen, and a permission"
        " question is less likely"
    ),
    FindingCode.NEVER_STARTED: (
        "its client says busy, and nothing was logged for {never_started_seconds:.0f} s"
    ),
    FindingCode.RUNAWAY: (
        "one turn of more than {runaway_seconds:.0f} s, {runaway_calls_max} calls, {runaway_tokens_max} tokens or ${runaway_cost_usd:.0f};"
        " more than {spawns_open_max} agents at once, {spawns_max} in 10 min or {spawn_repeats_max} with one prompt"
    ),
    FindingCode.RUNTIME_LOST: "the host of the session no longer answers",
    FindingCode.READER_DRIFT: (
        "a known record lacks a field that is needed, or there is none of a turn beside {drift_records_min} unknown ones,"
        " or a client that has just started shows an unknown screen"
    ),
    FindingCode.RUNS_ELSEWHERE: "another machine on the same store manages it or has its agent; only that machine judges it",
}


class ExplanationEvidence(Struct, frozen=True, gc=False):
    """One reading: time, source, text. `at` is null for a reading without a time of its own."""

    at: str | None
    source: str
    text: str
    untrusted: str


class FiredRule(Struct, frozen=True, gc=False):
    """A rule that fired, as text with its thresholds, and its evidence."""

    code: FindingCode
    since: str
    rule: str
    summary: str
    evidence: tuple[str, ...]
    untrusted: tuple[str, ...]


class SuppressedRuleRecord(Struct, frozen=True, gc=False):
    """A rule that would fire without an expected wait or live evidence.

    `by` is a kind of wait, or `poll`, `login`, `outage` or `pauses`. Without `until` time alone does not end it.
    """

    code: FindingCode
    rule: str
    by: str
    until: str | None
    evidence: str
    untrusted: str


class RefusedAction(Struct, frozen=True, gc=False):
    """An action that would bring the session back but is not possible now, and why."""

    name: ActionName
    reason: str


class Explanation(Struct, frozen=True, gc=False):
    """An explained verdict. `command` is the one right next step, `command_text` says what it does."""

    schema: int
    id: SessionId
    rule_version: str
    sentence: str
    state: State
    health: Health
    judged_at: str
    evidence: tuple[ExplanationEvidence, ...]
    fired: tuple[FiredRule, ...]
    held_back: tuple[SuppressedRuleRecord, ...]
    ladder: tuple[LivenessLevelRecord, ...]
    next_change_at: str | None
    command: tuple[str, ...]
    command_text: str
    refused: tuple[RefusedAction, ...] = ()
    # The parts of the sentence that the agent wrote.
    untrusted: tuple[str, ...] = ()


_FOLDER_GONE: Final = ExplanationEvidence(None, "folders", "its working directory is gone", "")
_UNDERWAY: Final = {State.STARTING: "Wakeful is bringing it up", State.STOPPING: "Wakeful is ending it"}


def explain(
    record: SessionRecord,
    activity: Activity,
    runtime: RuntimeState,
    verdict: Verdict,
    policy: Policy,
    now: Instant,
    *,
    place_gone: bool = False,
) -> Explanation:
    """Explain the verdict in `record`. `now` is only for durations."""
    # The folder of a hub agent may be inside its container, where it was not checked.
    place_gone = place_gone and record.agent is None and not runtime.ran_in_container
    unfinished = describe_unfinished_turn(activity, runtime)
    command, text = next_step(record, runtime, verdict, unfinished=unfinished, place_gone=place_gone)
    facts = detector_input(activity, runtime, policy, now)
    fired = frozenset(finding.code for finding in verdict.findings)
    sentence = _UNDERWAY.get(record.state) or summarize(activity, runtime, verdict, now, record.state)
    return Explanation(
        schema=SCHEMA,
        id=record.id,
        rule_version=record.rules,
        sentence=sentence,
        state=record.state,
        health=verdict.health,
        judged_at=record.judged_at,
        evidence=(*_evidence(record, activity, runtime), *((_FOLDER_GONE,) if place_gone else ())),
        fired=tuple(_fired_rule(finding, policy) for finding in verdict.findings),
        held_back=tuple(_suppressed_record(each, policy) for each in suppressed_rules(facts, fired)),
        ladder=liveness_levels(activity, runtime, verdict, policy, now),
        next_change_at=record.valid_until,
        command=command,
        command_text=text,
        refused=_refused_actions(record.actions, verdict),
        untrusted=quotations((sentence,)),
    )


# Actions that bring a session back; if one of them is allowed, the others are not needed.
_RESUMING_ACTIONS: Final = frozenset({ActionName.REVIVE, ActionName.RESUME, ActionName.RESTART})


def _refused_actions(actions: tuple[AvailableAction, ...], verdict: Verdict) -> tuple[RefusedAction, ...]:
    """Why a session with a finding cannot be brought back now."""
    resuming = [each for each in actions if each.name in _RESUMING_ACTIONS]
    if not verdict.findings or any(each.allowed for each in resuming):
        return ()
    return tuple(RefusedAction(each.name, each.reason) for each in resuming)


def rule_text(code: FindingCode, policy: Policy) -> str:
    return RULE_TEXTS[code].format_map(msgspec.structs.asdict(policy))


def _fired_rule(finding: Finding, policy: Policy) -> FiredRule:
    return FiredRule(
        finding.code,
        iso(finding.since.wall),
        rule_text(finding.code, policy),
        finding.summary,
        tuple(map(safe, finding.evidence)),
        tuple(map(safe, finding.untrusted)),
    )


def _suppressed_record(each: SuppressedRule, policy: Policy) -> SuppressedRuleRecord:
    until = iso(each.until.wall) if each.until is not None else None
    rule = rule_text(each.code, policy)
    return SuppressedRuleRecord(each.code, rule, each.by, until, each.evidence, safe(each.untrusted))


def _evidence(
    record: SessionRecord, activity: Activity, runtime: RuntimeState
) -> Iterator[ExplanationEvidence]:
    """Processes, then panes, then the log: the order of the liveness levels."""
    for process in runtime.holders.values():
        yield from _process_evidence(process)
    if not runtime.holders:
        yield ExplanationEvidence(None, "processes", "no process is known to hold it", "")
    if runtime.pane is not None:
        pane = runtime.pane
        text = f"pane {process_state_text(pane.sight)}, tmux {process_state_text(pane.runtime)}"
        yield ExplanationEvidence(None, "tmux", text, safe(f"{pane.session} {pane.target}"))
    for orphan in runtime.orphans:
        text = f"its tool still runs as process {orphan.process.pid}"
        yield ExplanationEvidence(None, "processes", text, safe(orphan.command))
    if runtime.slept is not None:
        text = f"the host slept from {iso(runtime.slept.began.wall)}, woke up"
        yield _evidence_at(runtime.slept.woke, "clock", text)
    if runtime.tool_seen_at is not None:
        yield _evidence_at(runtime.tool_seen_at, "processes", "one of its tools was seen alive")
    yield from _log_evidence(record.source, activity, runtime)


def _process_evidence(process: AgentProcess) -> Iterator[ExplanationEvidence]:
    at = process.ended_at or process.seen_at
    yield _evidence_at(
        at, process.source, f"process {process.process.pid} {process_state_text(process.sight)}"
    )
    if process.status is not None:
        at = process.status_at or process.seen_at
        yield _evidence_at(at, process.source, f"its client says {process.status}", process.waiting_for or "")


def _log_evidence(source: str, activity: Activity, runtime: RuntimeState) -> Iterator[ExplanationEvidence]:
    if activity.progress_at is not None:
        yield _evidence_at(activity.progress_at, source, "last progress")
    if activity.phase_since is not None:
        text = activity.failure_message if activity.failure is not None else activity.asks
        yield _evidence_at(activity.phase_since, source, f"turn: {activity.phase}", text)
    for call in activity.calls.values():
        yield _evidence_at(call.since, source, "call open", call_text(call))
    for task in activity.background.values():
        yield _evidence_at(task.since, source, "left running behind its turn", call_text(task))
    if activity.compacting_since is not None:
        yield _evidence_at(activity.compacting_since, "hook", "it began to summarise the conversation")
    if runtime.grown_at is not None:
        yield _evidence_at(runtime.grown_at, source, "its log grew while it was watched")


def _evidence_at(at: Instant, source: str, text: str, untrusted: str = "") -> ExplanationEvidence:
    return ExplanationEvidence(iso(at.wall), source, text, safe(untrusted))
