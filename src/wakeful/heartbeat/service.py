"""The wake service: decides whether an agent may be woken now, and sends the wake prompt.

The decision is deterministic (`judging/wake_eligibility.py`) and comes before any other work. A wake is
stored before its prompt is sent through the action gate: if another turn began meanwhile, the wake is
skipped. The service reads health and never writes it. `WakeCycle` counts wakes for `max_wakes_per_cycle`; a
restart begins no new cycle.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from wakeful.alerts.mute_pause import MutePause
from wakeful.control.controller import SessionController
from wakeful.control.driver import LinesRefused
from wakeful.control.gate import ActionGate, ActionRecord, Precondition
from wakeful.core.clock import Clock, Instant, iso, latest
from wakeful.core.errors import WakefulError, WorldError
from wakeful.core.fault_points import fault_point
from wakeful.core.ids import SessionId
from wakeful.heartbeat.model import (
    SCHEMA,
    Audit,
    HealthNotKnownYet,
    HeartbeatStatus,
    Trigger,
    WakeAnswer,
    WakesItself,
    WakeState,
    answer_of,
    outcome_of,
    policy_snapshot,
    prompt_of,
    reason_text,
)
from wakeful.heartbeat.policy import HeartbeatPolicy, HeartbeatSnapshot, PolicyReading
from wakeful.heartbeat.store import AuditLog, PolicyStore
from wakeful.heartbeat.targets import Target, Targets, WakeContext
from wakeful.judging.findings import Health, State
from wakeful.judging.judge import judge
from wakeful.judging.session_record import safe
from wakeful.judging.thresholds import Policy
from wakeful.judging.wake_eligibility import (
    UNREACHABLE,
    IneligibilityReason,
    PolicyState,
    Reachability,
    WakeFacts,
    WakeRule,
    refusing_rule,
)
from wakeful.sessions.reachability import ReachSource
from wakeful.sessions.session import TrackedSession
from wakeful.storage.base import ActionOutcome


class WakeCycle:
    """Counts wakes from the first one until the cycle is over."""

    def __init__(self, clock: Clock, seconds: float) -> None:
        self._clock = clock
        self._seconds = seconds
        self._began_awake = clock.now().awake
        self._count = 0

    def restore(self, prompts: Sequence[Instant]) -> None:
        """Continue with the times of the wakes that an earlier daemon sent within the cycle."""
        if prompts:
            self._began_awake, self._count = min(prompts).awake, len(prompts)

    @property
    def count(self) -> int:
        now = self._clock.now().awake
        if now - self._began_awake >= self._seconds:
            self._began_awake, self._count = now, 0
        return self._count

    def spend(self) -> None:
        self._count = self.count + 1

    def give_back(self) -> None:
        """Uncount a wake that sent nothing, so another agent may be woken in this cycle."""
        self._count = max(0, self.count - 1)


# A check takes about this long, so a shorter wait for the end of a quiet window gains nothing.
CYCLE_SECONDS_MIN: Final = 0.05
FORGET_SECONDS: Final = 3600.0
# A client logs a prompt within a second; a prompt that is not logged after this time is lost.
UNSHOWN_SECONDS_MAX: Final = 30.0
RACED: Final = "a prompt began first"
_READY: Final = WakeFacts(reach=Reachability(ours=True, path_open=True), health=Health.HEALTHY)

log = logging.getLogger("wakeful")

Caller = Callable[[], Awaitable[SessionId | None]]
"""The session that the requesting process works for, if any."""


async def _no_caller() -> SessionId | None:
    return None


class WakeRules(Struct, frozen=True):
    """Numbers of `[agents.heartbeat]`, in seconds."""

    enabled: bool = True
    default_interval_seconds: float = 1800.0
    cooldown_seconds: float = 60.0
    wakes_per_cycle_max: int = 25
    cycle_seconds: float = 60.0


class WakeControl(Struct, frozen=True):
    """The parts that send wakes, and those that prevent them. `automatic` is for scheduled wakes: a pause stops it."""

    gate: ActionGate
    controller: SessionController
    automatic: SessionController
    reach: ReachSource
    mute_pause: MutePause


class WakeService:
    """Decides, sends and records wakes. Call `restore` after every session was judged, and before anything else."""

    def __init__(
        self,
        *,
        clock: Clock,
        targets: Targets,
        policies: PolicyStore,
        audits: AuditLog,
        control: WakeControl,
        judged_by: Policy,
        rules: WakeRules,
        context: WakeContext,
    ) -> None:
        self._clock = clock
        self._targets = targets
        self._policies = policies
        self.audits = audits
        self._gate = control.gate
        self._controllers = {Trigger.MANUAL: control.controller, Trigger.SCHEDULE: control.automatic}
        self._judging_policy = judged_by
        self._rules = rules
        self._reach = control.reach
        self._mute_pause = control.mute_pause
        self._context = context
        self._waking: set[SessionId] = set()
        self._cycle = WakeCycle(clock, rules.cycle_seconds)
        self._ready = False

    def set_policy(self, judged_by: Policy) -> None:
        """The configuration has changed."""
        self._judging_policy = judged_by

    async def restore(self) -> None:
        """Continue where an earlier daemon stopped. Sessions have been judged by now."""
        await self._policies.restore()
        await self.audits.restore()
        self._cycle.restore(self.audits.prompts_within(self._rules.cycle_seconds))
        fault_point("wake.taken_up")
        self._ready = True

    async def status(self, name: str) -> HeartbeatStatus:
        """Whether an agent may be woken now; changes nothing. Raises BadAgentName."""
        target = self._find_target(name)
        reading = self._policies.reading(target.agent, target.workdir)
        await self._policies.save()
        return self._status(target, reading)

    def of_session(self, session_id: SessionId) -> HeartbeatStatus | None:
        """The status of exactly this session; None if it is not managed."""
        target = self._targets.of_session(session_id)
        if not self._ready or target.session is None or not target.session.subject.is_managed:
            return None
        return self._status(target, self._policies.reading(target.agent, target.workdir))

    async def wake(
        self, name: str, trigger: Trigger = Trigger.MANUAL, *, caller: Caller = _no_caller
    ) -> WakeAnswer:
        """Wake an agent, or answer why not. Raises WakesItself, BadAgentName, and the errors of the store.

        The caller is looked up only for a wake that would be sent.
        """
        target = self._find_target(name)
        reading = self._policies.reading(target.agent, target.workdir)
        # No await from here to the reservation: of a thousand simultaneous requests, one goes on.
        rule = refusing_rule(self._facts(target, reading))
        snapshot, session = reading.snapshot, target.session
        if rule is not None or session is None or snapshot is None:
            assert rule is not None, "a session and a policy, or a reason"
            return await self._refuse(target, reading, trigger, rule)
        self._waking.add(session.subject.id)
        self._cycle.spend()
        # The caller may disconnect; a wake that was begun is finished and recorded.
        acts_before = self._gate.completed_count(session.subject.id)
        return await asyncio.shield(
            self._wake_reserved(target, session, snapshot, trigger, caller, acts_before)
        )

    async def run(self) -> None:
        """Wake due agents in each cycle, until cancelled."""
        forget_at = self._clock.now().awake
        while True:
            pause_seconds = await self.cycle()
            if self._clock.now().awake >= forget_at:
                await self.audits.forget_old()
                forget_at = self._clock.now().awake + FORGET_SECONDS
            await self._clock.sleep(pause_seconds)

    async def cycle(self) -> float:
        """Wake every due agent once; returns the seconds until the next check."""
        if self._mute_pause.current_pause is not None or not self._rules.enabled:
            return self._rules.cycle_seconds
        waits = [self._rules.cycle_seconds]
        due: list[tuple[Instant, str]] = []
        for name in self._targets.names():
            target = self._find_target(name)
            reading = self._policies.reading(name, target.workdir)
            if reading.state is not PolicyState.VALID or target.session is None or reading.snapshot is None:
                continue
            now = self._clock.now()
            due_at = self._due_at(target.session, reading.snapshot.policy, now)
            if due_at <= now:
                due.append((due_at, name))
            waits.append(self._wait_seconds(due_at, reading.snapshot.policy))
        # The longest waiting agent comes first: there may be more of them than wakes in the cycle.
        await asyncio.gather(*(self._wake_on_schedule(name) for _, name in sorted(due)))
        await self._policies.save()
        return max(min(waits), CYCLE_SECONDS_MIN)

    async def _wake_on_schedule(self, name: str) -> None:
        try:
            await self.wake(name, Trigger.SCHEDULE)
        except WakefulError as error:
            log.warning("agent %s was not woken: %s", name, error)

    def _wait_seconds(self, due_at: Instant, policy: HeartbeatPolicy) -> float:
        """The time until it is due, or until the quiet window ends in which it is due; without one, a whole cycle."""
        now = self._clock.now()
        if due_at > now:
            return due_at.awake - now.awake
        change = self._quiet_until(policy, now.wall)
        return change - now.wall if change is not None else self._rules.cycle_seconds

    def _find_target(self, name: str) -> Target:
        if not self._ready:
            raise HealthNotKnownYet
        return self._targets.find(name)

    def _facts(self, target: Target, reading: PolicyReading) -> WakeFacts:
        session = target.session
        if session is None or session.record is None:
            return WakeFacts(found=False)
        record, now = session.record, self._clock.now()
        policy = reading.snapshot.policy if reading.snapshot is not None else None
        is_valid = policy is not None and reading.state is PolicyState.VALID
        may_reach = record.managed or record.agent is not None
        reachability = self._reach.reach(record.id) if may_reach else UNREACHABLE
        reachability = replace(reachability, enabled=self._rules.enabled)
        # A session with one process per turn is stopped between turns and can be prompted.
        ended = record.state is State.STOPPED and not reachability.path_open
        return WakeFacts(
            reach=reachability,
            policy=reading.state,
            health=record.health,
            active_prompt=record.active_prompt or (not ended and self._has_unshown_prompt(session, now)),
            waking=record.id in self._waking,
            quiet=is_valid and policy is not None and self._policies.is_quiet(policy, now.wall),
            cooling=(until := self._cooling_until(record.id, policy)) is not None and until > now,
            cycle_spent=self._cycle.count >= self._rules.wakes_per_cycle_max,
        )

    def _has_unshown_prompt(self, session: TrackedSession, now: Instant) -> bool:
        """Whether a prompt was sent that its log does not show yet: the session seems idle and is not."""
        given_at, last_at = self._gate.last_prompt_at(session.subject.id), session.activity.last_at
        if given_at is None or now.seconds_since(given_at) > UNSHOWN_SECONDS_MAX:
            return False
        return last_at is None or last_at < given_at

    def _cooling_until(self, session_id: SessionId, policy: HeartbeatPolicy | None) -> Instant | None:
        given_at = self.audits.last_prompt_at(session_id)
        if given_at is None:
            return None
        interval_seconds = policy.min_interval_seconds if policy is not None else None
        return given_at.plus(max(self._rules.cooldown_seconds, interval_seconds or 0.0))

    def _due_at(self, session: TrackedSession, policy: HeartbeatPolicy, now: Instant) -> Instant:
        """One interval after its last wake or activity, so that no wake interrupts a conversation."""
        interval_seconds = policy.min_interval_seconds or self._rules.default_interval_seconds
        last_at = latest((self.audits.last_prompt_at(session.subject.id), session.activity.last_at))
        due_at = last_at.plus(interval_seconds) if last_at is not None else now
        return max(due_at, self._cooling_until(session.subject.id, policy) or due_at)

    async def _refuse(
        self, target: Target, reading: PolicyReading, trigger: Trigger, rule: WakeRule
    ) -> WakeAnswer:
        text = reason_text(rule, reading)
        snapshot = reading.snapshot if reading.state is not PolicyState.MISSING else None
        audit = await self.audits.write(target.agent, target.session_id, trigger, rule.reason, text, snapshot)
        return answer_of(audit)

    async def _wake_reserved(
        self,
        target: Target,
        session: TrackedSession,
        snapshot: HeartbeatSnapshot,
        trigger: Trigger,
        caller: Caller,
        acts_before: int,
    ) -> WakeAnswer:
        try:
            if await caller() == session.subject.id:
                self._cycle.give_back()
                raise WakesItself(session=session.subject.id)
            answer = await self._attempt(target, session, snapshot, trigger, acts_before)
        finally:
            self._waking.discard(session.subject.id)
        if answer.reason is IneligibilityReason.SESSION_PROMPT_ACTIVE_RACE:
            self._cycle.give_back()
        return answer

    async def _attempt(
        self,
        target: Target,
        session: TrackedSession,
        snapshot: HeartbeatSnapshot,
        trigger: Trigger,
        acts_before: int,
    ) -> WakeAnswer:
        try:
            audit = await self._reserve(target.agent, session.subject.id, snapshot, trigger)
        except WorldError:
            self._cycle.give_back()
            raise
        if not isinstance(audit, Audit):
            self._cycle.give_back()
            return await self._refuse(target, PolicyReading(PolicyState.VALID, snapshot), trigger, audit)
        fault_point("wake.reserved")
        result = _AttemptResult()

        def race_reason() -> str | None:
            """Whether another turn began meanwhile. The gate calls it after it read the newest evidence."""
            verdict = judge(session.activity, session.presence, self._judging_policy, self._clock.now())
            if verdict.active_prompt or self._gate.completed_count(session.subject.id) != acts_before:
                result.was_raced = True
                return RACED
            return None

        try:
            context = await self._context.of(target, snapshot.policy.include)
            prompt = prompt_of(target.agent, trigger, snapshot, context)
            result.set_action(await self._deliver(trigger, session.subject.id, prompt, race_reason))
        except WakefulError as error:
            result.has_failed, result.text = True, str(error)
        fault_point("wake.delivered")
        return answer_of(await self._conclude(audit, result))

    async def _deliver(
        self, trigger: Trigger, session_id: SessionId, prompt: str, race_reason: Precondition
    ) -> ActionRecord:
        controller = self._controllers[trigger]
        try:
            return await controller.deliver(session_id, prompt, unless=race_reason)
        except LinesRefused:
            # The program reads line by line, so it gets the prompt as one line.
            return await controller.deliver(session_id, " ".join(prompt.split()), unless=race_reason)

    async def _reserve(
        self, agent: str, session_id: SessionId, snapshot: HeartbeatSnapshot, trigger: Trigger
    ) -> Audit | WakeRule:
        """Record the wake before it is sent; returns the refusing rule if another daemon on this store was first."""
        for _ in range(2):
            audit = await self.audits.reserve(agent, session_id, trigger, snapshot)
            if audit is not None:
                return audit
            await self.audits.reload()
            until = self._cooling_until(session_id, snapshot.policy)
            if until is not None and until > self._clock.now():
                return _refusal_rule(replace(_READY, cooling=True))
        return _refusal_rule(replace(_READY, waking=True))

    async def _conclude(self, audit: Audit, result: "_AttemptResult") -> Audit:
        rule = refusing_rule(replace(_READY, raced=result.was_raced, failed=result.has_failed))
        reason = rule.reason if rule is not None else None
        text = rule.text if rule is not None and result.was_raced else result.text
        concluded = await self.audits.conclude(audit, outcome_of(reason), reason, safe(text))
        fault_point("wake.concluded")
        return concluded

    def _status(self, target: Target, reading: PolicyReading) -> HeartbeatStatus:
        rule = refusing_rule(self._facts(target, reading))
        return HeartbeatStatus(
            schema=SCHEMA,
            agent=target.agent,
            session_id=target.session_id,
            eligible_for_wake=rule is None,
            ineligibility_reason=rule.reason if rule is not None else None,
            words=reason_text(rule, reading),
            policy_state=reading.state,
            policy_snapshot=policy_snapshot(reading.snapshot) if reading.snapshot is not None else None,
            policy_problem=reading.problem,
            wake_state=self._wake_state(target, reading),
            last_audit=self.audits.last(target.agent),
            audits=tuple(self.audits.of(target.agent)),
        )

    def _wake_state(self, target: Target, reading: PolicyReading) -> WakeState:
        session, now = target.session, self._clock.now()
        policy = reading.snapshot.policy if reading.snapshot is not None else None
        session_id = target.session_id
        given_at = self.audits.last_prompt_at(session_id) if session_id is not None else None
        cooling = self._cooling_until(session_id, policy) if session_id is not None else None
        quiet_until = next_wake = None
        if policy is not None and reading.state is PolicyState.VALID:
            quiet_until = self._quiet_until(policy, now.wall)
            next_wake = self._next_wake(session, policy, now) if session is not None else None
        return WakeState(
            waking=session_id in self._waking,
            last_wake_at=_iso(given_at),
            cooldown_until=_iso(cooling) if cooling is not None and cooling > now else None,
            quiet_until=iso(quiet_until) if quiet_until is not None else None,
            next_wake_at=iso(next_wake) if next_wake is not None else None,
            wakes_in_cycle=self._cycle.count,
            wakes_in_cycle_max=self._rules.wakes_per_cycle_max,
        )

    def _quiet_until(self, policy: HeartbeatPolicy, wall: float) -> float | None:
        """The end of the current quiet window; None outside one, or if it never ends."""
        return self._policies.next_change(policy, wall) if self._policies.is_quiet(policy, wall) else None

    def _next_wake(self, session: TrackedSession, policy: HeartbeatPolicy, now: Instant) -> float | None:
        """The time at which it is due, or the end of the quiet window in which it is due; None if that never ends."""
        due_at = self._due_at(session, policy, now)
        due_wall = max(due_at, now).wall
        return (
            self._quiet_until(policy, due_wall) if self._policies.is_quiet(policy, due_wall) else due_at.wall
        )


class _AttemptResult:
    def __init__(self) -> None:
        self.was_raced = False
        self.has_failed = False
        self.text = ""

    def set_action(self, record: ActionRecord) -> None:
        self.text = record.words
        self.has_failed = record.outcome is not ActionOutcome.CONFIRMED and not self.was_raced


def _refusal_rule(facts: WakeFacts) -> WakeRule:
    rule = refusing_rule(facts)
    assert rule is not None, "one of these facts refuses the wake"
    return rule


def _iso(instant: Instant | None) -> str | None:
    return iso(instant.wall) if instant is not None else None
