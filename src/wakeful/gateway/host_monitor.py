"""Checks the host regularly, runs self-heal, and sends the gateway's alerts to its operator and admins.

The host check only alerts. Self-heal records how turns fail and carries out the proposals of
`gateway/rules/host.py`. It asks the plan before it ends a session, and records each result. Alerts go through
every channel and to every admin; a muted alert counts as not delivered, so callers that retry send it after
the mute.
"""

import logging
from collections import deque
from collections.abc import Awaitable, Callable, Collection, Sequence
from math import inf
from typing import Final, Protocol

from msgspec import Struct
from msgspec.structs import replace

from wakeful.alerts.delivery import Messenger, NotDelivered
from wakeful.alerts.model import AlertCode, Topic, with_pause_line
from wakeful.alerts.mute_pause import MutePause
from wakeful.core.clock import Clock, Instant, iso
from wakeful.core.errors import WakefulError, WorldError
from wakeful.core.process import ProcessState
from wakeful.gateway.ports import Chat, ChatFailed, ChatRefused, Host
from wakeful.gateway.provider_guard import NotifyOperator
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
    HostReading,
    Proposal,
    Signals,
    Told,
    WatchLimits,
    history_after,
    patterns,
    propose,
    wrong_with,
)
from wakeful.gateway.rules.messages import ConversationKey, Place
from wakeful.gateway.rules.turn import Turn
from wakeful.healing.plan import ACTING_STEPS, CaseHistory, HealingRules, Situation, plan
from wakeful.judging.findings import FindingCode, State

# `/session` shows the newest five.
ACTIONS_KEPT_MAX: Final = 20

self_heal_log = logging.getLogger("wakeful.gateway.self_heal")


class SessionPool(Protocol):
    """The owner of the sessions."""

    async def restart(self, key: ConversationKey, *, even_busy: bool = False) -> bool:
        """End the session of a key, unless it is busy and not `even_busy`. False: it was not ended."""

    async def restart_all(self) -> int:
        """Restart the sessions of all keys; returns how many."""

    async def adopt_replacements(self) -> None:
        """Put sessions that a healer started into the places of those they replace."""

    def progressing_keys(self, seconds: float) -> Collection[ConversationKey]:
        """Conversations whose turn had an event within this time."""

    def sessions(self) -> dict[str, ConversationKey]:
        """The keys of the pool, by their sessions."""


class SelfHealAction(Struct, frozen=True):
    """A proposal that was carried out, and its result in words."""

    at: Instant
    proposal: Proposal
    words: str

    @property
    def line(self) -> str:
        """Its time, kind, target, reason and result."""
        what = f"{self.proposal.kind} {self.proposal.target}".strip()
        return f"{iso(self.at.wall)[11:19]} UTC {what} ({self.proposal.reason}): {self.words}"


class SelfHeal:
    """`on_turn_end` gets every turn; the host watch calls `check` in each of its cycles."""

    def __init__(
        self,
        *,
        clock: Clock,
        host: Host,
        pool: SessionPool,
        degrade: Callable[[str], Awaitable[None]],
        notify: NotifyOperator,
        rules: Callable[[], Awaitable[HealingRules]],
        limits: HealLimits = DEFAULT_HEAL_LIMITS,
    ) -> None:
        self._clock = clock
        self._host = host
        self._pool = pool
        self._degrade = degrade
        self._notify = notify
        self._rules = rules
        self._limits = limits
        self._failures: deque[Failed] = deque(maxlen=FAILURES_MAX)
        self._history: dict[str, float] = {}
        self.errors = ErrorCounts()
        self.actions: deque[SelfHealAction] = deque(maxlen=ACTIONS_KEPT_MAX)

    async def on_turn_end(self, turn: Turn, fault: Fault | None, _seconds: float) -> None:
        if fault is not None:
            now = self._clock.now().awake
            self._failures.append(Failed(now, fault.pattern, turn.key, turn.provider))
            self.errors.add(now)

    def patterns(self) -> tuple[tuple[str, int, float], ...]:
        """What failed in the last ten minutes: pattern, how often, and how many seconds ago last."""
        now = self._clock.now().awake
        return tuple((name, count, now - at) for name, count, at in patterns(tuple(self._failures), now))

    async def check(self, memory_percent: float | None, disk_percent: float | None) -> tuple[Proposal, ...]:
        """Carry out the proposals that are due, and return them. Memory is read again after it was collected."""
        await self._pool.adopt_replacements()
        # No `dead` or `silent` sessions: the daemon heals the first, and the turn's listener proposes to revive the others.
        signals = Signals(
            failures=tuple(self._failures),
            memory_percent=memory_percent,
            disk_percent=disk_percent,
            hogs=await self._hogs(),
        )
        proposals = await self._run_proposals(signals)
        if any(each.kind is HealKind.COLLECT_MEMORY for each in proposals):
            reading = await self._host.read()
            proposals += await self._run_proposals(Signals(memory_percent=reading.memory_percent))
        return proposals

    async def _hogs(self) -> tuple[Hog, ...]:
        found = await self._host.hogs(self._pool.sessions(), self._limits.runaway_cpu_percent)
        progressing = self._pool.progressing_keys(RUNAWAY_SECONDS)
        return tuple(replace(each, is_progressing=each.key in progressing) for each in found)

    async def _run_proposals(self, signals: Signals) -> tuple[Proposal, ...]:
        now = self._clock.now().awake
        proposals = propose(signals, self._history, now, self._limits)
        # Before the acts: one that hangs or fails is not tried again at once.
        self._history = history_after(proposals, self._history, now)
        for proposal in proposals:
            await self._carry_out(proposal)
        return proposals

    async def _carry_out(self, proposal: Proposal) -> None:
        try:
            words = await self._execute(proposal)
        except WakefulError as problem:
            words = f"failed: {problem}"
        self_heal_log.warning(
            "self-heal %s target=%s reason=%r: %s", proposal.kind, proposal.target, proposal.reason, words
        )
        self.actions.append(SelfHealAction(self._clock.now(), proposal, words))

    async def _execute(self, proposal: Proposal) -> str:
        if proposal.kind in _PROBLEMS:
            decision = plan(_situation(proposal.kind), CaseHistory(), await self._rules())
            if decision.step not in ACTING_STEPS:
                return f"left alone: {decision.reason}"
        match proposal.kind:
            case HealKind.RESTART_KEY | HealKind.END_RUNAWAY:
                return await self._restart(proposal)
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
                text = f"{proposal.reason}: {proposal.target}. No restart follows."
                return "alert sent" if await self._notify("warning", text) else "alert not sent"

    async def _restart(self, proposal: Proposal) -> str:
        is_runaway = proposal.kind is HealKind.END_RUNAWAY
        if await self._pool.restart(ConversationKey(proposal.target), even_busy=is_runaway):
            return "asked for"
        if is_runaway:
            # The daemon ends nothing that it could not bring back by itself.
            text = f"{proposal.reason}: {proposal.target}. Its process still runs; the gateway's log has the reason."
            await self._notify("warning", text)
        return "no action: it is working or has no session"


# The problem that the plan is asked about, by the kinds that end sessions.
_PROBLEMS: Final = {
    HealKind.RESTART_KEY: FindingCode.TURN_FAILED,
    HealKind.RESTART_ALL: FindingCode.TURN_FAILED,
    HealKind.END_RUNAWAY: FindingCode.RUNAWAY,
}


def _situation(kind: HealKind) -> Situation:
    """Stands for the sessions of a proposal, so that the plan decides by mode and pause alone.

    The daemon judges each session again before it ends one in a turn.
    """
    return Situation(
        code=_PROBLEMS[kind],
        state=State.PROMPTING,
        agent=ProcessState.ALIVE,
        managed=True,
        for_seconds=inf,
        since_progress_seconds=inf,
    )


log = logging.getLogger("wakeful.gateway.host")


class Reachable(Protocol):
    """The call of a chat that shows whether it can be reached."""

    async def me(self) -> str: ...


class HostWatch:
    """`notify` must not depend on Telegram alone: that it cannot be reached is one of the alerts."""

    def __init__(
        self,
        *,
        clock: Clock,
        host: Host,
        chat: Reachable,
        heal: SelfHeal,
        notify: NotifyOperator,
        limits: WatchLimits = DEFAULT_WATCH_LIMITS,
        watch_seconds: float = 60.0,
    ) -> None:
        self._clock = clock
        self._host = host
        self._chat = chat
        self._self_heal = heal
        self._notify = notify
        self._limits = limits
        self._watch_seconds = watch_seconds
        self._cooldowns = Told()
        # The newest one, for `/health`.
        self.reading = HostReading()

    async def run(self) -> None:
        """Check every `watch_seconds`, until cancelled. A failed check is logged, and the next one follows."""
        while True:
            began = self._clock.now().awake
            try:
                await self.check()
            except WakefulError as problem:
                log.warning("the host could not be checked: %s", problem)
            await self._clock.sleep_until(began + self._watch_seconds)

    async def check(self) -> None:
        """One cycle: read, alert, heal."""
        self.reading = await self._read()
        alerts = wrong_with(self.reading, self._limits)
        for alert in self._cooldowns.due(alerts, self._clock.now().awake):
            if await self._notify("warning", alert.text):
                self._cooldowns.delivered(alert, self._clock.now().awake)
        await self._self_heal.check(self.reading.memory_percent, self.reading.disk_percent)

    async def _read(self) -> HostReading:
        rate, mean = self._self_heal.errors.rates(self._clock.now().awake)
        return replace(
            await self._host.read(),
            telegram_reachable=await self._is_reachable(),
            errors_per_minute=rate,
            errors_daily_mean_per_minute=mean,
        )

    async def _is_reachable(self) -> bool:
        """Whether Telegram answers; a refusal is an answer, too."""
        try:
            await self._chat.me()
        except ChatRefused:
            return True
        except ChatFailed:
            return False
        except WakefulError as problem:
            # Telegram answered that the token is not valid, or that another program uses it.
            log.debug("telegram answered: %s", problem)
        return True


admin_log = logging.getLogger("wakeful.gateway")
_TOPIC = Topic((AlertCode.GATEWAY,))


async def reload_mutes(mute_pause: MutePause) -> None:
    """Read mutes and pause again. If the store fails, the known ones stay in force."""
    try:
        await mute_pause.reload()
    except WorldError as problem:
        admin_log.warning("mutes are not readable: %s", problem)


class AdminNotifier:
    def __init__(
        self, mute_pause: MutePause, channels: Sequence[Messenger], chat: Chat, admins: Sequence[int]
    ) -> None:
        self._mute_pause = mute_pause
        self._channels = channels
        self._chat = chat
        self._admins = admins

    async def notify(self, level: str, text: str) -> bool:
        """Whether it arrived anywhere."""
        await reload_mutes(self._mute_pause)
        if self._mute_pause.is_topic_muted(_TOPIC):
            return False
        words, paused = f"{level}: {text}", self._mute_pause.current_pause
        return await self._send(words if paused is None else with_pause_line(words, paused.by))

    async def _send(self, words: str) -> bool:
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
                admin_log.warning("message to admin %d not sent: %s", admin, problem)
        return arrived
