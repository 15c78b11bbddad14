"""Parses configuration tables whose names people choose: `[agents.NAME]`, `[gateway.chats."KEY"]`."""

from collections.abc import Callable, Iterator, Mapping
from difflib import get_close_matches
from typing import Annotated, Any, TypeVar

import msgspec
from msgspec import Meta, Struct

from wakeful.core.text import plain

T = TypeVar("T")

FolderPath = Annotated[str, Meta(pattern=r"^((/|~/)[^\x00\n\r]*)?$", max_length=4096)]

ReadOne = Callable[[str, object, list[str]], T | None]
"""Parses the table of this name; adds its errors to the list of problems."""

KeyOrigin = Callable[[str, str], str]
"""The place of a named table's key, as `file:line`."""

Expand = Callable[[str], str]
"""A path with its ~ resolved."""


class TableKey(Struct, frozen=True):
    kind: Any
    default: Any
    allowed: str
    meaning: str


def read_named_tables(table: object, refusal: str, read_one: ReadOne[T], problems: list[str]) -> Iterator[T]:
    """Parse each table; one with problems is left out. `refusal` is the problem if `table` holds no tables."""
    if not isinstance(table, dict):
        problems.append(refusal)
        return
    for name, values in table.items():
        found: list[str] = []
        one = read_one(name, values, found)
        problems += found
        if one is not None and not found:
            yield one


def check_value(keys: Mapping[str, TableKey], name: str, value: object, values: dict[str, Any]) -> str | None:
    """Put a checked value into `values`, or return the problem with it."""
    known = keys.get(name)
    shown = plain(name, 60)
    if known is None:
        close = get_close_matches(name, keys, n=1)
        meant = f"Did you mean {close[0]}?" if close else f"Known: {', '.join(keys)}."
        return f"{shown}: unknown. {meant}"
    try:
        values[name] = msgspec.convert(value, known.kind)
    except msgspec.ValidationError:
        written = str(value).lower() if isinstance(value, bool) else plain(repr(value), 60)
        return f"{shown}: {written} is not {known.allowed}"
    return None
