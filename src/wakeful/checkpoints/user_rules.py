"""Lessons, the command prefixes that people taught Wakeful to treat as local: in the store and in memory.

`judging/user_effect_rules.py` applies them.
"""

from collections.abc import Callable
from typing import Final

import msgspec

from wakeful.core.clock import Clock
from wakeful.core.decoding import json_decoder
from wakeful.core.labels import label
from wakeful.judging.interrupted_calls import InterruptedCall, interrupted_calls
from wakeful.judging.session_record import project_label, safe
from wakeful.judging.user_effect_rules import BadLesson, Lesson, apply_lessons, prefix_words
from wakeful.sessions.session import TrackedSession
from wakeful.storage.base import Note, Store
from wakeful.storage.note_decoding import decode_notes

KIND: Final = "lesson"
# More exceptions than this in one store would leave nothing of the rules.
LESSONS_MAX: Final = 1000
_decode: Final = json_decoder(Lesson)


class Lessons:
    """The stored lessons, taught by people only."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._lessons: dict[str, Lesson] = {}
        self._listeners: list[Callable[[], None]] = []

    def subscribe(self, listener: Callable[[], None]) -> None:
        """Call it after every new lesson: a session that waits for a decision may then continue."""
        self._listeners.append(listener)

    def classify_interrupted(self, session: TrackedSession) -> tuple[InterruptedCall, ...]:
        """The interrupted calls, classified by the rules and by the lessons of its project."""
        project = project_label(session.subject, session.activity, session.presence)
        return apply_lessons(interrupted_calls(session.activity), self.of(project))

    async def load(self) -> None:
        """Read them again, because several daemons may share one store."""
        self._lessons = {
            note.key: lesson for note, lesson in decode_notes(await self._store.notes(KIND), _decode)
        }

    def of(self, project: str) -> tuple[Lesson, ...]:
        return tuple(each for each in self._lessons.values() if label(each.project) == label(project))

    def list_lessons(self) -> list[Lesson]:
        """All lessons, by project."""
        return sorted(self._lessons.values(), key=lambda each: (each.project, each.prefix))

    async def teach(self, project: str, prefix: str, by: str, *, even_remote: bool = False) -> Lesson:
        """Treat such commands as local in this project from now on. Raises BadLesson."""
        if not project:
            raise BadLesson(shown=prefix, reason="no project was named")
        if len(self._lessons) >= LESSONS_MAX:
            raise BadLesson(shown=prefix, reason=f"there are {LESSONS_MAX} lessons already")
        prefix_words(prefix)
        lesson = Lesson(project, prefix.strip(), even_remote, safe(by), self._clock.now().wall)
        key = _key(project, lesson.prefix)
        await self._store.save_note(Note(KIND, key, msgspec.json.encode(lesson)))
        self._lessons[key] = lesson
        for listener in self._listeners:
            listener()
        return lesson

    async def forget(self, project: str, prefix: str) -> bool:
        """Judge such commands as before. False if there was no such lesson."""
        key = _key(project, prefix.strip())
        self._lessons.pop(key, None)
        return await self._store.drop_note(KIND, key)


def _key(project: str, prefix: str) -> str:
    return f"{project}\n{prefix}"
