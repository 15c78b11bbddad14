"""The environment of every program that Wakeful starts: whatever is secret to Wakeful is not in it. Pure.

A setting of Wakeful can be given as `WAKEFUL_SECTION__KEY`, and some are secrets: the bot's token, addresses with a
password in them. All settings are removed, so that a new secret cannot be forgotten here. Only Wakeful's own programs,
the daemon and the gateway, are started with them, for they read their settings there.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Final

# A setting; or a name that is none, as somebody writes who forgot an underscore.
_OURS: Final = re.compile(r"WAKEFUL_(?:\w+__\w+|\w*(?:TOKEN|SECRET|PASSWORD|URLS?)\w*)\Z")


def child_environ(environ: Mapping[str, str]) -> dict[str, str]:
    """This environment as another program may have it."""
    return {name: value for name, value in environ.items() if _OURS.match(name) is None}


def removed_names(environ: Iterable[str]) -> list[str]:
    """The variables that no other program may have."""
    return sorted(name for name in environ if _OURS.match(name) is not None)
