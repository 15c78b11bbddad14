"""Problems of sessions and the actions taken: in memory, each also a note in the store."""

from typing import Final

import msgspec
from msgspec.structs import replace

from wakeful.core.clock import Clock, Instant
from wakeful.core.decoding import json_decoder
from wakeful.core.ids import SessionId
from wakeful.healing.case import HealingCase
from wakeful.incidents.critical_event import reason_of
from wakeful.judging.findings import FindingCode
from wakeful.judging.summary import quiet_seconds
from wakeful.sessions.session import TrackedSession
from wakeful.storage.base import Note, Store
from wakeful.storage.note_decoding import decode_note_values

KIND: Final = "trouble"
_decode: Final = json_decoder(HealingCase)


class HealingCaseStore:
    """Written by the healer only."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._cases: dict[SessionId, HealingCase] = {}

    def __contains__(self, session_id: SessionId) -> bool:
        return session_id in self._cases

    def get(self, session_id: SessionId) -> HealingCase | None:
        return self._cases.get(session_id)

    def ids(self) -> list[SessionId]:
        return list(self._cases)

    async def load(self) -> None:
        """Take up what an earlier daemon left."""
        found = decode_note_values(await self._store.notes(KIND), _decode)
        self._cases = {each.session_id: each for each in found}

    async def get_or_open(self, session: TrackedSession, code: FindingCode | None) -> HealingCase:
        """Its trouble, begun or taken up again."""
        known = self._cases.get(session.subject.id)
        if known is None:
            return await self.save(self._new_case(session, code))
        if known.code is code and known.calm_since is None and known.unclear_since is None:
            return known
        now = self._clock.now().wall
        again = replace(known, code=code, code_since=now, calm_since=None, unclear_since=None)
        if known.is_budget_spent and known.calm_since is None:
            # The same failure in another shape: people know of it, and hear what comes of it.
            return await self.save(again)
        return await self.save(replace(again, logged=False, told=False))

    async def save(self, case: HealingCase) -> HealingCase:
        if self._cases.get(case.session_id) != case:
            await self._store.save_note(Note(KIND, case.session_id, msgspec.json.encode(case)))
            self._cases[case.session_id] = case
        return case

    async def drop(self, case: HealingCase) -> None:
        """It is over."""
        self._cases.pop(case.session_id, None)
        await self._store.drop_note(KIND, case.session_id)

    def _new_case(self, session: TrackedSession, code: FindingCode | None) -> HealingCase:
        assert session.record is not None, "judged before it is treated"
        session_id, now = session.subject.id, self._clock.now().wall
        began = session.activity.turn_since or session.activity.last_at
        return HealingCase(
            session_id=session_id,
            work=f"{session_id}@{began.wall if began is not None else now:.3f}",
            project=session.record.project,
            code=code,
            opened_at=now,
            code_since=now,
        )


def reason_for(session: TrackedSession, code: FindingCode | None, now: Instant) -> str:
    """Why, in the words of the log of critical events."""
    if code is None:
        return "lost"
    activity = session.activity
    seconds = activity.active_seconds if code is FindingCode.RUNAWAY else quiet_seconds(activity, now)
    return reason_of(code, seconds=seconds, errors=activity.errors_in_a_row)
