"""YAML front matter as a tree whose every value knows its line. The strict part of YAML, and nothing of the rest.

Anchors, aliases, tags, several documents, keys that stand twice, tabs and deep nesting are refused as they are met, so
that nothing is ever expanded. What the values mean is not known here.
"""

from typing import Any, Final

import yaml  # type: ignore[import-untyped]
from msgspec import Struct

from wakeful.core.text import plain

DEPTH_MAX: Final = 5
# YAML counts them as line breaks and nobody else does: no line after one would have its number.
_SEPARATORS: Final = "\u2028\u2029"
# The opening `---` is the file's first line.
FIRST_LINE: Final = 2


class Wrong(Exception):
    """A line of a file, and what is wrong with it."""

    def __init__(self, line: int, reason: str) -> None:
        self.line = line
        self.reason = reason
        super().__init__(f"{line}: {reason}")


class Scalar(Struct, frozen=True):
    """One value as it is written; `quoted` tells "5" from 5."""

    line: int
    text: str
    quoted: bool


class Entries(Struct, frozen=True):
    """A mapping, in its order."""

    line: int
    values: "dict[str, Value]"
    lines: dict[str, int]


class Items(Struct, frozen=True):
    """A list."""

    line: int
    values: "tuple[Value, ...]"


Value = Scalar | Entries | Items


def read(text: str) -> Entries:
    """The mapping of a front matter. Raises Wrong with the line of the file."""
    for number, line in enumerate(text.split("\n"), FIRST_LINE):
        if "\t" in line:
            raise Wrong(number, "a tab: YAML is indented by spaces, and nothing here needs one")
        if any(each in line for each in _SEPARATORS):
            raise Wrong(number, "a line or paragraph separator (U+2028, U+2029): no line ends there")
    try:
        loader = yaml.SafeLoader(text)
    except yaml.reader.ReaderError as problem:
        number = FIRST_LINE + text.count("\n", 0, problem.position)
        raise Wrong(number, f"not YAML: U+{ord(text[problem.position]):04X} is no character") from problem
    try:
        return _Reading(loader).document()
    except yaml.MarkedYAMLError as problem:
        mark = problem.problem_mark or problem.context_mark
        raise Wrong(
            FIRST_LINE + (mark.line if mark else 0),
            f"not YAML: {plain(problem.problem or str(problem), 200)}",
        ) from problem
    except (ValueError, OverflowError) as problem:
        # PyYAML takes every \\U for a character.
        raise Wrong(FIRST_LINE + loader.line, "not YAML: an escape beyond U+10FFFF") from problem
    finally:
        loader.dispose()


class _Reading:
    """One pass over the parser's events."""

    def __init__(self, loader: Any) -> None:
        self._loader = loader

    def document(self) -> Entries:
        self._take()
        event = self._take()
        if isinstance(event, yaml.StreamEndEvent):
            return Entries(FIRST_LINE, {}, {})
        event = self._take()
        if isinstance(event, yaml.ScalarEvent) and event.value == "" and not event.style:
            value: Value = Entries(FIRST_LINE, {}, {})
        else:
            value = self._value(event, 1)
        self._take()
        following = self._take()
        if not isinstance(following, yaml.StreamEndEvent):
            raise Wrong(_line(following), "a second YAML document")
        if not isinstance(value, Entries):
            raise Wrong(value.line, "front matter is made of fields, `name: value`")
        return value

    def _take(self) -> Any:
        event = self._loader.get_event()
        if isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None) is not None:
            raise Wrong(_line(event), "anchors and aliases are not allowed")
        if getattr(event, "tag", None) is not None:
            raise Wrong(_line(event), "tags are not allowed")
        return event

    def _value(self, event: Any, depth: int) -> Value:
        if depth > DEPTH_MAX:
            raise Wrong(_line(event), f"nested deeper than {DEPTH_MAX}")
        if isinstance(event, yaml.ScalarEvent):
            return Scalar(_line(event), event.value, bool(event.style))
        if isinstance(event, yaml.SequenceStartEvent):
            return self._items(_line(event), depth)
        return self._entries(_line(event), depth)

    def _items(self, line: int, depth: int) -> Items:
        values: list[Value] = []
        while not isinstance(event := self._take(), yaml.SequenceEndEvent):
            values.append(self._value(event, depth + 1))
        return Items(line, tuple(values))

    def _entries(self, line: int, depth: int) -> Entries:
        values: dict[str, Value] = {}
        lines: dict[str, int] = {}
        while not isinstance(event := self._take(), yaml.MappingEndEvent):
            if not isinstance(event, yaml.ScalarEvent):
                raise Wrong(_line(event), "a field's name is one word")
            if event.value in values:
                raise Wrong(_line(event), f"{plain(event.value, 40)} stands here twice")
            lines[event.value] = _line(event)
            values[event.value] = self._value(self._take(), depth + 1)
        return Entries(line, values, lines)


def _line(event: Any) -> int:
    return FIRST_LINE + int(event.start_mark.line)
