"""One-time codes and the logins they buy, in memory only: a restart logs every page out.

Secrets are remembered by their digest, so that looking one up takes the same time whatever was offered.
"""

import secrets
from collections.abc import Callable
from hashlib import sha256
from typing import Final, Generic, TypeVar

from msgspec import Struct

from wakeful.core.moment import Instant
from wakeful.http.refusals import LoginCodeWrong

CODE_BYTES: Final = 16
CODE_SECONDS_MAX: Final = 600.0
CODES_OPEN_MAX: Final = 32
COOKIE_BYTES: Final = 32
LOGIN_SECONDS_MAX: Final = 7 * 86_400.0
LOGINS_MAX: Final = 64

V = TypeVar("V")


class Login(Struct, frozen=True):
    """What a page got for its code. `cookie` proves who asks, `csrf` that our own page asks."""

    cookie: str
    csrf: str


class Secrets(Generic[V]):
    """Values behind secrets: at most `count_max`, the oldest forgotten first, each for `seconds_max`."""

    def __init__(self, now: Callable[[], Instant], *, seconds_max: float, count_max: int) -> None:
        self._now = now
        self._seconds_max = seconds_max
        self._count_max = count_max
        self._kept: dict[bytes, tuple[Instant, V]] = {}

    def put(self, secret: str, value: V) -> None:
        self._kept[_digest(secret)] = (self._now(), value)
        if len(self._kept) > self._count_max:
            del self._kept[next(iter(self._kept))]

    def look(self, secret: str) -> V | None:
        """The value behind this secret, unless there is none or its time is over."""
        found = self._kept.get(_digest(secret))
        return found[1] if found is not None and self._is_fresh(found[0]) else None

    def take(self, secret: str) -> V | None:
        """Look, and let nobody look again."""
        found = self._kept.pop(_digest(secret), None)
        return found[1] if found is not None and self._is_fresh(found[0]) else None

    def _is_fresh(self, since: Instant) -> bool:
        """By both clocks: a sleeping host stops one of them, a person can set the other."""
        now = self._now()
        return max(now.awake - since.awake, now.wall - since.wall) < self._seconds_max


class Logins:
    """Hands out codes, turns each into one login, and knows the logins that are open."""

    def __init__(self, now: Callable[[], Instant]) -> None:
        self._codes: Secrets[bool] = Secrets(now, seconds_max=CODE_SECONDS_MAX, count_max=CODES_OPEN_MAX)
        self._open: Secrets[Login] = Secrets(now, seconds_max=LOGIN_SECONDS_MAX, count_max=LOGINS_MAX)

    def new_code(self) -> str:
        code = secrets.token_urlsafe(CODE_BYTES)
        self._codes.put(code, value=True)
        return code

    def log_in(self, code: str) -> Login:
        """Spend a code. Raises LoginCodeWrong if it was spent, is too old or never existed."""
        if self._codes.take(code) is None:
            raise LoginCodeWrong
        login = Login(secrets.token_urlsafe(COOKIE_BYTES), secrets.token_urlsafe(COOKIE_BYTES))
        self._open.put(login.cookie, login)
        return login

    def find(self, cookie: str) -> Login | None:
        return self._open.look(cookie)

    def log_out(self, cookie: str) -> None:
        self._open.take(cookie)


def _digest(secret: str) -> bytes:
    return sha256(secret.encode("utf-8", "surrogatepass")).digest()
