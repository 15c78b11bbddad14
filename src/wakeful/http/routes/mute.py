"""Routes for mutes and the pause. They need a person: requests from inside a supervised session are refused."""

from collections.abc import Callable, Sequence
from typing import Annotated, Final

import msgspec
from msgspec import Meta, Struct

from wakeful.alerts.mute_pause import Calm
from wakeful.alerts.mute_pause_model import (
    MUTE_SECONDS_MAX,
    MuteKind,
    MuteList,
    MuteRecord,
    PauseRecord,
    mute_list,
    mute_record,
)
from wakeful.core.answer import Answer
from wakeful.core.clock import Instant
from wakeful.core.errors import SessionNotFound
from wakeful.core.ids import SessionId, parse_session_id
from wakeful.http.errors import PROBLEMS
from wakeful.http.responses import Encoded, encoded
from wakeful.http.routing import Request, Route, get, post

_Text = Annotated[str, Meta(max_length=300)]
_Seconds = Annotated[float, Meta(gt=0, le=MUTE_SECONDS_MAX)]
# For whoever asks over HTTP without a name.
NOBODY_NAMED: Final = "somebody over HTTP"
_MUTING: Final = PROBLEMS | {409: "There are too many mutes."}


class PauseOrder(Struct, frozen=True, forbid_unknown_fields=True):
    by: _Text = NOBODY_NAMED
    reason: _Text = ""


class SessionMute(Struct, frozen=True, forbid_unknown_fields=True):
    """For how long: it always ends."""

    for_seconds: _Seconds
    by: _Text = NOBODY_NAMED
    reason: _Text = ""


class NewMute(Struct, frozen=True, forbid_unknown_fields=True):
    kind: MuteKind
    value: _Text
    for_seconds: _Seconds
    by: _Text = NOBODY_NAMED
    reason: _Text = ""


class Unmute(Struct, frozen=True, forbid_unknown_fields=True):
    kind: MuteKind
    value: _Text


class PauseAnswer(Struct, frozen=True):
    """Whether Wakeful is paused now, and whether this order changed it."""

    paused: PauseRecord | None
    changed: bool


class Unmuted(Struct, frozen=True):
    """What is told again; `changed` is false if it was not muted."""

    kind: MuteKind
    value: str
    changed: bool


class CalmRoutes:
    """Orders that silence, stop and let go on."""

    def __init__(
        self,
        calm: Calm,
        now: Callable[[], Instant],
        resolve: Callable[[str], SessionId],
    ) -> None:
        self._calm = calm
        self._now = now
        self._resolve = resolve

    def routes(self) -> Sequence[Route]:
        one = "/api/sessions/{session_id}/mute"
        return (
            get("/api/mutes", self.mutes, MuteList),
            post("/api/pause", self.pause, PauseAnswer, body=PauseOrder),
            post("/api/resume", self.resume, PauseAnswer),
            post("/api/unmute", self.unmute, Unmuted, body=Unmute),
            post("/api/mutes", self.mute, MuteRecord, body=NewMute, status=201, problems=_MUTING),
            post(one, self.mute_session, MuteRecord, body=SessionMute, status=201, problems=_MUTING),
        )

    async def pause(self, request: Request[PauseOrder]) -> Encoded[PauseAnswer]:
        """Stop everything Wakeful would do by itself; what people ask for is still done. A person's decision."""
        changed = await self._calm.pause(request.input.by, request.input.reason)
        return encoded(PauseAnswer(self._calm.paused_record, changed))

    async def resume(self, _request: Request[None]) -> Encoded[PauseAnswer]:
        """Let Wakeful act again. A person's decision."""
        changed = await self._calm.resume()
        return encoded(PauseAnswer(self._calm.paused_record, changed))

    async def mutes(self, _request: Request[None]) -> Encoded[MuteList]:
        """What nothing is told about now, and until when."""
        await self._calm.current()
        now = self._now().wall
        return encoded(mute_list(self._calm.mutes(now), self._calm.paused_record, now))

    async def mute_session(self, request: Request[SessionMute]) -> Encoded[MuteRecord]:
        """Tell nothing about one session for a while. A person's decision."""
        return await self._mute(MuteKind.SESSION, self._resolve(request.id), request.input)

    async def mute(self, request: Request[NewMute]) -> Encoded[MuteRecord]:
        """Tell nothing about a session, a project or one code for a while. A person's decision."""
        order = request.input
        target = self._resolve(order.value) if order.kind is MuteKind.SESSION else order.value
        return await self._mute(order.kind, target, order)

    async def unmute(self, request: Request[Unmute]) -> Encoded[Unmuted]:
        """Let it be told again. A person's decision."""
        order = request.input
        target = self._known(order.value) if order.kind is MuteKind.SESSION else order.value
        changed = await self._calm.unmute(order.kind, target)
        body = msgspec.json.encode(Unmuted(order.kind, target, changed))
        return Encoded(Answer(body, 0 if changed else 1))

    async def _mute(self, kind: MuteKind, value: str, order: SessionMute | NewMute) -> Encoded[MuteRecord]:
        mute = await self._calm.mute(kind, value, order.for_seconds, by=order.by, reason=order.reason)
        return encoded(mute_record(mute))

    def _known(self, text: str) -> str:
        """A session's whole id; what was muted and is forgotten since is found by its whole id only."""
        try:
            return self._resolve(text)
        except SessionNotFound:
            return parse_session_id(text)
