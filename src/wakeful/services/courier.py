"""Carries what is owed through one channel, at its own pace: a channel that hangs or refuses delays no other.

It is woken when something is owed and sleeps until then. What is owed, and what follows from an answer, is the
outbox's business.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import Sequence
from enum import StrEnum
from math import inf
from typing import Final, Protocol

from msgspec import Struct

from wakeful.domain.owed import Owed, backoff_seconds, wait_seconds
from wakeful.faults import reach
from wakeful.ports.clock import Clock
from wakeful.ports.messenger import Messenger, NotDelivered, Refused
from wakeful.services.waiting import told_or_due

# Channels have shorter deadlines of their own; this one holds for those that forget theirs.
SEND_SECONDS_MAX: Final = 30.0

log = logging.getLogger("wakeful.alerts")


class Outbox(Protocol):
    """Where a courier takes from and reports to."""

    @property
    def cooldown_seconds(self) -> float: ...

    def pending(self, channel: str) -> Sequence[Owed]:
        """Everything this channel has yet to tell, in no order that matters."""

    def hushed_seconds(self, episode: Owed) -> float:
        """How long nobody is to hear of it because it is muted; then it is asked again."""

    def worded(self, episode: Owed) -> str:
        """What is to be said of it now."""

    async def begin(self, episode: Owed, channel: str) -> bool:
        """The words are about to leave. False: they must not, for it could not be written down."""

    async def took(self, episode: Owed, channel: str) -> None:
        """The words arrived, or may have."""

    async def refused(self, episode: Owed, channel: str) -> None:
        """The words did not arrive."""


class Delivery(StrEnum):
    """What came of a message: taken, refused and tried again, or gone with nobody knowing where."""

    DELIVERED = "delivered"
    REFUSED = "refused"
    UNCONFIRMED = "unconfirmed"


class Tries(Struct, frozen=True):
    """How often an episode was refused, and when it may be tried again."""

    count: int
    next_awake: float


_UNTRIED: Final = Tries(0, -inf)


class Courier:
    """One channel. `trouble` is what it last failed with, None while it works; `told` counts what came of messages."""

    def __init__(self, messenger: Messenger, outbox: Outbox, clock: Clock) -> None:
        self.name = messenger.name
        self.trouble: str | None = None
        self.told: Counter[Delivery] = Counter()
        self._messenger = messenger
        self._outbox = outbox
        self._clock = clock
        self._failures = 0
        self._closed_until = -inf
        # By episode: one that is refused for its own sake must not hold up the others.
        self._tries: dict[str, Tries] = {}
        self._some = asyncio.Event()

    def wake(self) -> None:
        """Something may be owed."""
        self._some.set()

    async def run(self) -> None:
        """Deliver until cancelled."""
        while True:
            self._some.clear()
            episode, seconds = self._next()
            if episode is not None:
                await self._deliver(episode)
            else:
                due_awake = self._clock.now().awake + seconds if seconds < inf else None
                await told_or_due(self._clock, self._some, due_awake)

    def _next(self) -> tuple[Owed | None, float]:
        """What to tell now, the least tried and oldest first; or how long there is nothing to do."""
        now = self._clock.now()
        pending = self._outbox.pending(self.name)
        keys = {each.alert.episode for each in pending}
        self._tries = {key: tries for key, tries in self._tries.items() if key in keys}
        if not pending or now.awake < self._closed_until:
            return None, self._closed_until - now.awake if pending else inf
        waits = [(self._wait_seconds(each, now.awake, now.wall), each) for each in pending]
        ready = [each for seconds, each in waits if seconds <= 0.0]
        if not ready:
            return None, min(seconds for seconds, _ in waits)
        return min(ready, key=lambda each: (self._tried(each).count, each.owed_at)), 0.0

    def _tried(self, episode: Owed) -> Tries:
        return self._tries.get(episode.alert.episode, _UNTRIED)

    def _wait_seconds(self, episode: Owed, awake: float, wall: float) -> float:
        own = wait_seconds(episode, wall, self._outbox.cooldown_seconds)
        return max(own, self._tried(episode).next_awake - awake, self._outbox.hushed_seconds(episode))

    async def _deliver(self, episode: Owed) -> None:
        if not await self._outbox.begin(episode, self.name):
            self._put_off(episode, 0.0)
            return
        try:
            await self._send(self._outbox.worded(episode), episode.alert.chat)
        except Refused as problem:
            self.told[Delivery.REFUSED] += 1
            self._failed(problem, "alerts wait")
            self._put_off(episode, asked_to_wait_seconds(problem))
            await self._outbox.refused(episode, self.name)
        except NotDelivered as problem:
            self.told[Delivery.UNCONFIRMED] += 1
            # Not said twice. The others wait as after a refusal, or one outage would swallow them all.
            self._failed(problem, "an alert may not have arrived")
            self._close(0.0)
            await self._outbox.took(episode, self.name)
        else:
            reach("alert.sent")
            self.told[Delivery.DELIVERED] += 1
            self._worked()
            await self._outbox.took(episode, self.name)

    async def _send(self, text: str, chat: str | None) -> None:
        """Raises Refused and NotDelivered, at the deadline too."""
        sending = asyncio.ensure_future(self._messenger.send(text, chat=chat))
        timer = asyncio.ensure_future(self._clock.sleep_until(self._clock.now().awake + SEND_SECONDS_MAX))
        try:
            await asyncio.wait({sending, timer}, return_when=asyncio.FIRST_COMPLETED)
            if not sending.done():
                raise NotDelivered(channel=self.name, reason=f"no answer within {SEND_SECONDS_MAX:g} s")
            sending.result()
        finally:
            sending.cancel()
            timer.cancel()

    def _put_off(self, episode: Owed, asked_seconds: float) -> None:
        """Leave the episode alone for as long as it failed, and the channel as long as it did.

        What the other side asks for counts for more than our own pace, in both directions.
        """
        count, now = self._tried(episode).count + 1, self._clock.now().awake
        self._tries[episode.alert.episode] = Tries(count, now + (asked_seconds or backoff_seconds(count)))
        self._close(asked_seconds)

    def _close(self, asked_seconds: float) -> None:
        seconds = asked_seconds or backoff_seconds(max(self._failures, 1))
        self._closed_until = self._clock.now().awake + seconds

    def _failed(self, problem: NotDelivered, so: str) -> None:
        self._failures += 1
        if self.trouble is None:
            log.warning("%s: %s", so, problem)
        self.trouble = str(problem)

    def _worked(self) -> None:
        if self.trouble is not None:
            log.warning("alerts arrive again through %s", self.name)
        self._failures, self.trouble, self._closed_until = 0, None, -inf


def asked_to_wait_seconds(problem: Refused) -> float:
    """What the other side asked for, where it said so."""
    seconds = problem.facts.get("retry_after_seconds", 0.0)
    return float(seconds) if isinstance(seconds, int | float) else 0.0
