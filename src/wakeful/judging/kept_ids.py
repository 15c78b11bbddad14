"""Ids of calls and tasks in the form that may be written to disk. Pure.

The agent or its model chose them, so one may hold a secret. They are only compared: such an id becomes a digest.
"""

from collections.abc import Mapping
from hashlib import sha256
from typing import Final, TypeVar

from wakeful.core.redaction import redact

# A cut id may end in half a secret, which is not recognised.
_CHARS_MAX: Final = 64
_DIGEST_CHARS: Final = 32
T = TypeVar("T")


def kept_id(name: str) -> str:
    """The id itself if it is short and holds no secret, else a digest of it."""
    if len(name) <= _CHARS_MAX and redact(name) == name:
        return name
    return sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:_DIGEST_CHARS]


def take(found: dict[str, T], name: str) -> T | None:
    """Remove what has this id, also if it was written to disk in between."""
    value = found.pop(name, None)
    return found.pop(kept_id(name), None) if value is None and found else value


def with_kept_ids(found: Mapping[str, T]) -> dict[str, T]:
    return {kept_id(name): value for name, value in found.items()}
