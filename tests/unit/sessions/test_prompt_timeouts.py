"""Claims about what stands beside health: timers that never write it, a hook that hears of it, repair, and paging."""

import asyncio
import sys
import time
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings, strategies as st

from support.heartbeat_fixture import HeartbeatFixture
from support.supervisor_fixture import SettlingRefresher, SupervisorFixture, subject
from wakeful.core.errors import SessionNotFound
from wakeful.core.ids import SessionId
from wakeful.judging.events import CallEnded, CallStarted
from wakeful.judging.findings import Health, State
from wakeful.linux.run_command import HookProgram
from wakeful.sessions.feed import Feed
from wakeful.sessions.health_hook import HealthHook
from wakeful.sessions.prompt_timeouts import (
    SupervisionEvent,
    SupervisionTimers,
    TimerRules,
    TimerStage,
)
from wakeful.sessions.registry import Query
from wakeful.sessions.repair import Repairs
from wakeful.storage.base import Transition
from wakeful.testing.virtual_clock import VirtualClock, settle


class TimersFixture:
    """A fixture with timers over its prompts."""

    def __init__(self) -> None:
        self.house = SupervisorFixture()
        self.said: list[SupervisionEvent] = []
        self.timers = SupervisionTimers(self.house.clock, self.house.registry, TimerRules(), self)

    def publish_supervision(self, event: SupervisionEvent) -> None:
        self.said.append(event)

    def on_timeout(self, session_id: SessionId) -> None: ...

    def pass_time(self, seconds: float) -> None:
        for _ in range(int(seconds // 30)):
            self.house.clock.advance(30.0)
            self.timers.check()

    @property
    def stages(self) -> list[str]:
        return [each.event for each in self.said]


def test_a_silent_prompt_is_warned_of_and_times_out_once() -> None:
    """After 15 and 30 minutes; progress restarts the timers."""
    timed = TimersFixture()
    timed.house.start("a")
    timed.house.work("a")
    timed.pass_time(14 * 60)
    assert timed.stages == []
    timed.pass_time(60)
    assert timed.stages == [TimerStage.WARNING]
    assert "no progress since" in timed.timers.warnings(subject("a").id)[0]
    timed.pass_time(3600)
    assert timed.stages == [TimerStage.WARNING, TimerStage.TIMEOUT]
    timed.house.hear("a", CallStarted(timed.house._wall(), "c2", "Bash"))
    timed.timers.check()
    assert timed.timers.warnings(subject("a").id) == ()
    timed.pass_time(15 * 60)
    assert timed.stages[2:] == [TimerStage.PROGRESS, TimerStage.WARNING]
    timed.house.finish("a")
    timed.timers.check()
    assert timed.timers.warnings(subject("a").id) == ()


def test_progress_is_announced_every_ten_minutes() -> None:
    """While there is some."""
    timed = TimersFixture()
    timed.house.start("a")
    timed.house.work("a")
    for number in range(60):
        at = timed.house._wall()
        timed.house.hear("a", CallStarted(at, f"n{number}", "Bash"), CallEnded(at, f"n{number}"))
        timed.pass_time(60)
    assert timed.stages == [TimerStage.PROGRESS] * 6


def test_waiting_for_a_person_is_no_inactivity() -> None:
    """People sleep."""
    timed = TimersFixture()
    timed.house.start("a")
    timed.house.ask("a")
    timed.pass_time(8 * 3600)
    assert timed.stages == []


def test_supervision_writes_no_health() -> None:
    """Two hours of looks, warnings and a timeout: the record is the very object it was, and so are its bytes."""
    timed = TimersFixture()
    timed.house.start("a")
    timed.house.work("a")
    session = timed.house.registry.sessions[subject("a").id]
    record, body, activity = session.record, session.body(), msgspec.json.encode(session.activity)
    timed.pass_time(2 * 3600)
    assert timed.stages
    assert session.record is record
    assert (session.body(), msgspec.json.encode(session.activity)) == (body, activity)


def transition(old: Health | str, new: Health, *, at: float = 0.0, name: str = "s") -> Transition:
    return Transition(subject(name).id, at, "idle", "idle", str(old), new, "x", b'{"id":"x"}')


class HookFixture:
    """A hook whose program is a list."""

    def __init__(self) -> None:
        self.clock = VirtualClock()
        self.told: list[dict[str, str]] = []
        self.problem: str | None = None
        self.hook = HealthHook(self.clock, self._run, 60.0)

    async def _run(self, event: bytes) -> str | None:
        self.told.append(msgspec.json.decode(event))
        return self.problem

    def play(self, *steps: Transition | float) -> list[tuple[str, str]]:
        """Let transitions happen and seconds pass; returns the program's input."""

        async def run() -> None:
            running = asyncio.create_task(self.hook.run())
            await settle()
            for step in steps:
                if isinstance(step, float):
                    await self.clock.run_for(step)
                else:
                    self.hook.on_transitions((step,))
                    await settle()
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)

        asyncio.run(run())
        return [(each["old_health"], each["health"]) for each in self.told]


HEALTHY, DEGRADED, DEAD = Health.HEALTHY, Health.DEGRADED, Health.DEAD


def test_the_hook_hears_transitions_only() -> None:
    """Not what was seen for the first time, and not what stayed as it was."""
    assert HookFixture().play(transition("", HEALTHY), transition(HEALTHY, HEALTHY)) == []
    hooked = HookFixture()
    assert hooked.play(transition(HEALTHY, DEGRADED)) == [("healthy", "degraded")]
    assert hooked.told[0]["event"] == "session.health.update.after"


def test_the_hook_is_rate_limited_for_each_session() -> None:
    """A minute of flapping is one message at its end, or none if nothing came of it; others are not held up."""
    hooked = HookFixture()
    flapping = [transition(HEALTHY, DEGRADED), transition(DEGRADED, HEALTHY), transition(HEALTHY, DEAD)]
    told = hooked.play(*flapping, transition(HEALTHY, DEGRADED, name="other"), 30.0, 31.0)
    assert told == [("healthy", "degraded"), ("healthy", "degraded"), ("degraded", "dead")]
    quiet = HookFixture()
    assert quiet.play(transition(HEALTHY, DEGRADED), *flapping[1:2], flapping[0], 120.0) == [
        ("healthy", "degraded")
    ]


def test_a_hook_that_fails_hurts_nobody() -> None:
    """It gets the next change as if nothing had happened."""
    hooked = HookFixture()
    hooked.problem = "exit 1"
    assert len(hooked.play(transition(HEALTHY, DEGRADED), 61.0, transition(DEGRADED, HEALTHY))) == 2


def test_a_program_gets_the_event_and_ends_by_its_deadline(tmp_path: Path) -> None:
    """JSON on its standard input; a failed, hung or missing program is reported."""
    kept = tmp_path / "kept"

    def ran(code: str, deadline_seconds: float = 10.0, event: bytes = b'{"a": 1}') -> str | None:
        return asyncio.run(HookProgram((sys.executable, "-c", code), deadline_seconds).run(event))

    assert ran(f"import sys; open({str(kept)!r}, 'w').write(sys.stdin.read())") is None
    assert kept.read_text() == '{"a": 1}'
    assert "exit 3 no" in (ran("import sys; print('no', file=sys.stderr); sys.exit(3)") or "")
    # An unread megabyte delays nothing.
    assert ran("pass", event=b"x" * 1_000_000) is None
    began = time.monotonic()
    assert "not done" in (ran("import time; time.sleep(60)", 0.3) or "")
    assert time.monotonic() - began < 5
    assert "said more than" in (ran("import sys\nwhile True: sys.stdout.write('x' * 65536)") or "")
    assert "No such file" in (asyncio.run(HookProgram(("/nowhere/at/all",)).run(b"")) or "")


def repaired(
    house: SupervisorFixture, name: str, *, dry_run: bool = False
) -> tuple[dict[str, tuple[object, object]], str]:
    repairs = Repairs(house.store, house.registry, house.clock, SettlingRefresher(house))
    done = asyncio.run(repairs.repair(name, dry_run=dry_run))
    return {each.field: (each.old, each.new) for each in done.changes}, done.words


@pytest.mark.parametrize("state", ["idle", "prompting", "waiting"])
def test_a_record_of_which_nothing_is_left_is_laid_to_rest(state: str, house: SupervisorFixture) -> None:
    """The daemon was killed, the log is gone, and the store still says what was true then. First it is only said."""
    house.start("a")
    if state != "idle":
        (house.work if state == "prompting" else house.ask)("a")
    anew = SupervisorFixture(store=house.store)
    shown, words = repaired(anew, subject("a").id, dry_run=True)
    assert (shown["state"], words) == ((state, "stopped"), "this would be repaired")
    assert stored_state(anew) == state
    repaired(anew, subject("a").id)
    assert stored_state(anew) == "stopped"
    assert repaired(anew, subject("a").id) == ({}, "what is stored is true")


def stored_state(house: SupervisorFixture) -> str:
    (row,) = asyncio.run(house.store.sessions())
    return str(msgspec.json.decode(row.record)["state"])


def test_a_record_that_the_evidence_contradicts_is_mended_by_it(house: SupervisorFixture) -> None:
    """The store missed a transition; what is judged now is what is true."""
    process = house.start("a")
    house.work("a")
    record = house.store.record

    async def refuse(*_transitions: object, **_options: object) -> int:
        return 0

    house.store.record = refuse  # type: ignore[method-assign]
    house.end(process)
    house.store.record = record  # type: ignore[method-assign]
    changes, _ = repaired(house, "a")
    assert changes["state"] == ("prompting", "stopped")
    assert changes["health"] == ("healthy", "dead")


@pytest.mark.parametrize("state", [State.STARTING, State.STOPPING])
def test_starting_and_stopping_do_not_last(state: State, house: SupervisorFixture) -> None:
    """Whatever was under way when Wakeful died is over."""
    house.start("a")
    record = house.registry.sessions[subject("a").id].record
    stuck = msgspec.structs.replace(record, state=state)  # type: ignore[type-var]
    at = house.clock.now().wall
    told = Transition(subject("a").id, at, "", state, "", "healthy", "x", msgspec.json.encode(stuck))
    asyncio.run(house.store.record((told,)))
    assert repaired(SupervisorFixture(store=house.store), subject("a").id)[0]["state"] == (state, "stopped")


def test_an_unknown_session_is_not_repaired() -> None:
    """Nothing is made up."""
    with pytest.raises(SessionNotFound):
        repaired(SupervisorFixture(), "nobody")


async def test_repair_leaves_the_wake_state_alone(tmp_path: Path) -> None:
    """Decisions, snapshots and cooldowns are what they were."""
    house = HeartbeatFixture(tmp_path)
    await house.wakes.restore()
    house.write_policy("fox")
    name = await house.raise_agent("fox")
    await house.wakes.wake("fox")
    kinds = ("wake", "heartbeat-snapshot")
    before = [await house.store.notes(kind) for kind in kinds]
    house.end(house.registry.sessions[subject(name).id].presence.living_processes[0].process)
    anew = HeartbeatFixture(tmp_path, store=house.store)
    await Repairs(anew.store, anew.registry, anew.clock, anew).repair(subject(name).id, dry_run=False)
    assert [await house.store.notes(kind) for kind in kinds] == before


def test_inspect_shows_the_last_error_redacted(house: SupervisorFixture) -> None:
    """A secret in a provider's words leaves by no view."""
    house.start("a")
    house.fail("a", "401 for key sk-ant-api03-" + "A" * 80)
    for view in (house.desk.health, house.desk.status, house.desk.inspect):
        shown = msgspec.json.decode(view("a").body)["last_error"]["untrusted"]
        assert "401" in shown
        assert "A" * 20 not in shown


NAMES = [f"n{number:02d}" for number in range(20)]
STEPS = st.lists(st.tuples(st.sampled_from(["come", "go"]), st.sampled_from(NAMES)), max_size=8)


@given(st.integers(1, 7), st.lists(STEPS, max_size=12), st.booleans())
@settings(max_examples=40, deadline=None)
def test_paging_is_stable_while_sessions_come_and_go(
    limit: int, pages: list[list[tuple[str, str]]], picky: bool
) -> None:
    """A session that was there all along is listed exactly once, with a filter or without."""
    house = SupervisorFixture()
    living = {name: house.start(name) for name in NAMES[::2]}
    lasting = set(living)
    seen: list[str] = []
    cursor: str | None = None
    for steps in [*pages, *([[]] * 40)]:
        query = Query(limit=limit, cursor=cursor, state=State.IDLE if picky else None)
        page = house.registry.page(query, house.clock.now())
        seen += [msgspec.json.decode(body)["id"].removeprefix("claude-") for body in page.bodies]
        cursor = page.next_cursor
        if cursor is None:
            break
        for act, name in steps:
            if act == "come" and name not in living:
                living[name] = house.start(name)
            elif act == "go" and name in living:
                house.forget(name, living.pop(name))
                lasting.discard(name)
    assert len(seen) == len(set(seen))
    assert lasting <= set(seen)


def test_whoever_listens_hears_of_timers() -> None:
    """A message of its own kind, at once."""

    async def scene() -> bytes:
        feed = Feed()
        with feed.subscribe() as listener:
            feed.publish_supervision(SupervisionEvent(subject("a").id, TimerStage.WARNING, "t", "t", "w"))
            return await anext(listener.batches())

    shown = msgspec.json.decode(asyncio.run(scene()))
    assert shown["supervision"]["event"] == "inactivity_warning"
