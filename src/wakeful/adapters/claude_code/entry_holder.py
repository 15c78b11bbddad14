"""Who is meant by a registry file of this host's own folder. A container that has the folder mounted writes there too.

Its numbers are those of another pid namespace: taken for ours they would make the living dead. They are translated, and
where they come from a machine that we do not see, they are not believed.
"""

from collections.abc import Callable
from typing import Final

from wakeful.adapters.claude_code.registry import Entry
from wakeful.adapters.system import proc
from wakeful.adapters.system.namespaces import InnerProcesses
from wakeful.domain.process import Process, Sight

# The client writes its file within seconds of its start. A clock that was set meanwhile is off by less than this.
OFF_SECONDS_MAX: Final = 600.0


class EntryHolder:
    """Whose an entry is. `now` is the time of day."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._inside = InnerProcesses()

    def process_of(self, entry: Entry) -> Process:
        """The process as this host numbers it. Raises ValueError for an entry without a time, or of another machine."""
        process = entry.process
        if proc.sight(process) is not Sight.DEAD:
            return process
        inside = self._inside.find(process.pid, process.started)
        if inside is None and self._is_foreign(entry, process):
            raise ValueError(f"the times of process {process.pid} are those of another machine")
        return inside or process

    def _is_foreign(self, entry: Entry, process: Process) -> bool:
        """Whether it was written since we booted, by somebody whose start does not fit in our clock."""
        if entry.started_at is None:
            return False
        seconds_ago = self._now() - entry.started_at / 1000
        since_boot = seconds_ago < proc.age_seconds(Process(process.pid, 0, process.boot_id))
        return since_boot and abs(proc.age_seconds(process) - seconds_ago) > OFF_SECONDS_MAX
