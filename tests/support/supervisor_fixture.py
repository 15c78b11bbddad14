"""Sessions made by hand through the real supervisor, served by the real HTTP servers.

Nothing moves by itself. Everything that changes the sessions runs in the servers' loop (`HttpFixture.call`).
"""

import asyncio
import socket
import threading
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, TypeVar

import httpx
import msgspec

from support.fake_driver import ScriptedDriver, ScriptedProcesses
from wakeful.agents.hub import Hub
from wakeful.alerts.mute_pause import MutePause
from wakeful.alerts.mute_pause_model import PauseRecord
from wakeful.checkpoints.service import Checkpoints
from wakeful.checkpoints.user_rules import Lessons
from wakeful.config.token_file import load_or_create_token
from wakeful.control.controller import InterruptedCallClassifier, SessionController
from wakeful.control.driver_table import DriverTable
from wakeful.control.gate import ActionGate
from wakeful.control.idempotency import IdempotentController
from wakeful.control.ownership import ManagedSessions
from wakeful.control.person_stops import PersonStops
from wakeful.core.ids import ConversationId, SessionId
from wakeful.core.process import Process, ProcessState
from wakeful.daemon.control import SessionControllers, build_controllers
from wakeful.daemon.reports import build_reports
from wakeful.healing.case import HealingCase
from wakeful.healing.healer import Healer
from wakeful.healing.restore import Restorer
from wakeful.heartbeat.model import HeartbeatStatus
from wakeful.heartbeat.service import WakeService
from wakeful.http.app import build_app
from wakeful.http.auth import Authenticator
from wakeful.http.caller import Address, CallerCheck, RefusedDecision
from wakeful.http.gate import Gate
from wakeful.http.logins import Logins
from wakeful.http.routes.healing import QueuedSessions
from wakeful.http.server import PortBusy, bind_tcp, bind_unix, serve
from wakeful.incidents.critical_log import CriticalLog
from wakeful.incidents.service import Incidents
from wakeful.judging.events import (
    CallStarted,
    Event,
    Failure,
    LogOpened,
    Prompted,
    QuestionAsked,
    TurnEnded,
    TurnFailed,
)
from wakeful.judging.evidence import SessionIdentity
from wakeful.judging.thresholds import Policy
from wakeful.judging.wake_eligibility import Reachability
from wakeful.linux.tcp_peers import tcp_callers
from wakeful.replay.cases import EVENTS_RECALLED_MAX
from wakeful.sessions.feed import Feed, SessionChange
from wakeful.sessions.registry import KnownSessions, SessionRegistry
from wakeful.sessions.repair import Repairs
from wakeful.sessions.session import TrackedSession
from wakeful.sessions.supervisor import Supervisor
from wakeful.sessions.tracking import track_sessions
from wakeful.sources.log_source import LogExcerpt
from wakeful.storage.base import StateChange, Store, Transition
from wakeful.testing.memory_store import MemoryStore
from wakeful.testing.virtual_clock import START_WALL, VirtualClock
from wakeful.views.records import DaemonRecord, SourceRecord
from wakeful.views.sessions import SessionFacts, SessionQueries
from wakeful.work.service import WorkQueue

BOOT: Final = "a-boot-of-a-test"
STARTED_AT: Final = "2027-01-15T08:00:00.000Z"
T = TypeVar("T")


class SupervisorFixture:
    """Clock, supervisor, queries and store, without log sources: a test supplies the events. Implements
    SupervisorHost."""

    def __init__(
        self, *, store: Store | None = None, start_wall: float = START_WALL, clock: VirtualClock | None = None
    ) -> None:
        self.clock = clock or VirtualClock(start_wall)
        self.reread: list[SessionId] = []
        # Sessions whose orphans were searched for.
        self.searched: list[SessionId] = []
        self.sought: list[SessionId] = []
        self.policy = Policy()
        self.feed = Feed()
        self.troubles: dict[SessionId, HealingCase] = {}
        self.store: Store = store or MemoryStore(now=self._wall)
        tracking = track_sessions(self.clock, self.policy, self, self, known=KnownSessions(), boot_id=BOOT)
        self.supervisor, self.proofs = tracking.supervisor, tracking.reachability
        self.registry = tracking.registry
        self.desk = SessionQueries(self.clock, self.registry, self.feed, self.policy, HouseFacts(self))
        queue_sessions = ScriptedWorkSessions(self.registry)
        self.work_desk = WorkQueue(self.store, self.clock, queue_sessions, queue_sessions)
        self.driver = ScriptedDriver()
        self.world = ScriptedProcesses()
        self.person_stops = PersonStops(self.store, self.clock, self.supervisor)
        self.holdings = ManagedSessions(self.store, self.supervisor, "testhost", self, self.person_stops)
        self.calm = MutePause(self.store, self.clock)
        self.incidents = Incidents(self.store, self.clock)
        self.gate = ActionGate(self.store, self.clock, self, self.calm.pause_reason)
        self.hands = self.hands_in("mine")
        # A test that needs agents sets it.
        self.hub: Hub | None = None
        self.queue: QueuedSessions | None = None
        # Whether prompts arrive, and the mode; set by a test.
        self.path_open = True
        self.mode = "mine"
        # Whether a process of the open call is found.
        self.tool_runs = False
        self._ended: set[Process] = set()
        self._pids = iter(range(700_000, 4_000_000))

    @property
    def healing(self) -> tuple[Healer, Restorer] | None:
        """Subclasses have a healer."""
        return None

    @property
    def deciding(self) -> tuple[Checkpoints, Lessons] | None:
        """Subclasses have checkpoints."""
        return None

    @property
    def waking(self) -> WakeService | None:
        """Subclasses have a wake service."""
        return None

    def hands_in(self, mode: str) -> SessionController:
        drivers = DriverTable({"claude": self.driver, "codex": self.driver, "tmux": self.driver})
        return self.controllers_in(mode, drivers, Lessons(self.store, self.clock)).asked

    def controllers_in(
        self, mode: str, drivers: DriverTable, classifier: InterruptedCallClassifier
    ) -> SessionControllers:
        return build_controllers(
            self,
            managed_sessions=self.holdings,
            drivers=drivers,
            gate=self.gate,
            processes=self.world,
            classifier=classifier,
            mode=mode,
        )

    def standing(self) -> DaemonRecord:
        eyes = (SourceRecord("by hand", None),)
        notes = tuple(self.calm.mute_lines(self._wall()))
        paused = self.calm.current_pause_record
        return DaemonRecord(self.mode, "0.0.0", "testhost", 1, STARTED_AT, ("a socket",), eyes, notes, paused)

    def trouble_of(self, session_id: SessionId) -> HealingCase | None:
        """The case that a test set; a subclass asks its healer."""
        return self.troubles.get(session_id)

    def read_last_events(self, session_id: SessionId, limit: int) -> list[Event]:
        """The log of a session; a plain house has none."""
        del session_id, limit
        return []

    def read_conversation(self, session_id: SessionId, after: str) -> LogExcerpt | None:
        """The log of a session after the number of events that a cursor names."""
        events = self.read_last_events(session_id, EVENTS_RECALLED_MAX)
        number = int(after.rpartition("-")[2]) if after else 0
        return LogExcerpt(events[number:], f"1-{len(events)}", is_continued=bool(after))

    def start(self, name: str, *, project: str = "shop", pid: int | None = None) -> Process:
        """Start an idle agent with this conversation."""
        process = Process(pid or next(self._pids), 1, BOOT)
        self.supervisor.on_process(subject(name), process, ProcessState.ALIVE, source="a test")
        self.hear(name, LogOpened(self._wall(), ConversationId(name), f"/home/me/{project}"))
        return process

    def hear(self, name: str, *events: Event) -> None:
        """Add events to its log."""
        self.supervisor.on_events(subject(name), events, live=True)
        self.settle()

    def work(self, name: str, command: str = "make test") -> None:
        at = self._wall()
        call = CallStarted(at, f"call-{at}", "Bash", input=msgspec.json.encode({"command": command}))
        self.hear(name, Prompted(at), call)

    def ask(self, name: str, about: str = "Bash: rm -r build") -> None:
        self.hear(name, Prompted(self._wall()), QuestionAsked(self._wall(), about))

    def finish(self, name: str) -> None:
        self.hear(name, Prompted(self._wall()), TurnEnded(self._wall()))

    def fail(self, name: str, message: str = "overloaded", failure: Failure = Failure.PROVIDER) -> None:
        self.hear(name, Prompted(self._wall()), TurnFailed(self._wall(), failure, message))

    def end(self, process: Process) -> None:
        """The agent's process is gone."""
        self._ended.add(process)
        self.supervisor.on_exit(process)
        self.settle()

    def forget(self, name: str, process: Process) -> None:
        self.end(process)
        self.supervisor.on_log_deleted(subject(name).id)

    def settle(self) -> None:
        while self.supervisor.judge_pending():
            pass

    def _wall(self) -> float:
        return self.clock.now().wall

    # What the gate asks.
    def refresh(self, session_id: SessionId) -> None:
        self.reread.append(session_id)

    def on_action(self, session_id: SessionId) -> None:
        self.supervisor.on_action(session_id)

    def on_concluded(self, session_id: SessionId) -> None: ...

    # The supervisor's host interface.
    def request_judging(self, supervisor: Supervisor) -> None: ...

    def set_timer(self, supervisor: Supervisor, awake: float) -> None: ...

    def on_session_process(self, session_id: SessionId) -> None: ...

    def catch_up(self, session_id: SessionId) -> None: ...

    def watch(self, process: Process) -> ProcessState:
        return ProcessState.DEAD if process in self._ended else ProcessState.ALIVE

    def find_agent_process(self, session_id: SessionId) -> None: ...

    def find_named_process(
        self, supervisor: Supervisor, identity: SessionIdentity, pid: int, wall: float
    ) -> None: ...

    def find_pane(self, session_id: SessionId) -> None:
        self.sought.append(session_id)

    def mark_unsaved(self, session_id: SessionId) -> None: ...

    def on_agent_exit(self, supervisor: Supervisor, session_id: SessionId) -> None:
        del supervisor
        self.searched.append(session_id)

    def on_session_gone(self, session_id: SessionId) -> None:
        self.feed.publish_gone(session_id)

    def has_live_tool(self, agent: Process, within_seconds: float) -> bool:
        del agent, within_seconds
        return self.tool_runs

    def reach(self, session_id: SessionId) -> Reachability:
        session = self.registry.sessions[session_id]
        return Reachability(
            ours=self.mode != "observe",
            path_open=self.path_open and bool(session.presence.living_processes),
            path_lost=self.driver.lost,
            underway=self.gate.pending_state(session_id),
            observing=self.mode == "observe",
        )

    def needs_approval(self, session_id: SessionId) -> bool:
        return self.hands.needs_approval(session_id)

    def on_judged(self, transitions: list[Transition], changes: list[SessionChange]) -> None:
        if isinstance(self.store, MemoryStore):
            _at_once(self.store.record(transitions))
        self.feed.publish(changes)


class HouseFacts(SessionFacts):
    """What a house knows of its sessions."""

    def __init__(self, house: SupervisorFixture) -> None:
        self.house = house

    def daemon_record(self) -> DaemonRecord:
        return self.house.standing()

    async def transitions(
        self, session_id: SessionId | None = None, *, after: int = 0, limit: int = 1000
    ) -> list[Transition]:
        return await self.house.store.transitions(session_id, after=after, limit=limit)

    async def state_changes(self, since: float, limit: int) -> Sequence[StateChange]:
        return await self.house.store.state_changes(since, limit)

    def healing_case_of(self, session_id: SessionId) -> HealingCase | None:
        return self.house.trouble_of(session_id)

    def wake_of(self, session_id: SessionId) -> HeartbeatStatus | None:
        return self.house.waking.of_session(session_id) if self.house.waking is not None else None

    def read_last_events(self, session_id: SessionId, limit: int) -> Sequence[Event]:
        return self.house.read_last_events(session_id, limit)

    def read_conversation(self, session_id: SessionId, after: str) -> LogExcerpt | None:
        return self.house.read_conversation(session_id, after)


class ScriptedReportSources:
    """What a report asks of a house. `events` are what every log says."""

    def __init__(self, house: SupervisorFixture, events: Sequence[Event] = ()) -> None:
        self.house = house
        self.events = events

    def read_last_events(self, session_id: SessionId, limit: int) -> list[Event]:
        del session_id, limit
        return list(self.events)

    def is_here(self, session: TrackedSession) -> bool:
        del session
        return True

    def pause_record(self) -> PauseRecord | None:
        return self.house.calm.current_pause_record


class ScriptedWorkSessions:
    """The sessions of a house, none of them managed for the work queue; no lease ends by itself."""

    def __init__(self, registry: SessionRegistry) -> None:
        self.registry = registry

    def resolve(self, text: str) -> SessionId:
        return self.registry.resolve(text)

    def is_managed(self, session_id: SessionId) -> bool:
        del session_id
        return False

    def recheck_soon(self) -> None: ...


class SettlingRefresher:
    """Judges what is new in a house."""

    def __init__(self, house: SupervisorFixture) -> None:
        self.house = house

    def refresh(self, session_id: SessionId) -> None:
        del session_id
        self.house.settle()


def _at_once(work: Coroutine[Any, Any, object]) -> None:
    """Run a coroutine that never awaits."""
    try:
        work.send(None)
    except StopIteration:
        return
    raise AssertionError("the memory store waited for something")


def subject(name: str) -> SessionIdentity:
    """A session of Claude, unless its name begins with `codex-`."""
    if name.startswith("codex-"):
        conversation = ConversationId(name.removeprefix("codex-"))
        return SessionIdentity(SessionId(name), "codex", "testhost", "by hand", conversation)
    return SessionIdentity(SessionId(f"claude-{name}"), "claude", "testhost", "by hand", ConversationId(name))


def add_sample_sessions(house: SupervisorFixture) -> None:
    """One session of each kind."""
    house.work(_started(house, "working"))
    house.ask(_started(house, "asking", project="bank"))
    house.finish(_started(house, "done"))
    house.fail(_started(house, "failed", project="bank"))
    process = house.start("killed")
    house.work("killed")
    house.end(process)


def _started(house: SupervisorFixture, name: str, *, project: str = "shop") -> str:
    house.start(name, project=project)
    return name


class HttpFixture:
    """Both listeners of a fixture, in a thread of their own."""

    def __init__(
        self, house: SupervisorFixture, folder: Path, ancestors: Callable[[int], Sequence[int]]
    ) -> None:
        self.house = house
        self.path = folder / "wakeful.sock"
        self.token = load_or_create_token(folder / "token")
        self.orders: list[str] = []
        # The session of each pid, as a test sets it.
        self.working_for: dict[int, SessionId] = {}
        self._listeners = (bind_unix(self.path), bind_tcp("127.0.0.1", 0))
        tcp = self._listeners[1]
        assert not isinstance(tcp, PortBusy)
        self.port: int = tcp.getsockname()[1]
        self.access = Authenticator(self.token, self.port, Logins(house.clock, house.store))
        self.app: Gate = build_app(
            house.desk,
            house.work_desk,
            (house.hands, IdempotentController(house.hands, house.store, house.clock, None, house.watch)),
            CallerCheck(self),
            self.access,
            clock=house.clock,
            ancestors=ancestors,
            shut_down=lambda: self.orders.append("shut down"),
            mute_pause=house.calm,
            incidents=house.incidents.list_incidents,
            critical=CriticalLog(folder / "critical_events.jsonl"),
            healing=house.healing,
            hub=house.hub,
            checkpoints=house.deciding,
            queue=house.queue,
            wakes=house.waking,
            repairs=Repairs(house.store, house.registry, house.clock, SettlingRefresher(house)),
            reports=build_reports(house, house.store, ScriptedReportSources(house)),
        )
        self._loop = asyncio.new_event_loop()
        self._open = threading.Event()
        self._thread = threading.Thread(target=self._run, name="doors")

    def session_of(self, pids: Sequence[int], *, reduces: bool = False) -> SessionId | None:
        del reduces
        return next((self.working_for[pid] for pid in pids if pid in self.working_for), None)

    def tcp_callers(self, client: Address, server: Address) -> Sequence[int]:
        return tcp_callers(client, server)

    def is_chat(self, pids: Sequence[int]) -> bool:
        del pids
        return False

    async def on_refusal(self, refusal: RefusedDecision) -> None: ...

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> None:
        self._thread.start()
        assert self._open.wait(60), "the doors did not open"

    def stop(self) -> None:
        """Close both listeners; a second call does nothing."""
        if not self._thread.is_alive():
            return
        self._loop.call_soon_threadsafe(self._stopped.set)
        self._thread.join(10)
        assert not self._thread.is_alive(), "the doors did not close"

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Await a coroutine in the servers' loop."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(10)

    def call(self, act: Callable[[], T]) -> T:
        """Call a function in the servers' loop."""

        async def do() -> T:
            return act()

        return asyncio.run_coroutine_threadsafe(do(), self._loop).result(10)

    def socket(self, **options: Any) -> httpx.Client:
        """A client of the Unix socket."""
        transport = httpx.HTTPTransport(uds=str(self.path))
        return httpx.Client(transport=transport, base_url="http://wakeful", timeout=20, **options)

    def tcp(self, *, token: str | None = None, **options: Any) -> httpx.Client:
        """A client of the loopback port, with the daemon's token unless another (or "") is given."""
        shown = self.token if token is None else token
        headers = {"authorization": f"Bearer {shown}"} if shown else {}
        return httpx.Client(base_url=self.url, timeout=20, headers=headers, trust_env=False, **options)

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_until_complete(self._serve())
        self._loop.close()

    async def _serve(self) -> None:
        self._stopped = asyncio.Event()
        if self.house.waking is not None:
            await self.house.waking.restore()
        tasks = [
            asyncio.ensure_future(serve(self.app, each))
            for each in self._listeners
            if not isinstance(each, PortBusy)
        ]
        self._loop.call_soon(self._open.set)
        await self._stopped.wait()
        self.house.feed.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


@contextmanager
def open_http_fixture(
    folder: Path,
    house: SupervisorFixture | None = None,
    *,
    ancestors: Callable[[int], Sequence[int]] = lambda _pid: (),
) -> Iterator[HttpFixture]:
    """A fixture with sample sessions (or the given one) with both listeners open."""
    if house is None:
        from support.heartbeat_fixture import HeartbeatFixture

        # The virtual clock stands still behind the servers: a request that waits for it would wait forever.
        house = HeartbeatFixture(folder, burst=1_000_000)
        add_sample_sessions(house)
    doors = HttpFixture(house, folder, ancestors)
    doors.start()
    try:
        yield doors
    finally:
        doors.stop()


def raw(doors: HttpFixture, request: bytes, *, seconds_max: float = 20) -> bytes:
    """Send bytes to the loopback port unchanged; returns everything until the connection ends."""
    with socket.create_connection(("127.0.0.1", doors.port), timeout=seconds_max) as connection:
        connection.sendall(request)
        return received(connection)


def received(connection: socket.socket) -> bytes:
    """Everything until the other end closes; a reset is an end too."""
    pieces = []
    try:
        while piece := connection.recv(65536):
            pieces.append(piece)
    except ConnectionResetError:
        pass
    return b"".join(pieces)
