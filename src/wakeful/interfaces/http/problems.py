"""Errors as RFC 9457 documents with a stable `code`. Never a traceback, never plain text."""

import logging
from http import HTTPStatus
from typing import Any, Final

import msgspec
from litestar import Request, Response
from litestar.exceptions import HTTPException
from msgspec import Struct

from wakeful.domain.errors import OperatorError, OwnError, WakefulError
from wakeful.interfaces.http.refusals import TooManyFailures

MEDIA_TYPE: Final = "application/problem+json"
EXIT_HEADER: Final = "x-wakeful-exit"
_encode: Final = msgspec.json.Encoder().encode
_log: Final = logging.getLogger("wakeful.http")


class Problem(Struct, frozen=True):
    """What every refused or failed request is answered with."""

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


def problem_of(error: WakefulError) -> Problem:
    return Problem(
        type=f"urn:wakeful:problem:{error.code}",
        title=error.code.replace("-", " ").capitalize(),
        status=error.http_status,
        detail=str(error),
        code=error.code,
        exit_code=error.exit_code,
        retryable=error.retryable,
    )


def problem_body(error: WakefulError) -> bytes:
    return _encode(problem_of(error))


def problem_headers(error: WakefulError) -> dict[str, str]:
    headers = {EXIT_HEADER: str(error.exit_code)}
    if error.http_status == HTTPStatus.UNAUTHORIZED:
        headers["www-authenticate"] = "Bearer"
    if error.http_status == HTTPStatus.TOO_MANY_REQUESTS:
        headers["retry-after"] = "5"
    if isinstance(error, TooManyFailures):
        # Each further try costs a connection.
        headers["connection"] = "close"
    return headers


def answer_error(_request: Request[Any, Any, Any], error: Exception) -> Response[bytes]:
    """Litestar's way to the same documents: ours as they are, its own translated, anything else a bug."""
    known = _translated(error)
    headers = problem_headers(known)
    if isinstance(error, HTTPException) and error.headers:
        headers.update(error.headers)
    return Response(
        problem_body(known), status_code=known.http_status, media_type=MEDIA_TYPE, headers=headers
    )


def bug(error: BaseException) -> OwnError:
    """Tell the log everything about an error of ours, and the caller that there was one."""
    _log.error("a request failed by a bug of ours", exc_info=error)
    return OwnError()


def _translated(error: Exception) -> WakefulError:
    if isinstance(error, WakefulError):
        return bug(error) if isinstance(error, OwnError) else error
    if not isinstance(error, HTTPException) or error.status_code >= HTTPStatus.INTERNAL_SERVER_ERROR:
        return bug(error)
    if error.status_code == HTTPStatus.NOT_FOUND:
        return NoSuchRoute()
    if error.status_code == HTTPStatus.METHOD_NOT_ALLOWED:
        return MethodNotAllowed()
    return BadRequest(reason=_reason(error))


def _reason(error: HTTPException) -> str:
    """What is wrong with which parameter; Litestar's own sentence would quote the whole URL."""
    parts = error.extra if isinstance(error.extra, list) else []
    named = [_named(part) for part in parts if isinstance(part, dict)]
    return "; ".join(named) or "its body or parameters do not have the right shape"


# Parameters whose names mean something else to Litestar or to Python.
_ASKED_AS: Final = {"in_state": "state", "everything": "all"}


def _named(part: dict[str, Any]) -> str:
    key, message = str(part.get("key", "?")), part.get("message", "")
    # That is all Litestar says of a body that is not there.
    if (key, message) == ("data", "'data'"):
        return "its body is missing; one that says nothing is {}"
    return f"{_ASKED_AS.get(key, key)}: {message}"
