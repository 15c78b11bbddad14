"""Detects that a turn failed in an outage of provider or network, where no new conversation helps. Pure."""

import re
from typing import TYPE_CHECKING, Final

from wakeful.judging.events import Failure

if TYPE_CHECKING:
    from wakeful.judging.activity import Activity

_NETWORK: Final = re.compile(
    r"ECONNREFUSED|ECONNRESET|ENOTFOUND|EAI_AGAIN|ENETUNREACH|EHOSTUNREACH|ETIMEDOUT|getaddrinfo|"
    r"connection ?(?:error|refused|reset)|unable to connect|network is unreachable|dns error|error sending request|"
    r"socket (?:connection was closed|hang up)|fetch failed",
    re.IGNORECASE,
)

_REFUSED: Final = re.compile(rb"API Error:? \(?(?:5\d\d|429|Connection)|overloaded_error|Overloaded")
_OPENING_BYTES_MAX: Final = 200


def says_outage(result: bytes) -> bool:
    """Whether the result of a subagent is a provider's refusal: it never started."""
    return _REFUSED.search(result, 0, _OPENING_BYTES_MAX) is not None


def is_network(activity: "Activity") -> bool:
    return says_network(activity.failure_message)


def says_network(text: str) -> bool:
    return _NETWORK.search(text) is not None


def is_outage(activity: "Activity") -> bool:
    """Whether it failed because of the provider or the network."""
    return activity.failure is Failure.PROVIDER or is_network(activity)
