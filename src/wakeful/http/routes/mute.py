"""Routes for mutes and the pause. They need a person: requests from inside a supervised session are refused."""

from collections.abc import Sequence
from typing import Annotated, Final

import msgspec
from msgspec import Meta, Struct

from wakeful.alerts.mute_pause import MutePause
from wakeful.alerts.mute_pause_model import (
    MUTE_SECONDS_MAX,
    MuteKind,
    MuteList,
    MuteRecord,
    mute_list,
    mute_record,
)
from wakeful.core.clock import Clock
from wakeful.core.errors import SessionNotFound
from wakeful.core.ids import parse_session_id
from wakeful.core.query_result import QueryResult
from wakeful.http.errors import PROBLEMS
from wakeful.http.responses import EncodedResponse, encode_response
from wakeful.http.routing import HttpRequest, Route, get, post
from wakeful.views.records import PauseAnswer, UnmuteAnswer
from wakeful.views.sessions import SessionQueries

_Text = Annotated[str, Meta(max_length=300)]
_Seconds = Annotated[float, Meta(gt=0, le=MUTE_SECONDS_MAX)]
# For a caller over HTTP that gives no name.
UNNAMED_OPERATOR: Final = "a client over HTTP"
_MUTE_PROBLEMS: Final = PROBLEMS | {409: "There are too many mutes."}


class PauseOrder(Struct, frozen=True, forbid_unknown_fields=True):
    """`for_seconds`: the pause ends by itself after this time."""

    by: _Text = UNNAMED_OPERATOR
    reason: _Text = ""
    for_seconds: _Seconds | None = None


class SessionMuteOrder(Struct, frozen=True, forbid_unknown_fields=True):
    """`for_seconds`: every mute ends."""

    for_seconds: _Seconds
    by: _Text = UNNAMED_OPERATOR
    reason: _Text = ""


class MuteOrder(Struct, frozen=True, forbid_unknown_fields=True):
    kind: MuteKind
    value: _Text
    for_seconds: _Seconds
    by: _Text = UNNAMED_OPERATOR
    reason: _Text = ""


class UnmuteOrder(Struct, frozen=True, forbid_unknown_fields=True):
    kind: MuteKind
    value: _Text


class MuteRoutes:
    def __init__(
        self,
        mute_pause: MutePause,
        clock: Clock,
        queries: SessionQueries,
    ) -> None:
        self._mute_pause = mute_pause
        self._clock = clock
        self._queries = queries

    def routes(self) -> Sequence[Route]:
        one = "/api/sessions/{session_id}/mute"
        return (
            get("/api/mutes", self.mutes, MuteList),
            post("/api/pause", self.pause, PauseAnswer, body=PauseOrder),
            post("/api/resume", self.resume, PauseAnswer),
            post("/api/unmute", self.unmute, UnmuteAnswer, body=UnmuteOrder),
            post("/api/mutes", self.mute, MuteRecord, body=MuteOrder, status=201, problems=_MUTE_PROBLEMS),
            post(
                one, self.mute_session, MuteRecord, body=SessionMuteOrder, status=201, problems=_MUTE_PROBLEMS
            ),
        )

    async def pause(self, request: HttpRequest[PauseOrder]) -> EncodedResponse[PauseAnswer]:
        """Stop every action that Wakeful takes by itself; requests of people are still carried out. Needs a person."""
        order = request.input
        changed = await self._mute_pause.pause(order.by, order.reason, order.for_seconds)
        return encode_response(PauseAnswer(self._mute_pause.current_pause_record, changed))

    async def resume(self, _request: HttpRequest[None]) -> EncodedResponse[PauseAnswer]:
        """Let Wakeful act again. Needs a person."""
        changed = await self._mute_pause.resume()
        return encode_response(PauseAnswer(self._mute_pause.current_pause_record, changed))

    async def mutes(self, _request: HttpRequest[None]) -> EncodedResponse[MuteList]:
        """The mutes in force, and until when."""
        await self._mute_pause.reload()
        now = self._clock.now().wall
        return encode_response(
            mute_list(self._mute_pause.mutes(now), self._mute_pause.current_pause_record, now)
        )

    async def mute_session(self, request: HttpRequest[SessionMuteOrder]) -> EncodedResponse[MuteRecord]:
        """Send no alerts about one session for a time. Needs a person."""
        return await self._mute(MuteKind.SESSION, self._queries.resolve(request.id), request.input)

    async def mute(self, request: HttpRequest[MuteOrder]) -> EncodedResponse[MuteRecord]:
        """Send no alerts about a session, a project or one code for a time. Needs a person."""
        order = request.input
        target = self._queries.resolve(order.value) if order.kind is MuteKind.SESSION else order.value
        return await self._mute(order.kind, target, order)

    async def unmute(self, request: HttpRequest[UnmuteOrder]) -> EncodedResponse[UnmuteAnswer]:
        """Send alerts about it again. Needs a person."""
        order = request.input
        target = self._resolve_or_keep(order.value) if order.kind is MuteKind.SESSION else order.value
        changed = await self._mute_pause.unmute(order.kind, target)
        body = msgspec.json.encode(UnmuteAnswer(order.kind, target, changed))
        return EncodedResponse(QueryResult(body, 0 if changed else 1))

    async def _mute(
        self, kind: MuteKind, value: str, order: SessionMuteOrder | MuteOrder
    ) -> EncodedResponse[MuteRecord]:
        mute = await self._mute_pause.mute(kind, value, order.for_seconds, by=order.by, reason=order.reason)
        return encode_response(mute_record(mute))

    def _resolve_or_keep(self, text: str) -> str:
        """A session's whole id; one that was muted and is forgotten since is found by its whole id only."""
        try:
            return self._queries.resolve(text)
        except SessionNotFound:
            return parse_session_id(text)
