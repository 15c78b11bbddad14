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
    Alert,
    AlertKind,
    Question,
    Rules,
    finished,
    gist_of,
    needs_you,
    question_of,
)
from wakeful.alerts.outbox import AlertDesk
from wakeful.alerts.pending import Owed
from wakeful.core.clock import Clock, iso
from wakeful.core.ids import SessionId
from wakeful.judging.findings import Health, State
from wakeful.judging.session_record import SessionRecord

# As long as somebody looks at the question, or muted it, nobody is told; whether that still holds is asked this often.
LOOK_SECONDS: Final = 60.0
# No session id has a slash.
PREFIX: Final = f"{AlertKind.NEEDS_YOU}/"

log = logging.getLogger("wakeful.asking")

Visible = Callable[[SessionId], Awaitable[bool]]
"""Whether somebody sees this session's pane right now; False where nobody can tell."""
Excused = Callable[[SessionRecord, Question | None], bool]
"""Whether nobody is to be told of a question (None: of an end) now: it is muted, or an incident tells it for many."""
Done = Callable[[SessionId], bool]
"""Whether its last turn ended by itself: nobody stopped it, cut it short or said no to it."""


class Open(Struct):
    """A question that is open, in its newest words, and whoever waits to tell it. Told once it has an episode."""

    record: SessionRecord
    question: Question
    episode: str | None = None
    telling: asyncio.Task[None] | None = None


class Asking:
    """Told of every judgement by `seen`. Call `take_up` once the desk has."""

    def __init__(
        self,
        desk: AlertDesk,
        clock: Clock,
        rules: Rules,
        visible: Visible,
        excused: Excused = lambda _record, _question: False,
        done: Done = lambda _session_id: True,
    ) -> None:
        self._desk = desk
        self._clock = clock
        self._rules = rules
        self._visible = visible
        self._excused = excused
        self._done = done
        self._open: dict[SessionId, Open] = {}
        # From an earlier daemon: not told again while they are the same, over when they are not.
        self._recalled: dict[SessionId, Owed] = {}
        self._began = clock.now()
        self._at_work: set[SessionId] = set()
        self._finishing: dict[SessionId, asyncio.Task[None]] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    def take_up(self) -> None:
        """Recall what the desk knows to be open."""
        for owed in self._desk.open_episodes(PREFIX):
            self._recalled[SessionId(owed.alert.episode.split("/")[1])] = owed
        if self._recalled:
            self._start(self._look_around())

    def seen(self, record: SessionRecord) -> None:
        """A session was judged. Cheap for the many that ask for nothing."""
        question = question_of(record)
        if question is not None:
            self._asked(record, question)
        else:
            self._answered(record.id)
        if AlertKind.FINISHED in self._rules.kinds:
            self._watch_work(record)

    async def close(self) -> None:
        """Let go of everybody who waits."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _asked(self, record: SessionRecord, question: Question) -> None:
        known = self._open.get(record.id)
        if known is not None and is_same(known.question, question):
            known.record, known.question = record, question
            return
        if known is not None:
            self._start(self._end(known))
        opened = self._open[record.id] = Open(record, question)
        opened.telling = self._start(self._tell(opened))

    def _answered(self, session_id: SessionId) -> None:
        known = self._open.pop(session_id, None)
        if known is not None:
            self._start(self._end(known))
        if self._recalled and self._has_looked_around():
            recalled = self._recalled.pop(session_id, None)
            if recalled is not None:
                self._start(self._over(recalled.alert.episode))

    def _has_looked_around(self) -> bool:
        """A daemon that has just come sees a session before all that it says: no question yet is no answer."""
        return self._clock.now().awake - self._began.awake >= self._rules.needs_you_seconds

    async def _look_around(self) -> None:
        await self._sleep(self._rules.needs_you_seconds)
        for session_id in [each for each in self._recalled if each not in self._open]:
            self._answered(session_id)

    async def _tell(self, opened: Open) -> None:
        await self._sleep(self._rules.needs_you_seconds)
        recalled = self._recalled.pop(opened.record.id, None)
        if recalled is not None and self._is_told(recalled, opened.question):
            opened.episode = recalled.alert.episode
            return
        if recalled is not None:
            await self._over(recalled.alert.episode)
        while self._excused(opened.record, opened.question) or await self._visible(opened.record.id):
            await self._sleep(LOOK_SECONDS)
        text, asked = needs_you(opened.record, opened.question), opened.question
        opened.episode = f"{PREFIX}{opened.record.id}/{asked.since}/{_digest(asked.words)}"
        gist = gist_of(opened.record, asked.code or "question")
        await self._desk.owe(Alert(AlertKind.NEEDS_YOU, opened.episode, text, gist=gist))

    def _is_told(self, recalled: Owed, question: Question) -> bool:
        """Whether an earlier daemon owed this very question to people.

        What its log or its client dates after that telling, and before we came, is another one. A time since we came
        may be that of our first look.
        """
        since, _, digest = recalled.alert.episode.split("/", 2)[2].partition("/")
        if question.since == since:
            return True
        asked_meanwhile = iso(recalled.owed_at) < question.since < iso(self._began.wall)
        return digest == _digest(question.words) and not asked_meanwhile

    async def _end(self, known: Open) -> None:
        if known.telling is not None:
            known.telling.cancel()
            await asyncio.wait({known.telling})
        if known.episode is not None:
            await self._over(known.episode)

    async def _over(self, episode: str) -> None:
        """An answer needs no news of its own: whoever gave it knows."""
        await self._desk.resolve(episode)

    def _watch_work(self, record: SessionRecord) -> None:
        if record.active_prompt or record.state is State.PROMPTING:
            self._at_work.add(record.id)
            waiting = self._finishing.pop(record.id, None)
            if waiting is not None:
                waiting.cancel()
        elif record.id in self._at_work:
            self._at_work.discard(record.id)
            if record.health is Health.HEALTHY and record.state in {
                State.IDLE,
                State.DETACHED,
                State.STOPPED,
            }:
                self._finishing[record.id] = self._start(self._tell_finished(record))

    async def _tell_finished(self, record: SessionRecord) -> None:
        """Whoever goes on at once, with a queued prompt or after a background task, had not finished."""
        await self._sleep(self._rules.needs_you_seconds)
        self._finishing.pop(record.id, None)
        if self._done(record.id) and not self._excused(record, None):
            episode = f"{AlertKind.FINISHED}/{record.id}/{record.updated_at}"
            alert = Alert(AlertKind.FINISHED, episode, finished(record), gist=gist_of(record, "finished"))
            await self._desk.owe(alert)

    async def _sleep(self, seconds: float) -> None:
        await self._clock.sleep_until(self._clock.now().awake + seconds)

    def _start(self, work: Awaitable[None]) -> asyncio.Task[None]:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (problem := task.exception()) is not None:
            log.error("an alert was lost to a bug of ours", exc_info=problem)


def _digest(words: str) -> str:
    return sha256(words.encode()).hexdigest()[:12]


def is_same(known: Question, question: Question) -> bool:
    """A question may be worded better later, or its time known better; another one has both of its own."""
    return known.since == question.since or known.words == question.words
