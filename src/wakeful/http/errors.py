"""HTTP errors: every refusal, and problem documents (RFC 9457) with a stable `code`.

Messages tell an honest caller what to do and an attacker nothing. An answer never has a traceback or plain text.
"""

import logging
from http import HTTPStatus
from typing import Final

import msgspec
from msgspec import Struct

from wakeful.core.errors import OperatorError, OwnError, WakefulError, WorldError


class ForeignHost(OperatorError, code="foreign-host", http_status=403):
    """Unknown Host header. Use localhost or 127.0.0.1, with the port from `wakeful status`."""


class ForeignOrigin(OperatorError, code="foreign-origin", http_status=403):
    """Requests from other origins are refused."""


class DuplicateHeader(OperatorError, code="doubled-header"):
    """The header {name!r} was sent twice. Send it once."""


class TokenNeeded(OperatorError, code="token-needed", http_status=401):
    """Send the token (`Authorization: Bearer …`), or log in with a link from `wakeful open`."""


class WrongCredential(OperatorError, code="wrong-credential", http_status=401):
    """Invalid credential."""


class TokenWrong(WrongCredential, code="token-wrong"):
    """Invalid token. The token is in the file `token` of Wakeful's state folder."""


# Not a WrongCredential: 256 bits cannot be guessed, and after a restart every open tab sends an old cookie.
class LoginExpired(OperatorError, code="logged-out", http_status=401):
    """Session expired. Get a new link with `wakeful open`."""


class LoginCodeWrong(WrongCredential, code="login-code-wrong"):
    """This link was already used or is older than ten minutes. Get a new one with `wakeful open`."""


class TooManyFailures(OperatorError, code="too-many-failures", http_status=429, retryable=True):
    """Too many wrong credentials at once. Wait a few seconds."""


class CsrfNeeded(OperatorError, code="csrf-needed", http_status=403):
    """A logged-in page must send the x-wakeful-csrf header from its login."""


class WrongListener(OperatorError, code="wrong-door", http_status=403):
    """This request is accepted only {how}."""


class NotJson(OperatorError, code="not-json", http_status=415):
    """A request that changes something needs the content type application/json."""


class BodyTooLarge(OperatorError, code="body-too-large", http_status=413):
    """The body has more than {bytes_max} bytes."""


class BodyUnreadable(OperatorError, code="body-unreadable"):
    """The body is not a JSON document in UTF-8, or it is nested too deeply."""


class PathNotCanonical(OperatorError, code="path-not-canonical"):
    """Normalize this path: no empty, `.` or `..` segment, no slash at the end, no `;`, and % only where needed."""


class BodyTooSlow(OperatorError, code="body-too-slow", http_status=408, retryable=True):
    """The body did not arrive within {seconds_max} s."""


class HeadTooLarge(OperatorError, code="head-too-large", http_status=431):
    """The request's line and headers have more than {bytes_max} bytes."""


class HeadTooSlow(OperatorError, code="head-too-slow", http_status=408, retryable=True):
    """No complete request arrived within {seconds_max} s."""


class NotHttp(OperatorError, code="not-http"):
    """This is not an HTTP request."""


class TooManyConnections(WorldError, code="too-many-connections", retryable=True):
    """The limit of {connections_max} open connections is reached."""


class PageNotServed(WorldError, code="no-page", http_status=409):
    """The page is not served: no TCP port is open. `wakeful status` says why."""


class CallerDisconnected(WorldError, code="caller-gone", http_status=499):
    """The client closed the connection before the answer."""


class ShuttingDown(WorldError, code="going-down", retryable=True):
    """Wakeful is shutting down."""


MEDIA_TYPE: Final = "application/problem+json"
EXIT_CODE_HEADER: Final = "x-wakeful-exit"
# Refusals that nearly every route has, for the API description.
PROBLEMS: Final = {
    400: "The request is not valid.",
    401: "Not logged in, or a wrong credential.",
    403: "A foreign Host or Origin, or a listener that refuses this request.",
    404: "No such session or route.",
}
_encode_json: Final = msgspec.json.Encoder().encode
_log: Final = logging.getLogger("wakeful.http")


class ProblemDocument(Struct, frozen=True):
    """The answer to every refused or failed request."""

    type: str
    title: str
    status: int
    detail: str
    code: str
    exit_code: int
    retryable: bool


class NoSuchRoute(OperatorError, code="no-such-route", http_status=404):
    """Nothing exists at this path. See /api/openapi.json for all paths."""


class MethodNotAllowed(OperatorError, code="method-not-allowed", http_status=405):
    """This path does not support this method."""


class BadRequest(OperatorError):
    """The request is not valid: {reason}"""


def problem_of(error: WakefulError) -> ProblemDocument:
    return ProblemDocument(
        type=f"urn:wakeful:problem:{error.code}",
        title=error.code.replace("-", " ").capitalize(),
        status=error.http_status,
        detail=str(error),
        code=error.code,
        exit_code=error.exit_code,
        retryable=error.retryable,
    )


def problem_body(error: WakefulError) -> bytes:
    return _encode_json(problem_of(error))


def problem_headers(error: WakefulError) -> dict[str, str]:
    headers = {EXIT_CODE_HEADER: str(error.exit_code)}
    if error.http_status == HTTPStatus.UNAUTHORIZED:
        headers["www-authenticate"] = "Bearer"
    if error.http_status == HTTPStatus.TOO_MANY_REQUESTS:
        headers["retry-after"] = "5"
    if isinstance(error, MethodNotAllowed):
        headers["allow"] = str(error.facts["allow"])
    if isinstance(error, TooManyFailures):
        # Each further try costs a connection.
        headers["connection"] = "close"
    return headers


def log_bug(error: BaseException) -> OwnError:
    """Log an internal error with its traceback; the caller gets an OwnError without details."""
    _log.error("a request failed because of a bug in Wakeful", exc_info=error)
    return OwnError()
