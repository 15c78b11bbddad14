"""Claims about agents that the hub brings back by itself, over a scripted runtime."""

import asyncio

import pytest
from msgspec.structs import replace

from support.agents_fixture import NOT_READY, SESSION, TestHub, agent, opened, running, with_pid
from wakeful.agents.model import AgentObservation, AgentState, Restart
from wakeful.agents.runtime import NotReady
from wakeful.alerts.model import Topic
from wakeful.healing.plan import AgentRecovery
from wakeful.healing.rate_limit import BREAKER_SECONDS
from wakeful.incidents.model import MemberStatus
from wakeful.judging.findings import FindingCode
from wakeful.storage.base import ActionOutcome
from wakeful.testing.scripted_runtime import ALIVE, SESSION_DEAD, UNKNOWN, ScriptedRuntime
from wakeful.testing.virtual_clock import settle


@pytest.mark.parametrize("begun", [False, True])
async def test_restarts_that_waited_for_their_turn_when_the_daemon_ended_are_not_lost(begun: bool) -> None:
    """Their budget is spent and nothing was started: it is given back, also where the next daemon sees nothing first."""
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
        told = [words.splitlines()[0] for _, words in house.said if "after one restart" in words]
        assert told == ([f"Agent {began} ended again after one restart: session dead"] * begun)
        assert await house.store.notes("agent-revival") == []


async def test_a_stale_auto_agent_is_brought_back_once_in_its_conversation() -> None:
    """The budget is one: an agent that ends again soon stays stale, and a person gets an alert."""
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
            "Agent claude ended again after one restart: session dead",
            f"Where: agent claude (tmux), session {SESSION}",
            "Since: 2027-01-15 08:00 UTC",
            "Action: restarted it once; it ended again; gave up",
        ]
        assert house.outbox.alerts[-1].topic == Topic((FindingCode.AGENT_EXITED,), session_id=SESSION)
        assert house.over == []
        await house.orders.restart_session("claude")
        await house.clock.run_for(20)
        ((ended, end),) = house.over
        assert ended == key
        assert end.splitlines()[0] == "Resolved: agent claude ended again after one restart"
        assert end.splitlines()[-1] == "Reason: it is running"


async def test_an_agent_that_is_given_up_is_so_in_its_incident() -> None:
    """Its tmux server ended again soon after: nothing more is tried, so nothing waits for its turn."""
    async with opened(agent(restart=Restart.AUTO)) as house:
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
            "restarted it once; it ended again; gave up",
        )


async def test_agents_that_were_given_up_are_no_news_after_a_restart(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """They do not count again as revivals that failed lately, and the end of their alerts is still sent."""
    names = [f"a{number}" for number in range(5)]
    house = TestHub(*(agent(name, restart=Restart.AUTO) for name in names))
    async with house.open():
        for pid, name in enumerate(names, 41):
            await house.happens(with_pid(ALIVE, pid), name)
        for _ in range(2):
            for name in names:
                await house.happens(SESSION_DEAD, name)
            await house.clock.run_for(60)
        # Some are given up after the pause that the first ones caused.
        await house.clock.run_for(BREAKER_SECONDS)
        assert len(house.said) == len(names)
    caplog.clear()
    house.build()
    async with house.open():
        await house.clock.run_for(60)
        assert house.limiter.breaker_seconds == 0.0
        assert len(house.said) == len(names)
        assert "ended again after one restart" not in caplog.text
        assert {house.record(name).state for name in names} == {AgentState.STALE}
        await house.orders.restart_session("a0")
        await house.clock.run_for(20)
        ((ended, _),) = house.over
        assert ended == house.said[0][0]


async def test_a_stop_that_a_crash_cut_off_is_forgotten_where_the_agent_runs_on() -> None:
    """It ends hours later by itself: that is no person's stop, so it is brought back like any other."""
    async with opened(agent(restart=Restart.AUTO)) as house:
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


async def test_an_auto_agent_that_cannot_be_brought_back_is_told() -> None:
    """Its restart fails: it is an error, people hear of it once, and again when a person has started it."""
    async with opened(agent(restart=Restart.AUTO)) as house:
        await running(house)
        house.runtime.failure = NotReady(name="claude", seconds=60, reason="nothing came")
        await house.happens(SESSION_DEAD)
        await house.clock.run_for(300)
        assert house.record().state is AgentState.ERROR
        assert len(house.runtime.actions) == 1
        ((key, words),) = house.said
        assert words.splitlines()[0].startswith("Agent claude ended and could not be restarted: ")
        assert "Action: tried to start it once; that failed; gave up" in words
        house.runtime.failure = None
        await house.orders.start("claude")
        await house.clock.run_for(20)
        assert [ended for ended, _ in house.over] == [key]


@pytest.mark.parametrize("later", [SESSION_DEAD, NOT_READY, ALIVE])
async def test_a_restart_that_a_crash_cut_off_is_told_where_it_fails(later: AgentObservation) -> None:
    """The daemon ends while it brings an agent back: the next one knows that its budget is spent."""
    async with opened(agent(restart=Restart.AUTO)) as house:
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


async def test_an_agent_cut_off_in_a_turn_is_left_to_the_healer() -> None:
    """Running its command again would lose the turn; the healer has it started, once."""
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


async def test_a_session_that_ended_while_its_agent_runs_on_is_told() -> None:
    """A wrapper outlives its client: the agent never becomes stale, so waiting for that has an end."""
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


async def test_an_agent_that_was_well_for_long_has_a_budget_again() -> None:
    """An end ten minutes later is another problem."""
    async with opened(agent(restart=Restart.AUTO)) as house:
        for _ in range(3):
            await running(house)
            await house.clock.run_for(700)
            await house.happens(SESSION_DEAD)
            await house.clock.run_for(20)
            assert house.record().state is AgentState.RUNNING
        assert len(house.runtime.actions) == 3


async def test_two_processes_never_get_one_conversation() -> None:
    """A process that resumed it elsewhere keeps it, and the budget is given back."""
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


@pytest.mark.parametrize("why", ["manual", "observe", "paused", "unknown"])
async def test_nobody_acts_where_nobody_may(why: str) -> None:
    """Manual overrides the mode; observe, a pause and what is unknown forbid it."""
    restart = Restart.MANUAL if why == "manual" else Restart.AUTO
    async with opened(agent(restart=restart), mode="observe" if why == "observe" else "mine") as house:
        await running(house)
        if why == "paused":
            house.rules = type(house.rules)(mode="mine", paused_by="me")
        await house.happens(UNKNOWN if why == "unknown" else SESSION_DEAD)
        await house.clock.run_for(60)
        assert house.runtime.actions == []


@pytest.mark.parametrize(
    ("restart", "mode", "action"),
    [
        (Restart.MANUAL, "mine", "restart is manual"),
        (Restart.AUTO, "observe", "the mode is observe: Wakeful acts on nothing"),
    ],
)
async def test_an_agent_that_nothing_restarts_is_told_of_once(
    restart: Restart, mode: str, action: str
) -> None:
    """Its session is not known, so no verdict says that it ended; also over restarts of the daemon, and its end."""
    house = TestHub(agent(restart=restart), mode=mode)
    async with house.open():
        await running(house)
        await house.happens(SESSION_DEAD)
        assert house.said == []
        await house.clock.run_for(60)
    house.build()
    async with house.open():
        await house.clock.run_for(60)
        ((key, words),) = house.said
        assert words.splitlines() == [
            "Agent claude ended: session dead",
            "Where: agent claude (tmux)",
            "Since: 2027-01-15 08:00 UTC",
            f"No action: {action}",
            "Until you act: it stays stale",
            "→ wakeful attach claude",
        ]
        await running(house)
        await house.clock.run_for(20)
        ((ended, end),) = house.over
        assert (ended, end.splitlines()[0]) == (key, "Resolved: agent claude ended")
        await house.happens(SESSION_DEAD)
        await house.clock.run_for(60)
        assert len(house.said) == 2


@pytest.mark.parametrize("why", ["its session is known", "a person stopped it", "its server was lost"])
async def test_an_end_that_is_known_otherwise_is_told_of_by_nobody_else(why: str) -> None:
    """A session has a verdict of its own, a person knows, and a lost server is one incident."""
    async with opened(agent(restart=Restart.MANUAL)) as house:
        if why == "its session is known":
            house.sessions.by_pid[41] = SESSION
            house.sessions.known.add(SESSION)
        await running(house)
        if why == "a person stopped it":
            await house.orders.stop("claude", even_if_busy=True)
        if why == "its server was lost":
            await house.happens(UNKNOWN)
        await house.happens(SESSION_DEAD)
        await house.clock.run_for(60)
        assert [words.splitlines()[0] for _, words in house.said if words.startswith("Agent")] == []
