"""Tables of the configuration whose names people choose: `[agents.NAME]`, `[gateway.chats."KEY"]`."""

from collections.abc import Callable, Iterator
from typing import TypeVar

T = TypeVar("T")

ReadOne = Callable[[str, object, list[str]], T | None]
"""What the table of this name means; whatever is wrong with it is added to the problems."""


def read_named(table: object, refusal: str, read_one: ReadOne[T], problems: list[str]) -> Iterator[T]:
    """What each of the tables means; one with problems is left out. `refusal` is said where they are none."""
    if not isinstance(table, dict):
        problems.append(refusal)
        return
    for name, values in table.items():
        found: list[str] = []
        one = read_one(name, values, found)
        problems += found
        if one is not None and not found:
            yield one
