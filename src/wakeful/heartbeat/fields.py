"""What each field of a HEARTBEAT.md may be. Every refusal names the line and what would be right.

Preferences only: a field that would lend, schedule, allow or own something is refused by its name.
"""

import re
from collections.abc import Callable, Mapping
from datetime import tzinfo
from difflib import get_close_matches
from typing import Any, Final

from wakeful.core.durations import BadDuration, seconds_of
from wakeful.core.text import plain
from wakeful.heartbeat.domain_heartbeat import HeartbeatPolicy, Include, Window
from wakeful.heartbeat.front_matter import Entries, Items, Scalar, Value, Wrong
from wakeful.heartbeat.hours import overlap

SUMMARY_CHARS_MAX: Final = 300
WINDOWS_MAX: Final = 20
_TIME: Final = re.compile(r"([01][0-9]|2[0-3]):[0-5][0-9]\Z")
# Names of offsets stand in the IANA list for old programs' sake; UTC is everybody's.
_FIXED: Final = re.compile(
    r"((etc/)?(utc|gmt))?[+-]?[0-9]|(etc/)?(utc|gmt)[+-]|(est|mst|hst)\Z", re.IGNORECASE
)
_OPERATIONAL: Final = frozenset(
    [
        "agent",
        "agents",
        "cadence",
        "capabilities",
        "claim",
        "claims",
        "cooldown",
        "credentials",
        "cron",
        "env",
        "hooks",
        "interval",
        "lease",
        "leases",
        "model",
        "network",
        "owner",
        "peer",
        "peers",
        "permissions",
        "presence",
        "provider",
        "providers",
        "queue",
        "schedule",
        "scheduler",
        "secrets",
        "session",
        "sessions",
        "task_runs",
        "timeout",
        "tools",
        "workspace",
    ]
)

FindZone = Callable[[str], tzinfo | None]
"""The time zone of an IANA name, or None."""


def policy_of(entries: Entries, body: str, find_zone: FindZone) -> HeartbeatPolicy:
    """The policy these fields amount to. Raises Wrong."""
    known = {
        "version": _version,
        "enabled": _enabled,
        "summary": _summary,
        "preferences": lambda value: _preferences(value, find_zone),
        "context": _context,
    }
    fields = _fields(entries, "", known)
    preferences, include = fields.pop("preferences", {}), fields.pop("context", ())
    return HeartbeatPolicy(body=body, include=include, **fields, **preferences)


def _fields(value: Value, prefix: str, known: Mapping[str, Callable[[Value], Any]]) -> dict[str, Any]:
    """The values of a mapping's fields; unknown ones are refused."""
    if not isinstance(value, Entries):
        raise Wrong(value.line, f"{prefix.rstrip('.')} is made of fields: {', '.join(known)}")
    for name, line in value.lines.items():
        if name not in known:
            raise Wrong(line, _unknown(name, prefix, known))
    return {name: known[name](each) for name, each in value.values.items()}


def _unknown(name: str, prefix: str, known: Mapping[str, object]) -> str:
    shown = plain(f"{prefix}{name}", 60)
    if name.lower() in _OPERATIONAL:
        return f"{shown}: this file says when an agent would like to be woken, and nothing else"
    close = get_close_matches(name, known, n=1)
    meant = f"Did you mean {prefix}{close[0]}?" if close else f"Known: {', '.join(known)}."
    return f"{shown}: unknown. {meant}"


def _version(value: Value) -> int:
    if _plain_text(value) != "1":
        raise Wrong(value.line, "version: 1 is the only one")
    return 1


def _enabled(value: Value) -> bool:
    text = _plain_text(value)
    if text not in ("true", "false"):
        raise Wrong(value.line, "enabled: true or false")
    return text == "true"


def _summary(value: Value) -> str:
    text = _text(value, "summary: a sentence")
    if len(text) > SUMMARY_CHARS_MAX or not text.isprintable():
        raise Wrong(value.line, f"summary: one line of {SUMMARY_CHARS_MAX} visible characters at most")
    return text


def _preferences(value: Value, find_zone: FindZone) -> dict[str, Any]:
    known = {
        "min_interval": _interval,
        "active_hours": lambda each: _windows(each, "active_hours", find_zone),
        "quiet_windows": lambda each: _windows(each, "quiet_windows", find_zone),
    }
    fields = _fields(value, "preferences.", known)
    if "min_interval" in fields:
        fields["min_interval_seconds"] = fields.pop("min_interval")
    return fields


def _interval(value: Value) -> float:
    text = _text(value, 'min_interval: a duration like "30m"')
    try:
        return seconds_of(text)
    except BadDuration as problem:
        raise Wrong(value.line, f"min_interval: {problem}") from problem


def _windows(value: Value, name: str, find_zone: FindZone) -> tuple[Window, ...]:
    if not isinstance(value, Items):
        raise Wrong(value.line, f"{name}: a list of windows, each with timezone, start and end")
    if len(value.values) > WINDOWS_MAX:
        raise Wrong(value.line, f"{name}: {WINDOWS_MAX} windows at most")
    windows: list[Window] = []
    for each in value.values:
        window = _window(each, f"{name}.", find_zone)
        for other in windows:
            if other.timezone == window.timezone and overlap(other, window):
                raise Wrong(
                    each.line, f"{name}: {_shown(window)} overlaps {_shown(other)}; make one window of both"
                )
        windows.append(window)
    return tuple(windows)


def _window(value: Value, prefix: str, find_zone: FindZone) -> Window:
    known: dict[str, Callable[[Value], Any]] = {
        "timezone": lambda each: _zone(each, find_zone),
        "start": lambda each: _time(each, "start"),
        "end": lambda each: _time(each, "end"),
    }
    fields = _fields(value, prefix, known)
    if missing := [name for name in known if name not in fields]:
        raise Wrong(value.line, f"{prefix.rstrip('.')}: {missing[0]} is missing")
    if fields["start"] == fields["end"]:
        raise Wrong(
            value.line, f"{prefix.rstrip('.')}: start and end are the same: it holds never, or always"
        )
    return Window(**fields)


def _zone(value: Value, find_zone: FindZone) -> str:
    name = _bare(value, "timezone: a name like Europe/Berlin")
    if _FIXED.match(name):
        raise Wrong(
            value.line,
            f"timezone: {plain(name, 40)} is a fixed offset, which knows no summer time; name a place",
        )
    if find_zone(name) is None:
        raise Wrong(
            value.line, f"timezone: {plain(name, 40)} is no name of the IANA list, like Europe/Berlin"
        )
    return name


def _time(value: Value, name: str) -> str:
    text = _bare(value, f"{name}: a time like 22:00")
    if not _TIME.match(text):
        raise Wrong(value.line, f"{name}: {plain(text, 20)} is not a time from 00:00 to 23:59")
    return text


def _context(value: Value) -> tuple[Include, ...]:
    included = _fields(value, "context.", {"include": _include}).get("include", ())
    return tuple(included)


def _include(value: Value) -> tuple[Include, ...]:
    allowed = ", ".join(Include)
    if not isinstance(value, Items):
        raise Wrong(value.line, f"include: a list of {allowed}")
    found: list[Include] = []
    for each in value.values:
        text = _text(each, f"include: one of {allowed}")
        if text not in set(Include):
            raise Wrong(each.line, f"include: {plain(text, 40)} is none of {allowed}")
        if text in found:
            raise Wrong(each.line, f"include: {text} stands here twice")
        found.append(Include(text))
    return tuple(found)


def _text(value: Value, expected: str) -> str:
    """One word or sentence; the nothing of an empty field is none."""
    if not isinstance(value, Scalar) or (not value.quoted and value.text in ("", "~", "null")):
        raise Wrong(value.line, expected)
    return value.text


def _bare(value: Value, expected: str) -> str:
    """One word; blanks inside its quotes would not be seen in a refusal."""
    text = _text(value, expected)
    if text != text.strip():
        raise Wrong(value.line, f"{expected}, without blanks around it")
    return text


def _plain_text(value: Value) -> str | None:
    return value.text if isinstance(value, Scalar) and not value.quoted else None


def _shown(window: Window) -> str:
    return f"{window.start} to {window.end}"
