"""One-time codes and the logins of web pages.

A login is stored and survives a restart of the daemon; a code does not. Only digests are kept, in memory and in the
store, so a lookup takes the same time for every value and a copy of the store opens no page. Both tables are bounded.
"""

import hmac
import logging
import secrets
from hashlib import sha256
from typing import Final

import msgspec
from msgspec import Struct

from wakeful.core.clock import Clock, Instant, iso
from wakeful.core.decoding import json_decoder
from wakeful.core.errors import OperatorError, WorldError
from wakeful.core.redaction import redact
from wakeful.core.text import plain
from wakeful.http.errors import LoginCodeWrong
from wakeful.storage.base import Note, Store
from wakeful.storage.note_decoding import decode_notes

CODE_BYTES: Final = 16
CODE_SECONDS_MAX: Final = 600.0
CODES_OPEN_MAX: Final = 32
COOKIE_BYTES: Final = 32
LOGIN_SECONDS_MAX: Final = 7 * 86_400.0
LOGINS_MAX: Final = 64
LOGIN_KIND: Final = "web-login"
# The start of the cookie's digest: it names a login and opens nothing.
ID_CHARS: Final = 8
_BROWSER_CHARS_MAX: Final = 120

log = logging.getLogger("wakeful")


class LoginUnknown(OperatorError, code="login-unknown", http_status=404, exit_code=1):
    """No open login has the id {given!r}. List them with `wakeful open --list`."""


class WebLogin(Struct, frozen=True):
    """What a page gets for its code. `cookie` proves who asks, `csrf` that Wakeful's own page asks."""

    cookie: str
    csrf: str


class StoredLogin(Struct, frozen=True):
    """A login as it is stored, under the digest of its cookie. Times are wall times; `browser` is its own text."""

    csrf_digest: str
    started_at: float
    until: float
    browser: str = ""


class LoginRecord(Struct, frozen=True):
    """An open login. `untrusted` is what the browser says about itself."""

    id: str
    started_at: str
    expires_at: str
    untrusted: str


class OpenLogin:
    """A stored login and its end by both clocks: suspend stops one of them, a person can set the other."""

    def __init__(self, stored: StoredLogin, now: Instant) -> None:
        self.stored = stored
        # Never longer than a new login, wherever the clock was set while no daemon ran.
        self._until = now.plus(min(stored.until - now.wall, LOGIN_SECONDS_MAX))

    def is_open(self, now: Instant) -> bool:
        return now.awake < self._until.awake and now.wall < self._until.wall

    def has_csrf(self, csrf: str) -> bool:
        return hmac.compare_digest(digest(csrf), self.stored.csrf_digest)


class Logins:
    """Issues codes, turns each into one login, and holds the open logins."""

    def __init__(self, clock: Clock, store: Store) -> None:
        self._clock = clock
        self._store = store
        self._codes: dict[str, Instant] = {}
        self._logins: dict[str, OpenLogin] = {}
        # Ended here and still in the store, which could not be written.
        self._undropped: set[str] = set()

    async def restore(self) -> None:
        """Take over the logins that an earlier daemon stored."""
        now = self._clock.now()
        found = decode_notes(await self._store.notes(LOGIN_KIND), _decode)
        for note, stored in sorted(found, key=lambda each: each[1].started_at):
            self._logins[note.key] = OpenLogin(stored, now)
        try:
            await self._drop_ended()
        except WorldError as problem:
            log.warning("expired logins of the page were not removed from the store: %s", problem)

    def new_code(self) -> str:
        code = secrets.token_urlsafe(CODE_BYTES)
        self._codes[digest(code)] = self._clock.now().plus(CODE_SECONDS_MAX)
        if len(self._codes) > CODES_OPEN_MAX:
            del self._codes[next(iter(self._codes))]
        return code

    async def log_in(self, code: str, browser: str = "") -> WebLogin:
        """Spend a code. Raises LoginCodeWrong if it was spent, is too old or never existed."""
        now = self._clock.now()
        until = self._codes.pop(digest(code), None)
        if until is None or now.awake >= until.awake or now.wall >= until.wall:
            raise LoginCodeWrong
        login = WebLogin(secrets.token_urlsafe(COOKIE_BYTES), secrets.token_urlsafe(COOKIE_BYTES))
        about = plain(redact(browser), _BROWSER_CHARS_MAX)
        stored = StoredLogin(digest(login.csrf), now.wall, now.wall + LOGIN_SECONDS_MAX, about)
        key = digest(login.cookie)
        self._logins[key] = OpenLogin(stored, now)
        try:
            await self._store.save_note(Note(LOGIN_KIND, key, msgspec.json.encode(stored)))
            await self._drop_ended()
        except WorldError as problem:
            # The page is needed most when something is wrong, such as a full disk.
            log.warning("a login of the page was not stored and ends with this daemon: %s", problem)
        return login

    def find(self, cookie: str) -> OpenLogin | None:
        found = self._logins.get(digest(cookie))
        return found if found is not None and found.is_open(self._clock.now()) else None

    def records(self) -> list[LoginRecord]:
        """Every open login, the oldest first."""
        now = self._clock.now()
        return [
            LoginRecord(
                key[:ID_CHARS], iso(login.stored.started_at), iso(login.stored.until), login.stored.browser
            )
            for key, login in self._logins.items()
            if login.is_open(now)
        ]

    async def log_out(self, cookie: str) -> None:
        await self._end([digest(cookie)])

    async def revoke(self, login_id: str) -> int:
        """End the login with this id. Raises LoginUnknown."""
        keys = [key for key in self._logins if key[:ID_CHARS] == login_id]
        if not keys:
            raise LoginUnknown(given=login_id)
        return await self._end(keys)

    async def revoke_all(self) -> int:
        """End every login, and the links that were not used yet."""
        self._codes.clear()
        return await self._end(list(self._logins))

    async def _drop_ended(self) -> None:
        """Drop what has expired, and the oldest beyond the limit."""
        now = self._clock.now()
        ended = [key for key, login in self._logins.items() if not login.is_open(now)]
        kept = len(self._logins) - len(ended)
        surplus = (key for key in list(self._logins) if key not in ended)
        ended.extend(key for key, _ in zip(surplus, range(kept - LOGINS_MAX), strict=False))
        await self._end(ended)

    async def _end(self, keys: list[str]) -> int:
        """End these logins: at once here, then in the store, with those of earlier tries that failed."""
        open_ones = [key for key in keys if self._logins.pop(key, None) is not None]
        self._undropped.update(open_ones)
        for key in sorted(self._undropped):
            await self._store.drop_note(LOGIN_KIND, key)
            self._undropped.discard(key)
        return len(open_ones)


def digest(secret: str) -> str:
    """The SHA-256 of a secret, which is long and random and needs no slower hash."""
    return sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()


_decode: Final = json_decoder(StoredLogin)
