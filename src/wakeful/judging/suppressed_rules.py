"""Rules that would fire without an expected wait or live evidence. Pure.

They are for explanations only. Each function mirrors the exception in the detector of its code.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Final

from msgspec import Struct

from wakeful.core.clock import Instant
from wakeful.core.process import ProcessState
from wakeful.judging.detectors import DetectorInput, active_seconds, is_quiet, polled_cycle_since
from wakeful.judging.events import CallKind, Failure
from wakeful.judging.evidence import ClientStatus
from wakeful.judging.findings import ExpectedWait, FindingCode, WaitKind
from wakeful.judging.loops import unchanged_seconds
from wakeful.judging.outage import is_outage
from wakeful.judging.turn_state import OPEN, TurnPhase
from wakeful.judging.waits import call_end, current_waits


class SuppressedRule(Struct, frozen=True, gc=False):
    """A rule that would fire. `by` is a kind of wait, or `poll`, `login`, `outage` or `pauses`."""

    code: FindingCode
    by: str
    until: Instant | None
    evidence: str
    untrusted: str = ""


def suppressed_rules(facts: DetectorInput, fired: frozenset[FindingCode]) -> Iterator[SuppressedRule]:
    """Every rule that is suppressed now; rules that fired are not among them."""
    for code, restrain in _SUPPRESSIONS.items():
        if code not in fired:
            yield from restrain(facts, code)


def _by_wait(code: FindingCode, wait: ExpectedWait) -> SuppressedRule:
    return SuppressedRule(code, wait.kind, wait.until, wait.evidence, wait.untrusted)


def _silence(facts: DetectorInput, code: FindingCode) -> Iterator[SuppressedRule]:
    progress_at = facts.activity.progress_at
    if facts.phase not in OPEN or progress_at is None:
        return
    for wait in current_waits(facts.waits, facts.now):
        # In wall time a night's sleep of the host is a silence; only the sleep explains it.
        slept_through = facts.now.wall - progress_at.wall > facts.policy.silence_seconds
        if is_quiet(facts) or (wait.kind is WaitKind.SLEEP and slept_through):
            yield _by_wait(code, wait)


def _wedge(facts: DetectorInput, code: FindingCode) -> Iterator[SuppressedRule]:
    calls = facts.activity.calls.values() if facts.phase in {TurnPhase.TOOL, TurnPhase.PERSON} else ()
    overdue = {
        call.since
        for call in calls
        if (call.enforced or call.timeout_seconds is not None)
        and call.kind is not CallKind.PERSON
        and facts.now > call_end(call, facts.policy)
    }
    for wait in current_waits(facts.waits, facts.now):
        if wait.since in overdue or (overdue and wait.kind in {WaitKind.PERSON, WaitKind.SLEEP}):
            yield _by_wait(code, wait)


def _loop(facts: DetectorInput, code: FindingCode) -> Iterator[SuppressedRule]:
    tracker, polls = facts.activity.circles, facts.policy.poll_seconds
    since = polled_cycle_since(tracker, facts.policy)
    if since is not None:
        yield SuppressedRule(code, "poll", since.plus(polls), "the calls repeat, and some of them only poll")
    elif unchanged_seconds(tracker):
        until = tracker.polls[-1].since.plus(polls)
        yield SuppressedRule(code, "poll", until, "a poll returned unchanged")


def _outage(facts: DetectorInput, code: FindingCode) -> Iterator[SuppressedRule]:
    retries = facts.activity.retries_in_a_row
    if facts.phase in OPEN and retries > facts.policy.errors_in_a_row_max:
        yield from (_by_wait(code, wait) for wait in facts.waits if wait.kind is WaitKind.RETRY)


def _poison(facts: DetectorInput, code: FindingCode) -> Iterator[SuppressedRule]:
    activity = facts.activity
    if facts.phase is not TurnPhase.FAILED or activity.failures_alike <= facts.policy.failures_alike_max:
        return
    if activity.failure is Failure.AUTH:
        yield SuppressedRule(code, "login", None, "only a new login ends a refused one")
    elif activity.failure is Failure.LIMIT:
        yield SuppressedRule(code, WaitKind.LIMIT, activity.limit_until, "a usage limit ends by itself")
    elif is_outage(activity):
        yield SuppressedRule(
            code, "outage", None, "the provider did not answer: a new conversation would get no answer either"
        )


def _start(facts: DetectorInput, code: FindingCode) -> Iterator[SuppressedRule]:
    process = facts.presence.newest_process
    if facts.activity.last_at is not None or process is None or process.sight is not ProcessState.ALIVE:
        return
    is_ready = process.status in {ClientStatus.IDLE, ClientStatus.WAITING}
    if is_ready and facts.now.seconds_since(process.seen_at) > facts.policy.never_started_seconds:
        yield SuppressedRule(
            code, WaitKind.PERSON, None, f"its client says {process.status}", process.waiting_for or ""
        )


def _age(facts: DetectorInput, code: FindingCode) -> Iterator[SuppressedRule]:
    since, seconds = facts.activity.turn_since, active_seconds(facts)
    if facts.phase not in OPEN or since is None:
        return
    if facts.now.wall - since.wall > facts.policy.runaway_seconds >= seconds:
        text = f"{seconds / 3600:.1f} h at work, without a person's time, long gaps and the host's sleep"
        yield SuppressedRule(code, "pauses", None, text)


_SUPPRESSIONS: Final[
    Mapping[FindingCode, Callable[[DetectorInput, FindingCode], Iterator[SuppressedRule]]]
] = {
    FindingCode.POISONED_CONVERSATION: _poison,
    FindingCode.LOOP: _loop,
    FindingCode.ERROR_CASCADE: _outage,
    FindingCode.SILENT: _silence,
    FindingCode.TOOL_WEDGED: _wedge,
    FindingCode.NEVER_STARTED: _start,
    FindingCode.RUNAWAY: _age,
}
