"""Authentication of HTTP requests: Host, Origin, token, cookie and CSRF. Pure rules.

The gate checks every request here first. The connection class has already checked the uid of a peer at the Unix
socket, so such a request comes from the owner. `logins` holds the logins of pages.
"""

import hmac
from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Final

from msgspec import Struct

from wakeful.http.errors import (
    CsrfNeeded,
    DuplicateHeader,
    ForeignHost,
    ForeignOrigin,
    LoginExpired,
    NotJson,
    TokenNeeded,
    TokenWrong,
    WrongListener,
)
from wakeful.http.logins import Logins, OpenLogin
from wakeful.web import PAGE_PATHS

LOOPBACK_NAMES: Final = ("localhost", "127.0.0.1", "[::1]")
SOCKET_NAMES: Final = frozenset({"localhost", "wakeful"})
WEBSOCKET: Final = "WEBSOCKET"
"""The method of a WebSocket's opening request."""

_READ_METHODS: Final = frozenset({"GET", "HEAD", WEBSOCKET})


class ListenerKind(StrEnum):
    SOCKET = "socket"
    TCP = "tcp"


class AuthMethod(StrEnum):
    """How a caller proved that it may ask."""

    NONE = "none"
    SOCKET_PEER = "peer"
    TOKEN = "token"  # noqa: S105
    COOKIE = "cookie"


# The only routes that need no proof.
PUBLIC_ROUTES: Final = frozenset(
    {("GET", path) for path in ("/healthz", *PAGE_PATHS)} | {("POST", "/api/login")}
)
# Requests that not every reader may send.
_RESTRICTED_PATHS: Final[Mapping[str, tuple[frozenset[AuthMethod], str]]] = {
    "/api/shutdown": (frozenset({AuthMethod.SOCKET_PEER}), "through the socket"),
    "/api/login-codes": (
        frozenset({AuthMethod.SOCKET_PEER, AuthMethod.TOKEN}),
        "through the socket or with the token",
    ),
}


class RequestCredentials(Struct, frozen=True):
    """The parts of a request that authentication looks at."""

    listener: ListenerKind
    method: str
    path: str
    host: str = ""
    origin: str | None = None
    authorization: str | None = None
    cookie: str = ""
    csrf: str = ""
    content_type: str = ""
    site: str | None = None


_CREDENTIAL_HEADERS: Final = {
    b"host": "host",
    b"origin": "origin",
    b"authorization": "authorization",
    b"cookie": "cookie",
    b"x-wakeful-csrf": "csrf",
    b"content-type": "content_type",
    b"sec-fetch-site": "site",
}


def credentials_of(
    listener: ListenerKind, method: str, path: str, headers: Iterable[tuple[bytes, bytes]]
) -> RequestCredentials:
    """Read the credentials from a request's headers. Raises DuplicateHeader if one of them occurs twice."""
    values: dict[str, str] = {}
    for name, value in headers:
        key = _CREDENTIAL_HEADERS.get(name)
        if key is None:
            continue
        text = value.decode("latin-1")
        if key in values:
            # HTTP/2 and some clients split cookies; a second value of any other header is an attack or an error.
            if key != "cookie":
                raise DuplicateHeader(name=name.decode("latin-1"))
            text = f"{values[key]}; {text}"
        values[key] = text
    return RequestCredentials(listener, method, path, **values)


class Authenticator:
    """The owner's token, the open logins, and the rules. `host` and `port` are those of the TCP listener;
    None without one."""

    def __init__(self, token: str, port: int | None, logins: Logins, host: str = "127.0.0.1") -> None:
        self.port = port
        self.url = f"{url_of(host, port)}/" if port is not None else None
        self.logins = logins
        self._token = token.encode()
        self._allowed_hosts = _allowed_hosts(host, port)

    @property
    def cookie_name(self) -> str:
        """Browsers do not keep ports apart, so two daemons on one machine need two names."""
        return f"wakeful-{self.port}"

    def authenticate(self, credentials: RequestCredentials) -> AuthMethod:
        """The way in which a request proved itself. Raises the refusal."""
        self._check_host_and_origin(credentials)
        method = "GET" if credentials.method == "HEAD" else credentials.method
        is_public = (method, credentials.path) in PUBLIC_ROUTES
        proof = AuthMethod.NONE if is_public else self._find_method(credentials)
        if credentials.method not in _READ_METHODS:
            self._check_write(credentials, proof, is_public=is_public)
        return proof

    def login_of(self, cookie_header: str) -> OpenLogin | None:
        cookie = cookie_in(cookie_header, self.cookie_name)
        return self.logins.find(cookie) if cookie is not None else None

    def without_token(self, path: str) -> str:
        """The path with the token replaced, in case a person pasted it there."""
        return path.replace(self._token.decode(), "[token]")

    def _check_host_and_origin(self, credentials: RequestCredentials) -> None:
        allowed = SOCKET_NAMES if credentials.listener is ListenerKind.SOCKET else self._allowed_hosts
        if credentials.host not in allowed:
            raise ForeignHost
        if credentials.origin is not None and credentials.origin != f"http://{credentials.host}":
            raise ForeignOrigin

    def _find_method(self, credentials: RequestCredentials) -> AuthMethod:
        if credentials.listener is ListenerKind.SOCKET:
            return AuthMethod.SOCKET_PEER
        if credentials.authorization is not None:
            self._check_token(credentials.authorization)
            return AuthMethod.TOKEN
        if cookie_in(credentials.cookie, self.cookie_name) is None:
            raise TokenNeeded
        if self.login_of(credentials.cookie) is None:
            raise LoginExpired
        _check_same_origin(credentials)
        return AuthMethod.COOKIE

    def _check_token(self, authorization: str) -> None:
        scheme, _, token = authorization.partition(" ")
        given = token.strip().encode("utf-8", "surrogatepass")
        if scheme.lower() != "bearer" or not hmac.compare_digest(given, self._token):
            raise TokenWrong

    def _check_write(self, credentials: RequestCredentials, proof: AuthMethod, *, is_public: bool) -> None:
        """A write needs the right listener, Wakeful's own page, and JSON, which no form of another site can send."""
        allowed, how = _RESTRICTED_PATHS.get(credentials.path, (None, ""))
        if allowed is not None and proof not in allowed:
            raise WrongListener(how=how)
        if proof is AuthMethod.COOKIE and not is_public:
            login = self.login_of(credentials.cookie)
            if login is None or not login.has_csrf(credentials.csrf):
                raise CsrfNeeded
        if credentials.content_type.partition(";")[0].strip().lower() != "application/json":
            raise NotJson


def cookie_in(header: str, name: str) -> str | None:
    for part in header.split(";"):
        key, equals, value = part.strip().partition("=")
        if equals and key == name:
            return value
    return None


def url_of(host: str, port: int) -> str:
    """The address for a browser; an IPv6 address goes into brackets."""
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def _allowed_hosts(host: str, port: int | None) -> frozenset[str]:
    if port is None:
        return frozenset()
    names = (*LOOPBACK_NAMES, f"[{host}]" if ":" in host else host)
    # Browsers leave out port 80.
    bare = names if port == 80 else ()
    return frozenset((*bare, *(f"{name}:{port}" for name in names)))


def _check_same_origin(credentials: RequestCredentials) -> None:
    """Browsers also send the cookie for pages at other ports of this host; only Wakeful's own page may use it."""
    if credentials.site not in {None, "same-origin", "none"}:
        raise ForeignOrigin
    # Every browser sends the origin of a WebSocket. A client that does not is no browser.
    if credentials.method == WEBSOCKET and credentials.origin is None:
        raise ForeignOrigin
