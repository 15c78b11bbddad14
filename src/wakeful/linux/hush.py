"""Libraries that write addresses into logs, kept quiet: a bot's token and a ping's address are parts of them."""

import logging
from typing import Final

_TALKATIVE: Final = ("httpx", "httpcore", "telegram", "urllib3", "requests")


def hush() -> None:
    """Let them write nothing. What failed is told by whoever called them, without addresses."""
    for name in _TALKATIVE:
        logging.getLogger(name).setLevel(logging.CRITICAL + 1)
