"""Issues through a `gh` of our own on the PATH: real processes, real arguments, and every trouble it can have."""

import asyncio
import os
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from support.fake_gh import StandInGh
from support.real_clients import wait_for
from wakeful.core.ids import SessionId
from wakeful.incidents.issue_tracker import FilingResult, IssueReport
from wakeful.integrations.github import (
    ISSUES_MAX,
    FileIssueLedger,
    GhIssueTracker,
    IssueLedger,
    StoreIssueLedger,
    marker_of,
)
from wakeful.storage.sqlite.store import SqliteStore
from wakeful.testing.memory_jobs import MemoryJobs
from wakeful.testing.memory_store import MemoryStore
from wakeful.watchdog.redis_queue import QueueIssueLedger

REPORT = IssueReport(
    project="shop",
    session_id=SessionId("tg_popoto_-5294327191_4469"),
    reason="silent_for_15_minutes",
    summary="no tool call since 09:45 UTC",
    duration_seconds=1500.0,
    calls=(("09:44:58", "Bash", "make test", "ok"), ("09:45:00", "Read", "a|b`c`", "error")),
)
FIRST = "https://github.com/me/shop/issues/1"
SECRET = "ghp_0123456789012345678901"


@pytest.fixture
def gh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> StandInGh:
    program = StandInGh(tmp_path / "gh")
    program.install(monkeypatch)
    return program


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore()


def forge(store: MemoryStore, **options: Any) -> GhIssueTracker:
    return GhIssueTracker(StoreIssueLedger(store), **{"repo": "me/shop", **options})


def filed(forge: GhIssueTracker, report: IssueReport = REPORT) -> FilingResult:
    return asyncio.run(forge.file(report))


def test_trouble_becomes_an_issue(gh: StandInGh, store: MemoryStore) -> None:
    """Visibility, open issues, creation: three questions, in the arguments gh knows; then the issue is there."""
    assert filed(forge(store)) == FilingResult(FIRST, "filed")
    (issue,) = gh.issues
    assert issue["title"] == "[Watchdog] shop: silent_for_15_minutes (tg_popoto_-5294327191_4469)"
    assert issue["mode"] == "0o600"
    for words in (
        "`tg_popoto_-5294327191_4469`",
        "`shop`",
        "25 min",
        "no tool call since",
        "| `Read` | `a¦b'c'` |",
    ):
        assert words in issue["body"]
    listed = ["issue", "list", "--repo", "me/shop", "--state", "open", "--json", "number,title,url,body"]
    assert gh.calls[1]["words"] == [*listed, "--limit", "200"]
    assert gh.commands == ["repo view", "issue list", "issue create"]
    body_file = Path(gh.calls[2]["words"][-1])
    assert not body_file.exists()


def test_an_open_issue_of_the_project_is_reused(gh: StandInGh, store: MemoryStore) -> None:
    """Found by prefix and hidden marker, whatever other issues are around it; the oldest one counts."""
    gh.add("[Watchdog] other: silent (x)", f"{marker_of('other')}\n")
    gh.add("Re: watchdog", f"{marker_of('shop')}\n")
    gh.add("[Watchdog] shop: silent (x)", f"words\n{marker_of('shop')}")
    gh.add("[Watchdog] shop: silent (y)", marker_of("shop"))
    assert filed(forge(store)) == FilingResult(
        "https://github.com/me/shop/issues/3", "an issue about this project is open"
    )
    assert "issue create" not in gh.commands


def test_one_is_created_an_hour_and_project(gh: StandInGh, tmp_path: Path) -> None:
    """Closed or not, no second one within the hour, by a restarted daemon either; other projects are free."""
    now = [1_800_000_000.0]

    async def scene(report: IssueReport) -> FilingResult:
        store = await SqliteStore.open(tmp_path / "wakeful.db", now=lambda: now[0])
        try:
            return await GhIssueTracker(StoreIssueLedger(store), repo="me/shop").file(report)
        finally:
            await store.close()

    assert asyncio.run(scene(REPORT)).url == FIRST
    gh.close(1)
    now[0] += 3599
    again = asyncio.run(scene(REPORT))
    assert (again.url, again.words) == (FIRST, "an issue about this project was filed within the last hour")
    assert len(gh.issues) == 1
    assert asyncio.run(scene(structs.replace(REPORT, project="bank"))).words == "filed"
    now[0] += 2
    assert asyncio.run(scene(REPORT)).words == "filed"
    assert len(gh.issues) == 3


@pytest.mark.parametrize("kind", ["store", "file", "queue"])
def test_all_projects_together_have_a_limit(gh: StandInGh, tmp_path: Path, kind: str) -> None:
    """Forty projects at once: ten issues and one summary, also for a restarted daemon; `gh` is not asked for each."""
    store, jobs = MemoryStore(), MemoryJobs()

    def ledger() -> IssueLedger:
        if kind == "store":
            return StoreIssueLedger(store)
        return FileIssueLedger(tmp_path / "issues.jsonl") if kind == "file" else QueueIssueLedger(jobs)

    async def flood(names: str) -> list[FilingResult]:
        forge = GhIssueTracker(ledger(), repo="me/shop")
        return await asyncio.gather(
            *(forge.file(structs.replace(REPORT, project=f"{names}{number}")) for number in range(20))
        )

    first, second = asyncio.run(flood("a")), asyncio.run(flood("b"))
    assert len(gh.issues) == ISSUES_MAX + 1
    (summary,) = [each["url"] for each in gh.issues if "issue limit reached" in each["title"]]
    assert [each.url for each in first + second].count(summary) == 40 - ISSUES_MAX
    assert gh.commands.count("issue list") < 20


async def test_two_sessions_of_a_project_at_once_are_one_issue(gh: StandInGh, store: MemoryStore) -> None:
    """The second waits for the first and finds its issue."""
    one = forge(store)
    assert {each.url for each in await asyncio.gather(*(one.file(REPORT) for _ in range(3)))} == {FIRST}
    assert len(gh.issues) == 1


def test_eight_processes_worth_of_forges_create_one_issue(gh: StandInGh, tmp_path: Path) -> None:
    """Without a store a file keeps the hour, also among forges that know nothing of each other."""
    path = tmp_path / "issues.jsonl"

    async def scene() -> list[FilingResult]:
        forges = [GhIssueTracker(FileIssueLedger(path), repo="me/shop") for _ in range(8)]
        return await asyncio.gather(*(each.file(REPORT) for each in forges))

    asyncio.run(scene())
    assert len(gh.issues) == 1
    gh.close(1)
    assert asyncio.run(GhIssueTracker(FileIssueLedger(path), repo="me/shop").file(REPORT)).url == FIRST
    assert len(gh.issues) == 1


@pytest.mark.parametrize(
    "make", [lambda _path, store: StoreIssueLedger(store), lambda path, _store: FileIssueLedger(path)]
)
def test_a_refused_creation_does_not_cost_the_hour(
    gh: StandInGh, store: MemoryStore, tmp_path: Path, make: Callable[[Path, MemoryStore], Any]
) -> None:
    """What surely was not created may be tried again at once."""
    one = GhIssueTracker(make(tmp_path / "issues.jsonl", store), repo="me/shop")
    gh.trouble("refuse", at="issue create")
    assert filed(one).url is None
    gh.trouble()
    assert filed(one).url == FIRST


@pytest.mark.parametrize(
    ("kind", "at", "words"),
    [
        ("logged out", "*", "Run `gh auth login`"),
        ("refuse", "issue list", "`gh issue list` failed: GraphQL: Could not resolve"),
        ("garbage", "repo view", "`gh repo view` gave an unexpected answer"),
        ("garbage", "issue list", "`gh issue list` gave an unexpected answer"),
        ("garbage", "issue create", "`gh issue create` gave an unexpected answer"),
        ("huge", "issue list", "more than 16,777,216 bytes"),
    ],
)
def test_a_trouble_of_gh_is_words(gh: StandInGh, store: MemoryStore, kind: str, at: str, words: str) -> None:
    """Nothing is filed, nothing is raised; one printable line without secrets says what to do."""
    gh.trouble(kind, at=at)
    filing = filed(forge(store))
    assert filing.url is None
    assert words in filing.words
    assert filing.words.isprintable()
    assert SECRET not in filing.words


def test_a_missing_gh_is_words(store: MemoryStore, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Also where the working directory has one: a relative PATH is not followed."""
    StandInGh(tmp_path / "here")
    monkeypatch.chdir(tmp_path / "here")
    monkeypatch.setenv("PATH", "bin:.")
    assert "it is not on the PATH" in filed(forge(store)).words


@pytest.mark.parametrize("at", ["repo view", "issue list", "issue create"])
def test_a_hung_gh_is_ended_with_all_it_started(gh: StandInGh, store: MemoryStore, at: str) -> None:
    """At the deadline the whole group is gone, and its text, too."""
    gh.trouble("hang", at=at)
    filing = filed(forge(store, deadline_seconds=1.0))
    assert filing == FilingResult(None, "`gh` did not answer within 1 s and was ended")
    for pid in gh.hung_pids:
        wait_for(partial(ended, pid), f"the end of {pid}")
    if at == "issue create":
        assert not Path(gh.calls[-1]["words"][-1]).exists()


def ended(pid: int) -> bool | None:
    return has_ended(pid) or None


def has_ended(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except (FileNotFoundError, ProcessLookupError):
        return True


async def test_nothing_else_waits_for_a_hung_gh(gh: StandInGh, store: MemoryStore) -> None:
    """The loop goes on, and a cancelled filing ends its gh."""
    gh.trouble("hang")
    task = asyncio.create_task(forge(store).file(REPORT))
    while not gh.calls:  # noqa: ASYNC110 - another process writes it
        await asyncio.sleep(0.01)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert all(has_ended(call["pid"]) for call in gh.calls)


def test_a_child_that_gh_leaves_behind_does_not_hold_the_answer(gh: StandInGh, store: MemoryStore) -> None:
    """It has our pipes and never ends: it is ended with gh, and the answer counts."""
    gh.trouble("leave a child", at="issue create")
    assert filed(forge(store, deadline_seconds=10.0)).url == FIRST


@pytest.mark.parametrize("visibility", ["PUBLIC", "SOMETHING NEW"])
def test_a_public_repository_must_be_allowed(gh: StandInGh, store: MemoryStore, visibility: str) -> None:
    """Whatever is not known to be closed is open, and gets nothing; allowed, it is not even asked about."""
    gh.visible(visibility)
    assert "Set github.public" in filed(forge(store)).words
    assert gh.commands == ["repo view"]
    assert filed(forge(store, public=True)).url == FIRST
    assert gh.commands == ["repo view", "issue list", "issue create"]


async def test_visibility_is_asked_once(gh: StandInGh, store: MemoryStore) -> None:
    """An answer is good for an hour."""
    gh.visible("INTERNAL")
    one = forge(store)
    await one.file(REPORT)
    await one.file(REPORT)
    assert gh.commands.count("repo view") == 1


def test_a_project_may_have_a_repository_of_its_own(gh: StandInGh, store: MemoryStore) -> None:
    """The last `=` divides; a project without any is not asked about, and said."""
    one = forge(store, repo="", repos=("a=b=me/first", "shop=me/second"))
    assert filed(one).url == "https://github.com/me/second/issues/1"
    assert filed(one, structs.replace(REPORT, project="a=b")).url == "https://github.com/me/first/issues/2"
    calls = len(gh.calls)
    assert "set github.repo" in filed(one, structs.replace(REPORT, project="bank\x1b[2J")).words
    assert one.wants("shop")
    assert not one.wants("bank")
    assert len(gh.calls) == calls


@pytest.mark.parametrize("repo", ["--web/x", "me/-x", "me", "me/shop/more", "https://x/y", "me/shop\n"])
def test_a_repository_that_reads_like_something_else_is_none(store: MemoryStore, repo: str) -> None:
    """Nothing that could be an option or another place reaches gh."""
    assert not forge(store, repo=repo).wants("shop")


def test_gh_is_asked_quietly(gh: StandInGh, store: MemoryStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """It may not prompt, and nothing makes it print headers."""
    monkeypatch.setenv("GH_DEBUG", "api")
    monkeypatch.setenv("GH_REPO", "someone/else")
    filed(forge(store))
    environ = gh.calls[0]["environ"]
    assert environ["GH_PROMPT_DISABLED"] == "1"
    assert not {"GH_DEBUG", "GH_REPO"} & set(environ)
    assert environ["PATH"] == os.environ["PATH"]


def test_hostile_names_reach_github_as_text(gh: StandInGh, store: MemoryStore) -> None:
    """A project named like an option, a mention or half a character makes an ordinary issue, found again."""
    hostile = structs.replace(
        REPORT, project="--web @everyone \udc80\n-->", summary="```\n</details> fixes #1\n````"
    )
    assert filed(forge(store), hostile).words == "filed"
    assert filed(forge(store), hostile).words == "an issue about this project is open"
    (issue,) = gh.issues
    assert issue["title"].startswith("[Watchdog] --web ")
    assert "@" not in issue["title"]
