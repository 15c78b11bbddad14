"""Errors as RFC 9457 documents with a stable `code`. Never a traceback, never plain text."""

import logging
from http import HTTPStatus
from typing import Final

import msgspec
from msgspec import Struct

from wakeful.core.errors import OperatorError, OwnError, WakefulError
from wakeful.http.refusals import TooManyFailures

MEDIA_TYPE: Final = "application/problem+json"
EXIT_HEADER: Final = "x-wakeful-exit"
# What nearly every route may be refused with, as the API description says it.
PROBLEMS: Final = {
    400: "The request is not valid.",
    401: "No proof, or a wrong one.",
    403: "A foreign Host or Origin, or the wrong door.",
    404: "No such session or route.",
}
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
    if isinstance(error, MethodNotAllowed):
        headers["allow"] = str(error.facts["allow"])
    if isinstance(error, TooManyFailures):
        # Each further try costs a connection.
        headers["connection"] = "close"
    return headers


def bug(error: BaseException) -> OwnError:
    """Tell the log everything about an error of ours, and the caller that there was one."""
    _log.error("a request failed by a bug of ours", exc_info=error)
    return OwnError()
