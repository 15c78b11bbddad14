"""Problems of sessions and the actions taken: in memory, each also a note in the store."""

from typing import Final

import msgspec
from msgspec.structs import replace

from wakeful.core.clock import Clock, Instant
from wakeful.core.decoding import json_decoder
from wakeful.core.ids import SessionId
from wakeful.healing.trouble import Trouble
from wakeful.incidents.critical_event import reason_of
from wakeful.judging.findings import Code
from wakeful.judging.summary import quiet_seconds
from wakeful.sessions.session import Watched
from wakeful.storage.base import Note, Store
from wakeful.storage.readable import values

KIND: Final = "trouble"
_decode: Final = json_decoder(Trouble)


class Troubles:
    """Written by the healer only."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._known: dict[SessionId, Trouble] = {}

    def __contains__(self, session_id: SessionId) -> bool:
        return session_id in self._known

    def get(self, session_id: SessionId) -> Trouble | None:
        return self._known.get(session_id)

    def ids(self) -> list[SessionId]:
        return list(self._known)

    async def load(self) -> None:
        """Take up what an earlier daemon left."""
        found = values(await self._store.notes(KIND), _decode)
        self._known = {each.session_id: each for each in found}

    async def of(self, watched: Watched, code: Code | None) -> Trouble:
        """Its trouble, begun or taken up again."""
        known = self._known.get(watched.subject.id)
        if known is None:
            return await self.keep(self._begun(watched, code))
        if known.code is code and known.calm_since is None and known.unclear_since is None:
            return known
        now = self._clock.now().wall
        again = replace(known, code=code, code_since=now, calm_since=None, unclear_since=None)
        if known.is_spent and known.calm_since is None:
            # The same failure in another shape: people know of it, and hear what comes of it.
            return await self.keep(again)
        return await self.keep(replace(again, logged=False, told=False))

    async def keep(self, trouble: Trouble) -> Trouble:
        if self._known.get(trouble.session_id) != trouble:
            await self._store.keep_note(Note(KIND, trouble.session_id, msgspec.json.encode(trouble)))
            self._known[trouble.session_id] = trouble
        return trouble

    async def drop(self, trouble: Trouble) -> None:
        """It is over."""
        self._known.pop(trouble.session_id, None)
        await self._store.drop_note(KIND, trouble.session_id)

    def _begun(self, watched: Watched, code: Code | None) -> Trouble:
        assert watched.record is not None, "judged before it is treated"
        session_id, now = watched.subject.id, self._clock.now().wall
        began = watched.activity.turn_since or watched.activity.last_at
        return Trouble(
            session_id=session_id,
            work=f"{session_id}@{began.wall if began is not None else now:.3f}",
            project=watched.record.project,
            code=code,
            opened_at=now,
            code_since=now,
        )


def reason_for(watched: Watched, code: Code | None, now: Instant) -> str:
    """Why, in the words of the log of critical events."""
    if code is None:
        return "lost"
    activity = watched.activity
    seconds = activity.active_seconds if code is Code.RUNAWAY else quiet_seconds(activity, now)
    return reason_of(code, seconds=seconds, errors=activity.errors_in_a_row)
