"""A machine that drives a store and a MemoryStore through the same claims and hours, and watches the epochs."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from wakeful.core.ids import parse_session_id
from wakeful.core.leases import Attempt, LeaseKey, WorkId, WorkItem
from wakeful.storage.base import Store
from wakeful.testing.memory_store import MemoryStore
from wakeful.testing.virtual_clock import VirtualClock

Act = Callable[[Store], Awaitable[Any]]

# Few of each, so that steps meet each other.
WORK_IDS = st.sampled_from([WorkId(each) for each in ("w-1", "w-2", "w-3", "w-4")])
CHATS = st.sampled_from([parse_session_id("a"), parse_session_id("b"), None])
KEYS = st.sampled_from([LeaseKey(each) for each in ("a", "b", "work/w-1")])
EPOCHS = st.integers(1, 4)
TTLS = st.sampled_from([10.0, 60.0])


class LeaseMachine(RuleBasedStateMachine):
    """Every step goes to both; their answers and what they hold must be equal."""

    def __init__(self, open_store: Callable[[Callable[[], float]], Awaitable[Store]]) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        self.clock = VirtualClock()
        self.model = MemoryStore(now=self._now)
        self.epochs: dict[LeaseKey, int] = {}

        async def opened() -> Store:
            return await open_store(self._now)

        self.store = self.runner.run(opened())

    def _now(self) -> float:
        return self.clock.now().wall

    def teardown(self) -> None:
        self.runner.run(self.store.close())
        self.runner.close()

    def both(self, act: Act) -> None:
        async def done() -> tuple[Any, Any]:
            return await act(self.store), await act(self.model)

        answer, expected = self.runner.run(done())
        assert answer == expected

    @rule(id_=WORK_IDS, chat=CHATS, attempts_max=st.integers(1, 3), delay=st.sampled_from([0.0, 30.0]))
    def enqueue(self, id_: WorkId, chat: Any, attempts_max: int, delay: float) -> None:
        work = WorkItem(
            id_, "p", "do", chat, "", 1.0, attempts_max=attempts_max, not_before=self._now() + delay
        )
        self.both(lambda store: store.enqueue(work))

    @rule(ttl=TTLS)
    def claim(self, ttl: float) -> None:
        self.both(lambda store: store.claim_next_run("a", ttl_seconds=ttl))

    @rule(id_=WORK_IDS, epoch=EPOCHS, ttl=TTLS)
    def heartbeat(self, id_: WorkId, epoch: int, ttl: float) -> None:
        self.both(lambda store: store.heartbeat_run_lease(id_, epoch, ttl))

    @rule(id_=WORK_IDS, epoch=EPOCHS)
    def complete(self, id_: WorkId, epoch: int) -> None:
        self.both(lambda store: store.complete_run(id_, epoch, "done"))

    @rule(id_=WORK_IDS, epoch=EPOCHS)
    def fail(self, id_: WorkId, epoch: int) -> None:
        self.both(lambda store: store.fail_run(id_, epoch, "no"))

    @rule()
    def expire(self) -> None:
        self.both(lambda store: store.expire_runs())

    @rule(key=KEYS, ttl=TTLS)
    def take(self, key: LeaseKey, ttl: float) -> None:
        self.both(lambda store: store.claim_lease(key, "b", ttl_seconds=ttl))

    @rule(key=KEYS, epoch=EPOCHS, ttl=TTLS)
    def renew(self, key: LeaseKey, epoch: int, ttl: float) -> None:
        self.both(lambda store: store.renew_lease(key, epoch, ttl))

    @rule(key=KEYS, epoch=EPOCHS)
    def give_back(self, key: LeaseKey, epoch: int) -> None:
        self.both(lambda store: store.yield_lease(key, epoch))

    @rule(seconds=st.sampled_from([5.0, 10.0, 60.0]))
    def wait(self, seconds: float) -> None:
        self.clock.advance(seconds)

    @invariant()
    def holds_the_same(self) -> None:
        self.both(lambda store: store.works())
        self.both(lambda store: store.leases())
        self.both(lambda store: store.next_expiry())
        self.both(every_attempt)

    @invariant()
    def epochs_never_fall(self) -> None:
        for lease in self.runner.run(self.store.leases()):
            assert lease.epoch >= self.epochs.get(lease.key, 0)
            self.epochs[lease.key] = lease.epoch


async def every_attempt(store: Store) -> list[list[Attempt]]:
    return [await store.attempts(work.id) for work in await store.works()]


def machine_for(
    open_store: Callable[[Callable[[], float]], Awaitable[Store]],
) -> type[LeaseMachine]:
    """A machine that opens its store by itself, as hypothesis wants it."""

    class Machine(LeaseMachine):
        def __init__(self) -> None:
            super().__init__(open_store)

    return Machine
