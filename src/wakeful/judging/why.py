"""Why a verdict is what it is: evidence, the rules that fired or were held back, the ladder, the next step. Pure.

Nothing is judged here a second time. What agents, clients and providers wrote stands under `untrusted`, and in the
sentence inside backquotes.
"""

from collections.abc import Iterator, Mapping
from shlex import join
from typing import Final

import msgspec
from msgspec import Struct

from wakeful.core.ids import SessionId
from wakeful.core.moment import Instant, iso
from wakeful.judging.activity import Activity
from wakeful.judging.available_actions import HELD, OBSERVING, Action, ActionName
from wakeful.judging.evidence import Holder, Presence
from wakeful.judging.findings import Code, Health, State
from wakeful.judging.held import Held, held_back
from wakeful.judging.judge import case_of
from wakeful.judging.ladder import RungRecord, ladder
from wakeful.judging.session_record import SessionRecord, safe
from wakeful.judging.summary import agent_words, orphan_words, sentence
from wakeful.judging.thresholds import Policy
from wakeful.judging.verdict import Finding, Verdict, WaitKind

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
    return Why(
        schema=SCHEMA,
        id=record.id,
        rule_version=record.rules,
        sentence=_UNDERWAY.get(record.state) or sentence(activity, presence, verdict, now, record.state),
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
