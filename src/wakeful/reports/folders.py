"""Where sessions work, looked at from outside: what changed in a folder. Nothing is ever written there."""

from typing import Protocol

from wakeful.reports.model import Folder


class WorkFolders(Protocol):
    async def look(self, folder: str, since_wall: float) -> Folder:
        """What was done in it since then. Never raises: what could not be seen is the answer's `problem`."""
