"""Types and parsers of session ids and conversation ids.

Each id from outside passes one parser. A parsed id contains no path and no control character, and does not
begin with a dash.
"""

import re
from collections.abc import Iterable
from typing import Final, NewType

from wakeful.core.errors import BadSessionId

SESSION_ID_CHARS_MAX: Final = 200
SHOWN_CHARS_MAX: Final = 40
# What precedes the conversation id in the id of a client's session.
PROVIDER_PREFIXES: Final = ("claude-", "codex-")
# A leading dash would read as an option, a leading dot as a hidden or parent folder.
_SESSION_ID: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._:@+-]*\Z")
_UUID: Final = re.compile(r"[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}\Z", re.IGNORECASE | re.ASCII)
# Ids of client sessions, also before they have a conversation.
_CLIENTS_ID: Final = re.compile(
    r"(?:claude|codex)-(?:start-|[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}\Z)", re.IGNORECASE | re.ASCII
)
# Among 2,000 sessions, eight characters of a random id collide once in 2,000 times.
_ID_CHARS_MIN: Final = 8
# A time-ordered id (UUID 7, as Codex makes them) begins with its time: eight characters are a minute, thirteen
# a millisecond.
_TIMED_ID_CHARS_MIN: Final = 13
_RANDOM_ID: Final = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-([0-9a-f])[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}")

ConversationId = NewType("ConversationId", str)
"""The agent program's own id, which `--resume` takes."""

SessionId = NewType("SessionId", str)
"""A supervised session: `claude-<uuid>`, `codex-<uuid>`, or the name of a log folder or file."""


_AGENT_PREFIX: Final = "agent-"


def agent_member_id(name: str) -> SessionId:
    """The id of a hub agent in actions and incidents; the agent may have no session yet."""
    return SessionId(f"{_AGENT_PREFIX}{name}")


def agent_of_member(member_id: SessionId) -> str | None:
    """The hub agent that `agent_member_id` named so; None for a session."""
    return member_id.removeprefix(_AGENT_PREFIX) if member_id.startswith(_AGENT_PREFIX) else None


def parse_session_id(text: str) -> SessionId:
    """Check an id from outside. Raises BadSessionId, which shows 40 characters of it."""
    if len(text) > SESSION_ID_CHARS_MAX or ".." in text or _SESSION_ID.match(text) is None:
        raise BadSessionId(shown=text if len(text) <= SHOWN_CHARS_MAX else f"{text[:SHOWN_CHARS_MAX]}…")
    return SessionId(text)


def parse_log_name(text: str) -> SessionId:
    """The id of a log that any program may write. Raises BadSessionId, also for the id of a client's session."""
    session_id = parse_session_id(text)
    if is_clients_id(session_id):
        raise BadSessionId(shown=text[:SHOWN_CHARS_MAX])
    return session_id


def is_clients_id(session_id: str) -> bool:
    """Whether this is the id of a client's session, which no other log can take."""
    return _CLIENTS_ID.match(session_id) is not None


def is_uuid(text: str) -> bool:
    """Whether this is a UUID with dashes, as both clients name their conversations."""
    return _UUID.match(text) is not None


def abbreviate_ids(session_ids: Iterable[str]) -> dict[str, str]:
    """A prefix for every id that commands accept in its place."""
    ids = sorted(session_ids)
    prefixes = {}
    for index, session_id in enumerate(ids):
        neighbours = (*ids[max(0, index - 1) : index], *ids[index + 1 : index + 2])
        shared = max((common_prefix_chars(session_id, other) for other in neighbours), default=0)
        prefixes[session_id] = session_id[: max(_chars_min(session_id), shared + 1)]
    return prefixes


def _chars_min(session_id: str) -> int:
    prefix, dash, rest = session_id.partition("-")
    found = _RANDOM_ID.fullmatch(rest)
    if found is None:
        # A name, not random characters: only the whole name is readable.
        return len(session_id)
    return len(prefix + dash) + (_TIMED_ID_CHARS_MIN if found[1] == "7" else _ID_CHARS_MIN)


def common_prefix_chars(one: str, other: str) -> int:
    """How many characters both begin with."""
    count = 0
    for a, b in zip(one, other, strict=False):
        if a != b:
            break
        count += 1
    return count
