"""Claims about a full disk: one alert, even if nothing can be written, and resolved when there is room."""

from support.healing_fixture import FakeIssueTracker, HealingFixture
from wakeful.core.errors import WorldError
from wakeful.healing.disk import FREE_BYTES_AGAIN, DiskWatch
from wakeful.incidents.issue_tracker import FilingResult, IssueReport
from wakeful.incidents.model import Cause
from wakeful.incidents.service import REOPEN_SECONDS
from wakeful.storage.base import Note
from wakeful.testing.memory_store import MemoryStore


class DiskFull(WorldError):
    """No space left."""

    code = "no-room"


class FullStore(MemoryStore):
    """Takes nothing while it is full."""

    full = False

    async def save_note(self, note: Note) -> None:
        self._refuse()
        await super().save_note(note)

    async def save_new_note(self, note: Note) -> bool:
        self._refuse()
        return await super().save_new_note(note)

    def _refuse(self) -> None:
        if self.full:
            raise DiskFull


class DiskSpace:
    """A disk with as much room as a test says."""

    folder = "/home/me/state"

    def __init__(self) -> None:
        self.free: int | None = FREE_BYTES_AGAIN

    def free_bytes(self) -> int | None:
        return self.free


class DiskFixture(HealingFixture):
    """A fixture whose disk can be full."""

    def build(self) -> None:
        super().build()
        self.room = DiskSpace()
        self.refused: str | None = None
        self.disk = DiskWatch(
            clock=self.clock,
            host="testhost",
            disk=self.room,
            store_problem=lambda: self.refused,
            incidents=self.incidents,
            notifier=self.notifier,
            tracker=self._forge,
        )


async def test_a_full_disk_is_one_incident_with_one_alert_and_an_end() -> None:
    """Sent and listed although the store accepts nothing; resolved when there is free space again, and no earlier."""
    store = FullStore()
    clinic = DiskFixture(store=store)
    async with clinic.open():
        await clinic.disk.check()
        store.full, clinic.room.free = True, 0
        for _ in range(3):
            await clinic.disk.check()
            await clinic.clock.run_for(5)
        (incident,) = await clinic.incidents.list_incidents()
        assert (incident.cause, incident.scope, incident.is_open) == (Cause.DISK, "testhost", True)
        (told,) = clinic.recorder.said
        assert told.startswith("the disk of testhost is full or not writable")
        assert told.endswith("→ df -h /home/me/state")
        clinic.room.free = FREE_BYTES_AGAIN - 1
        await clinic.disk.check()
        assert len(await clinic.incidents.list_incidents()) == 1
        store.full, clinic.room.free = False, FREE_BYTES_AGAIN
        await clinic.disk.check()
        await clinic.clock.run_for(REOPEN_SECONDS + 10)
        (over,) = await clinic.incidents.list_incidents(include_resolved=True)
        assert not over.is_open
    assert clinic.recorder.said[1].startswith("Resolved: the disk of testhost")
    assert clinic.recorder.said[1].endswith("there is free space again")


async def test_what_the_store_refuses_is_told_in_its_words() -> None:
    """A disk that is not full but still accepts nothing."""
    clinic = DiskFixture()
    async with clinic.open():
        clinic.refused = "state.db cannot be used (read-only)"
        await clinic.disk.check()
        await clinic.clock.run_for(1)
    assert "Where: state.db cannot be used (read-only)" in clinic.recorder.said[0]


async def test_sessions_that_fail_for_want_of_room_are_in_the_same_incident() -> None:
    """One alert for the disk and for them; it lasts until the last of them is well, too."""
    clinic = DiskFixture()
    async with clinic.open():
        clinic.room.free = 0
        await clinic.disk.check()
        clinic.start("a")
        clinic.fail("a", "ENOSPC: no space left on device")
        await clinic.clock.run_for(5)
        (incident,) = await clinic.incidents.list_incidents()
        assert incident.sessions == ("claude-a",)
        clinic.finish("a")
        await clinic.clock.run_for(5)
        assert len(await clinic.incidents.list_incidents()) == 1
        clinic.room.free = FREE_BYTES_AGAIN
        await clinic.disk.check()
        assert await clinic.incidents.list_incidents() == []
        await clinic.clock.run_for(REOPEN_SECONDS + 10)
    assert [each.partition(" ")[0] for each in clinic.recorder.said] == ["the", "Resolved:"]


class ForgetfulIssueTracker(FakeIssueTracker):
    """An issue tracker whose ledger is on the same disk."""

    def __init__(self, store: FullStore) -> None:
        super().__init__()
        self._store = store

    async def file(self, report: IssueReport) -> FilingResult:
        if self._store.full:
            raise DiskFull
        return await super().file(report)


async def test_a_full_disk_has_one_issue() -> None:
    """Filed when there is free space again if it could not be before; sessions that failed because of it share it."""
    store = FullStore()
    forge = ForgetfulIssueTracker(store)
    clinic = DiskFixture(store=store, forge=forge)
    async with clinic.open():
        store.full, clinic.room.free = True, 0
        for _ in range(3):
            await clinic.disk.check()
            await clinic.clock.run_for(5)
        assert (len(clinic.recorder.said), forge.reports) == (1, [])
        store.full, clinic.room.free = False, FREE_BYTES_AGAIN
        await clinic.disk.check()
        (over,) = await clinic.incidents.list_incidents(include_resolved=True)
        assert over.issue_url == "https://forge.example/testhost/1"
        await clinic.clock.run_for(REOPEN_SECONDS + 10)
        clinic.room.free = 0
        await clinic.disk.check()
        clinic.start("a")
        clinic.fail("a", "ENOSPC: no space left on device")
        await clinic.clock.run_for(5)
    assert [(each.project, each.reason) for each in forge.reports] == [("testhost", "disk")] * 2
