"""One cycle of a watchdog over a real Redis, as a process that can be killed anywhere.

    python queue_worker.py REDIS_URL FOLDER

Its log of critical events and what it sent to chats are files of the folder: they outlive every kill.
"""

import asyncio
import sys
from pathlib import Path

from wakeful.healing.plan import HealingRules
from wakeful.healing.rate_limit import RevivalLimiter
from wakeful.incidents.critical_log import CriticalLog
from wakeful.linux.clock import SystemClock
from wakeful.watchdog.callbacks import Callbacks
from wakeful.watchdog.loop import RedisWatch, connect
from wakeful.watchdog.parts import HealingControls, WatchSettings


async def cycle(url: str, folder: Path) -> None:
    def send(chat_id: str, text: str) -> None:
        with (folder / "sent").open("a") as sent:
            sent.write(f"{chat_id} {text}\n")

    def start_worker(project_key: str) -> None:
        with (folder / "started").open("a") as started:
            started.write(f"{project_key}\n")

    write = CriticalLog(folder / "critical_events.jsonl").append
    clock = SystemClock()
    watch = RedisWatch(
        jobs=connect(url),
        logs=folder / "logs",
        clock=clock,
        callbacks=Callbacks(write=write, send_message=send, start_worker=start_worker),
        controls=HealingControls(rules=HealingRules, limiter=RevivalLimiter(clock, 0.0, 1)),
        settings=WatchSettings(confirm_seconds=0.1),
    )
    await watch.check()
    await watch.close()


if __name__ == "__main__":
    asyncio.run(cycle(sys.argv[1], Path(sys.argv[2])))
