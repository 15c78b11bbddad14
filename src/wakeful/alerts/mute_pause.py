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
    mute_words,
    parse_target,
    pause_record,
    pause_words,
    project_name,
)
from wakeful.core.clock import Clock
from wakeful.core.decoding import decode_json
from wakeful.core.errors import OperatorError, WorldError
from wakeful.judging.session_record import SessionRecord, safe
from wakeful.storage.base import Note, Store

MUTE: Final = "mute"
PAUSE: Final = "pause"
_EVERYTHING: Final = "everything"
# All acts stop within a second, also when it was another daemon of the store that was told.
FOLLOW_SECONDS: Final = 0.5
# Whoever muted a thousand things wants a pause, a project or a setting.
MUTES_MAX: Final = 1000
# An ended mute stays for a day, so that nobody forgets one that is just being made again.
ENDED_SECONDS_MAX: Final = 86_400.0
LINES_MAX: Final = 5
# Something is stored that this version cannot read: whoever stored it wanted quiet.
_UNREADABLE: Final = Pause("somebody", 0.0, "written by another version of Wakeful")

S = TypeVar("S", bound=Struct)
Paused = Callable[[], PauseRecord | None]
"""Who paused, for whoever lists something."""


class PauseNotKept(WorldError):
    """Paused here and now, but not beyond a restart and for no other daemon: {reason}"""

    code = "pause-not-kept"
    retryable = True


class TooManyMutes(OperatorError):
    """There are {count} mutes already. Mute a project or a code instead, or `wakeful pause`."""

    code = "too-many-mutes"
    http_status = 409


class Calm:
    """Who silenced what, and whether Wakeful may act by itself."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._stored: Pause | None = None
        # A pause that holds here while the store has not taken it, be it slow, full or gone.
        self._unstored: Pause | None = None
        self._mutes: dict[str, Mute] = {}
        # Called whenever a pause begins or ends, whoever was told of it.
        self.changed: Callable[[], None] = lambda: None
        # How often something was written; a reading that a writing overtook is not believed.
        self._writings = 0

    @property
    def paused(self) -> Pause | None:
        """The pause, as last heard."""
        return self._stored or self._unstored

    @property
    def paused_record(self) -> PauseRecord | None:
        return pause_record(self.paused)

    def forbids(self) -> str | None:
        """Why Wakeful may do nothing by itself now, for the act gate."""
        pause = self.paused
        return f"{pause_words(pause)}; `wakeful resume` ends it" if pause is not None else None

    async def current(self) -> Pause | None:
        """Read mutes and pause again: await it at the start and before every decision to act or to tell."""
        writings = self._writings
        pauses, mutes = await self._store.notes(PAUSE), await self._store.notes(MUTE)
        if writings == self._writings:
            self._hold(kept_pause(pauses), self._unstored)
            self._mutes = {note.key: mute for note in mutes if (mute := _decoded(note, Mute)) is not None}
        return self.paused

    async def follow(self) -> None:
        """Hear, for as long as this runs, what other daemons of the store are told."""
        while True:
            await self.current()
            await self._clock.sleep_until(self._clock.now().awake + FOLLOW_SECONDS)

    async def pause(self, by: str, reason: str = "") -> bool:
        """Stop everything Wakeful would do by itself; False if it was paused already, which stays as it is.

        Raises PauseNotKept if it could not be stored; it holds in this process all the same.
        """
        pause = Pause(_name(by), self._clock.now().wall, safe(reason))
        held = self.paused or pause
        self._hold(self._stored, held)
        try:
            is_new = await self._store.keep_new_note(Note(PAUSE, _EVERYTHING, msgspec.json.encode(pause)))
        except WorldError as error:
            raise PauseNotKept(reason=error) from error
        self._writings += 1
        self._hold(held, None)
        if not is_new:
            # Who was first, and whether it still holds, is what the store says.
            await self.current()
        return is_new

    async def resume(self) -> bool:
        """Let Wakeful act again; False if it was not paused."""
        was_paused = await self._store.drop_note(PAUSE, _EVERYTHING) or self._unstored is not None
        self._writings += 1
        self._hold(None, None)
        return was_paused

    async def mute(self, kind: MuteKind, value: str, seconds: float, *, by: str, reason: str = "") -> Mute:
        """Silence something for so long; the newest word about it counts. Raises NoSuchCode, NoTarget, TooManyMutes."""
        assert 0 < seconds <= MUTE_SECONDS_MAX, "a mute ends, within 30 days"
        now = self._clock.now().wall
        mute = Mute(kind, parse_target(kind, value), now + seconds, _name(by), safe(reason))
        key = _key(mute.kind, mute.value)
        await self._make_room(key, now)
        await self._store.keep_note(Note(MUTE, key, msgspec.json.encode(mute)))
        self._writings += 1
        self._mutes[key] = mute
        return mute

    async def unmute(self, kind: MuteKind, value: str) -> bool:
        """Let it be told again; False if it was not silenced any more."""
        key = _key(kind, parse_target(kind, value))
        dropped = await self._store.drop_note(MUTE, key)
        self._writings += 1
        mute = self._mutes.pop(key, None)
        return dropped and (mute is None or mute.holds(self._clock.now().wall))

    def mutes(self, now: float) -> tuple[Mute, ...]:
        """Those that hold at this wall time, the first to end first."""
        return tuple(sorted((each for each in self._mutes.values() if each.holds(now)), key=_end))

    def is_muted(
        self, record: SessionRecord | None, codes: Collection[str], now: float, *, project: str | None = None
    ) -> bool:
        """Whether nothing is to be told about this at this wall time; `project` is for what concerns no session.

        `codes` are all it is told under: what was found, and the cause behind it.
        """
        return any(is_muted(each, record, project, codes) for each in self._mutes.values() if each.holds(now))

    def hushes(self, topic: Topic) -> bool:
        """Whether nothing is to be told now about something that is no session of ours."""
        now, project = self._clock.now().wall, project_name(topic.project) if topic.project else None
        mutes = [each for each in self._mutes.values() if each.holds(now)]
        return any(each.covers(topic.session_id, project, topic.codes) for each in mutes)

    def lines(self, now: float) -> list[str]:
        """What is muted, for `status`; a few of many."""
        mutes = self.mutes(now)
        more = len(mutes) - LINES_MAX
        lines = [mute_words(each) for each in mutes[:LINES_MAX]]
        return [*lines, f"{more} more mutes: `wakeful mute` lists them"] if more > 0 else lines

    def _hold(self, stored: Pause | None, unstored: Pause | None) -> None:
        was_paused = self.paused is not None
        self._stored, self._unstored = stored, unstored
        if was_paused != (self.paused is not None):
            self.changed()

    async def _make_room(self, key: str, now: float) -> None:
        await self.current()
        for ended in [each for each, mute in self._mutes.items() if mute.until < now - ENDED_SECONDS_MAX]:
            await self._store.drop_note(MUTE, ended)
            self._mutes.pop(ended, None)
        if key not in self._mutes and len(self._mutes) >= MUTES_MAX:
            raise TooManyMutes(count=len(self._mutes))


def kept_pause(notes: Sequence[Note]) -> Pause | None:
    """The pause that the store's notes of this kind hold."""
    return (_decoded(notes[0], Pause) or _UNREADABLE) if notes else None


def _key(kind: MuteKind, value: str) -> str:
    return f"{kind}:{value}"


def _end(mute: Mute) -> tuple[float, str]:
    return mute.until, mute.value


def _name(by: str) -> str:
    return safe(by) or "somebody"


def _decoded(note: Note, kind: type[S]) -> S | None:
    try:
        return decode_json(note.body, kind)
    except msgspec.DecodeError:
        return None
