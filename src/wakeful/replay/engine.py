"""Replays a recorded session through time, with the same `fold` and `judge` as live.

A verdict can change at an event and at a deadline. Both are visited, so episodes begin when the alert would
have been sent. Most events change no verdict: they are folded and not judged. `thorough` stepping judges
after each event and must give the same episodes (a property test). It uses no files and no clock.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from math import inf
from typing import Final

from msgspec import Struct, field

from wakeful.core.clock import Instant
from wakeful.core.process import Process, ProcessState
from wakeful.judging import events as e
from wakeful.judging.activity import Activity, fold
from wakeful.judging.evidence import AgentProcess, RuntimeState, remember_process
from wakeful.judging.findings import Finding, FindingCode, Verdict
from wakeful.judging.judge import judge
from wakeful.judging.loops import unchanged_seconds
from wakeful.judging.masking import REPEATED_ENDS_MIN
from wakeful.judging.thresholds import Policy
from wakeful.judging.turn_state import TurnPhase

# A verdict repeated for ever at one moment would be a bug of a detector; a year of silence has fewer deadlines.
DEADLINES_AT_ONCE_MAX: Final = 10_000


class Episode(Struct):
    """A finding from the moment it would have been told to the moment it was over; still going on without `ended`."""

    code: FindingCode
    began: Instant
    found: Finding
    waiting_for: TurnPhase
    ended: Instant | None = None


class ReplayOutcome(Struct, frozen=True):
    """What one policy would have said of a session: at the end, and on the way there."""

    verdict: Verdict
    episodes: tuple[Episode, ...]
    now: Instant


class _PolicyRun(Struct):
    """One policy's judgement so far."""

    policy: Policy
    episodes: list[Episode] = field(default_factory=list)
    open_episodes: dict[FindingCode, Episode] = field(default_factory=dict)
    next_check_at: Instant | None = None
    verdict: Verdict | None = None


class Replay:
    """One session under one or several policies. Events in, outcomes at the end."""

    def __init__(
        self, policies: Sequence[Policy], *, until: float | None = None, thorough: bool = False
    ) -> None:
        self.activity = Activity()
        self.events = 0
        self.began: float | None = None
        self._presence = RuntimeState()
        self._policy_runs = [_PolicyRun(policy) for policy in policies]
        self._until = inf if until is None else until
        self._thorough = thorough
        self._limits = limits_of(tuple(policies))
        self._clock = 0.0
        # No verdict changes by time alone before this; kept too early rather than too late.
        self._horizon = -inf
        # Something is found or nearly so: every event is judged.
        self._must_judge = thorough
        self._finishing = False

    @property
    def clock(self) -> float:
        """The latest time any record stated."""
        return self._clock

    def feed(self, events: Sequence[e.Event]) -> None:
        """Step over these events, in the order their log has them."""
        if self._until < inf:
            events = [event for event in events if event.at <= self._until]
        self.events += len(events)
        activity, limits, calm_after = self.activity, self._limits, _LIMIT_CHECKS.get
        for event in events:
            wall = event.at
            if self._must_judge or not self._clock <= wall <= self._horizon:
                self._feed_out_of_band(event)
                continue
            self._clock = wall
            fold(activity, event, Instant(wall, wall))
            if not calm_after(type(event), _never)(activity, limits):
                self._judge_all()

    def finish(
        self, now: float | None = None, *, gone: bool = False, written: float | None = None
    ) -> list[ReplayOutcome]:
        """Let time pass up to `now`, by default the last record; `gone`: the process ended with that record.

        `written` is when the log was written, for one of which no record has a time.
        """
        if self.began is None:
            self._clock = now if now is not None else written or 0.0
        self._finishing = True
        if gone:
            self._mark_process_dead()
        self._judge_all()
        if now is not None and now > self._clock:
            self._judge_deadlines(now)
            self._clock = now
            self._judge_all()
        return [_outcome(bench, Instant(self._clock, self._clock)) for bench in self._policy_runs]

    def _feed_out_of_band(self, event: e.Event) -> None:
        """An event out of order, past the horizon, or while something is found."""
        wall = event.at
        late = self._advance_to(wall) if wall else False
        fold(self.activity, event, Instant(wall, wall))
        if (
            late
            or self._must_judge
            or not _LIMIT_CHECKS.get(type(event), _never)(self.activity, self._limits)
        ):
            self._judge_all()

    def _advance_to(self, wall: float) -> bool:
        """Let time pass until this event; True if the event must be judged whatever it is."""
        if self.began is None:
            self._begin(wall)
        if wall <= self._clock:
            return wall < self._clock
        # What was skipped since the last verdict moved the deadlines: look where they are now, then ask.
        if wall > self._horizon:
            self._horizon = self._no_finding_before()
        if wall > self._horizon:
            self._judge_all()
            self._judge_deadlines(wall)
        late = wall > self._horizon
        self._clock = wall
        self._horizon = min(self._horizon, self._no_silence_before())
        return late

    def _begin(self, wall: float) -> None:
        self.began = self._clock = wall
        self._horizon = self._no_silence_before()
        remember_process(
            self._presence,
            AgentProcess(Process(0, 0, "replay"), ProcessState.ALIVE, Instant(wall, wall), "replay"),
        )

    def _mark_process_dead(self) -> None:
        ended_at = Instant(self._clock, self._clock)
        pid = self.activity.pid or 0
        dead = AgentProcess(
            Process(pid, 0, "replay"), ProcessState.DEAD, ended_at, "replay", ended_at=ended_at
        )
        self._presence.holders = {pid: dead}

    def _judge_all(self) -> None:
        at = Instant(self._clock, self._clock)
        # Marks without a time may come first; the first time stated is never passed over.
        self._horizon = inf if self.began is not None else -inf
        self._must_judge = self._thorough or not is_below_limits(self.activity, self._limits)
        if not self._must_judge:
            self._horizon = min(self._horizon, self._no_runaway_before(), self._no_silence_before())
        # Before any time is known nothing can be told of when; the end knows one.
        if self.began is not None or self._finishing:
            for bench in self._policy_runs:
                self._judge(bench, at)

    def _no_silence_before(self) -> float:
        """Whatever begins from now on, no silence of it is found before this."""
        return self._clock + self._limits.silence_seconds

    def _no_finding_before(self) -> float:
        """Up to here nothing is found by time alone: never between turns, within one not before a silence lasted."""
        activity = self.activity
        if self._must_judge or activity.compacting_since is not None:
            return self._horizon
        if not activity.in_turn or activity.progress_at is None:
            return inf
        return min(activity.progress_at.wall + self._limits.silence_seconds, self._no_runaway_before())

    def _no_runaway_before(self) -> float:
        """Up to here a turn cannot have been at work for too long: it is so for no more time than passes."""
        since = self.activity.progress_at
        left_seconds = self._limits.active_seconds - self.activity.active_seconds
        return (since.wall if since is not None else self._clock) + left_seconds

    def _judge(self, bench: _PolicyRun, at: Instant) -> None:
        verdict = bench.verdict = judge(self.activity, self._presence, bench.policy, at)
        _record_episodes(bench, verdict, at, self.activity.phase)
        bench.next_check_at = next_at = verdict.next_check_at
        if next_at is not None and next_at.wall < self._horizon:
            self._horizon = next_at.wall
        if verdict.findings:
            self._must_judge = True

    def _judge_deadlines(self, wall: float) -> None:
        """Visit every deadline before `wall`, in each bench on its own."""
        for bench in self._policy_runs:
            for _ in range(DEADLINES_AT_ONCE_MAX):
                at = bench.next_check_at
                if at is None or at.wall >= wall:
                    break
                self._judge(bench, at)


class ReplayLimits(Struct, frozen=True, gc=False):
    """The smallest of several policies' limits: below these none of them finds anything by counting."""

    silence_seconds: float
    errors: int
    run: int
    words: int
    compactions: int
    duplicates: int
    poll_seconds: float
    active_seconds: float
    calls: int
    tokens: float
    alike_results: int
    plan_writes: int


# Asked for every session, and mostly about the same policies.
@lru_cache(maxsize=4)
def limits_of(policies: tuple[Policy, ...]) -> ReplayLimits:
    # Nothing is found by time alone sooner after an event than a silence lasts, but for a turn near its end.
    silence_seconds = min(policy.silence_seconds for policy in policies)
    return ReplayLimits(
        silence_seconds=silence_seconds,
        errors=min(policy.errors_in_a_row_max for policy in policies),
        # A cycle of two calls has twice as many repeats as rounds, a longer one more.
        run=min(min(policy.repeats_max, 2 * policy.cycles_max) for policy in policies),
        words=min(policy.cycles_max for policy in policies),
        compactions=min(policy.compactions_max for policy in policies),
        duplicates=min(policy.duplicates_max for policy in policies),
        poll_seconds=min(policy.poll_seconds for policy in policies),
        active_seconds=min(policy.runaway_seconds for policy in policies) - silence_seconds - 1.0,
        calls=min(policy.runaway_calls_max for policy in policies),
        tokens=min(min(policy.runaway_tokens_max, _tokens_affordable(policy)) for policy in policies),
        alike_results=min(policy.alike_results_max for policy in policies),
        plan_writes=min(policy.plan_writes_max for policy in policies),
    )


def _tokens_affordable(policy: Policy) -> float:
    """Fewer tokens than this cannot cost too much, whichever kind they are."""
    dearest = max(policy.input_usd_per_million, policy.output_usd_per_million)
    return policy.runaway_cost_usd * 1e6 / dearest if dearest else inf


def is_below_limits(activity: Activity, limits: ReplayLimits) -> bool:
    """Whether no count has reached the least of its limits: cheap, and never wrongly true."""
    return (
        activity.active_seconds < limits.active_seconds
        and activity.retries_in_a_row <= limits.errors
        and _has_few_calls(activity, limits)
        and _has_few_tokens(activity, limits)
        and _has_new_text(activity, limits)
        and _has_few_compactions(activity, limits)
        and _makes_progress(activity, limits)
    )


def _has_few_calls(activity: Activity, limits: ReplayLimits) -> bool:
    """Of a turn that sends out other agents every call is judged: there are few."""
    return activity.turn_calls <= limits.calls and activity.spawns is None


def _has_few_tokens(activity: Activity, limits: ReplayLimits) -> bool:
    return activity.turn_tokens <= limits.tokens


def _has_new_text(activity: Activity, limits: ReplayLimits) -> bool:
    tracker = activity.circles
    return tracker.words_repeats < limits.words and tracker.echoes < REPEATED_ENDS_MIN


def _has_few_compactions(activity: Activity, limits: ReplayLimits) -> bool:
    return activity.circles.compactions <= limits.compactions


def _makes_progress(activity: Activity, limits: ReplayLimits) -> bool:
    """Whether calls succeed, and nothing is repeated often enough to be a circle."""
    tracker = activity.circles
    if activity.errors_in_a_row > limits.errors:
        return False
    if tracker.failures > limits.run:
        return False
    if tracker.runs and any(run.length >= limits.run for run in tracker.runs):
        return False
    # Only the call that came back last can have been counted up.
    if tracker.last_count > limits.duplicates:
        return False
    if tracker.alike is not None and tracker.alike.count > limits.alike_results:
        return False
    if tracker.plan is not None and tracker.plan.count > limits.plan_writes:
        return False
    return not tracker.polls or unchanged_seconds(tracker) < limits.poll_seconds


def _always(_activity: Activity, _limits: ReplayLimits) -> bool:
    return True


def _never(_activity: Activity, _limits: ReplayLimits) -> bool:
    return False


# Events that bring a finding only by what they count, and what that is: all else was calm before and still is. An
# event that is not here is judged. Time at work counts up with any of them, and is watched by the horizon.
_LIMIT_CHECKS: Final[Mapping[type[e.Event], Callable[[Activity, ReplayLimits], bool]]] = {
    e.CallEnded: _makes_progress,
    e.CallStarted: _has_few_calls,
    e.TokensSpent: _has_few_tokens,
    e.Progressed: _has_new_text,
    e.TextWritten: _has_new_text,
    e.TurnEnded: _has_new_text,
    e.CompactionEnded: _has_few_compactions,
    e.LogOpened: _always,
    # A call open too long is judged by the horizon.
    e.PermissionModeSet: _always,
    # Only how a session ended that is gone depends on it.
    e.LogClosed: _always,
    e.Prompted: _always,
    e.PlanProposed: _always,
    # Its task was waited for between turns only, and nothing is found there by time.
    e.TaskEnded: _always,
    e.TurnInterrupted: _always,
}


def _record_episodes(bench: _PolicyRun, verdict: Verdict, at: Instant, phase: TurnPhase) -> None:
    if not verdict.findings and not bench.open_episodes:
        return
    found = {finding.code: finding for finding in verdict.findings}
    for code in [code for code in bench.open_episodes if code not in found]:
        bench.open_episodes.pop(code).ended = at
    for code, finding in found.items():
        episode = bench.open_episodes.get(code)
        if episode is None:
            episode = bench.open_episodes[code] = Episode(code, at, finding, phase)
            bench.episodes.append(episode)
        episode.found = finding


def _outcome(bench: _PolicyRun, now: Instant) -> ReplayOutcome:
    assert bench.verdict is not None, "an outcome needs a verdict"
    # What ended in the moment it began was never there to be told.
    told = tuple(episode for episode in bench.episodes if episode.ended != episode.began)
    return ReplayOutcome(bench.verdict, told, now)
