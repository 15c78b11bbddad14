"""Routes for checkpoints and user effect rules. Reading is open; deciding and teaching need a person."""

from collections.abc import Sequence
from typing import Annotated, Final

import msgspec
from msgspec import Meta, Struct, field

from wakeful.alerts.mute_pause import PauseQuery
from wakeful.checkpoints.model import (
    CheckpointList,
    CheckpointRecord,
    ChoiceName,
    checkpoint_list,
    checkpoint_record,
)
from wakeful.checkpoints.service import Checkpoints, DecisionResult, not_offered_error
from wakeful.checkpoints.user_rules import Lessons
from wakeful.core.clock import iso
from wakeful.core.query_result import QueryResult
from wakeful.http.errors import PROBLEMS
from wakeful.http.responses import EncodedResponse, encode_response
from wakeful.http.routes.control import EXIT_CODES
from wakeful.http.routes.mute import UNNAMED_OPERATOR
from wakeful.http.routing import HttpRequest, Route, get, post
from wakeful.judging.user_effect_rules import PREFIX_CHARS_MAX, Lesson, prefix_words
from wakeful.views.records import DecisionRecord, LessonList, LessonRecord

_Text = Annotated[str, Meta(max_length=300)]
_Prefix = Annotated[str, Meta(min_length=1, max_length=PREFIX_CHARS_MAX)]
_CONFLICTS: Final = PROBLEMS | {409: "It was decided otherwise before, or does not offer this."}


class CheckpointQuery(Struct, frozen=True):
    everything: bool = field(default=False, name="all")


class ContinueOrder(Struct, frozen=True, forbid_unknown_fields=True):
    """`done`: a person checked that the interrupted call has happened; it is not repeated.

    `always_local`: from now on commands with this prefix are local in its project; see `LessonOrder`.
    """

    by: _Text = UNNAMED_OPERATOR
    done: bool = False
    always_local: _Prefix | None = None
    even_remote: bool = False


class RollbackOrder(Struct, frozen=True, forbid_unknown_fields=True):
    """A dry run unless `dry_run` is false: a person reads first what it would do."""

    by: _Text = UNNAMED_OPERATOR
    dry_run: bool = True


class AbortOrder(Struct, frozen=True, forbid_unknown_fields=True):
    by: _Text = UNNAMED_OPERATOR


class LessonOrder(Struct, frozen=True, forbid_unknown_fields=True):
    """Commands of this project that begin with `prefix` are local; `even_remote`: even against a built-in rule."""

    project: Annotated[str, Meta(min_length=1, max_length=300)]
    prefix: _Prefix
    even_remote: bool = False
    by: _Text = UNNAMED_OPERATOR


class ForgetOrder(Struct, frozen=True, forbid_unknown_fields=True):
    project: _Text
    prefix: _Prefix


class ForgetAnswer(Struct, frozen=True):
    """`changed` is false if there was no such rule."""

    project: str
    prefix: str
    changed: bool


class CheckpointRoutes:
    def __init__(self, checkpoints: Checkpoints, lessons: Lessons, paused: PauseQuery) -> None:
        self._checkpoints = checkpoints
        self._lessons = lessons
        self._get_pause = paused

    def routes(self) -> Sequence[Route]:
        one = "/api/checkpoints/{number:int}"
        return (
            get("/api/checkpoints", self.checkpoints, CheckpointList, query=CheckpointQuery),
            get(one, self.checkpoint, CheckpointRecord),
            post(f"{one}/continue", self.go_on, DecisionRecord, body=ContinueOrder, problems=_CONFLICTS),
            post(f"{one}/rollback", self.rollback, DecisionRecord, body=RollbackOrder, problems=_CONFLICTS),
            post(f"{one}/abort", self.abort, DecisionRecord, body=AbortOrder, problems=_CONFLICTS),
            get("/api/lessons", self.lessons, LessonList),
            post("/api/lessons", self.teach, LessonRecord, body=LessonOrder, status=201),
            post("/api/lessons/forget", self.forget, ForgetAnswer, body=ForgetOrder),
        )

    async def checkpoints(self, request: HttpRequest[CheckpointQuery]) -> EncodedResponse[CheckpointList]:
        """The checkpoints that need a decision; with `all=true` also decided ones."""
        found = await self._checkpoints.list_checkpoints(everything=request.input.everything)
        return encode_response(checkpoint_list(found, self._get_pause()))

    async def checkpoint(self, request: HttpRequest[None]) -> EncodedResponse[CheckpointRecord]:
        return encode_response(checkpoint_record(await self._checkpoints.get(request.number)))

    async def go_on(self, request: HttpRequest[ContinueOrder]) -> EncodedResponse[DecisionRecord]:
        """Let it continue. Needs a person; stored with name and time, and the first decision counts."""
        order = request.input
        if order.always_local is not None:
            # An invalid prefix is refused before anything is decided.
            prefix_words(order.always_local)
        choice = ChoiceName.DONE if order.done else ChoiceName.CONTINUE
        result = await self._checkpoints.decide(request.number, choice, order.by)
        if order.always_local is not None:
            project = result.checkpoint.project
            await self._lessons.teach(project, order.always_local, order.by, even_remote=order.even_remote)
        return _decision_response(result)

    async def rollback(self, request: HttpRequest[RollbackOrder]) -> EncodedResponse[DecisionRecord]:
        """Undo it, if a way to undo was declared; without `dry_run: false` only list the commands."""
        if request.input.dry_run:
            return await self._dry_run(request.number)
        by = request.input.by
        return _decision_response(await self._checkpoints.decide(request.number, ChoiceName.ROLLBACK, by))

    async def abort(self, request: HttpRequest[AbortOrder]) -> EncodedResponse[DecisionRecord]:
        """Leave everything as it is and give the task up. Needs a person."""
        by = request.input.by
        return _decision_response(await self._checkpoints.decide(request.number, ChoiceName.ABORT, by))

    async def lessons(self, _request: HttpRequest[None]) -> EncodedResponse[LessonList]:
        return encode_response(
            LessonList(tuple(map(_lesson_record, self._lessons.list_lessons())), self._get_pause())
        )

    async def teach(self, request: HttpRequest[LessonOrder]) -> EncodedResponse[LessonRecord]:
        """Declare commands as always local in a project. Needs a person."""
        new = request.input
        lesson = await self._lessons.teach(new.project, new.prefix, new.by, even_remote=new.even_remote)
        return encode_response(_lesson_record(lesson))

    async def forget(self, request: HttpRequest[ForgetOrder]) -> EncodedResponse[ForgetAnswer]:
        """Judge such commands by the rules again. Needs a person."""
        project, prefix = request.input.project, request.input.prefix
        changed = await self._lessons.forget(project, prefix)
        body = msgspec.json.encode(ForgetAnswer(project, prefix, changed))
        return EncodedResponse(QueryResult(body, 0 if changed else 1))

    async def _dry_run(self, number: int) -> EncodedResponse[DecisionRecord]:
        checkpoint = await self._checkpoints.get(number)
        choice = checkpoint.choice(ChoiceName.ROLLBACK)
        if choice is None or not checkpoint.is_open:
            raise not_offered_error(checkpoint, ChoiceName.ROLLBACK)
        # The first command is the one that chooses it.
        steps = choice.commands[1:]
        return encode_response(
            DecisionRecord(
                checkpoint_record(checkpoint), None, choice.consequence, changed=False, steps=steps
            )
        )


def _decision_response(result: DecisionResult) -> EncodedResponse[DecisionRecord]:
    record = DecisionRecord(
        checkpoint_record(result.checkpoint), result.outcome, result.words, changed=result.changed
    )
    return EncodedResponse(QueryResult(msgspec.json.encode(record), EXIT_CODES[result.outcome]))


def _lesson_record(lesson: Lesson) -> LessonRecord:
    return LessonRecord(lesson.project, lesson.prefix, lesson.even_remote, lesson.by, iso(lesson.at))
