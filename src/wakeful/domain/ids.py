"""Ids are types with one door each. A value of these types never holds a path, a control character or a dash first."""

import re
from typing import Final, NewType

from wakeful.domain.errors import BadSessionId

SESSION_ID_CHARS_MAX: Final = 200
SHOWN_CHARS_MAX: Final = 40
# A leading dash would read as an option, a leading dot as a hidden or parent folder.
_SESSION_ID: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._:@+-]*\Z")
_UUID: Final = re.compile(r"[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}\Z", re.IGNORECASE | re.ASCII)

ConversationId = NewType("ConversationId", str)
"""The agent program's own id, what `--resume` takes."""


SessionId = NewType("SessionId", str)
"""What Wakeful supervises: `claude-<uuid>`, `codex-<uuid>`, or the name of a log folder or file."""


def parse_session_id(text: str) -> SessionId:
    """The one door for ids from outside: accept `text` or raise BadSessionId, which shows 40 characters of it."""
    if len(text) > SESSION_ID_CHARS_MAX or ".." in text or _SESSION_ID.match(text) is None:
        shown = text if len(text) <= SHOWN_CHARS_MAX else f"{text[:SHOWN_CHARS_MAX]}…"
        raise BadSessionId(shown=shown)
    return SessionId(text)


def is_uuid(text: str) -> bool:
    """Whether this is a UUID in its usual spelling; both clients name their conversations so."""
    return _UUID.match(text) is not None
