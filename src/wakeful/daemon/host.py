"""Runs the supervisor in the daemon's loop, and passes its results on to the parts of the daemon.

The parts are built later and then join. Before that, no session can be reached and no result is passed on.
"""

import asyncio
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final, Protocol

from msgspec.structs import replace

from wakeful.alerts.failed_parts import FailedParts
from wakeful.core.clock import Clock
from wakeful.core.ids import SessionId
from wakeful.core.process import Process
from wakeful.daemon.source_set import ReportOrphans
from wakeful.judging.wake_eligibility import Reachability
from wakeful.metrics.model import Histogram
from wakeful.sessions.feed import SessionChange
from wakeful.sessions.session_judge import JudgingHost
from wakeful.sessions.supervisor import Supervisor
from wakeful.sources.tool_processes import orphans_of_all
from wakeful.storage.base import Transition

JUDGING: Final = "judging"


class JudgedListener(Protocol):
    def on_judged(self, transitions: list[Transition], changes: list[SessionChange]) -> None: ...

    def on_session_gone(self, session_id: SessionId) -> None: ...


class ProcessListener(Protocol):
    def on_session_process(self, session_id: SessionId) -> None: ...


class ExitListener(Protocol):
    def on_exit(self, process: Process) -> None: ...


class DaemonHost:
    """The `ObserverHost` of the daemon. `observing`: Wakeful acts on nothing; `wakes`: heartbeats are enabled."""

    def __init__(self, clock: Clock, *, observing: bool, wakes: bool) -> None:
        self.failures = FailedParts(clock)
        self.judging_seconds = Histogram()
        self._observing = observing
        self._wakes = wakes
        self._controller: JudgingHost | None = None
        self._judged_listener: JudgedListener | None = None
        self._process_listener: ProcessListener | None = None
        self._exit_listeners: Sequence[ExitListener] = ()
        self._loop = asyncio.get_running_loop()
        self._is_held = False
        self._timer: asyncio.TimerHandle | None = None
        self._retries: dict[str, asyncio.TimerHandle] = {}
        # Sessions whose agent ended, until the processes were searched for its orphans.
        self._orphans_wanted: dict[SessionId, ReportOrphans] = {}
        self._orphan_search: asyncio.Task[None] | None = None

    def join(
        self,
        *,
        controller: JudgingHost,
        judged: JudgedListener,
        processes: ProcessListener,
        exits: Sequence[ExitListener],
    ) -> None:
        self._controller, self._judged_listener = controller, judged
        self._process_listener, self._exit_listeners = processes, exits

    def on_exit(self, process: Process) -> None:
        for each in self._exit_listeners:
            each.on_exit(process)

    def on_session_process(self, session_id: SessionId) -> None:
        if self._process_listener is not None:
            self._process_listener.on_session_process(session_id)

    def on_session_gone(self, session_id: SessionId) -> None:
        if self._judged_listener is not None:
            self._judged_listener.on_session_gone(session_id)

    def on_judged(self, transitions: list[Transition], changes: list[SessionChange]) -> None:
        if self._judged_listener is not None:
            self._judged_listener.on_judged(transitions, changes)

    def reach(self, session_id: SessionId) -> Reachability:
        """The answer of the action gate, asked while the session is judged."""
        if self._observing or self._controller is None:
            return Reachability(enabled=self._wakes, observing=self._observing)
        return replace(self._controller.reach(session_id), enabled=self._wakes)

    def needs_approval(self, session_id: SessionId) -> bool:
        return self._controller is not None and self._controller.needs_approval(session_id)

    @contextmanager
    def held_judging(self) -> Iterator[None]:
        """Requests are ignored meanwhile: sessions stay marked, for the caller to have them judged."""
        self._is_held = True
        try:
            yield
        finally:
            self._is_held = False

    def request_judging(self, supervisor: Supervisor) -> None:
        if not self._is_held:
            self._loop.call_soon(self._judge_pending, supervisor)

    def _judge_pending(self, supervisor: Supervisor) -> None:
        began = self._loop.time()
        try:
            more = supervisor.judge_pending()
        except Exception as error:  # noqa: BLE001 - the rest is judged after a pause
            self._loop.call_later(self.failures.on_failure(JUDGING, error), self._judge_pending, supervisor)
            return
        self.failures.on_success(JUDGING)
        self.judging_seconds.observe(self._loop.time() - began)
        if more:
            self._loop.call_soon(self._judge_pending, supervisor)

    def set_timer(self, supervisor: Supervisor, awake: float) -> None:
        # The loop's clock is CLOCK_MONOTONIC: like `awake`, it stops while the host is suspended.
        if self._timer is not None:
            if self._timer.when() <= awake and not self._timer.cancelled():
                return
            self._timer.cancel()
        self._timer = self._loop.call_at(awake, self._on_timer, supervisor)

    def _on_timer(self, supervisor: Supervisor) -> None:
        self._timer = None
        try:
            following = supervisor.on_timer()
        except Exception as error:  # noqa: BLE001 - the later deadlines are still to come
            self.set_timer(supervisor, self._loop.time() + self.failures.on_failure(JUDGING, error))
            return
        if following is not None:
            self.set_timer(supervisor, following)

    def retry_later(self, name: str, seconds: float, retry: Callable[[], object]) -> None:
        if name not in self._retries:
            self._retries[name] = self._loop.call_later(seconds, self._retry, name, retry)

    def _retry(self, name: str, retry: Callable[[], object]) -> None:
        self._retries.pop(name, None)
        retry()
        if name not in self._retries:
            self.failures.on_success(name)

    def continue_later(self, act: Callable[[], object]) -> None:
        self._loop.call_soon(act)

    def search_orphans(self, session_id: SessionId, report: ReportOrphans) -> None:
        self._orphans_wanted[session_id] = report
        if self._orphan_search is None or self._orphan_search.done():
            self._orphan_search = self._loop.create_task(self._search_orphans())

    async def _search_orphans(self) -> None:
        """One pass over the processes for all sessions that ended since the last one."""
        while self._orphans_wanted:
            wanted, self._orphans_wanted = self._orphans_wanted, {}
            for session_id, orphans in (await asyncio.to_thread(orphans_of_all, set(wanted))).items():
                wanted[session_id](session_id, orphans)
