"""Classifies the failure of a turn by the client's sentence, the provider's status and the client's code. Pure.

The readers of both clients and of hooks use it. The sentence comes before code and status: a 429 may be a
usage limit or a busy server, and a login check whose connection broke is reported as 401. The sentences are
in `tests/unit/sources/test_failure_words.py`.
"""

import re
from collections.abc import Mapping
from typing import Final

from wakeful.judging.events import Failure, TurnFailed
from wakeful.judging.outage import says_network
from wakeful.sources.parsing import limit_end_in

# Claude Code's codes. `rate_limit` is missing: it means usage limits as well as busy servers.
_CODES: Final[Mapping[str, Failure]] = {
    "authentication_failed": Failure.AUTH,
    "oauth_org_not_allowed": Failure.AUTH,
    "billing_error": Failure.LIMIT,
    "overloaded": Failure.PROVIDER,
    "server_error": Failure.PROVIDER,
    "invalid_request": Failure.REQUEST,
    "model_not_found": Failure.REQUEST,
    "max_output_tokens": Failure.REQUEST,
}
_STATUS: Final = re.compile(
    r"(?:http_status_code\W{1,3}|\bstatus:? |\bapi error:? \(?|request rejected \()([45]\d\d)\b"
)
# Limits of an account or a plan, which have an end; rates, contexts and answers have limits too.
_LIMIT: Final = re.compile(
    r"usage[_ ]limit|(?:session|daily|weekly|monthly|hour(?:ly)?|opus|sonnet|spend(?:ing)?) limit"
    r"|(?:hit|reached) your (?:\S+ ){0,3}limit"
    r"|out of (?:extra usage|credits)|credit balance|insufficient_quota|quota exceeded|(?:current|your) quota"
)
_THROTTLED: Final = re.compile(r"not your usage limit|temporarily limiting requests")
# In order: login problems before outages.
_FAILURE_TEXTS: Final[Mapping[Failure, tuple[str, ...]]] = {
    Failure.AUTH: (
        "invalid api key", "please run /login", "failed to authenticate", "not logged in", "unauthorized",
        "missing environment variable", "token has expired", "token has been revoked", "login again",
        "could not be refreshed", "sign in again",
    ),
    Failure.PROVIDER: (
        "high demand", "at capacity", "overloaded", "stream disconnected", "server_error", "rate limit",
    ),
    Failure.REQUEST: (
        "context window", "context_window", "context limit", "prompt is too long", "bad_request", "invalid_request",
    ),
}  # fmt: skip
_RETRYABLE: Final = frozenset({408, 425, 429})


def turn_failed_event(message: str, at: float, *, status: int | None = None, code: str = "") -> TurnFailed:
    """The failed turn, with the end of a usage limit if that is the reason. `code`: the client's code or cause."""
    failure = classify_failure(message, status, code)
    until = limit_end_in(message, at) if failure is Failure.LIMIT else None
    return TurnFailed(at, failure, message, status, until)


def classify_failure(message: str, status: int | None = None, code: str = "") -> Failure:
    """The class of a failure. Without a known code and status the sentence alone decides."""
    text = f"{message} {code}".lower()
    if says_network(text):
        return Failure.PROVIDER
    if says_limit(text):
        return Failure.LIMIT
    if code in _CODES:
        return _CODES[code]
    return _failure_by_status(status or status_in(text)) or _failure_by_text(text)


def says_limit(text: str) -> bool:
    """Whether an account or a plan has reached its usage limit."""
    lower = text.lower()
    return _LIMIT.search(lower) is not None and _THROTTLED.search(lower) is None


def status_in(text: str) -> int | None:
    """The HTTP status of the provider, if the sentence or the cause contains it."""
    found = _STATUS.search(text.lower())
    return int(found[1]) if found is not None else None


def _failure_by_status(status: int | None) -> Failure | None:
    if status is None:
        return None
    if status in {401, 403}:
        return Failure.AUTH
    return Failure.PROVIDER if status >= 500 or status in _RETRYABLE else Failure.REQUEST


def _failure_by_text(text: str) -> Failure:
    for failure, phrases in _FAILURE_TEXTS.items():
        if any(phrase in text for phrase in phrases):
            return failure
    return Failure.PROVIDER if text.startswith("api error") else Failure.UNKNOWN
