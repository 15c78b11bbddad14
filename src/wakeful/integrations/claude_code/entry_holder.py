"""Which process a registry file of this host's own folder means. A container that has the folder mounted writes there too.

Its numbers are those of another pid namespace: read as ours they would make the living dead. They are translated, and
entries from a machine that we do not see are not believed. Nor is an entry that names a living process which is not
this user's Claude Code: every program of this user can write such a file.
"""

from collections.abc import Callable
from itertools import pairwise
from typing import Final

from wakeful.core.ids import is_uuid
from wakeful.core.process import Process, Sight
from wakeful.integrations.claude_code.registry import Entry
from wakeful.linux import proc
from wakeful.linux.client_processes import reason_against
from wakeful.linux.namespaces import InnerProcesses

# The client writes its file within seconds of its start. A clock that was set meanwhile is off by less than this.
OFF_SECONDS_MAX: Final = 600.0
PROVIDER: Final = "claude"
_WITHOUT_TERMINAL: Final = frozenset({"-p", "--print"})
_NAMING: Final = frozenset({"--session-id", "--resume", "-r"})


class EntryHolder:
    """Whose an entry is. `now` is the time of day."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._inside = InnerProcesses()

    def process_of(self, entry: Entry) -> Process:
        """The process as this host numbers it.

        Raises ValueError for an entry without a time or of another machine, and for a living process that is not the
        client.
        """
        process = entry.process
        if proc.sight(process) is Sight.DEAD:
            inside = self._inside.find(process.pid, process.started)
            if inside is None and self._is_foreign(entry, process):
                raise ValueError(f"the times of process {process.pid} are those of another machine")
            process = inside or process
        if proc.sight(process) is not Sight.DEAD:
            reason = reason_against(process, PROVIDER) or _other_conversation(entry, process)
            if reason is not None:
                raise ValueError(reason)
        return process

    def _is_foreign(self, entry: Entry, process: Process) -> bool:
        """Whether it was written since we booted, by somebody whose start does not fit in our clock."""
        if entry.started_at is None:
            return False
        seconds_ago = self._now() - entry.started_at / 1000
        since_boot = seconds_ago < proc.age_seconds(Process(process.pid, 0, process.boot_id))
        return since_boot and abs(proc.age_seconds(process) - seconds_ago) > OFF_SECONDS_MAX


def _other_conversation(entry: Entry, process: Process) -> str | None:
    """Why this process holds another conversation; None if it may hold this one.

    Without a terminal the conversation that the arguments name is the one that stays; in a terminal a person can change it.
    """
    words = proc.command(process.pid)
    if _WITHOUT_TERMINAL.isdisjoint(words) or "--fork-session" in words:
        return None
    for word, following in pairwise((*words, "")):
        name, _, value = word.partition("=")
        named = value or following
        if name in _NAMING and is_uuid(named) and named.lower() != entry.session_id.lower():
            return f"process {process.pid} holds another conversation"
    return None
