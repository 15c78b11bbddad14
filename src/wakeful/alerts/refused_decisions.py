"""Raises an alert if an agent or an unidentified process asks for a decision: one a day for each of them."""

import logging
from typing import Final

from wakeful.alerts.model import AlertCode, Topic, refused_decision_alert
from wakeful.alerts.notifier import Notifier
from wakeful.core.clock import Clock, iso
from wakeful.core.redaction import redact
from wakeful.core.text import plain

EPISODE_PREFIX: Final = "decision/"
COMMAND_CHARS_MAX: Final = 160
_DAY_CHARS: Final = len("2027-01-15")

log = logging.getLogger("wakeful")


class RefusedDecisions:
    def __init__(self, notifier: Notifier, clock: Clock) -> None:
        self._notifier = notifier
        self._clock = clock

    async def notify(self, asker: str, order: str, reason: str, command: str) -> None:
        """`asker` is a session or a description of the process; `command` is the command line of the process."""
        now = self._clock.now().wall
        body = refused_decision_alert(asker, order, reason, plain(redact(command), COMMAND_CHARS_MAX), now)
        topic = Topic((AlertCode.DECISION,), session_id=asker)
        episode = f"{EPISODE_PREFIX}{asker}/{iso(now)[:_DAY_CHARS]}"
        if await self._notifier.raise_alert(episode, body, topic):
            log.warning("a decision was refused: %s asked for %s (%s)", asker, order, reason)
