"""Loads the configuration from TOML files and the environment.

All problems are found in one pass and reported with file, line and key. Callers decide which files are read
and whether they are trusted. No file is written.
"""

import errno
import os
import re
import stat
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from difflib import get_close_matches
from typing import Any, Final

import msgspec
from msgspec import Struct

from wakeful.config.gateway import CHATS, PROVIDER_SECTIONS, UserIds, read_chats
from wakeful.config.heartbeat import Duration
from wakeful.config.schema import (
    AGENTS_SECTION as AGENTS,
    CONFIGURED_UNDER,
    KEYS,
    LISTS,
    OPEN_TABLES,
    SECTIONS,
    Config,
    ConfigError,
    ConfigKey,
    HomeMissing,
    field_of,
    provider_of,
    read_agents,
)
from wakeful.core.decoding import decode_json, decode_toml
from wakeful.core.durations import BadDuration, parse_duration
from wakeful.core.text import plain

# The default file with every key has 3 KB.
FILE_BYTES_MAX: Final = 1_048_576
_PREFIX: Final = "WAKEFUL_"
_NOT_IN_NAMES: Final = re.compile(r"""["'\s]""")


class Document(Struct, frozen=True):
    path: str
    content: bytes


class LoadedConfig(Struct, frozen=True):
    """The configuration, the origin of each key's value, and the files that were read, the last one first."""

    config: Config
    origins: dict[str, str]
    files: tuple[str, ...] = ()


# By table and name: the parsed value, and the origins of the table and of each of its keys.
_NamedTables = dict[str, dict[str, tuple[Any, dict[str, str]]]]


class _Setting(Struct, frozen=True):
    key: str
    value: Any
    origin: str
    from_text: bool = False


def load(path: str | None, environ: Mapping[str, str]) -> Config:
    """The configuration from the environment and at most one file. Raises ConfigError."""
    documents = [] if path is None else [Document(path, read_file(path))]
    return combine(documents, environ).config


def absolute_paths(files: Iterable[str]) -> tuple[str, ...]:
    return tuple(os.path.abspath(each) for each in files)  # noqa: PTH100 - a link stays a link


def read_file(path: str, *, follow_symlink: bool = True) -> bytes:
    """The bytes of a regular file of sensible size. Raises ConfigError."""
    follow = 0 if follow_symlink else os.O_NOFOLLOW
    try:
        # Opening a FIFO would wait for its writer.
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | follow)
        with os.fdopen(descriptor, "rb") as file:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise ConfigError(problems=f"{plain(path)}: not a regular file")
            content = file.read(FILE_BYTES_MAX + 1)
    except OSError as problem:
        reason = problem.strerror
        if problem.errno == errno.ELOOP and not follow_symlink:
            reason = "a symbolic link: not followed, because it could expose any of your files"
        raise ConfigError(problems=f"{plain(path)}: {reason}") from problem
    if len(content) > FILE_BYTES_MAX:
        raise ConfigError(problems=f"{plain(path)}: larger than {FILE_BYTES_MAX} bytes")
    return content


def combine(documents: Sequence[Document], environ: Mapping[str, str]) -> LoadedConfig:
    """Merge defaults, documents in their order, and the environment; the later value wins.

    Raises ConfigError with every problem, one per line.
    """
    problems: list[str] = []
    named: _NamedTables = {table: {} for table in OPEN_TABLES}
    settings = [
        each for document in documents for each in _document_settings(document, environ, named, problems)
    ]
    settings += _environ_settings(environ)
    values = {name: key.default for name, key in KEYS.items()}
    origins = dict.fromkeys(KEYS, "default")
    for setting in settings:
        try:
            values[setting.key] = _check_setting(setting, environ)
            origins[setting.key] = setting.origin
        except ConfigError as problem:
            problems.append(str(problem))
    if problems:
        raise ConfigError(problems="\n".join(problems))
    for table, entries in named.items():
        for name, (_, places) in entries.items():
            origins |= {f"{table}.{name}{f'.{key}' if key else ''}": place for key, place in places.items()}
    values |= {name: values[other] for name, other in CONFIGURED_UNDER.items()}
    fields: dict[str, Any] = {
        field_of(name): _section(name, values) for name in SECTIONS if name not in PROVIDER_SECTIONS
    }
    fields["gateway_providers"] = {provider_of(each): _section(each, values) for each in PROVIDER_SECTIONS}
    fields |= {field_of(table): tuple(each for each, _ in of.values()) for table, of in named.items()}
    return LoadedConfig(Config(**fields), origins, tuple(each.path for each in reversed(documents)))


def _section(name: str, values: Mapping[str, Any]) -> Any:
    parts = ((key.rpartition("."), value) for key, value in values.items())
    return SECTIONS[name](**{short: value for (section, _, short), value in parts if section == name})


def _document_settings(
    document: Document, environ: Mapping[str, str], named: _NamedTables, problems: list[str]
) -> Iterator[_Setting]:
    """The settings of a file; its agents and chats are added to `named`, its problems to `problems`."""
    shown = plain(document.path)
    try:
        text, tables = _parse_toml(document.content)
    except ConfigError as problem:
        problems.append(f"{shown}:{problem}")
        return
    lines = dict(_key_lines(text))
    for section, table in _sections(tables):
        origin = _origin(shown, lines, section)
        if section in OPEN_TABLES:
            named[section] |= _read_named_tables(section, table, shown, lines, environ, problems)
        elif section not in SECTIONS:
            problems.append(f"{origin}: {_unknown_section_text(section, table)}")
        elif not isinstance(table, dict):
            problems.append(f"{origin}: {section}: must be a table, [{section}]")
        else:
            for name, value in table.items():
                yield _Setting(f"{section}.{name}", value, _origin(shown, lines, section, name))


def read_tables(content: bytes) -> Iterator[tuple[str, Any]]:
    """The tables of a file as they are written. Raises ConfigError."""
    yield from _sections(_parse_toml(content)[1])


def _sections(tables: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """The tables of a file; a known inner table has both names: `agents.heartbeat` is no agent."""
    for section, table in tables.items():
        inner = table if isinstance(table, dict) else {}
        own = {name for name in inner if f"{section}.{name}" in (*SECTIONS, CHATS)}
        yield from ((f"{section}.{name}", inner[name]) for name in inner if name in own)
        if not own or own != set(inner):
            yield section, {name: inner[name] for name in inner if name not in own} if own else table


def _read_named_tables(
    section: str,
    table: object,
    shown: str,
    lines: Mapping[str, int],
    environ: Mapping[str, str],
    problems: list[str],
) -> dict[str, tuple[Any, dict[str, str]]]:
    """The agents or chats of a file with their origins. A later file replaces an entry as a whole."""

    def place(name: str, key: str) -> str:
        return _origin(shown, lines, f"{section}.{name}" if name else section, key)

    def expand(path: str) -> str:
        return _expand_path(path, environ)

    found: dict[str, Any] = (
        {spec.name: spec for spec in read_agents(table, place, expand, problems)}
        if section == AGENTS
        else {chat.key: chat for chat in read_chats(table, place, expand, problems)}
    )
    keys: Mapping[str, Iterable[str]] = table if isinstance(table, dict) else {}
    return {
        name: (each, {key: place(name, key) for key in ("", *keys[name])}) for name, each in found.items()
    }


def _unknown_section_text(name: str, value: object) -> str:
    """The problem with a top-level name that is no section; usually it is a key of a section."""
    shown = plain(name, 60)
    if isinstance(value, dict):
        return f"[{shown}]: unknown. {_suggest_name(name, (*SECTIONS, *OPEN_TABLES))}"
    key = next((each for each in KEYS.values() if each.short == name), None)
    if key is None:
        return f"{shown}: unknown. {_suggest_name(name, SECTIONS)}"
    return f"{shown}: unknown outside a section. Did you mean {key.name}? It belongs under [{key.section}]."


def _parse_toml(content: bytes) -> tuple[str, dict[str, Any]]:
    try:
        text = content.decode()
    except UnicodeDecodeError as problem:
        line = content.count(b"\n", 0, problem.start) + 1
        raise ConfigError(problems=f"{line}: not UTF-8") from problem
    try:
        return text, decode_toml(text)
    except msgspec.DecodeError as problem:
        if isinstance(problem.__cause__, RecursionError):
            raise ConfigError(problems="1: nested too deeply") from problem
        reason, _, where = plain(str(problem), 300).partition(" (at ")
        found = re.match(r"line (\d+)", where)
        line = int(found[1]) if found else text.count("\n") + 1
        raise ConfigError(problems=f"{line}: not TOML: {reason}") from problem


def _environ_settings(environ: Mapping[str, str]) -> Iterator[_Setting]:
    if port := environ.get("WAKEFUL_PORT"):
        yield _Setting("daemon.port", port, "$WAKEFUL_PORT", from_text=True)
    for variable, text in sorted(environ.items()):
        key = environ_key(variable)
        if key is not None:
            yield _Setting(key, text, f"${plain(variable, 60)}", from_text=True)


def environ_key(variable: str) -> str | None:
    """The key that a variable `WAKEFUL_SECTION__KEY` names; None for any other variable."""
    section, separator, name = variable.removeprefix(_PREFIX).partition("__")
    if not variable.startswith(_PREFIX) or not separator:
        return None
    return f"{section}.{name}".lower().replace("__", ".")


def _check_setting(setting: _Setting, environ: Mapping[str, str]) -> Any:
    key = KEYS.get(setting.key)
    shown = plain(setting.key, 60)
    if key is None:
        raise ConfigError(problems=f"{setting.origin}: {shown}: unknown. {_suggest_name(setting.key, KEYS)}")
    value = setting.value
    if setting.from_text and key.kind in LISTS:
        value = _parse_list(setting, key)
    if key.kind == Duration and isinstance(value, str):
        # Any other text stays as it is, so that the check below refuses it in its own words.
        with suppress(BadDuration):
            value = parse_duration(value)
    try:
        checked = msgspec.convert(value, key.kind, strict=not setting.from_text)
    except msgspec.ValidationError as problem:
        reason = f"{shown}: {_format_value(setting.value, key)} is not {key.allowed}"
        raise ConfigError(problems=f"{setting.origin}: {reason}") from problem
    return key.expand(checked, lambda path: _expand_path(path, environ))


def _parse_list(setting: _Setting, key: ConfigKey) -> list[Any]:
    """A list from the environment: JSON, or with the separator that is usual for such a list."""
    text, separator = setting.value, LISTS[key.kind]
    if not text.lstrip().startswith("["):
        return [part for part in text.split(separator) if part]
    try:
        return decode_json(text, list[int] if key.kind == UserIds else list[str])
    except msgspec.DecodeError as problem:
        reason = f"{setting.key}: {_format_value(text, key)} begins like a JSON list of texts but is not one"
        ways = f'write ["one", "two"] or one{separator}two'
        raise ConfigError(problems=f"{setting.origin}: {reason}; {ways}") from problem


def _format_value(value: object, key: ConfigKey) -> str:
    """A wrong value as it is written in TOML; a secret is not shown."""
    if key.is_secret:
        return "this value"
    return str(value).lower() if isinstance(value, bool) else plain(repr(value), 60)


def _expand_path(path: str, environ: Mapping[str, str]) -> str:
    if path.startswith("/"):
        return path
    if not environ.get("HOME"):
        raise HomeMissing
    return environ["HOME"] + path.removeprefix("~")


def _suggest_name(unknown: str, known: Iterable[str]) -> str:
    """The nearest known name, or all of them. A key is compared with the keys of its own section."""
    section, dot, name = unknown.rpartition(".")
    prefix = section + dot if dot and section in SECTIONS else ""
    names = [each.removeprefix(prefix) for each in known if each.startswith(prefix)]
    close = get_close_matches(name if prefix else unknown, names, n=1)
    if close:
        return f"Did you mean {prefix}{close[0]}?"
    return f"Known: {', '.join(prefix + each for each in names)}."


def _key_lines(text: str) -> Iterator[tuple[str, int]]:
    """Headers and assignments with their lines. A name inside a multi-line string can give a wrong line, no more."""
    prefix = ""
    for number, line in enumerate(text.splitlines(), start=1):
        head, assigned, _ = line.partition("=")
        name = _NOT_IN_NAMES.sub("", head)
        if name.startswith("["):
            section = name.strip("[]")
            prefix = f"{section}."
            yield section, number
        elif assigned and not name.startswith("#"):
            yield f"{prefix}{name}", number


def _origin(shown: str, lines: Mapping[str, int], section: str, name: str = "") -> str:
    """The place of a key as `file:line`; the section's line if the key's own line was not found."""
    line = lines.get(f"{section}.{name}") or lines.get(section)
    return f"{shown}:{line}" if line is not None else shown
