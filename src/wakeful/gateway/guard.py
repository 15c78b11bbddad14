"""Who may pass to a provider now: its auth mode first, then its breaker; and what every end of a turn says about it."""

from collections.abc import Mapping

from wakeful.core.clock import Clock
from wakeful.gateway.needs import AuthGate
from wakeful.gateway.rules.breaker import Breaker, Outcome, Thresholds
from wakeful.gateway.rules.errors import AUTH_REQUIRED, Fault
from wakeful.gateway.rules.messages import ConversationKey
from wakeful.judging.wording import length


class Guard:
    """One breaker for each provider, in memory: after a restart every provider is given a new chance."""

    def __init__(self, clock: Clock, auth: AuthGate, thresholds: Mapping[str, Thresholds]) -> None:
        self._clock = clock
        self._auth = auth
        self._breakers = {provider: Breaker(each) for provider, each in thresholds.items()}
        # Conversations of which an answer was rejected since the provider's last good one.
        self._rejected: dict[str, set[ConversationKey]] = {}

    def breaker(self, provider: str) -> Breaker:
        """As it stands now."""
        return self._breakers.get(provider, Breaker()).at(self._clock.now().awake)

    def refusal(self, provider: str) -> str | None:
        """Why nothing is asked of it now, for the user; None: go on, and say `passing`."""
        refused = self._auth.refusal(provider)
        if refused is not None:
            return refused
        now = self._clock.now().awake
        breaker = self.breaker(provider)
        if breaker.may_pass(now):
            return None
        wait_seconds = breaker.wait_seconds(now)
        when = f"in {length(wait_seconds)}" if wait_seconds > 0 else "in a moment"
        return f"The agent failed several times in a row and is left alone for now. Please try again {when}."

    def passing(self, provider: str) -> float:
        """A prompt goes to it now; when that was."""
        now = self._clock.now().awake
        breaker = self.breaker(provider)
        # A turn that an earlier gateway asked for goes on, whatever the breaker says.
        if breaker.may_pass(now):
            self._breakers[provider] = breaker.passing(now)
        return now

    async def ended(
        self,
        key: ConversationKey,
        provider: str,
        since: float,
        fault: Fault | None,
        *,
        stopped: bool = False,
        by_text: bool = False,
    ) -> None:
        """How it went. A turn that its user stopped says nothing about its provider; `by_text`: only its answer says so."""
        outcome = Outcome.NEITHER if stopped else self._outcome(key, provider, fault)
        self._breakers[provider] = self.breaker(provider).after(outcome, self._clock.now().awake, since)
        if fault is not None and fault.pattern == AUTH_REQUIRED:
            await (self._auth.suspected(provider) if by_text else self._auth.failed(provider))
        elif outcome is Outcome.SUCCESS:
            await self._auth.succeeded(provider)

    def _outcome(self, key: ConversationKey, provider: str, fault: Fault | None) -> Outcome:
        """What was rejected for its words counts once for each conversation: nobody can close a provider for the others."""
        rejected = self._rejected.setdefault(provider, set())
        if fault is None:
            rejected.clear()
            return Outcome.SUCCESS
        if not fault.counts_for_breaker or (not fault.of_provider and key in rejected):
            return Outcome.NEITHER
        if not fault.of_provider:
            rejected.add(key)
        return Outcome.FAILURE
