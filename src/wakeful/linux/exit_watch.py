"""Reports process exits with one pidfd each in the event loop; live processes cost nothing.

Without a pidfd the process is polled once a second. The callback decides what an exit means.
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
        # As many descriptors as the user may have.
        _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        self._pidfds_max = shares(hard).pidfds
        self._polled: set[Process] = set()
        self._timer: asyncio.TimerHandle | None = None
        # Probes without an answer since the start.
        self.failed_probes = 0

    @property
    def is_polling(self) -> bool:
        """Whether some exits are noticed up to a second late."""
        return bool(self._polled)

    def watch(self, process: Process) -> ProcessState:
        """Watch the process; repeated calls have no effect. `dead`: it had ended already, `on_exit` is not called."""
        if process in self._pidfds:
            return ProcessState.ALIVE
        state = self._attach(process)
        self.failed_probes += state is ProcessState.UNKNOWN
        if state is not ProcessState.DEAD and process not in self._pidfds:
            self._polled.add(process)
            if self._timer is None:
                self._timer = self._loop.call_later(POLL_SECONDS, self._check_polled)
        return state

    def unwatch(self, process: Process) -> None:
        """Stop watching; its exit is not reported."""
        pidfd = self._pidfds.pop(process, None)
        if pidfd is not None:
            self._loop.remove_reader(pidfd)
            os.close(pidfd)
        self._stop_polling(process)

    def close(self) -> None:
        """Stop watching all processes and close the descriptors."""
        for process in (*self._pidfds, *self._polled):
            self.unwatch(process)

    def _attach(self, process: Process) -> ProcessState:
        """Open a pidfd if possible; returns the state of the process in either case."""
        try:
            pidfd = self._open(process.pid)
        except OSError:
            # No free descriptor, an old kernel, a filter: a missing pidfd says nothing about the process.
            return proc.state_of(process)
        # Only now is the pid fixed. If another process had got it before, the start time would differ.
        state = proc.state_of(process)
        if state is ProcessState.ALIVE:
            self._pidfds[process] = pidfd
            self._stop_polling(process)
            self._loop.add_reader(pidfd, self._report_exit, process)
        else:
            os.close(pidfd)
        return state

    def _open(self, pid: int) -> int:
        if pid > proc.PID_MAX:
            raise ProcessLookupError
        if len(self._pidfds) >= self._pidfds_max:
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
        return os.pidfd_open(pid)

    def _report_exit(self, process: Process) -> None:
        self.unwatch(process)
        self._on_exit(process)

    def _stop_polling(self, process: Process) -> None:
        self._polled.discard(process)
        if not self._polled and self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _check_polled(self) -> None:
        """Check every polled process; `_attach` moves it to a pidfd as soon as one is free."""
        # The next check first: an `on_exit` that raises must not end the watch over the others.
        self._timer = self._loop.call_later(POLL_SECONDS, self._check_polled)
        for process in tuple(self._polled):
            # The callback of one exit may have unwatched another process.
            if process in self._polled and self._attach(process) is ProcessState.DEAD:
                self._report_exit(process)
