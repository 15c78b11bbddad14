"""Ends task attempts whose lease expired, and queues a task once more where that is safe.

Expiry is driven by deadlines, not by polling every second. After a start of the daemon, a sleep of the host
or a change of its clock, workers get one more lease time, because their heartbeats could not arrive.

A task is queued again only if its session shows that no call with effects elsewhere was interrupted;
otherwise a person decides. There is one resume per task, kept across restarts. It is a task whose id derives
from the first one, so it exists once, however often it is tried. A task with a budget of several attempts
gets none.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from math import inf
from typing import Final

from msgspec.structs import replace

from wakeful.alerts.model import AlertBody, AlertCode, Topic
from wakeful.alerts.notifier import Notifier
from wakeful.core.clock import JUMP_SECONDS_MIN, Clock, iso
from wakeful.core.errors import WorldError
from wakeful.core.ids import SessionId
from wakeful.core.leases import LEASE_SECONDS, AttemptState, Run, WorkId, WorkItem, WorkState
from wakeful.core.process import ProcessState
from wakeful.core.waiting import wait_for_event_or_deadline
from wakeful.effects.rules import Effect
from wakeful.healing.plan import (
    ACTING_STEPS,
    CaseHistory,
    HealingDecision,
    HealingRules,
    HealingStep,
    Situation,
    plan,
)
from wakeful.healing.rate_limit import RevivalLimiter
from wakeful.incidents.critical_event import ActionTaken, CriticalEvent, CriticalEventKind, critical_event
from wakeful.judging.findings import FindingCode, State
from wakeful.judging.wording import quote
from wakeful.storage.base import Note, Store

# Other processes claim on the same file without notice; their leases are noticed within this time.
CHECK_SECONDS_MAX: Final = LEASE_SECONDS
# The shortest time between two checks: many owners that send heartbeats in turn move the next end all the time.
CHECK_SECONDS_MIN: Final = 1.0
GRACE_SECONDS: Final = LEASE_SECONDS

log = logging.getLogger("wakeful.expiry")


class RunExpiry:
    """One task that sleeps until the next lease could end. `expired` gets the expired runs."""

    def __init__(
        self, store: Store, clock: Clock, expired: Callable[[Sequence[Run]], None] = lambda _runs: None
    ) -> None:
        self._store = store
        self._clock = clock
        self._on_expired = expired
        self._wakeup = asyncio.Event()
        self._wall_minus_awake: float | None = None

    def recheck_soon(self) -> None:
        """A lease was claimed or released: the next end may be nearer."""
        self._wakeup.set()

    async def run(self) -> None:
        """Expire leases until cancelled. If the store refuses, try again later."""
        while True:
            if self._is_unsure():
                await self._clock.sleep(GRACE_SECONDS)
            try:
                seconds = await self._expire_if_due()
            except WorldError as error:
                log.warning("leases could not be checked: %s", error)
                seconds = CHECK_SECONDS_MAX
            await wait_for_event_or_deadline(self._clock, self._wakeup, self._clock.now().awake + seconds)
            self._wakeup.clear()

    def _is_unsure(self) -> bool:
        """Whether heartbeats may have been lost: the daemon just started, the host slept, or the clock was set."""
        now = self._clock.now()
        before, self._wall_minus_awake = self._wall_minus_awake, now.wall - now.awake
        return before is None or abs(self._wall_minus_awake - before) >= JUMP_SECONDS_MIN

    async def _expire_if_due(self) -> float:
        """Returns the seconds until the next check."""
        until = await self._store.next_expiry()
        if until is not None and until <= self._clock.now().wall:
            runs = await self._store.expire_runs()
            for run in runs:
                said = "attempt %d of %s expired: its owner sent no heartbeat; the task is %s"
                log.warning(said, run.attempt, run.work.id, run.work.state)
            if runs:
                self._on_expired(runs)
            until = await self._store.next_expiry()
        if until is None:
            return CHECK_SECONDS_MAX
        return min(max(until - self._clock.now().wall, CHECK_SECONDS_MIN), CHECK_SECONDS_MAX)


# The name of a second task ends with this; no requested name does.
REVIVAL_SUFFIX: Final = "-again"
REASON: Final = AlertCode.LEASE_ENDED
# A daemon that was killed between an expiry and its revival is back within this time, or a person has taken care of
# it.
MISSED_SECONDS: Final = 3600.0
# Keeps which tasks were reported as not revived, so that a restart does not repeat the alert; older ones are not
# checked again.
NOTIFIED_KIND: Final = "work_told"
NOTIFIED_SECONDS: Final = 86_400.0
WORKS_AT_ONCE: Final = 500
RETRY_SECONDS: Final = 5.0

revival_log = logging.getLogger("wakeful.work")

RemoteCallsOf = Callable[[SessionId], Sequence[str] | None]
"""The calls of a session that were cut off and may have had effects elsewhere, in words; None if it cannot be seen."""


class WorkRevival:
    """Handles expired attempts that used up the attempts of their task."""

    def __init__(
        self,
        *,
        store: Store,
        clock: Clock,
        cut_off: RemoteCallsOf,
        rules: Callable[[], HealingRules],
        limiter: RevivalLimiter,
        write: Callable[[CriticalEvent], Awaitable[None]],
        notifier: Notifier,
    ) -> None:
        self._store = store
        self._clock = clock
        self._remote_calls_of = cut_off
        self._rules = rules
        self._limiter = limiter
        self._write = write
        self._notifier = notifier
        self._waiting: asyncio.Queue[tuple[WorkItem, str]] = asyncio.Queue()

    def on_expired(self, runs: Sequence[Run]) -> None:
        for run in runs:
            if run.work.state is WorkState.FAILED:
                self._waiting.put_nowait((run.work, run.owner))

    async def run(self) -> None:
        """Handle expired tasks one after the other, until cancelled; those that an earlier daemon left come first."""
        # Recently failed tasks that were not handled: their attempt expired and there is no second task.
        oldest = iso(self._clock.now().wall - NOTIFIED_SECONDS).encode()
        for note in await self._store.notes(NOTIFIED_KIND):
            if note.body < oldest:
                await self._store.drop_note(NOTIFIED_KIND, note.key)
        after = 0
        while found := await self._store.works(WorkState.FAILED, after=after, limit=WORKS_AT_ONCE):
            after = found[-1].seq
            for work in found:
                owner = await self._missed_owner(work)
                if owner is not None:
                    whole = await self._store.work(work.id)
                    self._waiting.put_nowait((whole or work, owner))
        async with asyncio.TaskGroup() as group:
            while True:
                work, owner = await self._waiting.get()
                try:
                    again_seconds = await self._handle_expired(work, owner)
                except WorldError as error:
                    revival_log.warning("%s could not be seen to: %s", work.id, error)
                    await self._clock.sleep(RETRY_SECONDS)
                    again_seconds = 0.0
                if again_seconds is not None:
                    group.create_task(self._put_off(work, owner, again_seconds))

    async def _put_off(self, work: WorkItem, owner: str, seconds: float) -> None:
        await self._clock.sleep(seconds)
        self._waiting.put_nowait((work, owner))

    async def _missed_owner(self, work: WorkItem) -> str | None:
        """The owner of an attempt that expired lately, if its task can be revived and was not."""
        if not _is_revivable(work) or await self._store.work(_revival_id(work)) is not None:
            return None
        last = (await self._store.attempts(work.id))[-1:]
        since = self._clock.now().wall - MISSED_SECONDS
        lately = [each for each in last if each.ended_at is not None and each.ended_at >= since]
        return next((each.owner for each in lately if each.state is AttemptState.EXPIRED), None)

    async def _handle_expired(self, work: WorkItem, owner: str) -> float | None:
        """Act as the plan says, or report why not. Returns the seconds after which to ask again, if any."""
        words = f"its worker {quote(owner)} stopped sending heartbeats"
        calls = self._remote_calls_of(work.session_id) if work.session_id is not None else None
        decision = self._decide(work, calls)
        if decision.step in ACTING_STEPS and _is_revivable(work):
            await self._limiter.acquire()
            # It waited for the limiter: a pause may have begun.
            decision = self._decide(work, calls)
        if decision.again_seconds is not None:
            return decision.again_seconds
        action, did = _action_text(work, calls, decision)
        if action is ActionTaken.REVIVAL_ATTEMPTED:
            is_first = await self._store.enqueue(self._revival(work, words))
        else:
            stamp = iso(self._clock.now().wall).encode()
            is_first = await self._store.save_new_note(Note(NOTIFIED_KIND, work.id, stamp))
        if is_first and (action is ActionTaken.REVIVAL_ATTEMPTED or decision.step is HealingStep.GIVE_UP):
            self._limiter.record_result(gave_up=decision.step is HealingStep.GIVE_UP)
        if is_first:
            await self._notify(work, words, action, did)
        return None

    def _decide(self, work: WorkItem, calls: Sequence[str] | None) -> HealingDecision:
        failed_again = work.id.endswith(REVIVAL_SUFFIX)
        cut_off = Effect.UNKNOWN if calls is None else Effect.REMOTE if calls else None
        situation = Situation(
            code=FindingCode.SESSION_DEAD,
            state=State.STOPPED,
            agent=ProcessState.DEAD,
            managed=True,
            for_seconds=inf,
            # Given up, whatever it did: nothing more is tried.
            effect=None if failed_again else cut_off,
            breaker_seconds=self._limiter.breaker_seconds if _is_revivable(work) else 0.0,
        )
        return plan(situation, CaseHistory(revivals=int(failed_again)), self._rules())

    def _revival(self, work: WorkItem, words: str) -> WorkItem:
        now = self._clock.now().wall
        told = (
            f"Wakeful: an earlier attempt at this ({work.id}) ended at {iso(now)}: {words}. "
            "Look at what is done already, then go on."
        )
        context = f"{work.context}\n{told}" if work.context else told
        return replace(
            work,
            id=_revival_id(work),
            context=context,
            created_at=now,
            state=WorkState.PENDING,
            attempts=0,
            not_before=0.0,
            seq=0,
        )

    async def _notify(self, work: WorkItem, words: str, action: ActionTaken, did: str) -> None:
        now = self._clock.now().wall
        about = work.session_id or SessionId(work.id)
        failed_again = work.id.endswith(REVIVAL_SUFFIX)
        kind = CriticalEventKind.REVIVAL_FAILED if failed_again else CriticalEventKind.SESSION_UNHEALTHY
        details = {"work": work.id, "did": did}
        event = critical_event(kind, about, work.project, REASON, action, None, details, at_wall=now)
        await self._write(event)
        body = lease_alert(work, words, action, did, now)
        topic = Topic((AlertCode.LEASE_ENDED,), work.project, work.session_id)
        await self._notifier.raise_alert(f"work/{work.id}", body, topic)


def lease_alert(work: WorkItem, words: str, action: ActionTaken, did: str, now: float) -> AlertBody:
    revived = action is ActionTaken.REVIVAL_ATTEMPTED
    return AlertBody(
        what=f"{work.project or 'work'}: {words} ({REASON})",
        where=f"work {work.id}{f', session {work.session_id}' if work.session_id else ''}",
        since=now,
        did=did,
        otherwise="after a second failure Wakeful gives up" if revived else "it stays failed",
        command=f"wakeful work show {_revival_id(work) if revived else work.id}",
    )


def _action_text(
    work: WorkItem, calls: Sequence[str] | None, decision: HealingDecision
) -> tuple[ActionTaken, str]:
    """The action on a task, and its text."""
    cut_off = f"an interrupted call may have had effects elsewhere: {'; '.join(calls)}" if calls else ""
    if decision.step is HealingStep.HOLD:
        unseen = "its session and its actions are unknown"
        return ActionTaken.HELD_FOR_APPROVAL, f"no action: {cut_off or unseen}"
    if decision.step is HealingStep.GIVE_UP:
        return ActionTaken.NONE, f"gave up: {decision.reason}"
    if decision.step not in ACTING_STEPS:
        return ActionTaken.NONE, f"no action: {'; '.join(filter(None, (decision.reason, cut_off)))}"
    if not _is_revivable(work):
        return ActionTaken.NONE, f"no action: its {work.attempts_max} attempts are used up"
    return ActionTaken.REVIVAL_ATTEMPTED, f"queued it again as {_revival_id(work)}"


def _is_revivable(work: WorkItem) -> bool:
    return work.attempts_max == 1 and not work.id.endswith(REVIVAL_SUFFIX)


def _revival_id(work: WorkItem) -> WorkId:
    return WorkId(f"{work.id}{REVIVAL_SUFFIX}")
