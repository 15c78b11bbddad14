"""Claims about alerts and pauses: an alert says whether Wakeful is paused when it is sent."""

import asyncio
from collections.abc import Awaitable, Callable

from support.healing_fixture import HealingFixture
from wakeful.alerts.model import Alert, AlertKind, Topic
from wakeful.alerts.mute_pause_model import MuteKind

FIRST = "PAUSED by ada: Wakeful takes no action until `wakeful unpause`"


def play(scene: Callable[[HealingFixture], Awaitable[None]]) -> list[str]:
    """What was said in the end."""

    async def played() -> list[str]:
        clinic = HealingFixture()
        async with clinic.open():
            await scene(clinic)
            await clinic.clock.run_for(100)
        return list(clinic.recorder.said)

    return asyncio.run(played())


async def owe(clinic: HealingFixture) -> None:
    """Something that is muted for ten minutes."""
    await clinic.calm.mute(MuteKind.CODE, "disk", 600.0, by="ben")
    await clinic.alerts.enqueue(Alert(AlertKind.TROUBLE, "a", "the disk is full", topic=Topic(("disk",))))


def test_what_is_told_late_speaks_of_the_pause_there_is() -> None:
    """Queued before the pause, sent within it."""

    async def scene(clinic: HealingFixture) -> None:
        await owe(clinic)
        await clinic.calm.pause("ada")
        await clinic.clock.run_for(600)

    (told,) = play(scene)
    assert told.splitlines()[0] == FIRST


def test_what_is_told_after_a_pause_does_not_speak_of_it() -> None:
    """Owed within it."""

    async def scene(clinic: HealingFixture) -> None:
        await clinic.calm.pause("ada")
        await owe(clinic)
        await clinic.calm.resume()
        await clinic.clock.run_for(600)

    (told,) = play(scene)
    assert "PAUSED" not in told


def test_an_end_within_a_pause_says_so_too() -> None:
    """Every alert does; another person's chat is not concerned."""

    async def scene(clinic: HealingFixture) -> None:
        await clinic.alerts.enqueue(Alert(AlertKind.TROUBLE, "a", "the disk is full"))
        await clinic.clock.run_for(1)
        await clinic.calm.pause("ada")
        await clinic.alerts.resolve("a", "Resolved: there is room")

    assert play(scene) == ["the disk is full", f"{FIRST}\nResolved: there is room"]
