"""Checks the host every minute, runs self-heal, and sends the gateway's alerts to its operator and admins.

The host check only alerts. Self-heal records how turns fail and carries out the proposals of
`gateway/rules/host.py`; sessions are restarted through the pool and the action gate, and each result is
recorded. Alerts go through every channel and to every admin; a muted alert counts as not delivered, so
callers that retry send it after the mute.
"""

import logging
from collections import deque
from collections.abc import Awaitable, Callable, Collection, Sequence
from typing import Final, Protocol

from msgspec import Struct
from msgspec.structs import replace

from wakeful.alerts.delivery import Messenger, NotDelivered
from wakeful.alerts.model import Matter, Topic, prefaced
from wakeful.alerts.mute_pause import Calm
from wakeful.core.clock import Clock, Instant, iso
from wakeful.core.errors import WakefulError, WorldError
from wakeful.gateway.ports import Chat, ChatFailed, ChatRefused, Host
from wakeful.gateway.provider_guard import Tell
from wakeful.gateway.rules.errors import Fault
from wakeful.gateway.rules.host import (
    DEFAULT_HEAL_LIMITS,
    DEFAULT_WATCH_LIMITS,
    FAILURES_MAX,
    RUNAWAY_SECONDS,
    ErrorCounts,
    Failed,
    HealKind,
    HealLimits,
    Hog,
    HostAlert,
    HostReading,
    Proposal,
    Signals,
    Told,
    WatchLimits,
    after,
    patterns,
    propose,
    wrong_with,
)
from wakeful.gateway.rules.messages import ConversationKey, Place

# What `/session` shows of it.
ACTS_KEPT: Final = 20

self_heal_log = logging.getLogger("wakeful.gateway.self_heal")


class TurnSeen(Protocol):
    """As much of a turn as is remembered of it."""

    @property
    def key(self) -> ConversationKey: ...

    @property
    def provider(self) -> str: ...


class Pooled(Protocol):
    """Whoever has the sessions. Each goes through the gate; False or 0: it refused, or there was nothing to do."""

    async def restart(self, key: ConversationKey, *, even_busy: bool = False) -> bool:
        """One that is at work is left alone, unless `even_busy`."""

    async def restart_all(self) -> int: ...

    async def take_heirs(self) -> None:
        """Those that a healer began anew have the places of those they replaced."""

    def progressing(self, seconds: float) -> Collection[ConversationKey]:
        """Conversations of whose turn something was heard in this time."""

    def sessions(self) -> dict[str, ConversationKey]:
        """The sessions of the pool, and whose each is."""


class Healed(Struct, frozen=True):
    """Something that was asked for, and what came of it."""

    at: Instant
    proposal: Proposal
    words: str

    @property
    def line(self) -> str:
        """When, what, for whom, why, and what came of it."""
        what = f"{self.proposal.kind} {self.proposal.target}".strip()
        return f"{iso(self.at.wall)[11:19]} UTC {what} ({self.proposal.reason}): {self.words}"


class SelfHeal:
    """`ended` hears of every turn; `look` runs after the host watch, in the same cycle."""

    def __init__(
        self,
        *,
        clock: Clock,
        host: Host,
        pool: Pooled,
        degrade: Callable[[str], Awaitable[None]],
        tell: Tell,
        limits: HealLimits = DEFAULT_HEAL_LIMITS,
    ) -> None:
        self._clock = clock
        self._host = host
        self._pool = pool
        self._degrade = degrade
        self._tell = tell
        self._limits = limits
        self._failures: deque[Failed] = deque(maxlen=FAILURES_MAX)
        self._history: dict[str, float] = {}
        self.errors = ErrorCounts()
        self.acts: deque[Healed] = deque(maxlen=ACTS_KEPT)

    async def ended(self, turn: TurnSeen, fault: Fault | None, _seconds: float) -> None:
        """How a turn went."""
        if fault is not None:
            now = self._clock.now().awake
            self._failures.append(Failed(now, fault.pattern, turn.key, turn.provider))
            self.errors.add(now)

    def patterns(self) -> tuple[tuple[str, int, float], ...]:
        """What failed in the last ten minutes: pattern, how often, and how many seconds ago last."""
        now = self._clock.now().awake
        return tuple((name, count, now - at) for name, count, at in patterns(tuple(self._failures), now))

    async def look(self, memory_percent: float | None, disk_percent: float | None) -> tuple[Proposal, ...]:
        """Ask for whatever should be done now; memory is looked at again once it was collected."""
        await self._pool.take_heirs()
        # Who dies or falls silent in a turn is proposed for revival by whoever hears that turn, without waiting for us.
        signals = Signals(
            failures=tuple(self._failures),
            memory_percent=memory_percent,
            disk_percent=disk_percent,
            hogs=await self._hogs(),
        )
        asked = await self._ask(signals)
        if any(each.kind is HealKind.COLLECT_MEMORY for each in asked):
            again = await self._host.reading()
            asked += await self._ask(replace(Signals(), memory_percent=again.memory_percent))
        return asked

    async def _hogs(self) -> tuple[Hog, ...]:
        found = await self._host.hogs(self._pool.sessions(), self._limits.runaway_cpu_percent)
        progressing = self._pool.progressing(RUNAWAY_SECONDS)
        return tuple(replace(each, is_progressing=each.key in progressing) for each in found)

    async def _ask(self, signals: Signals) -> tuple[Proposal, ...]:
        now = self._clock.now().awake
        proposals = propose(signals, self._history, now, self._limits)
        # Before the acts: one that hangs or fails has had its turn, and is not tried again at once.
        self._history = after(proposals, self._history, now)
        for proposal in proposals:
            await self._carry_out(proposal)
        return proposals

    async def _carry_out(self, proposal: Proposal) -> None:
        try:
            words = await self._act(proposal)
        except WakefulError as problem:
            words = f"failed: {problem}"
        self_heal_log.warning(
            "self-heal %s target=%s reason=%r: %s", proposal.kind, proposal.target, proposal.reason, words
        )
        self.acts.append(Healed(self._clock.now(), proposal, words))

    async def _act(self, proposal: Proposal) -> str:
        match proposal.kind:
            case HealKind.RESTART_KEY | HealKind.END_RUNAWAY:
                even_busy = proposal.kind is HealKind.END_RUNAWAY
                done = await self._pool.restart(ConversationKey(proposal.target), even_busy=even_busy)
                return "asked for" if done else "left alone: it is at work, or has no session"
            case HealKind.RESTART_ALL:
                return f"{await self._pool.restart_all()} asked for"
            case HealKind.COLLECT_MEMORY:
                await self._host.collect_memory()
                return "collected"
            case HealKind.CLEAN_FILES:
                return f"{await self._host.clean_files()} files removed"
            case HealKind.DEGRADE_AUTH:
                await self._degrade(proposal.target)
                return "login doubted"
            case HealKind.ALERT:
                text = f"{proposal.reason}: {proposal.target}. Nothing is restarted for it."
                return "told" if await self._tell("warning", text) else "could not be told"


log = logging.getLogger("wakeful.gateway.host")


class Reachable(Protocol):
    """As much of a chat as says whether it is there."""

    async def me(self) -> str: ...


class HostWatch:
    """`tell` must not depend on Telegram alone: that it cannot be reached is one of the alerts."""

    def __init__(
        self,
        *,
        clock: Clock,
        host: Host,
        chat: Reachable,
        heal: SelfHeal,
        tell: Tell,
        limits: WatchLimits = DEFAULT_WATCH_LIMITS,
        watch_seconds: float = 60.0,
    ) -> None:
        self._clock = clock
        self._host = host
        self._chat = chat
        self._heal = heal
        self._tell = tell
        self._limits = limits
        self._watch_seconds = watch_seconds
        self._told = Told()
        # The newest look: `/health` shows both.
        self.reading = HostReading()
        self.wrong: tuple[HostAlert, ...] = ()

    async def run(self) -> None:
        """Look every minute, until cancelled. A look that failed is said, and the next one comes."""
        while True:
            began = self._clock.now().awake
            try:
                await self.look()
            except WakefulError as problem:
                log.warning("the host could not be looked at: %s", problem)
            await self._clock.sleep_until(began + self._watch_seconds)

    async def look(self) -> None:
        """One cycle: read, tell, heal."""
        self.reading = await self._read()
        self.wrong = wrong_with(self.reading, self._limits)
        for alert in self._told.due(self.wrong, self._clock.now().awake):
            if await self._tell("warning", alert.text):
                self._told.delivered(alert, self._clock.now().awake)
        await self._heal.look(self.reading.memory_percent, self.reading.disk_percent)

    async def _read(self) -> HostReading:
        rate, mean = self._heal.errors.rates(self._clock.now().awake)
        return replace(
            await self._host.reading(),
            telegram_reachable=await self._is_reachable(),
            errors_per_minute=rate,
            errors_daily_mean_per_minute=mean,
        )

    async def _is_reachable(self) -> bool:
        """Whether Telegram answers at all; also a refusal is an answer."""
        try:
            await self._chat.me()
        except ChatRefused:
            return True
        except ChatFailed:
            return False
        except WakefulError as problem:
            # The bot is locked, or read by somebody else: it answered, and others tell of that.
            log.debug("telegram answered: %s", problem)
        return True


admin_log = logging.getLogger("wakeful.gateway")
_ABOUT = Topic((Matter.GATEWAY,))


class AdminVoice:
    """Whoever tells again what did not arrive tells it once the mute has ended, if it still lasts."""

    def __init__(self, calm: Calm, channels: Sequence[Messenger], chat: Chat, admins: Sequence[int]) -> None:
        self._calm = calm
        self._channels = channels
        self._chat = chat
        self._admins = admins

    async def tell(self, level: str, text: str) -> bool:
        """Whether it arrived anywhere."""
        try:
            await self._calm.current()
        except WorldError as problem:
            admin_log.warning("what is muted is not known: %s", problem)
        if self._calm.hushes(_ABOUT):
            return False
        words, paused = f"{level}: {text}", self._calm.paused
        return await self._said(words if paused is None else prefaced(words, paused.by))

    async def _said(self, words: str) -> bool:
        arrived = False
        for channel in self._channels:
            try:
                await channel.send(words)
                arrived = True
            except NotDelivered as problem:
                admin_log.warning("%s", problem)
        for admin in self._admins:
            try:
                await self._chat.send(Place(admin, is_private=True), words)
                arrived = True
            except ChatFailed as problem:
                admin_log.warning("admin %d was not told: %s", admin, problem)
        return arrived
