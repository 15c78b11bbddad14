"""Mutes and the pause. All orders here are a person's decisions: refused to whoever works inside a supervised session."""

from collections.abc import Callable, Sequence
from typing import Annotated, Any, Final

import msgspec
from litestar.handlers import HTTPRouteHandler, get, post
from litestar.openapi.datastructures import ResponseSpec
from litestar.params import FromPath, JSONBody
from msgspec import Meta, Struct

from wakeful.domain.answer import Answer
from wakeful.domain.calm import (
    MUTE_SECONDS_MAX,
    MuteKind,
    MuteList,
    MuteRecord,
    PauseRecord,
    mute_list,
    mute_record,
)
from wakeful.domain.errors import SessionNotFound
from wakeful.domain.ids import SessionId, parse_session_id
from wakeful.domain.moment import Instant
from wakeful.interfaces.http.answers import Encoded, encoded
from wakeful.interfaces.http.problems import MEDIA_TYPE, Problem
from wakeful.interfaces.http.session_routes import PROBLEMS
from wakeful.services.calm import Calm

_Text = Annotated[str, Meta(max_length=300)]
_Seconds = Annotated[float, Meta(gt=0, le=MUTE_SECONDS_MAX)]
# For whoever asks over HTTP without a name.
NOBODY_NAMED: Final = "somebody over HTTP"
_PROBLEMS: Final = PROBLEMS | {
    409: ResponseSpec(
        Problem, generate_examples=False, media_type=MEDIA_TYPE, description="There are too many mutes."
    )
}


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

    def handlers(self) -> Sequence[HTTPRouteHandler]:
        orders: dict[str, Callable[..., Any]] = {
            "/api/pause": self.pause,
            "/api/resume": self.resume,
            "/api/unmute": self.unmute,
        }
        mutes: dict[str, Callable[..., Any]] = {
            "/api/mutes": self.mute,
            "/api/sessions/{session_id:str}/mute": self.mute_session,
        }
        return (
            get("/api/mutes", responses=PROBLEMS)(self.mutes),
            *(post(path, status_code=200, responses=PROBLEMS)(fn) for path, fn in orders.items()),
            *(post(path, status_code=201, responses=_PROBLEMS)(fn) for path, fn in mutes.items()),
        )

    async def pause(self, data: JSONBody[PauseOrder]) -> Encoded[PauseAnswer]:
        """Stop everything Wakeful would do by itself; what people ask for is still done. A person's decision."""
        changed = await self._calm.pause(data.by, data.reason)
        return encoded(PauseAnswer(self._calm.paused_record, changed))

    async def resume(self) -> Encoded[PauseAnswer]:
        """Let Wakeful act again. A person's decision."""
        changed = await self._calm.resume()
        return encoded(PauseAnswer(self._calm.paused_record, changed))

    async def mutes(self) -> Encoded[MuteList]:
        """What nothing is told about now, and until when."""
        await self._calm.current()
        now = self._now().wall
        return encoded(mute_list(self._calm.mutes(now), self._calm.paused_record, now))

    async def mute_session(
        self, session_id: FromPath[str], data: JSONBody[SessionMute]
    ) -> Encoded[MuteRecord]:
        """Tell nothing about one session for a while. A person's decision."""
        target = self._resolve(session_id)
        return await self._mute(MuteKind.SESSION, target, data.for_seconds, data.by, data.reason)

    async def mute(self, data: JSONBody[NewMute]) -> Encoded[MuteRecord]:
        """Tell nothing about a session, a project or one code for a while. A person's decision."""
        target = self._resolve(data.value) if data.kind is MuteKind.SESSION else data.value
        return await self._mute(data.kind, target, data.for_seconds, data.by, data.reason)

    async def unmute(self, data: JSONBody[Unmute]) -> Encoded[Unmuted]:
        """Let it be told again. A person's decision."""
        target = self._known(data.value) if data.kind is MuteKind.SESSION else data.value
        changed = await self._calm.unmute(data.kind, target)
        body = msgspec.json.encode(Unmuted(data.kind, target, changed))
        return Encoded(Answer(body, 0 if changed else 1))

    async def _mute(
        self, kind: MuteKind, value: str, seconds: float, by: str, reason: str
    ) -> Encoded[MuteRecord]:
        mute = await self._calm.mute(kind, value, seconds, by=by, reason=reason)
        return encoded(mute_record(mute), status_code=201)

    def _known(self, text: str) -> str:
        """A session's whole id; what was muted and is forgotten since is found by its whole id only."""
        try:
            return self._resolve(text)
        except SessionNotFound:
            return parse_session_id(text)
