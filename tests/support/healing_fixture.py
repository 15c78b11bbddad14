"""Sessions that are healed: the real healer, plan, store and outbox over scripted agents, in virtual time."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final

import msgspec

from support.fake_driver import ScriptedDriver
from support.supervisor_fixture import BOOT, SupervisorFixture, subject
from wakeful.alerts.model import AlertRules
from wakeful.alerts.notifier import Notifier
from wakeful.alerts.outbox import AlertOutbox
from wakeful.checkpoints.model import Checkpoint, CheckpointKind
from wakeful.checkpoints.service import Checkpoints
from wakeful.checkpoints.sessions import SessionDecisionExecutor
from wakeful.checkpoints.user_rules import Lessons
from wakeful.control.briefs import OWN_PROMPT_PREFIXES
from wakeful.control.driver import ActionResult, OnStarted, PromptDriver, StartRequest, ignore_start
from wakeful.control.driver_table import DriverTable
from wakeful.core.ids import SessionId
from wakeful.core.managed_session import ManagedSession
from wakeful.core.process import Process, ProcessState
from wakeful.daemon.healing import HealerParts, build_healer
from wakeful.healing.case import HealingCase
from wakeful.healing.healer import Healer
from wakeful.healing.plan import HealingRules
from wakeful.healing.rate_limit import RevivalLimiter
from wakeful.healing.restore import Restorer
from wakeful.healing.situation import SituationBuilder
from wakeful.incidents.critical_event import ActionTaken, CriticalEvent, CriticalEventKind
from wakeful.incidents.issue_tracker import FilingResult, IssueReport, IssueTracker
from wakeful.judging.events import CallEnded, CallStarted, Event, Progressed, Prompted, Said, Speaker
from wakeful.judging.evidence import Pane
from wakeful.sessions.feed import SessionChange
from wakeful.sessions.session import TrackedSession
from wakeful.sessions.supervisor import Supervisor
from wakeful.storage.base import ActionOutcome, Store, Transition
from wakeful.testing.virtual_clock import START_WALL, VirtualClock, settle

OWN_TMUX: Final = "/run/wakeful/tmux"


class RespondingDriver(ScriptedDriver):
    """A client that starts when started, ends when stopped, and begins a turn when prompted."""

    def __init__(self, clinic: "HealingFixture") -> None:
        super().__init__()
        self._clinic = clinic
        self.prompts: list[str] = []
        # What happens to the next clients that start.
        self.dies_at_once = False

    async def start(self, order: StartRequest, begun: OnStarted = ignore_start) -> ActionResult:
        result = await super().start(order, begun)
        if result.hosting is not None and result.hosting.process is not None:
            name = result.hosting.session_id.removeprefix("claude-")
            self._clinic.come_up(name, result.hosting.process)
            if order.prompt is not None:
                self.prompts.append(order.prompt)
                self._clinic.prompted(name, order.prompt)
            if self.dies_at_once:
                self._clinic.end(result.hosting.process)
        return result

    async def deliver(
        self, hosting: ManagedSession, prompt: str, environ: Mapping[str, str] | None = None
    ) -> ActionResult:
        self.prompts.append(prompt)
        result = await super().deliver(hosting, prompt, environ)
        if result.outcome is ActionOutcome.CONFIRMED:
            self._clinic.prompted(hosting.session_id.removeprefix("claude-"), prompt)
        return result

    async def stop(self, hosting: ManagedSession) -> ActionResult:
        result = await super().stop(hosting)
        if hosting.process is not None and result.outcome is ActionOutcome.CONFIRMED:
            self._clinic.end(hosting.process)
        return result


class FakeHost:
    """The host, as a test describes it."""

    host = "testhost"
    boot_id = BOOT
    machine_id = ""

    def __init__(self) -> None:
        self.gone: set[str] = set()
        self.out_of_memory = False

    def exists(self, folder: str) -> bool:
        return folder not in self.gone

    def oom_killed(self) -> bool:
        return self.out_of_memory


class RecordingMessenger:
    """A messenger that accepts everything."""

    name = "recorder"

    def __init__(self) -> None:
        self.said: list[str] = []

    async def send(self, text: str, *, chat: str | None = None) -> None:
        del chat
        self.said.append(text)

    async def close(self) -> None: ...


class FakeIssueTracker:
    """Files every issue at once."""

    def __init__(self) -> None:
        self.reports: list[IssueReport] = []

    async def file(self, report: IssueReport) -> FilingResult:
        self.reports.append(report)
        return FilingResult(f"https://forge.example/{report.project}/{len(self.reports)}", "filed")


class MemoryCheckpointFiles:
    """Checkpoint files in memory."""

    def __init__(self) -> None:
        self.written: dict[int, Checkpoint] = {}

    async def is_free(self, checkpoint: Checkpoint) -> bool:
        return checkpoint.number not in self.written

    async def write(self, checkpoint: Checkpoint) -> None:
        self.written[checkpoint.number] = checkpoint


class ScriptedAgentSessions:
    """Sessions of agents, as a test says."""

    def __init__(self) -> None:
        self.guest: Callable[[TrackedSession], ManagedSession | None] = lambda _session: None

    def managed_session_of(self, session: TrackedSession) -> ManagedSession | None:
        return self.guest(session)

    def prompt_driver(self, name: str) -> PromptDriver | None:
        del name
        return None


class HealingFixture(SupervisorFixture):
    """Call `open` to start healing; time passes by `clock.run_for`."""

    def __init__(
        self,
        *,
        rules: HealingRules | None = None,
        forge: IssueTracker | None = None,
        store: Store | None = None,
        start_wall: float = START_WALL,
        burst: int = 10,
        clock: VirtualClock | None = None,
    ) -> None:
        super().__init__(store=store, start_wall=start_wall, clock=clock)
        # Several on one store are several daemons.
        self.home = f"clinic {id(self)}"
        self.rules = rules or HealingRules()
        self._burst = burst
        self.events: list[CriticalEvent] = []
        self.recorder = RecordingMessenger()
        self.place = FakeHost()
        self.living = RespondingDriver(self)
        self.log: dict[SessionId, list[Event]] = {}
        self._alarm: asyncio.Event | None = None
        self._due: float | None = None
        self._forge = forge
        self.papers = MemoryCheckpointFiles()
        # A test that needs sessions of agents brings them.
        self.agent_sessions = ScriptedAgentSessions()
        self.build()

    def build(self) -> None:
        """Build everything that a daemon keeps in memory again; the state of an earlier one is in the store."""
        self.alerts = AlertOutbox(
            self.store, self.clock, (self.recorder,), AlertRules(), owner=self.home, mute_pause=self.calm
        )
        self.lessons = Lessons(self.store, self.clock)
        drivers = DriverTable(
            {"claude": self.living, "codex": self.living, "tmux": self.living}, self.agent_sessions
        )
        self.controllers = self.controllers_in("mine", drivers, self.lessons)
        self.hands = self.controllers.asked
        limiter = RevivalLimiter(self.clock, 2.0, self._burst)
        self.notifier = Notifier(self.alerts, self.incidents, self.clock)
        self.checkpoints = Checkpoints(self.store, self.clock, self.papers)
        around = self.circumstances = SituationBuilder(self.holdings, self.place, OWN_TMUX, self.lessons)
        parts = HealerParts(
            observer=self,
            store=self.store,
            managed_sessions=self.holdings,
            controllers=self.controllers,
            incidents=self.incidents,
            checkpoints=self.checkpoints,
            notifier=self.notifier,
            mute_pause=self.calm,
            issues=self._forge,
            limiter=limiter,
            situations=around,
            write=self._write,
            rules=self._rules_now,
        )
        built = build_healer(parts)
        self.reviver, self.cases, self.healer = built.reviver, built.cases, built.healer
        carrier = SessionDecisionExecutor(
            self.healer, self.hands, self.holdings, self._end_tools, lambda _session_id: None
        )
        self.checkpoints.executors[CheckpointKind.SESSION] = carrier
        self.lessons.subscribe(self.healer.recheck_all)
        self.restorer = Restorer(self.registry, self.holdings, self.hands, self.place, limiter, around)

    async def _end_tools(self, _session_id: SessionId) -> Sequence[Process]:
        return ()

    @property
    def healing(self) -> tuple[Healer, Restorer]:
        return self.healer, self.restorer

    @property
    def deciding(self) -> tuple[Checkpoints, Lessons]:
        return self.checkpoints, self.lessons

    async def _write(self, event: CriticalEvent) -> None:
        self.events.append(event)

    def _rules_now(self) -> HealingRules:
        paused = self.calm.current_pause
        return msgspec.structs.replace(self.rules, paused_by=paused.by if paused is not None else None)

    @asynccontextmanager
    async def open(self) -> AsyncIterator[None]:
        """Start the daemon's tasks."""
        await self.alerts.restore()
        await self.lessons.load()
        await self.healer.restore()
        await self.notifier.restore()
        await self.checkpoints.restore()
        self._alarm = asyncio.Event()
        tasks = [asyncio.create_task(each) for each in (self.healer.run(), self.alerts.run(), self._ring())]
        await settle()
        try:
            yield
        finally:
            await self.checkpoints.close()
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def manage(self, name: str) -> Process:
        """A managed session with an agent."""
        process = self.start(name)
        await self.hands.adopt(name)
        self.settle()
        return process

    def start_again(self, name: str, pid: int) -> Process:
        """Another person resumes it: it has a process, and its log shows nothing yet."""
        process = Process(pid, 1, BOOT)
        self.come_up(name, process)
        return process

    def come_up(self, name: str, process: Process) -> None:
        self.supervisor.on_process(subject(name), process, ProcessState.ALIVE, source="a test")
        self.settle()

    def show(
        self,
        name: str,
        process: Process,
        *,
        runtime: ProcessState = ProcessState.ALIVE,
        socket: str = OWN_TMUX,
    ) -> None:
        """The session's pane."""
        state = ProcessState.DEAD if runtime is ProcessState.DEAD else ProcessState.ALIVE
        pane = Pane(socket, name, "%1", process, sight=state, runtime=runtime)
        self.supervisor.on_pane(subject(name).id, pane)
        self.settle()

    def hear(self, name: str, *events: Event) -> None:
        self.log.setdefault(subject(name).id, []).extend(events)
        super().hear(name, *events)

    def say(self, name: str, text: str, by: Speaker = Speaker.AGENT) -> None:
        """Its log grows by a text of the conversation."""
        self.log.setdefault(subject(name).id, []).append(Said(self.wall(), by, text.encode()))
        super().hear(name, Progressed(self.wall()))

    def prompted(self, name: str, prompt: str) -> None:
        """Its log shows a prompt, as a reader that knows Wakeful's own prompts."""
        self.hear(name, Prompted(self.wall(), by_wakeful=prompt.encode().startswith(OWN_PROMPT_PREFIXES)))

    def answer(self, name: str) -> None:
        """The model responds: it calls a tool, which returns."""
        call = f"answer-{self.wall()}"
        self.hear(name, CallStarted(self.wall(), call, "Read"), CallEnded(self.wall(), call))

    def trouble_of(self, session_id: SessionId) -> HealingCase | None:
        return super().trouble_of(session_id) or self.healer.case_of(session_id)

    def read_last_events(self, session_id: SessionId, limit: int) -> list[Event]:
        return self.log.get(session_id, [])[-limit:]

    def wall(self) -> float:
        return self.clock.now().wall

    # The supervisor's host interface.
    def set_timer(self, supervisor: Supervisor, awake: float) -> None:
        del supervisor
        if self._due is None or awake < self._due:
            self._due = awake
        if self._alarm is not None:
            self._alarm.set()

    def on_judged(self, transitions: list[Transition], changes: list[SessionChange]) -> None:
        super().on_judged(transitions, changes)
        for change in changes:
            self.healer.on_judged(change.session_id)

    def on_session_gone(self, session_id: SessionId) -> None:
        self.healer.on_judged(session_id)

    async def _ring(self) -> None:
        assert self._alarm is not None, "opened"
        while True:
            self._alarm.clear()
            if self._due is None:
                await self._alarm.wait()
                continue
            timer: asyncio.Future[Any] = asyncio.ensure_future(self.clock.sleep_until(self._due))
            told = asyncio.ensure_future(self._alarm.wait())
            await asyncio.wait({timer, told}, return_when=asyncio.FIRST_COMPLETED)
            timer.cancel()
            told.cancel()
            if self._due <= self.clock.now().awake:
                self._due = self.supervisor.on_timer()
                self.settle()


@asynccontextmanager
async def opened(**options: Any) -> AsyncIterator[HealingFixture]:
    clinic = HealingFixture(**options)
    async with clinic.open():
        yield clinic


async def die_in_a_turn(clinic: HealingFixture, name: str = "a", command: str = "make test") -> None:
    process = await clinic.manage(name)
    clinic.work(name, command)
    clinic.end(process)


def written(clinic: HealingFixture) -> list[tuple[CriticalEventKind, ActionTaken]]:
    return [(each.event, each.action_taken) for each in clinic.events]
