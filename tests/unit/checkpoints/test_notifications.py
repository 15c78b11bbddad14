"""Claims about checkpoints of journals: one alert whichever program opened it, and one when it is decided."""

import asyncio

from support.healing_fixture import HealingFixture
from wakeful.alerts.mute_pause_model import MuteKind
from wakeful.checkpoints.model import Checkpoint, CheckpointChoice, CheckpointKind, ChoiceName
from wakeful.checkpoints.service import INTERVAL_SECONDS, CheckpointNotifier
from wakeful.testing.virtual_clock import settle

WEEK_SECONDS = 7 * 86_400.0


def draft(subject: str, kind: CheckpointKind = CheckpointKind.JOURNAL) -> Checkpoint:
    choices = (CheckpointChoice(ChoiceName.CONTINUE, "again"),)
    return Checkpoint(0, kind, subject, "shop", 0.0, (), ("step publish, attempt 1, half sent",), (), choices)


def announcer(clinic: HealingFixture) -> CheckpointNotifier:
    return CheckpointNotifier(clinic.checkpoints, clinic.notifier, clinic.store, clinic.clock)


async def stay(clinic: HealingFixture, seconds: float) -> None:
    """A daemon that runs for so long."""
    async with clinic.open():
        watching = asyncio.create_task(announcer(clinic).run())
        await clinic.clock.run_for(seconds)
        watching.cancel()
        await asyncio.gather(watching, return_exceptions=True)
        await settle()


async def test_what_was_open_before_the_daemon_came_is_told_once_for_ever() -> None:
    """Over checks, restarts and longer than the outbox remembers; ten is not one, and agents' are not sent here."""
    clinic = HealingFixture()
    for name in range(10):
        await clinic.checkpoints.open(draft(f"/srv/{name}"))
    await clinic.checkpoints.open(draft("claude-a", CheckpointKind.SESSION))
    for _ in range(3):
        await stay(clinic, 3 * INTERVAL_SECONDS)
        clinic.build()
    clinic.clock.suspend(WEEK_SECONDS + 1)
    await stay(clinic, 3 * INTERVAL_SECONDS)
    said = clinic.recorder.said
    assert [each.splitlines()[-1] for each in said] == [
        f"→ wakeful checkpoint show {number}" for number in range(1, 11)
    ]
    assert said[0].splitlines()[:2] == [
        "shop needs your decision: the program was interrupted in a step that may have taken effect",
        "Where: journal /srv/0",
    ]
    assert "No action: this may have taken effect: step publish, attempt 1, half sent" in said[0]


async def test_its_end_is_told_to_whoever_heard_of_it() -> None:
    """With the decision and the person's name; once."""
    clinic = HealingFixture()
    await clinic.checkpoints.open(draft("/srv/0"))
    await stay(clinic, INTERVAL_SECONDS)
    await clinic.checkpoints.record(1, ChoiceName.CONTINUE, "ann@host")
    clinic.build()
    await stay(clinic, 3 * INTERVAL_SECONDS)
    said = clinic.recorder.said
    assert len(said) == 2
    assert said[1].splitlines()[0] == "Resolved: shop, checkpoint 1"
    assert said[1].splitlines()[-1] == "Reason: continued by ann@host"


async def test_what_was_decided_before_anybody_was_told_is_no_news() -> None:
    """No alert is sent."""
    clinic = HealingFixture()
    await clinic.checkpoints.open(draft("/srv/0"))
    await clinic.checkpoints.record(1, ChoiceName.CONTINUE, "ann@host")
    await stay(clinic, INTERVAL_SECONDS)
    assert clinic.recorder.said == []


async def test_a_muted_project_is_told_when_the_mute_has_ended() -> None:
    """Also where that is longer than anything else is kept, and over a restart."""
    heard: list[int] = []
    clinic = HealingFixture()
    await clinic.calm.mute(MuteKind.PROJECT, "shop", 2 * WEEK_SECONDS, by="ada")
    await clinic.checkpoints.open(draft("/srv/1"))
    await stay(clinic, 3 * INTERVAL_SECONDS)
    clinic.build()
    clinic.clock.suspend(WEEK_SECONDS + 1)
    await stay(clinic, 3 * INTERVAL_SECONDS)
    heard.append(len(clinic.recorder.said))
    clinic.clock.suspend(WEEK_SECONDS + 1)
    await stay(clinic, 3 * INTERVAL_SECONDS)
    said = clinic.recorder.said
    assert (heard, len(said)) == ([0], 1)
    assert said[0].startswith("(delayed alert from 2027-01-15 08:00 UTC)")
