"""Claims about a whole day of a thousand sessions that die at random: budgets, pace, one alert for each incident."""

import asyncio
import random
from collections import Counter

from support.healing_fixture import HealingFixture
from wakeful.incidents.critical_event import ActionTaken
from wakeful.judging.events import CallEnded, CallStarted, TurnEnded

SESSIONS = 1000
HOURS = 24
SEED = 20261116


class Day:
    """Every hour forty sessions work; a third of them die, a third of them die again after they were revived."""

    def __init__(self) -> None:
        self.clinic = HealingFixture()
        self.chance = random.Random(SEED)
        self.works: Counter[str] = Counter()
        self.deaths = 0

    async def pass_by(self) -> None:
        async with self.clinic.open():
            for number in range(SESSIONS):
                await self.clinic.manage(f"s{number}")
            for _hour in range(HOURS):
                for number in self.chance.sample(range(SESSIONS), 40):
                    await self.live(f"s{number}")
                await self.clinic.clock.run_for(3600)

    async def live(self, name: str) -> None:
        if not self.clinic.registry.find(name).presence.living_processes:
            return
        self.clinic.work(name)
        self.works[f"claude-{name}"] += 1
        for _death in range(self.chance.choice((0, 1, 2))):
            await self.die(name)
        if self.clinic.registry.find(name).presence.living_processes:
            self.clinic.hear(name, TurnEnded(self.clinic.wall()))

    async def die(self, name: str) -> None:
        living = self.clinic.registry.find(name).presence.living_processes
        if living:
            self.deaths += 1
            self.clinic.end(living[0].process)
            await self.clinic.clock.run_for(60)


def test_a_day_of_a_thousand_sessions() -> None:
    """No work is revived more than once, every revival is written down, and every incident is reported at most twice."""
    day = Day()
    asyncio.run(day.pass_by())
    clinic = day.clinic
    assert day.deaths > 200
    revived = Counter(
        event.session_id for event in clinic.events if event.action_taken is ActionTaken.REVIVAL_ATTEMPTED
    )
    assert clinic.living.acts == ["start"] * revived.total()
    assert [each for each, times in revived.items() if times > day.works[each]] == []
    told = [text for text in clinic.recorder.said if not text.startswith("Resolved")]
    incidents = asyncio.run(clinic.incidents.list_incidents(include_resolved=True))
    # Once that it happened, and once more where it was given up.
    assert len(incidents) <= len(told) <= 2 * len(incidents)


async def work_steadily(clinic: HealingFixture, name: str, minutes: int) -> None:
    """One call after another, each with news."""
    for number in range(minutes):
        call = f"c{number}"
        clinic.hear(
            name, CallStarted(clinic.wall(), call, "Bash", input=b'{"command": "make part%d"}' % number)
        )
        await clinic.clock.run_for(40)
        clinic.hear(name, CallEnded(clinic.wall(), call, result=b'"part %d is built"' % number))
        await clinic.clock.run_for(20)


async def a_night(clinic: HealingFixture) -> None:
    async with clinic.open():
        await clinic.manage("idle")
        clinic.work("idle")
        clinic.hear("idle", TurnEnded(clinic.wall()))
        await clinic.manage("works")
        clinic.work("works")
        await work_steadily(clinic, "works", 3 * 60)
        clinic.hear("works", TurnEnded(clinic.wall()))
        await clinic.clock.run_for(9 * 3600)


def test_nobody_acts_on_three_hours_of_steady_work_and_an_agent_idle_overnight() -> None:
    """Age alone causes at most a report: nothing is prompted, interrupted, ended or started."""
    clinic = HealingFixture()
    asyncio.run(a_night(clinic))
    assert clinic.living.acts == []
    told = {(event.session_id, event.reason, event.action_taken) for event in clinic.events}
    assert told == {("claude-works", "running_for_2_hours", ActionTaken.NONE)}
