"""The gateway's self-heal: remembers how turns failed, and asks for what `domain.gateway.self_heal` proposes.

Sessions are restarted by whoever owns the pool, through the one gate; this asks and writes down what came of it.
"""

import logging
from collections import deque
from collections.abc import Awaitable, Callable, Collection
from typing import Final, Protocol

from msgspec import Struct
from msgspec.structs import replace

from wakeful.core.clock import Clock
from wakeful.core.errors import WakefulError
from wakeful.core.moment import Instant, iso
from wakeful.gateway.auth_watch import Tell
from wakeful.gateway.host import Host
from wakeful.gateway.rules.errors import Fault
from wakeful.gateway.rules.host_watch import ErrorCounts
from wakeful.gateway.rules.messages import ConversationKey
from wakeful.gateway.rules.self_heal import (
    DEFAULT_LIMITS,
    FAILURES_MAX,
    RUNAWAY_SECONDS,
    Failed,
    HealKind,
    HealLimits,
    Hog,
    Proposal,
    Signals,
    after,
    patterns,
    propose,
)

# What `/session` shows of it.
ACTS_KEPT: Final = 20

log = logging.getLogger("wakeful.gateway.self_heal")


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
        limits: HealLimits = DEFAULT_LIMITS,
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
        log.warning(
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
