"""Alerts people that an agent or an unidentified process asked for a decision: one alert a day for each."""

import logging
from typing import Final

from wakeful.alerts.model import Alert, AlertKind, Matter, Topic, refusal_news, text_of
from wakeful.alerts.outbox import AlertDesk
from wakeful.core.clock import Clock, iso
from wakeful.core.redaction import redact
from wakeful.core.text import plain

EPISODE: Final = "decision/"
WORDS_CHARS_MAX: Final = 160
_DAY_CHARS: Final = len("2027-01-15")

log = logging.getLogger("wakeful")


class RefusedDecisions:
    """Owes the alerts."""

    def __init__(self, alerts: AlertDesk, clock: Clock) -> None:
        self._alerts = alerts
        self._clock = clock

    async def tell(self, asker: str, order: str, reason: str, command: str) -> None:
        """`asker` is a session or what is known instead; `command` are the words that its process was started with."""
        now = self._clock.now().wall
        news = refusal_news(asker, order, reason, plain(redact(command), WORDS_CHARS_MAX), now)
        topic = Topic((Matter.DECISION,), session_id=asker)
        episode = f"{EPISODE}{asker}/{iso(now)[:_DAY_CHARS]}"
        if await self._alerts.owe(Alert(AlertKind.TROUBLE, episode, text_of(news), topic=topic)):
            log.warning("a decision was refused: %s asked for %s (%s)", asker, order, reason)
