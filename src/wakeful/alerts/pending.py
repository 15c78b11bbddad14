"""One alert in the outbox: which channels still need it, and when it is over. Pure and immutable.

A cooldown begins when a channel took the message, not when it was tried. A message that a channel may have
taken counts as taken: a lost answer does not repeat the alert through that channel.
"""

from collections.abc import Sequence
from enum import StrEnum
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from wakeful.alerts.model import Alert, AlertKind, late_text

# After a week, an alert is dropped; a problem that still lasts then causes a second alert.
RETENTION_SECONDS_MAX: Final = 7 * 86_400.0
# From this age on, the text begins with the time of the alert.
LATE_SECONDS: Final = 600.0
BACKOFF_SECONDS: Final = 10.0
BACKOFF_SECONDS_MAX: Final = 600.0


class AlertPhase(StrEnum):
    """`ending`: the problem is over, but a delivery still runs; its result decides which channels get the end."""

    ACTIVE = "telling"
    ENDING = "ending"
    OVER = "over"


class PendingAlert(Struct, frozen=True):
    """One episode. `pending` channels have yet to deliver its text, `took` have delivered it.

    Once it is over, the pending text is `ending`.
    """

    alert: Alert
    owner: str
    owed_at: float
    due_at: float
    pending: tuple[str, ...]
    took: tuple[str, ...] = ()
    # For a chat: stored before the text leaves, so that a crash does not repeat it.
    begun: tuple[str, ...] = ()
    told_at: float | None = None
    phase: AlertPhase = AlertPhase.ACTIVE
    ending: str | None = None

    @property
    def is_deliverable(self) -> bool:
        """Whether it may be delivered now; not while its end waits for a channel."""
        return self.phase is not AlertPhase.ENDING and bool(self.pending)


def new_pending_alert(alert: Alert, owner: str, channels: Sequence[str], now: float) -> PendingAlert:
    return PendingAlert(alert, owner, now, now, tuple(channels))


def renew_alert(
    known: PendingAlert, alert: Alert, channels: Sequence[str], now: float, cooldown_seconds: float
) -> PendingAlert | None:
    """The alert of an episode that is reported again; None if there is nothing to send.

    An alert that was delivered and is not over is not repeated. If it comes back within its cooldown, it is sent
    at the end of that, unless it is over by then. Only the newest undelivered text is sent.
    """
    if known.phase is AlertPhase.ACTIVE:
        return replace(known, alert=alert) if known.pending and not known.took else None
    if known.phase is AlertPhase.ENDING:
        return None
    due_at = now if known.told_at is None else max(now, known.told_at + cooldown_seconds)
    return replace(new_pending_alert(alert, known.owner, channels, now), due_at=due_at, told_at=known.told_at)


def is_same_message(alert: PendingAlert, sent: PendingAlert) -> bool:
    """Whether the sent text is still the pending one; it may have ended and come back meanwhile."""
    return alert.owed_at == sent.owed_at and (alert.phase is AlertPhase.OVER) == (
        sent.phase is AlertPhase.OVER
    )


def mark_delivered(alert: PendingAlert, channel: str, now: float) -> PendingAlert:
    """A channel took the text, or may have."""
    pending = tuple(each for each in alert.pending if each != channel)
    begun = tuple(each for each in alert.begun if each != channel)
    if alert.phase is AlertPhase.OVER:
        return replace(alert, pending=pending)
    return replace(
        alert,
        pending=pending,
        begun=begun,
        took=(*alert.took, channel),
        told_at=alert.told_at if alert.took else now,
    )


def mark_over(alert: PendingAlert, text: str | None) -> PendingAlert:
    """It is over: channels that delivered it must deliver `text`, the others nothing."""
    return replace(
        alert,
        phase=AlertPhase.OVER,
        ending=text,
        pending=alert.took if text is not None else (),
        due_at=alert.owed_at,
    )


def restore_alert(alert: PendingAlert, channels: Sequence[str]) -> PendingAlert:
    """Its state after a restart, with the current channels."""
    # A delivery that had begun may have arrived.
    unsent = [each for each in alert.pending if each not in alert.begun]
    took = (*alert.took, *alert.begun)
    pending = tuple(each for each in unsent if each in channels)
    if unsent and not pending and not took:
        # None of its channels is configured any more; it goes through the current ones.
        pending = tuple(channels)
    restored = replace(alert, pending=pending, took=took, begun=())
    return mark_over(restored, restored.ending) if restored.phase is AlertPhase.ENDING else restored


def is_done(alert: PendingAlert, now: float, cooldown_seconds: float) -> bool:
    """Whether it can be deleted: nothing is pending, and no cooldown runs."""
    if now - alert.owed_at > RETENTION_SECONDS_MAX:
        return True
    if alert.pending or alert.phase is AlertPhase.ENDING:
        return False
    if alert.alert.ends_by_itself:
        return True
    if alert.phase is AlertPhase.ACTIVE:
        return False
    if alert.told_at is None or alert.alert.kind is not AlertKind.TROUBLE:
        return True
    return not 0 <= now - alert.told_at < cooldown_seconds


def wait_seconds(alert: PendingAlert, now: float, cooldown_seconds: float) -> float:
    """How long until it is delivered. A wait above the cooldown means that the clock was set: then none."""
    seconds = alert.due_at - now
    return seconds if 0.0 < seconds <= cooldown_seconds else 0.0


def message_text(alert: PendingAlert, now: float) -> str:
    text = alert.ending if alert.phase is AlertPhase.OVER else alert.alert.text
    assert text is not None, "an end without words is not delivered"
    late = now - max(alert.owed_at, alert.due_at) > LATE_SECONDS
    return late_text(text, alert.owed_at) if late and alert.phase is AlertPhase.ACTIVE else text


def backoff_seconds(failures: int) -> float:
    """The delay of a channel after so many failures in a row."""
    return min(BACKOFF_SECONDS * 2.0 ** (min(failures, 20) - 1), BACKOFF_SECONDS_MAX) if failures else 0.0
