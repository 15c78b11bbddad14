"""Describes a verdict in one sentence for people. Pure.

It is about the first finding; without one, about the expected wait; without that, about the end of the last
turn. Text of an agent or client appears only in backquotes.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from wakeful.core.clock import Instant, latest
from wakeful.core.process import Sight
from wakeful.core.redaction import redact
from wakeful.judging.activity import Activity, OpenCall
from wakeful.judging.evidence import Orphan, Presence, ended_by
from wakeful.judging.findings import Code, ExpectedWait, Finding, Health, State, Verdict, WaitKind
from wakeful.judging.turn_state import Phase
from wakeful.judging.waits import PROBABLY_ASKS
from wakeful.judging.wording import clock, length, quoted

# From here on quiet is worth a word: half of all waits for a model or a tool are over within 3 s.
QUIET_SECONDS_MIN: Final = 60.0


def sentence(
    activity: Activity, presence: Presence, verdict: Verdict, now: Instant, state: State = State.IDLE
) -> str:
    """What is true of the session, and why that is well or not. `state`: the record's, who also knows the way to it."""
    if verdict.findings:
        finding = verdict.findings[0]
        return _FOUND.get(finding.code, _found)(finding, activity, presence, now)
    if presence.dialog is not None and verdict.state is State.WAITING:
        return f"waits for you at a dialog ({presence.dialog.kind}): {quoted(presence.dialog.words)}"
    if verdict.waits and (verdict.active_prompt or verdict.state is State.WAITING):
        return _waiting(verdict.waits, activity, now)
    if verdict.health is Health.UNKNOWN:
        return f"unknown: {_unclear(activity, verdict)}"
    if verdict.state is State.STOPPED:
        ended = f"{_ending(activity, now)}, and its process ended"
        if presence.heir is not None or (presence.stopped and presence.by_gateway):
            return f"stopped: {ended_by(presence.heir, by_gateway=presence.by_gateway)}"
        return "stopped by a person, which is final" if presence.stopped else f"stopped: {ended}"
    return _living(activity, presence, verdict, now, state)


def _living(activity: Activity, presence: Presence, verdict: Verdict, now: Instant, state: State) -> str:
    """Of a session that nothing is wrong with and nobody is asked by."""
    ending = _ending(activity, now)
    if verdict.health is Health.STALE:
        seen = latest((presence.grown_at, activity.last_at)) or now
        return f"idle, and nothing was seen of it for {length(now.seconds_since(seen))}"
    if verdict.waits:
        last = max(verdict.waits, key=lambda wait: wait.until or now)
        return f"{ending}; {_doing(last)} until {clock(last.until or now, now)}"
    if verdict.active_prompt:
        return f"at work; its last progress was {length(quiet_seconds(activity, now))} ago"
    if activity.asks and verdict.state is State.IDLE:
        ending += f", asks: {quoted(activity.asks)}"
    return f"{ending}{_READY.get(state, ', ready for a prompt')}"


_READY: Final = {State.DETACHED: "; it lives, and Wakeful has no way to give it a prompt"}


def quiet_seconds(activity: Activity, now: Instant) -> float:
    """Since the last sign of progress."""
    return now.seconds_since(activity.progress_at) if activity.progress_at is not None else 0.0


def _found(finding: Finding, _activity: Activity, _presence: Presence, now: Instant) -> str:
    said = next(filter(None, finding.untrusted), None)
    about = f": {quoted(said)}" if said is not None else ""
    return f"{finding.summary}{about}, since {clock(finding.since, now)}"


def _died(finding: Finding, activity: Activity, presence: Presence, _now: Instant) -> str:
    how = "exited to a shell" if finding.code is Code.AGENT_EXITED else "died"
    return f"{how} in the middle of {_calls(list(activity.calls.values()))}{_left_behind(presence)}"


def _left_behind(presence: Presence) -> str:
    if not presence.orphans:
        return ""
    still = "its tool still runs" if len(presence.orphans) == 1 else "its tools still run"
    return f"; {still} as {orphan_words(presence.orphans)}"


def _calls(calls: list[OpenCall]) -> str:
    if not calls:
        return "a turn"
    others = len(calls) - 1
    more = f" and {others} more call{'s' if others > 1 else ''}" if others > 0 else ""
    return quoted(f"{calls[0].tool} {calls[0].input.decode('utf-8', 'replace')}") + more


def _cascaded(finding: Finding, activity: Activity, presence: Presence, now: Instant) -> str:
    if len(finding.untrusted) < 2:
        return _found(finding, activity, presence, now)
    call, said = map(quoted, finding.untrusted)
    return f"{finding.summary}, the last {call} with {said}, since {clock(finding.since, now)}"


def _fell_silent(finding: Finding, _activity: Activity, _presence: Presence, now: Instant) -> str:
    waited = next(iter(finding.evidence), "nothing comes")
    about = f" ({quoted(finding.untrusted[0])})" if finding.untrusted else ""
    return f"silent {length(now.seconds_since(finding.since))}, longer than expected: {waited}{about}"


def _limited(finding: Finding, activity: Activity, presence: Presence, now: Instant) -> str:
    until = activity.limit_until
    end = f"; it ends at {clock(until, now)}" if until is not None and until.wall > now.wall else ""
    return _found(finding, activity, presence, now) + end


def _drifted(finding: Finding, _activity: Activity, _presence: Presence, _now: Instant) -> str:
    return f"unknown: {finding.summary}"


_FOUND: Final[Mapping[Code, Callable[[Finding, Activity, Presence, Instant], str]]] = {
    Code.SESSION_DEAD: _died,
    Code.AGENT_EXITED: _died,
    Code.ERROR_CASCADE: _cascaded,
    Code.SILENT: _fell_silent,
    Code.USAGE_LIMITED: _limited,
    Code.READER_DRIFT: _drifted,
}


def _waiting(waits: tuple[ExpectedWait, ...], activity: Activity, now: Instant) -> str:
    person = next((wait for wait in waits if wait.kind is WaitKind.PERSON), None)
    if person is not None:
        # Shown as what it is: nobody saw the question.
        how = PROBABLY_ASKS if person.probable else "waits for you"
        return f"{how}: {_question(person.untrusted)}"
    # The session may be silent until the last of its waits is over.
    last = max(waits, key=lambda wait: wait.until or now)
    quiet = quiet_seconds(activity, now)
    silent = f"silent {length(quiet)}, expected" if quiet >= QUIET_SECONDS_MIN else "at work"
    until = f" until {clock(last.until, now)}" if last.until is not None else ""
    return f"{silent}: {_doing(last)}{until}"


def _question(said: str) -> str:
    """What it asks, and the call it asks about where the client named both."""
    # Whole: one half may say that the other is secret.
    what, _, call = redact(said).partition(": ")
    if " {" in call:
        return f"{quoted(what)}, {quoted(call)}"
    return quoted(said) if said else "a question is open"


def _doing(wait: ExpectedWait) -> str:
    match wait.kind:
        case WaitKind.MODEL:
            return "the model may take"
        case WaitKind.SUBAGENT:
            return f"its subagent {quoted(wait.untrusted)} may run"
        case WaitKind.RETRY:
            return f"{wait.evidence}, which may go on"
        case WaitKind.COMPACTION:
            return "summarising the conversation may take"
        case WaitKind.BACKGROUND:
            return f"in the background {quoted(wait.untrusted)} may run"
        case WaitKind.SLEEP:
            return f"{wait.evidence}, and it may take up its work"
        case _:
            return f"{quoted(wait.untrusted) if wait.untrusted else wait.evidence} may run"


_ENDINGS: Final[Mapping[Phase, str]] = {
    Phase.ENDED: "finished",
    Phase.PROPOSED: "proposed a plan",
    Phase.FAILED: "its turn failed",
    Phase.INTERRUPTED: "was interrupted",
    # Text came and nothing after it.
    Phase.SETTLING: "finished",
}


def _unclear(activity: Activity, verdict: Verdict) -> str:
    if verdict.agent is not Sight.DEAD:
        return "nobody saw its process"
    if activity.may_be_out_of_budget:
        return "its process ended within a turn: its budget is used up, or somebody ended it"
    return "its process ended, and no log says how"


def _ending(activity: Activity, now: Instant) -> str:
    """How the last turn ended and when."""
    since = activity.phase_since or activity.last_at
    how = "used up its budget" if activity.is_out_of_budget else _ENDINGS.get(activity.phase)
    if how is None or since is None:
        return "no turn was seen"
    return f"{how} {length(now.seconds_since(since))} ago"


def orphan_words(orphans: Sequence[Orphan]) -> str:
    """The tools that outlived their agent, by pid."""
    pids = ", ".join(str(orphan.process.pid) for orphan in orphans)
    return f"{'process' if len(orphans) == 1 else 'processes'} {pids}"


def still_runs(orphans: Sequence[Orphan]) -> str:
    """What an agent left running is not over: nobody may take it for cut off. Empty if nothing was left."""
    if not orphans:
        return ""
    return f"its command still runs as {orphan_words(orphans)} and may yet happen"


def agent_words(agent: Sight) -> str:
    """What a probe said of a process."""
    return {Sight.ALIVE: "is alive", Sight.DEAD: "is gone", Sight.UNKNOWN: "could not be seen"}[agent]
