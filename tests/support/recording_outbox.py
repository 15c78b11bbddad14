"""An outbox that keeps what is queued and resolved in lists, and delivers nothing."""

from wakeful.alerts.model import Alert, AlertRules
from wakeful.alerts.outbox import AlertOutbox
from wakeful.core.clock import Clock
from wakeful.storage.base import Store


class RecordingOutbox(AlertOutbox):
    """Every call counts: nothing is left out because it is known already."""

    def __init__(self, store: Store, clock: Clock) -> None:
        super().__init__(store, clock, (), AlertRules(), "a test")
        self.alerts: list[Alert] = []
        self.resolved: list[tuple[str, str | None]] = []

    async def enqueue(self, alert: Alert) -> bool:
        self.alerts.append(alert)
        return True

    async def resolve(self, episode: str, text: str | None = None) -> bool:
        is_open = any(each.episode == episode for each in self.alerts)
        if is_open:
            self.resolved.append((episode, text))
        return is_open
