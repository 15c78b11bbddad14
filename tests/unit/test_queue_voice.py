"""Claims about a queue's sessions in a daemon: what its operator is told, incidents, pace, and a person's yes."""

import asyncio
from collections.abc import Awaitable, Callable, Collection
from typing import Any

import pytest

from clinics import Clinic, Place
from wakeful.domain.critical import CriticalEvent
from wakeful.domain.events import CallStarted
from wakeful.domain.findings import Health
from wakeful.domain.ids import SessionId
from wakeful.domain.incident import Cause
from wakeful.domain.plan import Rules
from wakeful.domain.record import Subject
from wakeful.ports.jobs import Job, JobsUnreachable, LogReading, QueuedSession, Snapshot, Watched
from wakeful.redis_watch import RedisWatch
from wakeful.services.incidents import SAME_SECONDS
from wakeful.services.pace import Pace
from wakeful.services.queue_voice import QueueVoice
from wakeful.services.telling import Voice
from wakeful.services.watchdog_healing import FolderGone
from wakeful.services.watchdog_ledger import Callbacks
from wakeful.testing.memory_jobs import MemoryJobs, NoGround

ONE = SessionId("tg_popoto_-529_1")


class Logs(NoGround):
    """The logs and folders a test says there are."""

    def __init__(self, place: Place) -> None:
        self.place = place
        self.opened: dict[SessionId, CallStarted] = {}

    async def read(self, session_ids: Any) -> dict[SessionId, LogReading]:
        known = [each for each in session_ids if each in self.opened]
        return {each: LogReading([self.opened[each]], reset=True) for each in known}

    async def folder_is_gone(self, path: str) -> bool:
        return path in self.place.gone


class QueueClinic(Clinic):
    """A daemon with a queue in memory."""

    def build(self) -> None:
        super().build()
        self.jobs = MemoryJobs()
        self.logs = Logs(self.place)
        self.sent: list[str] = []
        voice = Voice(
            clock=self.clock,
            incidents=self.incidents,
            alerts=self.alerts,
            calm=self.calm,
            write=self._write,
            mode="mine",
        )
        self.watch_queue = RedisWatch(
            jobs=self.jobs,
            logs=self.logs,
            clock=self.clock,
            callbacks=Callbacks(write=self._note, send_message=self._send),
            rules=Rules,
            operator=QueueVoice(
                incidents=self.incidents,
                alerts=self.alerts,
                over=voice.resolved,
                treated=lambda session_id: self.healer.trouble_of(session_id) is not None,
            ),
            pace=Pace(self.clock, 2.0, 10),
            present=self._runs,
        )

    def _runs(self, session_ids: Collection[SessionId]) -> None:
        self.circumstances.queued = frozenset(session_ids)
        self.supervisor.vouch_for(session_ids)

    async def _note(self, event: CriticalEvent) -> None:
        self.events.append(event)

    async def _send(self, _chat: str, text: str) -> None:
        self.sent.append(text)

    def silent(self, session_id: SessionId = ONE, job_id: str = "one", folder: str = "/srv/popoto") -> None:
        """A session that did nothing for a quarter of an hour, with its running job."""
        began = self.wall() - 960
        key, message = f"RedisJob:{job_id}:popoto:running", session_id[-4:]
        job = Job(key, job_id, "popoto", session_id, began, "-529", message, folder)
        self.jobs.watched[session_id] = Watched(
            QueuedSession("", session_id, "popoto", "-529", began, self.wall() - 900), job
        )

    def cut_off(self, session_id: SessionId = ONE) -> None:
        """The same, inside a call that may have had effects elsewhere."""
        self.silent(session_id)
        call = CallStarted(self.wall() - 900, "c1", "Bash", input=b'{"command": "git push origin main"}')
        self.logs.opened[session_id] = call


def play(scene: Callable[[QueueClinic], Awaitable[None]]) -> QueueClinic:
    """Play a scene while its clock runs on by itself."""
    clinic = QueueClinic()

    async def turn() -> None:
        async with clinic.open():
            task = asyncio.ensure_future(scene(clinic))
            while not task.done():
                await clinic.clock.run_for(0.5)
            await task

    asyncio.run(turn())
    return clinic


async def later(clinic: QueueClinic, seconds: float) -> None:
    await clinic.clock.sleep_until(clinic.clock.now().awake + seconds)


def test_a_revival_and_the_end_of_hope_are_told_in_words() -> None:
    """Project first, what happened, what was done and what to type; a second failure is told as one, not as resolved."""

    async def scene(clinic: QueueClinic) -> None:
        for number in range(2):
            clinic.silent(job_id=str(number))
            await clinic.watch_queue.check()
            await later(clinic, 10)
        await clinic.watch_queue.check()
        await later(clinic, 10)
        assert await clinic.incidents.listed() == []

    revived, given_up = play(scene).recorder.said
    assert revived.splitlines() == [
        "popoto: silent for more than 15 min (silent_for_15_minutes)",
        "Where: session tg_popoto_-529_1, chat -529, in a queue in memory",
        "Since: 2027-01-15 07:45 UTC",
        "Wakeful did: revived it: the message was enqueued again",
        "If you do nothing: its message is tried once more; a second failure is given up",
        "→ wakeful events --since 1h",
    ]
    assert "Wakeful did: gave up: it failed again after it was revived; the chat: sent" in given_up


def test_a_revived_session_is_resolved_once_its_next_job_runs() -> None:
    """Until then its incident stays open."""

    async def scene(clinic: QueueClinic) -> None:
        clinic.silent()
        await clinic.watch_queue.check()
        await later(clinic, 10)
        await clinic.watch_queue.check()
        (incident,) = await clinic.incidents.listed()
        assert incident.cause is Cause.SESSION
        (job,) = clinic.jobs.pending
        clinic.silent(job_id=job.job_id)
        watched = clinic.jobs.watched[ONE]
        fresh = QueuedSession("", ONE, "popoto", "-529", clinic.wall() - 5, clinic.wall())
        clinic.jobs.watched[ONE] = Watched(fresh, watched.job)
        await clinic.watch_queue.check()
        await later(clinic, SAME_SECONDS)
        assert await clinic.incidents.listed() == []

    assert play(scene).recorder.said[-1].startswith("Resolved")


def test_a_workers_death_is_one_incident_and_one_alert_and_revived_in_turn() -> None:
    """Ten at once, then one every two seconds."""

    async def scene(clinic: QueueClinic) -> None:
        for number in range(12):
            clinic.silent(SessionId(f"tg_popoto_-529_{number + 1000}"), job_id=str(number))
        check = asyncio.ensure_future(clinic.watch_queue.check())
        await later(clinic, 1)
        assert len(clinic.jobs.pending) == 10
        await check
        assert len(clinic.jobs.pending) == 12
        (incident,) = await clinic.incidents.listed()
        assert (incident.cause, incident.scope, incident.affected) == (Cause.WORKER, "popoto", 12)
        await later(clinic, 10)

    (told,) = play(scene).recorder.said
    assert "popoto: 12 sessions are in trouble at once" in told


def test_a_held_session_says_what_to_type_and_takes_a_yes_only_with_its_folder() -> None:
    """`waits` says that it is held; a folder that is gone is refused, whatever a person says."""

    async def scene(clinic: QueueClinic) -> None:
        clinic.cut_off()
        await clinic.watch_queue.check()
        await later(clinic, 5)
        assert await clinic.watch_queue.waits(ONE) == (
            "a call was cut off that may have had effects elsewhere"
        )
        assert await clinic.watch_queue.waits("tg_popoto_-529_2") is None
        clinic.place.gone.add("/srv/popoto")
        with pytest.raises(FolderGone, match="/srv/popoto is gone"):
            await clinic.watch_queue.release(ONE)
        assert clinic.jobs.pending == []
        clinic.place.gone.clear()
        assert await clinic.watch_queue.release(ONE) == "a person approved it"
        assert len(clinic.jobs.pending) == 1

    clinic = play(scene)
    held = clinic.recorder.said[0]
    assert "Wakeful did: held: a call was cut off" in held
    assert "`git push origin main`" in held
    assert held.endswith(f"→ wakeful session revive {ONE} --yes")


def test_a_queue_that_does_not_answer_is_told_once_with_its_end() -> None:
    """One incident, one alert, a note for the status; over when it answers again."""

    async def scene(clinic: QueueClinic) -> None:
        look = clinic.jobs.look

        async def refused() -> Snapshot:
            raise JobsUnreachable(place="a queue in memory", reason="connection refused")

        clinic.jobs.look = refused  # type: ignore[method-assign]
        for _ in range(3):
            await clinic.watch_queue.check()
        assert "connection refused" in str(clinic.watch_queue.trouble)
        (incident,) = await clinic.incidents.listed()
        assert incident.cause is Cause.QUEUE
        await later(clinic, 5)
        clinic.jobs.look = look  # type: ignore[method-assign]
        await clinic.watch_queue.check()
        assert clinic.watch_queue.trouble is None
        await later(clinic, SAME_SECONDS)
        assert await clinic.incidents.listed() == []

    lost, back = play(scene).recorder.said
    assert lost.startswith("a queue in memory cannot be looked at, and its queue is not watched")
    assert back.endswith("it answers again")


def test_a_session_that_its_queue_runs_is_judged_like_any_other() -> None:
    """Its log alone vouches for nobody; with its queue's word, silence in it is trouble, and the queue's to heal."""
    subject = Subject(ONE, "tool-use", "testhost", "tool_use.jsonl", project="popoto")

    async def scene(clinic: QueueClinic) -> None:
        call = CallStarted(clinic.wall() - 900, "c1", "Bash", input=b'{"command": "git push"}')
        clinic.supervisor.heard(subject, [call], live=False)
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
        assert healths(clinic) == [Health.UNKNOWN]

    assert len([each for each in play(scene).recorder.said if "adopt" in each]) == 0


def healths(clinic: QueueClinic) -> list[Health]:
    return [each.record.health for each in clinic.roster.watched.values() if each.record is not None]
