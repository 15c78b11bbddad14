"""Claims about time: sleeps are forgiven, a clock that is set never makes work look older than it is."""

from dataclasses import dataclass, field

import pytest
from hypothesis import example, given, strategies as st

from wakeful.core.clock import (
    JUMP_SECONDS_MIN,
    MARKS_MAX,
    ClockReading,
    Instant,
    Timeline,
    iso,
    latest,
)

START_WALL = 1_800_000_000.0
HOUR = 3600.0

# Seconds with the fractions a clock has, without those a float cannot hold beside a wall time.
passing = st.integers(0, 20_000_000).map(lambda milliseconds: milliseconds / 1000)
setting = st.integers(-20_000_000, 20_000_000).map(lambda milliseconds: milliseconds / 1000)


@dataclass
class Host:
    """A host whose clocks a test turns by hand, and which remembers when its records were really written."""

    monotonic: float = 5000.0
    wall: float = START_WALL
    boottime: float = 5000.0
    records: list[tuple[float, float]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.first = self.reading()
        self.timeline = Timeline(self.first)

    def reading(self) -> ClockReading:
        return ClockReading(self.wall, self.monotonic, self.boottime)

    def work(self, seconds: float) -> None:
        self.monotonic += seconds
        self.boottime += seconds
        self.wall += seconds

    def sleep(self, seconds: float) -> None:
        self.boottime += seconds
        self.wall += seconds

    def set_clock(self, by_seconds: float) -> None:
        self.wall += by_seconds

    def write(self) -> float:
        self.records.append((self.monotonic, self.wall))
        return self.wall

    def look(self) -> Instant:
        return self.timeline.observe(self.reading())

    def age(self, wall: float) -> float:
        """How old a stamp is now; the raw difference, so that a negative one would show."""
        return self.look().awake - self.timeline.instant(wall).awake


@dataclass(frozen=True)
class Step:
    """Work, write, jump, work, write, work, look: at most one jump between two readings."""

    before: float
    jump: float
    after: float
    late: float
    asleep: bool

    def take(self, host: Host) -> None:
        host.work(self.before)
        host.write()
        if self.asleep:
            host.sleep(abs(self.jump))
        else:
            host.set_clock(self.jump)
        host.work(self.after)
        host.write()
        host.work(self.late)
        host.look()


steps = st.lists(st.builds(Step, passing, setting, passing, passing, st.booleans()), max_size=12)
anything = st.floats(START_WALL - 1e9, START_WALL + 1e9)


def after(taken: list[Step], slept_before: float = 0.0) -> Host:
    host = Host(boottime=5000.0 + slept_before)
    for step in taken:
        step.take(host)
    return host


@given(steps, anything, anything)
def test_a_later_stamp_never_means_an_earlier_moment(taken: list[Step], one: float, other: float) -> None:
    """Order is kept whatever the clocks did."""
    timeline = after(taken).timeline
    assert timeline.instant(min(one, other)).awake <= timeline.instant(max(one, other)).awake


@given(steps, passing, st.lists(anything))
def test_an_age_is_never_negative_nor_longer_than_it_can_be(
    taken: list[Step], slept_before: float, stamps: list[float]
) -> None:
    """Any stamp is between now and as long ago as our whole watch plus its age when we began."""
    host = after(taken, slept_before)
    watched = host.monotonic - host.first.monotonic
    for wall in [*stamps, *(wall for _, wall in host.records)]:
        age_at_start = max(0.0, host.first.wall - wall)
        assert 0.0 <= host.age(wall) <= watched + age_at_start + 1e-3


@given(steps)
@example([Step(0.0, -1000.0, 1.0, 1.0, asleep=False)])
@example([Step(5000.0, -1000.0, 1.0, 1.0, asleep=False)])
@example([Step(0.0, 8 * HOUR, 5.0, 5.0, asleep=True), Step(HOUR, 0.0, 0.0, 0.0, asleep=False)])
def test_no_record_looks_older_than_it_is(taken: list[Step]) -> None:
    """Sleeping, setting the clock and looking late can only make a record look newer."""
    host = after(taken)
    for written, wall in host.records:
        truth = host.monotonic - written
        assert host.age(wall) <= truth + JUMP_SECONDS_MIN


@given(st.lists(st.tuples(passing, passing), max_size=12))
def test_sleeps_are_taken_out_and_nothing_else(nights: list[tuple[float, float]]) -> None:
    """With readings around each sleep an age is the awake time to the second, not merely a bound."""
    host = Host()
    for awake_seconds, asleep_seconds in nights:
        host.work(awake_seconds)
        host.write()
        host.look()
        host.sleep(asleep_seconds)
        host.look()
    for written, wall in host.records:
        assert host.age(wall) == pytest.approx(host.monotonic - written, abs=JUMP_SECONDS_MIN)


def test_a_record_written_between_waking_and_looking_grows_old_afterwards() -> None:
    """It counts as new when first seen, and an hour later it is an hour old."""
    host = Host()
    host.sleep(8 * HOUR)
    host.work(5)
    wall = host.write()
    host.work(5)
    assert host.age(wall) == 0.0
    host.work(HOUR)
    assert host.age(wall) == HOUR


def test_a_record_written_after_the_clock_was_set_back_is_new() -> None:
    """The reading always comes after the record; the record must not look as old as the setting."""
    host = Host()
    host.work(5000)
    host.look()
    host.set_clock(-1000)
    host.work(1)
    wall = host.write()
    host.work(1)
    assert host.age(wall) == pytest.approx(1.0)


def test_a_sleep_before_the_first_reading_is_forgiven_once() -> None:
    """A two-hour-old record on a host that slept ninety minutes of its life is thirty minutes old."""
    host = Host(boottime=5000.0 + 1.5 * HOUR)
    assert host.age(START_WALL - 2 * HOUR) == 0.5 * HOUR
    assert host.age(START_WALL - HOUR) == 0.0


def test_a_boot_clock_behind_the_steady_one_forgives_nothing() -> None:
    """Time namespaces shift the two apart; a negative sleep must not add to an age."""
    host = Host(boottime=1000.0)
    assert host.age(START_WALL - HOUR) == HOUR


def test_sleeps_beyond_the_memory_stay_forgiven() -> None:
    """After more sleeps than are remembered, the oldest record is still only as old as the awake time."""
    host = Host()
    oldest = host.write()
    for _ in range(MARKS_MAX + 50):
        host.work(60)
        host.sleep(HOUR)
        host.look()
    assert host.timeline.jumps == MARKS_MAX + 50
    assert host.age(oldest) <= host.monotonic - host.first.monotonic


def test_a_jump_below_two_seconds_is_none() -> None:
    """A leap second is no event."""
    host = Host()
    host.work(10)
    host.set_clock(-1)
    host.look()
    assert host.timeline.jumps == 0
    host.set_clock(-1)
    host.look()
    assert host.timeline.jumps == 1


def test_a_stamp_from_the_future_is_as_new_as_the_newest_reading() -> None:
    """Another host's wrong clock cannot postpone a deadline."""
    host = Host()
    host.work(10)
    now = host.look()
    ahead = host.timeline.instant(now.wall + HOUR)
    assert ahead.awake == now.awake
    assert now.seconds_since(now.plus(5)) == 0.0


@pytest.mark.parametrize(
    ("wall", "spelled"),
    [
        (0.0, "1970-01-01T00:00:00.000Z"),
        (1_794_770_246.9996, "2026-11-15T19:17:26.999Z"),
        (-6e10, "0068-09-03T13:20:00.000Z"),
        (-1e300, "0001-01-01T00:00:00.000Z"),
        (1e300, "9999-12-31T23:59:59.000Z"),
    ],
)
def test_times_have_one_spelling_even_when_absurd(wall: float, spelled: str) -> None:
    """Four digits, milliseconds, Z; a hostile stamp is spelled too instead of raising."""
    assert iso(wall) == spelled


def test_the_latest_of_nothing_is_nothing() -> None:
    """Missing moments do not count, and none at all is no error."""
    assert latest([None, Instant(2.0, 0.0), Instant(1.0, 9.0)]) == Instant(2.0, 0.0)
    assert latest([None]) is None
