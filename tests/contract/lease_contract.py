"""What every store promises about works, attempts and leases. An engine joins with a class and one fixture:

    class TestMyLeases(LeaseContract):
        @pytest.fixture
        def open_store(self) -> OpenTimedStore: ...   # each call opens a new, empty store on the given clock

Time is a VirtualClock: nothing here sleeps.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest
from hypothesis import settings
from hypothesis.stateful import run_state_machine_as_test
from msgspec import structs

from contract.lease_model import machine_for
from wakeful.core.ids import ConversationId, SessionId, parse_session_id
from wakeful.core.leases import (
    LEASE_ENDED,
    SUMMARY_CHARS_READ,
    Attempt,
    AttemptState,
    Lease,
    LeaseConflict,
    LeaseKey,
    Run,
    WorkId,
    WorkItem,
    WorkState,
)
from wakeful.core.managed_session import ManagedSession
from wakeful.core.process import Process
from wakeful.storage.base import Note, Store, StoreClosed
from wakeful.testing.virtual_clock import VirtualClock

OpenTimedStore = Callable[[Callable[[], float]], Awaitable[Store]]

CHAT = parse_session_id("claude-chat")
KEY = LeaseKey(CHAT)
HOLDER = Process(4321, 99, "this-boot")


def work(id_: str = "w-1", *, session_id: SessionId | None = None, **rest: Any) -> WorkItem:
    return WorkItem(WorkId(id_), rest.pop("project", "shop"), "mend it", session_id, "", 1.0, **rest)


async def claimed(store: Store, owner: str = "a", **rest: Any) -> Run:
    run = await store.claim_next_run(owner, **rest)
    assert run is not None
    return run


async def taken(store: Store, key: LeaseKey = KEY, owner: str = "a", **rest: Any) -> Lease:
    lease = await store.claim_lease(key, owner, **rest)
    assert isinstance(lease, Lease)
    return lease


async def state_of(store: Store) -> WorkState:
    found = await store.work(WorkId("w-1"))
    assert found is not None
    return found.state


class LeaseContract:
    @pytest.fixture
    def open_store(self) -> OpenTimedStore:
        raise AssertionError("an engine says here how to open an empty store on a clock")

    @pytest.fixture
    def clock(self) -> VirtualClock:
        return VirtualClock()

    @pytest.fixture
    async def store(self, open_store: OpenTimedStore, clock: VirtualClock) -> AsyncIterator[Store]:
        store = await open_store(lambda: clock.now().wall)
        yield store
        await store.close()

    async def test_a_new_store_has_no_work(self, store: Store) -> None:
        """Nothing is there that was not asked for."""
        assert await store.works() == []
        assert await store.leases() == []
        assert await store.claim_next_run("a") is None
        assert await store.expire_runs() == []
        assert await store.next_expiry() is None
        assert await store.work(WorkId("w-1")) is None
        assert await store.attempts(WorkId("w-1")) == []

    async def test_a_work_is_read_back_whole(self, store: Store) -> None:
        """Every field keeps its place, whatever is written in it."""
        prompt = "näïve ☃ \x1b[2J\x00 'quoted'\n" * 40_000
        given = WorkItem(
            WorkId("w-1"), "shop", prompt, CHAT, "con\x00text", 5.5, attempts_max=3, not_before=7.5
        )
        assert await store.enqueue(given)
        assert await store.work(given.id) == structs.replace(given, seq=1)

    async def test_a_work_is_made_once(self, store: Store) -> None:
        """A second work with the same id is refused, and the first one stays."""
        assert await store.enqueue(work())
        assert not await store.enqueue(work(project="other"))
        assert [each.project for each in await store.works()] == ["shop"]

    async def test_works_are_listed_oldest_first_in_pages(self, store: Store) -> None:
        """Pages joined by their last number give every work once; a state gives its own only."""
        for number in range(7):
            await store.enqueue(work(f"w-{number}"))
        await claimed(store)
        first = await store.works(limit=3)
        rest = await store.works(after=first[-1].seq)
        assert [each.id for each in first + rest] == [f"w-{number}" for number in range(7)]
        assert [each.id for each in await store.works(WorkState.RUNNING)] == ["w-0"]
        pending = await store.works(WorkState.PENDING, limit=2)
        assert [each.id for each in pending] == ["w-1", "w-2"]
        after = await store.works(WorkState.PENDING, after=pending[-1].seq, limit=2)
        assert [each.id for each in after] == ["w-3", "w-4"]

    async def test_lists_hold_summaries(self, store: Store) -> None:
        """A list of long prompts stays small; the work itself is whole."""
        await store.enqueue(structs.replace(work(), prompt="é" * 5000, context="c" * 5000))
        for listed in (await store.works(), await store.works(WorkState.PENDING)):
            assert [(each.prompt, each.context) for each in listed] == [("é" * SUMMARY_CHARS_READ, "")]

    async def test_the_oldest_work_is_claimed_first(self, store: Store) -> None:
        """The order is that of asking, not of the wall clock; a project claims its own."""
        await store.enqueue(structs.replace(work("w-1"), created_at=9.0))
        await store.enqueue(structs.replace(work("w-2", project="bank"), created_at=1.0))
        await store.enqueue(work("w-3", project="bank"))
        assert (await claimed(store, project="bank")).work.id == "w-2"
        assert (await claimed(store)).work.id == "w-1"
        assert await store.claim_next_run("a", project="nobody's") is None

    async def test_a_claim_gives_everything_its_owner_needs(self, store: Store, clock: VirtualClock) -> None:
        """The run holds the work as it stands now, the attempt, the epoch and the end of the lease."""
        await store.enqueue(work(session_id=CHAT))
        run = await claimed(store, "worker-1", ttl_seconds=30.0, holder=HOLDER)
        now = clock.now().wall
        begun = work(session_id=CHAT, state=WorkState.RUNNING, attempts=1, seq=1)
        assert run == Run(begun, 1, 1, "worker-1", now + 30.0)
        assert await store.leases() == [Lease(KEY, 1, "worker-1", now, now + 30.0, HOLDER)]
        assert await store.attempts(begun.id) == [
            Attempt(begun.id, 1, 1, "worker-1", AttemptState.RUNNING, now)
        ]

    async def test_work_is_claimed_when_it_is_due(self, store: Store, clock: VirtualClock) -> None:
        """Before its time a work is passed over, and others are not held up by it."""
        await store.enqueue(work("w-1", not_before=clock.now().wall + 10.0))
        await store.enqueue(work("w-2"))
        assert (await claimed(store)).work.id == "w-2"
        assert await store.claim_next_run("a") is None
        clock.advance(10.0)
        assert (await claimed(store)).work.id == "w-1"

    async def test_one_conversation_has_one_run(self, store: Store) -> None:
        """Works of one conversation run one after the other; those of others go on beside them."""
        for number in (1, 2):
            await store.enqueue(work(f"w-{number}", session_id=CHAT))
        await store.enqueue(work("w-3"))
        first = await claimed(store)
        assert (await claimed(store)).work.id == "w-3"
        assert await store.claim_next_run("a") is None
        assert await store.complete_run(first.work.id, first.epoch, "done")
        second = await claimed(store)
        assert (second.work.id, second.epoch) == ("w-2", first.epoch + 1)

    async def test_a_held_conversation_is_not_run(self, store: Store) -> None:
        """Claiming a conversation and claiming a run of it are the same lease, both ways."""
        await store.enqueue(work(session_id=CHAT))
        lease = await taken(store, owner="a person's terminal")
        assert await store.claim_next_run("a") is None
        assert await store.yield_lease(KEY, lease.epoch)
        run = await claimed(store, "worker")
        held = await store.claim_lease(KEY, "somebody")
        assert isinstance(held, LeaseConflict)
        assert held.owner == "worker"
        assert run.epoch == lease.epoch + 1

    async def test_of_many_claims_one_wins(self, store: Store) -> None:
        """However many ask at once, a run and a lease go to one of them."""
        await store.enqueue(work())
        runs = await asyncio.gather(*(store.claim_next_run(f"o{each}") for each in range(20)))
        assert len([run for run in runs if run is not None]) == 1
        leases = await asyncio.gather(*(store.claim_lease(KEY, f"o{each}") for each in range(20)))
        assert len([lease for lease in leases if isinstance(lease, Lease)]) == 1

    async def test_a_heartbeat_moves_the_end_of_the_lease(self, store: Store, clock: VirtualClock) -> None:
        """A run that is heard of is not expired, however long it takes."""
        await store.enqueue(work())
        run = await claimed(store, ttl_seconds=60.0)
        for _ in range(5):
            clock.advance(59.0)
            until = await store.heartbeat_run_lease(run.work.id, run.epoch, 60.0)
            assert until == clock.now().wall + 60.0 == await store.next_expiry()
            assert await store.expire_runs() == []

    async def test_a_run_that_falls_silent_expires(self, store: Store, clock: VirtualClock) -> None:
        """At the end of its lease an attempt expires; without budget its work has failed, and nothing repeats it."""
        await store.enqueue(work())
        run = await claimed(store, ttl_seconds=60.0)
        clock.advance(59.9)
        assert await store.expire_runs() == []
        clock.advance(0.1)
        assert await store.next_expiry() == clock.now().wall
        failed = structs.replace(run.work, state=WorkState.FAILED)
        assert await store.expire_runs() == [Run(failed, 1, run.epoch, "a", clock.now().wall)]
        assert await store.expire_runs() == []
        assert await store.next_expiry() is None
        (attempt,) = await store.attempts(run.work.id)
        assert (attempt.state, attempt.result, attempt.ended_at) == (
            AttemptState.EXPIRED,
            LEASE_ENDED,
            clock.now().wall,
        )
        assert await store.claim_next_run("b") is None
        assert await store.leases() == []

    async def test_a_budget_is_spent_attempt_by_attempt(self, store: Store, clock: VirtualClock) -> None:
        """Failed or expired, the work is pending again while it has attempts left; each has its own epoch."""
        await store.enqueue(work(attempts_max=3))
        first = await claimed(store)
        assert await store.fail_run(first.work.id, first.epoch, "no network") is WorkState.PENDING
        second = await claimed(store)
        clock.advance(60.0)
        (expired,) = await store.expire_runs()
        assert (expired.attempt, expired.work.state) == (2, WorkState.PENDING)
        third = await claimed(store)
        assert await store.fail_run(third.work.id, third.epoch, "again") is WorkState.FAILED
        assert [run.epoch for run in (first, second, third)] == [1, 2, 3]
        endings = [(each.number, each.state, each.result) for each in await store.attempts(first.work.id)]
        assert endings == [(1, "failed", "no network"), (2, "expired", LEASE_ENDED), (3, "failed", "again")]
        assert await store.claim_next_run("a") is None

    async def test_a_completed_run_is_over(self, store: Store) -> None:
        """The work is done, the result kept, the lease free and the epoch spent."""
        await store.enqueue(work(session_id=CHAT))
        run = await claimed(store)
        assert await store.complete_run(run.work.id, run.epoch, "mended\x00 ☃")
        assert await state_of(store) is WorkState.DONE
        assert [each.result for each in await store.attempts(run.work.id)] == ["mended\x00 ☃"]
        assert await store.leases() == []
        assert not await store.complete_run(run.work.id, run.epoch, "twice")
        assert await store.fail_run(run.work.id, run.epoch, "after all") is None
        assert await store.heartbeat_run_lease(run.work.id, run.epoch, 60.0) is None
        assert (await taken(store)).epoch == run.epoch + 1

    async def test_a_late_owner_changes_nothing(self, store: Store, clock: VirtualClock) -> None:
        """A worker that lost its lease to the next attempt learns it, and the new owner does not notice."""
        await store.enqueue(work(attempts_max=2))
        late = await claimed(store, "late")
        clock.advance(60.0)
        await store.expire_runs()
        new = await claimed(store, "new")
        before = (await store.leases(), await store.attempts(late.work.id), await store.work(late.work.id))
        assert await store.heartbeat_run_lease(late.work.id, late.epoch, 60.0) is None
        assert not await store.complete_run(late.work.id, late.epoch, "late")
        assert await store.fail_run(late.work.id, late.epoch, "late") is None
        assert not await store.yield_lease(late.work.lease_key, late.epoch)
        after = (await store.leases(), await store.attempts(late.work.id), await store.work(late.work.id))
        assert after == before
        assert await store.complete_run(new.work.id, new.epoch, "in time")

    async def test_a_taken_conversation_fences_its_run(self, store: Store, clock: VirtualClock) -> None:
        """Once another process has the conversation, the run can write nothing, even before it was expired."""
        await store.enqueue(work(session_id=CHAT))
        run = await claimed(store)
        clock.advance(60.0)
        lease = await taken(store, owner="somebody")
        assert await store.heartbeat_run_lease(run.work.id, run.epoch, 60.0) is None
        assert not await store.complete_run(run.work.id, run.epoch, "late")
        assert await store.next_expiry() == 0.0
        assert [each.work.state for each in await store.expire_runs()] == [WorkState.FAILED]
        assert [each.epoch for each in await store.leases()] == [lease.epoch]

    async def test_a_yielded_run_is_expired_at_once(self, store: Store) -> None:
        """A run whose conversation was given back is over, without waiting for its time."""
        await store.enqueue(work(session_id=CHAT))
        run = await claimed(store)
        assert await store.yield_lease(KEY, run.epoch)
        assert not await store.complete_run(run.work.id, run.epoch, "late")
        assert len(await store.expire_runs()) == 1

    async def test_time_alone_takes_nothing_away(self, store: Store, clock: VirtualClock) -> None:
        """Past its end a lease is renewed, and a run completed, as long as no other worker came."""
        await store.enqueue(work())
        run, lease = await claimed(store), await taken(store)
        clock.advance(3600.0)
        assert await store.renew_lease(KEY, lease.epoch, 60.0) == clock.now().wall + 60.0
        assert await store.complete_run(run.work.id, run.epoch, "after a nap")

    async def test_a_lease_is_taken_over_from_the_holder_that_is_named(self, store: Store) -> None:
        """Only from that very process, once, with the next epoch; a renewal by another holder ends that."""
        lease = await taken(store, owner="first", holder=HOLDER)
        stranger = Process(HOLDER.pid, HOLDER.started + 1, HOLDER.boot_id)
        assert isinstance(await store.claim_lease(KEY, "second", instead_of=stranger), LeaseConflict)
        next_one = await store.claim_lease(KEY, "second", holder=stranger, instead_of=HOLDER)
        assert isinstance(next_one, Lease)
        assert (next_one.epoch, next_one.holder) == (lease.epoch + 1, stranger)
        assert isinstance(await store.claim_lease(KEY, "third", instead_of=HOLDER), LeaseConflict)
        assert await store.renew_lease(KEY, next_one.epoch, holder=HOLDER) is not None
        assert isinstance(await store.claim_lease(KEY, "third", instead_of=stranger), LeaseConflict)
        assert (await store.leases())[0].holder == HOLDER

    async def test_a_lease_without_a_holder_is_taken_from_nobody(self, store: Store) -> None:
        """Without a named process none is dead."""
        await taken(store, owner="first")
        assert isinstance(await store.claim_lease(KEY, "second"), LeaseConflict)
        assert isinstance(await store.claim_lease(KEY, "second", instead_of=HOLDER), LeaseConflict)

    async def test_a_lease_is_refused_with_its_owner(self, store: Store, clock: VirtualClock) -> None:
        """The answer says who has it since when, never the epoch; the owner itself is refused too."""
        lease = await taken(store, owner="first", holder=HOLDER)
        clock.advance(30.0)
        for owner in ("second", "first"):
            held = await store.claim_lease(KEY, owner)
            assert held == LeaseConflict(KEY, "first", lease.since, lease.expires_at, HOLDER)
        clock.advance(30.0)
        assert (await taken(store, owner="second")).epoch == lease.epoch + 1

    async def test_an_epoch_never_falls_back(self, store: Store, clock: VirtualClock) -> None:
        """Given back, ended or with the clock set back: the next epoch is always one higher."""
        epochs = []
        for _ in range(3):
            lease = await taken(store)
            epochs.append(lease.epoch)
            assert await store.yield_lease(KEY, lease.epoch)
            assert not await store.yield_lease(KEY, lease.epoch)
            assert await store.renew_lease(KEY, lease.epoch, 60.0) is None
            clock.set_wall(clock.now().wall - 1000.0)
        assert epochs == [1, 2, 3]

    async def test_leases_are_apart_from_each_other(self, store: Store) -> None:
        """Every key has its own epoch and its own owner."""
        other = LeaseKey("codex-other")
        await store.yield_lease(KEY, (await taken(store)).epoch)
        mine, theirs = await taken(store, owner="a"), await taken(store, other, "b")
        assert (mine.epoch, theirs.epoch) == (2, 1)
        assert await store.leases() == [mine, theirs]
        assert not await store.yield_lease(other, mine.epoch)

    async def test_nobody_else_s_numbers_work(self, store: Store) -> None:
        """A work or epoch that never was is not held."""
        await store.enqueue(work())
        run = await claimed(store)
        for work_id, epoch in ((run.work.id, 2), (run.work.id, 0), (WorkId("w-9"), run.epoch)):
            assert await store.heartbeat_run_lease(work_id, epoch, 60.0) is None
            assert not await store.complete_run(work_id, epoch, "mine?")
            assert await store.fail_run(work_id, epoch, "mine?") is None
        assert await store.renew_lease(LeaseKey("nobody"), 1, 60.0) is None
        assert not await store.yield_lease(LeaseKey("nobody"), 1)
        assert await state_of(store) is WorkState.RUNNING

    async def test_a_closed_store_hands_out_nothing(self, store: Store) -> None:
        """After close every operation says so."""
        await store.close()
        refused: list[Callable[[], Awaitable[Any]]] = [
            lambda: store.enqueue(work()),
            lambda: store.work(WorkId("w-1")),
            store.works,
            lambda: store.attempts(WorkId("w-1")),
            lambda: store.claim_next_run("a"),
            lambda: store.heartbeat_run_lease(WorkId("w-1"), 1, 60.0),
            lambda: store.complete_run(WorkId("w-1"), 1, ""),
            lambda: store.fail_run(WorkId("w-1"), 1, ""),
            store.expire_runs,
            store.next_expiry,
            lambda: store.claim_lease(KEY, "a"),
            lambda: store.renew_lease(KEY, 1, 60.0),
            lambda: store.yield_lease(KEY, 1),
            store.leases,
        ]
        for operation in refused:
            with pytest.raises(StoreClosed):
                await operation()

    def test_leases_behave_like_a_few_dictionaries(self, open_store: OpenTimedStore) -> None:
        """Any sequence of claims, heartbeats, endings and hours gives the answers of the memory store."""
        modest = settings(max_examples=40, stateful_step_count=40, deadline=None)
        run_state_machine_as_test(machine_for(open_store), settings=modest)

    async def test_a_budget_comes_back_when_its_window_has_passed(self, open_store: OpenTimedStore) -> None:
        """What was spent longer ago than the window no longer counts."""
        clock = [1000.0]
        store = await open_store(lambda: clock[0])
        assert await store.spend_budget("work", Note("revival", "1", b""), times_max=1, window_seconds=60)
        clock[0] += 60
        assert await store.spend_budget("work", Note("revival", "2", b""), times_max=1, window_seconds=60)
        await store.close()

    async def test_a_session_is_hosted_anew_under_the_next_epoch(self, store: Store) -> None:
        """Claim and hosting move together; a process with the older epoch is refused and changes nothing."""
        lease = await store.claim_lease(LeaseKey("claude-a"), "us")
        assert isinstance(lease, Lease)
        first = ManagedSession(
            SessionId("claude-a"),
            ConversationId("a"),
            "claude",
            "/",
            ("claude",),
            lease.epoch,
            0.0,
            stopped=True,
            heir=SessionId("claude-heir"),
        )
        await store.save_managed_session(first)
        second = await store.reclaim_managed_session(first, "us")
        assert isinstance(second, ManagedSession)
        assert (second.epoch, second.is_ended) == (lease.epoch + 1, False)
        assert await store.managed_sessions() == [second]
        assert isinstance(await store.reclaim_managed_session(first, "somebody else"), LeaseConflict)
        assert await store.managed_sessions() == [second]
        assert await store.renew_lease(LeaseKey("claude-a"), second.epoch) is not None
