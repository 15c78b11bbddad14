"""Reports that could not be filed: stored across restarts, reported once, and filed when the issue tracker
works again."""

import asyncio
from collections.abc import Callable

from wakeful.core.ids import SessionId
from wakeful.incidents.issue_tracker import FilingResult, IssueReport
from wakeful.incidents.issues import PENDING_KIND, RETRY_SECONDS, Issues
from wakeful.testing.memory_store import MemoryStore
from wakeful.testing.virtual_clock import VirtualClock


def report(project: str = "shop", reason: str = "silent") -> IssueReport:
    return IssueReport(project, SessionId("claude-1"), reason, "", 60.0)


class ScriptedIssueTracker:
    """Files everything while it works, and records it."""

    def __init__(self) -> None:
        self.works = False
        self.given: list[IssueReport] = []
        self.filed: list[tuple[str, str]] = []
        self.takes: Callable[[], None] = lambda: None

    async def file(self, report: IssueReport) -> FilingResult:
        self.given.append(report)
        self.takes()
        if not self.works:
            return FilingResult(None, "down")
        url = f"https://github.com/me/{report.project}/issues/1"
        self.filed.append((report.reason, url))
        return FilingResult(url, "filed")


class IssuesFixture:
    """The service with everything it tells."""

    def __init__(self) -> None:
        self.forge = ScriptedIssueTracker()
        self.store = MemoryStore()
        self.clock = VirtualClock()
        self.told: list[str] = []
        self.issues = self.restarted()

    def restarted(self) -> Issues:
        return Issues(
            self.forge,
            self.store,
            self.clock,
            wants=lambda name: name != "nobody's",
            tell=self.tell,
            works=self.works,
        )

    async def works(self) -> None:
        self.told.append("works again")

    async def tell(self, words: str) -> None:
        self.told.append(words)


async def test_a_forge_that_is_down_is_said_once_and_tried_again() -> None:
    """Three failures are one word to a person; the newest report of each project is filed later, after a restart too."""
    at = IssuesFixture()
    await at.issues.file(report())
    await at.issues.file(report(reason="loop"))
    await at.issues.file(report("bank"))
    assert at.told == ["down"]
    at.issues = at.restarted()
    assert await at.issues.retry() == 0
    at.forge.works = True
    assert await at.issues.retry() == 2
    assert at.forge.filed == [
        ("silent", "https://github.com/me/bank/issues/1"),
        ("loop", "https://github.com/me/shop/issues/1"),
    ]
    assert await at.store.notes(PENDING_KIND) == []
    at.forge.works = False
    await at.issues.file(report())
    assert at.told == ["down", "works again", "down"]


async def test_what_is_filed_is_owed_no_more() -> None:
    """A new problem of the project that gets its issue settles the old one."""
    at = IssuesFixture()
    await at.issues.file(report())
    at.forge.works = True
    assert (await at.issues.file(report())).words == "filed"
    assert (await at.issues.retry(), len(at.forge.filed)) == (0, 1)


async def test_a_project_nobody_files_for_is_no_trouble() -> None:
    """Without a repository nothing is pending and no alert is sent."""
    at = IssuesFixture()
    assert (await at.issues.file(report("nobody's"))).url is None
    assert (at.told, await at.store.notes(PENDING_KIND)) == ([], [])


async def test_it_tries_again_by_itself() -> None:
    """Every ten minutes, in the clock's time."""
    at = IssuesFixture()
    await at.issues.file(report())
    running = asyncio.create_task(at.issues.run())
    at.forge.works = True
    await asyncio.sleep(0)
    await at.clock.run_for(RETRY_SECONDS + 1)
    assert len(at.forge.filed) == 1
    running.cancel()


async def test_nobody_waits_twice_for_a_forge_that_hangs() -> None:
    """The first one spends its deadline; until it is tried again, the others go on at once and are filed later."""
    at = IssuesFixture()
    at.forge.takes = lambda: at.clock.advance(20.0)
    await at.issues.file(report())
    began = at.clock.now().awake
    words = (await at.issues.file(report("bank"))).words
    assert (at.clock.now().awake, words) == (began, "down; Wakeful tries again later")
    at.forge.takes, at.forge.works = (lambda: None), True
    assert await at.issues.retry() == 2
    assert (await at.issues.file(report("pets"))).words == "filed"
