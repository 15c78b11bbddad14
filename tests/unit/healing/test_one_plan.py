"""Claims about everything that brings work back: it asks the one plan, and obeys mode, pause and limiter."""

import ast
import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import pytest

import wakeful
from support.agents_fixture import TestHub, agent, with_pid
from support.healing_fixture import HealingFixture, die_in_a_turn
from support.no_session_files import NoSessionFiles
from support.recording_outbox import RecordingOutbox
from wakeful.agents.model import Restart
from wakeful.alerts.notifier import Notifier
from wakeful.core.ids import SessionId
from wakeful.core.leases import WorkId, WorkItem
from wakeful.gateway.host_monitor import SelfHeal
from wakeful.gateway.rules.host import Hog, HostReading
from wakeful.gateway.rules.messages import ConversationKey
from wakeful.healing.plan import CaseHistory, HealingDecision, HealingRules, HealingStep, Situation
from wakeful.healing.rate_limit import RevivalLimiter
from wakeful.incidents.critical_event import CriticalEvent
from wakeful.incidents.service import Incidents
from wakeful.storage.base import ActionOutcome
from wakeful.testing.memory_jobs import MemoryJobs
from wakeful.testing.memory_store import MemoryStore
from wakeful.testing.scripted_runtime import ALIVE, SESSION_DEAD
from wakeful.testing.virtual_clock import VirtualClock, settle
from wakeful.watchdog.callbacks import Callbacks
from wakeful.watchdog.loop import RedisWatch
from wakeful.watchdog.parts import HealingControls, WatchSettings
from wakeful.watchdog.queue import Job, QueueAttempt, QueuedSession
from wakeful.work.expiry import WorkRevival

# Who asks the plan. Another module that brings work back finds itself missing here.
ASKERS: Final = (
    "agents/auto_restart.py",
    "gateway/host_monitor.py",
    "healing/healer.py",
    "watchdog/rules.py",
    "work/expiry.py",
)
# How a session, agent or task is brought back or ended by Wakeful itself: in which modules such calls are.
ACTS: Final = {
    "_reviver.revive": {"healing/healer.py"},
    "_commands.revive": {"agents/auto_restart.py"},
    "_jobs.revive": {"watchdog/healing.py"},
    # The service takes what people and programs ask for.
    "_store.enqueue": {"work/expiry.py", "work/service.py"},
    "_pool.restart": {"gateway/host_monitor.py"},
    "_pool.restart_all": {"gateway/host_monitor.py"},
    "_runner.replace_process": {"gateway/turn_queue.py"},
    "_sessions.end_runaway": {"gateway/turn_runner.py"},
    "_healer.end_runaway": {"http/routes/healing.py"},
    "_reviver.end_process": {"healing/healer.py"},
    "_sessions.revive": {"gateway/turn_listener.py"},
    "_healer.propose": {"http/routes/healing.py"},
}
KEY: Final = ConversationKey("chat:1:thread:main")
QUEUED: Final = SessionId("tg_shop_1_1")


async def play_session(rules: HealingRules, limiter: Callable[[RevivalLimiter], None]) -> int:
    """A managed session dies in its turn: how often its agent is started."""
    clinic = HealingFixture(rules=rules)
    limiter(clinic.reviver.limiter)
    async with clinic.open():
        if rules.paused_by is not None:
            await clinic.calm.pause(rules.paused_by)
        await die_in_a_turn(clinic)
        await clinic.clock.run_for(30)
        return sum(act == "start" for act, _ in clinic.living.asked)


async def play_proposal(rules: HealingRules, limiter: Callable[[RevivalLimiter], None]) -> int:
    """The chat gateway proposes a session at once: how often that is confirmed."""
    clinic = HealingFixture(rules=rules)
    limiter(clinic.reviver.limiter)
    async with clinic.open():
        if rules.paused_by is not None:
            await clinic.calm.pause(rules.paused_by)
        await die_in_a_turn(clinic)
        proposed = asyncio.ensure_future(clinic.healer.propose("a"))
        await clinic.clock.run_for(30)
        return int(proposed.done() and proposed.result().outcome is ActionOutcome.CONFIRMED)


async def play_agent(rules: HealingRules, limiter: Callable[[RevivalLimiter], None]) -> int:
    """A declared agent ends: how often its runtime restarts it."""
    hub = TestHub(agent(restart=Restart.AUTO))
    hub.rules = rules
    limiter(hub.limiter)
    async with hub.open():
        await hub.happens(with_pid(ALIVE, 41))
        await hub.happens(SESSION_DEAD)
        await hub.clock.run_for(30)
        return len(hub.runtime.actions)


async def play_work(rules: HealingRules, limiter: Callable[[RevivalLimiter], None]) -> int:
    """A worker's lease expires: how many tasks there are beside the first."""
    clock = VirtualClock()
    store = MemoryStore(now=lambda: clock.now().wall)
    outbox, pace = RecordingOutbox(store, clock), RevivalLimiter(clock, 2.0, 10)
    limiter(pace)
    revival = WorkRevival(
        store=store,
        clock=clock,
        cut_off=lambda _session_id: [],
        rules=lambda: rules,
        limiter=pace,
        write=_ignore_event,
        notifier=Notifier(outbox, Incidents(store, clock), clock),
    )
    await store.enqueue(WorkItem(WorkId("w-1"), "shop", "do it", SessionId("claude-a"), "", 1.0))
    assert await store.claim_next_run("bob") is not None
    await clock.run_for(61)
    async with _running(revival.run):
        revival.on_expired(await store.expire_runs())
        await clock.run_for(30)
    return len(await store.works()) - 1


async def play_queue(rules: HealingRules, limiter: Callable[[RevivalLimiter], None]) -> int:
    """A session in Redis is silent: how often its message is enqueued again."""
    clock = VirtualClock()
    jobs, pace = MemoryJobs(), RevivalLimiter(clock, 2.0, 10)
    limiter(pace)
    began = clock.now().wall - 960
    job = Job("RedisJob:one:shop:running", "one", "shop", QUEUED, began, "1", "1", None)
    jobs.watched[QUEUED] = QueueAttempt(QueuedSession("", QUEUED, "shop", "1", began, began + 60), job)
    watch = RedisWatch(
        jobs=jobs,
        logs=NoSessionFiles(),
        clock=clock,
        callbacks=Callbacks(write=_ignore_event),
        controls=HealingControls(rules=lambda: rules, limiter=pace),
        settings=WatchSettings(),
    )
    async with _running(watch.run):
        await clock.run_for(30)
    return len(jobs.revivals)


async def play_turn(rules: HealingRules, _limiter: Callable[[RevivalLimiter], None]) -> int:
    """A process of the gateway's pool runs away: how often it is ended. The daemon brings it back, by its limiter."""
    pool = _Pool()

    async def allowed() -> HealingRules:
        return rules

    heal = SelfHeal(
        clock=VirtualClock(), host=_Host(), pool=pool, degrade=_ignore, notify=_not_told, rules=allowed
    )
    await heal.check(None, None)
    return pool.restarts


ENGINES: Final[Mapping[str, Callable[..., Awaitable[int]]]] = {
    "sessions": play_session,
    "proposals of the gateway": play_proposal,
    "agents": play_agent,
    "leased work": play_work,
    "Redis sessions": play_queue,
    "gateway turns": play_turn,
}
ENGINE_MODULES: Final = tuple(f"wakeful.{each.removesuffix('.py').replace('/', '.')}" for each in ASKERS)


def _leave(_limiter: RevivalLimiter) -> None: ...


def _open_breaker(limiter: RevivalLimiter) -> None:
    for _ in range(5):
        limiter.record_result(gave_up=True)
    assert limiter.breaker_seconds > 0


def acts(name: str, limiter: Callable[[RevivalLimiter], None] = _leave, /, **rules: Any) -> int:
    return asyncio.run(ENGINES[name](HealingRules(**rules), limiter))  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ENGINES)
def test_each_engine_brings_its_work_back_once(name: str) -> None:
    """Else the claims below would hold for an engine that does nothing at all."""
    assert acts(name) == 1


@pytest.mark.parametrize("name", ENGINES)
@pytest.mark.parametrize("rules", [{"mode": "observe"}, {"paused_by": "ada"}])
def test_no_engine_acts_in_observe_mode_or_during_a_pause(name: str, rules: dict[str, Any]) -> None:
    """What the operator forbids holds for all of them."""
    assert acts(name, **rules) == 0


@pytest.mark.parametrize("name", [each for each in ENGINES if each != "gateway turns"])
def test_no_engine_acts_while_too_many_failed(name: str) -> None:
    """The limiter's brake is a rule of the plan. What the gateway ends is brought back by the daemon, which has it."""
    assert acts(name, _open_breaker) == 0


@pytest.mark.parametrize("name", [each for each in ENGINES if each != "gateway turns"])
def test_no_engine_acts_before_its_turn(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A limiter that gives no turn stops each of them."""

    async def never(_limiter: RevivalLimiter) -> None:
        await asyncio.Event().wait()

    monkeypatch.setattr(RevivalLimiter, "acquire", never)
    assert acts(name) == 0


@pytest.mark.parametrize("name", ENGINES)
@pytest.mark.parametrize("step", [HealingStep.WAIT, HealingStep.NOTIFY, HealingStep.HOLD])
def test_no_engine_acts_unless_the_plan_says_so(
    name: str, step: HealingStep, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A plan that never answers with an act stops each of them."""

    def refusing(_now: Situation, _history: CaseHistory, _rules: HealingRules) -> HealingDecision:
        return HealingDecision(step, "this plan allows nothing")

    for module in ENGINE_MODULES:
        monkeypatch.setattr(f"{module}.plan", refusing)
    assert acts(name) == 0


def test_nothing_acts_beside_the_engines() -> None:
    """Every call that brings work back is in an engine, and every engine asks the plan."""
    root = Path(wakeful.__file__).parent
    askers, found = set(), {act: set[str]() for act in ACTS}
    for path in root.rglob("*.py"):
        module = str(path.relative_to(root))
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and node.module == "wakeful.healing.plan":
                askers |= {module for each in node.names if each.name == "plan"}
            called = ast.unparse(node.func).removeprefix("self.") if isinstance(node, ast.Call) else ""
            if called in found:
                found[called].add(module)
    assert askers == set(ASKERS)
    assert found == ACTS


@asynccontextmanager
async def _running(run: Callable[[], Awaitable[None]]) -> AsyncIterator[None]:
    task = asyncio.ensure_future(run())
    await settle()
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def _ignore_event(_event: CriticalEvent) -> None: ...


async def _ignore(_provider: str) -> None: ...


async def _not_told(_level: str, _text: str) -> bool:
    return False


class _Pool:
    """The gateway's sessions; counts what is ended."""

    restarts = 0

    async def restart(self, key: ConversationKey, *, even_busy: bool = False) -> bool:
        assert (key, even_busy) == (KEY, True)
        self.restarts += 1
        return True

    async def restart_all(self) -> int:
        self.restarts += 1
        return 1

    async def adopt_replacements(self) -> None: ...

    def progressing_keys(self, _seconds: float) -> Collection[ConversationKey]:
        return ()

    def sessions(self) -> dict[str, ConversationKey]:
        return {"claude-a": KEY}


class _Host:
    """A host with one process that takes all its memory."""

    async def read(self) -> HostReading:
        return HostReading()

    async def hogs(
        self, _sessions: Mapping[str, ConversationKey], _cpu_percent_max: float
    ) -> tuple[Hog, ...]:
        return (Hog(KEY, "claude", 5.0, 0.0, 99.0),)

    async def collect_memory(self) -> None: ...

    async def clean_files(self) -> int:
        return 0
