"""Sets keys in the text of a configuration file and leaves every other line as it is. Pure.

The result is parsed again: if it does not mean what was asked for, the file is refused, never guessed at.
"""

import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

import msgspec

from wakeful.config.load import Document, combine, read_tables
from wakeful.config.schema import KEYS, ConfigError
from wakeful.core.errors import OperatorError

_HEADER: Final = re.compile(r"\s*\[")


class NotEditable(OperatorError, code="not-editable"):
    """{path} is written in a way that Wakeful does not edit. Nothing was changed. Add these lines yourself:\n{lines}"""


class NotMergeable(OperatorError, code="not-mergeable"):
    """{name} cannot be merged: only keys of sections can. Add this table to the file yourself."""


def fragment_values(document: Document, environ: Mapping[str, str]) -> dict[str, Any]:
    """The keys that a fragment sets, with their values as they are written. Raises ConfigError, NotMergeable."""
    combine([document], environ)
    values = _values(document.content)
    for name in values:
        if name not in KEYS:
            raise NotMergeable(name=name)
    return values


def with_values(document: Document, values: Mapping[str, Any], environ: Mapping[str, str]) -> str:
    """The text with these keys set. Raises ConfigError for a broken file, NotEditable for an unusual one."""
    combine([document], environ)
    before = _values(document.content)
    text = document.content.decode()
    newline = "\r\n" if "\r\n" in text else "\n"
    lines = text.splitlines()
    for name, value in values.items():
        if name not in before or before[name] != value:
            lines = _with_value(lines, name, f"{KEYS[name].short} = {toml(value)}")
    after = newline.join((*lines, ""))
    try:
        is_right = _values(after.encode()) == {**before, **values}
    except ConfigError:
        is_right = False
    if not is_right:
        raise NotEditable(
            path=document.path, lines="\n".join(f"{name} = {toml(values[name])}" for name in values)
        )
    return after if lines != text.splitlines() else text


def without_keys(document: Document, names: Collection[str], environ: Mapping[str, str]) -> str:
    """The text without the lines that set these keys. Raises ConfigError, NotEditable."""
    combine([document], environ)
    before = _values(document.content)
    lines = document.content.decode().splitlines(keepends=True)
    for name in names:
        section, _, key = name.rpartition(".")
        bounds = _bounds(lines, section)
        lines = [
            line
            for number, line in enumerate(lines)
            if bounds is None or number not in range(*bounds) or not re.match(rf"\s*{key}\s*=", line)
        ]
    after = "".join(lines)
    try:
        is_right = _values(after.encode()) == {
            key: value for key, value in before.items() if key not in names
        }
    except ConfigError:
        is_right = False
    if not is_right:
        raise NotEditable(path=document.path, lines="\n".join(f"remove {name}" for name in names))
    # A section that was added with the keys goes with them.
    bare = re.sub(r"\n?\[[a-z_.]+\]\n\Z", "", after)
    removed = {name: before[name] for name in names if name in before}
    with_them = with_values(Document(document.path, bare.encode()), removed, environ)
    return bare if with_them.encode() == document.content else after


def toml(value: Any) -> str:
    """A value as TOML writes it: JSON's spelling of strings, numbers, booleans and lists is TOML's too."""
    return msgspec.json.encode(value).decode()


def _values(content: bytes) -> dict[str, Any]:
    return {
        f"{section}.{key}": value
        for section, table in read_tables(content)
        for key, value in (table if isinstance(table, dict) else {"": table}).items()
    }


def _with_value(lines: list[str], name: str, line: str) -> list[str]:
    """Replace the key's line; else add it below its comment, below its section's header, or in a new section."""
    section, _, key = name.rpartition(".")
    bounds = _bounds(lines, section)
    if bounds is None:
        return [*lines, *([""] if lines else []), f"[{section}]", line]
    first, last = bounds
    for pattern, keep in ((rf"\s*{key}\s*=", False), (rf"\s*#\s*{key}\s*=", True)):
        found = next((n for n in range(first, last) if re.match(pattern, lines[n])), None)
        if found is not None:
            return [*lines[: found + keep], line, *lines[found + 1 :]]
    return [*lines[:first], line, *lines[first:]]


def _bounds(lines: Sequence[str], section: str) -> tuple[int, int] | None:
    """The lines below a section's header; None without a header."""
    header = re.compile(rf"\s*\[\s*{re.escape(section)}\s*\]\s*(#.*)?")
    first = next((number for number, line in enumerate(lines, 1) if header.fullmatch(line.rstrip())), None)
    if first is None:
        return None
    return first, next((n for n in range(first, len(lines)) if _HEADER.match(lines[n])), len(lines))
