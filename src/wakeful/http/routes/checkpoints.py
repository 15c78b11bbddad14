"""Routes for checkpoints and user effect rules. Reading is open; deciding and teaching need a person."""

from collections.abc import Sequence
from typing import Annotated, Final

import msgspec
from msgspec import Meta, Struct, field

from wakeful.alerts.mute_pause import Paused
from wakeful.alerts.mute_pause_model import PauseRecord
from wakeful.checkpoints.model import (
    CheckpointList,
    CheckpointRecord,
    ChoiceName,
    checkpoint_list,
    checkpoint_record,
)
from wakeful.checkpoints.service import Checkpoints, Decided, not_offered
from wakeful.checkpoints.user_rules import Lessons
from wakeful.core.answer import Answer
from wakeful.core.clock import iso
from wakeful.http.errors import PROBLEMS
from wakeful.http.responses import Encoded, encoded
from wakeful.http.routes.control import EXIT_CODES
from wakeful.http.routes.mute import NOBODY_NAMED
from wakeful.http.routing import Request, Route, get, post
from wakeful.judging.user_effect_rules import PREFIX_CHARS_MAX, Lesson, prefix_words
from wakeful.storage.base import Outcome

_Text = Annotated[str, Meta(max_length=300)]
_Prefix = Annotated[str, Meta(min_length=1, max_length=PREFIX_CHARS_MAX)]
_DECIDING: Final = PROBLEMS | {409: "It was decided otherwise before, or does not offer this."}


class CheckpointQuery(Struct, frozen=True):
    everything: bool = field(default=False, name="all")


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

    def routes(self) -> Sequence[Route]:
        one = "/api/checkpoints/{number:int}"
        decided = DecisionRecord
        return (
            get("/api/checkpoints", self.checkpoints, CheckpointList, query=CheckpointQuery),
            get(one, self.checkpoint, CheckpointRecord),
            post(f"{one}/continue", self.go_on, decided, body=ContinueOrder, problems=_DECIDING),
            post(f"{one}/rollback", self.rollback, decided, body=RollbackOrder, problems=_DECIDING),
            post(f"{one}/abort", self.abort, decided, body=AbortOrder, problems=_DECIDING),
            get("/api/lessons", self.lessons, LessonList),
            post("/api/lessons", self.teach, LessonRecord, body=LessonOrder, status=201),
            post("/api/lessons/forget", self.forget, Forgotten, body=LessonToForget),
        )

    async def checkpoints(self, request: Request[CheckpointQuery]) -> Encoded[CheckpointList]:
        """What somebody has to decide; with `all=true` also what was decided."""
        found = await self._checkpoints.listed(everything=request.input.everything)
        return encoded(checkpoint_list(found, self._paused()))

    async def checkpoint(self, request: Request[None]) -> Encoded[CheckpointRecord]:
        """One checkpoint, whole."""
        return encoded(checkpoint_record(await self._checkpoints.get(request.number)))

    async def go_on(self, request: Request[ContinueOrder]) -> Encoded[DecisionRecord]:
        """Let it go on. A person's decision, kept with who and when; the first one counts."""
        order = request.input
        if order.always_local is not None:
            # What cannot be taught is refused before anything is decided.
            prefix_words(order.always_local)
        choice = ChoiceName.DONE if order.done else ChoiceName.CONTINUE
        decided = await self._checkpoints.decide(request.number, choice, order.by)
        if order.always_local is not None:
            project = decided.checkpoint.project
            await self._lessons.teach(project, order.always_local, order.by, even_remote=order.even_remote)
        return _answered(decided)

    async def rollback(self, request: Request[RollbackOrder]) -> Encoded[DecisionRecord]:
        """Undo it, where somebody said how; without `dry_run: false` only say what would be run."""
        if request.input.dry_run:
            return await self._dry_run(request.number)
        by = request.input.by
        return _answered(await self._checkpoints.decide(request.number, ChoiceName.ROLLBACK, by))

    async def abort(self, request: Request[AbortOrder]) -> Encoded[DecisionRecord]:
        """Leave everything as it is and give the work up. A person's decision."""
        by = request.input.by
        return _answered(await self._checkpoints.decide(request.number, ChoiceName.ABORT, by))

    async def lessons(self, _request: Request[None]) -> Encoded[LessonList]:
        """What was taught, by project."""
        return encoded(LessonList(tuple(map(_lesson, self._lessons.listed())), self._paused()))

    async def teach(self, request: Request[LessonOrder]) -> Encoded[LessonRecord]:
        """Say that some commands are always local in a project. A person's decision."""
        new = request.input
        lesson = await self._lessons.teach(new.project, new.prefix, new.by, even_remote=new.even_remote)
        return encoded(_lesson(lesson))

    async def forget(self, request: Request[LessonToForget]) -> Encoded[Forgotten]:
        """Judge such commands by the rules again. A person's decision."""
        project, prefix = request.input.project, request.input.prefix
        changed = await self._lessons.forget(project, prefix)
        body = msgspec.json.encode(Forgotten(project, prefix, changed))
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
