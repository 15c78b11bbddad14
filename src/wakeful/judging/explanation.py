"""Explains a verdict: evidence, rules that fired or are held back, liveness levels, next step. Pure.

It is computed for `why` only: a verdict never depends on it, and nothing is judged a second time. A held-back
rule would fire but for an expected wait or live evidence; each function for one stands for the exception in
the detector of its code. Text of agents, clients and providers is under `untrusted`, and in backquotes in the
sentence.
"""

from collections.abc import Callable, Iterator, Mapping
from enum import StrEnum
from shlex import join
from typing import Final

import msgspec
from msgspec import Struct

from wakeful.core.clock import Instant, iso
from wakeful.core.ids import SessionId
from wakeful.core.labels import quotations
from wakeful.core.process import Sight
from wakeful.judging.activity import Activity
from wakeful.judging.available_actions import HELD, OBSERVING, Action, ActionName
from wakeful.judging.detectors import Case, active_seconds, is_quiet, polled_cycle_since
from wakeful.judging.events import CallKind, Failure
from wakeful.judging.evidence import Holder, Pane, Presence, Rung, Status
from wakeful.judging.findings import Code, ExpectedWait, Finding, Health, State, Verdict, WaitKind
from wakeful.judging.judge import case_of
from wakeful.judging.loops import unchanged_seconds
from wakeful.judging.outage import is_outage
from wakeful.judging.session_record import SessionRecord, safe
from wakeful.judging.summary import agent_words, orphan_words, sentence
from wakeful.judging.thresholds import Policy
from wakeful.judging.turn_state import OPEN, Phase
from wakeful.judging.waits import call_end, current


class Held(Struct, frozen=True, gc=False):
    """A rule that would speak. `by` is a kind of wait, or `poll`, `login` or `pauses`."""

    code: Code
    by: str
    until: Instant | None
    evidence: str
    untrusted: str = ""


def held_back(case: Case, fired: frozenset[Code]) -> Iterator[Held]:
    """Every rule held back now; one that speaks all the same is not among them."""
    for code, restrain in _RESTRAINTS.items():
        if code not in fired:
            yield from restrain(case, code)


def _by_wait(code: Code, wait: ExpectedWait) -> Held:
    return Held(code, wait.kind, wait.until, wait.evidence, wait.untrusted)


def _silence(case: Case, code: Code) -> Iterator[Held]:
    progress_at = case.activity.progress_at
    if case.phase not in OPEN or progress_at is None:
        return
    for wait in current(case.waits, case.now):
        # By the clock on the wall a night's sleep is a silence; only the sleep says otherwise.
        slept_through = case.now.wall - progress_at.wall > case.policy.silence_seconds
        if is_quiet(case) or (wait.kind is WaitKind.SLEEP and slept_through):
            yield _by_wait(code, wait)


def _wedge(case: Case, code: Code) -> Iterator[Held]:
    calls = case.activity.calls.values() if case.phase in {Phase.TOOL, Phase.PERSON} else ()
    overdue = {
        call.since
        for call in calls
        if (call.enforced or call.timeout_seconds is not None)
        and call.kind is not CallKind.PERSON
        and case.now > call_end(call, case.policy)
    }
    for wait in current(case.waits, case.now):
        if wait.since in overdue or (overdue and wait.kind in {WaitKind.PERSON, WaitKind.SLEEP}):
            yield _by_wait(code, wait)


def _circle(case: Case, code: Code) -> Iterator[Held]:
    circles, polls = case.activity.circles, case.policy.poll_seconds
    since = polled_cycle_since(circles, case.policy)
    if since is not None:
        yield Held(code, "poll", since.plus(polls), "the calls go round, and some of them only ask again")
    elif unchanged_seconds(circles):
        until = circles.polls[-1].since.plus(polls)
        yield Held(code, "poll", until, "a call that only asks again came back unchanged")


def _outage(case: Case, code: Code) -> Iterator[Held]:
    retries = case.activity.retries_in_a_row
    if case.phase in OPEN and retries > case.policy.errors_in_a_row_max:
        yield from (_by_wait(code, wait) for wait in case.waits if wait.kind is WaitKind.RETRY)


def _poison(case: Case, code: Code) -> Iterator[Held]:
    activity = case.activity
    if case.phase is not Phase.FAILED or activity.failures_alike <= case.policy.failures_alike_max:
        return
    if activity.failure is Failure.AUTH:
        yield Held(code, "login", None, "a refused login ends with a login")
    elif activity.failure is Failure.LIMIT:
        yield Held(code, WaitKind.LIMIT, activity.limit_until, "a usage limit ends by itself")
    elif is_outage(activity):
        yield Held(code, "outage", None, "nobody answered: another conversation would not be answered either")


def _start(case: Case, code: Code) -> Iterator[Held]:
    holder = case.presence.newest
    if case.activity.last_at is not None or holder is None or holder.sight is not Sight.ALIVE:
        return
    told = holder.status in {Status.IDLE, Status.WAITING}
    if told and case.now.seconds_since(holder.seen_at) > case.policy.never_started_seconds:
        yield Held(code, WaitKind.PERSON, None, f"its client says {holder.status}", holder.waiting_for or "")


def _age(case: Case, code: Code) -> Iterator[Held]:
    since, seconds = case.activity.turn_since, active_seconds(case)
    if case.phase not in OPEN or since is None:
        return
    if case.now.wall - since.wall > case.policy.runaway_seconds >= seconds:
        told = f"{seconds / 3600:.1f} h at work: a person's time, long gaps and the host's sleep are left out"
        yield Held(code, "pauses", None, told)


_RESTRAINTS: Final[Mapping[Code, Callable[[Case, Code], Iterator[Held]]]] = {
    Code.POISONED_CONVERSATION: _poison,
    Code.LOOP: _circle,
    Code.ERROR_CASCADE: _outage,
    Code.SILENT: _silence,
    Code.TOOL_WEDGED: _wedge,
    Code.NEVER_STARTED: _start,
    Code.RUNAWAY: _age,
}


class Hold(StrEnum):
    """Whether a rung holds."""

    ALIVE = "alive"
    BROKEN = "broken"
    UNKNOWN = "unknown"
    NOT_APPLICABLE = "not_applicable"


class RungRecord(Struct, frozen=True, gc=False):
    rung: Rung
    hold: Hold


_HOLDS: Final[Mapping[Sight, Hold]] = {
    Sight.ALIVE: Hold.ALIVE,
    Sight.DEAD: Hold.BROKEN,
    Sight.UNKNOWN: Hold.UNKNOWN,
}


def ladder(
    activity: Activity, presence: Presence, verdict: Verdict, policy: Policy, now: Instant
) -> tuple[RungRecord, ...]:
    """Every rung from the ground up."""
    holds = {
        # Whoever judges runs on it.
        Rung.HOST: Hold.ALIVE,
        Rung.CONTAINER: Hold.NOT_APPLICABLE,
        **_pane_rungs(presence.pane),
        Rung.AGENT_PROCESS: _HOLDS[verdict.agent],
        Rung.TURN: _turn(activity, verdict),
        Rung.TOOL: _tool(activity, presence, verdict),
        Rung.PROGRESS: _progress(activity, verdict, policy, now),
    }
    if verdict.broken_at is not None:
        holds[verdict.broken_at] = Hold.BROKEN
    return tuple(RungRecord(rung, holds[rung]) for rung in Rung)


def _pane_rungs(pane: Pane | None) -> dict[Rung, Hold]:
    if pane is None:
        return dict.fromkeys((Rung.RUNTIME, Rung.TMUX_SESSION, Rung.PANE_PROCESS), Hold.NOT_APPLICABLE)
    runtime, process = _HOLDS[pane.runtime], _HOLDS[pane.sight]
    # A server that lives says nothing about a session of which only a dead pane is known.
    session = Hold.UNKNOWN if runtime is Hold.ALIVE and process is not Hold.ALIVE else runtime
    return {Rung.RUNTIME: runtime, Rung.TMUX_SESSION: session, Rung.PANE_PROCESS: process}


def _turn(activity: Activity, verdict: Verdict) -> Hold:
    if verdict.active_prompt:
        return Hold.ALIVE
    is_over = not activity.in_turn or verdict.agent is Sight.ALIVE
    return Hold.NOT_APPLICABLE if is_over else Hold.UNKNOWN


def _tool(activity: Activity, presence: Presence, verdict: Verdict) -> Hold:
    if presence.orphans:
        return Hold.ALIVE
    if not activity.calls or _turn(activity, verdict) is Hold.NOT_APPLICABLE:
        return Hold.NOT_APPLICABLE
    return Hold.ALIVE if verdict.alive_to is Rung.TOOL else Hold.UNKNOWN


def _progress(activity: Activity, verdict: Verdict, policy: Policy, now: Instant) -> Hold:
    """Seen within the time that counts as silence; nobody expects it from a session that waits for a person."""
    if verdict.state is State.WAITING or _turn(activity, verdict) is Hold.NOT_APPLICABLE:
        return Hold.NOT_APPLICABLE
    since = activity.progress_at
    is_fresh = since is not None and now.seconds_since(since) <= policy.silence_seconds
    return Hold.ALIVE if is_fresh and verdict.active_prompt else Hold.UNKNOWN


SCHEMA: Final = 1

# What each rule says, with its numbers; `docs/explanation/how-it-judges.md` has the reasons.
RULE_WORDS: Final[Mapping[Code, str]] = {
    Code.SESSION_DEAD: "a process that was seen, or registered, is gone in the middle of a turn",
    Code.AGENT_EXITED: "the agent is gone in the middle of a turn and its pane shows a shell",
    Code.TWIN_PROCESSES: "more than one living process holds the conversation",
    Code.AUTH_REQUIRED: "the last turn ended because the provider refused the login",
    Code.USAGE_LIMITED: "the last turn ended because the usage limit was reached",
    Code.POISONED_CONVERSATION: "more than {failures_alike_max} prompts in a row failed the same way",
    Code.TURN_FAILED: "the last turn ended with an error",
    Code.LOOP: (
        "the same call with the same result, or failing in any way, more than {repeats_max} times; a cycle of calls, or the same words, more"
        " than {cycles_max} times; a call and its result more than {duplicates_max} times with only reading between;"
        " a poll unchanged for {poll_seconds:.0f} s; a text that says one thing over and over; more than"
        " {compactions_max} summaries with nothing done between; more than {alike_results_max} different reading calls"
        " in a row with one result, or {plan_writes_max} writes of the plan with no item created or done"
    ),
    Code.ERROR_CASCADE: "more than {errors_in_a_row_max} failed calls in a row",
    Code.SILENT: "no progress for {silence_seconds:.0f} s, and every expected wait has run out",
    Code.TOOL_WEDGED: (
        "a call is open {tool_grace_seconds:.0f} s beyond the timeout it declared, or {tool_seconds:.0f} s if it"
        " declared none, with no progress for {silence_seconds:.0f} s, no process of it seen, and a permission"
        " question is not the likelier story"
    ),
    Code.NEVER_STARTED: (
        "its client says busy, and nothing was written down for {never_started_seconds:.0f} s"
    ),
    Code.RUNAWAY: (
        "one turn of more than {runaway_seconds:.0f} s, {runaway_calls_max} calls, {runaway_tokens_max} tokens or ${runaway_cost_usd:.0f};"
        " more than {spawns_open_max} agents at once, {spawns_max} in 10 min or {spawn_repeats_max} with one prompt"
    ),
    Code.RUNTIME_LOST: "what hosts the session can no longer be asked",
    Code.READER_DRIFT: (
        "a known record lacks a field that is needed, or there is none of a turn beside {drift_records_min} unknown ones,"
        " or a client that has just started shows a screen that nobody knows"
    ),
}


class WhyEvidence(Struct, frozen=True, gc=False):
    """One reading: when, by which eye, what. `at` is null for what was true whenever it was asked."""

    at: str | None
    source: str
    text: str
    untrusted: str


class FiredRule(Struct, frozen=True, gc=False):
    """A rule that speaks, in words with its thresholds, and what it rests on."""

    code: Code
    since: str
    rule: str
    summary: str
    evidence: tuple[str, ...]
    untrusted: tuple[str, ...]


class HeldRule(Struct, frozen=True, gc=False):
    """A rule that would speak but for an expected wait, or for live evidence.

    `by` is a kind of wait, or `poll`, `login` or `pauses`. Without `until` no time alone ends it.
    """

    code: Code
    rule: str
    by: str
    until: str | None
    evidence: str
    untrusted: str


class RefusedAct(Struct, frozen=True, gc=False):
    """A way back that is not to be had now, and why."""

    name: ActionName
    reason: str


class Why(Struct, frozen=True, gc=False):
    """A verdict, explained. `command` is the one right next step, `command_text` says what it does."""

    schema: int
    id: SessionId
    rule_version: str
    sentence: str
    state: State
    health: Health
    judged_at: str
    evidence: tuple[WhyEvidence, ...]
    fired: tuple[FiredRule, ...]
    held_back: tuple[HeldRule, ...]
    ladder: tuple[RungRecord, ...]
    next_change_at: str | None
    command: tuple[str, ...]
    command_text: str
    refused: tuple[RefusedAct, ...] = ()
    # Which words of the sentence the agent chose.
    untrusted: tuple[str, ...] = ()


_UNDERWAY: Final = {State.STARTING: "Wakeful is bringing it up", State.STOPPING: "Wakeful is ending it"}


def explain(
    record: SessionRecord,
    activity: Activity,
    presence: Presence,
    verdict: Verdict,
    policy: Policy,
    now: Instant,
    *,
    place_gone: bool = False,
) -> Why:
    """Explain the verdict that `record` shows. `now` only tells how long ago things were."""
    # The folder of an agent may be one inside its container, where nobody looked.
    place_gone = place_gone and record.agent is None and not presence.is_elsewhere
    command, text = _next_step(record, presence, verdict, place_gone=place_gone)
    case = case_of(activity, presence, policy, now)
    fired = frozenset(finding.code for finding in verdict.findings)
    words = _UNDERWAY.get(record.state) or sentence(activity, presence, verdict, now, record.state)
    return Why(
        schema=SCHEMA,
        id=record.id,
        rule_version=record.rules,
        sentence=words,
        state=record.state,
        health=verdict.health,
        judged_at=record.judged_at,
        evidence=(*_evidence(record, activity, presence), *((_GONE,) if place_gone else ())),
        fired=tuple(_fired(finding, policy) for finding in verdict.findings),
        held_back=tuple(_held(each, policy) for each in held_back(case, fired)),
        ladder=ladder(activity, presence, verdict, policy, now),
        next_change_at=record.valid_until,
        command=command,
        command_text=text,
        refused=tuple(_refused(record.actions, verdict)),
        untrusted=quotations((words,)),
    )


# What brings a session back; where one of them may be done, the others are not missed.
_WAYS_BACK: Final = frozenset({ActionName.REVIVE, ActionName.RESUME, ActionName.RESTART})


def _refused(actions: tuple[Action, ...], verdict: Verdict) -> Iterator[RefusedAct]:
    """Of a session in trouble: why it cannot be brought back now."""
    ways = [each for each in actions if each.name in _WAYS_BACK]
    if verdict.findings and not any(each.allowed for each in ways):
        yield from (RefusedAct(each.name, each.reason) for each in ways)


def rule_words(code: Code, policy: Policy) -> str:
    """A rule as it is applied now."""
    return RULE_WORDS[code].format_map(msgspec.structs.asdict(policy))


def _fired(finding: Finding, policy: Policy) -> FiredRule:
    return FiredRule(
        finding.code,
        iso(finding.since.wall),
        rule_words(finding.code, policy),
        finding.summary,
        tuple(map(safe, finding.evidence)),
        tuple(map(safe, finding.untrusted)),
    )


def _held(held: Held, policy: Policy) -> HeldRule:
    until = iso(held.until.wall) if held.until is not None else None
    rule = rule_words(held.code, policy)
    return HeldRule(held.code, rule, held.by, until, held.evidence, safe(held.untrusted))


def _evidence(record: SessionRecord, activity: Activity, presence: Presence) -> Iterator[WhyEvidence]:
    """Processes first, then what shows them, then the log: the order of the ladder."""
    for holder in presence.holders.values():
        yield from _holder_evidence(holder)
    if not presence.holders:
        yield WhyEvidence(None, "processes", "no process is known to hold it", "")
    if presence.pane is not None:
        text = f"pane {agent_words(presence.pane.sight)}, tmux {agent_words(presence.pane.runtime)}"
        yield WhyEvidence(None, "tmux", text, safe(f"{presence.pane.session} {presence.pane.target}"))
    for orphan in presence.orphans:
        pid = orphan.process.pid
        yield WhyEvidence(None, "processes", f"its tool still runs as process {pid}", safe(orphan.command))
    if presence.slept is not None:
        slept = presence.slept
        text = f"the host slept from {iso(slept.began.wall)}, woke up"
        yield _seen(slept.woke, "clock", text)
    if presence.tool_seen_at is not None:
        yield _seen(presence.tool_seen_at, "processes", "a tool of it was seen alive")
    yield from _log_evidence(record.source, activity, presence)


def _holder_evidence(holder: Holder) -> Iterator[WhyEvidence]:
    at = holder.ended_at or holder.seen_at
    yield _seen(at, holder.source, f"process {holder.process.pid} {agent_words(holder.sight)}")
    if holder.status is not None:
        at = holder.status_at or holder.seen_at
        yield _seen(at, holder.source, f"its client says {holder.status}", holder.waiting_for or "")


def _log_evidence(source: str, activity: Activity, presence: Presence) -> Iterator[WhyEvidence]:
    if activity.progress_at is not None:
        yield _seen(activity.progress_at, source, "last progress")
    if activity.phase_since is not None:
        said = activity.failure_message if activity.failure is not None else activity.asks
        yield _seen(activity.phase_since, source, f"turn: {activity.phase}", said)
    for call in activity.calls.values():
        text = f"{call.tool} {call.input.decode('utf-8', 'replace')}"
        yield _seen(call.since, source, "call open", text)
    for task in activity.background.values():
        text = f"{task.tool} {task.input.decode('utf-8', 'replace')}"
        yield _seen(task.since, source, "left running behind its turn", text)
    if activity.compacting_since is not None:
        yield _seen(activity.compacting_since, "hook", "it began to summarise the conversation")
    if presence.grown_at is not None:
        yield _seen(presence.grown_at, source, "its log grew while it was watched")


def _seen(at: Instant, source: str, text: str, said: str = "") -> WhyEvidence:
    return WhyEvidence(iso(at.wall), source, text, safe(said))


# What ends a trouble that nobody but a person can end, once the session is before them.
_AT_ITS_PANE: Final[Mapping[Code, str]] = {
    Code.LOOP: "go to its pane, interrupt it and say what to do instead",
    Code.ERROR_CASCADE: "go to its pane, interrupt it and say what to do instead",
    Code.RUNAWAY: "go to its pane and see whether it still does what you asked for",
    Code.SILENT: "go to its pane and see what it shows; interrupting lets it go on",
    Code.TOOL_WEDGED: "go to its pane and interrupt the call",
    Code.NEVER_STARTED: "go to its pane and see what it shows",
    Code.TURN_FAILED: "go to its pane, read the error and prompt it again",
    Code.POISONED_CONVERSATION: "go to its pane and begin a new conversation",
}
LOGINS: Final[Mapping[str, tuple[str, ...]]] = {"claude": ("claude", "/login"), "codex": ("codex", "login")}


_GONE: Final = WhyEvidence(None, "folders", "its working directory is gone", "")


def _next_step(
    record: SessionRecord, presence: Presence, verdict: Verdict, *, place_gone: bool
) -> tuple[tuple[str, ...], str]:
    """The one right command and what it does."""
    allowed = {action.name: action.argv for action in record.actions if action.allowed}
    inspect = ("wakeful", "session", "inspect", record.id)
    attach = allowed.get(ActionName.ATTACH)
    code = verdict.findings[0].code if verdict.findings else None
    if code is Code.AUTH_REQUIRED:
        return _log_in(record.provider, attach or inspect, has_pane=attach is not None)
    if code is Code.USAGE_LIMITED:
        return _after_the_limit(record, verdict, allowed, inspect)
    if (after := _after_its_end(allowed, presence, code)) is not None:
        gone = "its working directory is gone: bring that back first, then resume it"
        return (inspect, gone) if place_gone and ActionName.RESUME in allowed else after
    if code is not None and code in _AT_ITS_PANE and attach is not None:
        return attach, _AT_ITS_PANE[code]
    if ActionName.REVIVE in allowed:
        return allowed[ActionName.REVIVE], _REVIVING
    if (forbidden := _forbidden(record, inspect)) is not None:
        return forbidden
    if code is not None or verdict.health is Health.UNKNOWN:
        return inspect, "look at the evidence: nothing here can be done blindly"
    if verdict.state is State.WAITING:
        probable = any(wait.probable for wait in verdict.waits)
        return _answering(record, attach, inspect, probable=probable)
    if verdict.state is State.IDLE:
        return _prompting(record, allowed, inspect)
    return allowed[ActionName.WAIT], "nothing is wrong; wait until it is done"


def _after_the_limit(
    record: SessionRecord,
    verdict: Verdict,
    allowed: Mapping[ActionName, tuple[str, ...]],
    inspect: tuple[str, ...],
) -> tuple[tuple[str, ...], str]:
    """Only time helps: what there is to do then."""
    has_end = any(wait.kind is WaitKind.LIMIT and wait.until is not None for wait in verdict.waits)
    send, attach = allowed.get(ActionName.SEND), allowed.get(ActionName.ATTACH)
    if record.managed and send is not None and has_end:
        return inspect, "only time helps: once the limit has ended, Wakeful goes on with it"
    if attach is not None:
        return attach, "only time helps: once the limit has ended, go to its pane and prompt it again"
    if send is not None:
        return send, "only time helps, and nobody knows how much: this prompts it again"
    return inspect, "only time helps: once the limit has ended, prompt it again where it was started"


def _forbidden(record: SessionRecord, inspect: tuple[str, ...]) -> tuple[tuple[str, ...], str] | None:
    """What to do where it could come back, but for the mode or for what was cut off."""
    reasons = {action.reason: action for action in record.actions if not action.allowed}
    if OBSERVING in reasons:
        return inspect, "the mode is observe: Wakeful acts on nothing, so look at it and act yourself"
    revive = reasons.get(HELD)
    if revive is None:
        return None
    looked = ("wakeful", "session", "revive", record.id, "--yes")
    return looked, "brings it back, once you looked: what was cut off may have happened"


def _prompting(
    record: SessionRecord, allowed: Mapping[ActionName, tuple[str, ...]], inspect: tuple[str, ...]
) -> tuple[tuple[str, ...], str]:
    """How one that is done gets its next prompt."""
    if record.state is State.DETACHED:
        return inspect, "nothing is wrong, but only who started it can prompt it; stopped, it can be resumed"
    if ActionName.ATTACH in allowed:
        return allowed[ActionName.ATTACH], "nothing is wrong: it is done; go to its pane to prompt it"
    send, done = allowed.get(ActionName.SEND), "nothing is wrong: it is done and waits for a prompt"
    return (send, f"{done}, which this gives it") if send else (inspect, f"{done} where it was started")


def _after_its_end(
    allowed: Mapping[ActionName, tuple[str, ...]], presence: Presence, code: Code | None
) -> tuple[tuple[str, ...], str] | None:
    """How one whose process is gone comes back, if it can."""
    if ActionName.RESTART in allowed:
        return allowed[ActionName.ATTACH], "go to its agent: it is restarted or removed from there"
    if ActionName.RESUME not in allowed or code is Code.POISONED_CONVERSATION:
        return None
    revive = allowed.get(ActionName.REVIVE)
    if revive is not None and not presence.orphans:
        # What Wakeful was given comes back by the plan: told what was cut off, held where a person has to look first.
        return revive, _REVIVING
    return allowed[ActionName.RESUME], _resuming(presence)


_REVIVING: Final = "brings it back; if a call was cut off that may have had effects, it asks you first"


def _answering(
    record: SessionRecord, attach: tuple[str, ...] | None, inspect: tuple[str, ...], *, probable: bool
) -> tuple[tuple[str, ...], str]:
    if attach is not None:
        return attach, "go to its pane and see what it asks" if probable else "go to its pane and answer"
    if probable:
        return inspect, "find its terminal and see what it asks"
    if record.managed:
        return (
            "wakeful",
            "session",
            "answer",
            record.id,
            "allow",
        ), "says yes to what it asks; `deny` says no"
    return inspect, "find its process, then answer it"


def _log_in(provider: str, place: tuple[str, ...], *, has_pane: bool) -> tuple[tuple[str, ...], str]:
    login = LOGINS.get(provider)
    if login is None or (has_pane and provider == "claude"):
        return place, "go to its pane and type /login"
    return login, f"log in again with `{join(login)}`, then prompt it again"


def _resuming(presence: Presence) -> str:
    if not presence.orphans:
        return "resume the conversation where it stopped"
    if len(presence.orphans) == 1:
        return f"resume it once {orphan_words(presence.orphans)} has ended: its tool still runs, and would run twice"
    return f"resume it once {orphan_words(presence.orphans)} have ended: its tools still run, and would run twice"
