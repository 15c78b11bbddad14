"""Edits JSON text and leaves every other byte as it is. Pure.

Order, indentation and the spelling of numbers and strings stay. It is strict: comments, trailing commas and
duplicate names are refused, never guessed at.
"""

import json
import re
from typing import Any, Final

from msgspec import Struct

from wakeful.core.errors import OperatorError

# Only for texts that `parse` accepted.
_DECODER: Final = json.JSONDecoder()  # noqa: TID251
_SPACE: Final = re.compile(r"[ \t\n\r]*")


class NotPlainJson(OperatorError, code="not-plain-json"):
    """Not plain JSON: {reason}."""


class JsonPart(Struct, frozen=True):
    """A member of an object or an element of an array: from `start` (of the name, if it has one) to `end`."""

    start: int
    value: int
    end: int
    name: str = ""


class JsonContainer(Struct, frozen=True):
    """An object or array in a text: its brackets are at `start` and `end - 1`."""

    start: int
    end: int
    parts: tuple[JsonPart, ...]

    def find(self, name: str) -> JsonPart | None:
        return next((part for part in self.parts if part.name == name), None)


def parse(text: str) -> Any:
    """The value of the text. Raises NotPlainJson."""
    if not text.strip():
        raise NotPlainJson(reason="the file is empty")
    try:
        # Only the standard library reports a duplicate key, which an edit would get wrong.
        return json.loads(text, object_pairs_hook=_refuse_duplicate_keys, parse_constant=_refuse)  # noqa: TID251
    except (ValueError, RecursionError) as problem:
        raise NotPlainJson(reason=str(problem) or "nested too deep") from problem


def _refuse_duplicate_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        raise ValueError("a name occurs twice in one object")
    return members


def _refuse(constant: str) -> Any:
    raise ValueError(f"{constant} is not a JSON number")


def container_at(text: str, start: int) -> JsonContainer | None:
    """The object or array at `start` of a text that `parse` accepted; None for any other value."""
    if text[start] not in "{[":
        return None
    close = "}" if text[start] == "{" else "]"
    parts = []
    at = _skip(text, start + 1)
    while text[at] != close:
        part = _part(text, at, named=close == "}")
        parts.append(part)
        at = _skip(text, part.end)
        at = _skip(text, at + 1) if text[at] == "," else at
    return JsonContainer(start, at + 1, tuple(parts))


def root_of(text: str) -> JsonContainer | None:
    return container_at(text, _skip(text, 0))


def _part(text: str, at: int, *, named: bool) -> JsonPart:
    name, value = "", at
    if named:
        name, after = _DECODER.raw_decode(text, at)
        value = _skip(text, _skip(text, after) + 1)
    _, end = _DECODER.raw_decode(text, value)
    return JsonPart(at, value, end, name)


def _skip(text: str, at: int) -> int:
    spaces = _SPACE.match(text, at)
    assert spaces is not None, "the pattern matches the empty string, too"
    return spaces.end()


def append_part(text: str, container: JsonContainer, part: str, depth: int) -> str:
    """The text with one more part at the end of the container, laid out like its neighbours.

    `part` is indented by two spaces for each level; `depth` is its level in the text.
    """
    unit, newline = indentation(text)
    if container.parts:
        last = container.parts[-1]
        before = text[: last.start]
        lead = before[len(before.rstrip(" \t\r\n")) :]
        return f"{text[: last.end]},{_layout_part(part, lead, unit)}{text[last.end :]}"
    inside = text[container.start + 1 : container.end - 1]
    lead = newline + unit * depth
    behind = "" if "\n" in inside else newline + unit * (depth - 1)
    at = container.start + 1
    return f"{text[:at]}{_layout_part(part, lead, unit)}{behind}{text[at:]}"


def _layout_part(part: str, lead: str, unit: str) -> str:
    """The part after its leading space; on one line if its neighbours are."""
    if "\n" not in lead:
        return " " + re.sub(r"\n *", " ", part)
    newline = "\r\n" if "\r\n" in lead else "\n"
    column = lead.rpartition("\n")[2]
    first, *rest = part.split("\n")
    bare = [line.lstrip(" ") for line in rest]
    levels = [(len(line) - len(text)) // 2 for line, text in zip(rest, bare, strict=True)]
    lines = [column + unit * level + text for level, text in zip(levels, bare, strict=True)]
    return lead + newline.join([first, *lines])


def indentation(text: str) -> tuple[str, str]:
    """The unit of indentation and the line end of a text; two spaces and a newline by default."""
    newline = "\r\n" if "\r\n" in text else "\n"
    found = re.search(r"\n([ \t]+)\S", text)
    return (found[1] if found else "  "), newline


def remove_part(text: str, container: JsonContainer, part: JsonPart) -> str:
    """The text without one part of the container, and without the comma and the space before it."""
    at = container.parts.index(part)
    if at > 0:
        return text[: container.parts[at - 1].end] + text[part.end :]
    if len(container.parts) > 1:
        return text[: part.start] + text[container.parts[1].start :]
    return text[: container.start + 1] + text[container.end - 1 :]
