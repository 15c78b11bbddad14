"""Where a journal's files lie below its root, and the folders they need. No symbolic link is followed to any of them."""

import os
import stat
from pathlib import Path

from wakeful.journal.model import StateForeign


class JournalPlaces:
    """The paths below one root."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.state = root / ".copilot" / "session_state.json"
        self.events = root / "events.ndjson"
        self.database = root / "gaia.db"
        self.tmp = root / ".tmp"
        self.lock = self.tmp / "agent_recovery.lock"
        self.timeline = self.tmp / "recovery.timeline"
        self.corrupt = self.tmp / "corrupt"
        self.logs = self.tmp / "logs"
        self.archive = root / "doc" / "todo-archive.ndjson"
        self.master = root / "MASTER_BACKLOG.md"

    @classmethod
    def of_state(cls, path: Path) -> "JournalPlaces":
        """The journal a state file belongs to. Raises StateForeign for a file that lies elsewhere."""
        # Links on the way to the root are its owner's; those below it are refused where they are met.
        path = Path(os.path.abspath(path))  # noqa: PTH100 - see above
        places = cls(path.parent.parent.resolve())
        if (path.parent.name, path.name) != (places.state.parent.name, places.state.name):
            raise StateForeign(
                path=path, reason="a journal's state is .copilot/session_state.json of its folder"
            )
        return places

    def make(self) -> None:
        """Make the folders, for this user alone. Raises StateForeign for one that leads elsewhere, and OSError."""
        for folder in (self.state.parent, self.tmp, self.corrupt, self.logs):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.check()

    def check(self) -> None:
        """Raises StateForeign where a folder is a link or another user's."""
        for folder in (self.state.parent, self.tmp, self.corrupt, self.logs):
            try:
                found = folder.lstat()
            except FileNotFoundError:
                continue
            if not stat.S_ISDIR(found.st_mode):
                raise StateForeign(path=folder, reason="it is not a folder of its own")
            if found.st_uid != os.geteuid():
                raise StateForeign(path=folder, reason="it belongs to another user")
