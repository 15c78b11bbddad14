"""Detects sessions that need a person or have finished, and queues an alert after a delay.

A question that is answered within the delay causes no alert. This module delivers nothing and knows no
channel.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from hashlib import sha256
from typing import Final

from msgspec import Struct

from wakeful.alerts.model import (
    AlertKind,
    AlertRules,
    AttentionQuestion,
    digest_entry_of,
    finished_text,
    needs_you_text,
    question_of,
)
from wakeful.alerts.notifier import Notifier
from wakeful.alerts.pending import PendingAlert
from wakeful.core.clock import Clock, iso
from wakeful.core.ids import SessionId
from wakeful.judging.findings import Health, State
from wakeful.judging.session_record import SessionRecord

# While a person sees the question or has muted it, no alert is raised; checked again after this time.
RECHECK_SECONDS: Final = 60.0
# No session id has a slash.
PREFIX: Final = f"{AlertKind.NEEDS_YOU}/"

log = logging.getLogger("wakeful.attention")

IsVisible = Callable[[SessionId], Awaitable[bool]]
"""Whether a person sees this session's pane right now; False where that is unknown."""
IsSuppressed = Callable[[SessionRecord, AttentionQuestion | None], bool]
"""Whether a question (None: an end) causes no alert now: it is muted, or an incident covers it."""
IsTurnDone = Callable[[SessionId], bool]
"""Whether its last turn ended by itself: no person stopped it, cut it short or refused it."""


class OpenQuestion(Struct):
    """An open question in its newest wording, and the task that raises its alert. `episode` is set by that alert."""

    record: SessionRecord
    question: AttentionQuestion
    episode: str | None = None
    alert_task: asyncio.Task[None] | None = None


class AttentionMonitor:
    """`on_judged` gets every judgement. Call `restore` after the outbox was restored."""

    def __init__(
        self,
        notifier: Notifier,
        clock: Clock,
        rules: AlertRules,
        is_visible: IsVisible,
        is_suppressed: IsSuppressed,
        is_turn_done: IsTurnDone,
    ) -> None:
        self._notifier = notifier
        self._clock = clock
        self._rules = rules
        self._is_visible = is_visible
        self._is_suppressed = is_suppressed
        self._is_turn_done = is_turn_done
        self._open_questions: dict[SessionId, OpenQuestion] = {}
        # Alerts of an earlier daemon: not repeated for the same question, resolved for another.
        self._restored: dict[SessionId, PendingAlert] = {}
        self._started_at = clock.now()
        self._working: set[SessionId] = set()
        self._finish_tasks: dict[SessionId, asyncio.Task[None]] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    def restore(self) -> None:
        """Load the open alerts of an earlier daemon from the outbox."""
        for pending in self._notifier.open_alerts(PREFIX):
            self._restored[SessionId(pending.alert.episode.split("/")[1])] = pending
        if self._restored:
            self._spawn(self._resolve_unconfirmed())

    def on_judged(self, record: SessionRecord) -> None:
        """A session was judged: its question may be new, changed or answered, and its turn may have ended."""
        question = question_of(record)
        if question is not None:
            self._on_question(record, question)
        else:
            self._on_answer(record.id)
        if AlertKind.FINISHED in self._rules.kinds:
            self._track_turn(record)

    def set_rules(self, rules: AlertRules) -> None:
        """The configuration has changed."""
        self._rules = rules

    async def close(self) -> None:
        """Cancel waiting alerts."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _on_question(self, record: SessionRecord, question: AttentionQuestion) -> None:
        known = self._open_questions.get(record.id)
        if known is not None and is_same_question(known.question, question):
            known.record, known.question = record, question
            return
        if known is not None:
            self._spawn(self._cancel(known))
        opened = self._open_questions[record.id] = OpenQuestion(record, question)
        opened.alert_task = self._spawn(self._alert_question(opened))

    def _on_answer(self, session_id: SessionId) -> None:
        known = self._open_questions.pop(session_id, None)
        if known is not None:
            self._spawn(self._cancel(known))
        if self._restored and self._is_startup_over():
            recalled = self._restored.pop(session_id, None)
            if recalled is not None:
                self._spawn(self._resolve(recalled.alert.episode))

    def _is_startup_over(self) -> bool:
        """Before that, a missing question is no answer: the session's log may not be read to its end."""
        return self._clock.now().awake - self._started_at.awake >= self._rules.needs_you_seconds

    async def _resolve_unconfirmed(self) -> None:
        await self._clock.sleep(self._rules.needs_you_seconds)
        for session_id in [each for each in self._restored if each not in self._open_questions]:
            self._on_answer(session_id)

    async def _alert_question(self, opened: OpenQuestion) -> None:
        await self._clock.sleep(self._rules.needs_you_seconds)
        recalled = self._restored.pop(opened.record.id, None)
        if recalled is not None and self._was_alerted(recalled, opened.question):
            opened.episode = recalled.alert.episode
            return
        if recalled is not None:
            await self._resolve(recalled.alert.episode)
        while self._is_suppressed(opened.record, opened.question) or await self._is_visible(opened.record.id):
            await self._clock.sleep(RECHECK_SECONDS)
        text, question = needs_you_text(opened.record, opened.question), opened.question
        opened.episode = f"{PREFIX}{opened.record.id}/{question.since}/{_digest(question.words)}"
        entry = digest_entry_of(opened.record, question.code or "question")
        await self._notifier.raise_alert(opened.episode, text, None, kind=AlertKind.NEEDS_YOU, digest=entry)

    def _was_alerted(self, recalled: PendingAlert, question: AttentionQuestion) -> bool:
        """Whether an earlier daemon queued an alert for this question.

        A question with a time between that alert and this start is another one. A time after this start may be
        the time of the first check.
        """
        since, _, digest = recalled.alert.episode.split("/", 2)[2].partition("/")
        if question.since == since:
            return True
        asked_meanwhile = iso(recalled.owed_at) < question.since < iso(self._started_at.wall)
        return digest == _digest(question.words) and not asked_meanwhile

    async def _cancel(self, known: OpenQuestion) -> None:
        if known.alert_task is not None:
            known.alert_task.cancel()
            await asyncio.wait({known.alert_task})
        if known.episode is not None:
            await self._resolve(known.episode)

    async def _resolve(self, episode: str) -> None:
        # Without a text: the person who answered needs no message.
        await self._notifier.resolve(episode)

    def _track_turn(self, record: SessionRecord) -> None:
        if record.active_prompt or record.state is State.PROMPTING:
            self._working.add(record.id)
            waiting = self._finish_tasks.pop(record.id, None)
            if waiting is not None:
                waiting.cancel()
        elif record.id in self._working:
            self._working.discard(record.id)
            if record.health is Health.HEALTHY and record.state in {
                State.IDLE,
                State.DETACHED,
                State.STOPPED,
            }:
                self._finish_tasks[record.id] = self._spawn(self._alert_finished(record))

    async def _alert_finished(self, record: SessionRecord) -> None:
        # A session that continues at once, with a queued prompt or after a background task, had not finished.
        await self._clock.sleep(self._rules.needs_you_seconds)
        self._finish_tasks.pop(record.id, None)
        if self._is_turn_done(record.id) and not self._is_suppressed(record, None):
            episode = f"{AlertKind.FINISHED}/{record.id}/{record.updated_at}"
            text, digest = finished_text(record), digest_entry_of(record, "finished")
            await self._notifier.raise_alert(episode, text, None, kind=AlertKind.FINISHED, digest=digest)

    def _spawn(self, work: Awaitable[None]) -> asyncio.Task[None]:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._on_task_done)
        return task

    def _on_task_done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (problem := task.exception()) is not None:
            log.error("an alert was lost because of a bug in Wakeful", exc_info=problem)


def _digest(text: str) -> str:
    return sha256(text.encode()).hexdigest()[:12]


def is_same_question(known: AttentionQuestion, question: AttentionQuestion) -> bool:
    """A later reading may improve the wording or the time of a question; another question differs in both."""
    return known.since == question.since or known.words == question.words
