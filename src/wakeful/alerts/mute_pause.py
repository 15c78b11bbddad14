"""Mutes and the pause, kept in the store and answered from memory.

Several daemons may share one store, so it is read again twice a second: all actions stop within a second of a
pause. This module sends no alerts and takes no actions; the code that does asks it first.
"""

from collections.abc import Callable, Collection, Sequence
from typing import Final, TypeVar

import msgspec
from msgspec import Struct

from wakeful.alerts.model import Topic
from wakeful.alerts.mute_pause_model import (
    MUTE_SECONDS_MAX,
    Mute,
    MuteKind,
    Pause,
    PauseRecord,
    is_muted,
    mute_text,
    parse_target,
    pause_record,
    pause_text,
    project_name,
)
from wakeful.core.clock import Clock
from wakeful.core.decoding import decode_json
from wakeful.core.errors import OperatorError, WorldError
from wakeful.judging.session_record import SessionRecord, safe
from wakeful.storage.base import Note, Store

MUTE_KIND: Final = "mute"
PAUSE_KIND: Final = "pause"
_EVERYTHING: Final = "everything"
# All actions stop within a second, also if another daemon of the store got the command.
FOLLOW_SECONDS: Final = 0.5
# A person who muted a thousand things wants a pause, a project or a setting.
MUTES_MAX: Final = 1000
# An ended mute stays for a day, so that one that is just being renewed is not dropped.
ENDED_SECONDS_MAX: Final = 86_400.0
LINES_MAX: Final = 5
# The store holds something that this version cannot read: treat it as a pause.
_UNREADABLE: Final = Pause("somebody", 0.0, "written by another version of Wakeful")

S = TypeVar("S", bound=Struct)
PauseQuery = Callable[[], PauseRecord | None]
"""Who paused, for lists."""


class PauseNotSaved(WorldError):
    """Paused here and now, but not beyond a restart and for no other daemon: {reason}"""

    code = "pause-not-kept"
    retryable = True


class TooManyMutes(OperatorError):
    """There are {count} mutes already. Mute a project or a code instead, or `wakeful pause`."""

    code = "too-many-mutes"
    http_status = 409


class MutePause:
    """Mutes, and whether Wakeful may act by itself."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._stored_pause: Pause | None = None
        # A pause that holds here although a slow, full or missing store has not taken it.
        self._local_pause: Pause | None = None
        self._mutes: dict[str, Mute] = {}
        self._listeners: list[Callable[[], None]] = []
        # The number of writes; a read that a write overtook is discarded.
        self._write_count = 0

    def subscribe(self, listener: Callable[[], None]) -> None:
        """Call it whenever a pause begins or ends, also by another daemon on this store."""
        self._listeners.append(listener)

    @property
    def current_pause(self) -> Pause | None:
        """The last known pause."""
        return self._stored_pause or self._local_pause

    @property
    def current_pause_record(self) -> PauseRecord | None:
        return pause_record(self.current_pause)

    def pause_reason(self) -> str | None:
        """Why Wakeful may not act by itself now, for the action gate."""
        pause = self.current_pause
        return f"{pause_text(pause)}; `wakeful resume` ends it" if pause is not None else None

    async def reload(self) -> Pause | None:
        """Read mutes and pause from the store again, which other daemons may have changed.

        The daemon awaits it once at its start; with a shared store, `follow` repeats it. The gateway awaits it
        before it alerts its admins.
        """
        writings = self._write_count
        pauses, mutes = await self._store.notes(PAUSE_KIND), await self._store.notes(MUTE_KIND)
        if writings == self._write_count:
            self._set_pause(pause_from_notes(pauses), self._local_pause)
            self._mutes = {note.key: mute for note in mutes if (mute := _decode_note(note, Mute)) is not None}
        return self.current_pause

    async def follow(self) -> None:
        """Follow changes by other daemons of the store until cancelled."""
        while True:
            await self.reload()
            await self._clock.sleep(FOLLOW_SECONDS)

    async def pause(self, by: str, reason: str = "") -> bool:
        """Stop all automatic actions; False if already paused, and then that pause stays.

        Raises PauseNotSaved if it could not be stored; it holds in this process nevertheless.
        """
        pause = Pause(_person_name(by), self._clock.now().wall, safe(reason))
        held = self.current_pause or pause
        self._set_pause(self._stored_pause, held)
        try:
            is_new = await self._store.save_new_note(
                Note(PAUSE_KIND, _EVERYTHING, msgspec.json.encode(pause))
            )
        except WorldError as error:
            raise PauseNotSaved(reason=error) from error
        self._write_count += 1
        self._set_pause(held, None)
        if not is_new:
            # The store knows who was first, and whether the pause still holds.
            await self.reload()
        return is_new

    async def resume(self) -> bool:
        """Let Wakeful act again; False if it was not paused."""
        was_paused = await self._store.drop_note(PAUSE_KIND, _EVERYTHING) or self._local_pause is not None
        self._write_count += 1
        self._set_pause(None, None)
        return was_paused

    async def mute(self, kind: MuteKind, value: str, seconds: float, *, by: str, reason: str = "") -> Mute:
        """Mute alerts for a time; a newer mute replaces an older one. Raises NoSuchCode, NoMuteTarget, TooManyMutes."""
        assert 0 < seconds <= MUTE_SECONDS_MAX, "a mute ends, within 30 days"
        now = self._clock.now().wall
        mute = Mute(kind, parse_target(kind, value), now + seconds, _person_name(by), safe(reason))
        key = _key(mute.kind, mute.value)
        await self._drop_expired_mutes(key, now)
        await self._store.save_note(Note(MUTE_KIND, key, msgspec.json.encode(mute)))
        self._write_count += 1
        self._mutes[key] = mute
        return mute

    async def unmute(self, kind: MuteKind, value: str) -> bool:
        """False if it was not muted any more."""
        key = _key(kind, parse_target(kind, value))
        dropped = await self._store.drop_note(MUTE_KIND, key)
        self._write_count += 1
        mute = self._mutes.pop(key, None)
        return dropped and (mute is None or mute.is_active(self._clock.now().wall))

    def mutes(self, now: float) -> tuple[Mute, ...]:
        """The mutes in force at this wall time, the first to end first."""
        return tuple(sorted((each for each in self._mutes.values() if each.is_active(now)), key=_by_end))

    def is_muted(
        self, record: SessionRecord | None, codes: Collection[str], now: float, *, project: str | None = None
    ) -> bool:
        """Whether alerts about this are muted at this wall time; `project` is for alerts without a session.

        `codes` are all codes of the alert: the finding, and the cause behind it.
        """
        return any(
            is_muted(each, record, project, codes) for each in self._mutes.values() if each.is_active(now)
        )

    def is_topic_muted(self, topic: Topic) -> bool:
        """Whether alerts about something that is no session are muted now."""
        now, project = self._clock.now().wall, project_name(topic.project) if topic.project else None
        mutes = [each for each in self._mutes.values() if each.is_active(now)]
        return any(each.covers(topic.session_id, project, topic.codes) for each in mutes)

    def mute_lines(self, now: float) -> list[str]:
        """What is muted, for `status`; a few of many."""
        mutes = self.mutes(now)
        more = len(mutes) - LINES_MAX
        lines = [mute_text(each) for each in mutes[:LINES_MAX]]
        return [*lines, f"{more} more mutes: `wakeful mute` lists them"] if more > 0 else lines

    def _set_pause(self, stored: Pause | None, unstored: Pause | None) -> None:
        was_paused = self.current_pause is not None
        self._stored_pause, self._local_pause = stored, unstored
        if was_paused != (self.current_pause is not None):
            for listener in self._listeners:
                listener()

    async def _drop_expired_mutes(self, key: str, now: float) -> None:
        await self.reload()
        for ended in [each for each, mute in self._mutes.items() if mute.until < now - ENDED_SECONDS_MAX]:
            await self._store.drop_note(MUTE_KIND, ended)
            self._mutes.pop(ended, None)
        if key not in self._mutes and len(self._mutes) >= MUTES_MAX:
            raise TooManyMutes(count=len(self._mutes))


def pause_from_notes(notes: Sequence[Note]) -> Pause | None:
    return (_decode_note(notes[0], Pause) or _UNREADABLE) if notes else None


def _key(kind: MuteKind, value: str) -> str:
    return f"{kind}:{value}"


def _by_end(mute: Mute) -> tuple[float, str]:
    return mute.until, mute.value


def _person_name(by: str) -> str:
    return safe(by) or "somebody"


def _decode_note(note: Note, kind: type[S]) -> S | None:
    try:
        return decode_json(note.body, kind)
    except msgspec.DecodeError:
        return None
