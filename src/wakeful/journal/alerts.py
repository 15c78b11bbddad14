"""Alerts about journals of programs: recovered, silent or not recoverable, and resolved.

Alerts about a journal's checkpoints come from `CheckpointNotifier`. Nothing is recovered here.
"""

from shlex import quote
from typing import Final
from urllib.parse import quote as escaped

from wakeful.alerts.model import AlertBody, AlertCode, Topic, resolved_text
from wakeful.alerts.notifier import Notifier
from wakeful.core.clock import Clock, iso
from wakeful.journal.recovery_rules import RecoveryStatus
from wakeful.journal.recovery_watch import JournalWatchReport

_RESOLVED: Final = "settled"


class JournalNotifier:
    """At most one open episode for each journal: the newest report counts."""

    def __init__(self, notifier: Notifier, clock: Clock) -> None:
        self._notifier = notifier
        self._clock = clock

    async def notify(self, report: JournalWatchReport) -> None:
        prefix = _prefix(report.root)
        episode = prefix + (_RESOLVED if _is_resolved(report) else report.words)
        for earlier in self._notifier.open_alerts(prefix):
            if earlier.alert.episode != episode:
                await self._notifier.resolve(earlier.alert.episode)
        body = journal_alert_body(report, self._clock.now().wall)
        topic = Topic((AlertCode.JOURNAL,), report.root.rpartition("/")[2])
        await self._notifier.raise_alert(episode, body, topic)

    async def resolve(self, root: str) -> None:
        """Nothing is wrong: send the end of each open alert. An alert that the journal was settled needs no end."""
        for pending in self._notifier.open_alerts(_prefix(root)):
            settled = pending.alert.episode.endswith(f"/{_RESOLVED}")
            over = resolved_text(f"journal {root}", iso(pending.owed_at), because="nothing is left to settle")
            await self._notifier.resolve(pending.alert.episode, None if settled else over)


def journal_alert_body(report: JournalWatchReport, now: float) -> AlertBody:
    """The alert about a report: what was found, what was done about it, and the result."""
    settled = _is_resolved(report)
    return AlertBody(
        what=report.words.removeprefix(f"{report.root}: ") + " (journal)",
        where=f"journal {report.root}",
        since=now - report.silent_seconds,
        did=_action_text(report),
        otherwise="nothing is left to do: its program can go on" if settled else "it stays as it is",
        command=f"wakeful recover --session-state {quote(f'{report.root}/.copilot/session_state.json')}",
    )


def _action_text(report: JournalWatchReport) -> str:
    if report.recovered is not None:
        return f"tried to settle what was cut off: {report.recovered.status}"
    if report.stale_pid is not None:
        return "nothing (its program lives: whether it hangs is for you to say)"
    return "nothing (it could not be settled)"


def _is_resolved(report: JournalWatchReport) -> bool:
    return report.recovered is not None and report.recovered.status is RecoveryStatus.OK


def _prefix(root: str) -> str:
    # Without slashes: one journal may lie below another.
    return f"journal/{escaped(root, safe='')}/"
