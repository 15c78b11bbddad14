"""The gate: every HTTP and WebSocket request passes it before routing.

It checks authentication (`auth`) and, for orders, the caller (`caller`), limits the body, and writes refusals as
problem documents. No other module decides which requests are let in. Notes for the access log have no query string.
Wrong credentials delay the source that sent them, by growing times: one failure after the other, however many
connections it opens. A right credential never waits.
"""

import asyncio
import re
from ipaddress import ip_address
from typing import Final
from urllib.parse import unquote_to_bytes

import msgspec
from msgspec import Struct

from wakeful.core.decoding import decode_json
from wakeful.core.errors import OwnError, WakefulError
from wakeful.http.access_log import AccessLog, Note
from wakeful.http.asgi import PEER, PROOF, App, Message, Receive, Scope, Send
from wakeful.http.auth import WEBSOCKET, Access, Door, knock_of
from wakeful.http.caller import Deciders
from wakeful.http.errors import (
    MEDIA_TYPE,
    BodyTooLarge,
    BodyTooSlow,
    BodyUnreadable,
    CallerGone,
    GoingDown,
    PathNotCanonical,
    TooManyFailures,
    WrongCredential,
    bug,
    problem_body,
    problem_headers,
)
from wakeful.http.queries import check

FIRST_SECONDS: Final = 0.1
SECONDS_MAX: Final = 5.0
# After a minute without a failure the next one is a first one again.
FORGIVEN_AFTER_SECONDS: Final = 60.0
SOURCES_MAX: Final = 256
# An answer that waits holds a connection. A source that owes more than this is refused at once, and its connection ends.
DEBT_SECONDS_MAX: Final = 10.0
LOOPBACK: Final = "loopback"
SOCKET: Final = "socket"


def source_of(address: str | None) -> str:
    """Whom failures are counted for. A program chooses among 16 million loopback addresses, so all of them are one."""
    if address is None:
        return SOCKET
    try:
        return LOOPBACK if ip_address(address).is_loopback else address
    except ValueError:
        return address


class _Account(Struct):
    failures: int
    last_at: float
    paid_at: float


class Penalties:
    """What each source owes: bounded, the one that failed longest ago is forgotten first."""

    def __init__(self) -> None:
        self._accounts: dict[str, _Account] = {}

    def charge(self, source: str, now: float) -> float:
        """Count one more failure; the seconds until it is paid. Each costs twice the one before, up to the cap."""
        account = self._accounts.pop(source, None)
        if account is None or now - account.last_at > FORGIVEN_AFTER_SECONDS:
            account = _Account(0, now, now)
        # The exponent is bounded too: a million failures must not become a number of a million bits.
        cost = min(SECONDS_MAX, FIRST_SECONDS * 2.0 ** min(account.failures, 16))
        account.failures += 1
        account.last_at = now
        debt = max(account.paid_at - now, 0.0) + cost
        if debt <= DEBT_SECONDS_MAX:
            account.paid_at = now + debt
        self._accounts[source] = account
        if len(self._accounts) > SOURCES_MAX:
            del self._accounts[next(iter(self._accounts))]
        return debt

    async def pay(self, source: str) -> None:
        """Wait until this failure is paid. Raises TooManyFailures at once where that would take too long."""
        seconds = self.charge(source, asyncio.get_running_loop().time())
        if seconds > DEBT_SECONDS_MAX:
            raise TooManyFailures
        await asyncio.sleep(seconds)


BODY_BYTES_MAX: Final = 1024 * 1024
# A prompt may have a MiB, and JSON writes a quote or a line end in two bytes, other clients a letter in six; the
# rest is an environment.
PROMPT_BODY_BYTES_MAX: Final = 4 * 1024 * 1024
_PROMPTED: Final = re.compile(r"/api/(?:sessions(?:/[^/]+/send)?|work)\Z")
BODY_SECONDS_MAX: Final = 30
# A router that takes two spellings for one path guards only one of them. The one form: no segment is empty, `.` or `..`;
# a letter, a digit and -._~ stand for themselves; every other byte but a slash and a backslash may be written as %
# with two capital digits; and the characters that RFC 3986 lets a path hold, but for the semicolon.
_PATH: Final = re.compile(
    rb"/|(?:/(?!\.\.?(?:/|\Z))(?:[A-Za-z0-9._~!$&'()*+,=:@-]"
    rb"|%(?:[01][0-9A-F]|2[0-9A-C]|3[A-F]|40|5[BDE]|60|7[BCDF]|[8-9A-F][0-9A-F]))+)+"
)
_READING: Final = frozenset({"GET", "HEAD"})

_POLICY: Final = (
    b"default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; "
    b"base-uri 'none'; frame-ancestors 'none'; form-action 'none'"
)
# For browsers, which come through TCP only. Nothing from elsewhere is loaded, framed or believed, and there
# is no CORS header anywhere.
_BROWSER_HEADERS: Final = (
    (b"content-security-policy", _POLICY),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"cache-control", b"no-store"),
)


class Gate:
    """Wraps the application. `penalties` is shared with the login, the other place where one can guess."""

    def __init__(self, app: App, access: Access, penalties: Penalties, deciders: Deciders) -> None:
        self._app = app
        self._access = access
        self._deciders = deciders
        self._penalties = penalties
        self.log = AccessLog()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        loop = asyncio.get_running_loop()
        began_at = loop.time()
        door = Door.SOCKET if PEER in scope else Door.TCP
        reply = _REPLIES[scope["type"]](send, door)
        try:
            await self._let_in(door, scope, receive, reply)
        except WakefulError as refusal:
            await reply.refuse(bug(refusal) if isinstance(refusal, OwnError) else refusal)
        except asyncio.CancelledError:
            # Only the server's end cancels a request; whoever waits for an answer is told so.
            await reply.refuse(GoingDown())
        except Exception as error:  # noqa: BLE001 - the last place where a bug can become an answer
            await reply.refuse(bug(error))
        finally:
            method = scope.get("method", WEBSOCKET)
            seconds = loop.time() - began_at
            path = self._access.loggable(scope["path"])
            self.log.take(Note(began_at, method, path, reply.status, door, seconds))

    async def _let_in(self, door: Door, scope: Scope, receive: Receive, reply: "_Reply") -> None:
        method = scope.get("method", WEBSOCKET)
        _check_path(scope)
        try:
            knock = knock_of(door, method, scope["path"], scope["headers"])
            scope[PROOF] = self._access.admit(knock)
        except WrongCredential:
            await self._penalties.pay(caller_of(scope))
            raise
        if method == WEBSOCKET:
            check(scope["query_string"], {})
        elif method == "HEAD":
            # Routed as GET; the server, which still sees HEAD, leaves the body out.
            scope = {**scope, "method": "GET"}
        elif method not in _READING:
            await self._deciders.admit(scope)
            body = await _bounded_body(scope, receive)
            _check_body(body)
            receive = _replayed(body, receive)
        await self._app(scope, receive, reply)


def caller_of(scope: Scope) -> str:
    """Whom failures are counted for."""
    client = scope.get("client")
    return source_of(client[0] if client else None)


def _check_path(scope: Scope) -> None:
    """Before anybody is asked who they are. Raises PathNotCanonical."""
    raw: bytes = scope.get("raw_path") or scope["path"].encode("utf-8", "surrogateescape")
    if _PATH.fullmatch(raw) is None:
        raise PathNotCanonical
    if b"%" in raw:
        try:
            # Every byte that is no text becomes the same sign: many spellings of one path.
            unquote_to_bytes(raw).decode()
        except UnicodeDecodeError as problem:
            raise PathNotCanonical from problem


def _check_body(body: bytes) -> None:
    """No route ever sees bytes that cannot be decoded. Raises BodyUnreadable."""
    try:
        # Undecoded values are skipped without a look at their text, so that is looked at first.
        decode_json(body.decode(), msgspec.Raw) if body else None
    except (UnicodeDecodeError, msgspec.DecodeError) as problem:
        raise BodyUnreadable from problem


async def _bounded_body(scope: Scope, receive: Receive) -> bytes:
    """The whole body. Raises BodyTooLarge as soon as that is certain, BodyTooSlow when it does not come."""
    bytes_max = PROMPT_BODY_BYTES_MAX if _PROMPTED.match(scope["path"]) else BODY_BYTES_MAX
    for name, value in scope["headers"]:
        if name == b"content-length" and int(value) > bytes_max:
            raise BodyTooLarge(bytes_max=bytes_max)
    body = bytearray()
    more = True
    try:
        async with asyncio.timeout(BODY_SECONDS_MAX):
            while more:
                message = await receive()
                if message["type"] == "http.disconnect":
                    # Half an order is none.
                    raise CallerGone
                body += message.get("body", b"")
                more = message.get("more_body", False)
                if len(body) > bytes_max:
                    raise BodyTooLarge(bytes_max=bytes_max)
    except TimeoutError as error:
        raise BodyTooSlow(seconds_max=BODY_SECONDS_MAX) from error
    return bytes(body)


def _replayed(body: bytes, receive: Receive) -> Receive:
    """A `receive` that gives the body that was read already, then whatever follows."""
    waiting: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def replay() -> Message:
        return waiting.pop() if waiting else await receive()

    return replay


class _Reply:
    """An ASGI `send` that remembers what was sent, so that a refusal can take the place of an answer."""

    def __init__(self, send: Send, door: Door) -> None:
        self.status = 0
        self._send = send
        self._extra = _BROWSER_HEADERS if door is Door.TCP else ()

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            message["headers"] = [*message["headers"], *self._extra]
        await self._send(message)

    async def refuse(self, error: WakefulError) -> None:
        """Answer with a problem document, unless an answer has begun already."""
        if not self.status:
            await self._send_problem("http", error)

    async def _send_problem(self, kind: str, error: WakefulError) -> None:
        self.status = error.http_status
        body = problem_body(error)
        headers = {
            "content-type": MEDIA_TYPE,
            "content-length": str(len(body)),
            **problem_headers(error),
        }
        encoded = [(name.encode(), value.encode()) for name, value in headers.items()]
        start = {"type": f"{kind}.response.start", "status": self.status, "headers": [*encoded, *self._extra]}
        await self._send(start)
        await self._send({"type": f"{kind}.response.body", "body": body, "more_body": False})


class _SocketReply(_Reply):
    """The same for a WebSocket, which can be refused by a document only before it was accepted."""

    async def __call__(self, message: Message) -> None:
        if message["type"] == "websocket.accept":
            self.status = 101
        await self._send(message)

    async def refuse(self, error: WakefulError) -> None:
        if not self.status:
            await self._send_problem("websocket.http", error)
        elif isinstance(error, GoingDown):
            await self._send({"type": "websocket.close", "code": 1012})


_REPLIES: Final = {"http": _Reply, "websocket": _SocketReply}
