"""Converts a `gateway.json` into Wakeful's configuration. Pure.

Nothing is guessed and nothing is lost: an invalid value is refused, an unknown name is reported and kept as a
comment. The command decides whether and where the result is written.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec
from msgspec import Struct

from wakeful.config.schema import KEYS, ConfigError
from wakeful.core.decoding import decode_json, decode_toml
from wakeful.core.named_secrets import names_a_secret
from wakeful.core.redaction import redact
from wakeful.core.text import plain

NAMES: Final[Mapping[str, str]] = {
    "conversation.maxActiveSessions": "conversation.max_active_sessions",
    "conversation.idleTtlMinutes": "conversation.idle_ttl_minutes",
    "conversation.replyContextMaxChars": "conversation.reply_context_max_chars",
    "conversation.enableReplyContextInjection": "conversation.enable_reply_context_injection",
    "responseActions.enabled": "response_actions.enabled",
    "responseActions.decisionTimeoutMs": "response_actions.decision_timeout_ms",
    "responseActions.maxPromptChars": "response_actions.max_prompt_chars",
    "responseActions.maxResponseChars": "response_actions.max_response_chars",
}
_SECTIONS: Final = frozenset(name.partition(".")[0] for name in NAMES)
_DEPTH_MAX: Final = 20
# Some editors begin a file with it.
_BYTE_ORDER_MARK: Final = b"\xef\xbb\xbf"


class AlreadySet(ConfigError):
    """{path} already sets {keys} to another value. Remove it there or from the file you import."""

    code = "already-set"


class ImportedConfig(Struct, frozen=True):
    """The settings of a file by Wakeful's names, and its other values by their own."""

    settings: Mapping[str, Any]
    unknown: Mapping[str, Any]


def read_gateway_json(content: bytes, shown: str) -> ImportedConfig:
    """The settings of a `gateway.json`. Raises ConfigError with every problem, one to a line."""
    try:
        document = decode_json(content.removeprefix(_BYTE_ORDER_MARK))
    except msgspec.DecodeError as problem:
        raise ConfigError(problems=f"{shown}: not JSON: {plain(str(problem), 200)}") from problem
    if not isinstance(document, dict):
        raise ConfigError(problems=f"{shown}: must be a JSON object, as gateway.json is")
    settings: dict[str, Any] = {}
    unknown: dict[str, Any] = {}
    problems: list[str] = []
    for name, value in _leaves(document):
        if name in _SECTIONS and value == {}:
            continue
        if name in _SECTIONS:
            problems.append(f"{shown}: {name}: {plain(_json(value), 60)} is not an object")
        elif name not in NAMES:
            unknown[name] = value
        elif (invalid := _problem_of(name, value)) is not None:
            problems.append(f"{shown}: {invalid}")
        else:
            settings[NAMES[name]] = value
    if problems:
        raise ConfigError(problems="\n".join(problems))
    return ImportedConfig(settings, unknown)


def toml_lines(imported: ImportedConfig) -> Iterator[str]:
    """The imported settings as TOML, section by section."""
    section = ""
    for name in (each for each in KEYS if each in imported.settings):
        if KEYS[name].section != section:
            section = KEYS[name].section
            yield f"[{section}]"
        yield f"{KEYS[name].short} = {_json(imported.settings[name])}"
    yield from _comments(imported)


def merge_config(text: str, imported: ImportedConfig, shown: str) -> str:
    """A configuration file with these settings added. Raises AlreadySet if it has other values for them."""
    tables = decode_toml(text)
    present = {name: value for name in imported.settings if (value := _lookup(tables, name)) is not None}
    different = [name for name, value in present.items() if value != imported.settings[name]]
    if different:
        raise AlreadySet(path=shown, keys=", ".join(different))
    new = {name: value for name, value in imported.settings.items() if name not in present}
    for section in dict.fromkeys(KEYS[name].section for name in new):
        lines = [f"{KEYS[name].short} = {_json(new[name])}" for name in new if KEYS[name].section == section]
        text = _with_lines(text, section, lines)
    comments = [line for line in _comments(imported) if line not in text.splitlines()]
    return text if not comments else f"{text.rstrip()}\n\n" + "\n".join(comments) + "\n"


def _with_lines(text: str, section: str, lines: list[str]) -> str:
    header = re.search(rf"^[ \t]*\[[ \t]*{re.escape(section)}[ \t]*\][ \t]*(?:#[^\n]*)?$", text, re.MULTILINE)
    added = "\n".join(lines)
    if header is None:
        return f"{text.rstrip()}\n\n[{section}]\n{added}\n".lstrip()
    return f"{text[: header.end()]}\n{added}{text[header.end() :]}"


def _lookup(tables: Mapping[str, Any], name: str) -> Any:
    section = tables.get(KEYS[name].section)
    return section.get(KEYS[name].short) if isinstance(section, dict) else None


def _leaves(value: object, prefix: str = "", depth: int = 0) -> Iterator[tuple[str, Any]]:
    """Every value with its full name. Lists and empty objects are values; an empty document has none."""
    if isinstance(value, dict) and (value or not depth) and depth < _DEPTH_MAX:
        for name, inner in value.items():
            yield from _leaves(inner, f"{prefix}.{name}" if prefix else str(name), depth + 1)
    else:
        yield prefix, value


def _problem_of(name: str, value: object) -> str | None:
    key = KEYS[NAMES[name]]
    try:
        msgspec.convert(value, key.kind)
    except msgspec.ValidationError:
        return f"{name}: {plain(_json(value), 60)} is not {key.allowed}"
    return None


def _comments(imported: ImportedConfig) -> Iterator[str]:
    """The unknown values, in one line each; a value that looks like a secret is not copied."""
    for name, value in imported.unknown.items():
        written = plain(_json(value), 200)
        shown = "(not shown)" if names_a_secret(name, written) or redact(written) != written else written
        yield f"# not imported: {plain(name, 100)} = {shown}"


def _json(value: object) -> str:
    return msgspec.json.encode(value).decode()
