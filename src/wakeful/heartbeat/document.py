"""Parses HEARTBEAT.md: strict YAML front matter, its fields, and the Markdown guidance.

The YAML reader returns every value with its line. It refuses anchors, aliases, tags, several documents,
duplicate keys, tabs and deep nesting while it reads, so nothing is ever expanded. Every refusal names the line
and the right form. Fields are preferences only: a field that would grant, schedule, allow or own something is
refused by name.
"""

import re
from collections.abc import Callable, Mapping
from datetime import tzinfo
from difflib import get_close_matches
from typing import Any, Final

import yaml  # type: ignore[import-untyped]
from msgspec import Struct

from wakeful.core.durations import BadDuration, parse_duration
from wakeful.core.text import plain
from wakeful.heartbeat.policy import Bounds, HeartbeatInvalid, HeartbeatPolicy, Include, Window, overlap

DEPTH_MAX: Final = 5
# YAML counts them as line breaks and editors do not: line numbers after one would be wrong.
_SEPARATORS: Final = "\u2028\u2029"
# The opening `---` is the file's first line.
FIRST_LINE: Final = 2


class BadDocument(Exception):
    """A line of a file, and its error."""

    def __init__(self, line: int, reason: str) -> None:
        self.line = line
        self.reason = reason
        super().__init__(f"{line}: {reason}")


class YamlScalar(Struct, frozen=True):
    """A value as written; `quoted` distinguishes "5" from 5."""

    line: int
    text: str
    quoted: bool


class YamlMapping(Struct, frozen=True):
    """A mapping in file order, with the line of each key."""

    line: int
    values: "dict[str, YamlValue]"
    lines: dict[str, int]


class YamlList(Struct, frozen=True):
    line: int
    values: "tuple[YamlValue, ...]"


YamlValue = YamlScalar | YamlMapping | YamlList


def read_front_matter(text: str) -> YamlMapping:
    """The mapping of a front matter. Raises BadDocument with the line of the file."""
    for number, line in enumerate(text.split("\n"), FIRST_LINE):
        if "\t" in line:
            raise BadDocument(number, "a tab: YAML is indented by spaces, and it is not needed here")
        if any(each in line for each in _SEPARATORS):
            raise BadDocument(number, "a line or paragraph separator (U+2028, U+2029): no line ends there")
    try:
        loader = yaml.SafeLoader(text)
    except yaml.reader.ReaderError as problem:
        number = FIRST_LINE + text.count("\n", 0, problem.position)
        raise BadDocument(
            number, f"not YAML: U+{ord(text[problem.position]):04X} is not a character"
        ) from problem
    try:
        return _YamlReader(loader).document()
    except yaml.MarkedYAMLError as problem:
        mark = problem.problem_mark or problem.context_mark
        raise BadDocument(
            FIRST_LINE + (mark.line if mark else 0),
            f"not YAML: {plain(problem.problem or str(problem), 200)}",
        ) from problem
    except (ValueError, OverflowError) as problem:
        # PyYAML accepts every \\U escape as a character.
        raise BadDocument(FIRST_LINE + loader.line, "not YAML: an escape beyond U+10FFFF") from problem
    finally:
        loader.dispose()


class _YamlReader:
    """Reads the parser's events in one pass."""

    def __init__(self, loader: Any) -> None:
        self._loader = loader

    def document(self) -> YamlMapping:
        self._next_event()
        event = self._next_event()
        if isinstance(event, yaml.StreamEndEvent):
            return YamlMapping(FIRST_LINE, {}, {})
        event = self._next_event()
        if isinstance(event, yaml.ScalarEvent) and event.value == "" and not event.style:
            value: YamlValue = YamlMapping(FIRST_LINE, {}, {})
        else:
            value = self._value(event, 1)
        self._next_event()
        following = self._next_event()
        if not isinstance(following, yaml.StreamEndEvent):
            raise BadDocument(_line(following), "a second YAML document")
        if not isinstance(value, YamlMapping):
            raise BadDocument(value.line, "front matter is made of fields, `name: value`")
        return value

    def _next_event(self) -> Any:
        event = self._loader.get_event()
        if isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None) is not None:
            raise BadDocument(_line(event), "anchors and aliases are not allowed")
        if getattr(event, "tag", None) is not None:
            raise BadDocument(_line(event), "tags are not allowed")
        return event

    def _value(self, event: Any, depth: int) -> YamlValue:
        if depth > DEPTH_MAX:
            raise BadDocument(_line(event), f"nested deeper than {DEPTH_MAX}")
        if isinstance(event, yaml.ScalarEvent):
            return YamlScalar(_line(event), event.value, bool(event.style))
        if isinstance(event, yaml.SequenceStartEvent):
            return self._items(_line(event), depth)
        return self._entries(_line(event), depth)

    def _items(self, line: int, depth: int) -> YamlList:
        values: list[YamlValue] = []
        while not isinstance(event := self._next_event(), yaml.SequenceEndEvent):
            values.append(self._value(event, depth + 1))
        return YamlList(line, tuple(values))

    def _entries(self, line: int, depth: int) -> YamlMapping:
        values: dict[str, YamlValue] = {}
        lines: dict[str, int] = {}
        while not isinstance(event := self._next_event(), yaml.MappingEndEvent):
            if not isinstance(event, yaml.ScalarEvent):
                raise BadDocument(_line(event), "a field's name is one word")
            if event.value in values:
                raise BadDocument(_line(event), f"{plain(event.value, 40)} is here twice")
            lines[event.value] = _line(event)
            values[event.value] = self._value(self._next_event(), depth + 1)
        return YamlMapping(line, values, lines)


def _line(event: Any) -> int:
    return FIRST_LINE + int(event.start_mark.line)


SUMMARY_CHARS_MAX: Final = 300
WINDOWS_MAX: Final = 20
_TIME: Final = re.compile(r"([01][0-9]|2[0-3]):[0-5][0-9]\Z")
# The IANA list has names of fixed offsets for old programs; plain UTC is allowed.
_FIXED: Final = re.compile(
    r"((etc/)?(utc|gmt))?[+-]?[0-9]|(etc/)?(utc|gmt)[+-]|(est|mst|hst)\Z", re.IGNORECASE
)
_OPERATIONAL: Final = re.compile(
    r"agents?|cadence|capabilities|claims?|cooldown|credentials|cron|env|hooks|interval|leases?|model|network|owner"
    r"|peers?|permissions|presence|providers?|queue|scheduler?|secrets|sessions?|task_runs|timeout|tools|workspace"
)

FindZone = Callable[[str], tzinfo | None]
"""The time zone of an IANA name, or None."""


def policy_of(entries: YamlMapping, body: str, find_zone: FindZone) -> HeartbeatPolicy:
    """The policy of these fields. Raises BadDocument."""
    readers = {
        "version": _version,
        "enabled": _enabled,
        "summary": _summary,
        "preferences": lambda value: _preferences(value, find_zone),
        "context": _context,
    }
    fields = _fields(entries, "", readers)
    preferences, include = fields.pop("preferences", {}), fields.pop("context", ())
    return HeartbeatPolicy(body=body, include=include, **fields, **preferences)


def _fields(value: YamlValue, prefix: str, known: Mapping[str, Callable[[YamlValue], Any]]) -> dict[str, Any]:
    """The values of a mapping's fields; unknown ones are refused."""
    if not isinstance(value, YamlMapping):
        raise BadDocument(value.line, f"{prefix.rstrip('.')} is made of fields: {', '.join(known)}")
    for name, line in value.lines.items():
        if name not in known:
            raise BadDocument(line, _unknown(name, prefix, known))
    return {name: known[name](each) for name, each in value.values.items()}


def _unknown(name: str, prefix: str, known: Mapping[str, object]) -> str:
    shown = plain(f"{prefix}{name}", 60)
    if _OPERATIONAL.fullmatch(name.lower()) is not None:
        return f"{shown}: this file may only say when to wake an agent"
    close = get_close_matches(name, known, n=1)
    meant = f"Did you mean {prefix}{close[0]}?" if close else f"Known: {', '.join(known)}."
    return f"{shown}: unknown. {meant}"


def _version(value: YamlValue) -> int:
    if _plain_text(value) != "1":
        raise BadDocument(value.line, "version: 1 is the only one")
    return 1


def _enabled(value: YamlValue) -> bool:
    text = _plain_text(value)
    if text not in ("true", "false"):
        raise BadDocument(value.line, "enabled: true or false")
    return text == "true"


def _summary(value: YamlValue) -> str:
    text = _text(value, "summary: a sentence")
    if len(text) > SUMMARY_CHARS_MAX or not text.isprintable():
        raise BadDocument(value.line, f"summary: one line of {SUMMARY_CHARS_MAX} visible characters at most")
    return text


def _preferences(value: YamlValue, find_zone: FindZone) -> dict[str, Any]:
    known = {
        "min_interval": _interval,
        "active_hours": lambda each: _windows(each, "active_hours", find_zone),
        "quiet_windows": lambda each: _windows(each, "quiet_windows", find_zone),
    }
    fields = _fields(value, "preferences.", known)
    if "min_interval" in fields:
        fields["min_interval_seconds"] = fields.pop("min_interval")
    return fields


def _interval(value: YamlValue) -> float:
    text = _text(value, 'min_interval: a duration like "30m"')
    try:
        return parse_duration(text)
    except BadDuration as problem:
        raise BadDocument(value.line, f"min_interval: {problem}") from problem


def _windows(value: YamlValue, name: str, find_zone: FindZone) -> tuple[Window, ...]:
    if not isinstance(value, YamlList):
        raise BadDocument(value.line, f"{name}: a list of windows, each with timezone, start and end")
    if len(value.values) > WINDOWS_MAX:
        raise BadDocument(value.line, f"{name}: {WINDOWS_MAX} windows at most")
    windows: list[Window] = []
    for each in value.values:
        window = _window(each, f"{name}.", find_zone)
        for other in windows:
            if other.timezone == window.timezone and overlap(other, window):
                raise BadDocument(
                    each.line,
                    f"{name}: {_window_text(window)} overlaps {_window_text(other)}; merge them into one window",
                )
        windows.append(window)
    return tuple(windows)


def _window(value: YamlValue, prefix: str, find_zone: FindZone) -> Window:
    known: dict[str, Callable[[YamlValue], Any]] = {
        "timezone": lambda each: _zone(each, find_zone),
        "start": lambda each: _time(each, "start"),
        "end": lambda each: _time(each, "end"),
    }
    fields = _fields(value, prefix, known)
    if missing := [name for name in known if name not in fields]:
        raise BadDocument(value.line, f"{prefix.rstrip('.')}: {missing[0]} is missing")
    if fields["start"] == fields["end"]:
        raise BadDocument(
            value.line,
            f"{prefix.rstrip('.')}: start and end are the same: the window would be empty or endless",
        )
    return Window(**fields)


def _zone(value: YamlValue, find_zone: FindZone) -> str:
    name = _single_word(value, "timezone: a name like Europe/Berlin")
    if _FIXED.match(name):
        raise BadDocument(
            value.line,
            f"timezone: {plain(name, 40)} is a fixed offset without summer time; use a place",
        )
    if find_zone(name) is None:
        raise BadDocument(
            value.line, f"timezone: {plain(name, 40)} is not in the IANA list; use a name like Europe/Berlin"
        )
    return name


def _time(value: YamlValue, name: str) -> str:
    text = _single_word(value, f"{name}: a time like 22:00")
    if not _TIME.match(text):
        raise BadDocument(value.line, f"{name}: {plain(text, 20)} is not a time from 00:00 to 23:59")
    return text


def _context(value: YamlValue) -> tuple[Include, ...]:
    include: tuple[Include, ...] = _fields(value, "context.", {"include": _include}).get("include", ())
    return include


def _include(value: YamlValue) -> tuple[Include, ...]:
    allowed = ", ".join(Include)
    if not isinstance(value, YamlList):
        raise BadDocument(value.line, f"include: a list of {allowed}")
    found: list[Include] = []
    for each in value.values:
        text = _text(each, f"include: one of {allowed}")
        if text not in set(Include):
            raise BadDocument(each.line, f"include: {plain(text, 40)} is none of {allowed}")
        if text in found:
            raise BadDocument(each.line, f"include: {text} is listed twice")
        found.append(Include(text))
    return tuple(found)


def _text(value: YamlValue, expected: str) -> str:
    """A word or sentence; an empty or null field is refused."""
    if not isinstance(value, YamlScalar) or (not value.quoted and value.text in ("", "~", "null")):
        raise BadDocument(value.line, expected)
    return value.text


def _single_word(value: YamlValue, expected: str) -> str:
    """A value without blanks around it: blanks inside quotes would be invisible in an error."""
    text = _text(value, expected)
    if text != text.strip():
        raise BadDocument(value.line, f"{expected}, without blanks around it")
    return text


def _plain_text(value: YamlValue) -> str | None:
    return value.text if isinstance(value, YamlScalar) and not value.quoted else None


def _window_text(window: Window) -> str:
    return f"{window.start} to {window.end}"


# Every field with twenty windows of each kind has 3 KB; reading this much takes 10 ms.
FRONT_MATTER_BYTES_MAX: Final = 4 * 1024
_FENCE: Final = "---"
_NO_FIELDS: Final = YamlMapping(1, {}, {})


def parse(content: bytes, path: str, bounds: Bounds, find_zone: FindZone) -> HeartbeatPolicy:
    """The policy of a file, not yet clamped to the bounds. Raises HeartbeatInvalid with file, line and reason."""
    try:
        text = _decode_text(content)
        front, body, first = _split_front_matter(text)
        entries = _NO_FIELDS if front is None else read_front_matter(front)
        return policy_of(entries, _guidance(body, first, bounds), find_zone)
    except BadDocument as wrong:
        raise HeartbeatInvalid(file=plain(path), line=wrong.line, reason=wrong.reason) from wrong


def bytes_max(bounds: Bounds) -> int:
    """The largest size of a file: twice the bound of the guidance, because normalising line breaks can shorten it."""
    return 2 * bounds.body_bytes_max + FRONT_MATTER_BYTES_MAX


def _decode_text(content: bytes) -> str:
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as problem:
        raise BadDocument(content.count(b"\n", 0, problem.start) + 1, "not text in UTF-8") from problem
    text = text.replace("\r\n", "\n")
    for number, line in enumerate(text.split("\n"), 1):
        if not line.replace("\t", " ").isprintable() and (odd := _control(line)) is not None:
            raise BadDocument(number, f"a control character (U+{ord(odd):04X}): this is not text")
    return text


def _control(line: str) -> str | None:
    """The first control character that is not a tab."""
    return next((each for each in line if (each < " " and each != "\t") or "\x7f" <= each <= "\x9f"), None)


def _split_front_matter(text: str) -> tuple[str | None, str, int]:
    """Front matter, guidance, and the line of the file where the guidance begins."""
    lines = text.split("\n")
    if lines[0].rstrip() != _FENCE:
        _refuse_late_fence(lines)
        return None, text, 1
    end = next((at for at in range(1, len(lines)) if lines[at].rstrip() == _FENCE), None)
    if end is None:
        raise BadDocument(1, "front matter begins here and has no end: a line with --- is missing")
    front = "\n".join(lines[1:end])
    if len(front.encode()) > FRONT_MATTER_BYTES_MAX:
        raise BadDocument(FIRST_LINE, f"front matter of more than {FRONT_MATTER_BYTES_MAX} bytes")
    return front, "\n".join(lines[end + 1 :]), end + 2


def _refuse_late_fence(lines: list[str]) -> None:
    """Refuse a fence that is not in the first line: its fields, such as quiet hours, would count as guidance."""
    for number, line in enumerate(lines, 1):
        text = line.strip("\ufeff \t")
        if text and not text.strip("-") and len(text) >= len(_FENCE):
            raise BadDocument(
                number, "the first line is neither --- alone (front matter) nor text (guidance)"
            )
        if text:
            return


def _guidance(body: str, first: int, bounds: Bounds) -> str:
    """The body without blank lines around it and without trailing blanks."""
    lines = [line.rstrip() for line in body.split("\n")]
    length = 0
    for number, line in enumerate(lines, first):
        length += len(line.encode()) + 1
        if length > bounds.body_bytes_max:
            raise BadDocument(number, f"more than {bounds.body_bytes_max} bytes of guidance (max_body_bytes)")
    return "\n".join(lines).strip("\n")
