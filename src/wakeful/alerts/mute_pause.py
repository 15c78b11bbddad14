"""Mutes and the pause: stored, and answered from memory.

If several daemons share a store, it is read again twice a second: all actions stop within a second of a pause.
This module sends no alerts and takes no actions; the code that does asks it first.
"""

import asyncio
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
    active_mutes,
    mute_text,
    parse_target,
    pause_record,
    pause_text,
    project_name,
)
from wakeful.core.clock import Clock
from wakeful.core.decoding import decode_json
from wakeful.core.errors import OperatorError, WorldError
from wakeful.core.waiting import wait_for_event_or_deadline
from wakeful.judging.session_record import SessionRecord, safe
from wakeful.storage.base import Note, Store

MUTE_KIND: Final = "mute"
PAUSE_KIND: Final = "pause"
_EVERYTHING: Final = "everything"
# All actions stop within a second, also if another daemon of the store got the command.
FOLLOW_SECONDS: Final = 0.5
# The clock of the host may be set while a pause waits for its end.
WALL_CHECK_SECONDS: Final = 60.0
# A person who muted a thousand things wants a pause, a project or a setting.
MUTES_MAX: Final = 1000
# An ended mute stays for a day, so that a mute under renewal is not dropped.
ENDED_SECONDS_MAX: Final = 86_400.0
LINES_MAX: Final = 5
# A stored pause that this version cannot read counts as a pause.
_UNREADABLE: Final = Pause("an unknown person", 0.0, "written by another version of Wakeful")

S = TypeVar("S", bound=Struct)
PauseQuery = Callable[[], PauseRecord | None]
"""The current pause, for lists."""


class PauseNotSaved(WorldError):
    """Paused, but not stored: a restart or another daemon does not know this pause: {reason}"""

    code = "pause-not-kept"
    retryable = True


class TooManyMutes(OperatorError):
    """There are {count} mutes already. Mute a project or a code instead, or run `wakeful pause`."""

    code = "too-many-mutes"
    http_status = 409


class MutePause:
    """Mutes, and whether Wakeful may act by itself."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._stored_pause: Pause | None = None
        # A pause that applies here although a slow, full or missing store did not accept it.
        self._local_pause: Pause | None = None
        self._mutes: dict[str, Mute] = {}
        self._listeners: list[Callable[[], None]] = []
        # The number of writes: a read is discarded if a write happened meanwhile.
        self._write_count = 0
        self._pause_changed = asyncio.Event()

    def subscribe(self, listener: Callable[[], None]) -> None:
        """Call it whenever a pause begins or ends, also by another daemon on this store."""
        self._listeners.append(listener)

    @property
    def current_pause(self) -> Pause | None:
        """The last known pause, until its time is over."""
        pause = self._known_pause
        return None if pause is None or pause.has_ended(self._clock.now().wall) else pause

    @property
    def _known_pause(self) -> Pause | None:
        return self._stored_pause or self._local_pause

    @property
    def current_pause_record(self) -> PauseRecord | None:
        return pause_record(self.current_pause)

    def pause_reason(self) -> str | None:
        """Why Wakeful may not act by itself now, for the action gate."""
        pause = self.current_pause
        return f"{pause_text(pause)}; `wakeful unpause` ends it" if pause is not None else None

    async def reload(self) -> Pause | None:
        """Read mutes and pause from the store again, which other daemons may have changed."""
        write_count = self._write_count
        pauses, mutes = await self._store.notes(PAUSE_KIND), await self._store.notes(MUTE_KIND)
        if write_count == self._write_count:
            self._set_pause(pause_from_notes(pauses), self._local_pause)
            self._mutes = {note.key: mute for note in mutes if (mute := _decode_note(note, Mute)) is not None}
        return self.current_pause

    async def follow(self) -> None:
        """Follow changes by other daemons of the store until cancelled."""
        while True:
            await self.reload()
            await self._clock.sleep(FOLLOW_SECONDS)

    async def end_on_time(self) -> None:
        """End each pause when its time is over, until cancelled."""
        while True:
            self._pause_changed.clear()
            pause, now = self._known_pause, self._clock.now()
            if pause is None or pause.until is None:
                await self._pause_changed.wait()
            elif pause.has_ended(now.wall):
                await self.resume()
            else:
                due_awake = now.awake + min(pause.until - now.wall, WALL_CHECK_SECONDS)
                await wait_for_event_or_deadline(self._clock, self._pause_changed, due_awake)

    async def pause(self, by: str, reason: str = "", seconds: float | None = None) -> bool:
        """Stop all automatic actions, for a time if `seconds` says so; False if already paused, and then that pause stays.

        Raises PauseNotSaved if it could not be stored; it applies in this process nevertheless.
        """
        now = self._clock.now().wall
        until = now + seconds if seconds is not None else None
        if self.current_pause is None and self._known_pause is not None:
            # Its time is over, and the store does not know that yet.
            await self.resume()
        pause = Pause(_person_name(by), now, safe(reason), until)
        current = self.current_pause or pause
        self._set_pause(self._stored_pause, current)
        try:
            is_new = await self._store.save_new_note(
                Note(PAUSE_KIND, _EVERYTHING, msgspec.json.encode(pause))
            )
        except WorldError as error:
            raise PauseNotSaved(reason=error) from error
        self._write_count += 1
        self._set_pause(current, None)
        if not is_new:
            # The store has the first pause, which may have ended meanwhile.
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
        return active_mutes(self._mutes.values(), now)

    def is_muted(self, record: SessionRecord, codes: Collection[str], now: float) -> bool:
        """Whether alerts about this session are muted at this wall time.

        `codes` are all codes of the alert: the finding, and the cause behind it.
        """
        return self._is_muted(record.id, record.project, codes, now)

    def is_topic_muted(self, topic: Topic) -> bool:
        """Whether alerts with this topic are muted now."""
        project = project_name(topic.project) if topic.project else None
        return self._is_muted(topic.session_id, project, topic.codes, self._clock.now().wall)

    def _is_muted(
        self, session_id: str | None, project: str | None, codes: Collection[str], now: float
    ) -> bool:
        mutes = self._mutes.values()
        return any(each.is_active(now) and each.covers(session_id, project, codes) for each in mutes)

    def mute_lines(self, now: float) -> list[str]:
        """The first few mutes, for `status`."""
        mutes = self.mutes(now)
        more = len(mutes) - LINES_MAX
        lines = [mute_text(each) for each in mutes[:LINES_MAX]]
        return [*lines, f"{more} more mutes: `wakeful mute` lists them"] if more > 0 else lines

    def _set_pause(self, stored: Pause | None, unstored: Pause | None) -> None:
        was_paused, before = self._known_pause is not None, self._known_pause
        self._stored_pause, self._local_pause = stored, unstored
        if before != self._known_pause:
            self._pause_changed.set()
        if was_paused != (self._known_pause is not None):
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


def _person_name(by: str) -> str:
    return safe(by) or "an unknown person"


def _decode_note(note: Note, kind: type[S]) -> S | None:
    try:
        return decode_json(note.body, kind)
    except msgspec.DecodeError:
        return None
