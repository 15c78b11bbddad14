"""Alerts about journals of programs: recovered, silent or not recoverable, and resolved.

Alerts about a journal's checkpoints come from the checkpoint announcer. Nothing is recovered here.
"""

from shlex import quote
from typing import Final
from urllib.parse import quote as escaped

from wakeful.alerts.model import Alert, AlertKind, Matter, News, Topic, resolved, text_of
from wakeful.alerts.outbox import AlertDesk
from wakeful.core.clock import Clock, iso
from wakeful.journal.recovery_rules import Status
from wakeful.journal.recovery_watch import Sighting

_SETTLED: Final = "settled"


class JournalVoice:
    """At most one open episode for each journal: the newest word about it counts."""

    def __init__(self, alerts: AlertDesk, clock: Clock) -> None:
        self._alerts = alerts
        self._clock = clock

    async def told(self, sighting: Sighting) -> None:
        prefix = _prefix(sighting.root)
        episode = prefix + (_SETTLED if _is_settled(sighting) else sighting.words)
        for earlier in self._alerts.open_episodes(prefix):
            if earlier.alert.episode != episode:
                await self._alerts.resolve(earlier.alert.episode)
        text = text_of(journal_news(sighting, self._clock.now().wall))
        topic = Topic((Matter.JOURNAL,), sighting.root.rpartition("/")[2])
        await self._alerts.owe(Alert(AlertKind.TROUBLE, episode, text, topic=topic))

    async def well(self, root: str) -> None:
        """Nothing is wrong with it: whoever was told otherwise hears so. That it was settled was its end already."""
        for owed in self._alerts.open_episodes(_prefix(root)):
            settled = owed.alert.episode.endswith(f"/{_SETTLED}")
            over = resolved(f"journal {root}", iso(owed.owed_at), because="nothing is left to settle")
            await self._alerts.resolve(owed.alert.episode, None if settled else over)


def journal_news(sighting: Sighting, now: float) -> News:
    """What was found about a program's journal, what was done about it and what came of that."""
    settled = _is_settled(sighting)
    return News(
        what=sighting.words.removeprefix(f"{sighting.root}: ") + " (journal)",
        where=f"journal {sighting.root}",
        since=now - sighting.silent_seconds,
        did=_did(sighting),
        otherwise="nothing is left to do: its program can go on" if settled else "it stays as it is",
        command=f"wakeful recover --session-state {quote(f'{sighting.root}/.copilot/session_state.json')}",
    )


def _did(sighting: Sighting) -> str:
    if sighting.recovered is not None:
        return f"tried to settle what was cut off: {sighting.recovered.status}"
    if sighting.stale_pid is not None:
        return "nothing (its program lives: whether it hangs is for you to say)"
    return "nothing (it could not be settled)"


def _is_settled(sighting: Sighting) -> bool:
    return sighting.recovered is not None and sighting.recovered.status is Status.OK


def _prefix(root: str) -> str:
    # Without slashes: one journal may lie below another.
    return f"journal/{escaped(root, safe='')}/"
