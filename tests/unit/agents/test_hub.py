"""The hub over a scripted world: what is seen, ordered and remembered."""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from itertools import product

import pytest
from msgspec.structs import replace

from support.agents_fixture import TestHub, agent, with_pid
from wakeful.agents.commands import AgentBusy, AlreadyRuns, HubObserves, NotStale, StoppedMeanwhile
from wakeful.agents.model import (
    AGENT_TRANSITIONS,
    AgentEvent,
    AgentObservation,
    AgentRecord,
    AgentRuntime,
    AgentSpec,
    AgentState,
    BadAgentName,
    Restart,
)
from wakeful.agents.runtime import EngineGone, ImageMissing, NotReady, UndeclaredAgent
from wakeful.agents.table import ENDED_EARLY, AgentNotFound, AgentRefuses
from wakeful.alerts.model import Topic
from wakeful.alerts.notifier import GATHER_SECONDS
from wakeful.core.ids import SessionId
from wakeful.core.leases import ConversationHeld, Lease, LeaseKey
from wakeful.healing.plan import AgentRecovery
from wakeful.incidents.model import Cause, MemberStatus, Origin
from wakeful.incidents.service import REOPEN_SECONDS
from wakeful.judging.findings import FindingCode
from wakeful.storage.base import ActionOutcome
from wakeful.testing.scripted_runtime import ALIVE, GONE, SESSION_DEAD, UNKNOWN, ScriptedRuntime
from wakeful.testing.virtual_clock import settle

NOT_READY = replace(ALIVE, ready=False, reason="nothing was shown")
SESSION = SessionId("claude-9b1deb4d-3b7d-4bad-9bdd-2b0d7b3dcb6d")


def run(story: Callable[[], Awaitable[None]]) -> None:
    async def told() -> None:
        await story()

    asyncio.run(told())


async def running(house: TestHub, pid: int = 41) -> None:
    """An agent that was found alive."""
    await house.happens(with_pid(ALIVE, pid))
    assert house.record().state is AgentState.RUNNING


@asynccontextmanager
async def under_way() -> AsyncIterator[tuple[TestHub, asyncio.Task[AgentRecord]]]:
    """A start whose agent is not ready yet."""
    house = TestHub(agent())
    house.runtime.ready.clear()
    async with house.open():
        start = asyncio.create_task(house.orders.start("claude"))
        await settle()
        assert house.record().state is AgentState.STARTING
        yield house, start


def test_a_session_that_dies_is_stale_as_soon_as_it_is_told() -> None:
    """Container running is not agent working: no sync is waited for, and subscribers get old, new, why and when."""

    async def story() -> None:
        house = TestHub(agent(runtime=AgentRuntime.DOCKER), runtime=ScriptedRuntime("docker"))
        async with house.open():
            await running(house)
            house.clock.advance(3)
            record = await house.happens(SESSION_DEAD)
            assert (record.state, record.session_alive, record.pid) == (AgentState.STALE, False, None)
            assert record.reason == "container running, session dead"
            change = house.changes[-1]
            assert (change.old_state, change.state) == (AgentState.RUNNING, AgentState.STALE)
            assert change.at == record.since == change.record.since

    run(story)


def test_a_sync_finds_what_nobody_told() -> None:
    """Ten seconds are the documented bound, and nothing but a look is needed."""

    async def story() -> None:
        house = TestHub(agent())
        async with house.open():
            await running(house)
            house.runtime.observations["claude"] = SESSION_DEAD
            await house.clock.run_for(9.9)
            assert house.record().state is AgentState.RUNNING
            await house.clock.run_for(0.2)
            assert house.record().state is AgentState.STALE

    run(story)


def test_the_end_of_a_process_is_looked_at_at_once() -> None:
    """A pidfd tells sooner than any loop."""

    async def story() -> None:
        house = TestHub(agent())
        async with house.open():
            await running(house, pid=41)
            (watched,) = [each.process for each in house.book.agents.values()]
            assert watched is not None
            house.runtime.observations["claude"] = SESSION_DEAD
            house.hub.on_exit(watched)
            await settle()
            assert house.record().state is AgentState.STALE

    run(story)


def test_a_process_that_ended_before_it_was_watched_is_looked_at_again() -> None:
    """A process may end between a probe and its pidfd, and no other event would report it."""

    async def story() -> None:
        house = TestHub(agent())
        async with house.open():
            house.ends_unwatched[41] = "claude"
            await house.happens(with_pid(ALIVE, 41))
            assert house.record().state is AgentState.STALE

    run(story)


def test_a_process_that_ends_before_it_can_be_identified_is_no_secret() -> None:
    """No other event would report it. A process that merely cannot be inspected is not probed without end."""

    async def story() -> None:
        house = TestHub(agent())
        async with house.open():
            house.ends_unidentified[41] = "claude"
            await house.happens(with_pid(ALIVE, 41))
            assert house.record().state is AgentState.STALE
            house.hidden.add(42)
            looks = house.runtime.inspections
            await house.happens(with_pid(ALIVE, 42))
            assert house.record().state is AgentState.RUNNING
            assert house.runtime.inspections <= looks + 2

    run(story)


def test_what_cannot_be_seen_is_unknown_and_comes_back() -> None:
    """A dead engine says nothing about its agents; since and reason do, and one incident tells for all."""

    async def story() -> None:
        house = TestHub(agent("one"), agent("two"))
        async with house.open():
            for name in ("one", "two"):
                await house.happens(with_pid(ALIVE, 41), name)
            house.clock.advance(5)
            for name in ("one", "two"):
                await house.happens(UNKNOWN, name)
            record = house.record("one")
            assert (record.state, record.session_alive) == (AgentState.UNKNOWN, False)
            assert record.reason == "the engine does not answer"
            assert record.since == house.changes[-2].at
            (incident,) = await house.incidents.list_incidents()
            assert incident.cause is Cause.TMUX_SERVER
            assert incident.sessions == ("agent-one", "agent-two")
            await house.clock.run_for(2 * GATHER_SECONDS)
            ((key, words),) = house.said
            assert key == incident.id
            assert "agent one, agent two" in words
            for name in ("one", "two"):
                assert (await house.happens(with_pid(ALIVE, 41), name)).state is AgentState.RUNNING
            assert await house.incidents.list_incidents() == []
            await house.clock.run_for(REOPEN_SECONDS)
            assert [key for key, _ in house.over] == [incident.id]

    run(story)


def test_an_agent_whose_session_is_in_an_incident_does_not_join_it_too() -> None:
    """The healer was first: its session speaks for both."""

    async def story() -> None:
        house = TestHub(agent())
        async with house.open():
            await running(house, 41)
            house.sessions.by_pid[41] = SESSION
            house.hub.on_session_process(SESSION)
            await settle()
            await house.incidents.join(SESSION, Origin(Cause.TMUX_SERVER, "a socket"), "lost", "agent claude")
            house.clock.advance(5)
            assert (await house.happens(UNKNOWN)).state is AgentState.UNKNOWN
            (incident,) = await house.incidents.list_incidents()
            assert incident.sessions == (SESSION,)
            await house.happens(with_pid(ALIVE, 41))
            assert [each.sessions for each in await house.incidents.list_incidents()] == [(SESSION,)]

    run(story)


def test_an_engine_that_was_never_seen_is_no_incident() -> None:
    """An engine that was never there has lost nothing, and yet the agent is not called stopped."""

    async def story() -> None:
        house = TestHub(agent())
        house.runtime.observations["claude"] = UNKNOWN
        async with house.open():
            assert house.record().state is AgentState.UNKNOWN
            assert await house.incidents.list_incidents() == []

    run(story)


def test_of_two_starts_at_once_one_wins() -> None:
    """The loser hears 409, and one agent is started."""

    async def story() -> None:
        house = TestHub(agent())
        async with house.open():
            ends = await asyncio.gather(
                house.orders.start("claude"), house.orders.start("claude"), return_exceptions=True
            )
            refused = [each for each in ends if isinstance(each, AgentRefuses)]
            assert len(refused) == 1
            assert refused[0].http_status == 409
            assert [act for act, _ in house.runtime.actions] == ["start claude"]
            assert house.record().state is AgentState.RUNNING

    run(story)


def test_a_stop_ends_a_start_that_is_under_way() -> None:
    """The caller that waits for the start gets an answer, and nothing is left."""

    async def story() -> None:
        async with under_way() as (house, start):
            stopped = await house.orders.stop("claude")
            assert stopped.state is AgentState.STOPPED
            with pytest.raises(StoppedMeanwhile):
                await start
            assert house.record().state is AgentState.STOPPED

    run(story)


def test_a_look_during_an_order_changes_nothing() -> None:
    """A container that is not there yet is not gone."""

    async def story() -> None:
        async with under_way() as (house, start):
            await house.happens(GONE)
            await house.clock.run_for(25)
            assert house.record().state is AgentState.STARTING
            house.runtime.ready.set()
            assert (await start).state is AgentState.RUNNING

    run(story)


def test_whoever_hangs_up_does_not_stop_a_start() -> None:
    """What has begun is brought to its end."""

    async def story() -> None:
        house = TestHub(agent())
        house.runtime.ready.clear()
        async with house.open():
            caller = asyncio.create_task(house.orders.start("claude"))
            await settle()
            caller.cancel()
            house.runtime.ready.set()
            await settle()
            assert house.record().state is AgentState.RUNNING

    run(story)


@pytest.mark.parametrize(
    ("failure", "state"),
    [
        (ImageMissing(image="none"), AgentState.ERROR),
        (NotReady(name="claude", seconds=60, reason="nothing came"), AgentState.ERROR),
        (EngineGone(address="x", reason="refused"), AgentState.UNKNOWN),
    ],
)
def test_a_start_that_fails_says_why_and_keeps_saying_it(failure: Exception, state: AgentState) -> None:
    """An error outlives the syncs after it: nothing went, for nothing was there."""

    async def story() -> None:
        house = TestHub(agent())
        assert isinstance(failure, (ImageMissing, NotReady, EngineGone))
        house.runtime.failure = failure
        async with house.open():
            with pytest.raises(type(failure)):
                await house.orders.start("claude")
            assert house.record().state is state
            assert house.record().reason == str(failure)
            if state is AgentState.UNKNOWN:
                house.runtime.observations["claude"] = UNKNOWN
            await house.clock.run_for(30)
            assert house.record().state is state

    run(story)


def test_restart_session_is_for_stale_agents_only() -> None:
    """In the container that is there, waited for until ready; 409 everywhere else."""

    async def story() -> None:
        house = TestHub(agent())
        async with house.open():
            with pytest.raises(NotStale):
                await house.orders.restart_session("claude")
            await running(house)
            with pytest.raises(NotStale):
                await house.orders.restart_session("claude")
            await house.happens(SESSION_DEAD)
            record = await house.orders.restart_session("claude")
            assert (record.state, record.session_alive) == (AgentState.RUNNING, True)
            assert house.runtime.actions == [("restart-session claude", ("claude",))]

    run(story)


def test_an_agent_somebody_else_started_is_not_started_again() -> None:
    """The evidence is read again right before the act."""

    async def story() -> None:
        house = TestHub(agent())
        async with house.open():
            house.runtime.observations["claude"] = with_pid(ALIVE, 41)
            with pytest.raises(AlreadyRuns):
                await house.orders.start("claude")
            assert house.record().state is AgentState.RUNNING
            assert house.runtime.actions == []

    run(story)


def test_every_start_has_a_higher_epoch_and_one_holder() -> None:
    """Earlier starts are fenced; another owner's lease is not taken away."""

    async def story() -> None:
        house = TestHub(agent())
        async with house.open():
            for _ in range(3):
                await house.orders.start("claude")
                await house.orders.stop("claude")
            assert house.runtime.epochs == [1, 2, 3]
            await house.store.claim_lease(LeaseKey("agent/claude"), "another daemon")
            with pytest.raises(ConversationHeld):
                await house.orders.start("claude")
            assert house.record().state is AgentState.ERROR

    run(story)


@pytest.mark.parametrize("seen_dead", [True, False])
def test_the_lease_of_a_daemon_that_was_killed_is_taken_over(seen_dead: bool) -> None:
    """At once if its process is seen dead, under the next epoch; never while that is unknown."""

    async def story() -> None:
        house = TestHub(agent())
        async with house.open():
            killed = house.daemon
            claimed = await house.store.claim_lease(LeaseKey("agent/claude"), "a test", holder=killed)
            assert isinstance(claimed, Lease)
        house.build()
        house.dead_daemons |= {killed} if seen_dead else set()
        async with house.open():
            if seen_dead:
                assert (await house.orders.start("claude")).epoch == claimed.epoch + 1
            else:
                with pytest.raises(ConversationHeld):
                    await house.orders.start("claude")

    run(story)


def test_a_lease_that_a_later_daemon_renews_is_its_own() -> None:
    """The daemon that claimed it is dead; the one that continues the agent holds it now."""

    async def story() -> None:
        house = TestHub(agent())
        async with house.open():
            await house.orders.start("claude")
        house.build()
        async with house.open():
            assert [each.holder for each in await house.store.leases()] == [house.daemon]

    run(story)


def test_a_turn_is_not_cut_off_without_a_yes() -> None:
    """A stop asks first; with a yes it is done."""

    async def story() -> None:
        house = TestHub(agent())
        house.sessions.by_pid[41] = SESSION
        house.sessions.busy.add(SESSION)
        async with house.open():
            await running(house)
            assert house.record().session_id == SESSION
            with pytest.raises(AgentBusy):
                await house.orders.stop("claude")
            assert house.record().state is AgentState.RUNNING
            assert (await house.orders.stop("claude", even_if_busy=True)).state is AgentState.STOPPED

    run(story)


def test_whom_an_agent_hosts_is_said_at_once_and_until_it_begins_anew() -> None:
    """Both records name each other: no sync is waited for, a restarted daemon knows it, a new start forgets it."""

    async def story() -> None:
        house = TestHub(agent())
        async with house.open():
            await running(house, 41)
            assert house.record().session_id is None
            house.sessions.by_pid[41] = SESSION
            house.hub.on_session_process(SessionId("claude-of-somebody-else"))
            await settle()
            assert house.record().session_id is None
            house.hub.on_session_process(SESSION)
            await settle()
            assert (house.record().session_id, house.lodged) == (SESSION, {SESSION: "claude"})
        house.lodged.clear()
        house.build()
        async with house.open():
            assert house.lodged == {SESSION: "claude"}
            await house.happens(SESSION_DEAD)
            assert house.lodged == {SESSION: "claude"}
            await house.orders.restart_session("claude")
            assert (house.record().session_id, house.lodged) == (None, {SESSION: None})

    run(story)


def test_a_stopped_agent_leaves_its_last_session_free() -> None:
    """It starts a new conversation the next time, so the old one may be claimed."""

    async def story() -> None:
        house = TestHub(agent())
        house.sessions.by_pid[41] = SESSION
        async with house.open():
            await running(house, 41)
            assert house.lodged == {SESSION: "claude"}
            assert (await house.orders.stop("claude")).session_id == SESSION
            assert house.lodged == {SESSION: None}

    run(story)


def test_a_session_is_judged_anew_when_its_agents_state_changes() -> None:
    """Whether it can be spoken to depends on its agent: its way is not called open on the strength of an old look."""

    async def story() -> None:
        house = TestHub(agent())
        async with house.open():
            await running(house, 41)
            house.sessions.by_pid[41] = SESSION
            house.hub.on_session_process(SESSION)
            await settle()
            for observation in (UNKNOWN, with_pid(ALIVE, 41)):
                house.lodged.clear()
                await house.happens(observation)
                assert house.lodged == {SESSION: "claude"}

    run(story)


def test_a_restart_of_ours_knows_epoch_and_since(caplog: pytest.LogCaptureFixture) -> None:
    """What was stale stays stale since the same moment, and the documented sentence is logged."""

    async def story() -> None:
        house = TestHub(agent(runtime=AgentRuntime.DOCKER), runtime=ScriptedRuntime("docker"))
        async with house.open():
            await house.orders.start("claude")
            before = await house.happens(SESSION_DEAD)
        house.clock.advance(100)
        house.build()
        with caplog.at_level(logging.INFO, logger="wakeful.hub"):
            async with house.open():
                after = house.record()
        assert (after.state, after.since, after.epoch) == (AgentState.STALE, before.since, 1)
        sentence = "Discovered stale container for claude (container running, session dead)"
        assert sentence in caplog.messages

    run(story)


def test_a_stopped_agent_has_lost_nothing_to_a_dead_engine(caplog: pytest.LogCaptureFixture) -> None:
    """Nor after any number of daemon restarts: no incident, and no claim is recorded."""

    async def story() -> None:
        house = TestHub(agent("stopped"), agent("runs"))
        async with house.open():
            for name in ("stopped", "runs"):
                await house.orders.start(name)
            await house.orders.stop("stopped")
        for name in ("stopped", "runs"):
            house.runtime.observations[name] = UNKNOWN
        for _ in range(2):
            house.build()
            with caplog.at_level(logging.INFO, logger="wakeful.hub"):
                async with house.open():
                    assert house.record("stopped").state is AgentState.UNKNOWN
                    (incident,) = await house.incidents.list_incidents()
                    assert incident.sessions == ("agent-runs",)
        assert "claimed by somebody else" not in caplog.text

    run(story)


def test_agents_that_are_declared_no_longer_are_forgotten() -> None:
    """Nothing is stored for an unused name."""

    async def story() -> None:
        house = TestHub(agent("old"))
        async with house.open():
            await house.orders.start("old")
        house.build([agent("new")])
        async with house.open():
            assert [note.key for note in await house.store.notes("agent")] == []

    run(story)


def test_a_start_that_a_crash_cut_off_is_looked_at() -> None:
    """Nothing is done again: what is there says how it went."""

    async def story() -> None:
        house = TestHub(agent())
        async with house.open():
            house.book.apply_command(house.book.find("claude"), AgentEvent.START)
            await house.book.save(house.book.find("claude"))
        house.build()
        house.runtime.observations["claude"] = replace(SESSION_DEAD, epoch=1)
        async with house.open():
            assert (house.record().state, house.record().reason) == (AgentState.ERROR, ENDED_EARLY)
            assert house.runtime.actions == []

    run(story)


def test_a_start_that_a_crash_cut_off_before_it_began_leaves_it_stale() -> None:
    """Only what ended before the order is there: nothing was started, so nothing ended early."""

    async def story() -> None:
        house = TestHub(agent())
        async with house.open():
            await running(house)
            await house.happens(SESSION_DEAD)
            house.runtime.ready.clear()
            start = asyncio.create_task(house.orders.start("claude"))
            await settle()
            assert house.record().state is AgentState.STARTING
        await asyncio.gather(start, return_exceptions=True)
        house.build()
        async with house.open():
            assert (house.record().state, house.record().reason) == (AgentState.STALE, "session dead")

    run(story)


@pytest.mark.parametrize(
    ("epoch", "state"), [(0, AgentState.STOPPED), (1, AgentState.ERROR)], ids=["nothing", "its container"]
)
def test_a_container_that_went_while_nobody_watched_its_start_is_an_error(
    epoch: int, state: AgentState
) -> None:
    """Wakeful was killed too. With nothing ever started, it is stopped."""

    async def story() -> None:
        house = TestHub(agent())
        async with house.open():
            house.book.apply_command(house.book.find("claude"), AgentEvent.START)
            await house.book.save(house.book.find("claude"))
        house.build()
        house.runtime.observations["claude"] = replace(GONE, epoch=epoch, reason="container exited (137)")
        async with house.open():
            await house.clock.run_for(30)
            assert (house.record().state, house.record().reason) == (state, "container exited (137)")

    run(story)


@pytest.mark.parametrize("begun", [False, True])
def test_restarts_that_waited_for_their_turn_when_the_daemon_ended_are_not_lost(begun: bool) -> None:
    """Their budget is spent and nothing was started: it is given back, also where the next daemon sees nothing first."""

    async def story() -> None:
        names = [f"bot{number}" for number in range(4)]
        house = TestHub(*(agent(name, restart=Restart.AUTO) for name in names))
        lost = replace(SESSION_DEAD, epoch=1)
        house.runtime.observations = dict.fromkeys(names, replace(ALIVE, pid=41, epoch=1))
        async with house.open():
            house.runtime.ready.clear()
            house.runtime.observations = dict.fromkeys(names, lost)
            await house.clock.run_for(20)
            assert [house.record(name).state for name in names].count(AgentState.STARTING) == 1
            assert len(await house.store.notes("agent-revival")) == len(names)
        (first, _), *_ = house.runtime.actions
        began = first.removeprefix("restart-session ")
        house.runtime = ScriptedRuntime()
        house.build()
        house.runtime.observations = dict.fromkeys(names, UNKNOWN)
        async with house.open():
            assert {house.record(name).state for name in names} == {AgentState.UNKNOWN}
            house.runtime.observations = dict.fromkeys(names, lost)
            if begun:
                house.runtime.observations[began] = replace(lost, epoch=2)
            await house.clock.run_for(60)
            back = {name for name in names if house.record(name).state is AgentState.RUNNING}
            assert back == set(names) - ({began} if begun else set())
            # One message is the runtime's that was lost.
            told = [words.splitlines()[0] for _, words in house.said if "brought back" in words]
            assert told == ([f"Agent {began} was brought back once and ended again: session dead"] * begun)
            assert await house.store.notes("agent-revival") == []

    run(story)


def test_a_start_that_a_crash_cut_off_keeps_its_deadline() -> None:
    """Still not ready it is starting, for the rest of its time and no longer; ready late it is running."""

    async def story() -> None:
        house = TestHub(agent())
        house.runtime.ready.clear()
        async with house.open():
            start = asyncio.create_task(house.orders.start("claude"))
            await settle()
            since = house.record().since
        await asyncio.gather(start, return_exceptions=True)
        house.build()
        house.runtime.observations["claude"] = NOT_READY
        await house.clock.run_for(20)
        async with house.open():
            assert (house.record().state, house.record().since) == (AgentState.STARTING, since)
            await house.clock.run_for(39)
            assert house.record().state is AgentState.STARTING
            await house.clock.run_for(2)
            assert house.record().state is AgentState.ERROR
            assert (
                house.record().reason
                == "Agent claude did not become ready (60 s are allowed): nothing was shown."
            )
            await house.clock.run_for(30)
            assert house.record().state is AgentState.ERROR
            await house.happens(with_pid(ALIVE, 7))
            assert house.record().state is AgentState.RUNNING
            assert house.runtime.actions == [("start claude", ("claude",))]

    run(story)


def test_an_agent_that_lives_and_was_never_ready_is_an_error_and_stays_one() -> None:
    """A start that failed left its program behind: that it lives does not make it running."""

    async def story() -> None:
        house = TestHub(agent())
        house.runtime.failure = NotReady(name="claude", seconds=60, reason="nothing came")
        async with house.open():
            house.runtime.observations["claude"] = NOT_READY
            with pytest.raises(NotReady):
                await house.orders.start("claude")
            await house.clock.run_for(30)
            assert house.record().state is AgentState.ERROR
            assert house.record().reason == str(house.runtime.failure)

    run(story)


class SlowRuntime(ScriptedRuntime):
    """Looks that take their time, each until its gate opens; what they saw at their beginning or at their end."""

    def __init__(self) -> None:
        super().__init__()
        self.gates: list[tuple[str, asyncio.Event]] = []

    async def inspect(self, spec: AgentSpec) -> AgentObservation:
        early = await super().inspect(spec)
        if not self.gates:
            return early
        sees_at, gate = self.gates.pop(0)
        await gate.wait()
        return early if sees_at == "beginning" else await super().inspect(spec)


@pytest.mark.parametrize("late", [0, 1])
def test_a_look_from_before_a_death_that_arrives_late_does_not_count(late: int) -> None:
    """Two probes may overtake each other, whichever began first: a late one revives nothing."""

    async def story() -> None:
        eyes = SlowRuntime()
        house = TestHub(agent(), runtime=eyes)
        async with house.open():
            await running(house)
            house.changes.clear()
            gates = [asyncio.Event(), asyncio.Event()]
            eyes.gates = [("beginning" if at == late else "end", gate) for at, gate in enumerate(gates)]
            looks = [asyncio.create_task(house.hub.inspect([house.book.find("claude")])) for _ in gates]
            await settle()
            eyes.observations["claude"] = SESSION_DEAD
            for at in (1 - late, late):
                gates[at].set()
                await looks[at]
                await settle()
            assert [change.state for change in house.changes] == [AgentState.STALE]

    run(story)


def test_a_look_from_before_an_order_does_not_count_after_it() -> None:
    """What was stale when it was seen was restarted since."""

    async def story() -> None:
        eyes = SlowRuntime()
        house = TestHub(agent(), runtime=eyes)
        async with house.open():
            await running(house)
            await house.happens(SESSION_DEAD)
            gate = asyncio.Event()
            eyes.gates = [("beginning", gate)]
            look = asyncio.create_task(house.hub.inspect([house.book.find("claude")]))
            await settle()
            await house.orders.restart_session("claude")
            gate.set()
            await look
            assert house.record().state is AgentState.RUNNING

    run(story)


def test_a_stale_auto_agent_is_brought_back_once_in_its_conversation() -> None:
    """The budget is one: an agent that ends again soon stays stale, and a person gets an alert."""

    async def story() -> None:
        house = TestHub(agent(restart=Restart.AUTO))
        house.sessions.by_pid[41] = SESSION
        house.sessions.known.add(SESSION)
        async with house.open():
            await running(house)
            await house.happens(SESSION_DEAD)
            await house.clock.run_for(4)
            conversation = SESSION.removeprefix("claude-")
            expected = ("restart-session claude", ("claude", "--resume", conversation))
            assert house.runtime.actions == [expected]
            assert house.record().state is AgentState.RUNNING
            await house.happens(SESSION_DEAD)
            await house.clock.run_for(300)
            assert house.record().state is AgentState.STALE
            assert house.runtime.actions == [expected]
            ((key, words),) = house.said
            assert words.splitlines()[:4] == [
                "Agent claude was brought back once and ended again: session dead",
                f"Where: agent claude (tmux), session {SESSION}",
                "Since: 2027-01-15 08:00 UTC",
                "Wakeful did: brought it back once, which did not last; gave up",
            ]
            assert house.outbox.alerts[-1].topic == Topic((FindingCode.AGENT_EXITED,), session_id=SESSION)
            assert house.over == []
            await house.orders.restart_session("claude")
            await house.clock.run_for(20)
            ((ended, end),) = house.over
            assert ended == key
            assert end.splitlines()[0] == "Resolved: agent claude was brought back once and ended again"
            assert end.splitlines()[-1] == "Over: it is running"

    run(story)


def test_an_agent_that_is_given_up_is_so_in_its_incident() -> None:
    """Its tmux server ended again soon after: nothing more is tried, so nothing waits for its turn."""

    async def story() -> None:
        house = TestHub(agent(restart=Restart.AUTO))
        async with house.open():
            await running(house)
            for _ in range(2):
                await house.happens(UNKNOWN)
                await house.happens(SESSION_DEAD)
                await house.clock.run_for(30)
            assert house.record().state is AgentState.STALE
            assert "gave up" in house.said[-1][1]
            (incident,) = await house.incidents.list_incidents()
            (member,) = incident.members
            assert (member.fate, member.words) == (
                MemberStatus.GIVEN_UP,
                "brought it back once, which did not last; gave up",
            )

    run(story)


def test_a_stop_that_a_crash_cut_off_is_forgotten_where_the_agent_runs_on() -> None:
    """It ends hours later by itself: that is no person's stop, so it is brought back like any other."""

    async def story() -> None:
        house = TestHub(agent(restart=Restart.AUTO))
        async with house.open():
            await running(house)
            gate = asyncio.Event()
            house.stop_gate = gate
            stop = asyncio.create_task(house.orders.stop("claude"))
            await settle()
            assert house.record().state is AgentState.STOPPING
        await asyncio.gather(stop, return_exceptions=True)
        house.build()
        withdrawn = house.stops_failed
        async with house.open():
            await house.clock.run_for(30)
            assert (house.record().state, withdrawn) == (AgentState.RUNNING, [])
            await house.clock.run_for(3600)
            assert withdrawn == ["claude"]
        house.build()
        async with house.open():
            await house.happens(SESSION_DEAD)
            assert house.record().reason == "session dead"
            await house.clock.run_for(20)
            assert [act for act, _ in house.runtime.actions] == ["restart-session claude"]

    run(story)


def test_an_auto_agent_that_cannot_be_brought_back_is_told() -> None:
    """Its restart fails: it is an error, people hear of it once, and again when a person has started it."""

    async def story() -> None:
        house = TestHub(agent(restart=Restart.AUTO))
        async with house.open():
            await running(house)
            house.runtime.failure = NotReady(name="claude", seconds=60, reason="nothing came")
            await house.happens(SESSION_DEAD)
            await house.clock.run_for(300)
            assert house.record().state is AgentState.ERROR
            assert len(house.runtime.actions) == 1
            ((key, words),) = house.said
            assert words.splitlines()[0].startswith("Agent claude ended and could not be brought back: ")
            assert "Wakeful did: tried to start it once, which failed; gave up" in words
            house.runtime.failure = None
            await house.orders.start("claude")
            await house.clock.run_for(20)
            assert [ended for ended, _ in house.over] == [key]

    run(story)


@pytest.mark.parametrize("later", [SESSION_DEAD, NOT_READY, ALIVE])
def test_a_restart_that_a_crash_cut_off_is_told_where_it_fails(later: AgentObservation) -> None:
    """The daemon ends while it brings an agent back: the next one knows that its budget is spent."""

    async def story() -> None:
        house = TestHub(agent(restart=Restart.AUTO))
        async with house.open():
            await running(house)
            house.runtime.ready.clear()
            await house.happens(SESSION_DEAD)
            await house.clock.run_for(10)
            assert house.record().state is AgentState.STARTING
        house.build()
        house.runtime.observations["claude"] = NOT_READY
        async with house.open():
            assert (house.record().state, house.said) == (AgentState.STARTING, [])
            await house.happens(later)
            await house.clock.run_for(100)
            failed = later is not ALIVE
            assert house.record().state is (AgentState.ERROR if failed else AgentState.RUNNING)
            assert len(house.said) == failed
            assert len(house.runtime.actions) == 1
            assert await house.store.notes("agent-revival") == []

    run(story)


def test_an_agent_cut_off_in_a_turn_is_left_to_the_healer() -> None:
    """Running its command again would lose the turn; the healer has it started, once."""

    async def story() -> None:
        house = TestHub(agent(restart=Restart.AUTO))
        house.sessions.by_pid[41] = SESSION
        async with house.open():
            await running(house)
            house.sessions.cut_off.add(SESSION)
            await house.happens(SESSION_DEAD)
            await house.clock.run_for(60)
            assert (house.record().state, house.runtime.actions) == (AgentState.STALE, [])
            assert house.hub.recovery_of(SESSION) is AgentRecovery.REVIVE
            deeds = [house.hub.resume_agent(SESSION), house.hub.resume_agent(SESSION)]
            ended = await asyncio.gather(*(each for each in deeds if each is not None))
            assert [act for act, _ in house.runtime.actions] == ["restart-session claude"]
            assert ActionOutcome.CONFIRMED in [each.outcome for each in ended]
            assert house.hub.recovery_of(SESSION) is AgentRecovery.WAIT

    run(story)


def test_a_session_that_ended_while_its_agent_runs_on_is_told() -> None:
    """A wrapper outlives its client: the agent never becomes stale, so waiting for that has an end."""

    async def story() -> None:
        house = TestHub(agent(restart=Restart.AUTO))
        house.sessions.by_pid[41] = SESSION
        house.sessions.holders[SESSION] = 42
        async with house.open():
            await running(house)
            await house.clock.run_for(3600)
            assert house.hub.recovery_of(SESSION) is AgentRecovery.WAIT
            del house.sessions.holders[SESSION]
            assert house.hub.recovery_of(SESSION) is AgentRecovery.WAIT
            await house.clock.run_for(19)
            assert house.hub.recovery_of(SESSION) is AgentRecovery.WAIT
            await house.clock.run_for(2)
            assert house.hub.recovery_of(SESSION) is AgentRecovery.NOTIFY
            await house.happens(SESSION_DEAD)
            assert house.hub.recovery_of(SESSION) is AgentRecovery.REVIVE

    run(story)


def test_a_session_is_its_agents_before_anybody_looked() -> None:
    """Its processes carry the agent's mark: while it starts, and not one that its own session started."""

    async def story() -> None:
        async with under_way() as (house, start):
            nested = SessionId("claude-nested")
            house.sessions.named = {SESSION: "claude", nested: "claude"}
            house.hub.on_session_process(SESSION)
            assert house.lodged == {SESSION: "claude"}
            house.sessions.holders[SESSION] = 41
            house.hub.on_session_process(nested)
            assert house.lodged == {SESSION: "claude"}
            house.runtime.ready.set()
            assert (await start).session_id == SESSION

    run(story)


def test_what_was_hosted_is_known_before_anybody_is_judged() -> None:
    """After a restart the agent of a session is known as soon as the store is read."""

    async def story() -> None:
        house = TestHub(agent())
        house.sessions.by_pid[41] = SESSION
        async with house.open():
            await running(house)
        house.lodged.clear()
        house.build()
        await house.hub.load()
        assert house.lodged == {SESSION: "claude"}
        assert house.hub.agent_name_of(SESSION) == "claude"

    run(story)


def test_an_agent_that_was_well_for_long_has_a_budget_again() -> None:
    """An end ten minutes later is another problem."""

    async def story() -> None:
        house = TestHub(agent(restart=Restart.AUTO))
        async with house.open():
            for _ in range(3):
                await running(house)
                await house.clock.run_for(700)
                await house.happens(SESSION_DEAD)
                await house.clock.run_for(20)
                assert house.record().state is AgentState.RUNNING
            assert len(house.runtime.actions) == 3

    run(story)


def test_two_processes_never_get_one_conversation() -> None:
    """A process that resumed it elsewhere keeps it, and the budget is given back."""

    async def story() -> None:
        house = TestHub(agent(restart=Restart.AUTO))
        house.sessions.by_pid[41] = SESSION
        house.sessions.known.add(SESSION)
        async with house.open():
            await running(house)
            house.sessions.holders[SESSION] = 99
            await house.happens(SESSION_DEAD)
            await house.clock.run_for(60)
            assert house.runtime.actions == []
            del house.sessions.holders[SESSION]
            await house.clock.run_for(20)
            assert len(house.runtime.actions) == 1

    run(story)


@pytest.mark.parametrize("why", ["manual", "observe", "paused", "unknown"])
def test_nobody_acts_where_nobody_may(why: str) -> None:
    """Manual overrides the mode; observe, a pause and what is unknown forbid it."""

    async def story() -> None:
        restart = Restart.MANUAL if why == "manual" else Restart.AUTO
        house = TestHub(agent(restart=restart), mode="observe" if why == "observe" else "mine")
        async with house.open():
            await running(house)
            if why == "paused":
                house.rules = type(house.rules)(mode="mine", paused_by="me")
            await house.happens(UNKNOWN if why == "unknown" else SESSION_DEAD)
            await house.clock.run_for(60)
            assert house.runtime.actions == []

    run(story)


def test_orders_in_observe_mode_are_refused() -> None:
    """Observe acts on nothing, whatever the caller."""

    async def story() -> None:
        house = TestHub(agent(), mode="observe")
        async with house.open():
            with pytest.raises(HubObserves):
                await house.orders.start("claude")
            assert house.record().state is AgentState.STOPPED

    run(story)


def test_strangers_are_reported_and_left_alone(caplog: pytest.LogCaptureFixture) -> None:
    """Whatever looks like an agent and is declared nowhere is named, never touched."""
    caplog.set_level("INFO", "wakeful.hub")

    async def story() -> None:
        house = TestHub(agent())
        house.runtime.undeclared.append(UndeclaredAgent("other", "c0ffee", "runs codex in tmux"))
        async with house.open():
            assert [each.name for each in house.hub.undeclared] == ["other"]
            await house.clock.run_for(30)
            assert house.runtime.actions == []

    run(story)
    assert "found other, which runs codex in tmux: declared nowhere, so it is left alone" in caplog.messages


def test_an_unknown_name_hears_the_nearest_one() -> None:
    """A slip costs one line."""
    house = TestHub(agent("claude"), agent("codex"))
    with pytest.raises(AgentNotFound, match="Did you mean 'claude'"):
        house.record("cluade")
    with pytest.raises(BadAgentName):
        house.record("../etc")


def test_an_order_the_table_does_not_have_is_refused() -> None:
    """Every pair of state and order is either in the table or answered with 409."""

    for state, event in product(AgentState, (AgentEvent.START, AgentEvent.STOP)):
        house = TestHub(agent())
        found = house.book.find("claude")
        found.record = replace(found.record, state=state)
        if (state, event) in AGENT_TRANSITIONS:
            house.book.require(found, event)
        else:
            with pytest.raises(AgentRefuses) as refused:
                house.book.require(found, event)
            assert refused.value.http_status == 409
