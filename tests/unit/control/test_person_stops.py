"""Claims about sessions that a person ended: no problem is reported, and nothing brings them back. Virtual time."""

import asyncio

from support.agents_fixture import TestHub, agent
from support.healing_fixture import HealingFixture
from support.supervisor_fixture import SupervisorFixture
from wakeful.agents.model import AgentEvent, AgentState, Restart
from wakeful.control.driver import ActionResult
from wakeful.control.person_stops import RETENTION_SECONDS, PersonStops
from wakeful.core.managed_session import ManagedSession
from wakeful.judging.findings import Health
from wakeful.testing.scripted_runtime import SESSION_DEAD


def findings(house: SupervisorFixture) -> int:
    record = house.registry.find("a").record
    assert record is not None
    return len(record.findings)


async def test_a_process_that_a_person_ended_leaves_no_finding(house: SupervisorFixture) -> None:
    """Also if the next daemon sees its end; a later process of the conversation that dies is news again."""
    process = house.start("a")
    house.work("a")
    await PersonStops(house.store, house.clock, house.supervisor).record_order((process,))
    following = SupervisorFixture(store=house.store, clock=house.clock)
    for each in (house, following):
        stops = PersonStops(each.store, each.clock, each.supervisor)
        await stops.load()
        each.start("a", pid=process.pid)
        each.work("a")
        each.end(process)
        record = each.registry.find("a").record
        assert record is not None
        assert (findings(each), record.health) == (0, Health.HEALTHY)
    await following.clock.run_for(1)
    another = following.start("a", pid=4242)
    following.work("a")
    following.end(another)
    assert findings(following) == 1


async def test_a_session_that_a_person_stopped_and_resumed_by_hand_is_news_again(
    clinic: HealingFixture,
) -> None:
    """It was stopped through Wakeful; the process that went on with it elsewhere dies in a turn by itself."""
    await clinic.manage("a")
    clinic.work("a")
    await clinic.hands.stop("a")
    clinic.settle()
    assert findings(clinic) == 0
    await clinic.clock.run_for(60)
    another = clinic.start_again("a", 4242)
    clinic.work("a")
    clinic.end(another)
    clinic.settle()
    assert findings(clinic) == 1
    await clinic.clock.run_for(60)
    assert clinic.living.acts == ["stop"]
    (told,) = clinic.recorder.said
    assert "died in the middle of a turn" in told


async def test_an_order_that_came_to_nothing_is_withdrawn(house: SupervisorFixture) -> None:
    """It was never carried out: the process that dies later is news, also for the next daemon."""
    process = house.start("a")
    house.work("a")
    supervisor = house.supervisor
    stops = PersonStops(house.store, house.clock, supervisor)
    await stops.record_order((process,))
    await stops.withdraw((process,))
    assert await house.store.notes("person_stop") == []
    house.end(process)
    assert findings(house) == 1


async def test_orders_of_long_ago_are_forgotten(house: SupervisorFixture) -> None:
    """The store does not grow for ever."""
    stops = PersonStops(house.store, house.clock, house.supervisor)
    await stops.record_order((house.start("a"),))
    await house.clock.run_for(RETENTION_SECONDS + 1)
    await stops.load()
    assert await house.store.notes("person_stop") == []


async def test_a_person_who_stops_a_session_that_is_being_revived_is_obeyed(clinic: HealingFixture) -> None:
    """The healer has ended its process and not yet started the next one: it starts none."""
    await clinic.manage("a")
    clinic.prompted("a", "Fix the tests")
    stop = clinic.living.stop
    orders: list[asyncio.Task[object]] = []

    async def stopped(hosting: ManagedSession) -> ActionResult:
        if not orders:
            # Waits for its turn, which comes between the healer's two acts.
            orders.append(asyncio.create_task(clinic.hands.stop("a")))
            await asyncio.sleep(0)
        return await stop(hosting)

    clinic.living.stop = stopped  # type: ignore[method-assign]
    await clinic.clock.run_for(7200)
    assert len(orders) == 1
    assert "start" not in clinic.living.acts


async def test_an_agent_whose_stop_was_cut_off_by_a_crash_is_not_restarted() -> None:
    """`restart = "auto"` brings back what ended by itself, not what a person had begun to stop."""
    house = TestHub(agent(restart=Restart.AUTO))
    async with house.open():
        await house.orders.start("claude")
        stopping = house.book.find("claude")
        house.book.apply_command(stopping, AgentEvent.STOP)
        await house.book.save(stopping)
    house.build()
    async with house.open():
        await house.happens(SESSION_DEAD)
        await house.clock.run_for(300)
        assert house.record().state is AgentState.STALE
    assert [act for act, _ in house.runtime.actions] == ["start claude"]


async def test_trouble_that_a_person_ends_is_over_and_nothing_is_revived(clinic: HealingFixture) -> None:
    """Its process is ended by an action on its agent while the problem waits to be confirmed: no alert, no action."""
    process = await clinic.manage("a")
    clinic.work("a")
    await PersonStops(clinic.store, clinic.clock, clinic.supervisor).record_order((process,))
    clinic.end(process)
    await clinic.clock.run_for(3600)
    assert clinic.healer.case_of(clinic.registry.resolve("a")) is None
    assert await clinic.incidents.list_incidents(include_resolved=True) == []
    assert (clinic.living.acts, clinic.events, clinic.recorder.said) == ([], [], [])
