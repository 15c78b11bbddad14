"""Claims about what people hear of programs' journals: one word at a time, its end, and nothing while it is muted."""

import asyncio
from collections.abc import Awaitable, Callable

from support.healing_fixture import HealingFixture
from wakeful.alerts.model import AlertCode
from wakeful.alerts.mute_pause_model import MuteKind
from wakeful.journal.alerts import JournalNotifier
from wakeful.journal.recovery_rules import RecoveryResult, RecoveryStatus
from wakeful.journal.recovery_watch import JournalWatchReport

ROOT = "/srv/shop"
STALE = JournalWatchReport(ROOT, None, 41, f"{ROOT}: stale; pid 41 has the journal", 600.0)
RECOVERED = RecoveryResult(RecoveryStatus.OK, None, "t-1", "publish", (), (), (), None, None, "timeline", ())
SETTLED = JournalWatchReport(ROOT, RECOVERED, None, f"{ROOT}: program interrupted: recovered")
Scene = Callable[[HealingFixture, JournalNotifier], Awaitable[None]]


def play(scene: Scene) -> list[str]:
    """What was said in the end."""

    async def played() -> list[str]:
        clinic = HealingFixture()
        async with clinic.open():
            await scene(clinic, JournalNotifier(clinic.notifier, clinic.clock))
            await clinic.clock.run_for(10)
        return list(clinic.recorder.said)

    return asyncio.run(played())


def test_a_silent_program_is_told_with_its_end() -> None:
    """Since it fell silent; and that it writes again, once."""

    async def scene(clinic: HealingFixture, voice: JournalNotifier) -> None:
        await voice.notify(STALE)
        await clinic.clock.run_for(10)
        await voice.resolve(ROOT)
        await voice.resolve(ROOT)

    told, over = play(scene)
    assert told.splitlines()[:3] == [
        "Stale; pid 41 has the journal (journal)",
        f"Where: journal {ROOT}",
        "Since: 2027-01-15 07:50 UTC",
    ]
    assert over.splitlines()[0] == f"Resolved: journal {ROOT}"


def test_what_was_settled_is_over_with_that() -> None:
    """No end is sent for the silence before it, nor for the settling; a second one later is sent again."""

    async def scene(clinic: HealingFixture, voice: JournalNotifier) -> None:
        for _ in range(2):
            await voice.notify(STALE)
            await clinic.clock.run_for(10)
            await voice.notify(SETTLED)
            await clinic.clock.run_for(10)
            await voice.resolve(ROOT)
            await clinic.clock.run_for(7200)

    heads = [each.splitlines()[0] for each in play(scene)]
    assert heads == 2 * [
        "Stale; pid 41 has the journal (journal)",
        "Program interrupted: recovered (journal)",
    ]


def test_one_journal_below_another_is_another() -> None:
    """What is well about a folder says nothing about what lies in it."""

    async def scene(clinic: HealingFixture, voice: JournalNotifier) -> None:
        await voice.notify(JournalWatchReport(f"{ROOT}/inner", None, 41, "stale"))
        await clinic.clock.run_for(10)
        await voice.resolve(ROOT)

    assert len(play(scene)) == 1


def test_a_journal_can_be_muted() -> None:
    """By its code and by its project, until that ends."""
    for kind, value in ((MuteKind.CODE, str(AlertCode.JOURNAL)), (MuteKind.PROJECT, "shop")):

        async def scene(
            clinic: HealingFixture, voice: JournalNotifier, kind: MuteKind = kind, value: str = value
        ) -> None:
            await clinic.calm.mute(kind, value, 3600.0, by="ada")
            await voice.notify(STALE)
            await clinic.clock.run_for(3000)
            assert clinic.recorder.said == []
            await clinic.clock.run_for(1000)

        assert len(play(scene)) == 1
