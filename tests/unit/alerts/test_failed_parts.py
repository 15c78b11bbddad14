"""Claims about parts of Wakeful that raise: they are down, tried again with back-off, and end nothing else."""

import asyncio
import time
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from support import claude_transcripts
from support.healing_fixture import RecordingMessenger
from wakeful.alerts.failed_parts import RETRY_SECONDS_MAX, STEADY_SECONDS, FailedParts, FailureAlerts
from wakeful.alerts.model import AlertKind, AlertRules
from wakeful.alerts.notifier import Notifier
from wakeful.alerts.outbox import AlertOutbox
from wakeful.config.paths import StatePaths
from wakeful.config.schema import Config
from wakeful.core.clock import Instant
from wakeful.core.errors import WorldError
from wakeful.core.ids import SessionId
from wakeful.daemon.observer import PlainProcesses, SessionObserver
from wakeful.incidents.service import Incidents
from wakeful.judging.activity import Activity
from wakeful.judging.evidence import RuntimeState
from wakeful.judging.findings import Verdict
from wakeful.judging.judge import judge
from wakeful.judging.thresholds import Policy
from wakeful.linux.clock import SystemClock
from wakeful.sessions import session_judge as supervision
from wakeful.testing.memory_store import MemoryStore
from wakeful.testing.virtual_clock import VirtualClock


class Service:
    """Fails as often as set, then runs."""

    def __init__(self, clock: VirtualClock, failures: int, error: Exception) -> None:
        self._clock, self._left, self._error = clock, failures, error
        self.starts: list[float] = []

    async def run(self) -> None:
        self.starts.append(self._clock.now().awake)
        if self._left:
            self._left -= 1
            raise self._error
        await asyncio.Event().wait()


@asynccontextmanager
async def running(
    failures: FailedParts, service: Service, *, world_errors: bool = False
) -> AsyncIterator[None]:
    task = asyncio.create_task(failures.keep_running("healing", service.run, world_errors=world_errors))
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_a_service_that_raises_is_started_again_ever_later_and_works_once_it_is_steady() -> None:
    """Ten failures take minutes, not a spinning core; the first good minute ends it."""
    clock = VirtualClock()
    failures, service = FailedParts(clock), Service(clock, 10, ValueError("no \x1b[31m sense"))
    async with running(failures, service):
        await clock.run_for(0.5)
        assert [(each.name, each.times) for each in failures.down] == [("healing", 1)]
        assert "\x1b" not in failures.lines[0]
        await clock.run_for(1000)
        pauses = [after - before for before, after in zip(service.starts, service.starts[1:], strict=False)]
        assert pauses == [1, 2, 4, 8, 16, 32, *[RETRY_SECONDS_MAX] * 4]
        assert failures.down == ()


async def test_a_service_that_fails_at_once_again_was_never_up() -> None:
    """Coming up is not working: people get one alert, not one for each try."""
    clock = VirtualClock()
    failures, service = FailedParts(clock), Service(clock, 3, ValueError("no"))
    async with running(failures, service):
        await clock.run_for(7.5)
        assert len(service.starts) == 4
        assert [each.times for each in failures.down] == [3]
        await clock.run_for(STEADY_SECONDS)
        assert failures.down == ()


async def test_what_the_world_refuses_is_no_failure_of_a_service_that_expects_it() -> None:
    """A full disk has its own alert."""
    clock = VirtualClock()
    failures, service = FailedParts(clock), Service(clock, 2, WorldError())
    async with running(failures, service, world_errors=True):
        await clock.run_for(11)
        assert (len(service.starts), failures.down) == (3, ())
    async with running(failures, Service(clock, 1, WorldError())):
        await clock.run_for(0.5)
        assert [each.name for each in failures.down] == ["healing"]


async def test_people_get_one_alert_for_what_is_down_and_its_end() -> None:
    """Also where Wakeful was restarted in between."""
    clock, channel = VirtualClock(), RecordingMessenger()
    store = MemoryStore(now=lambda: clock.now().wall)
    outbox = AlertOutbox(store, clock, [channel], AlertRules(frozenset(AlertKind)), "here")
    notifier = Notifier(outbox, Incidents(store, clock), clock)
    failures = FailedParts(clock)
    tasks = [
        asyncio.create_task(outbox.run()),
        asyncio.create_task(FailureAlerts(failures, notifier, "here").run()),
    ]
    for _ in range(3):
        failures.on_failure("claude-registry", ValueError("no"))
        await clock.run_for(60)
    assert [text.splitlines()[0] for text in channel.said] == ["Part of Wakeful is down: claude-registry"]
    tasks[1].cancel()
    await FailureAlerts(FailedParts(clock), notifier, "here").notify()
    await clock.run_for(60)
    assert len(channel.said) == 2
    assert "claude-registry was down" in channel.said[1]
    tasks[0].cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def test_a_source_that_raises_blinds_no_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The others are looked at, and the list says which one is down."""
    monkeypatch.setenv("HOME", str(tmp_path))
    observer = SessionObserver(
        Config(), StatePaths(str(tmp_path / "state")), VirtualClock(), PlainProcesses()
    )
    looked: list[str] = []
    for source in observer.sources.all():
        monkeypatch.setattr(source, "scan", lambda name=source.name: looked.append(name))

    def fail() -> None:
        raise UnicodeError("bytes")

    monkeypatch.setattr(observer.sources.processes[0], "scan", fail)
    await observer.scan()
    names = [source.name for source in observer.sources.all()]
    assert looked == [name for name in names if name != observer.sources.processes[0].name]
    assert [each.name for each in observer.sources.records() if each.slow] == [
        observer.sources.processes[0].name
    ]


async def test_a_session_that_cannot_be_judged_is_unknown_and_keeps_none_from_being_judged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its evidence comes from outside; a rule that fails on it affects no other session."""
    monkeypatch.setenv("HOME", str(tmp_path))
    now = time.time()
    strange, plain = str(uuid.UUID(int=1, version=4)), str(uuid.UUID(int=2, version=4))
    for name in (strange, plain):
        claude_transcripts.write(tmp_path / ".claude", name, claude_transcripts.prompt(now, name))
    observer = SessionObserver(Config(), StatePaths(str(tmp_path / "state")), SystemClock(), PlainProcesses())

    def fail_for_strange(
        activity: Activity, presence: RuntimeState, policy: Policy, instant: Instant
    ) -> Verdict:
        if (
            activity is observer.registry.sessions[SessionId(f"claude-{strange}")].activity
            and not activity.drifted
        ):
            raise ZeroDivisionError
        return judge(activity, presence, policy, instant)

    monkeypatch.setattr(supervision, "judge", fail_for_strange)
    await observer.scan()
    codes = {
        each.subject.id: [finding.code for finding in each.record.findings]
        for each in observer.registry.sessions.values()
        if each.record is not None
    }
    assert codes == {f"claude-{strange}": ["reader_drift"], f"claude-{plain}": []}
