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
from wakeful.judging.activity import Activity
from wakeful.judging.evidence import AgentProcess, RuntimeState, remember_process
from wakeful.judging.findings import Finding, FindingCode, Verdict
from wakeful.judging.folding import fold
from wakeful.judging.judge import judge
from wakeful.judging.loops import unchanged_seconds
from wakeful.judging.masking import REPEATED_ENDS_MIN
from wakeful.judging.thresholds import Policy
from wakeful.judging.turn_state import TurnPhase

# A verdict that repeats forever at one time would be a bug of a detector; a year of silence has fewer deadlines.
DEADLINES_AT_ONCE_MAX: Final = 10_000


class Episode(Struct):
    """A finding from the time its alert would have been sent until it ended; still going on without `ended`."""

    code: FindingCode
    began: Instant
    found: Finding
    waiting_for: TurnPhase
    ended: Instant | None = None


class ReplayOutcome(Struct, frozen=True):
    """The verdicts of one policy about a session: at the end, and the episodes before."""

    verdict: Verdict
    episodes: tuple[Episode, ...]
    now: Instant


class _PolicyRun(Struct):
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
        # No verdict changes by time alone before this; rather too early than too late.
        self._horizon = -inf
        # There is a finding or nearly one: every event is judged.
        self._must_judge = thorough
        self._finishing = False

    @property
    def clock(self) -> float:
        """The latest time in any record."""
        return self._clock

    def feed(self, events: Sequence[e.Event]) -> None:
        """Replay these events, in the order of their log."""
        if self._until < inf:
            events = [event for event in events if event.at <= self._until]
        self.events += len(events)
        activity, limits, check_of = self.activity, self._limits, _LIMIT_CHECKS.get
        for event in events:
            wall = event.at
            if self._must_judge or not self._clock <= wall <= self._horizon:
                self._feed_out_of_band(event)
                continue
            self._clock = wall
            fold(activity, event, Instant(wall, wall))
            if not check_of(type(event), _never)(activity, limits):
                self._judge_all()

    def finish(
        self, now: float | None = None, *, gone: bool = False, written: float | None = None
    ) -> list[ReplayOutcome]:
        """Let time pass up to `now`, by default the last record; `gone`: the process ended with that record.

        `written` is when the log was written, for a log without any time in its records.
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
        return [_outcome(run, Instant(self._clock, self._clock)) for run in self._policy_runs]

    def _feed_out_of_band(self, event: e.Event) -> None:
        """An event out of order, past the horizon, or during a finding."""
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
        """Let time pass until this event; True if the event must be judged in any case."""
        if self.began is None:
            self._begin(wall)
        if wall <= self._clock:
            return wall < self._clock
        # Events since the last verdict moved the deadlines: compute them again, then judge if one is due.
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
        # Records without a time may come first; the first time is never skipped.
        self._horizon = inf if self.began is not None else -inf
        self._must_judge = self._thorough or not is_below_limits(self.activity, self._limits)
        if not self._must_judge:
            self._horizon = min(self._horizon, self._no_runaway_before(), self._no_silence_before())
        # Before any record has a time, an episode has none; at the end there is one.
        if self.began is not None or self._finishing:
            for run in self._policy_runs:
                self._judge(run, at)

    def _no_silence_before(self) -> float:
        """A silence that begins from now on is not found before this."""
        return self._clock + self._limits.silence_seconds

    def _no_finding_before(self) -> float:
        """Until then time alone causes no finding: never between turns, within one not before a silence lasted."""
        activity = self.activity
        if self._must_judge or activity.compacting_since is not None:
            return self._horizon
        if not activity.in_turn or activity.progress_at is None:
            return inf
        return min(activity.progress_at.wall + self._limits.silence_seconds, self._no_runaway_before())

    def _no_runaway_before(self) -> float:
        """Until then a turn cannot have worked for too long: its active time grows no faster than time passes."""
        since = self.activity.progress_at
        left_seconds = self._limits.active_seconds - self.activity.active_seconds
        return (since.wall if since is not None else self._clock) + left_seconds

    def _judge(self, run: _PolicyRun, at: Instant) -> None:
        verdict = run.verdict = judge(self.activity, self._presence, run.policy, at)
        _record_episodes(run, verdict, at, self.activity.phase)
        run.next_check_at = next_at = verdict.next_check_at
        if next_at is not None and next_at.wall < self._horizon:
            self._horizon = next_at.wall
        if verdict.findings:
            self._must_judge = True

    def _judge_deadlines(self, wall: float) -> None:
        """Visit every deadline before `wall`, for each policy separately."""
        for run in self._policy_runs:
            for _ in range(DEADLINES_AT_ONCE_MAX):
                at = run.next_check_at
                if at is None or at.wall >= wall:
                    break
                self._judge(run, at)


class ReplayLimits(Struct, frozen=True, gc=False):
    """The smallest limits of several policies: below these none of them finds anything by counting."""

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


# Called for every session, mostly with the same policies.
@lru_cache(maxsize=4)
def limits_of(policies: tuple[Policy, ...]) -> ReplayLimits:
    # Time alone causes no finding sooner after an event than a silence lasts, except for a turn near its limit.
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
    """The number of tokens that cannot cost too much, of any kind."""
    dearest = max(policy.input_usd_per_million, policy.output_usd_per_million)
    return policy.runaway_cost_usd * 1e6 / dearest if dearest else inf


def is_below_limits(activity: Activity, limits: ReplayLimits) -> bool:
    """Whether every count is below its smallest limit: cheap, and never wrongly true."""
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
    """In a turn that starts other agents every call is judged: there are few."""
    return activity.turn_calls <= limits.calls and activity.spawns is None


def _has_few_tokens(activity: Activity, limits: ReplayLimits) -> bool:
    return activity.turn_tokens <= limits.tokens


def _has_new_text(activity: Activity, limits: ReplayLimits) -> bool:
    tracker = activity.circles
    return tracker.words_repeats < limits.words and tracker.echoes < REPEATED_ENDS_MIN


def _has_few_compactions(activity: Activity, limits: ReplayLimits) -> bool:
    return activity.circles.compactions <= limits.compactions


def _makes_progress(activity: Activity, limits: ReplayLimits) -> bool:
    """Whether calls succeed, and nothing repeats often enough to be a loop."""
    tracker = activity.circles
    if activity.errors_in_a_row > limits.errors:
        return False
    if tracker.failures > limits.run:
        return False
    if tracker.runs and any(run.length >= limits.run for run in tracker.runs):
        return False
    # Only the count of the last returned call can have grown.
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


# Events that cause a finding only through a count, and the check of that count: everything else was below its
# limits before and still is. An event that is not here is judged. Active time grows with any of them, and the
# horizon covers it.
_LIMIT_CHECKS: Final[Mapping[type[e.Event], Callable[[Activity, ReplayLimits], bool]]] = {
    e.CallEnded: _makes_progress,
    e.CallStarted: _has_few_calls,
    e.TokensSpent: _has_few_tokens,
    e.Progressed: _has_new_text,
    e.TextWritten: _has_new_text,
    e.TurnEnded: _has_new_text,
    e.CompactionEnded: _has_few_compactions,
    e.LogOpened: _always,
    # A call that is open too long is judged at the horizon.
    e.PermissionModeSet: _always,
    # Only the end of a session that is gone depends on it.
    e.LogClosed: _always,
    e.Prompted: _always,
    e.PlanProposed: _always,
    # A turn never waits for its task, and between turns time causes no finding.
    e.TaskEnded: _always,
    e.TurnInterrupted: _always,
}


def _record_episodes(run: _PolicyRun, verdict: Verdict, at: Instant, phase: TurnPhase) -> None:
    if not verdict.findings and not run.open_episodes:
        return
    found = {finding.code: finding for finding in verdict.findings}
    for code in [code for code in run.open_episodes if code not in found]:
        run.open_episodes.pop(code).ended = at
    for code, finding in found.items():
        episode = run.open_episodes.get(code)
        if episode is None:
            episode = run.open_episodes[code] = Episode(code, at, finding, phase)
            run.episodes.append(episode)
        episode.found = finding


def _outcome(run: _PolicyRun, now: Instant) -> ReplayOutcome:
    assert run.verdict is not None, "an outcome needs a verdict"
    # An episode that ended when it began would have caused no alert.
    episodes = tuple(episode for episode in run.episodes if episode.ended != episode.began)
    return ReplayOutcome(run.verdict, episodes, now)
