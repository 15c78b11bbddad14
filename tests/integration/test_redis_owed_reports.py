"""Reports of the queue watchdog that could not be written at once: each is written later, once."""

import asyncio
from errno import ENOSPC

from support.queue_app import CHAT, ISSUE, SESSION, QueueAppFixture
from support.redis_checks import check, taken
from wakeful.core.ids import SessionId
from wakeful.incidents.critical_event import CriticalEvent
from wakeful.incidents.issue_tracker import FilingResult, IssueReport
from wakeful.linux.clock import SystemClock
from wakeful.watchdog.loop import connect
from wakeful.watchdog.redis_queue import QueueIssueLedger
from wakeful.watchdog.rules import FAILURE_MESSAGE
from wakeful.watchdog.unfiled_issues import QueueIssueFallback


def test_what_a_full_disk_refused_is_written_later(bridge: QueueAppFixture) -> None:
    """Neither the revival nor the end of hope is missing in the log once it takes lines again; nothing is done twice."""
    is_full = [True]

    def write(event: CriticalEvent) -> None:
        if is_full[0]:
            raise OSError(ENOSPC, "No space left on device")
        bridge.critical.append(event)

    def cycle() -> None:
        is_full[0] = True
        check(bridge, write=write)
        is_full[0] = False
        check(bridge, times=2, write=write)

    bridge.active()
    cycle()
    assert bridge.outline() == [("session_unhealthy", "silent_for_15_minutes", "revival_attempted")]
    taken(bridge, "failed")
    cycle()
    assert [each[0] for each in bridge.outline()] == ["session_unhealthy", "revival_failed"]
    assert bridge.sent == [(CHAT, FAILURE_MESSAGE)]


def test_what_the_log_did_not_take_is_written_later(bridge: QueueAppFixture) -> None:
    """Held, stalled and unrouted: for some seconds nothing can be written, and no event is lost or doubled."""
    is_full = [True]

    def write(event: CriticalEvent) -> None:
        if is_full[0]:
            raise OSError(ENOSPC, "No space left on device")
        bridge.critical.append(event)

    bridge.active()
    bridge.call("git push origin main", 930.0, ended=False)
    bridge.run_job("tg_idle_1_2", project="idle", status="pending")
    bridge.run_job("tg_research_1_2", project="research", status="pending")
    check(bridge, write=write, active_projects=["popoto", "idle"])
    assert bridge.events == []
    is_full[0] = False
    check(bridge, times=3, write=write, active_projects=["popoto", "idle"])
    assert sorted((event, action) for event, _, action in bridge.outline()) == [
        ("message_unrouted", "none"),
        ("queue_stalled", "none"),
        ("session_unhealthy", "held_for_approval"),
    ]
    assert len(bridge.alerts) == 3


def test_an_issue_and_a_report_that_waits_for_one_do_not_share_a_name(bridge: QueueAppFixture) -> None:
    """`gh` takes one issue, then fails, then works: the address stays an address, and no message is sent twice."""

    async def run() -> tuple[list[str | None], list[str], dict[str, str]]:
        jobs = connect(bridge.server.url)
        ledger = QueueIssueLedger(jobs)
        forge, told = FlakyForge(), list[str]()

        async def tell(words: str) -> None:
            told.append(words)

        try:
            told_forge = QueueIssueFallback(forge, jobs, SystemClock(), tell)
            await ledger.record_filed("popoto", ISSUE)
            await told_forge.file(IssueReport("popoto", SessionId(SESSION), "silent", "", 1.0))
            seen = [await ledger.newest("popoto")]
            await told_forge.after_cycle()
            forge.works = True
            await told_forge.after_cycle()
            seen.append(await ledger.newest("popoto"))
            return seen, told, await jobs.episodes()
        finally:
            await jobs.close()

    seen, told, episodes = asyncio.run(run())
    assert seen == [ISSUE, ISSUE]
    assert len(told) == 2, told
    assert episodes == {"issue:popoto": ISSUE}


def test_a_report_that_an_earlier_version_kept_is_filed_and_no_address(bridge: QueueAppFixture) -> None:
    """Under the name of the issue lies a report: it is not an address, and is filed once `gh` works."""
    kept = '{"project":"popoto","session_id":"s1","reason":"silent","summary":"","duration_seconds":1.0}'

    async def run() -> tuple[str | None, list[str], dict[str, str]]:
        jobs = connect(bridge.server.url)
        forge, told = FlakyForge(), list[str]()

        async def tell(words: str) -> None:
            told.append(words)

        try:
            await jobs.set_episode("issue:popoto", kept)
            newest = await QueueIssueLedger(jobs).newest("popoto")
            forge.works = True
            told_forge = QueueIssueFallback(forge, jobs, SystemClock(), tell)
            await told_forge.after_cycle()
            await told_forge.after_cycle()
            return newest, told, await jobs.episodes()
        finally:
            await jobs.close()

    assert asyncio.run(run()) == (None, [], {})


class FlakyForge:
    """Takes nothing until it works."""

    works = False

    async def file(self, report: IssueReport) -> FilingResult:
        del report
        return FilingResult(ISSUE, "filed") if self.works else FilingResult(None, "gh: not logged in")


def test_a_watchdog_that_is_ended_while_it_writes_owed_events_loses_none(bridge: QueueAppFixture) -> None:
    """The log hangs, its program is ended: what was owed is still there for the next one, in its order."""
    bridge.run_job("tg_research_1_2", project="research", status="pending")
    bridge.run_job("tg_idle_1_2", project="idle", status="pending")

    def full(_event: CriticalEvent) -> None:
        raise OSError(ENOSPC, "No space left on device")

    check(bridge, write=full, active_projects=["popoto"])

    async def ended_inside() -> None:
        inside = asyncio.Event()

        async def hangs(_event: CriticalEvent) -> None:
            inside.set()
            await asyncio.Event().wait()

        watch = bridge.watch(write=hangs, active_projects=["popoto"])
        cycle = asyncio.create_task(watch.check())
        await asyncio.wait_for(inside.wait(), 10)
        cycle.cancel()
        await asyncio.gather(cycle, return_exceptions=True)
        await watch.close()

    asyncio.run(ended_inside())
    check(bridge, times=2, active_projects=["popoto"])
    told = [(event["event"], event["project_key"]) for event in bridge.events]
    assert sorted(told) == [("message_unrouted", "idle"), ("message_unrouted", "research")]
    at = [event["timestamp"] for event in bridge.events]
    assert at == sorted(at)


def test_that_a_session_recovered_is_not_lost_while_the_log_is_full(bridge: QueueAppFixture) -> None:
    """The next job works while nothing can be written: the line comes when it can."""
    is_full = [False]

    def write(event: CriticalEvent) -> None:
        if is_full[0]:
            raise OSError(ENOSPC, "No space left on device")
        bridge.critical.append(event)

    bridge.active()
    check(bridge, write=write)
    taken(bridge, "running")
    bridge.call("make test", -5.0)
    is_full[0] = True
    check(bridge, times=3, write=write)
    is_full[0] = False
    check(bridge, times=2, write=write)
    assert [each[0] for each in bridge.outline()] == ["session_unhealthy", "session_recovered"]


def test_two_watchdogs_at_once_write_each_owed_event_once(bridge: QueueAppFixture) -> None:
    """Both find the same list when the log is back: one of them writes it, whole and in its order."""
    projects = [f"project{number}" for number in range(5)]

    def full(_event: CriticalEvent) -> None:
        raise OSError(ENOSPC, "No space left on device")

    for project in projects:
        bridge.run_job(f"tg_{project}_1_2", project=project, status="pending")
    check(bridge, write=full, active_projects=["popoto"])

    async def both() -> None:
        watches = [bridge.watch(active_projects=["popoto"]) for _ in range(2)]
        await asyncio.gather(*(watch.check() for watch in watches))
        for watch in watches:
            await watch.close()

    asyncio.run(both())
    assert sorted(event["project_key"] for event in bridge.events) == projects
    at = [event["timestamp"] for event in bridge.events]
    assert at == sorted(at)
