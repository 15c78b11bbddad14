"""The seven claims about the watchdog's library, and what it promises about time and callbacks, in virtual time."""

import asyncio
import inspect
import json
import subprocess
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

import wakeful
from support.fake_gh import StandInGh
from support.no_session_files import NoSessionFiles
from wakeful.core.errors import OperatorError
from wakeful.core.ids import SessionId
from wakeful.healing.plan import HealingRules
from wakeful.healing.rate_limit import RevivalLimiter
from wakeful.incidents.critical_event import CriticalEvent
from wakeful.incidents.issue_tracker import BreakingIssueTracker, FilingResult, IssueReport, IssueTracker
from wakeful.testing.memory_jobs import MemoryJobs
from wakeful.testing.virtual_clock import VirtualClock, settle
from wakeful.watchdog import api as session_watchdog
from wakeful.watchdog.api import (
    assess_session_health,
    create_investigation_issue,
    read_recent_tool_calls,
)
from wakeful.watchdog.callbacks import Callbacks
from wakeful.watchdog.loop import RedisWatch
from wakeful.watchdog.parts import HealingControls, WatchSettings
from wakeful.watchdog.queue import Job, QueueAttempt, QueuedSession
from wakeful.watchdog.rules import FAILURE_MESSAGE
from wakeful.watchdog.unfiled_issues import QueueIssueFallback

SESSION = SessionId("tg_popoto_-5294327191_4469")


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


def entry(kind: str, seconds: float, **fields: Any) -> dict[str, Any]:
    stamp = {"start_time": seconds} if kind == "pre_tool_use" else {"end_time": seconds}
    return {
        "event": kind,
        "tool_name": "Bash",
        "tool_input": {"command": f"make {seconds}"},
        **stamp,
        **fields,
    }


def write(logs: Path, *entries: dict[str, Any]) -> None:
    folder = logs / SESSION
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "tool_use.jsonl").write_text("".join(json.dumps(each) + "\n" for each in entries))


def call(at: float, *, failed: bool = False) -> list[dict[str, Any]]:
    preview = "Error: no such file" if failed else f"done {at}"
    return [entry("pre_tool_use", at), entry("post_tool_use", at + 0.5, tool_output_preview=preview)]


@pytest.mark.parametrize(
    ("gap_seconds", "healthy"), [(2.0, True), (360.0, True), (599.0, True), (601.0, False), (900.0, False)]
)
def test_silence_by_the_gap_since_the_last_entry(
    tmp_path: Path, clock: VirtualClock, gap_seconds: float, healthy: bool
) -> None:
    """Six minutes are healthy, ten are not."""
    now = clock.now().wall
    write(tmp_path, *call(now - gap_seconds - 0.5))
    said = assess_session_health({"session_id": SESSION}, logs=tmp_path, clock=clock)
    assert said["healthy"] is healthy
    if not healthy:
        assert said["issues"] == [f"silent_for_{int(gap_seconds // 60)}_minutes"]


@pytest.mark.parametrize(
    ("errors", "issues"), [(5, []), (6, ["6_consecutive_errors"]), (9, ["9_consecutive_errors"])]
)
def test_an_error_cascade_is_more_than_five_in_a_row(
    tmp_path: Path, clock: VirtualClock, errors: int, issues: list[str]
) -> None:
    """A result that is none ends the row."""
    now = clock.now().wall
    rows = [call(now - 100.0), *(call(now - 60.0 + number, failed=True) for number in range(errors))]
    write(tmp_path, *(each for row in rows for each in row))
    said = assess_session_health({"session_id": SESSION}, logs=tmp_path, clock=clock)
    assert (said["healthy"], said["issues"]) == (not issues, issues)


@pytest.mark.parametrize(("hours", "issues"), [(1.9, []), (2.1, ["running_for_2_hours"])])
def test_a_runaway_is_active_for_more_than_two_hours(
    tmp_path: Path, clock: VirtualClock, hours: float, issues: list[str]
) -> None:
    """The clock starts with the attempt, whether a log or the record alone tells of its work."""
    now = clock.now().wall
    started = now - hours * 3600
    record = {"session_id": SESSION, "started_at": started, "last_activity": now - 5}
    assert assess_session_health(record, logs=tmp_path, clock=clock)["issues"] == issues
    write(tmp_path, *(each for at in range(int(hours * 60)) for each in call(started + at * 60)))
    assert assess_session_health(record, logs=tmp_path, clock=clock)["issues"] == issues


def test_entries_of_an_earlier_attempt_do_not_count(tmp_path: Path, clock: VirtualClock) -> None:
    """A revived session keeps its log; what the first attempt did is no fault of the second."""
    now = clock.now().wall
    rows = [call(now - 3000 + number, failed=True) for number in range(9)]
    write(tmp_path, *(each for row in rows for each in row))
    record = {"session_id": SESSION, "started_at": now - 30, "last_activity": now - 30}
    assert assess_session_health(record, logs=tmp_path, clock=clock)["healthy"] is True


@pytest.mark.parametrize(
    "content", [None, b"", b"\x00\xff\xfe", b'{"event": "pre_tool', b"[]\n\n{}\n", b'{"event": 7}\n' * 3]
)
def test_missing_and_broken_logs_fall_back_to_the_record(
    tmp_path: Path, clock: VirtualClock, content: bytes | None
) -> None:
    """The last activity replaces the log; without it the state is reported as unknown."""
    if content is not None:
        (tmp_path / SESSION).mkdir()
        (tmp_path / SESSION / "tool_use.jsonl").write_bytes(content)
    now = clock.now().wall
    silent = {"session_id": SESSION, "last_activity": now - 900}
    said = assess_session_health(silent, logs=tmp_path, clock=clock)
    assert said == {"healthy": False, "issues": ["silent_for_15_minutes"], "severity": "warning"}
    unknown = assess_session_health({"session_id": SESSION}, logs=tmp_path, clock=clock)
    assert (unknown["healthy"], unknown["severity"]) == (None, "unknown")


def test_recent_tool_calls_are_the_newest_readable_ones(tmp_path: Path) -> None:
    """Oldest first, torn lines left out, no log and no session give none."""
    write(tmp_path, *(each for number in range(5) for each in call(float(number))))
    with (tmp_path / SESSION / "tool_use.jsonl").open("a") as file:
        file.write('not json\n{"event": "pre_tool_use", "start')
    found = read_recent_tool_calls(SESSION, 3, logs=tmp_path)
    assert [each["event"] for each in found] == ["post_tool_use", "pre_tool_use", "post_tool_use"]
    assert found[-1]["end_time"] == 4.5
    assert read_recent_tool_calls("tg_other_1_2", logs=tmp_path) == []
    assert read_recent_tool_calls("../../etc", logs=tmp_path) == []


def test_one_open_issue_per_project(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second problem of a project finds the issue of the first; another project gets its own."""
    gh = StandInGh(tmp_path_factory.mktemp("gh"))
    gh.install(monkeypatch)
    write(tmp_path, *call(0.0))

    def file(project: str) -> str | None:
        session = {"session_id": SESSION, "project_key": project, "last_activity": 1.0}
        given: dict[str, Any] = {"logs": tmp_path, "critical_events": tmp_path / "events.jsonl"}
        return asyncio.run(
            create_investigation_issue(session, "silent_for_15_minutes", github_repo="me/shop", **given)
        )

    first = file("popoto")
    assert first is not None
    assert file("popoto") == first
    assert file("valor") not in (None, first)
    assert [issue["title"].startswith("[Watchdog]") for issue in gh.issues] == [True, True]


class NoLogs(NoSessionFiles):
    """No logs, and one folder that is not there any more."""

    async def is_folder_gone(self, path: str) -> bool:
        return path == "/gone"


class WatchdogFixture:
    """A watchdog over a queue in memory, in virtual time."""

    def __init__(self, clock: VirtualClock, forge: IssueTracker | None = None, **callbacks: Any) -> None:
        self.clock = clock
        self.jobs = MemoryJobs()
        self.rules = HealingRules(revive_runaways=True)
        self.forge = forge
        self.events: list[CriticalEvent] = []
        self.sent: list[tuple[str, str]] = []
        self._given: dict[str, Any] = {"write": self._write, "send_message": self._send, **callbacks}
        self.watch = self.watching()

    def watching(self) -> RedisWatch:
        return RedisWatch(
            jobs=self.jobs,
            logs=NoLogs(),
            clock=self.clock,
            callbacks=Callbacks(**self._given),
            controls=HealingControls(
                rules=lambda: self.rules, limiter=RevivalLimiter(self.clock, 0.0, 1), tracker=self.forge
            ),
            settings=WatchSettings(),
            observer=self.forge if isinstance(self.forge, QueueIssueFallback) else None,
        )

    async def _write(self, event: CriticalEvent) -> None:
        self.events.append(event)

    async def _send(self, chat_id: str, text: str) -> None:
        self.sent.append((chat_id, text))

    def silent(self, session_id: SessionId = SESSION, job_id: str = "one", folder: str | None = None) -> None:
        now = self.clock.now().wall
        job = Job(
            f"RedisJob:{job_id}:popoto:running",
            job_id,
            "popoto",
            session_id,
            now - 960,
            "-529",
            session_id[-4:],
            folder,
        )
        session = QueuedSession("", session_id, "popoto", "-529", now - 960, now - 900)
        self.jobs.watched[session_id] = QueueAttempt(session, job)

    @property
    def actions(self) -> list[str]:
        return [str(event.action_taken) for event in self.events]


def run_with(clock: VirtualClock, scene: Callable[[], Awaitable[None]]) -> None:
    """Run a scenario while its clock advances whenever all tasks wait."""

    async def play() -> None:
        task = asyncio.ensure_future(scene())
        while not task.done():
            await settle()
            if not task.done():
                await clock.run_for(1.0)
        await task

    asyncio.run(play())


def test_a_message_is_revived_once(clock: VirtualClock) -> None:
    """The second failure of the same message is reported to its chat and not tried again."""
    world = WatchdogFixture(clock)

    async def scene() -> None:
        for number in range(3):
            world.silent(job_id=str(number))
            await world.watch.check()

    run_with(clock, scene)
    assert world.actions == ["revival_attempted", "failure_message_sent", "none"]
    assert [job.revival_context is not None for job in world.jobs.pending] == [True]
    assert world.sent == [("-529", FAILURE_MESSAGE)]


class SlowIssueTracker:
    """Takes ten seconds for an issue, during which the world goes on."""

    def __init__(self, clock: VirtualClock) -> None:
        self._clock = clock
        self.meanwhile: Callable[[], None] = lambda: None

    async def file(self, report: IssueReport) -> FilingResult:
        del report
        await self._clock.sleep(10.0)
        self.meanwhile()
        return FilingResult("https://github.com/acme/bots/issues/45", "filed")


class HungIssueTracker:
    """Takes the whole deadline and files nothing, until it is mended."""

    def __init__(self, clock: VirtualClock) -> None:
        self._clock = clock
        self.is_mended = False
        self.filed: list[IssueReport] = []

    async def file(self, report: IssueReport) -> FilingResult:
        if self.is_mended:
            self.filed.append(report)
            return FilingResult("https://github.com/acme/bots/issues/45", "filed")
        await self._clock.sleep(20.0)
        return FilingResult(None, "`gh` did not answer within 20 s and was ended")


def test_a_forge_that_hangs_is_waited_for_once_and_told_once(clock: VirtualClock) -> None:
    """Thirty sessions wait for one deadline together, not for four; its end is reported too."""
    alerts: list[str] = []
    hung = HungIssueTracker(clock)

    async def tell(text: str) -> None:
        alerts.append(text)

    world = WatchdogFixture(clock)
    world.forge = QueueIssueFallback(BreakingIssueTracker(hung, clock), world.jobs, clock, tell)
    world.watch = world.watching()

    async def scene() -> None:
        for number in range(30):
            world.silent(SessionId(f"tg_popoto_-529_{number + 1000}"), job_id=str(number))
        before = clock.now().awake
        await world.watch.check()
        assert clock.now().awake - before < 30.0
        hung.is_mended = True
        await clock.sleep(600.0)
        world.silent(job_id="later")
        await world.watch.check()

    run_with(clock, scene)
    assert world.actions == ["revival_attempted"] * 31
    assert [each.session_id for each in hung.filed] == [SESSION]
    assert [each.splitlines()[0] for each in alerts] == [
        "Issue not filed: `gh` did not answer within 20 s and was ended",
        "Resolved: issue not filed",
    ]


def test_what_a_forge_did_not_take_is_filed_later_by_any_watchdog(clock: VirtualClock) -> None:
    """Once for the project, also after a restart of the program; a report of another version is dropped."""
    alerts: list[str] = []
    hung = HungIssueTracker(clock)

    async def tell(text: str) -> None:
        alerts.append(text)

    world = WatchdogFixture(clock)

    async def scene() -> None:
        world.forge = QueueIssueFallback(hung, world.jobs, clock, tell)
        world.silent()
        await world.watching().check()
        await world.jobs.set_episode("issue:older", "{}")
        hung.is_mended = True
        world.forge = QueueIssueFallback(hung, world.jobs, clock, tell)
        await world.watching().check()
        await world.watching().check()
        assert not [name for name in await world.jobs.episodes() if name.startswith("issue:")]

    run_with(clock, scene)
    assert [each.session_id for each in hung.filed] == [SESSION]
    assert [each.splitlines()[0].partition(":")[0] for each in alerts] == [
        "Issue not filed",
        "Resolved",
    ]


@pytest.mark.parametrize("attempt", ["first", "second"])
@pytest.mark.parametrize("meanwhile", ["goes on", "pause"])
def test_the_world_may_change_while_an_issue_is_filed(
    clock: VirtualClock, attempt: str, meanwhile: str
) -> None:
    """A session that works again by then, or is paused, is neither revived nor given up: the last check counts."""
    forge = SlowIssueTracker(clock)
    world = WatchdogFixture(clock, forge)

    def change() -> None:
        if meanwhile == "pause":
            world.rules = HealingRules(paused_by="me")
            return
        known = world.jobs.watched[SESSION]
        fresh = replace(known.session, last_activity=clock.now().wall)
        world.jobs.watched[SESSION] = replace(known, session=fresh)

    async def scene() -> None:
        world.silent()
        if attempt == "second":
            await world.watch.check()
            world.silent(job_id="two")
        forge.meanwhile = change
        await world.watch.check()

    run_with(clock, scene)
    assert list(world.jobs.watched) == [SESSION]
    assert world.sent == []
    earlier = ["revival_attempted"] if attempt == "second" else []
    assert world.actions == [*earlier, *(["none"] if meanwhile == "pause" else [])]


def test_many_at_once_are_one_alert(clock: VirtualClock) -> None:
    """Of five sessions of a project that stop at once, one alert names the first and the number; all are revived."""
    alerts: list[str] = []
    world = WatchdogFixture(clock, alert=alerts.append)

    async def scene() -> None:
        for number in range(5):
            world.silent(SessionId(f"tg_popoto_-529_{number + 1000}"), job_id=str(number))
        await world.watch.check()

    run_with(clock, scene)
    assert world.actions == ["revival_attempted"] * 5
    (told,) = alerts
    assert told.startswith("popoto: 5 sessions have a problem at once, this one: silent for more than 15 min")


def test_a_daemon_asks_about_what_a_program_holds(clock: VirtualClock) -> None:
    """A watchdog without checkpoints leaves it waiting, and one with checkpoints opens it; neither reports it again."""
    alerts: list[str] = []
    asked: list[object] = []

    async def hold(case: object, choice: object) -> int:
        del choice
        asked.append(case)
        return 1

    program = WatchdogFixture(clock, alert=alerts.append)
    daemon = WatchdogFixture(clock, hold=hold, alert=alerts.append)
    daemon.jobs = program.jobs
    daemon.watch = daemon.watching()

    async def scene() -> None:
        program.silent(folder="/gone")
        for watch in (program.watch, daemon.watch) * 2:
            await watch.check()

    run_with(clock, scene)
    assert (len(asked), len(alerts)) == (1, 2)
    assert alerts[1].endswith("→ wakeful checkpoint show 1")
    assert len(program.sent + daemon.sent) == 1


def test_every_callback_may_raise(clock: VirtualClock) -> None:
    """What was thrown is in the outcome, and the other sessions have their turn."""

    async def boom(*_arguments: object) -> None:
        raise RuntimeError("boom")

    world = WatchdogFixture(clock, enqueue_job=boom, stop_session=boom, send_message=boom, alert=boom)

    async def scene() -> None:
        world.silent()
        world.silent(SessionId("tg_popoto_-529_9"), job_id="two")
        await world.watch.check()

    run_with(clock, scene)
    assert {event.session_id for event in world.events} == {SESSION, "tg_popoto_-529_9"}
    assert all("enqueue_job raised RuntimeError: boom" in event.details["outcome"] for event in world.events)


def test_a_callback_that_ignores_its_end_holds_nobody(clock: VirtualClock) -> None:
    """Even one that swallows being cancelled costs its deadline and no more."""

    async def deaf(*_arguments: object) -> None:
        for _ in range(2):
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                continue

    world = WatchdogFixture(clock, enqueue_job=deaf)

    async def scene() -> None:
        world.silent()
        before = clock.now().awake
        await world.watch.check()
        assert clock.now().awake - before <= 25.0

    run_with(clock, scene)
    assert "enqueue_job did not return within 20 s" in world.events[0].details["outcome"]


def test_the_loop_looks_every_interval_and_outlives_its_own_bugs(
    clock: VirtualClock, caplog: pytest.LogCaptureFixture
) -> None:
    """A cycle that breaks is logged, and the next one comes after 300 s."""
    world = WatchdogFixture(clock)
    looks: list[float] = []
    look = world.jobs.snapshot

    async def broken_once() -> Any:
        looks.append(clock.now().awake)
        if len(looks) == 1:
            raise KeyError("a bug")
        return await look()

    world.jobs.snapshot = broken_once  # type: ignore[method-assign]

    async def play() -> None:
        loop = asyncio.ensure_future(world.watch.run())
        await clock.run_for(900.0)
        loop.cancel()
        await asyncio.gather(loop, return_exceptions=True)
        assert loop.cancelled()

    with caplog.at_level("INFO", "wakeful.watchdog"):
        asyncio.run(play())
    assert [at - looks[0] for at in looks] == [0.0, 300.0, 600.0, 900.0]
    assert caplog.text.count("watchdog: checked 0, healthy 0, unhealthy 0, skipped 0") == 4
    assert "message_unrouted is off" in caplog.text


def test_names_and_numbers_are_those_of_the_original() -> None:
    """Users of the first watchdog find everything under its name."""
    numbers = {"WATCHDOG_INTERVAL": 300, "SILENCE_THRESHOLD": 600, "ERROR_CASCADE_THRESHOLD": 5}
    assert {name: getattr(session_watchdog, name) for name in numbers} == numbers
    for name in ("watchdog_loop", "check_all_sessions", "attempt_revival", "create_investigation_issue"):
        assert inspect.iscoroutinefunction(getattr(session_watchdog, name)), name
    assert wakeful.watchdog_loop is session_watchdog.watchdog_loop


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"enqueue_jobs": print}, "enqueue_jobs"),
        ({"enqueue_job": "mine"}, "enqueue_job"),
        ({"interval_seconds": 0}, "interval_seconds"),
        ({"interval_seconds": float("nan")}, "interval_seconds"),
        ({"callback_seconds": "20"}, "callback_seconds"),
        ({"silence_seconds": -1}, "silence_seconds"),
        ({"active_projects": "popoto"}, "active_projects"),
        ({"critical_events": None}, "critical_events"),
        ({"redis": object()}, "redis"),
    ],
)
def test_a_setting_that_cannot_be_used_is_refused_at_once(given: dict[str, Any], said: str) -> None:
    """By its name: a misspelt callback would silently never be called."""
    with pytest.raises(OperatorError, match=said):
        asyncio.run(wakeful.watchdog_loop(**given))


def test_importing_wakeful_stays_light() -> None:
    """Redis is loaded only if it is used."""
    look = "import sys, wakeful; print(any(name in sys.modules for name in ('redis', 'asyncio', 'msgspec')))"
    said = subprocess.run([sys.executable, "-c", look], capture_output=True, text=True, check=True)
    assert said.stdout == "False\n"
