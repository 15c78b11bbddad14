"""The hub over a scripted world: what is seen, ordered and remembered."""

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import product

import pytest
from msgspec.structs import replace

from support.agents_fixture import NOT_READY, SESSION, TestHub, agent, opened, running, with_pid
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
)
from wakeful.agents.runtime import EngineGone, ImageMissing, NotReady, UndeclaredAgent
from wakeful.agents.table import ENDED_EARLY, AgentNotFound, AgentRefuses
from wakeful.alerts.notifier import GATHER_SECONDS
from wakeful.core.ids import SessionId
from wakeful.core.leases import ConversationHeld, Lease, LeaseKey
from wakeful.incidents.model import Cause, Origin
from wakeful.incidents.service import REOPEN_SECONDS
from wakeful.testing.scripted_runtime import ALIVE, GONE, SESSION_DEAD, UNKNOWN, ScriptedRuntime
from wakeful.testing.virtual_clock import settle


@pytest.fixture
async def house() -> AsyncIterator[TestHub]:
    async with opened(agent()) as house:
        yield house


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


async def test_a_session_that_dies_is_stale_as_soon_as_it_is_told() -> None:
    """Container running is not agent working: no sync is waited for, and subscribers get old, new, why and when."""
    async with opened(agent(runtime=AgentRuntime.DOCKER), runtime=ScriptedRuntime("docker")) as house:
        await running(house)
        house.clock.advance(3)
        record = await house.happens(SESSION_DEAD)
        assert (record.state, record.session_alive, record.pid) == (AgentState.STALE, False, None)
        assert record.reason == "container running, session dead"
        change = house.changes[-1]
        assert (change.old_state, change.state) == (AgentState.RUNNING, AgentState.STALE)
        assert change.at == record.since == change.record.since


async def test_a_sync_finds_what_nobody_told(house: TestHub) -> None:
    """Ten seconds are the documented bound, and nothing but a look is needed."""
    await running(house)
    house.runtime.observations["claude"] = SESSION_DEAD
    await house.clock.run_for(9.9)
    assert house.record().state is AgentState.RUNNING
    await house.clock.run_for(0.2)
    assert house.record().state is AgentState.STALE


async def test_the_end_of_a_process_is_looked_at_at_once(house: TestHub) -> None:
    """A pidfd tells sooner than any loop."""
    await running(house, pid=41)
    (watched,) = [each.process for each in house.book.agents.values()]
    assert watched is not None
    house.runtime.observations["claude"] = SESSION_DEAD
    house.hub.on_exit(watched)
    await settle()
    assert house.record().state is AgentState.STALE


async def test_a_process_that_ended_before_it_was_watched_is_looked_at_again(house: TestHub) -> None:
    """A process may end between a probe and its pidfd, and no other event would report it."""
    house.ends_unwatched[41] = "claude"
    await house.happens(with_pid(ALIVE, 41))
    assert house.record().state is AgentState.STALE


async def test_a_process_that_ends_before_it_can_be_identified_is_no_secret(house: TestHub) -> None:
    """No other event would report it. A process that merely cannot be inspected is not probed without end."""
    house.ends_unidentified[41] = "claude"
    await house.happens(with_pid(ALIVE, 41))
    assert house.record().state is AgentState.STALE
    house.hidden.add(42)
    looks = house.runtime.inspections
    await house.happens(with_pid(ALIVE, 42))
    assert house.record().state is AgentState.RUNNING
    assert house.runtime.inspections <= looks + 2


async def test_what_cannot_be_seen_is_unknown_and_comes_back() -> None:
    """A dead engine says nothing about its agents; since and reason do, and one incident tells for all."""
    async with opened(agent("one"), agent("two")) as house:
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


async def test_an_agent_whose_session_is_in_an_incident_does_not_join_it_too(house: TestHub) -> None:
    """The healer was first: its session speaks for both."""
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


async def test_an_engine_that_was_never_seen_is_no_incident() -> None:
    """An engine that was never there has lost nothing, and yet the agent is not called stopped."""
    house = TestHub(agent())
    house.runtime.observations["claude"] = UNKNOWN
    async with house.open():
        assert house.record().state is AgentState.UNKNOWN
        assert await house.incidents.list_incidents() == []


async def test_of_two_starts_at_once_one_wins(house: TestHub) -> None:
    """The loser hears 409, and one agent is started."""
    ends = await asyncio.gather(
        house.orders.start("claude"), house.orders.start("claude"), return_exceptions=True
    )
    refused = [each for each in ends if isinstance(each, AgentRefuses)]
    assert len(refused) == 1
    assert refused[0].http_status == 409
    assert [act for act, _ in house.runtime.actions] == ["start claude"]
    assert house.record().state is AgentState.RUNNING


async def test_a_stop_ends_a_start_that_is_under_way() -> None:
    """The caller that waits for the start gets an answer, and nothing is left."""
    async with under_way() as (house, start):
        stopped = await house.orders.stop("claude")
        assert stopped.state is AgentState.STOPPED
        with pytest.raises(StoppedMeanwhile):
            await start
        assert house.record().state is AgentState.STOPPED


async def test_a_look_during_an_order_changes_nothing() -> None:
    """A container that is not there yet is not gone."""
    async with under_way() as (house, start):
        await house.happens(GONE)
        await house.clock.run_for(25)
        assert house.record().state is AgentState.STARTING
        house.runtime.ready.set()
        assert (await start).state is AgentState.RUNNING


async def test_whoever_hangs_up_does_not_stop_a_start() -> None:
    """What has begun is brought to its end."""
    house = TestHub(agent())
    house.runtime.ready.clear()
    async with house.open():
        caller = asyncio.create_task(house.orders.start("claude"))
        await settle()
        caller.cancel()
        house.runtime.ready.set()
        await settle()
        assert house.record().state is AgentState.RUNNING


@pytest.mark.parametrize(
    ("failure", "state"),
    [
        (ImageMissing(image="none"), AgentState.ERROR),
        (NotReady(name="claude", seconds=60, reason="nothing came"), AgentState.ERROR),
        (EngineGone(address="x", reason="refused"), AgentState.UNKNOWN),
    ],
)
async def test_a_start_that_fails_says_why_and_keeps_saying_it(failure: Exception, state: AgentState) -> None:
    """An error outlives the syncs after it: nothing went, for nothing was there."""
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


async def test_restart_session_is_for_stale_agents_only(house: TestHub) -> None:
    """In the container that is there, waited for until ready; 409 everywhere else."""
    with pytest.raises(NotStale):
        await house.orders.restart_session("claude")
    await running(house)
    with pytest.raises(NotStale):
        await house.orders.restart_session("claude")
    await house.happens(SESSION_DEAD)
    record = await house.orders.restart_session("claude")
    assert (record.state, record.session_alive) == (AgentState.RUNNING, True)
    assert house.runtime.actions == [("restart-session claude", ("claude",))]


async def test_a_session_is_given_up_before_its_agent_leaves_it() -> None:
    """A restart takes seconds: in that time the dead session would be reported as found, not handed over."""
    house = TestHub(agent())
    house.sessions.by_pid[41] = SESSION
    async with house.open():
        await running(house)
        await house.happens(SESSION_DEAD)
        await house.orders.restart_session("claude")
        assert house.replaced == [(SESSION, "claude")]
        with pytest.raises(AgentRefuses):
            await house.orders.start("claude")
        assert len(house.replaced) == 1


async def test_an_agent_somebody_else_started_is_not_started_again(house: TestHub) -> None:
    """The evidence is read again right before the act."""
    house.runtime.observations["claude"] = with_pid(ALIVE, 41)
    with pytest.raises(AlreadyRuns):
        await house.orders.start("claude")
    assert house.record().state is AgentState.RUNNING
    assert house.runtime.actions == []


async def test_every_start_has_a_higher_epoch_and_one_holder(house: TestHub) -> None:
    """Earlier starts are fenced; another owner's lease is not taken away."""
    for _ in range(3):
        await house.orders.start("claude")
        await house.orders.stop("claude")
    assert house.runtime.epochs == [1, 2, 3]
    await house.store.claim_lease(LeaseKey("agent/claude"), "another daemon")
    with pytest.raises(ConversationHeld):
        await house.orders.start("claude")
    assert house.record().state is AgentState.ERROR


@pytest.mark.parametrize("seen_dead", [True, False])
async def test_the_lease_of_a_daemon_that_was_killed_is_taken_over(seen_dead: bool) -> None:
    """At once if its process is seen dead, under the next epoch; never while that is unknown."""
    async with opened(agent()) as house:
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


async def test_a_lease_that_a_later_daemon_renews_is_its_own() -> None:
    """The daemon that claimed it is dead; the one that continues the agent holds it now."""
    async with opened(agent()) as house:
        await house.orders.start("claude")
    house.build()
    async with house.open():
        assert [each.holder for each in await house.store.leases()] == [house.daemon]


async def test_a_turn_is_not_cut_off_without_a_yes() -> None:
    """A stop asks first; with a yes it is done."""
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


async def test_whom_an_agent_hosts_is_said_at_once_and_until_it_begins_anew() -> None:
    """Both records name each other: no sync is waited for, a restarted daemon knows it, a new start forgets it."""
    async with opened(agent()) as house:
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


async def test_a_stopped_agent_leaves_its_last_session_free() -> None:
    """It starts a new conversation the next time, so the old one may be claimed."""
    house = TestHub(agent())
    house.sessions.by_pid[41] = SESSION
    async with house.open():
        await running(house, 41)
        assert house.lodged == {SESSION: "claude"}
        assert (await house.orders.stop("claude")).session_id == SESSION
        assert house.lodged == {SESSION: None}


async def test_a_session_is_judged_anew_when_its_agents_state_changes(house: TestHub) -> None:
    """Whether it can be spoken to depends on its agent: its way is not called open on the strength of an old look."""
    await running(house, 41)
    house.sessions.by_pid[41] = SESSION
    house.hub.on_session_process(SESSION)
    await settle()
    for observation in (UNKNOWN, with_pid(ALIVE, 41)):
        house.lodged.clear()
        await house.happens(observation)
        assert house.lodged == {SESSION: "claude"}


async def test_a_restart_of_ours_knows_epoch_and_since(caplog: pytest.LogCaptureFixture) -> None:
    """What was stale stays stale since the same moment, and the documented sentence is logged."""
    async with opened(agent(runtime=AgentRuntime.DOCKER), runtime=ScriptedRuntime("docker")) as house:
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


async def test_a_stopped_agent_has_lost_nothing_to_a_dead_engine(caplog: pytest.LogCaptureFixture) -> None:
    """Nor after any number of daemon restarts: no incident, and no claim is recorded."""
    async with opened(agent("stopped"), agent("runs")) as house:
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
    assert "claimed by another owner" not in caplog.text


async def test_agents_that_are_declared_no_longer_are_forgotten() -> None:
    """Nothing is stored for an unused name."""
    async with opened(agent("old")) as house:
        await house.orders.start("old")
    house.build([agent("new")])
    async with house.open():
        assert [note.key for note in await house.store.notes("agent")] == []


async def test_a_start_that_a_crash_cut_off_is_looked_at() -> None:
    """Nothing is done again: what is there says how it went."""
    async with opened(agent()) as house:
        house.book.apply_command(house.book.find("claude"), AgentEvent.START)
        await house.book.save(house.book.find("claude"))
    house.build()
    house.runtime.observations["claude"] = replace(SESSION_DEAD, epoch=1)
    async with house.open():
        assert (house.record().state, house.record().reason) == (AgentState.ERROR, ENDED_EARLY)
        assert house.runtime.actions == []


async def test_a_start_that_a_crash_cut_off_before_it_began_leaves_it_stale() -> None:
    """Only what ended before the order is there: nothing was started, so nothing ended early."""
    async with opened(agent()) as house:
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


@pytest.mark.parametrize(
    ("epoch", "state"), [(0, AgentState.STOPPED), (1, AgentState.ERROR)], ids=["nothing", "its container"]
)
async def test_a_container_that_went_while_nobody_watched_its_start_is_an_error(
    epoch: int, state: AgentState
) -> None:
    """Wakeful was killed too. With nothing ever started, it is stopped."""
    async with opened(agent()) as house:
        house.book.apply_command(house.book.find("claude"), AgentEvent.START)
        await house.book.save(house.book.find("claude"))
    house.build()
    house.runtime.observations["claude"] = replace(GONE, epoch=epoch, reason="container exited (137)")
    async with house.open():
        await house.clock.run_for(30)
        assert (house.record().state, house.record().reason) == (state, "container exited (137)")


async def test_a_start_that_a_crash_cut_off_keeps_its_deadline() -> None:
    """Still not ready it is starting, for the rest of its time and no longer; ready late it is running."""
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
        assert house.record().reason == "Agent claude was not ready within 60 s: nothing was shown."
        await house.clock.run_for(30)
        assert house.record().state is AgentState.ERROR
        await house.happens(with_pid(ALIVE, 7))
        assert house.record().state is AgentState.RUNNING
        assert house.runtime.actions == [("start claude", ("claude",))]


async def test_an_agent_that_lives_and_was_never_ready_is_an_error_and_stays_one() -> None:
    """A start that failed left its program behind: that it lives does not make it running."""
    house = TestHub(agent())
    house.runtime.failure = NotReady(name="claude", seconds=60, reason="nothing came")
    async with house.open():
        house.runtime.observations["claude"] = NOT_READY
        with pytest.raises(NotReady):
            await house.orders.start("claude")
        await house.clock.run_for(30)
        assert house.record().state is AgentState.ERROR
        assert house.record().reason == str(house.runtime.failure)


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
async def test_a_look_from_before_a_death_that_arrives_late_does_not_count(late: int) -> None:
    """Two probes may overtake each other, whichever began first: a late one revives nothing."""
    eyes = SlowRuntime()
    async with opened(agent(), runtime=eyes) as house:
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


async def test_a_look_from_before_an_order_does_not_count_after_it() -> None:
    """What was stale when it was seen was restarted since."""
    eyes = SlowRuntime()
    async with opened(agent(), runtime=eyes) as house:
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


async def test_a_session_is_its_agents_before_anybody_looked() -> None:
    """Its processes carry the agent's mark: while it starts, and not one that its own session started."""
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


async def test_what_was_hosted_is_known_before_anybody_is_judged() -> None:
    """After a restart the agent of a session is known as soon as the store is read."""
    house = TestHub(agent())
    house.sessions.by_pid[41] = SESSION
    async with house.open():
        await running(house)
    house.lodged.clear()
    house.build()
    await house.hub.load()
    assert house.lodged == {SESSION: "claude"}
    assert house.hub.agent_name_of(SESSION) == "claude"


async def test_a_session_that_its_mark_named_is_known_to_the_next_daemon() -> None:
    """Both may be killed right after its first prompt: what was said of the session is on disk by then."""
    house = TestHub(agent())
    async with house.open():
        await running(house, 41)
        house.sessions.by_pid[41], house.sessions.named[SESSION] = SESSION, "claude"
        house.hub.on_session_process(SESSION)
        await settle()
        house.lodged.clear()
        house.build()
        await house.hub.load()
    assert house.lodged == {SESSION: "claude"}


async def test_orders_in_observe_mode_are_refused() -> None:
    """Observe acts on nothing, whatever the caller."""
    async with opened(agent(), mode="observe") as house:
        with pytest.raises(HubObserves):
            await house.orders.start("claude")
        assert house.record().state is AgentState.STOPPED


async def test_strangers_are_reported_and_left_alone(caplog: pytest.LogCaptureFixture) -> None:
    """Whatever looks like an agent and is declared nowhere is named, never touched."""
    caplog.set_level("INFO", "wakeful.hub")
    house = TestHub(agent())
    house.runtime.undeclared.append(UndeclaredAgent("other", "c0ffee", "runs codex in tmux"))
    async with house.open():
        assert [each.name for each in house.hub.undeclared] == ["other"]
        await house.clock.run_for(30)
        assert house.runtime.actions == []
    assert "found other, which runs codex in tmux: not declared; no action taken" in caplog.messages


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
