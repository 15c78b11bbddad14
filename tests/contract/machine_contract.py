"""What every store promises to the machines that share it. An engine joins with a class and one fixture:

class TestMyMachines(MachineContract):
    @pytest.fixture
    def open_stores(self) -> OpenStores: ...   # one new, empty store, opened for machine ONE and for machine TWO
"""

from collections.abc import AsyncIterator, Awaitable, Callable

import pytest
from msgspec.structs import replace

from contract.lease_contract import CHAT, claimed, taken, work
from contract.store_contract import A, B, bookmark, change, conclusion, hosting, intent
from wakeful.core.leases import LeaseConflict, LeaseKey
from wakeful.core.machine import Machine
from wakeful.core.process import Process
from wakeful.storage.base import SHARED_NOTES, Note, SessionElsewhere, Store
from wakeful.testing.virtual_clock import VirtualClock

ONE = Machine("1" * 16, "boot of one", "one")
TWO = Machine("2" * 16, "boot of two", "two")

OpenStores = Callable[[Callable[[], float]], Awaitable[tuple[Store, Store]]]


class MachineContract:
    @pytest.fixture
    def open_stores(self) -> OpenStores:
        raise AssertionError("an engine says here how two machines open an empty store")

    @pytest.fixture
    def clock(self) -> VirtualClock:
        return VirtualClock()

    @pytest.fixture
    async def stores(
        self, open_stores: OpenStores, clock: VirtualClock
    ) -> AsyncIterator[tuple[Store, Store]]:
        one, two = await open_stores(lambda: clock.now().wall)
        yield one, two
        await one.close()
        await two.close()

    async def test_each_machine_has_its_own_record_of_a_session(self, stores: tuple[Store, Store]) -> None:
        """Both see a log in a shared home; each counts its own versions, and numbers never repeat."""
        one, two = stores
        assert await one.record([change(A, record=b"1"), change(A, record=b"2")]) == 2
        assert await two.record([change(A, at=2.0, record=b"other")]) == 3
        assert [(row.version, row.record) for row in await one.sessions()] == [(2, b"2")]
        assert [(row.version, row.record) for row in await two.sessions()] == [(1, b"other")]
        assert [each.seq for each in await one.transitions()] == [1, 2]
        assert [each.seq for each in await two.transitions(A)] == [3]
        assert [each.count for each in await two.transition_counts(0.0)] == [1]
        assert [each.at for each in await two.state_changes(0.0, 10)] == [2.0]
        await two.forget([A])
        assert await two.sessions() == []
        assert len(await one.sessions()) == 1

    async def test_turns_are_counted_by_the_machine_that_saw_them(self, stores: tuple[Store, Store]) -> None:
        """A report of one machine does not count a turn twice that both saw."""
        one, two = stores
        for store in stores:
            await store.record([replace(change(A, at=5.0), turn_ended_at=5.0)])
        assert [each.count for each in await one.finished_turns(0.0)] == [1]
        assert [each.count for each in await two.finished_turns(0.0)] == [1]

    async def test_retention_never_takes_the_record_of_another_machine(
        self, stores: tuple[Store, Store]
    ) -> None:
        """The newest transition of each machine's session is its only record."""
        one, two = stores
        await one.record([change(A, record=b"old"), change(A, record=b"kept")])
        await two.record([change(A, record=b"other")])
        await two.record([change(B, at=9.0)])
        assert await two.prune(5.0) == 1
        assert [row.record for row in await one.sessions()] == [b"kept"]

    async def test_what_lives_on_another_machine_is_named(self, stores: tuple[Store, Store]) -> None:
        """What it manages or saw alive, with its name; not what ended there, and nothing of this machine."""
        one, two = stores
        managed = hosting(B)
        await one.record([replace(change(A), alive=True), change(B)])
        await one.save_managed_session(managed)
        expected = [SessionElsewhere(A, "one"), SessionElsewhere(B, "one", managed)]
        assert sorted(await two.sessions_elsewhere(), key=lambda each: each.session_id) == expected
        assert await one.sessions_elsewhere() == []
        await one.record([change(A)])
        assert await two.sessions_elsewhere() == expected[1:]
        await one.drop_managed_session(B)
        assert await two.sessions_elsewhere() == []

    async def test_a_session_is_managed_by_one_machine(self, stores: tuple[Store, Store]) -> None:
        """The other can neither drop nor replace it, unless it claimed the conversation since."""
        one, two = stores
        await one.save_managed_session(hosting(A, epoch=3))
        assert await two.managed_sessions() == []
        assert not await two.drop_managed_session(A)
        await two.save_managed_session(hosting(A, epoch=3))
        assert await one.managed_sessions() == [hosting(A, epoch=3)]
        await two.save_managed_session(hosting(A, epoch=4))
        assert await two.managed_sessions() == [hosting(A, epoch=4)]
        assert await one.managed_sessions() == []
        await one.save_managed_session(hosting(A, epoch=3))
        assert await two.managed_sessions() == [hosting(A, epoch=4)]

    async def test_a_position_in_a_log_is_of_one_machine(self, stores: tuple[Store, Store]) -> None:
        """One path is two files on two machines."""
        one, two = stores
        await one.save_bookmarks([bookmark(offset=10)])
        await two.save_bookmarks([bookmark(offset=20)])
        assert await one.bookmarks() == [bookmark(offset=10)]
        await two.drop_bookmarks([bookmark().path])
        assert await two.bookmarks() == []
        assert await one.bookmarks() == [bookmark(offset=10)]

    async def test_an_open_intent_is_of_one_machine(self, stores: tuple[Store, Store]) -> None:
        """Only that machine can see what became of it. Its id is taken everywhere."""
        one, two = stores
        await one.save_intent(intent())
        assert await two.open_intents() == []
        assert not await two.save_intent(intent())
        assert await one.open_intents() == [intent()]
        assert await one.save_conclusion(conclusion())

    async def test_notes_are_of_one_machine(self, stores: tuple[Store, Store]) -> None:
        """Two machines may declare one agent: each has its own note about it."""
        one, two = stores
        await one.save_note(Note("agent", "bot", b"1"))
        assert await two.notes("agent") == []
        assert await two.note("agent", "bot") is None
        assert not await two.drop_note("agent", "bot")
        assert await two.save_new_note(Note("agent", "bot", b"2"))
        await two.save_new_notes([Note("agent", "bot", b"3"), Note("agent", "cat", b"3")])
        assert [each.body for each in await two.notes("agent")] == [b"2", b"3"]
        assert await one.notes("agent") == [Note("agent", "bot", b"1")]

    @pytest.mark.parametrize("kind", sorted(SHARED_NOTES))
    async def test_what_all_machines_agree_on_is_one_note(
        self, stores: tuple[Store, Store], kind: str
    ) -> None:
        """A pause on one machine is a pause on all."""
        one, two = stores
        assert await one.save_new_note(Note(kind, "x", b"1"))
        assert not await two.save_new_note(Note(kind, "x", b"2"))
        assert await two.notes(kind) == [Note(kind, "x", b"1")]
        assert await two.drop_note(kind, "x")
        assert await one.note(kind, "x") is None

    async def test_a_note_is_replaced_once(self, stores: tuple[Store, Store]) -> None:
        """Of two that saw the same note one replaces it."""
        one, two = stores
        old = Note("deed", "key", b"old")
        await one.save_note(old)
        assert await two.replace_note(old, Note("deed", "key", b"by two"))
        assert not await one.replace_note(old, Note("deed", "key", b"by one"))
        assert await one.note("deed", "key") == Note("deed", "key", b"by two")
        assert not await one.replace_note(Note("deed", "none", b""), Note("deed", "none", b"new"))

    async def test_a_budget_follows_its_notes(self, stores: tuple[Store, Store]) -> None:
        """Each machine resumes its own sessions once; an issue is filed once for all."""
        one, two = stores
        for kind, others in (("revival", True), ("issue", False)):
            note = Note(kind, "n", b"")
            assert await one.spend_budget("k", note, times_max=1, window_seconds=60.0)
            assert await two.spend_budget("k", note, times_max=1, window_seconds=60.0) is others
            assert await one.refund_budget("k", note)
            assert await one.spend_budget("k", note, times_max=1, window_seconds=60.0)

    async def test_an_attempt_expires_on_its_own_machine(
        self, stores: tuple[Store, Store], clock: VirtualClock
    ) -> None:
        """Only there it can be seen what became of its session."""
        one, two = stores
        await one.enqueue(work())
        await claimed(one, ttl_seconds=10.0)
        clock.advance(11.0)
        assert await two.next_expiry() is None
        assert await two.expire_runs() == []
        assert await one.next_expiry() is not None
        assert [each.work.id for each in await one.expire_runs()] == ["w-1"]

    async def test_a_task_of_a_session_is_left_to_its_machine(self, stores: tuple[Store, Store]) -> None:
        """A free lease is no permission to continue a conversation elsewhere; other tasks are for everybody."""
        one, two = stores
        await one.save_managed_session(hosting(CHAT))
        await one.enqueue(work(session_id=CHAT))
        await one.enqueue(work("w-2"))
        assert (await claimed(two)).work.id == "w-2"
        assert await two.claim_next_run("b") is None
        assert (await claimed(one)).work.id == "w-1"

    async def test_a_conversation_has_one_owner_on_all_machines(
        self, stores: tuple[Store, Store], clock: VirtualClock
    ) -> None:
        """Leases are common. The holder of another machine equals none of this one, whatever its pid."""
        one, two = stores
        here, there = (Process(7, 70, "boot", each.id) for each in (ONE, TWO))
        lease = await taken(one, holder=here)
        refused = await two.claim_lease(LeaseKey(CHAT), "b", instead_of=there)
        assert isinstance(refused, LeaseConflict)
        assert refused.holder == here
        clock.advance(61.0)
        assert (await taken(two)).epoch == lease.epoch + 1
        assert await one.renew_lease(LeaseKey(CHAT), lease.epoch) is None
