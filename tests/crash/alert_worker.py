"""Owes one alert and delivers it through a channel that is a file: the process a test kills on the way.

Arguments: the store, the file, and whose chat it is for ("" for the operator).
"""

import asyncio
import sys
from pathlib import Path

from wakeful.alerts.model import Alert, AlertKind, AlertRules
from wakeful.alerts.outbox import AlertOutbox
from wakeful.linux.clock import SystemClock
from wakeful.storage.sqlite.store import SqliteStore


class FileChannel:
    """Every message is a line."""

    name = "telegram"

    def __init__(self, path: Path) -> None:
        self._path = path

    async def send(self, text: str, *, chat: str | None = None) -> None:
        del chat
        with self._path.open("a") as file:
            file.write(f"{text}\n")

    async def close(self) -> None: ...


async def main(database: str, said: str, chat: str) -> None:
    store = await SqliteStore.open(Path(database))
    outbox = AlertOutbox(store, SystemClock(), [FileChannel(Path(said))], AlertRules(), "here")
    running = asyncio.create_task(outbox.run())
    await outbox.restore()
    await outbox.enqueue(Alert(AlertKind.TROUBLE, "one", "it is silent", chat or None))
    while outbox.pending("telegram"):  # noqa: ASYNC110 - the outbox has no event for its end
        await asyncio.sleep(0.01)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    await store.close()


asyncio.run(main(*sys.argv[1:]))
