"""One of several watchdogs that race on one Redis: waits for the start, runs one cycle, and prints what it did.

python watchdog_racer.py REDIS_URL FOLDER
"""

import asyncio
import sys
from pathlib import Path
from uuid import uuid4

from wakeful.healing.plan import HealingRules
from wakeful.healing.rate_limit import RevivalLimiter
from wakeful.incidents.critical_event import CriticalEvent
from wakeful.linux.clock import SystemClock
from wakeful.watchdog.callbacks import Callbacks
from wakeful.watchdog.loop import RedisWatch, connect
from wakeful.watchdog.parts import HealingControls, WatchSettings
from wakeful.watchdog.queue import FenceResult, QueueAttempt, QueueRevival, QueueRevivalStage


async def cycle(url: str, folder: str) -> list[int]:
    """One cycle: how many were unhealthy, revived and given up here, and how many messages were sent."""
    events: list[CriticalEvent] = []
    sent: list[str] = []

    async def write(event: CriticalEvent) -> None:
        events.append(event)

    async def send(chat_id: str, _text: str) -> None:
        sent.append(chat_id)

    clock = SystemClock()
    watch = RedisWatch(
        jobs=connect(url),
        logs=Path(folder),
        clock=clock,
        callbacks=Callbacks(write=write, send_message=send),
        controls=HealingControls(
            rules=lambda: HealingRules(revive_runaways=True), limiter=RevivalLimiter(clock, 0.0, 1)
        ),
        settings=WatchSettings(),
    )
    started()
    checked = await watch.check()
    await watch.close()
    revived = sum(each.action_taken == "revival_attempted" for each in events)
    failed = sum(each.event == "revival_failed" for each in events)
    return [checked.unhealthy, revived, failed, len(sent)]


async def fence(url: str, _folder: str) -> list[int]:
    """Every watchdog has seen every session running, and revives them all."""
    jobs = connect(url)
    watched = (await jobs.snapshot()).watched
    started()
    now = SystemClock().now().wall
    done = [await jobs.revive(each, revival_of(each, now)) for each in watched]
    await jobs.close()
    return [len(watched), done.count(FenceResult.DONE), 0, 0]


def revival_of(watched: QueueAttempt, now: float) -> QueueRevival:
    assert watched.job is not None, "all of them run"
    return QueueRevival(
        work=watched.work,
        session_id=watched.session.session_id,
        project_key="popoto",
        chat_id="7",
        reason="silent_for_15_minutes",
        began_at=now,
        stage=QueueRevivalStage.ENQUEUED,
        job_id=uuid4().hex,
        context="go on",
        failed_key=watched.job.key.replace(":running", ":failed"),
    )


def started() -> None:
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    sys.stdin.readline()


if __name__ == "__main__":
    part = {"cycle": cycle, "fence": fence}[sys.argv[3]]
    sys.stdout.write(" ".join(map(str, asyncio.run(part(*sys.argv[1:3])))) + "\n")
