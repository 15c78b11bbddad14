"""Interface of alert channels, and the delivery of queued alerts through one channel.

Each channel has its own deadline, reports whether the message arrived, and has its own pace: one that hangs
or refuses delays no other. Delivery sleeps until something is queued. The outbox decides what is queued and
what an answer means for it.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import Sequence
from enum import StrEnum
from math import inf
from typing import Final, Protocol

from msgspec import Struct

from wakeful.alerts.digest import kind_of, new_budgets
from wakeful.alerts.pending import PendingAlert, backoff_seconds, wait_seconds
from wakeful.core.clock import Clock
from wakeful.core.errors import WorldError
from wakeful.core.fault_points import fault_point
from wakeful.core.waiting import wait_for_event_or_deadline


class NotDelivered(WorldError):
    """{channel} did not accept the message: {reason}."""

    code = "not-delivered"


class Refused(NotDelivered):
    """{channel} refused the message: {reason}."""

    # Definite: the message did not arrive, so sending it again cannot duplicate it.
    code = "message-refused"


class Messenger(Protocol):
    """One channel. `name` is its name for people: telegram, desktop, or the kind of an apprise address."""

    name: str

    async def send(self, text: str, *, chat: str | None = None) -> None:
        """Send to this chat, or to the recipient of the channel.

        Raises Refused if it certainly did not arrive, NotDelivered if that is unknown. Has a deadline.
        """

    async def close(self) -> None:
        """Close its connections."""


# Channels have shorter deadlines of their own; this one limits channels without.
SEND_SECONDS_MAX: Final = 30.0

log = logging.getLogger("wakeful.alerts")


class DeliveryQueue(Protocol):
    """The source of the alerts of a delivery, and the receiver of its results."""

    @property
    def cooldown_seconds(self) -> float: ...

    def pending(self, channel: str) -> Sequence[PendingAlert]:
        """All alerts that this channel has to send, in any order."""

    def muted_seconds(self, alert: PendingAlert) -> float:
        """How long it stays muted; ask again after that."""

    def message_text(self, episodes: Sequence[PendingAlert]) -> str:
        """The current text about them, as one message."""

    async def begin_delivery(self, episodes: Sequence[PendingAlert], channel: str) -> bool:
        """Record that the message is about to be sent. False: that could not be stored, and it must not be sent."""

    async def on_delivered(self, episodes: Sequence[PendingAlert], channel: str) -> None:
        """The message arrived, or may have."""

    async def on_refused(self, episodes: Sequence[PendingAlert], channel: str) -> None:
        """The message did not arrive."""


class DeliveryOutcome(StrEnum):
    """The result of a message: delivered, refused and tried again, or unknown and not tried again."""

    DELIVERED = "delivered"
    REFUSED = "refused"
    UNCONFIRMED = "unconfirmed"


class RetryState(Struct, frozen=True):
    """How often an episode was refused, and when it is tried again."""

    count: int
    next_awake: float


_UNTRIED: Final = RetryState(0, -inf)


class ChannelDelivery:
    """Delivers through one channel. `problem` is its last failure, None while it works."""

    def __init__(self, messenger: Messenger, outbox: DeliveryQueue, clock: Clock) -> None:
        self.name = messenger.name
        self.problem: str | None = None
        self.outcome_counts: Counter[DeliveryOutcome] = Counter()
        self._messenger = messenger
        self._outbox = outbox
        self._clock = clock
        self._failures = 0
        self._paused_until = -inf
        self._budgets = new_budgets()
        # By episode: an alert that is refused for its content must not delay the others.
        self._retries: dict[str, RetryState] = {}
        self._wakeup = asyncio.Event()
        self._is_stopped = False

    def stop(self) -> None:
        """End `run` after the message that is being sent."""
        self._is_stopped = True
        self.wake()

    def wake(self) -> None:
        """New alerts may be pending."""
        self._wakeup.set()

    async def run(self) -> None:
        """Deliver until stopped or cancelled."""
        while not self._is_stopped:
            self._wakeup.clear()
            episodes, seconds = self._next()
            if episodes:
                await self._deliver(episodes)
            else:
                due_awake = self._clock.now().awake + seconds if seconds < inf else None
                await wait_for_event_or_deadline(self._clock, self._wakeup, due_awake)

    def _next(self) -> tuple[list[PendingAlert], float]:
        """The alerts of the next message, least tried and oldest first; or how long there is nothing to do."""
        now = self._clock.now()
        pending = self._outbox.pending(self.name)
        keys = {each.alert.episode for each in pending}
        self._retries = {key: state for key, state in self._retries.items() if key in keys}
        if not pending or now.awake < self._paused_until:
            return [], self._paused_until - now.awake if pending else inf
        waits = [(self._wait_seconds(each, now.awake, now.wall), each) for each in pending]
        ready = [each for seconds, each in waits if seconds <= 0.0]
        ready.sort(key=lambda each: (self._retry_state(each).count, each.owed_at))
        chosen, seconds = self._choose(ready, now.awake)
        return chosen, min([seconds, *(seconds for seconds, _ in waits if seconds > 0.0)])

    def _choose(self, ready: list[PendingAlert], awake: float) -> tuple[list[PendingAlert], float]:
        """One alert, or many of a kind if their budget allows no message for each; or how long to wait."""
        # A message to a user's chat has no budget.
        for each in ready:
            if each.alert.chat is not None:
                return [each], 0.0
        wait_seconds = inf
        for kind, budget in self._budgets.items():
            alike = [each for each in ready if kind_of(each) == kind]
            if not alike:
                continue
            is_digest, seconds = budget.wait_seconds(len(alike), awake)
            if seconds <= 0.0:
                return (alike if is_digest else alike[:1]), 0.0
            wait_seconds = min(wait_seconds, seconds)
        return [], wait_seconds

    def _retry_state(self, alert: PendingAlert) -> RetryState:
        return self._retries.get(alert.alert.episode, _UNTRIED)

    def _wait_seconds(self, alert: PendingAlert, awake: float, wall: float) -> float:
        own = wait_seconds(alert, wall, self._outbox.cooldown_seconds)
        return max(own, self._retry_state(alert).next_awake - awake, self._outbox.muted_seconds(alert))

    async def _deliver(self, episodes: list[PendingAlert]) -> None:
        if not await self._outbox.begin_delivery(episodes, self.name):
            self._postpone(episodes, 0.0)
            return
        try:
            await self._send(self._outbox.message_text(episodes), episodes[0].alert.chat)
        except Refused as problem:
            self.outcome_counts[DeliveryOutcome.REFUSED] += 1
            self._on_failure(problem, "alerts wait")
            self._postpone(episodes, retry_after_seconds(problem))
            await self._outbox.on_refused(episodes, self.name)
        except NotDelivered as problem:
            self.outcome_counts[DeliveryOutcome.UNCONFIRMED] += 1
            # It is not sent again. The other alerts wait as after a refusal, or one outage would lose them all.
            self._on_failure(problem, "an alert may not have arrived")
            self._pause_channel(0.0)
            await self._on_sent(episodes)
        else:
            fault_point("alert.sent")
            self.outcome_counts[DeliveryOutcome.DELIVERED] += 1
            self._on_success()
            await self._on_sent(episodes)

    async def _on_sent(self, episodes: list[PendingAlert]) -> None:
        if episodes[0].alert.chat is None:
            budget = self._budgets[kind_of(episodes[0])]
            budget.on_sent(self._clock.now().awake, digest=len(episodes) > 1)
        await self._outbox.on_delivered(episodes, self.name)

    async def _send(self, text: str, chat: str | None) -> None:
        """Raises Refused and NotDelivered, also at the deadline."""
        sending = asyncio.ensure_future(self._messenger.send(text, chat=chat))
        timer = asyncio.ensure_future(self._clock.sleep(SEND_SECONDS_MAX))
        try:
            await asyncio.wait({sending, timer}, return_when=asyncio.FIRST_COMPLETED)
            if not sending.done():
                raise NotDelivered(channel=self.name, reason=f"no answer within {SEND_SECONDS_MAX:g} s")
            sending.result()
        finally:
            sending.cancel()
            timer.cancel()

    def _postpone(self, episodes: Sequence[PendingAlert], asked_seconds: float) -> None:
        """Delay the episodes by their own failures, and the channel by its failures.

        A delay that the other side requests replaces Wakeful's own, longer or shorter.
        """
        now = self._clock.now().awake
        for alert in episodes:
            count = self._retry_state(alert).count + 1
            self._retries[alert.alert.episode] = RetryState(
                count, now + (asked_seconds or backoff_seconds(count))
            )
        self._pause_channel(asked_seconds)

    def _pause_channel(self, asked_seconds: float) -> None:
        seconds = asked_seconds or backoff_seconds(max(self._failures, 1))
        self._paused_until = self._clock.now().awake + seconds

    def _on_failure(self, problem: NotDelivered, consequence: str) -> None:
        self._failures += 1
        if self.problem is None:
            log.warning("%s: %s", consequence, problem)
        self.problem = str(problem)

    def _on_success(self) -> None:
        if self.problem is not None:
            log.warning("alerts arrive again through %s", self.name)
        self._failures, self.problem, self._paused_until = 0, None, -inf


def retry_after_seconds(problem: Refused) -> float:
    """The delay that the other side requested; 0 if none."""
    seconds = problem.facts.get("retry_after_seconds", 0.0)
    return float(seconds) if isinstance(seconds, int | float) else 0.0
