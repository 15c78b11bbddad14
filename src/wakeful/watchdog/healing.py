"""Heals one queued session with a problem: re-checks it, files an issue, then resumes, holds or gives it up.

Every step is recorded, and a failed one is named in the details of the event. The watchdog that has the claim
on the task acts; the fence in the queue itself makes a second action impossible, with or without the claim.
"""

import logging
from contextlib import AbstractAsyncContextManager
from typing import Any, Final
from uuid import uuid4

from msgspec.structs import replace

from wakeful.core.errors import OperatorError, WorldError
from wakeful.core.fault_points import fault_point
from wakeful.core.text import plain
from wakeful.healing.plan import HealerObserves
from wakeful.incidents.critical_event import ActionTaken, CriticalEventKind, stamp
from wakeful.incidents.issue_tracker import FilingResult, IssueReport
from wakeful.incidents.model import MemberStatus
from wakeful.judging.user_effect_rules import apply_lessons
from wakeful.judging.wording import quote
from wakeful.watchdog.callbacks import CALL_SECONDS_MAX, CallbackOutcome, ChatSendResult, action_of
from wakeful.watchdog.judging import JudgedAttempt
from wakeful.watchdog.notifications import (
    CHECKPOINT_COMMAND,
    EVENTS_COMMAND,
    OTHERWISE_STOPPED,
    QueueSessionAlert,
    session_alert_body,
)
from wakeful.watchdog.parts import HealingControls, WatchdogParts
from wakeful.watchdog.queue import (
    FenceResult,
    QueueAttempt,
    QueueRevival,
    QueueRevivalStage,
    QueueSessionFiles,
    Work,
    claimed,
)
from wakeful.watchdog.rules import (
    FAILURE_MESSAGE,
    QueueAction,
    QueueDecision,
    choose,
    last_calls,
    revival_context,
)

# Issue, stop, enqueue, message, event and alert, each within its deadline, the wait for the limiter, and some room.
CLAIM_SECONDS: Final = 8 * CALL_SECONDS_MAX
# These mark the running attempt failed.
FENCING_ACTIONS: Final = frozenset({QueueAction.REVIVE, QueueAction.GIVE_UP})
# Before that it is checked again, if the first check is older than this.
CONFIRMED_SECONDS_MAX: Final = 1.0

# The result if no person acts.
OTHERWISE_RETRIED: Final = "Wakeful retries its message once; after a second failure it gives up"
OTHERWISE_WAITS: Final = "it waits for your decision"
OTHERWISE_UNCHANGED: Final = "it stays as it is"
NOT_ASKED_SUFFIX: Final = " (no person was asked)"

log = logging.getLogger("wakeful.watchdog")


class FolderGone(OperatorError):
    """{shown} was not resumed: its working directory {folder} no longer exists. Restore it, then try again."""

    code = "folder-gone"
    exit_code = 1
    http_status = 409


class QueueHealer:
    """Acts on sessions with problems, each under a claim."""

    def __init__(self, parts: WatchdogParts, files: QueueSessionFiles, controls: HealingControls) -> None:
        self._jobs = parts.jobs
        self._judge = parts.judge
        self._clock = parts.clock
        self._callback_runner = parts.calls
        self._chat_sender = parts.chats
        self._recorder = parts.recorder
        self._callbacks = parts.callbacks
        self._notifier = parts.notifier
        self._session_files = files
        self._rules = controls.rules
        self._limiter = controls.limiter
        self._lessons_of = controls.lessons_of

    async def heal(
        self, attempt: QueueAttempt, *, approved: bool = False, happened: bool = False, together: int = 1
    ) -> QueueDecision | None:
        """The decision that was carried out; None if the session is healthy by now or another watchdog has it.

        `approved`, `happened`: a person approved it, and knows that the interrupted call has happened. `together`: how
        many of its project have a problem. Raises JobsUnreachable, and FolderGone and HealerObserves if approved.
        """
        async with self._claim(attempt) as has_claim:
            case = await self._recheck(attempt, approved=approved) if has_claim else None
            if case is None:
                return None
            choice = await self._choose(case, approved=approved)
            filing = await self._prepare(case, choice) if choice.action in FENCING_ACTIONS else None
            if filing is not None and self._clock.now().seconds_since(case.now) > CONFIRMED_SECONDS_MAX:
                # Time has passed: it may have recovered, and a pause may have begun.
                case = await self._recheck(attempt, approved=approved)
                if case is None:
                    return None
                choice = await self._choose(case, approved=approved)
            if filing is None or choice.action not in FENCING_ACTIONS:
                await self._report_once(case, choice, filing, together)
            elif choice.action is QueueAction.REVIVE:
                await self._revive(case, filing, together, happened=happened)
            else:
                await self._give_up(case, "it failed again after it was resumed", filing, together)
            return choice

    def _claim(self, attempt: QueueAttempt) -> AbstractAsyncContextManager[bool]:
        return claimed(self._jobs, attempt.work, CLAIM_SECONDS)

    async def _prepare(self, case: JudgedAttempt, choice: QueueDecision) -> FilingResult:
        """The steps that may take time: the wait for the limiter, and the issue."""
        if choice.action is QueueAction.REVIVE:
            await self._limiter.acquire()
        filing = await self._file(case)
        fault_point("queue.filed")
        return filing

    async def give_up(self, attempt: QueueAttempt, by: str) -> ChatSendResult | None:
        """End an attempt for a person; returns what became of its message. None: it is gone, or another watchdog has it."""
        async with self._claim(attempt) as has_claim:
            case = await self._recheck(attempt, approved=True) if has_claim else None
            if case is None:
                return None
            return await self._give_up(case, f"aborted by {by}", await self._file(case))

    async def close_checkpoint(self, session_id: str) -> None:
        await self._callback_runner.call("the end of its checkpoint", self._callbacks.gone_on, session_id)

    async def on_recovered(self, case: JudgedAttempt) -> None:
        """A reported session recovered by itself."""
        session = case.watched.session
        await self.close_checkpoint(session.session_id)
        if await self._jobs.end_episode(_episode_name(case.watched)):
            details = {**_details(case), "outcome": "recovered: it continued by itself"}
            await self._recorder.record_event(
                CriticalEventKind.SESSION_RECOVERED,
                session.session_id,
                session.project_key,
                "recovered",
                ActionTaken.NONE,
                None,
                details,
                owed=True,
            )

    async def _recheck(self, attempt: QueueAttempt, *, approved: bool) -> JudgedAttempt | None:
        """Read and judge it again; None if there is nothing to act on any more."""
        current = await self._jobs.reread(attempt)
        if current is None or current.job is None:
            return None
        (case,) = await self._judge.judge([current])
        if not isinstance(case, JudgedAttempt) or (case.is_healthy and not approved):
            return None
        return case

    async def _choose(self, case: JudgedAttempt, *, approved: bool) -> QueueDecision:
        job = case.watched.job
        folder = job.working_dir if job is not None else None
        gone = False
        if folder is not None:
            is_gone = self._session_files.is_folder_gone
            gone = (await self._callback_runner.call("a look at its folder", is_gone, folder)).value is True
        if approved and gone:
            raise FolderGone(shown=case.watched.session.session_id, folder=folder)
        spent = await self._jobs.is_budget_spent(case.watched.work)
        if approved and self._rules().mode == "observe":
            raise HealerObserves
        if approved and not spent:
            return QueueDecision(QueueAction.REVIVE, "a person approved it")
        return choose(
            case.verdict,
            case.log.activity,
            apply_lessons(case.interrupted_calls, self._lessons_of(case.watched.session.project_key)),
            spent=spent,
            folder_gone=gone,
            breaker_seconds=self._limiter.breaker_seconds,
            rules=self._rules(),
            now=case.now,
        )

    async def _revive(
        self, case: JudgedAttempt, filing: FilingResult, together: int, *, happened: bool
    ) -> None:
        attempt = case.watched
        revival = self._revival(case, filing, happened=happened)
        text = await self._jobs.message_text(attempt)
        fenced = await self._jobs.revive(attempt, revival)
        if fenced is not FenceResult.DONE:
            log.info("watchdog: %s was not resumed: %s", attempt.session.session_id, fenced)
            return
        fault_point("queue.fenced")
        await self._jobs.end_episode(_episode_name(attempt))
        await self.close_checkpoint(attempt.session.session_id)
        ended, stopped = await self._stop(attempt)
        failed, words, revival = await self._enqueue(revival, _work_of(attempt, revival, text), stopped=ended)
        fault_point("queue.enqueued")
        if failed:
            await self._on_enqueue_failed(case, revival, filing, f"ineffective: {words}{stopped}")
            return
        outcome = f"unverified: {words}{stopped}; not yet seen running"
        action = ActionTaken.REVIVAL_ATTEMPTED
        is_written = await self._write_events(
            case, CriticalEventKind.SESSION_UNHEALTHY, action, filing, outcome
        )
        fault_point("queue.written")
        if is_written:
            await self._jobs.advance(revival, replace(revival, unwritten=False))
        self._limiter.record_result(gave_up=False)
        await self._notify_operator(
            case, MemberStatus.REVIVED, f"resumed it: {words}{stopped}", OTHERWISE_RETRIED, filing, together
        )

    def _revival(self, case: JudgedAttempt, filing: FilingResult, *, happened: bool) -> QueueRevival:
        attempt, job = case.watched, case.watched.job
        assert job is not None, "only a running attempt can be resumed"
        own_queue = self._callbacks.enqueue_job is None
        at_once = own_queue and self._callbacks.stop_session is None
        return QueueRevival(
            work=attempt.work,
            session_id=attempt.session.session_id,
            project_key=attempt.session.project_key,
            chat_id=attempt.chat_id,
            reason=case.reasons or "approved",
            began_at=self._clock.now().wall,
            stage=QueueRevivalStage.ENQUEUED
            if at_once
            else QueueRevivalStage.FENCED
            if own_queue
            else QueueRevivalStage.ASKED,
            job_id=uuid4().hex if own_queue else None,
            context=revival_context(
                case.verdict, case.log, case.interrupted_calls, filing.url, case.now, happened=happened
            ),
            failed_key=f"{job.key.rpartition(':')[0]}:failed",
            session_key=attempt.session.key,
            issue_url=filing.url,
            unwritten=True,
        )

    async def _stop(self, attempt: QueueAttempt) -> tuple[bool, str]:
        """Whether the old owner was stopped, and any error. It is fenced already, so the revival goes on either way."""
        if self._callbacks.stop_session is None:
            return False, ""
        session_id = attempt.session.session_id
        answer = await self._callback_runner.call("stop_session", self._callbacks.stop_session, session_id)
        return (True, "") if answer.outcome is CallbackOutcome.DONE else (False, f"; {answer.words}")

    async def _enqueue(
        self, revival: QueueRevival, work: Work, *, stopped: bool
    ) -> tuple[bool, str, QueueRevival]:
        """Whether it certainly failed, the action in words, and the revival as it is now."""
        if revival.stage is QueueRevivalStage.ENQUEUED:
            return False, "the message was enqueued again", revival
        enqueued = replace(revival, stage=QueueRevivalStage.ENQUEUED, stopped=stopped)
        if revival.stage is QueueRevivalStage.FENCED:
            await self._jobs.enqueue(revival, enqueued)
            return False, "the message was enqueued again", enqueued
        answer = await self._callback_runner.call("enqueue_job", self._callbacks.enqueue_job, work)
        if answer.outcome is CallbackOutcome.DONE and await self._jobs.advance(revival, enqueued):
            revival = enqueued
        return answer.outcome is CallbackOutcome.RAISED, answer.words, revival

    async def _on_enqueue_failed(
        self, case: JudgedAttempt, revival: QueueRevival, filing: FilingResult, outcome: str
    ) -> None:
        sent = await self._chat_sender.send_once(f"failure:{revival.work}", revival.chat_id, FAILURE_MESSAGE)
        words = f"{outcome}; the chat: {sent}"
        if await self._write_events(case, CriticalEventKind.REVIVAL_FAILED, action_of(sent), filing, words):
            await self._jobs.close_revival(revival.work)
        did = f"tried to resume it: {words}"
        await self._notify_operator(case, MemberStatus.GIVEN_UP, did, OTHERWISE_STOPPED, filing)

    async def _give_up(
        self, case: JudgedAttempt, because: str, filing: FilingResult, together: int = 1
    ) -> ChatSendResult | None:
        attempt = case.watched
        if await self._jobs.fence(attempt) is not FenceResult.DONE:
            return None
        fault_point("queue.given_up")
        await self._jobs.end_episode(_episode_name(attempt))
        await self.close_checkpoint(attempt.session.session_id)
        _, stopped = await self._stop(attempt)
        sent = await self._chat_sender.send_once(f"failure:{attempt.work}", attempt.chat_id, FAILURE_MESSAGE)
        fault_point("queue.told")
        outcome = f"gave up: {because}; the chat: {sent}{stopped}"
        # Open until it is written: else the next watchdog writes it.
        if await self._write_events(case, CriticalEventKind.REVIVAL_FAILED, action_of(sent), filing, outcome):
            await self._jobs.close_revival(attempt.work)
        self._limiter.record_result(gave_up=True)
        await self._notify_operator(case, MemberStatus.GIVEN_UP, outcome, OTHERWISE_STOPPED, filing, together)
        return sent

    async def _report_once(
        self, case: JudgedAttempt, choice: QueueDecision, filing: FilingResult | None, together: int
    ) -> None:
        """Report it once for as long as the state lasts."""
        if choice.action is QueueAction.NOTHING:
            log.info("watchdog: %s: %s", case.watched.session.session_id, choice.reason)
            return
        name, words = _episode_name(case.watched), f"{choice.action}: {choice.reason}"
        known = (await self._jobs.episodes()).get(name)
        held = choice.action is QueueAction.HOLD
        # Stored, so that a watchdog with checkpoints asks a person, and one without does nothing more.
        unasked = NOT_ASKED_SUFFIX if held and self._callbacks.hold is None else ""
        if known in {words, f"{words}{unasked}"}:
            return
        checkpoint = await self._callback_runner.call(
            "checkpoint", self._callbacks.hold if held else None, case, choice
        )
        if checkpoint.outcome in {CallbackOutcome.RAISED, CallbackOutcome.LATE}:
            # Tried again in the next cycle, and reported again once a person can decide.
            words = f"{words} ({checkpoint.words})"
            if known == words:
                return
        filing = filing or await self._file(case)
        outcome = words
        if held:
            message = f"held:{case.watched.work}"
            sent = await self._chat_sender.send_once(message, case.watched.chat_id, choice.chat_text)
            outcome = f"{words}; the chat: {sent}"
        action = ActionTaken.HELD_FOR_APPROVAL if held else ActionTaken.NONE
        await self._write_events(
            case, CriticalEventKind.SESSION_UNHEALTHY, action, filing, outcome, owed=True
        )
        calls = "; ".join(f"{each.tool} {quote(each.verdict.words)}" for each in case.interrupted_calls)
        did = f"no action: {choice.reason}{f': {calls}' if held and calls else ''}"
        status, otherwise = (
            (MemberStatus.HELD, OTHERWISE_WAITS) if held else (MemberStatus.LEFT_ALONE, OTHERWISE_UNCHANGED)
        )
        await self._notify_operator(
            case, status, did, otherwise, filing, together, checkpoint=checkpoint.value
        )
        # Last: after a kill in between, the next cycle reports it.
        await self._jobs.set_episode(name, f"{words}{unasked}")

    async def _notify_operator(
        self,
        case: JudgedAttempt,
        status: MemberStatus,
        did: str,
        otherwise: str,
        filing: FilingResult,
        together: int = 1,
        *,
        checkpoint: int | None = None,
    ) -> None:
        """Alert the operator; a failure there stops nothing."""
        session_id = case.watched.session.session_id
        command = EVENTS_COMMAND
        if status is MemberStatus.HELD:
            by_hand = f"wakeful session revive {session_id} --yes"
            command = by_hand if checkpoint is None else f"{CHECKPOINT_COMMAND} {checkpoint}"
        body = session_alert_body(
            case, did, otherwise, place=self._jobs.address, command=command, together=together
        )
        project_key = case.watched.session.project_key
        codes = tuple(str(finding.code) for finding in case.verdict.findings)
        try:
            await self._notifier.notify_session(
                QueueSessionAlert(session_id, project_key, status, body, together, codes, filing.url)
            )
        except WorldError as problem:
            log.warning("watchdog: alert about %s not sent: %s", session_id, problem)

    async def _file(self, case: JudgedAttempt) -> FilingResult:
        session = case.watched.session
        began_at = case.watched.began_at
        findings = case.verdict.findings
        return await self._recorder.file(
            IssueReport(
                project=session.project_key,
                session_id=session.session_id,
                reason=case.reason(findings[0]) if findings else "approved",
                summary="; ".join(finding.summary for finding in findings),
                duration_seconds=max(0.0, case.now.wall - began_at) if began_at is not None else 0.0,
                calls=last_calls(case.log),
            )
        )

    async def _write_events(
        self,
        case: JudgedAttempt,
        kind: CriticalEventKind,
        action: ActionTaken,
        filing: FilingResult,
        outcome: str,
        *,
        owed: bool = False,
    ) -> bool:
        """One line for each finding. False: the log did not take them all, and they are not pending either."""
        session = case.watched.session
        details = {**_details(case), "outcome": outcome}
        if filing.url is None:
            details["issue"] = filing.words
        reasons = [case.reason(finding) for finding in case.verdict.findings] or ["approved"]
        log.warning("watchdog: %s: %s: %s", session.session_id, case.reasons, plain(outcome, 300))
        about = session.session_id, session.project_key
        return all(
            [
                await self._recorder.record_event(
                    kind, *about, reason, action, filing.url, details, owed=owed
                )
                for reason in reasons
            ]
        )


def _work_of(attempt: QueueAttempt, revival: QueueRevival, text: str) -> Work:
    job = attempt.job
    return Work(
        project_key=revival.project_key,
        session_id=revival.session_id,
        chat_id=revival.chat_id,
        message_id=job.message_id if job is not None else None,
        message_text=text,
        working_dir=job.working_dir if job is not None else None,
        revival_context=revival.context,
        issue_url=revival.issue_url,
    )


def _episode_name(attempt: QueueAttempt) -> str:
    return f"session:{attempt.session.session_id}"


def _details(case: JudgedAttempt) -> dict[str, Any]:
    """`last_tool_call` and `tool_count` first."""
    activity = case.log.activity
    return {
        "last_tool_call": stamp(activity.call_at.wall) if activity.call_at is not None else None,
        "tool_count": activity.calls_total,
    }
