"""Whether a turn failed because nobody answered: a provider or the network, which no new conversation helps. Pure."""

import re
from typing import Final

from wakeful.domain.activity import Activity
from wakeful.domain.events import Failure

_NETWORK: Final = re.compile(
    r"ECONNREFUSED|ECONNRESET|ENOTFOUND|EAI_AGAIN|ENETUNREACH|EHOSTUNREACH|ETIMEDOUT|getaddrinfo|"
    r"connection ?(?:error|refused|reset)|unable to connect|network is unreachable|dns error|error sending request",
    re.IGNORECASE,
)


def is_network(activity: Activity) -> bool:
    """Whether the last failed turn says that it did not get through."""
    return _NETWORK.search(activity.failure_message) is not None


def is_outage(activity: Activity) -> bool:
    """Whether it ended because nobody answered, wherever that lies."""
    return activity.failure is Failure.PROVIDER or is_network(activity)
