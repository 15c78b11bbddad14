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
        """Resolve the open alerts of a journal without a problem. The alert about a recovery needs no second message."""
        for pending in self._notifier.open_alerts(_prefix(root)):
            is_final = pending.alert.episode.endswith(f"/{_RESOLVED}")
            text = resolved_text(f"journal {root}", iso(pending.owed_at), because="no recovery is needed now")
            await self._notifier.resolve(pending.alert.episode, None if is_final else text)


def journal_alert_body(report: JournalWatchReport, now: float) -> AlertBody:
    what = report.words.removeprefix(f"{report.root}: ")
    return AlertBody(
        what=f"{what[:1].upper()}{what[1:]} (journal)",
        where=f"journal {report.root}",
        since=now - report.silent_seconds,
        did=_action_text(report),
        otherwise=(
            "nothing to do; the program can continue" if _is_resolved(report) else "it stays as it is"
        ),
        command=f"wakeful recover --session-state {quote(f'{report.root}/.copilot/session_state.json')}",
    )


def _action_text(report: JournalWatchReport) -> str:
    if report.recovered is not None:
        return f"ran recovery: {report.recovered.status.text}"
    if report.stale_pid is not None:
        return "no action: the program is alive; check whether it hangs"
    return "no action: recovery was not possible"


def _is_resolved(report: JournalWatchReport) -> bool:
    return report.recovered is not None and report.recovered.status is RecoveryStatus.OK


def _prefix(root: str) -> str:
    # Without slashes: one journal's root may be below another's.
    return f"journal/{escaped(root, safe='')}/"
