"""Session files of a queue's host, for tests of the watchdog that need no logs."""

from collections.abc import Collection, Sequence

from wakeful.core.ids import SessionId
from wakeful.watchdog.queue import LogReading


class NoSessionFiles:
    """A host without any logs, on which every folder exists."""

    async def read(self, session_ids: Sequence[SessionId]) -> dict[SessionId, LogReading]:
        del session_ids
        return {}

    def forget(self, kept: Collection[SessionId]) -> None: ...

    async def is_folder_gone(self, path: str) -> bool:
        del path
        return False
