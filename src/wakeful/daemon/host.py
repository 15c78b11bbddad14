"""Runs the supervisor in the daemon's loop, and passes its results on to the parts of the daemon.

Parts join once they are built. Before that, no session can be reached and no result is passed on.
"""

import asyncio
from collections.abc import Callable
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
        self._controllers: list[JudgingHost] = []
        self._judged_listeners: list[JudgedListener] = []
        self._process_listeners: list[ProcessListener] = []
        self._exit_listeners: list[ExitListener] = []
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        self._retries: dict[str, asyncio.TimerHandle] = {}
        # Sessions whose agent ended, until the processes were searched for its orphans.
        self._orphans_wanted: dict[SessionId, ReportOrphans] = {}
        self._orphan_search: asyncio.Task[None] | None = None

    def add_controller(self, controller: JudgingHost) -> None:
        self._controllers.append(controller)

    def add_judged_listener(self, listener: JudgedListener) -> None:
        self._judged_listeners.append(listener)

    def add_process_listener(self, listener: ProcessListener) -> None:
        self._process_listeners.append(listener)

    def add_exit_listener(self, listener: ExitListener) -> None:
        self._exit_listeners.append(listener)

    def on_exit(self, process: Process) -> None:
        for each in self._exit_listeners:
            each.on_exit(process)

    def on_session_process(self, session_id: SessionId) -> None:
        for each in self._process_listeners:
            each.on_session_process(session_id)

    def on_session_gone(self, session_id: SessionId) -> None:
        for each in self._judged_listeners:
            each.on_session_gone(session_id)

    def on_judged(self, transitions: list[Transition], changes: list[SessionChange]) -> None:
        for each in self._judged_listeners:
            each.on_judged(transitions, changes)

    def reach(self, session_id: SessionId) -> Reachability:
        """The answer of the action gate, asked while the session is judged."""
        if self._observing:
            return Reachability(enabled=self._wakes, observing=True)
        for each in self._controllers:
            return replace(each.reach(session_id), enabled=self._wakes)
        return Reachability(enabled=self._wakes)

    def needs_approval(self, session_id: SessionId) -> bool:
        return any(each.needs_approval(session_id) for each in self._controllers)

    def request_judging(self, supervisor: Supervisor) -> None:
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
        # The loop's clock is CLOCK_MONOTONIC, which also counts awake seconds.
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
