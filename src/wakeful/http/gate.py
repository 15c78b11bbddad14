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
from uvicorn.protocols.utils import ClientDisconnected

from wakeful.core.decoding import decode_json
from wakeful.core.errors import OwnError, WakefulError
from wakeful.http.access_log import AccessLog, AccessRecord
from wakeful.http.asgi import AUTH_METHOD, PEER, App, Message, Receive, Scope, Send
from wakeful.http.auth import WEBSOCKET, Authenticator, AuthMethod, ListenerKind, credentials_of
from wakeful.http.caller import CallerCheck
from wakeful.http.errors import (
    MEDIA_TYPE,
    BodyTooLarge,
    BodyTooSlow,
    BodyUnreadable,
    CallerDisconnected,
    LoginExpired,
    PathNotCanonical,
    ShuttingDown,
    TooManyFailures,
    WrongCredential,
    log_bug,
    problem_body,
    problem_headers,
)
from wakeful.http.queries import parse_query

FIRST_DELAY_SECONDS: Final = 0.1
DELAY_STEP_SECONDS_MAX: Final = 5.0
# After a minute without a failure the count starts again.
RESET_AFTER_SECONDS: Final = 60.0
SOURCES_MAX: Final = 256
# A delayed answer holds a connection. A source with a longer delay is refused at once, and its connection ends.
DELAY_SECONDS_MAX: Final = 10.0
LOOPBACK_SOURCE: Final = "loopback"
SOCKET_SOURCE: Final = "socket"


def source_of(address: str | None) -> str:
    """The source that failures are counted for. A program can use 16 million loopback addresses, so all of
    them are one."""
    if address is None:
        return SOCKET_SOURCE
    try:
        return LOOPBACK_SOURCE if ip_address(address).is_loopback else address
    except ValueError:
        return address


class _FailureCount(Struct):
    failures: int
    last_at: float
    paid_at: float


class FailureLimiter:
    """The failures of each source; bounded: the source that failed longest ago is dropped first."""

    def __init__(self) -> None:
        self._failures_by_source: dict[str, _FailureCount] = {}

    def record_failure(self, source: str, now: float) -> float:
        """Count a failure; returns the delay in seconds. Each costs twice the one before, up to the cap."""
        count = self._failures_by_source.pop(source, None)
        if count is None or now - count.last_at > RESET_AFTER_SECONDS:
            count = _FailureCount(0, now, now)
        # The exponent is bounded too: a million failures must not make a number of a million bits.
        cost = min(DELAY_STEP_SECONDS_MAX, FIRST_DELAY_SECONDS * 2.0 ** min(count.failures, 16))
        count.failures += 1
        count.last_at = now
        debt = max(count.paid_at - now, 0.0) + cost
        if debt <= DELAY_SECONDS_MAX:
            count.paid_at = now + debt
        self._failures_by_source[source] = count
        if len(self._failures_by_source) > SOURCES_MAX:
            del self._failures_by_source[next(iter(self._failures_by_source))]
        return debt

    async def delay(self, source: str) -> None:
        """Wait for this failure's delay. Raises TooManyFailures at once if it is too long."""
        seconds = self.record_failure(source, asyncio.get_running_loop().time())
        if seconds > DELAY_SECONDS_MAX:
            raise TooManyFailures
        await asyncio.sleep(seconds)


BODY_BYTES_MAX: Final = 1024 * 1024
# A prompt may have a MiB. JSON writes a quote or a line end in two bytes, and some clients a letter in six;
# the rest is for an environment.
PROMPT_BODY_BYTES_MAX: Final = 4 * 1024 * 1024
_PROMPT_PATHS: Final = re.compile(r"/api/(?:sessions(?:/[^/]+/send)?|work)\Z")
BODY_SECONDS_MAX: Final = 30
# A router that accepts two spellings of one path guards only one of them. The one form: no segment is empty,
# `.` or `..`; letters, digits and -._~ are written plainly; every other byte but a slash and a backslash may
# be written as % with two upper-case digits; and the characters that RFC 3986 allows in a path, except the
# semicolon.
_PATH: Final = re.compile(
    rb"/|(?:/(?!\.\.?(?:/|\Z))(?:[A-Za-z0-9._~!$&'()*+,=:@-]"
    rb"|%(?:[01][0-9A-F]|2[0-9A-C]|3[A-F]|40|5[BDE]|60|7[BCDF]|[8-9A-F][0-9A-F]))+)+"
)
_READ_METHODS: Final = frozenset({"GET", "HEAD"})
_ANSWERS: Final = frozenset({"http.response.start", "websocket.send"})
# RFC 6455: "policy violation".
LOGGED_OUT_CODE: Final = 1008

_CONTENT_SECURITY_POLICY: Final = (
    b"default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; "
    b"base-uri 'none'; frame-ancestors 'none'; form-action 'none'"
)
# For browsers, which use TCP only. Nothing is loaded from, framed by or accepted from other origins, and
# there is no CORS header.
_BROWSER_HEADERS: Final = (
    (b"content-security-policy", _CONTENT_SECURITY_POLICY),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"cache-control", b"no-store"),
)


class Gate:
    """Wraps the application. The login shares `limiter`: it is the other place where secrets can be guessed."""

    def __init__(
        self, app: App, authenticator: Authenticator, limiter: FailureLimiter, callers: CallerCheck
    ) -> None:
        self._app = app
        self._authenticator = authenticator
        self._caller_check = callers
        self._failure_limiter = limiter
        self.log = AccessLog()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        loop = asyncio.get_running_loop()
        began_at = loop.time()
        listener = ListenerKind.SOCKET if PEER in scope else ListenerKind.TCP
        reply = _REPLY_OF_SCOPE[scope["type"]](send, listener)
        try:
            await self._check_and_route(listener, scope, receive, reply)
        except WakefulError as refusal:
            await reply.refuse(log_bug(refusal) if isinstance(refusal, OwnError) else refusal)
        except asyncio.CancelledError:
            # Only a shutdown of the server cancels a request; waiting callers get an answer.
            await reply.refuse(ShuttingDown())
        except Exception as error:  # noqa: BLE001 - the last place where a bug can become an answer
            await reply.refuse(log_bug(error))
        finally:
            method = scope.get("method", WEBSOCKET)
            seconds = loop.time() - began_at
            path = self._authenticator.without_token(scope["path"])
            self.log.add(AccessRecord(began_at, method, path, reply.status, listener, seconds))

    async def _check_and_route(
        self, listener: ListenerKind, scope: Scope, receive: Receive, reply: "_Reply"
    ) -> None:
        method = scope.get("method", WEBSOCKET)
        send: Send = reply
        _check_path(scope)
        try:
            credentials = credentials_of(listener, method, scope["path"], scope["headers"])
            scope[AUTH_METHOD] = self._authenticator.authenticate(credentials)
        except WrongCredential:
            await self._failure_limiter.delay(caller_of(scope))
            raise
        reads = method in _READ_METHODS
        if (reads or method == WEBSOCKET) and scope[AUTH_METHOD] is AuthMethod.COOKIE:
            # A login may end while a request waits. An order that was carried out is answered.
            send = self._while_logged_in(reply, credentials.cookie)
        if method == WEBSOCKET:
            parse_query(scope["query_string"], {})
        elif not reads:
            await self._caller_check.admit(scope)
        if method == "HEAD":
            # Routed as GET; the server still sees HEAD and leaves the body out.
            scope = {**scope, "method": "GET"}
        if method != WEBSOCKET and (not reads or _announces_body(scope)):
            body = await _read_body(scope, receive)
            _check_body(body)
            receive = _replay_body(body, receive)
        await self._app(scope, receive, send)

    def _while_logged_in(self, reply: "_Reply", cookie: str) -> Send:
        """Once the login of this cookie is over, refuse the answer, or close the WebSocket instead of sending."""

        async def send(message: Message) -> None:
            kind = message["type"]
            if kind in _ANSWERS and self._authenticator.login_of(cookie) is None:
                if kind == "http.response.start":
                    raise LoginExpired
                await reply({"type": "websocket.close", "code": LOGGED_OUT_CODE})
                raise ClientDisconnected
            await reply(message)

        return send


def caller_of(scope: Scope) -> str:
    client = scope.get("client")
    return source_of(client[0] if client else None)


def _check_path(scope: Scope) -> None:
    """Runs before authentication. Raises PathNotCanonical."""
    raw: bytes = scope.get("raw_path") or scope["path"].encode("utf-8", "surrogateescape")
    if _PATH.fullmatch(raw) is None:
        raise PathNotCanonical
    if b"%" in raw:
        try:
            # Invalid bytes all decode to the same character: many spellings of one path.
            unquote_to_bytes(raw).decode()
        except UnicodeDecodeError as problem:
            raise PathNotCanonical from problem


def _check_body(body: bytes) -> None:
    """No route gets bytes that cannot be decoded. Raises BodyUnreadable."""
    try:
        # msgspec.Raw skips values without decoding their text, so the text is decoded first.
        decode_json(body.decode(), msgspec.Raw) if body else None
    except (UnicodeDecodeError, msgspec.DecodeError) as problem:
        raise BodyUnreadable from problem


async def _read_body(scope: Scope, receive: Receive) -> bytes:
    """The whole body. Raises BodyTooLarge as soon as that is certain, BodyTooSlow if it does not arrive in time."""
    bytes_max = PROMPT_BODY_BYTES_MAX if _PROMPT_PATHS.match(scope["path"]) else BODY_BYTES_MAX
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
                    # An incomplete request is not carried out.
                    raise CallerDisconnected
                body += message.get("body", b"")
                more = message.get("more_body", False)
                if len(body) > bytes_max:
                    raise BodyTooLarge(bytes_max=bytes_max)
    except TimeoutError as error:
        raise BodyTooSlow(seconds_max=BODY_SECONDS_MAX) from error
    return bytes(body)


def _announces_body(scope: Scope) -> bool:
    return any(
        name == b"transfer-encoding" or (name == b"content-length" and value != b"0")
        for name, value in scope["headers"]
    )


def _replay_body(body: bytes, receive: Receive) -> Receive:
    """A `receive` that returns the body read before, then all further messages."""
    messages: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def replay() -> Message:
        return messages.pop() if messages else await receive()

    return replay


class _Reply:
    """An ASGI `send` that remembers whether an answer began, so that a refusal can replace it."""

    def __init__(self, send: Send, listener: ListenerKind) -> None:
        self.status = 0
        self._send = send
        self._extra = _BROWSER_HEADERS if listener is ListenerKind.TCP else ()

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            message["headers"] = [*message["headers"], *self._extra]
        await self._send(message)

    async def refuse(self, error: WakefulError) -> None:
        """Answer with a problem document, unless an answer has begun."""
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


class _WebSocketReply(_Reply):
    """The same for a WebSocket, which a document can refuse only before it is accepted."""

    async def __call__(self, message: Message) -> None:
        if message["type"] == "websocket.accept":
            self.status = 101
        await self._send(message)

    async def refuse(self, error: WakefulError) -> None:
        if not self.status:
            await self._send_problem("websocket.http", error)
        elif isinstance(error, ShuttingDown):
            await self._send({"type": "websocket.close", "code": 1012})


_REPLY_OF_SCOPE: Final = {"http": _Reply, "websocket": _WebSocketReply}
