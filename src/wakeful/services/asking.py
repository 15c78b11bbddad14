"""Notices who needs a person and who has finished, and owes the alert once that has lasted.

A question that is answered within the wait was never told. Nothing here delivers; nothing here knows a channel.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Final

from msgspec import Struct

from wakeful.domain.alerts import Alert, AlertKind, Question, Rules, finished, needs_you, question_of
from wakeful.domain.findings import Health, State
from wakeful.domain.ids import SessionId
from wakeful.domain.record import SessionRecord
from wakeful.ports.clock import Clock
from wakeful.services.alerts import AlertDesk

# As long as somebody looks at the question nobody is told; whether they still do is asked this often.
LOOK_SECONDS: Final = 60.0
# No session id has a slash.
PREFIX: Final = f"{AlertKind.NEEDS_YOU}/"

log = logging.getLogger("wakeful.asking")

Visible = Callable[[SessionId], Awaitable[bool]]
"""Whether somebody sees this session's pane right now; False where nobody can tell."""
Excused = Callable[[SessionRecord], bool]
"""Whether nobody is to be told: it is muted, or an incident tells it for many."""


class Open(Struct):
    """A question that is open, in its newest words, and whoever waits to tell it."""

    record: SessionRecord
    question: Question
    episode: str
    telling: asyncio.Task[None] | None = None


class Asking:
    """Told of every judgement by `seen`. Call `take_up` once the desk has."""

    def __init__(
        self,
        desk: AlertDesk,
        clock: Clock,
        rules: Rules,
        visible: Visible,
        excused: Excused = lambda _record: False,
    ) -> None:
        self._desk = desk
        self._clock = clock
        self._rules = rules
        self._visible = visible
        self._excused = excused
        self._open: dict[SessionId, Open] = {}
        # From an earlier daemon: not told again while they are the same, over when they are not.
        self._recalled: dict[SessionId, str] = {}
        self._at_work: set[SessionId] = set()
        self._finishing: dict[SessionId, asyncio.Task[None]] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    def take_up(self) -> None:
        """Recall what the desk knows to be open."""
        for episode in self._desk.open_episodes(PREFIX):
            self._recalled[SessionId(episode.split("/")[1])] = episode

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
            self._answered(record.id)
        episode = f"{PREFIX}{record.id}/{question.since}"
        opened = self._open[record.id] = Open(record, question, episode)
        recalled = self._recalled.pop(record.id, None)
        if recalled is not None and recalled != episode:
            self._start(self._end(recalled, None))
        opened.telling = self._start(self._tell(opened))

    def _answered(self, session_id: SessionId) -> None:
        known = self._open.pop(session_id, None)
        if known is not None:
            self._start(self._end(known.episode, known.telling))
        recalled = self._recalled.pop(session_id, None) if self._recalled else None
        if recalled is not None:
            self._start(self._end(recalled, None))

    async def _tell(self, opened: Open) -> None:
        await self._sleep(self._rules.needs_you_seconds)
        while await self._visible(opened.record.id):
            await self._sleep(LOOK_SECONDS)
        if self._excused(opened.record):
            return
        text = needs_you(opened.record, opened.question)
        await self._desk.owe(Alert(AlertKind.NEEDS_YOU, opened.episode, text))

    async def _end(self, episode: str, telling: asyncio.Task[None] | None) -> None:
        """An answer needs no news of its own: whoever gave it knows."""
        if telling is not None:
            telling.cancel()
            await asyncio.wait({telling})
        await self._desk.resolve(episode)

    def _watch_work(self, record: SessionRecord) -> None:
        if record.active_prompt or record.state is State.PROMPTING:
            self._at_work.add(record.id)
            waiting = self._finishing.pop(record.id, None)
            if waiting is not None:
                waiting.cancel()
        elif record.id in self._at_work:
            self._at_work.discard(record.id)
            if record.health is Health.HEALTHY and record.state in {State.IDLE, State.STOPPED}:
                self._finishing[record.id] = self._start(self._tell_finished(record))

    async def _tell_finished(self, record: SessionRecord) -> None:
        """Whoever goes on at once, with a queued prompt or after a background task, had not finished."""
        await self._sleep(self._rules.needs_you_seconds)
        self._finishing.pop(record.id, None)
        if not self._excused(record):
            episode = f"{AlertKind.FINISHED}/{record.id}/{record.updated_at}"
            await self._desk.owe(Alert(AlertKind.FINISHED, episode, finished(record)))

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


def is_same(known: Question, question: Question) -> bool:
    """A question may be worded better later, or its time known better; another one has both of its own."""
    return known.since == question.since or known.words == question.words
