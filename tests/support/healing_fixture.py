"""A house whose sessions are healed: the real healer, plan, store and outbox over scripted agents, in virtual time."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final

import msgspec

from support.fake_driver import ScriptedDriver
from support.supervisor_fixture import BOOT, House, subject
from wakeful.alerts.model import Rules as AlertRules
from wakeful.alerts.outbox import AlertDesk
from wakeful.checkpoints.model import Checkpoint, CheckpointKind
from wakeful.checkpoints.service import Checkpoints
from wakeful.checkpoints.sessions import HeldSessions, SessionCarrier
from wakeful.checkpoints.user_rules import Lessons
from wakeful.control.briefs import OPENINGS
from wakeful.control.controller import Hands
from wakeful.control.driver import Begun, Order, Seen, unannounced
from wakeful.core.ids import SessionId
from wakeful.core.managed_session import Hosting
from wakeful.core.process import Process, Sight
from wakeful.healing.healer import Healer
from wakeful.healing.notifier import Voice
from wakeful.healing.plan import Rules
from wakeful.healing.rate_limit import Pace
from wakeful.healing.restore import Restorer
from wakeful.healing.revival import Reviver
from wakeful.healing.situation import Circumstances
from wakeful.healing.trouble import Trouble
from wakeful.incidents.critical_event import ActionTaken, CriticalEvent, Happening
from wakeful.incidents.issue_tracker import Filing, Forge, Report
from wakeful.judging.events import CallEnded, CallStarted, Event, Prompted
from wakeful.judging.evidence import Pane
from wakeful.sessions.feed import Change
from wakeful.storage.base import Outcome, Store, Transition
from wakeful.testing.virtual_clock import START_WALL, VirtualClock, settle

OWN_TMUX: Final = "/run/wakeful/tmux"


class LivingDriver(ScriptedDriver):
    """A client that comes up when it is started, ends when it is stopped, and begins a turn when it is told something."""

    def __init__(self, clinic: "Clinic") -> None:
        super().__init__()
        self._clinic = clinic
        self.prompts: list[str] = []
        # What becomes of the next ones that come up.
        self.dies_at_once = False

    async def start(self, order: Order, begun: Begun = unannounced) -> Seen:
        seen = await super().start(order, begun)
        if seen.hosting is not None and seen.hosting.process is not None:
            name = seen.hosting.session_id.removeprefix("claude-")
            self._clinic.come_up(name, seen.hosting.process)
            if order.prompt is not None:
                self.prompts.append(order.prompt)
                self._clinic.prompted(name, order.prompt)
            if self.dies_at_once:
                self._clinic.end(seen.hosting.process)
        return seen

    async def deliver(self, hosting: Hosting, prompt: str, environ: Mapping[str, str] | None = None) -> Seen:
        self.prompts.append(prompt)
        seen = await super().deliver(hosting, prompt, environ)
        if seen.outcome is Outcome.RECOVERED:
            self._clinic.prompted(hosting.session_id.removeprefix("claude-"), prompt)
        return seen

    async def stop(self, hosting: Hosting) -> Seen:
        seen = await super().stop(hosting)
        if hosting.process is not None and seen.outcome is Outcome.RECOVERED:
            self._clinic.end(hosting.process)
        return seen


class Place:
    """The host, as a test says it is."""

    host = "testhost"
    boot_id = BOOT

    def __init__(self) -> None:
        self.gone: set[str] = set()
        self.out_of_memory = False

    def exists(self, folder: str) -> bool:
        return folder not in self.gone

    def oom_killed(self) -> bool:
        return self.out_of_memory


class Recorder:
    """A messenger that takes everything."""

    name = "recorder"

    def __init__(self) -> None:
        self.said: list[str] = []

    async def send(self, text: str, *, chat: str | None = None) -> None:
        del chat
        self.said.append(text)

    async def close(self) -> None: ...


class Notary:
    """A forge that files everything at once."""

    def __init__(self) -> None:
        self.reports: list[Report] = []

    async def file(self, report: Report) -> Filing:
        self.reports.append(report)
        return Filing(f"https://forge.example/{report.project}/{len(self.reports)}", "filed")


class Papers:
    """Files of checkpoints that are kept in memory."""

    def __init__(self) -> None:
        self.written: dict[int, Checkpoint] = {}

    async def is_free(self, checkpoint: Checkpoint) -> bool:
        return checkpoint.number not in self.written

    async def write(self, checkpoint: Checkpoint) -> None:
        self.written[checkpoint.number] = checkpoint


class Clinic(House):
    """Call `open` to have troubles treated; time passes by `clock.run_for`."""

    def __init__(
        self,
        *,
        rules: Rules | None = None,
        forge: Forge | None = None,
        store: Store | None = None,
        start_wall: float = START_WALL,
        burst: int = 10,
        clock: VirtualClock | None = None,
    ) -> None:
        super().__init__(store=store, start_wall=start_wall, clock=clock)
        # Several on one store are several daemons.
        self.home = f"clinic {id(self)}"
        self.rules = rules or Rules()
        self._burst = burst
        self.events: list[CriticalEvent] = []
        self.recorder = Recorder()
        self.place = Place()
        self.living = LivingDriver(self)
        self.log: dict[SessionId, list[Event]] = {}
        self._alarm: asyncio.Event | None = None
        self._due: float | None = None
        self._forge = forge
        self.papers = Papers()
        self.build()

    def build(self) -> None:
        """Everything a daemon keeps in memory, anew: what an earlier one left is in the store."""
        self.alerts = AlertDesk(
            self.store, self.clock, (self.recorder,), AlertRules(), owner=self.home, calm=self.calm
        )
        self.hands = self._hands_with(by_itself=False)
        pace = Pace(self.clock, 2.0, self._burst)
        self.voice = Voice(
            clock=self.clock,
            incidents=self.incidents,
            alerts=self.alerts,
            calm=self.calm,
            write=self._write,
            mode=self.rules.mode,
        )
        self.lessons = Lessons(self.store, self.clock)
        self.checkpoints = Checkpoints(self.store, self.clock, self.papers)
        around = self.circumstances = Circumstances(self.holdings, self.place, OWN_TMUX, self.lessons.of)
        self.own_hands = self._hands_with(by_itself=True)
        self.reviver = Reviver(
            clock=self.clock,
            store=self.store,
            hands=self.own_hands,
            asked=self.hands,
            holdings=self.holdings,
            pace=pace,
            past=self,
            forge=self._forge,
        )
        self.healer = Healer(
            clock=self.clock,
            store=self.store,
            roster=self.roster,
            reviver=self.reviver,
            incidents=self.incidents,
            telling=self.voice,
            holding=HeldSessions(self.checkpoints, around, self),
            circumstances=around,
            rules=self._rules_now,
        )
        carrier = SessionCarrier(
            self.healer, self.hands, self.holdings, self._end_tools, lambda _session_id: None
        )
        self.checkpoints.carriers[CheckpointKind.SESSION] = carrier
        self.lessons.changed = self.healer.look_again
        self.desk.recall = self.recall_events
        self.hands.cut_off = around.cut_off
        self.restorer = Restorer(self.roster, self.holdings, self.hands, self.place, pace, around)

    async def _end_tools(self, _session_id: SessionId) -> Sequence[Process]:
        return ()

    @property
    def healing(self) -> tuple[Healer, Restorer]:
        return self.healer, self.restorer

    @property
    def deciding(self) -> tuple[Checkpoints, Lessons]:
        return self.checkpoints, self.lessons

    def _hands_with(self, *, by_itself: bool) -> Hands:
        return Hands(
            clock=self.clock,
            roster=self.roster,
            holdings=self.holdings,
            drivers={"claude": self.living, "codex": self.living, "tmux": self.living},
            gate=self.gate,
            world=self.world,
            mode="mine",
            by_itself=by_itself,
        )

    async def _write(self, event: CriticalEvent) -> None:
        self.events.append(event)

    def _rules_now(self) -> Rules:
        paused = self.calm.paused
        return msgspec.structs.replace(self.rules, paused_by=paused.by if paused is not None else None)

    @asynccontextmanager
    async def open(self) -> AsyncIterator[None]:
        """The daemon's tasks run."""
        await self.alerts.take_up()
        await self.lessons.load()
        await self.healer.take_up()
        await self.voice.take_up()
        await self.checkpoints.take_up()
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
        """A session with an agent, handed over."""
        process = self.start(name)
        await self.hands.adopt(name)
        self.settle()
        return process

    def start_again(self, name: str, pid: int) -> Process:
        """Somebody else resumes it: a process holds it, and its log says nothing yet."""
        process = Process(pid, 1, BOOT)
        self.come_up(name, process)
        return process

    def come_up(self, name: str, process: Process) -> None:
        self.supervisor.held(subject(name), process, Sight.ALIVE, source="a test")
        self.settle()

    def show(
        self, name: str, process: Process, *, runtime: Sight = Sight.ALIVE, socket: str = OWN_TMUX
    ) -> None:
        """The pane it is shown in."""
        sight = Sight.DEAD if runtime is Sight.DEAD else Sight.ALIVE
        pane = Pane(socket, name, "%1", process, sight=sight, runtime=runtime)
        self.supervisor.shown(subject(name).id, pane)
        self.settle()

    def hear(self, name: str, *events: Event) -> None:
        self.log.setdefault(subject(name).id, []).extend(events)
        super().hear(name, *events)

    def prompted(self, name: str, prompt: str) -> None:
        """Its log tells of a prompt, as a reader that knows Wakeful's own words."""
        self.hear(name, Prompted(self.wall(), by_wakeful=prompt.encode().startswith(OPENINGS)))

    def answer(self, name: str) -> None:
        """The model says something: it calls a tool, which comes back."""
        call = f"answer-{self.wall()}"
        self.hear(name, CallStarted(self.wall(), call, "Read"), CallEnded(self.wall(), call))

    def trouble_of(self, session_id: SessionId) -> Trouble | None:
        return super().trouble_of(session_id) or self.healer.trouble_of(session_id)

    def recall_events(self, session_id: SessionId, limit: int) -> list[Event]:
        return self.log.get(session_id, [])[-limit:]

    def wall(self) -> float:
        return self.clock.now().wall

    # What the supervisor asks of its surroundings.
    def alarm(self, awake: float) -> None:
        if self._due is None or awake < self._due:
            self._due = awake
        if self._alarm is not None:
            self._alarm.set()

    def changed(self, transitions: list[Transition], changes: list[Change]) -> None:
        super().changed(transitions, changes)
        for change in changes:
            self.healer.seen(change.session_id)

    def vanished(self, session_id: SessionId) -> None:
        self.healer.seen(session_id)

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
                self._due = self.supervisor.ring()
                self.settle()


def play(scene: Callable[[Clinic], Awaitable[None]], **options: Any) -> Clinic:
    """Run a scene in an open clinic."""
    clinic = Clinic(**options)

    async def run() -> None:
        async with clinic.open():
            await scene(clinic)

    asyncio.run(run())
    return clinic


async def die_in_a_turn(clinic: Clinic, name: str = "a", command: str = "make test") -> None:
    process = await clinic.manage(name)
    clinic.work(name, command)
    clinic.end(process)


def written(clinic: Clinic) -> list[tuple[Happening, ActionTaken]]:
    return [(each.event, each.action_taken) for each in clinic.events]
