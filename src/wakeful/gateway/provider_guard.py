"""Decides whether a provider may be used now, by its login state and its breakers, and watches the logins.

All learn from the end of every turn. The login watch enters degraded mode, leaves it by itself and alerts
the operator once; the rules are those of `AuthMode`. It restarts nothing.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final

from wakeful.control.login import USER_SENTENCE, WATCH_SECONDS, AuthAlert, AuthEvent, AuthMode, ProviderLogin
from wakeful.core.clock import Clock
from wakeful.core.waiting import wait_for_event_or_deadline
from wakeful.gateway.rules.breaker import Breaker, BreakerState, Outcome, Thresholds
from wakeful.gateway.rules.errors import AUTH_REQUIRED, Fault
from wakeful.gateway.turn_context import AuthGate
from wakeful.judging.wording import format_length


class ProviderGuard:
    """Breakers, in memory: after a restart every provider is given a new chance.

    A provider has one for each chat, which counts the failures there except rejected answers, and one for all chats
    together, which counts a chat once until the provider gives a good answer. So no single chat can close a provider
    to the others.
    """

    def __init__(self, clock: Clock, auth: AuthGate, thresholds: Mapping[str, Thresholds]) -> None:
        self._clock = clock
        self._auth = auth
        self._thresholds = thresholds
        # Those with failures; `None` stands for all chats.
        self._breakers: dict[tuple[str, int | None], Breaker] = {}
        # The chats that the breaker of all chats has counted.
        self._failed_chats: dict[str, set[int]] = {}

    def breaker(self, provider: str, chat_id: int | None = None) -> Breaker:
        """The breaker of one chat, or that of all chats."""
        fresh = Breaker(self._thresholds.get(provider, Thresholds()))
        return self._breakers.get((provider, chat_id), fresh).at(self._clock.now().awake)

    def state(self, provider: str, chat_id: int) -> BreakerState:
        """The state that a message of this chat meets."""
        own, shared = self.breaker(provider, chat_id).state, self.breaker(provider).state
        return own if shared is BreakerState.CLOSED or own is BreakerState.OPEN else shared

    def refusal(self, provider: str, chat_id: int) -> str | None:
        """Why the provider is not asked now, for the user; None: go on, and call `begin_request`."""
        refused = self._auth.refusal(provider)
        if refused is not None:
            return refused
        now = self._clock.now().awake
        breakers = (self.breaker(provider, chat_id), self.breaker(provider))
        if all(each.may_pass(now) for each in breakers):
            return None
        wait_seconds = max(each.wait_seconds(now) for each in breakers)
        when = f"in {format_length(wait_seconds)}" if wait_seconds > 0 else "in a moment"
        return f"The agent failed several times in a row, so requests are on hold. Please try again {when}."

    def begin_request(self, provider: str, chat_id: int) -> float:
        """A prompt goes to the provider now; returns the time for `end_request`."""
        now = self._clock.now().awake
        for chat in (chat_id, None):
            breaker = self.breaker(provider, chat)
            # A turn that an earlier gateway asked for goes on, whatever the breaker says.
            if breaker.may_pass(now):
                self._keep(provider, chat, breaker.passing(now))
        return now

    async def end_request(
        self,
        chat_id: int,
        provider: str,
        since: float,
        fault: Fault | None,
        *,
        stopped: bool = False,
        by_text: bool = False,
    ) -> None:
        """Learn from the end of a request. A turn that its user stopped says nothing about its provider.

        `by_text`: only the text of its answer shows the fault.
        """
        outcome = Outcome.NEITHER if stopped else _outcome(fault)
        self._learn(chat_id, provider, since, outcome, is_of_provider=fault is None or fault.of_provider)
        if fault is not None and fault.pattern == AUTH_REQUIRED:
            await (
                self._auth.on_login_suspected(provider) if by_text else self._auth.on_login_failed(provider)
            )
        elif outcome is Outcome.SUCCESS:
            await self._auth.on_login_succeeded(provider)

    def _learn(
        self, chat_id: int, provider: str, since: float, outcome: Outcome, *, is_of_provider: bool
    ) -> None:
        now = self._clock.now().awake
        # A rejected answer does not hold its own chat back: its user may ask in another way.
        own = outcome if is_of_provider else Outcome.NEITHER
        self._keep(provider, chat_id, self.breaker(provider, chat_id).after(own, now, since))
        failed = self._failed_chats.setdefault(provider, set())
        is_counted = outcome is Outcome.FAILURE and chat_id in failed
        shared = self.breaker(provider).after(Outcome.NEITHER if is_counted else outcome, now, since)
        self._keep(provider, None, shared)
        if outcome is Outcome.SUCCESS or shared.state is BreakerState.OPEN:
            failed.clear()
        elif outcome is Outcome.FAILURE:
            failed.add(chat_id)

    def _keep(self, provider: str, chat_id: int | None, breaker: Breaker) -> None:
        if breaker.state is BreakerState.CLOSED and not breaker.failures:
            self._breakers.pop((provider, chat_id), None)
        else:
            self._breakers[provider, chat_id] = breaker


def _outcome(fault: Fault | None) -> Outcome:
    if fault is None:
        return Outcome.SUCCESS
    return Outcome.FAILURE if fault.counts_for_breaker else Outcome.NEITHER


# Beyond this many undelivered alerts the oldest are outdated by newer ones, and dropped.
PENDING_ALERTS_MAX: Final = 20

log = logging.getLogger("wakeful.gateway.auth")

NotifyOperator = Callable[[str, str], Awaitable[bool]]
"""Sends the operator a text with its level (critical, warning or info). False: it did not arrive."""


class AuthWatch:
    """The login modes of all providers. Implements `AuthGate` for turns."""

    def __init__(
        self,
        clock: Clock,
        logins: Sequence[ProviderLogin],
        notify: NotifyOperator,
        watch_seconds: float = WATCH_SECONDS,
    ) -> None:
        self._clock = clock
        self._logins = {login.provider: login for login in logins}
        self._notify = notify
        self._watch_seconds = watch_seconds
        self._modes = {provider: AuthMode(provider) for provider in self._logins}
        self._credentials = {provider: login.credentials() for provider, login in self._logins.items()}
        self._pending_alerts: list[AuthAlert] = []
        self._send_lock = asyncio.Lock()
        self._wake = asyncio.Event()

    @property
    def providers(self) -> tuple[str, ...]:
        return tuple(self._logins)

    def mode(self, provider: str) -> AuthMode:
        return self._modes.get(provider, AuthMode(provider))

    def refusal(self, provider: str) -> str | None:
        """The text that the user gets at once instead of an answer; None while its login is good."""
        return USER_SENTENCE if self.mode(provider).is_degraded else None

    async def on_login_failed(self, provider: str) -> None:
        """A turn ended for want of a login."""
        await self._on_auth_event(provider, AuthEvent.TURN_REFUSED)

    async def on_login_succeeded(self, provider: str) -> None:
        await self._on_auth_event(provider, AuthEvent.TURN_WORKED)

    async def on_login_suspected(self, provider: str) -> None:
        """An answer reads like a login prompt, although its turn ended well. A probe decides, soon."""
        await self._on_auth_event(provider, AuthEvent.TEXT_SUSPECTED)

    async def run(self) -> None:
        """Check at once, then every `watch_seconds` and when a probe is due, until cancelled."""
        while True:
            began = self._clock.now().awake
            await self.check()
            await self._wait(began + self._watch_seconds)

    async def check(self) -> None:
        """Ask every provider's status, see whether its credentials changed, and probe where that is due."""
        await asyncio.gather(*(self._check_login(login) for login in self._logins.values()))
        await self._send_pending()

    async def _check_login(self, login: ProviderLogin) -> None:
        await self._on_auth_event(login.provider, await login.status())
        credentials = login.credentials()
        if credentials != self._credentials[login.provider]:
            self._credentials[login.provider] = credentials
            await self._on_auth_event(login.provider, AuthEvent.CREDENTIALS_CHANGED)
        await self._probe_if_due(login)

    async def _probe_if_due(self, login: ProviderLogin) -> None:
        mode, now = self._modes[login.provider], self._clock.now().awake
        if mode.next_probe_at is None or mode.next_probe_at > now:
            return
        self._modes[login.provider] = mode.probing(now)
        event = await login.probe()
        log.info("a probe turn of %s: %s", login.provider, event)
        await self._on_auth_event(login.provider, event)

    async def _on_auth_event(self, provider: str, event: AuthEvent) -> None:
        now, before = self._clock.now().awake, self.mode(provider)
        mode, alert = before.after(event, now)
        self._modes[provider] = mode
        if before.doubted_at is None and mode.doubted_at is not None and (mode.next_probe_at or now) <= now:
            self._wake.set()
        if alert is not None:
            log.warning("%s: %s", provider, alert.text)
            self._pending_alerts = [*self._pending_alerts[1 - PENDING_ALERTS_MAX :], alert]
            await self._send_pending()

    async def _send_pending(self) -> None:
        """Send the pending alerts, in order. One that does not arrive is sent again by the next check."""
        # An alert that is being delivered is not repeated.
        async with self._send_lock:
            while self._pending_alerts:
                alert = self._pending_alerts[0]
                if not await self._notify(alert.level, alert.text):
                    return
                self._pending_alerts = [each for each in self._pending_alerts if each is not alert]

    async def _wait(self, until: float) -> None:
        """Wait for the next check; less if a probe is due before, or a login is suspected."""
        probes = (mode.next_probe_at for mode in self._modes.values())
        due_at = min((each for each in probes if each is not None), default=until)
        await wait_for_event_or_deadline(self._clock, self._wake, min(until, due_at))
        self._wake.clear()
