"""Reports process exits with one pidfd each in the event loop; live processes cost nothing.

Where no pidfd is available, the process is polled once a second, and `slow` says so. The callback judges what
an exit means.
"""

import asyncio
import errno
import os
import resource
from collections.abc import Callable
from typing import Final

from wakeful.core.descriptors import shares
from wakeful.core.process import Process, ProcessState
from wakeful.linux import proc

POLL_SECONDS: Final = 1.0


class ExitWatch:
    """Calls `on_exit` once for every watched process that ended, from the loop it was made in."""

    def __init__(self, on_exit: Callable[[Process], None]) -> None:
        self._on_exit = on_exit
        self._loop = asyncio.get_running_loop()
        self._pidfds: dict[Process, int] = {}
        self._pidfds_max = shares(_raise_descriptor_limit()).pidfds
        self._polled: set[Process] = set()
        self._timer: asyncio.TimerHandle | None = None
        # Looks at processes that came to nothing, since the start.
        self.failed_probes = 0

    @property
    def is_polling(self) -> bool:
        """Whether some ends are seen up to a second late."""
        return bool(self._polled)

    def watch(self, process: Process) -> ProcessState:
        """Begin to watch, once however often it is asked for. `dead`: it had ended already, nobody is called."""
        if process in self._pidfds:
            return ProcessState.ALIVE
        seen = self._attach(process)
        self.failed_probes += seen is ProcessState.UNKNOWN
        if seen is not ProcessState.DEAD and process not in self._pidfds:
            self._poll(process)
        return seen

    def unwatch(self, process: Process) -> None:
        """Forget it; its end will not be told."""
        pidfd = self._pidfds.pop(process, None)
        if pidfd is not None:
            self._loop.remove_reader(pidfd)
            os.close(pidfd)
        self._stop_polling(process)

    def close(self) -> None:
        """Forget all of them and give the descriptors back."""
        for process in (*self._pidfds, *self._polled):
            self.unwatch(process)

    def _attach(self, process: Process) -> ProcessState:
        """Get a pidfd if one can be had; what was seen of the process either way."""
        try:
            pidfd = self._open(process.pid)
        except OSError:
            # No room, an old kernel, a filter: not having a pidfd says nothing about the process.
            return proc.state_of(process)
        # Only now is the pid held. Had it changed hands before, the start time would differ.
        seen = proc.state_of(process)
        if seen is ProcessState.ALIVE:
            self._pidfds[process] = pidfd
            self._stop_polling(process)
            self._loop.add_reader(pidfd, self._report_exit, process)
        else:
            os.close(pidfd)
        return seen

    def _open(self, pid: int) -> int:
        if pid > proc.PID_MAX:
            raise ProcessLookupError
        if len(self._pidfds) >= self._pidfds_max:
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
        return os.pidfd_open(pid)

    def _report_exit(self, process: Process) -> None:
        self.unwatch(process)
        self._on_exit(process)

    def _poll(self, process: Process) -> None:
        self._polled.add(process)
        if self._timer is None:
            self._timer = self._loop.call_later(POLL_SECONDS, self._check_polled)

    def _stop_polling(self, process: Process) -> None:
        self._polled.discard(process)
        if not self._polled and self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _check_polled(self) -> None:
        """Ask about every polled process; `_attach` moves it to a pidfd as soon as there is room."""
        # First the next look: an `on_exit` that raises must not end the watch over the others.
        self._timer = self._loop.call_later(POLL_SECONDS, self._check_polled)
        for process in tuple(self._polled):
            # The call for one exit may have ended the watch over another.
            if process in self._polled and self._attach(process) is ProcessState.DEAD:
                self._report_exit(process)


def _raise_descriptor_limit() -> int:
    """Let this process have as many descriptors as its user may; how many that is."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return hard
