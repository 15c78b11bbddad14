"""Builds the client's command that resumes a conversation, and formats commands for people. Pure.

Clients look for a conversation in the folder where they are started, so the command changes to it first and
works from any folder. Every interface formats commands here except the page, whose `dom.js` follows the same
rule.
"""

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from shlex import join, quote
from typing import Final

from wakeful.core.redaction import redact
from wakeful.core.text import plain

# A path has 4,096 bytes at most.
PATH_CHARS_MAX: Final = 4096
_CLIENTS: Final[dict[str, tuple[str, ...]]] = {"claude": ("claude", "--resume"), "codex": ("codex", "resume")}
RESUMABLE_CLIENTS: Final = frozenset(_CLIENTS)
_NOT_ALPHANUMERIC: Final = re.compile("[^a-zA-Z0-9]")
_SHELL: Final = ("sh", "-c")
# Nothing to redact or escape: no secret is as short as these names. Most folders of a cold start match.
_SIMPLE: Final = re.compile(r"(?:/[a-zA-Z0-9_.-]{1,15})+", re.ASCII)


def resume_argv(provider: str, conversation: str, place: str) -> tuple[str, ...]:
    """The command that changes to the folder and resumes the conversation."""
    return (*_SHELL, _resume_in(provider, place) + quote(conversation))


@lru_cache(maxsize=1024)
def _resume_in(provider: str, place: str) -> str:
    # Cached: a cold start needs it for every session, and most folders have several.
    return f"{join(('cd', place))} && {join(_CLIENTS[provider])} "


def command_line(argv: Sequence[str]) -> str:
    """A command as a person types it; a script for a shell is typed without the shell."""
    return argv[2] if len(argv) == 3 and tuple(argv[:2]) == _SHELL else join(argv)


def project_folder(cwd: str) -> str:
    """The name of Claude Code's folder for the conversations that began in `cwd`."""
    return _NOT_ALPHANUMERIC.sub("-", cwd)


@lru_cache(maxsize=1024)
def resume_place(folder: str, *cwds: str | None) -> str | None:
    """Which of the known working directories to start the client in; None if it is unknown.

    `folder` is Claude Code's folder of the log. An agent that changes its directory keeps that folder: the client finds
    the conversation only where it began.
    """
    known = [cwd for cwd in cwds if cwd and _is_typed(cwd)]
    if not folder:
        return next(iter(known), None)
    return next((each for cwd in known for each in _upwards(cwd) if project_folder(each) == folder), None)


def _upwards(cwd: str) -> Iterator[str]:
    while cwd:
        yield cwd
        cwd = cwd.rstrip("/").rpartition("/")[0]


def _is_typed(cwd: str) -> bool:
    """Whether the displayed path is exactly the folder's path."""
    if _SIMPLE.fullmatch(cwd) is not None and len(cwd) <= PATH_CHARS_MAX:
        return True
    return cwd.startswith("/") and plain(redact(cwd), PATH_CHARS_MAX) == cwd
