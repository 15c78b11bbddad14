"""Claims about a queue's sessions in a daemon: alerts to its operator, incidents, limits, and a person's approval."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from msgspec.structs import replace

from support.healing_fixture import FakeHost, HealingFixture
from support.no_session_files import NoSessionFiles
from wakeful.alerts.mute_pause_model import MuteKind
from wakeful.core.ids import SessionId
from wakeful.healing.plan import HealingRules
from wakeful.healing.rate_limit import RevivalLimiter
from wakeful.incidents.critical_event import CriticalEvent
from wakeful.incidents.model import Cause, MemberStatus, Origin, member_text
from wakeful.incidents.service import REOPEN_SECONDS
from wakeful.judging.events import CallStarted
from wakeful.judging.evidence import SessionIdentity
from wakeful.judging.findings import Health
from wakeful.testing.memory_jobs import MemoryJobs
from wakeful.watchdog.callbacks import Callbacks
from wakeful.watchdog.healing import FolderGone
from wakeful.watchdog.loop import RedisWatch
from wakeful.watchdog.notifications import QueueNotifier
from wakeful.watchdog.parts import HealingControls, QueueSessionsObserver, WatchSettings
from wakeful.watchdog.queue import (
    Job,
    JobsUnreachable,
    LogReading,
    QueueAttempt,
    QueuedSession,
    QueueSnapshot,
)

ONE = SessionId("tg_popoto_-529_1")


class Logs(NoSessionFiles):
    """The logs and folders a test says there are."""

    def __init__(self, place: FakeHost) -> None:
        self.place = place
        self.opened: dict[SessionId, CallStarted] = {}

    async def read(self, session_ids: Any) -> dict[SessionId, LogReading]:
        known = [each for each in session_ids if each in self.opened]
        return {each: LogReading([self.opened[each]], reset=True) for each in known}

    async def is_folder_gone(self, path: str) -> bool:
        return path in self.place.gone


class QueueFixture(HealingFixture):
    """A daemon with a queue in memory."""

    def build(self) -> None:
        super().build()
        self.jobs = MemoryJobs()
        self.logs = Logs(self.place)
        self.sent: list[str] = []
        self.watch_queue = RedisWatch(
            jobs=self.jobs,
            logs=self.logs,
            clock=self.clock,
            callbacks=Callbacks(write=self._note, send_message=self._send),
            controls=HealingControls(rules=HealingRules, limiter=RevivalLimiter(self.clock, 2.0, 10)),
            settings=WatchSettings(),
            notifier=QueueNotifier(
                incidents=self.incidents,
                notifier=self.notifier,
                is_treated=lambda session_id: self.healer.case_of(session_id) is not None,
            ),
            observer=QueueSessionsObserver(self.circumstances, self.supervisor),
        )

    async def _note(self, event: CriticalEvent) -> None:
        self.events.append(event)

    async def _send(self, _chat: str, text: str) -> None:
        self.sent.append(text)

    def silent(self, session_id: SessionId = ONE, job_id: str = "one", folder: str = "/srv/popoto") -> None:
        """A session that did nothing for a quarter of an hour, with its running job."""
        began = self.wall() - 960
        key, message = f"RedisJob:{job_id}:popoto:running", session_id[-4:]
        job = Job(key, job_id, "popoto", session_id, began, "-529", message, folder)
        self.jobs.watched[session_id] = QueueAttempt(
            QueuedSession("", session_id, "popoto", "-529", began, self.wall() - 900), job
        )

    def waiting(self, project: str = "popoto") -> None:
        """A job that no worker took for six minutes."""
        job = Job("RedisJob:late:popoto:pending", "late", project, ONE, self.wall() - 360, "-529", "1", None)
        self.jobs.pending.append(job)

    def cut_off(self, session_id: SessionId = ONE) -> None:
        """The same, inside a call that may have had effects elsewhere."""
        self.silent(session_id)
        call = CallStarted(self.wall() - 900, "c1", "Bash", input=b'{"command": "git push origin main"}')
        self.logs.opened[session_id] = call


@pytest.fixture
async def clinic() -> AsyncIterator[QueueFixture]:
    """Its clock runs on by itself."""
    clinic = QueueFixture()

    async def run_clock() -> None:
        while True:
            await clinic.clock.run_for(0.5)

    async with clinic.open():
        running = asyncio.create_task(run_clock())
        yield clinic
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


async def later(clinic: QueueFixture, seconds: float) -> None:
    await clinic.clock.sleep(seconds)


async def test_a_revival_and_the_end_of_hope_are_told_in_words(clinic: QueueFixture) -> None:
    """Project first, what happened, what was done and what to type; a second failure is reported as one, not
    as resolved."""
    for number in range(2):
        clinic.silent(job_id=str(number))
        await clinic.watch_queue.check()
        await later(clinic, 10)
    await clinic.watch_queue.check()
    await later(clinic, 10)
    assert await clinic.incidents.list_incidents() == []
    revived, given_up = clinic.recorder.said
    assert revived.splitlines() == [
        "popoto: silent for more than 15 min (silent_for_15_minutes)",
        "Where: session tg_popoto_-529_1, chat -529, in a queue in memory",
        "Since: 2027-01-15 07:45 UTC",
        "Action: resumed it: the message was enqueued again",
        "Until you act: Wakeful retries its message once; after a second failure it gives up",
        "→ wakeful events --since 1h",
    ]
    assert "Action: gave up: it failed again after it was resumed; the chat: sent" in given_up


async def test_a_revived_session_is_resolved_once_its_next_job_runs(clinic: QueueFixture) -> None:
    """Until then its incident stays open."""
    clinic.silent()
    await clinic.watch_queue.check()
    await later(clinic, 10)
    await clinic.watch_queue.check()
    (incident,) = await clinic.incidents.list_incidents()
    assert incident.cause is Cause.SESSION
    assert [each.fate for each in incident.members] == [MemberStatus.REVIVED]
    (job,) = clinic.jobs.pending
    clinic.silent(job_id=job.job_id)
    attempt = clinic.jobs.watched[ONE]
    fresh = QueuedSession("", ONE, "popoto", "-529", clinic.wall() - 5, clinic.wall())
    clinic.jobs.watched[ONE] = QueueAttempt(fresh, attempt.job)
    await clinic.watch_queue.check()
    assert len(await clinic.incidents.list_incidents()) == 1
    await later(clinic, 10)
    clinic.jobs.watched[ONE] = QueueAttempt(replace(fresh, last_activity=clinic.wall()), attempt.job)
    await clinic.watch_queue.check()
    await later(clinic, REOPEN_SECONDS + 0.5)
    assert await clinic.incidents.list_incidents() == []
    assert clinic.recorder.said[-1].startswith("Resolved")


async def test_a_session_that_is_gone_from_the_queue_is_closed_and_not_resolved(clinic: QueueFixture) -> None:
    """It was revived, and another watchdog saw its end: this one did not see it healthy."""
    clinic.silent()
    await clinic.watch_queue.check()
    await later(clinic, 10)
    clinic.jobs.pending.clear()
    for revival in await clinic.jobs.open_revivals():
        await clinic.jobs.close_revival(revival.work)
    await clinic.watch_queue.check()
    await later(clinic, REOPEN_SECONDS + 0.5)
    assert await clinic.incidents.list_incidents() == []
    last = clinic.recorder.said[-1]
    assert not last.startswith("Resolved"), last
    assert "how it ended is unknown" in last


async def test_a_session_of_which_nothing_is_known_stays_in_its_incident(clinic: QueueFixture) -> None:
    """Its record says nothing any more while its job runs: that is no sign of health."""
    clinic.cut_off()
    await clinic.watch_queue.check()
    await later(clinic, 10)
    attempt = clinic.jobs.watched[ONE]
    del clinic.logs.opened[ONE]
    clinic.jobs.watched[ONE] = QueueAttempt(QueuedSession("", ONE, "popoto", "-529"), attempt.job)
    await clinic.watch_queue.check()
    assert len(await clinic.incidents.list_incidents()) == 1


async def test_a_workers_death_is_one_incident_and_one_alert_and_revived_in_turn(
    clinic: QueueFixture,
) -> None:
    """Ten at once, then one every two seconds."""
    for number in range(12):
        clinic.silent(SessionId(f"tg_popoto_-529_{number + 1000}"), job_id=str(number))
    check = asyncio.ensure_future(clinic.watch_queue.check())
    await later(clinic, 1)
    assert len(clinic.jobs.pending) == 10
    await check
    assert len(clinic.jobs.pending) == 12
    (incident,) = await clinic.incidents.list_incidents()
    assert (incident.cause, incident.scope, incident.affected) == (Cause.WORKER, "popoto", 12)
    await later(clinic, 10)
    (told,) = clinic.recorder.said
    headline, where, _, did, otherwise, command = told.splitlines()
    assert headline == "several sessions of popoto stopped working at once: 12 sessions affected"
    assert where.endswith(" and 7 more")
    assert did == "Action: resumed 12 sessions, 0 recovered so far"
    assert otherwise == "Until you act: Wakeful continues; it gives up sessions that fail again"
    assert command == "→ wakeful incidents"


async def test_a_held_session_says_what_to_type_and_takes_a_yes_only_with_its_folder(
    clinic: QueueFixture,
) -> None:
    """`waits` says that it is held; a folder that is gone is refused, whatever a person says."""
    clinic.cut_off()
    await clinic.watch_queue.check()
    await later(clinic, 5)
    assert await clinic.watch_queue.waits(ONE) == ("an interrupted call may have had effects elsewhere")
    assert await clinic.watch_queue.waits("tg_popoto_-529_2") is None
    clinic.place.gone.add("/srv/popoto")
    with pytest.raises(FolderGone, match="/srv/popoto no longer exists"):
        await clinic.watch_queue.release(ONE)
    assert clinic.jobs.pending == []
    clinic.place.gone.clear()
    assert await clinic.watch_queue.release(ONE) == "a person approved it"
    assert len(clinic.jobs.pending) == 1
    held = clinic.recorder.said[0]
    assert "No action: an interrupted call" in held
    assert "`git push origin main`" in held
    assert held.endswith(f"→ wakeful session revive {ONE} --yes")


async def test_a_queue_that_does_not_answer_is_told_once_with_its_end(clinic: QueueFixture) -> None:
    """One incident, one alert, a note for the status; over when it answers again."""
    look = clinic.jobs.snapshot

    async def refused() -> QueueSnapshot:
        raise JobsUnreachable(place="a queue in memory", reason="connection refused")

    clinic.jobs.snapshot = refused  # type: ignore[method-assign]
    for _ in range(3):
        await clinic.watch_queue.check()
    assert "connection refused" in str(clinic.watch_queue.problem)
    (incident,) = await clinic.incidents.list_incidents()
    assert incident.cause is Cause.QUEUE
    await later(clinic, 5)
    clinic.jobs.snapshot = look  # type: ignore[method-assign]
    await clinic.watch_queue.check()
    assert clinic.watch_queue.problem is None
    await later(clinic, REOPEN_SECONDS + 0.5)
    assert await clinic.incidents.list_incidents() == []
    lost, back = clinic.recorder.said
    assert lost.startswith("a queue in memory is unreachable, and its queue is not watched")
    assert back.endswith("it answers again")


async def test_a_session_that_its_queue_runs_is_judged_like_any_other(clinic: QueueFixture) -> None:
    """Its log alone proves no process; with its queue's report, silence is a problem for the queue to heal."""
    identity = SessionIdentity(ONE, "tool-use", "testhost", "tool_use.jsonl", project="popoto")
    call = CallStarted(clinic.wall() - 900, "c1", "Bash", input=b'{"command": "git push"}')
    clinic.supervisor.on_events(identity, [call], live=False)
    clinic.settle()
    assert healths(clinic) == [Health.UNKNOWN]
    clinic.cut_off()
    await clinic.watch_queue.check()
    clinic.settle()
    assert healths(clinic) == [Health.DEGRADED]
    await later(clinic, 60)
    clinic.jobs.watched.clear()
    await clinic.watch_queue.check()
    clinic.settle()
    await later(clinic, 0.5)
    assert healths(clinic) == [Health.UNKNOWN]
    assert len([each for each in clinic.recorder.said if "adopt" in each]) == 0


def healths(clinic: QueueFixture) -> list[Health]:
    return [each.record.health for each in clinic.registry.sessions.values() if each.record is not None]


async def test_a_queue_that_stands_still_is_told_like_any_trouble_and_so_is_its_end(
    clinic: QueueFixture,
) -> None:
    """What, where, since when, what was done, what happens otherwise, one command; once, and resolved once it moves."""
    clinic.waiting()
    for _ in range(2):
        await clinic.watch_queue.check()
        await later(clinic, 10)
    clinic.jobs.pending.clear()
    await clinic.watch_queue.check()
    await later(clinic, 10)
    told, over = clinic.recorder.said
    assert told.splitlines() == [
        "popoto: 1 job waits for up to 6 min, and none runs (queue_stalled)",
        "Where: project popoto, in a queue in memory",
        "Since: 2027-01-15 07:54 UTC",
        "No action: no start_worker configured",
        "Until you act: it waits until a worker of this project runs",
        "→ wakeful events --since 1h",
    ]
    assert over.splitlines() == [
        "Resolved: popoto: its jobs waited and none ran",
        "Began: 2027-01-15 07:54 UTC",
        "Reason: its jobs run again, or none waits",
    ]


MUTED = [
    (MuteKind.CODE, "queue_stalled", True),
    (MuteKind.PROJECT, "popoto", True),
    (MuteKind.CODE, "message_unrouted", False),
    (MuteKind.PROJECT, "bank", False),
]


@pytest.mark.parametrize(("kind", "value", "is_silent"), MUTED)
async def test_a_muted_queue_is_told_when_the_mute_has_ended(
    kind: MuteKind, value: str, is_silent: bool, clinic: QueueFixture
) -> None:
    """By code or by project; a problem that outlasts its mute is reported then, once."""
    heard: list[int] = []
    await clinic.calm.mute(kind, value, 600.0, by="ada")
    clinic.waiting()
    await clinic.watch_queue.check()
    await later(clinic, 500)
    heard.append(len(clinic.recorder.said))
    await later(clinic, 300)
    assert heard == [0 if is_silent else 1]
    assert [each.count("queue_stalled") for each in clinic.recorder.said] == [1]


@pytest.mark.parametrize(
    ("kind", "value"), [(MuteKind.SESSION, ONE), (MuteKind.PROJECT, "popoto"), (MuteKind.CODE, "silent")]
)
async def test_a_queues_muted_session_is_revived_in_silence(
    kind: MuteKind, value: str, clinic: QueueFixture
) -> None:
    """Healed as usual, without an alert for it or for its end."""
    await clinic.calm.mute(kind, value, 3600.0, by="ada")
    clinic.silent()
    await clinic.watch_queue.check()
    await later(clinic, 10)
    assert len(clinic.jobs.pending) == 1
    clinic.jobs.watched.clear()
    clinic.jobs.pending.clear()
    await later(clinic, 700)
    await clinic.watch_queue.check()
    await later(clinic, REOPEN_SECONDS + 10)
    assert clinic.recorder.said == []


async def test_during_a_pause_whatever_is_told_says_so_first(clinic: QueueFixture) -> None:
    """For a queue as for anything else; another person's chat is not concerned."""
    await clinic.calm.pause("ada@tower")
    clinic.waiting()
    await clinic.watch_queue.check()
    await later(clinic, 10)
    (told,) = clinic.recorder.said
    assert told.startswith("PAUSED by ada@tower: Wakeful takes no action until `wakeful unpause`\npopoto: ")


async def test_the_queues_look_ends_nobody_elses_incident(clinic: QueueFixture) -> None:
    """An engine that cannot be asked is the hub's to settle."""
    origin = Origin(Cause.ENGINE, "docker")
    await clinic.incidents.join(SessionId("agent-bot"), origin, "it does not answer")
    await clinic.watch_queue.check()
    assert [each.cause for each in await clinic.incidents.list_incidents()] == [Cause.ENGINE]


async def test_what_was_given_up_is_not_called_well_again(clinic: QueueFixture) -> None:
    """Its incident ends with what was done, and no "resolved" is sent."""
    for number in range(2):
        clinic.silent(job_id=str(number))
        await clinic.watch_queue.check()
        await later(clinic, 10)
    clinic.jobs.watched.clear()
    await clinic.watch_queue.check()
    await later(clinic, REOPEN_SECONDS + 10)
    (incident,) = await clinic.incidents.list_incidents(include_resolved=True)
    assert member_text(incident.members[0]).startswith("closed: gave up: it failed again")
    assert not any(each.startswith("Resolved") for each in clinic.recorder.said)
