"""Which rules would speak but for a wait or for live evidence, and what holds each back. Pure.

Asked for by `why` only: a verdict never depends on it. Every answer names what a detector looked at, so each function
here stands for the exception in the detector of its code.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Final

from msgspec import Struct

from wakeful.core.moment import Instant
from wakeful.core.process import Sight
from wakeful.judging.detectors import Case, active_seconds, is_quiet, polled_cycle_since
from wakeful.judging.events import CallKind, Failure
from wakeful.judging.evidence import Status
from wakeful.judging.findings import Code
from wakeful.judging.loops import unchanged_seconds
from wakeful.judging.outage import is_outage
from wakeful.judging.turn_state import OPEN, Phase
from wakeful.judging.verdict import ExpectedWait, WaitKind
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
