"""HTTP errors: every refusal, and problem documents (RFC 9457) with a stable `code`.

Messages tell an honest caller what to do and an attacker nothing. An answer never has a traceback or plain text.
"""

import logging
from http import HTTPStatus
from typing import Final

import msgspec
from msgspec import Struct

from wakeful.core.errors import OperatorError, OwnError, WakefulError, WorldError


class ForeignHost(OperatorError):
    """This Host is not one of ours. Ask localhost or 127.0.0.1, at the port `wakeful status` shows."""

    code = "foreign-host"
    http_status = 403


class ForeignOrigin(OperatorError):
    """Pages of other origins may not ask Wakeful anything."""

    code = "foreign-origin"
    http_status = 403


class DuplicateHeader(OperatorError):
    """The header {name!r} came twice; which of them counts is anybody's guess."""

    code = "doubled-header"


class TokenNeeded(OperatorError):
    """Show the token (`Authorization: Bearer …`), or log in with a link from `wakeful open`."""

    code = "token-needed"
    http_status = 401


class WrongCredential(OperatorError):
    """This credential is not ours."""

    code = "wrong-credential"
    http_status = 401


class TokenWrong(WrongCredential):
    """This is not our token. It stands in the file `token` of Wakeful's state folder."""

    code = "token-wrong"


class LoginExpired(OperatorError):
    """This login is over. `wakeful open` gives a new link."""

    # Not a WrongCredential: 256 bits cannot be guessed, and after a restart every open tab sends an old cookie.
    code = "logged-out"
    http_status = 401


class LoginCodeWrong(WrongCredential):
    """This link was used already or is older than ten minutes. `wakeful open` gives a new one."""

    code = "login-code-wrong"


class TooManyFailures(OperatorError):
    """Too many wrong credentials at once. Wait a few seconds."""

    code = "too-many-failures"
    http_status = 429
    retryable = True


class CsrfNeeded(OperatorError):
    """A logged-in page must send the x-wakeful-csrf header it was given at login."""

    code = "csrf-needed"
    http_status = 403


class WrongListener(OperatorError):
    """This can be asked for only {how}."""

    code = "wrong-door"
    http_status = 403


class NotJson(OperatorError):
    """Everything but reading takes a body of content-type application/json."""

    code = "not-json"
    http_status = 415


class BodyTooLarge(OperatorError):
    """The body has more than {bytes_max} bytes."""

    code = "body-too-large"
    http_status = 413


class BodyUnreadable(OperatorError):
    """The body is not a JSON document in UTF-8, or it is nested too deeply."""

    code = "body-unreadable"


class PathNotCanonical(OperatorError):
    """Write this path in its one form: no empty, `.` or `..` segment, no slash at its end, no `;`, and % only where needed."""

    code = "path-not-canonical"


class BodyTooSlow(OperatorError):
    """The body did not arrive within {seconds_max} s."""

    code = "body-too-slow"
    http_status = 408
    retryable = True


class HeadTooLarge(OperatorError):
    """The request's line and headers have more than {bytes_max} bytes."""

    code = "head-too-large"
    http_status = 431


class HeadTooSlow(OperatorError):
    """No complete request came within {seconds_max} s."""

    code = "head-too-slow"
    http_status = 408
    retryable = True


class NotHttp(OperatorError):
    """This is not an HTTP request."""

    code = "not-http"


class TooManyConnections(WorldError):
    """{connections_max} connections are open at this door already."""

    code = "too-many-connections"
    retryable = True


class PageNotServed(WorldError):
    """The page is not served: no TCP port is open. `wakeful status` says why."""

    code = "no-page"
    http_status = 409


class CallerDisconnected(WorldError):
    """Whoever asked hung up before there was an answer."""

    code = "caller-gone"
    http_status = 499


class ShuttingDown(WorldError):
    """Wakeful is going down."""

    code = "going-down"
    retryable = True


MEDIA_TYPE: Final = "application/problem+json"
EXIT_CODE_HEADER: Final = "x-wakeful-exit"
# Refusals that nearly every route has, for the API description.
PROBLEMS: Final = {
    400: "The request is not valid.",
    401: "No proof, or a wrong one.",
    403: "A foreign Host or Origin, or the wrong door.",
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


class NoSuchRoute(OperatorError):
    """There is nothing at this path. /api/openapi.json lists what there is."""

    code = "no-such-route"
    http_status = 404


class MethodNotAllowed(OperatorError):
    """This path does not take this method."""

    code = "method-not-allowed"
    http_status = 405


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
    _log.error("a request failed by a bug of ours", exc_info=error)
    return OwnError()
