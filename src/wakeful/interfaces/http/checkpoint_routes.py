"""Checkpoints and lessons. Reading is for everybody; deciding and teaching are a person's, and say whose word it was."""

from collections.abc import Sequence
from typing import Annotated, Final

import msgspec
from litestar.handlers import HTTPRouteHandler, get, post
from litestar.openapi.datastructures import ResponseSpec
from litestar.params import FromPath, JSONBody, QueryParameter
from msgspec import Meta, Struct

from wakeful.domain.answer import Answer
from wakeful.domain.calm import PauseRecord
from wakeful.domain.checkpoint import (
    CheckpointList,
    CheckpointRecord,
    ChoiceName,
    checkpoint_list,
    checkpoint_record,
)
from wakeful.domain.lessons import PREFIX_CHARS_MAX, Lesson, prefix_words
from wakeful.domain.moment import iso
from wakeful.interfaces.http.act_routes import EXIT_CODES
from wakeful.interfaces.http.answers import Encoded, encoded
from wakeful.interfaces.http.calm_routes import NOBODY_NAMED
from wakeful.interfaces.http.problems import MEDIA_TYPE, Problem
from wakeful.interfaces.http.session_routes import PROBLEMS
from wakeful.ports.store import Outcome
from wakeful.services.calm import Paused
from wakeful.services.checkpoints import Checkpoints, Decided, not_offered
from wakeful.services.lessons import Lessons

_Text = Annotated[str, Meta(max_length=300)]
_Prefix = Annotated[str, Meta(min_length=1, max_length=PREFIX_CHARS_MAX)]
_PROBLEMS: Final = PROBLEMS | {
    409: ResponseSpec(
        Problem,
        generate_examples=False,
        media_type=MEDIA_TYPE,
        description="It was decided otherwise before, or does not offer this.",
    )
}


class ContinueOrder(Struct, frozen=True, forbid_unknown_fields=True):
    """`done`: somebody looked, and what was cut off has happened; it is not repeated.

    `always_local`: from now on commands that begin like this are local in its project; see `LessonOrder`.
    """

    by: _Text = NOBODY_NAMED
    done: bool = False
    always_local: _Prefix | None = None
    even_remote: bool = False


class RollbackOrder(Struct, frozen=True, forbid_unknown_fields=True):
    """A dry run unless `dry_run` is false: what it would do is to be read first."""

    by: _Text = NOBODY_NAMED
    dry_run: bool = True


class AbortOrder(Struct, frozen=True, forbid_unknown_fields=True):
    by: _Text = NOBODY_NAMED


class LessonOrder(Struct, frozen=True, forbid_unknown_fields=True):
    """Commands of this project that begin with `prefix` are local; `even_remote`: also where a rule knows better."""

    project: Annotated[str, Meta(min_length=1, max_length=300)]
    prefix: _Prefix
    even_remote: bool = False
    by: _Text = NOBODY_NAMED


class LessonToForget(Struct, frozen=True, forbid_unknown_fields=True):
    project: _Text
    prefix: _Prefix


class DecisionRecord(Struct, frozen=True):
    """`changed`: it was carried out now. `outcome` is null for a dry run, whose `steps` say what would be run."""

    checkpoint: CheckpointRecord
    outcome: Outcome | None
    words: str
    changed: bool
    steps: tuple[str, ...] = ()


class LessonRecord(Struct, frozen=True):
    project: str
    prefix: str
    even_remote: bool
    by: str
    at: str


class LessonList(Struct, frozen=True):
    """What was taught; `paused` says who stopped everything Wakeful would do by itself, if somebody did."""

    lessons: tuple[LessonRecord, ...]
    paused: PauseRecord | None


class Forgotten(Struct, frozen=True):
    """`changed` is false if nobody had taught that."""

    project: str
    prefix: str
    changed: bool


class CheckpointRoutes:
    """What waits for a person, and the person's word."""

    def __init__(self, checkpoints: Checkpoints, lessons: Lessons, paused: Paused) -> None:
        self._checkpoints = checkpoints
        self._lessons = lessons
        self._paused = paused

    def handlers(self) -> Sequence[HTTPRouteHandler]:
        one = "/api/checkpoints/{number:int}"
        return (
            get("/api/checkpoints", responses=PROBLEMS)(self.checkpoints),
            get(one, responses=PROBLEMS)(self.checkpoint),
            post(f"{one}/continue", status_code=200, responses=_PROBLEMS)(self.go_on),
            post(f"{one}/rollback", status_code=200, responses=_PROBLEMS)(self.rollback),
            post(f"{one}/abort", status_code=200, responses=_PROBLEMS)(self.abort),
            get("/api/lessons", responses=PROBLEMS, sync_to_thread=False)(self.lessons),
            post("/api/lessons", status_code=201, responses=PROBLEMS)(self.teach),
            post("/api/lessons/forget", status_code=200, responses=PROBLEMS)(self.forget),
        )

    async def checkpoints(
        self, *, everything: Annotated[bool, QueryParameter(name="all")] = False
    ) -> Encoded[CheckpointList]:
        """What somebody has to decide; with `all=true` also what was decided."""
        found = await self._checkpoints.listed(everything=everything)
        return encoded(checkpoint_list(found, self._paused()))

    async def checkpoint(self, number: FromPath[int]) -> Encoded[CheckpointRecord]:
        """One checkpoint, whole."""
        return encoded(checkpoint_record(await self._checkpoints.get(number)))

    async def go_on(self, number: FromPath[int], data: JSONBody[ContinueOrder]) -> Encoded[DecisionRecord]:
        """Let it go on. A person's decision, kept with who and when; the first one counts."""
        if data.always_local is not None:
            # What cannot be taught is refused before anything is decided.
            prefix_words(data.always_local)
        choice = ChoiceName.DONE if data.done else ChoiceName.CONTINUE
        decided = await self._checkpoints.decide(number, choice, data.by)
        if data.always_local is not None:
            project = decided.checkpoint.project
            await self._lessons.teach(project, data.always_local, data.by, even_remote=data.even_remote)
        return _answered(decided)

    async def rollback(self, number: FromPath[int], data: JSONBody[RollbackOrder]) -> Encoded[DecisionRecord]:
        """Undo it, where somebody said how; without `dry_run: false` only say what would be run."""
        if data.dry_run:
            return await self._dry_run(number)
        return _answered(await self._checkpoints.decide(number, ChoiceName.ROLLBACK, data.by))

    async def abort(self, number: FromPath[int], data: JSONBody[AbortOrder]) -> Encoded[DecisionRecord]:
        """Leave everything as it is and give the work up. A person's decision."""
        return _answered(await self._checkpoints.decide(number, ChoiceName.ABORT, data.by))

    def lessons(self) -> Encoded[LessonList]:
        """What was taught, by project."""
        return encoded(LessonList(tuple(map(_lesson, self._lessons.listed())), self._paused()))

    async def teach(self, data: JSONBody[LessonOrder]) -> Encoded[LessonRecord]:
        """Say that some commands are always local in a project. A person's decision."""
        lesson = await self._lessons.teach(data.project, data.prefix, data.by, even_remote=data.even_remote)
        return encoded(_lesson(lesson), status_code=201)

    async def forget(self, data: JSONBody[LessonToForget]) -> Encoded[Forgotten]:
        """Judge such commands by the rules again. A person's decision."""
        changed = await self._lessons.forget(data.project, data.prefix)
        body = msgspec.json.encode(Forgotten(data.project, data.prefix, changed))
        return Encoded(Answer(body, 0 if changed else 1))

    async def _dry_run(self, number: int) -> Encoded[DecisionRecord]:
        checkpoint = await self._checkpoints.get(number)
        choice = checkpoint.choice(ChoiceName.ROLLBACK)
        if choice is None or not checkpoint.is_open:
            raise not_offered(checkpoint, ChoiceName.ROLLBACK)
        # The first one is how it is chosen.
        steps = choice.commands[1:]
        return encoded(
            DecisionRecord(
                checkpoint_record(checkpoint), None, choice.consequence, changed=False, steps=steps
            )
        )


def _answered(decided: Decided) -> Encoded[DecisionRecord]:
    record = DecisionRecord(
        checkpoint_record(decided.checkpoint), decided.outcome, decided.words, changed=decided.changed
    )
    return Encoded(Answer(msgspec.json.encode(record), EXIT_CODES[decided.outcome]))


def _lesson(lesson: Lesson) -> LessonRecord:
    return LessonRecord(lesson.project, lesson.prefix, lesson.even_remote, lesson.by, iso(lesson.at))
