"""Heals one queued session with a problem: re-checks it, files an issue, then resumes, holds or gives it up.

Every step is recorded, and a failed one is named in the details of the event. The watchdog that has the claim
on the task acts; the fence in the queue itself makes a second action impossible, with or without the claim.
"""

import logging
from collections.abc import Callable, Sequence
from typing import Any, Final
from uuid import uuid4

from msgspec.structs import replace

from wakeful.core.clock import Clock
from wakeful.core.errors import OperatorError, WorldError
from wakeful.core.fault_points import reach
from wakeful.core.text import plain
from wakeful.healing.plan import Rules
from wakeful.healing.rate_limit import Pace
from wakeful.incidents.critical_event import ActionTaken, Happening, stamp
from wakeful.incidents.issue_tracker import Filing, Report
from wakeful.incidents.model import Fate
from wakeful.judging.user_effect_rules import Lesson, apply_lessons
from wakeful.judging.wording import quoted
from wakeful.watchdog.callbacks import CALL_SECONDS_MAX, Callbacks, Calls, Chats, Ending, Ledger, action_of
from wakeful.watchdog.judging import Case, Cases
from wakeful.watchdog.notifications import CHECKPOINT, EVENTS, STOPPED, Operator, QueueNews, news_of
from wakeful.watchdog.queue import Fenced, Ground, Jobs, Revival, Stage, Watched, Work
from wakeful.watchdog.rules import FAILURE_MESSAGE, Choice, Course, choose, last_calls, revival_context

# Issue, stop, enqueue, message, event and alert, each within its deadline, a turn among those revived, and some room.
CLAIM_SECONDS: Final = 8 * CALL_SECONDS_MAX
# What marks the running attempt failed: looked at again right before, if the first look was longer ago than this.
FENCING: Final = frozenset({Course.REVIVE, Course.GIVE_UP})
CONFIRMED_SECONDS_MAX: Final = 1.0

# What happens if nobody does anything.
GOES_ON: Final = "its message is tried once more; a second failure is given up"
WAITS: Final = "it waits until somebody decides"
STAYS: Final = "it stays as it is"
UNASKED: Final = " (nobody was asked)"

log = logging.getLogger("wakeful.watchdog")


class FolderGone(OperatorError):
    """{shown} was not revived: its working directory {folder} is gone. Bring that back, then try again."""

    code = "folder-gone"
    exit_code = 1
    http_status = 409


class Healing:
    """Acts on sessions in trouble, one claim at a time each."""

    def __init__(
        self,
        *,
        jobs: Jobs,
        cases: Cases,
        ground: Ground,
        clock: Clock,
        calls: Calls,
        chats: Chats,
        ledger: Ledger,
        callbacks: Callbacks,
        rules: Callable[[], Rules],
        operator: Operator,
        pace: Pace | None,
        taught: Callable[[str], Sequence[Lesson]],
    ) -> None:
        self._taught = taught
        self._jobs = jobs
        self._cases = cases
        self._ground = ground
        self._clock = clock
        self._calls = calls
        self._chats = chats
        self._ledger = ledger
        self._callbacks = callbacks
        self._rules = rules
        self._operator = operator
        self._pace = pace

    async def heal(
        self, watched: Watched, *, approved: bool = False, happened: bool = False, together: int = 1
    ) -> Choice | None:
        """What was done about it; None if it is well by now or another watchdog has it.

        `approved`: a person said so; `happened`: who looked, and what was cut off has happened. `together`: how many of
        its project are in trouble. Raises JobsUnreachable, and FolderGone if it was approved.
        """
        token = uuid4().hex
        if not await self._jobs.claim(watched.work, token, CLAIM_SECONDS):
            return None
        try:
            return await self._healed(watched, together, approved=approved, happened=happened)
        finally:
            await self._jobs.yield_(watched.work, token)

    async def _healed(
        self, watched: Watched, together: int, *, approved: bool, happened: bool
    ) -> Choice | None:
        case = await self._confirmed(watched, approved=approved)
        if case is None:
            return None
        choice = await self._choice(case, approved=approved)
        filing = await self._prepared(case, choice) if choice.course in FENCING else None
        if filing is not None and self._clock.now().seconds_since(case.now) > CONFIRMED_SECONDS_MAX:
            # The world went on meanwhile: it may be well, and somebody may have said pause.
            case = await self._confirmed(watched, approved=approved)
            if case is None:
                return None
            choice = await self._choice(case, approved=approved)
        if filing is None or choice.course not in FENCING:
            await self._tell(case, choice, filing, together)
        elif choice.course is Course.REVIVE:
            await self._revive(case, filing, together, happened=happened)
        else:
            await self._give_up(case, "it failed again after it was revived", filing, together)
        return choice

    async def _prepared(self, case: Case, choice: Choice) -> Filing:
        """Whatever may take its time: a turn among all that are brought back, and the issue."""
        if choice.course is Course.REVIVE and self._pace is not None:
            await self._pace.turn()
        filing = await self._file(case)
        reach("queue.filed")
        return filing

    async def give_up(self, watched: Watched, by: str) -> bool:
        """A person wants nothing more done about it. False: another watchdog has it, or it is gone."""
        token = uuid4().hex
        if not await self._jobs.claim(watched.work, token, CLAIM_SECONDS):
            return False
        try:
            case = await self._confirmed(watched, approved=True)
            return case is not None and await self._give_up(case, f"aborted by {by}", await self._file(case))
        finally:
            await self._jobs.yield_(watched.work, token)

    async def gone_on(self, session_id: str) -> None:
        """Nobody has to decide about it any more."""
        await self._calls.call("the end of its checkpoint", self._callbacks.gone_on, session_id)

    async def recovered(self, case: Case) -> None:
        """A session that was told of is well again by itself."""
        session = case.watched.session
        await self.gone_on(session.session_id)
        if await self._jobs.end(_episode(case.watched)):
            details = {**_details(case), "outcome": "recovered: it went on by itself"}
            await self._ledger.event(
                Happening.SESSION_RECOVERED,
                session.session_id,
                session.project_key,
                "recovered",
                ActionTaken.NONE,
                None,
                details,
                owed=True,
            )

    async def _confirmed(self, watched: Watched, *, approved: bool) -> Case | None:
        """The session as it is now that nobody else acts on it; None if there is nothing to act on any more."""
        now = await self._jobs.look_again(watched)
        if now is None or now.job is None:
            return None
        (case,) = await self._cases.judged([now])
        if not isinstance(case, Case) or (case.is_well and not approved):
            return None
        return case

    async def _choice(self, case: Case, *, approved: bool) -> Choice:
        job = case.watched.job
        folder = job.working_dir if job is not None else None
        gone = (
            folder is not None
            and (await self._calls.call("a look at its folder", self._ground.folder_is_gone, folder)).value
            is True
        )
        if approved and gone:
            raise FolderGone(shown=case.watched.session.session_id, folder=folder)
        spent = await self._jobs.is_spent(case.watched.work)
        if approved and not spent:
            return Choice(Course.REVIVE, "a person approved it")
        choice = choose(
            case.verdict,
            case.diary.activity,
            apply_lessons(case.interrupted, self._taught(case.watched.session.project_key)),
            spent=spent,
            folder_gone=gone,
            rules=self._rules(),
            now=case.now,
        )
        return self._braked(choice)

    def _braked(self, choice: Choice) -> Choice:
        """Nothing is revived while most of what was revived failed again."""
        if choice.course is not Course.REVIVE or self._pace is None or self._pace.braked_seconds <= 0:
            return choice
        return Choice(Course.NOTIFY, "too many revivals failed lately: none is tried for a while")

    async def _revive(self, case: Case, filing: Filing, together: int, *, happened: bool) -> None:
        watched = case.watched
        revival = self._revival(case, filing, happened=happened)
        text = await self._jobs.message_text(watched)
        fenced = await self._jobs.revive(watched, revival)
        if fenced is not Fenced.DONE:
            log.info("watchdog: %s was not revived: %s", watched.session.session_id, fenced)
            return
        reach("queue.fenced")
        await self._jobs.end(_episode(watched))
        await self.gone_on(watched.session.session_id)
        ended, stopped = await self._stop(watched)
        failed, words, revival = await self._enqueue(revival, _work(watched, revival, text), stopped=ended)
        reach("queue.enqueued")
        if failed:
            await self._failed(case, revival, filing, f"ineffective: {words}{stopped}")
            return
        outcome = f"unverified: {words}{stopped}; not yet seen running"
        action = ActionTaken.REVIVAL_ATTEMPTED
        is_written = await self._write(case, Happening.SESSION_UNHEALTHY, action, filing, outcome)
        reach("queue.written")
        if is_written:
            await self._jobs.advance(revival, replace(revival, unwritten=False))
        if self._pace is not None:
            self._pace.ended(gave_up=False)
        await self._say(case, Fate.REVIVED, f"revived it: {words}{stopped}", GOES_ON, filing, together)

    def _revival(self, case: Case, filing: Filing, *, happened: bool) -> Revival:
        watched, job = case.watched, case.watched.job
        assert job is not None, "only an attempt that runs is revived"
        own_queue = self._callbacks.enqueue_job is None
        at_once = own_queue and self._callbacks.stop_session is None
        return Revival(
            work=watched.work,
            session_id=watched.session.session_id,
            project_key=watched.session.project_key,
            chat_id=watched.chat_id,
            reason=case.reasons or "approved",
            began_at=self._clock.now().wall,
            stage=Stage.ENQUEUED if at_once else Stage.FENCED if own_queue else Stage.ASKED,
            job_id=uuid4().hex if own_queue else None,
            context=revival_context(
                case.verdict, case.diary, case.interrupted, filing.url, case.now, happened=happened
            ),
            failed_key=f"{job.key.rpartition(':')[0]}:failed",
            session_key=watched.session.key,
            issue_url=filing.url,
            unwritten=True,
        )

    async def _stop(self, watched: Watched) -> tuple[bool, str]:
        """Whether the old owner was stopped, and what went wrong; it is fenced already, so that nothing waits for it."""
        if self._callbacks.stop_session is None:
            return False, ""
        session_id = watched.session.session_id
        answer = await self._calls.call("stop_session", self._callbacks.stop_session, session_id)
        return (True, "") if answer.ending is Ending.DONE else (False, f"; {answer.words}")

    async def _enqueue(self, revival: Revival, work: Work, *, stopped: bool) -> tuple[bool, str, Revival]:
        """Whether it surely failed, what was done, in words, and how far it has come."""
        if revival.stage is Stage.ENQUEUED:
            return False, "the message was enqueued again", revival
        enqueued = replace(revival, stage=Stage.ENQUEUED, stopped=stopped)
        if revival.stage is Stage.FENCED:
            await self._jobs.enqueue(revival, enqueued)
            return False, "the message was enqueued again", enqueued
        answer = await self._calls.call("enqueue_job", self._callbacks.enqueue_job, work)
        if answer.ending is Ending.DONE and await self._jobs.advance(revival, enqueued):
            revival = enqueued
        return answer.ending is Ending.RAISED, answer.words, revival

    async def _failed(self, case: Case, revival: Revival, filing: Filing, outcome: str) -> None:
        said = await self._chats.tell(f"failure:{revival.work}", revival.chat_id, FAILURE_MESSAGE)
        words = f"{outcome}; the chat: {said}"
        if await self._write(case, Happening.REVIVAL_FAILED, action_of(said), filing, words):
            await self._jobs.close_revival(revival.work)
        did = f"tried to revive it, {outcome}; the chat: {said}"
        await self._say(case, Fate.GIVEN_UP, did, STOPPED, filing)

    async def _give_up(self, case: Case, because: str, filing: Filing, together: int = 1) -> bool:
        watched = case.watched
        if await self._jobs.fence(watched) is not Fenced.DONE:
            return False
        reach("queue.given_up")
        await self._jobs.end(_episode(watched))
        await self.gone_on(watched.session.session_id)
        _, stopped = await self._stop(watched)
        said = await self._chats.tell(f"failure:{watched.work}", watched.chat_id, FAILURE_MESSAGE)
        reach("queue.told")
        outcome = f"gave up: {because}; the chat: {said}{stopped}"
        # Open until it is written, so that whoever comes after us says what we did not get to say.
        if await self._write(case, Happening.REVIVAL_FAILED, action_of(said), filing, outcome):
            await self._jobs.close_revival(watched.work)
        if self._pace is not None:
            self._pace.ended(gave_up=True)
        await self._say(case, Fate.GIVEN_UP, outcome, STOPPED, filing, together)
        return True

    async def _tell(self, case: Case, choice: Choice, filing: Filing | None, together: int) -> None:
        """Once for as long as it stays so."""
        if choice.course is Course.NOTHING:
            log.info("watchdog: %s: %s", case.watched.session.session_id, choice.reason)
            return
        name, words = _episode(case.watched), f"{choice.course}: {choice.reason}"
        known = (await self._jobs.episodes()).get(name)
        held = choice.course is Course.HOLD
        # Noted, so that a watchdog that can ask a person does so, and one that cannot leaves it at that.
        unasked = UNASKED if held and self._callbacks.hold is None else ""
        if known in {words, f"{words}{unasked}"}:
            return
        asked = await self._calls.call("checkpoint", self._callbacks.hold if held else None, case, choice)
        if asked.ending in {Ending.RAISED, Ending.LATE}:
            # Tried again in the next cycle, and told again once somebody can decide.
            words = f"{words} ({asked.words})"
            if known == words:
                return
        filing = filing or await self._file(case)
        outcome = words
        if held:
            told = f"held:{case.watched.work}"
            said = await self._chats.tell(told, case.watched.chat_id, choice.told)
            outcome = f"{words}; the chat: {said}"
        action = ActionTaken.HELD_FOR_APPROVAL if held else ActionTaken.NONE
        await self._write(case, Happening.SESSION_UNHEALTHY, action, filing, outcome, owed=True)
        calls = "; ".join(f"{each.tool} {quoted(each.verdict.words)}" for each in case.interrupted)
        did = f"{'held' if held else 'nothing'}: {choice.reason}{f': {calls}' if held and calls else ''}"
        fate, otherwise = (Fate.HELD, WAITS) if held else (Fate.LEFT_ALONE, STAYS)
        await self._say(case, fate, did, otherwise, filing, together, checkpoint=asked.value)
        # Last: a watchdog that is ended before it has told everybody leaves that to the next cycle.
        await self._jobs.mark(name, f"{words}{unasked}")

    async def _say(
        self,
        case: Case,
        fate: Fate,
        did: str,
        otherwise: str,
        filing: Filing,
        together: int = 1,
        *,
        checkpoint: int | None = None,
    ) -> None:
        """To the operator; what fails there stops nothing."""
        session_id = case.watched.session.session_id
        command = EVENTS
        if fate is Fate.HELD:
            by_hand = f"wakeful session revive {session_id} --yes"
            command = by_hand if checkpoint is None else f"{CHECKPOINT} {checkpoint}"
        news = news_of(case, did, otherwise, place=self._jobs.place, command=command, together=together)
        project_key = case.watched.session.project_key
        codes = tuple(str(finding.code) for finding in case.verdict.findings)
        try:
            await self._operator.told(
                QueueNews(session_id, project_key, fate, news, together, codes, filing.url)
            )
        except WorldError as problem:
            log.warning("watchdog: nobody could be told of %s: %s", session_id, problem)

    async def _file(self, case: Case) -> Filing:
        session = case.watched.session
        began_at = case.watched.began_at
        findings = case.verdict.findings
        return await self._ledger.file(
            Report(
                project=session.project_key,
                session_id=session.session_id,
                reason=case.reason(findings[0]) if findings else "approved",
                summary="; ".join(finding.summary for finding in findings),
                duration_seconds=max(0.0, case.now.wall - began_at) if began_at is not None else 0.0,
                calls=last_calls(case.diary),
            )
        )

    async def _write(
        self,
        case: Case,
        happening: Happening,
        action: ActionTaken,
        filing: Filing,
        outcome: str,
        *,
        owed: bool = False,
    ) -> bool:
        """One line for each finding. False: the log did not take them all, and they are not owed either."""
        session = case.watched.session
        details = {**_details(case), "outcome": outcome}
        if filing.url is None:
            details["issue"] = filing.words
        reasons = [case.reason(finding) for finding in case.verdict.findings] or ["approved"]
        log.warning("watchdog: %s: %s: %s", session.session_id, case.reasons, plain(outcome, 300))
        about = session.session_id, session.project_key
        return all(
            [
                await self._ledger.event(happening, *about, reason, action, filing.url, details, owed=owed)
                for reason in reasons
            ]
        )


def _work(watched: Watched, revival: Revival, text: str) -> Work:
    job = watched.job
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


def _episode(watched: Watched) -> str:
    return f"session:{watched.session.session_id}"


def _details(case: Case) -> dict[str, Any]:
    """`last_tool_call` and `tool_count` first."""
    activity = case.diary.activity
    return {
        "last_tool_call": stamp(activity.call_at.wall) if activity.call_at is not None else None,
        "tool_count": activity.calls_total,
    }
