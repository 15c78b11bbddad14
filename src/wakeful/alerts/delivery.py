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
from wakeful.alerts.pending import Owed, backoff_seconds, wait_seconds
from wakeful.core.clock import Clock
from wakeful.core.errors import WorldError
from wakeful.core.fault_points import reach
from wakeful.core.waiting import told_or_due


class NotDelivered(WorldError):
    """{channel} did not take the message: {reason}."""

    code = "not-delivered"


class Refused(NotDelivered):
    """{channel} refused the message: {reason}."""

    # Definite: the message is not there, so sending it again cannot tell anybody twice.
    code = "message-refused"


class Messenger(Protocol):
    """One way. `name` is how people know it: telegram, desktop, or the kind of an apprise address."""

    name: str

    async def send(self, text: str, *, chat: str | None = None) -> None:
        """Say it: to this chat, or to whom the channel was set up for.

        Raises Refused when it surely did not arrive, NotDelivered when nobody knows. Never waits for ever.
        """

    async def close(self) -> None:
        """Let go of what it holds open."""


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

    def worded(self, episodes: Sequence[Owed]) -> str:
        """What is to be said of them now, in one message."""

    async def begin(self, episodes: Sequence[Owed], channel: str) -> bool:
        """The words are about to leave. False: they must not, for it could not be written down."""

    async def took(self, episodes: Sequence[Owed], channel: str) -> None:
        """The words arrived, or may have."""

    async def refused(self, episodes: Sequence[Owed], channel: str) -> None:
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
        self._budgets = new_budgets()
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
            episodes, seconds = self._next()
            if episodes:
                await self._deliver(episodes)
            else:
                due_awake = self._clock.now().awake + seconds if seconds < inf else None
                await told_or_due(self._clock, self._some, due_awake)

    def _next(self) -> tuple[list[Owed], float]:
        """What one message tells now, the least tried and oldest first; or how long there is nothing to do."""
        now = self._clock.now()
        pending = self._outbox.pending(self.name)
        keys = {each.alert.episode for each in pending}
        self._tries = {key: tries for key, tries in self._tries.items() if key in keys}
        if not pending or now.awake < self._closed_until:
            return [], self._closed_until - now.awake if pending else inf
        waits = [(self._wait_seconds(each, now.awake, now.wall), each) for each in pending]
        ready = [each for seconds, each in waits if seconds <= 0.0]
        ready.sort(key=lambda each: (self._tried(each).count, each.owed_at))
        chosen, seconds = self._chosen(ready, now.awake)
        return chosen, min([seconds, *(seconds for seconds, _ in waits if seconds > 0.0)])

    def _chosen(self, ready: list[Owed], awake: float) -> tuple[list[Owed], float]:
        """One of them, or many of a kind where their budget allows no message for each; or how long to wait."""
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

    def _tried(self, episode: Owed) -> Tries:
        return self._tries.get(episode.alert.episode, _UNTRIED)

    def _wait_seconds(self, episode: Owed, awake: float, wall: float) -> float:
        own = wait_seconds(episode, wall, self._outbox.cooldown_seconds)
        return max(own, self._tried(episode).next_awake - awake, self._outbox.hushed_seconds(episode))

    async def _deliver(self, episodes: list[Owed]) -> None:
        if not await self._outbox.begin(episodes, self.name):
            self._put_off(episodes, 0.0)
            return
        try:
            await self._send(self._outbox.worded(episodes), episodes[0].alert.chat)
        except Refused as problem:
            self.told[Delivery.REFUSED] += 1
            self._failed(problem, "alerts wait")
            self._put_off(episodes, asked_to_wait_seconds(problem))
            await self._outbox.refused(episodes, self.name)
        except NotDelivered as problem:
            self.told[Delivery.UNCONFIRMED] += 1
            # Not said twice. The others wait as after a refusal, or one outage would swallow them all.
            self._failed(problem, "an alert may not have arrived")
            self._close(0.0)
            await self._left(episodes)
        else:
            reach("alert.sent")
            self.told[Delivery.DELIVERED] += 1
            self._worked()
            await self._left(episodes)

    async def _left(self, episodes: list[Owed]) -> None:
        """The words are gone, and their budget is charged."""
        if episodes[0].alert.chat is None:
            budget = self._budgets[kind_of(episodes[0])]
            budget.sent(self._clock.now().awake, digest=len(episodes) > 1)
        await self._outbox.took(episodes, self.name)

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

    def _put_off(self, episodes: Sequence[Owed], asked_seconds: float) -> None:
        """Leave the episodes alone for as long as they failed, and the channel as long as it did.

        What the other side asks for counts for more than our own pace, in both directions.
        """
        now = self._clock.now().awake
        for episode in episodes:
            count = self._tried(episode).count + 1
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
