"""Clock interface and time values: awake seconds for thresholds, wall time for people.

`Instant.awake` is CLOCK_MONOTONIC, which stops while the host sleeps and never jumps. Log records have wall
time only; a `Timeline` translates it, and remembers every sleep and clock change it observed. Services get
the time of day and thresholds through `Clock`, which tests replace.
"""

from bisect import bisect_right
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from math import floor
from operator import attrgetter
from typing import Final, Protocol

from msgspec import Struct

# Linux slews both clocks alike, so their distance moves only when the host slept or the clock was set. Two
# seconds leave room for leap seconds and for a reading that was interrupted between two clocks.
JUMP_SECONDS_MIN: Final = 2.0
# A laptop that sleeps ten times a day fills this in a month; older jumps are then forgiven as one sum.
MARKS_MAX: Final = 256
# ISO 8601 covers the years 1 to 9999. Stamps come from other programs and may have any value.
_WALL_MIN: Final = -62_135_596_800.0
_WALL_MAX: Final = 253_402_300_799.0
_wall_of: Final = attrgetter("wall")
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


class Instant(Struct, frozen=True, order=True, gc=False):
    """One moment: `awake` orders and measures, `wall` is for people and for other programs."""

    awake: float
    wall: float

    def plus(self, seconds: float) -> "Instant":
        return Instant(self.awake + seconds, self.wall + seconds)

    def seconds_since(self, earlier: "Instant") -> float:
        """Awake seconds, never negative: a record from the future is new, not a reason to wait."""
        return max(0.0, self.awake - earlier.awake)


class ClockReading(Struct, frozen=True, gc=False):
    """The three clocks of the host, read together."""

    wall: float
    monotonic: float
    boottime: float

    @property
    def suspended_seconds(self) -> float:
        """Seconds this host has slept since it booted."""
        return self.boottime - self.monotonic


class Sleep(Struct, frozen=True, gc=False):
    """The host slept: nothing ran in between. `began` is the last reading before it."""

    began: Instant
    woke: Instant

    @property
    def seconds(self) -> float:
        return (self.woke.wall - self.began.wall) - (self.woke.awake - self.began.awake)


class Timeline:
    """Translates wall time to awake time across the sleeps and clock changes seen so far.

    A mark says which awake time belongs to which wall time from there on. Marks rise in both, so a later
    stamp never means an earlier moment. Where a stamp can mean two moments, because the clock was set or
    the jump fell between two readings, the newer one is taken: an age may come out too small, never too large.
    """

    def __init__(self, first: ClockReading) -> None:
        self.newest = Instant(first.monotonic, first.wall)
        self.jumps = 0
        # The last observed sleep. Setting the clock is not a sleep.
        self.last_sleep: Sleep | None = None
        self._suspended_seconds = first.suspended_seconds
        self._marks = [self.newest]
        # A sleep before the first reading has a known length but no known time: it is subtracted from every
        # earlier age. Inside a time namespace the difference can be negative and means nothing.
        self._forgiven_seconds = max(0.0, first.suspended_seconds)

    def observe(self, reading: ClockReading) -> Instant:
        """Record a reading of the clocks and return its instant. Call it whenever `now` is needed."""
        assert reading.monotonic >= self.newest.awake, "CLOCK_MONOTONIC went backwards"
        now = Instant(reading.monotonic, reading.wall)
        mark = self._marks[-1]
        jumped_seconds = (now.wall - mark.wall) - (now.awake - mark.awake)
        if abs(jumped_seconds) >= JUMP_SECONDS_MIN:
            self._mark(now, backwards=jumped_seconds < 0)
        if reading.suspended_seconds - self._suspended_seconds >= JUMP_SECONDS_MIN:
            self.last_sleep = Sleep(self.newest, now)
        self._suspended_seconds = reading.suspended_seconds
        self.newest = now
        return now

    def instant(self, wall: float) -> Instant:
        """The instant of a record stamped with wall time; never later than the newest reading."""
        oldest = self._marks[0]
        if wall < oldest.wall:
            age_seconds = max(0.0, oldest.wall - wall - self._forgiven_seconds)
            return Instant(oldest.awake - age_seconds, wall)
        after = bisect_right(self._marks, wall, key=_wall_of)
        mark = self._marks[after - 1]
        latest_possible = self._marks[after] if after < len(self._marks) else self.newest
        return Instant(min(mark.awake + (wall - mark.wall), latest_possible.awake), wall)

    def _mark(self, now: Instant, *, backwards: bool) -> None:
        """Begin a new stretch. The jump happened at an unknown time between the last reading and this one.

        Clock set back: records since the last reading may carry the new time, so the stretch begins at that
        reading; if it began now, they would look older by the whole jump. Clock moved forward: the stretch
        begins now, and records written since the jump count as written now.
        """
        self.jumps += 1
        since = self.newest.awake
        start = Instant(since, now.wall - (now.awake - since)) if backwards else now
        # After the start a stamp may come from either clock: the newer one counts.
        while self._marks and self._marks[-1].wall >= start.wall:
            self._marks.pop()
        self._marks.append(start)
        if len(self._marks) > MARKS_MAX:
            removed, oldest = self._marks[:2]
            self._forgiven_seconds += max(0.0, (oldest.wall - removed.wall) - (oldest.awake - removed.awake))
            del self._marks[0]


def iso(wall: float) -> str:
    """ISO 8601 in UTC with milliseconds and Z, the one spelling of time in every record."""
    if not _WALL_MIN <= wall <= _WALL_MAX:
        wall = _WALL_MIN if wall < _WALL_MIN else _WALL_MAX
    # Half a microsecond more: the nearest float to .732 may be below it.
    minutes, milliseconds = divmod(floor(wall * 1000 + 0.0005), 60_000)
    return f"{_minute(minutes)}:{milliseconds / 1000:06.3f}Z"


# Formatting dates was half of the cost of a record. A day has fewer minutes than this cache has entries.
@lru_cache(maxsize=2048)
def _minute(minutes: int) -> str:
    return (_EPOCH + timedelta(minutes=minutes)).isoformat()[:16]


def latest(instants: Iterable[Instant | None]) -> Instant | None:
    """The newest of those that exist."""
    newest = None
    for instant in instants:
        if instant is not None and (newest is None or instant > newest):
            newest = instant
    return newest


class Clock(Protocol):
    @property
    def last_sleep(self) -> Sleep | None:
        """The host's last sleep since this clock was made, if it slept."""

    def now(self) -> Instant:
        """This moment; also notices that the host slept or that its wall clock was set."""

    def instant(self, wall: float) -> Instant:
        """The moment of a log record that is stamped with wall time."""

    async def sleep(self, seconds: float) -> None:
        """Return after this many awake seconds."""

    async def sleep_until(self, awake: float) -> None:
        """Return once `now().awake` has reached `awake`."""
