"""The keyed pool: limits, order, eviction, and that no key gets what belongs to another."""

import sys
from collections import defaultdict
from collections.abc import Callable
from types import FrameType
from typing import Any

from hypothesis import settings, strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from wakeful.gateway.rules.messages import ConversationKey
from wakeful.gateway.rules.pool import EvictionReason, Next, Pool, PoolLimits

TraceFunction = Callable[[FrameType, str, Any], Any]


def key(number: int) -> ConversationKey:
    return ConversationKey(f"chat:{number}:thread:main")


def work(pool: Pool[str], number: int, now: float) -> Next[str]:
    """One item for this key, from its arrival to its end."""
    assert pool.add(key(number), f"item of {number}")
    taken = pool.next(now)
    assert taken is not None
    assert taken.key == key(number)
    pool.hold(taken.key, f"session-{number}", now)
    pool.done(taken.key, now)
    return taken


def test_the_twenty_fifth_key_takes_the_place_of_the_one_that_was_idle_longest() -> None:
    """24 are active at most; the least recently used one goes."""
    pool: Pool[str] = Pool()
    for number in range(24):
        assert work(pool, number, float(number)).evicted is None
    work(pool, 0, 24.0)
    evicted = work(pool, 24, 25.0).evicted
    assert evicted is not None
    assert (evicted.key, evicted.session_id, evicted.reason) == (
        key(1),
        "session-1",
        EvictionReason.LRU_LIMIT,
    )
    assert pool.active == 24


def test_a_busy_one_is_never_evicted_and_a_new_key_waits() -> None:
    """If all are busy, the next one begins as soon as one is done."""
    pool: Pool[str] = Pool(PoolLimits(active_max=2))
    for number in (1, 2, 3):
        pool.add(key(number), "x")
    assert [taken.key for taken in (pool.next(0), pool.next(0)) if taken] == [key(1), key(2)]
    pool.hold(key(1), "s1", 0)
    assert pool.next(1) is None
    pool.done(key(1), 2)
    third = pool.next(2)
    assert third is not None
    assert third.key == key(3)
    assert third.evicted is not None
    assert third.evicted.session_id == "s1"


def test_a_key_with_words_waiting_is_not_idle() -> None:
    """Between two of its items it is not evicted, neither by age nor for another."""
    pool: Pool[str] = Pool(PoolLimits(active_max=1, idle_seconds=10))
    work(pool, 1, 0)
    pool.add(key(1), "more")
    pool.add(key(2), "x")
    assert pool.expired(1000) == ()
    taken = pool.next(1000)
    assert taken is not None
    assert (taken.key, taken.session_id) == (key(1), "session-1")


def test_half_an_hour_of_idleness_ends_a_session_and_nothing_is_polled_for_it() -> None:
    """`next_check_at` is the moment the oldest idle one is due."""
    pool: Pool[str] = Pool()
    work(pool, 1, 100.0)
    work(pool, 2, 200.0)
    assert pool.next_check_at == 1900.0
    assert not pool.expired(1899.9)
    assert [(each.key, each.reason) for each in pool.expired(1900.0)] == [(key(1), EvictionReason.IDLE_TTL)]
    assert (pool.next_check_at, pool.keys()) == (2000.0, (key(2),))
    assert Pool[str]().next_check_at is None


def test_a_session_that_is_named_again_is_used_again() -> None:
    """It goes to the end of the line, by age and for room."""
    pool: Pool[str] = Pool()
    work(pool, 1, 100.0)
    work(pool, 2, 200.0)
    pool.hold(key(1), "session-1b", 300.0)
    assert pool.next_check_at == 2000.0
    assert [each.session_id for each in pool.expired(2100.0)] == ["session-2", "session-1b"]


def test_one_key_works_on_one_item_at_a_time_in_order() -> None:
    """A second item waits for the first, whatever other keys do."""
    pool: Pool[str] = Pool()
    pool.add(key(1), "a")
    pool.add(key(1), "b")
    pool.add(key(2), "c")
    first, second = pool.next(0), pool.next(0)
    assert first is not None
    assert second is not None
    assert (first.item, second.item, pool.next(0)) == ("a", "c", None)
    assert (pool.waiting(key(1)), pool.is_busy(key(1))) == (1, True)
    pool.done(key(1), 1)
    third = pool.next(1)
    assert third is not None
    assert third.item == "b"


def test_a_stop_drops_what_waits_and_a_restart_keeps_it() -> None:
    """Dropped items are returned to the caller, which reports them."""
    pool: Pool[str] = Pool()
    work(pool, 1, 0)
    work(pool, 2, 0)
    for number in (1, 2):
        pool.add(key(number), "later")
    stopped = pool.evict(key(1), EvictionReason.STOP, 1)
    assert stopped is not None
    assert (stopped.session_id, stopped.dropped) == ("session-1", ("later",))
    restarted = pool.evict(key(2), EvictionReason.RESTART, 1)
    assert restarted is not None
    assert (restarted.session_id, restarted.dropped, pool.waiting(key(2))) == ("session-2", (), 1)
    assert pool.evict(key(3), EvictionReason.STOP, 1) is None
    assert [each.reason for each in pool.evict_all(EvictionReason.STOP_ALL, 1)] == [EvictionReason.STOP_ALL]
    assert pool.keys() == ()


def test_a_queue_has_an_end() -> None:
    """A flood is refused beyond the limit, and nothing that was accepted is lost."""
    pool: Pool[str] = Pool(PoolLimits(queue_max=3))
    assert [pool.add(key(1), str(number)) for number in range(5)] == [True, True, True, False, False]
    assert pool.waiting(key(1)) == 3


def test_the_eviction_reasons_are_closed() -> None:
    """Dashboards depend on them."""
    assert {*EvictionReason} == {"idle_ttl", "lru_limit", "restart", "stop", "stop_all"}


class PoolMachine(RuleBasedStateMachine):
    """Any order of arrivals, ends, evictions and time, against a model of lists."""

    def __init__(self) -> None:
        super().__init__()
        self.pool: Pool[tuple[int, int]] = Pool(PoolLimits(active_max=3, idle_seconds=10))
        self.now = 0.0
        self.count = 0
        self.waiting: dict[int, list[tuple[int, int]]] = defaultdict(list)
        self.in_hand: set[int] = set()

    @rule(number=st.integers(0, 5))
    def arrive(self, number: int) -> None:
        self.count += 1
        assert self.pool.add(key(number), (number, self.count))
        self.waiting[number].append((number, self.count))

    @rule()
    def begin(self) -> None:
        taken = self.pool.next(self.now)
        if taken is None:
            ready = {number for number, items in self.waiting.items() if items} - self.in_hand
            assert all(not self.pool.session_of(key(number)) for number in ready)
            assert not ready or self.pool.active >= 3
            return
        number = taken.item[0]
        assert taken.key == key(number)
        assert number not in self.in_hand
        assert taken.item == self.waiting[number].pop(0)
        if taken.evicted is not None:
            self.check_evicted(taken.evicted.key)
        self.in_hand.add(number)
        self.pool.hold(taken.key, f"s{number}", self.now)

    @rule(number=st.integers(0, 5))
    def end(self, number: int) -> None:
        if number in self.in_hand:
            self.in_hand.remove(number)
            self.pool.done(key(number), self.now)

    @rule(seconds=st.floats(0, 20))
    def wait(self, seconds: float) -> None:
        self.now += seconds
        for evicted in self.pool.expired(self.now):
            self.check_evicted(evicted.key)
        due_at = self.pool.next_check_at
        assert due_at is None or due_at > self.now

    @rule(number=st.integers(0, 5), reason=st.sampled_from([EvictionReason.STOP, EvictionReason.RESTART]))
    def take_away(self, number: int, reason: EvictionReason) -> None:
        evicted = self.pool.evict(key(number), reason, self.now)
        if evicted is not None and reason is EvictionReason.STOP:
            assert list(evicted.dropped) == self.waiting.pop(number, [])
        assert self.pool.session_of(key(number)) == ""

    def check_evicted(self, evicted: ConversationKey) -> None:
        number = int(evicted.split(":")[1])
        assert number not in self.in_hand
        assert not self.waiting[number]

    @invariant()
    def bounded(self) -> None:
        assert self.pool.active <= 3
        seated = {each for each in self.pool.keys() if self.pool.session_of(each)}  # noqa: SIM118 - no mapping
        assert self.pool.active == len(seated | {key(number) for number in self.in_hand})


TestPoolMachine = PoolMachine.TestCase
TestPoolMachine.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)


def lines_of_a_touch(count: int) -> int:
    """How many lines run for one item in a pool of so many."""
    pool: Pool[str] = Pool(PoolLimits(active_max=count))
    for number in range(count):
        work(pool, number, 0.0)
    lines, pool_file = 0, Pool.next.__code__.co_filename

    def traced(frame: FrameType, event: str, _argument: object) -> TraceFunction:
        nonlocal lines
        # Whatever else runs in between, as what is called after garbage was collected, is not the pool's.
        lines += event == "line" and frame.f_code.co_filename == pool_file
        return traced

    before = sys.gettrace()
    sys.settrace(traced)
    try:
        work(pool, count, 1.0)
    finally:
        sys.settrace(before)
    return lines


def test_a_touch_costs_the_same_however_many_there_are() -> None:
    """Whatever is touched is found at once: a full pool of a thousand takes the steps of a full pool of ten."""
    assert lines_of_a_touch(1000) == lines_of_a_touch(10)
