"""The spool: hooks drop one report per file (`exec cat > spool/NAME`), this eye reads and removes them.

A report only reports. Whatever it says, nothing is run, opened or decided because of it.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from wakeful.adapters.logs.small import entries, read_small, watch_or_await
from wakeful.adapters.spool.fired import Fired
from wakeful.adapters.spool.hooks import PAYLOAD_BYTES_MAX, Hook, read_hook
from wakeful.domain.errors import BadSessionId
from wakeful.domain.events import Opened
from wakeful.domain.ids import ConversationId, SessionId, parse_session_id
from wakeful.domain.subject import Subject
from wakeful.ports.clock import Clock
from wakeful.ports.eyes import Changes, Folders, Witness

# A hook writes within milliseconds: what is unreadable this long after is no report, and what lay here for longer was
# written while nobody watched. It says what was, and not that its agent lives.
FRESH_SECONDS_MAX: Final = 60.0
# More reports than this at once are read in the next look: a flood must not stop the loop.
REPORTS_AT_ONCE_MAX: Final = 500


class SpoolEye:
    """Watches the spool folder. Without `folders` it is a single look and removes nothing."""

    name = "hook-spool"
    slow = None
    left_out = None

    def __init__(
        self,
        folder: Path,
        host: str,
        clock: Clock,
        witness: Witness,
        folders: Folders | None = None,
        fired: Fired | None = None,
        apart: Sequence[str] = (),
    ) -> None:
        self._folder = folder
        self._host = host
        self._clock = clock
        self._witness = witness
        self._folders = folders
        self._fired = fired
        # Who works in these folders was asked something by us, and is no session.
        self._apart = apart

    def look(self) -> None:
        if self._folders is not None:
            watch_or_await(self._folders, str(self._folder))
        waiting = [(mtime, path) for path in entries(self._folder) if (mtime := _mtime(path)) is not None]
        for mtime, path in sorted(waiting)[:REPORTS_AT_ONCE_MAX]:
            self._take(path, mtime)

    def told(self, changes: Changes) -> None:
        if changes.touch(str(self._folder)) or any(
            path.startswith(f"{self._folder}/") for path in changes.changed
        ):
            self.look()

    def catch_up(self, session_id: SessionId) -> None:
        """Nothing: reports are read as they come."""

    def _take(self, path: Path, mtime: float) -> None:
        written_wall = _ctime(path)
        payload = read_small(path, PAYLOAD_BYTES_MAX)
        hook = read_hook(payload, mtime) if payload else None
        if hook is not None:
            self._report(hook, mtime, written_wall or mtime)
        if self._folders is not None and (hook is not None or not self._is_fresh(mtime)):
            path.unlink(missing_ok=True)

    def _is_fresh(self, mtime: float) -> bool:
        return self._clock.now().wall - mtime <= FRESH_SECONDS_MAX

    def _report(self, hook: Hook, at: float, written_wall: float) -> None:
        try:
            session_id = parse_session_id(f"{hook.provider}-{hook.conversation_id}")
        except BadSessionId:
            return
        if self._fired is not None:
            self._fired.mark(hook.provider)
        if hook.cwd in self._apart:
            return
        subject = Subject(
            session_id,
            hook.provider,
            self._host,
            "hook",
            conversation_id=ConversationId(hook.conversation_id),
        )
        opened = Opened(at, subject.conversation_id, hook.cwd)
        self._witness.reported(
            subject, [opened, *hook.events], live=self._is_fresh(at), written_wall=written_wall
        )


def _mtime(path: Path) -> float | None:
    """When it was dropped; None if somebody took it away since."""
    try:
        return path.lstat().st_mtime
    except OSError:
        return None


def _ctime(path: Path) -> float | None:
    """The same by a time that its writer cannot choose."""
    try:
        return path.lstat().st_ctime
    except OSError:
        return None
