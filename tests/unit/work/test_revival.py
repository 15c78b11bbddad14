"""Claims about work whose worker died: queued once more, never twice, never after a call that may have had effects."""

import asyncio
from typing import Any

import pytest

from support.recording_outbox import RecordingOutbox
from wakeful.alerts.model import Alert
from wakeful.alerts.notifier import Notifier
from wakeful.core.ids import SessionId
from wakeful.core.leases import Run, WorkId, WorkItem, WorkState
from wakeful.healing.plan import HealingRules
from wakeful.healing.rate_limit import RevivalLimiter
from wakeful.incidents.critical_event import CriticalEvent
from wakeful.incidents.service import Incidents
from wakeful.testing.memory_store import MemoryStore
from wakeful.testing.virtual_clock import VirtualClock, settle
from wakeful.work.expiry import WorkRevival

ONE = WorkId("w-one")


class RevivalFixture:
    """A store, its tasks, and workers that die."""

    def __init__(self, **rules: Any) -> None:
        self.clock = VirtualClock()
        self.store = MemoryStore(now=lambda: self.clock.now().wall)
        self.rules = HealingRules(**rules)
        self.events: list[CriticalEvent] = []
        self.limiter = RevivalLimiter(self.clock, 2.0, 10)
        self.outbox = RecordingOutbox(self.store, self.clock)
        self.calls: list[str] | None = []

    def reviver(self) -> WorkRevival:
        return WorkRevival(
            store=self.store,
            clock=self.clock,
            cut_off=lambda _session_id: self.calls,
            rules=lambda: self.rules,
            limiter=self.limiter,
            write=self._write,
            notifier=Notifier(self.outbox, Incidents(self.store, self.clock), self.clock),
        )

    async def _write(self, event: CriticalEvent) -> None:
        self.events.append(event)

    async def die(self, work_id: WorkId = ONE, **fields: Any) -> list[Run]:
        """A task is added unless it exists, claimed, and its worker sends no more heartbeats."""
        session_id = SessionId("claude-a")
        await self.store.enqueue(WorkItem(work_id, "shop", "do it", session_id, "", 1.0, **fields))
        while True:
            run = await self.store.claim_next_run("bob")
            assert run is not None, "something is pending"
            await self.clock.run_for(61)
            expired = await self.store.expire_runs()
            if run.work.id == work_id and expired[0].work.state is WorkState.FAILED:
                return expired

    async def see_to(self, runs: list[Run]) -> None:
        """One daemon hears of them, and ends."""
        reviver = self.reviver()
        task = asyncio.create_task(reviver.run())
        await settle()
        reviver.on_expired(runs)
        await settle()
        task.cancel()

    @property
    def alerts(self) -> list[Alert]:
        return self.outbox.alerts

    @property
    def actions(self) -> list[str]:
        return [str(each.action_taken) for each in self.events]


@pytest.fixture
async def scene() -> RevivalFixture:
    return RevivalFixture()


async def test_work_whose_worker_died_is_queued_once_more(scene: RevivalFixture) -> None:
    """With the same prompt and what the next one must know; a second death is given up."""
    await scene.see_to(await scene.die())
    again = await scene.store.work(WorkId("w-one-again"))
    assert again is not None
    assert (again.state, again.prompt, again.session_id) == (WorkState.PENDING, "do it", "claude-a")
    assert "an earlier attempt at this (w-one)" in again.context
    await scene.see_to(await scene.die(WorkId("w-one-again")))
    assert [each.id for each in await scene.store.works()] == ["w-one", "w-one-again"]
    assert scene.actions == ["revival_attempted", "none"]
    assert [str(each.event) for each in scene.events] == ["session_unhealthy", "revival_failed"]
    revived, given_up = (each.text for each in scene.alerts)
    assert revived.startswith("shop: its worker `bob` stopped sending heartbeats (lease_ended)")
    assert "Action: queued it again as w-one-again" in revived
    assert "gave up" in given_up


async def test_several_daemons_queue_it_once(scene: RevivalFixture) -> None:
    """The second daemon changes nothing and sends no alert."""
    runs = await scene.die()
    for _ in range(3):
        await scene.see_to(runs)
    assert len(await scene.store.works()) == 2
    assert len(scene.alerts) == 1


async def test_a_daemon_killed_before_it_could_revive_is_made_up_for(scene: RevivalFixture) -> None:
    """The next start finds recently expired tasks, and none that was failed or is long over."""
    await scene.die()
    await scene.see_to([])
    assert await scene.store.work(WorkId("w-one-again")) is not None
    await scene.die(WorkId("w-old"))
    await scene.clock.run_for(7200)
    await scene.see_to([])
    assert await scene.store.work(WorkId("w-old-again")) is None
    assert scene.actions == ["revival_attempted"]


async def test_a_call_cut_off_elsewhere_holds_it(scene: RevivalFixture) -> None:
    """Nothing is repeated that may have happened; the call is named."""
    scene.calls = ["Bash `git push` (remote)"]
    await scene.see_to(await scene.die())
    assert len(await scene.store.works()) == 1
    assert scene.actions == ["held_for_approval"]
    assert "git push" in scene.alerts[0].text


async def test_work_that_nobody_can_see_is_held(scene: RevivalFixture) -> None:
    """The effects of its worker before its death are unknown and may be remote."""
    scene.calls = None
    await scene.see_to(await scene.die())
    assert await scene.store.works(WorkState.PENDING) == []
    assert scene.actions == ["held_for_approval"]
    assert "its session and its actions are unknown" in scene.alerts[0].text


async def test_what_had_its_own_attempts_or_may_not_be_touched_is_only_told() -> None:
    """A budget that was asked for is the whole budget; a pause and mode `observe` stop everything."""
    cases: dict[str, tuple[dict[str, Any], int]] = {
        "its 2 attempts are used up": ({}, 2),
        "PAUSED by ada": ({"paused_by": "ada"}, 1),
        "the mode is observe": ({"mode": "observe"}, 1),
    }
    for words, (rules, attempts_max) in cases.items():
        scene = RevivalFixture(**rules)
        await scene.see_to(await scene.die(attempts_max=attempts_max))
        assert len(await scene.store.works()) == 1
        assert words in scene.alerts[0].text
