"""Login state of a provider: degraded mode, the interface to its checks, and login errors in texts.

The rules are pure; times are seconds of any clock that never goes back. A status command does not ask the
server: it can show that credentials are missing, never that they are valid. So after a refused turn, only a
successful turn makes the login good again, or new credentials after a status without any. Codex's status does
not even show missing credentials, because another provider may need none.

A login error is a short text only. Sure: a sentence that only a client writes, at the beginning. Likely: an
error about credentials, which is a reason for a check and nothing more. A real answer about logins is longer,
or does not begin like an error.
"""

import re
from collections.abc import Mapping
from enum import StrEnum
from typing import Final, Protocol

from msgspec import Struct
from msgspec.structs import replace

from wakeful.judging.outage import says_network

# How often logins are checked. A status command costs half a second.
WATCH_SECONDS: Final = 60.0
# One probe turn in this time at most; it is a call of the model.
PROBE_SECONDS: Final = 300.0
# The answer to chat users, without the client's message.
USER_SENTENCE: Final = "The agent is not available: its login has to be renewed. The operator has been told."


class AuthEvent(StrEnum):
    """A fact about the login of a provider."""

    STATUS_GOOD = "status_good"
    STATUS_GONE = "status_gone"
    STATUS_UNKNOWN = "status_unknown"
    TURN_REFUSED = "turn_refused"
    TURN_WORKED = "turn_worked"
    PROBE_REFUSED = "probe_refused"
    # The answer of a successful turn reads like a login error. Any user can have a model write that.
    TEXT_SUSPECTED = "text_suspected"
    CREDENTIALS_CHANGED = "credentials_changed"


class AuthState(StrEnum):
    """The login of a provider: good, or degraded by its status or by a refused turn."""

    GOOD = "good"
    LOGGED_OUT = "logged_out"
    REFUSED = "refused"


class AuthLevel(StrEnum):
    """The level of an alert about a login."""

    CRITICAL = "critical"
    INFO = "info"


class AuthAlert(Struct, frozen=True):
    """An alert to the operator: degraded mode has begun or ended."""

    level: AuthLevel
    text: str


_Transitions = Mapping[tuple[AuthState, AuthEvent], AuthState]
# A pair that is missing changes nothing.
_COMMON_TRANSITIONS: Final[_Transitions] = {
    (AuthState.GOOD, AuthEvent.TURN_REFUSED): AuthState.REFUSED,
    (AuthState.GOOD, AuthEvent.PROBE_REFUSED): AuthState.REFUSED,
    (AuthState.REFUSED, AuthEvent.TURN_WORKED): AuthState.GOOD,
}
AUTH_TRANSITIONS: Final[Mapping[str, _Transitions]] = {
    "claude": {
        **_COMMON_TRANSITIONS,
        (AuthState.GOOD, AuthEvent.STATUS_GONE): AuthState.LOGGED_OUT,
        # Credentials that were removed and come back are new ones.
        (AuthState.REFUSED, AuthEvent.STATUS_GONE): AuthState.LOGGED_OUT,
        (AuthState.LOGGED_OUT, AuthEvent.STATUS_GOOD): AuthState.GOOD,
        (AuthState.LOGGED_OUT, AuthEvent.TURN_WORKED): AuthState.GOOD,
    },
    "codex": _COMMON_TRANSITIONS,
}
LOGIN_COMMANDS: Final[Mapping[str, str]] = {"claude": "claude auth login", "codex": "codex login"}


class AuthMode(Struct, frozen=True):
    """The known state of one provider's login."""

    provider: str
    state: AuthState = AuthState.GOOD
    since: float | None = None
    probed_at: float | None = None
    # Since when a probe is wanted at once.
    doubted_at: float | None = None

    @property
    def is_degraded(self) -> bool:
        """Whether messages are refused at once."""
        return self.state is not AuthState.GOOD

    def after(self, event: AuthEvent, now: float) -> tuple["AuthMode", AuthAlert | None]:
        """The mode after this event, and the alert about the change."""
        # The status of an unknown provider is not trusted.
        transitions = AUTH_TRANSITIONS.get(self.provider, _COMMON_TRANSITIONS)
        state = transitions.get((self.state, event), self.state)
        changed = self
        if state is not self.state:
            since = None if state is AuthState.GOOD else self.since or now
            changed = AuthMode(self.provider, state, since, self.probed_at)
        if event is _PROBE_TRIGGERS.get(changed.state) and changed.doubted_at is None:
            changed = replace(changed, doubted_at=now)
        return changed, _alert(self, changed)

    def probing(self, now: float) -> "AuthMode":
        return replace(self, probed_at=now, doubted_at=None)

    @property
    def next_probe_at(self) -> float | None:
        """When a probe turn is due; None: none is needed. Two probes are five minutes apart or more."""
        wanted_at = self.doubted_at
        if wanted_at is None and self.state is AuthState.REFUSED and self.since is not None:
            wanted_at = self.since + PROBE_SECONDS
        if wanted_at is None or self.probed_at is None:
            return wanted_at
        return max(wanted_at, self.probed_at + PROBE_SECONDS)


# The events after which a probe is wanted at once: a refused login may be new, a good one may be gone.
_PROBE_TRIGGERS: Final = {
    AuthState.REFUSED: AuthEvent.CREDENTIALS_CHANGED,
    AuthState.GOOD: AuthEvent.TEXT_SUSPECTED,
}


def _alert(before: AuthMode, after: AuthMode) -> AuthAlert | None:
    if before.is_degraded == after.is_degraded:
        return None
    name = after.provider
    if not after.is_degraded:
        return AuthAlert(AuthLevel.INFO, f"The login of {name} works again; messages are answered again.")
    why = "a turn was refused" if after.state is AuthState.REFUSED else "its own status says so"
    how = LOGIN_COMMANDS.get(name, f"log {name} in")
    text = f"The login of {name} is gone ({why}); no process is started. On the host: {how}"
    return AuthAlert(AuthLevel.CRITICAL, text)


class ProviderLogin(Protocol):
    """Checks of one provider's login. Every call has its own deadline and never raises: the result may be unknown."""

    provider: str

    async def status(self) -> AuthEvent:
        """The result of its status command: STATUS_GOOD, STATUS_GONE or STATUS_UNKNOWN."""

    async def probe(self) -> AuthEvent:
        """Try one small turn: TURN_WORKED, PROBE_REFUSED without a login, or STATUS_UNKNOWN for any other reason."""

    def credentials(self) -> str:
        """A value that changes with its credentials."""


# The longest known login error has 210 characters, with the server's message.
SHORT_CHARS_MAX: Final = 300


class AuthTier(StrEnum):
    """How certain it is that a text is a login error."""

    SURE = "sure"
    LIKELY = "likely"


# Texts of Claude Code 2.1 and Codex 0.166.
SURE_PATTERNS: Final = (
    r"Not logged in\b",
    r"Invalid API key\b.{0,40}(?:Fix external API key|Please run /login)",
    r"Please run /login\b",
    r"Failed to authenticate\. API Error: 40[13]\b",
    r"Your account does not have access to Claude\. Please login again",
    r"(?:API Error: 401\b.{0,80})?OAuth token (?:has )?(?:expired|been revoked)",
    r"unexpected status 40[13] (?:Unauthorized|Forbidden)\b",
    r"Missing environment variable: `\w+`",
    r"Your access token could not be refreshed",
    r"(?:To continue, )?(?:please )?(?:run|use) `?codex login\b",
)
LIKELY_PATTERNS: Final = (
    r"\b(?:401|403)\b",
    r"\bunauthori[sz]ed\b",
    r"\bforbidden\b",
    r"\bauthentication[_ ](?:failed|error|required)\b",
    r"\b(?:invalid|expired|revoked|missing)\b.{0,20}\b(?:api key|token|credentials?)\b",
    r"\b(?:log|sign)(?:ged)? ?in\b",
)
_SURE: Final = re.compile(rf"[\W_]*(?:{'|'.join(SURE_PATTERNS)})", re.IGNORECASE | re.DOTALL)
_ERROR_FIRST: Final = re.compile(
    r"[\W_]*(?:api error|error|fatal|failed|unexpected status|http)\b", re.IGNORECASE
)
_LIKELY: Final = re.compile("|".join(LIKELY_PATTERNS), re.IGNORECASE | re.DOTALL)


def auth_tier(text: str) -> AuthTier | None:
    """How certainly this text is a login error; None: it is none, or too long to be one."""
    short = text.strip()
    # A login check whose connection broke reports a 401, too, and a login does not help then.
    if len(short) > SHORT_CHARS_MAX or says_network(short):
        return None
    if _SURE.match(short):
        return AuthTier.SURE
    return AuthTier.LIKELY if _ERROR_FIRST.match(short) and _LIKELY.search(short) else None
