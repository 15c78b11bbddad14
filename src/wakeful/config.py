"""The configuration: its keys, what each may be, and reading it from TOML and from the environment.

Every problem is found in one pass and named with its file, line and key. Nothing here decides which files are
read or whether they may be trusted, and nothing here writes one.
"""

import errno
import os
import re
import stat
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from difflib import get_close_matches
from enum import StrEnum
from typing import Annotated, Any, Final

import msgspec
from msgspec import Meta, Struct, field

from wakeful.agents_config import SECTION as AGENTS, read_agents
from wakeful.domain.agents import AgentSpec
from wakeful.domain.durations import BadDuration, seconds_of, spelled
from wakeful.domain.errors import OperatorError
from wakeful.domain.plaintext import plain
from wakeful.domain.policy import Dollars, Policy
from wakeful.gateway_config import (
    ALLOWED as _GATEWAY_ALLOWED,
    CHATS,
    PROVIDER_SECTIONS as _PROVIDER_SECTIONS,
    SECTIONS as _GATEWAY_SECTIONS,
    ChatPlace,
    Conversation,
    Gateway,
    HostLimits,
    ProviderSettings,
    ResponseActions,
    Secret,
    UserIds,
    default_providers,
    read_chats,
)
from wakeful.heartbeat_config import (
    ALLOWED as _HEARTBEAT_ALLOWED,
    Duration,
    Heartbeat,
    Hooks,
    Supervision,
    Words,
)

# The default file with every key has 3 KB; whatever is larger is no configuration.
FILE_BYTES_MAX: Final = 1_048_576
# Ten years: enough to say "never", and still a date that can be written down.
SECONDS_MAX: Final = 315_360_000
_PREFIX: Final = "WAKEFUL_"
_NOT_IN_NAMES: Final = re.compile(r"""["'\s]""")


class ConfigError(OperatorError):
    """{problems}"""

    code = "bad-config"


class HomeMissing(ConfigError):
    """HOME is not set, so there is no place to look in. Set HOME, or WAKEFUL_HOME to a folder of your own."""

    code = "home-missing"


class HomeNotThere(ConfigError):
    """HOME is {shown!r}, and there is no such folder. Set HOME to yours, or WAKEFUL_HOME to a folder of your own."""

    code = "home-not-there"


class PathNotAbsolute(ConfigError):
    """{variable} is {shown!r}: it must be an absolute path."""

    code = "path-not-absolute"


class Mode(StrEnum):
    """Which sessions may be acted upon."""

    OBSERVE = "observe"
    MINE = "mine"
    ALL = "all"


# Nothing listens beyond loopback without TLS, and there is none yet.
_Loopback = Annotated[str, Meta(pattern=r"^(127\.\d{1,3}\.\d{1,3}\.\d{1,3}|::1|localhost)$")]
_Port = Annotated[int, Meta(ge=0, le=65535)]
_Folder = Annotated[str, Meta(pattern=r"^(/|~/)")]
_Folders = tuple[_Folder, ...]
_Seconds = Annotated[float, Meta(gt=0, le=SECONDS_MAX)]
_Count = Annotated[int, Meta(ge=1, le=1_000_000_000)]
_Dollars = Annotated[float, Meta(ge=0, le=1_000_000)]
_Path = Annotated[str, Meta(pattern=r"^((/|~/).*)?$")]
_Url = Annotated[str, Meta(pattern=r"^(https?://\S+)?$")]
# Whoever has it can pretend that we live.
_PingUrl = Annotated[str, Meta(pattern=r"^(https?://\S+)?$", description="secret")]
_RedisUrl = Annotated[str, Meta(pattern=r"^((redis|rediss|unix)://\S+)?$")]
_StoreUrl = Annotated[str, Meta(pattern=r"^(sqlite:///.+)?$")]
_Repository = Annotated[str, Meta(pattern=r"^([\w.-]+/[\w.-]+)?$")]
_Repositories = tuple[Annotated[str, Meta(pattern=r"^[^=]+=[\w.-]+/[\w.-]+$")], ...]
_Names = tuple[str, ...]
_Secrets = tuple[Secret, ...]


class Daemon(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where `wakeful up` listens and what it may touch."""

    host: _Loopback = "127.0.0.1"
    port: _Port = 4747
    tcp: bool = True
    mode: Mode = Mode.MINE


class Eyes(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Places to watch beside those the clients' own variables name."""

    claude_dirs: _Folders = ()
    codex_dirs: _Folders = ()
    tool_use_dirs: _Folders = ()
    event_dirs: _Folders = ()
    tmux_sockets: _Folders = ()


class StorePlace(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where memory is kept."""

    url: _StoreUrl = ""


class Runaway(StrEnum):
    """What becomes of a turn that runs away while it makes progress."""

    NOTIFY = "notify"
    REVIVE = "revive"


class Heal(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How trouble is answered."""

    runaway: Runaway = Runaway.NOTIFY
    confirm_seconds: _Seconds = 3.0
    steer_seconds: _Seconds = 120.0
    pace_seconds: _Seconds = 2.0
    pace_burst: _Count = 10


class Alerts(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Who is told, and of what."""

    telegram_token: Secret = Secret("")
    telegram_chat: str = ""
    telegram_api: _Url = "https://api.telegram.org"
    urls: _Secrets = ()
    desktop: bool = True
    needs_you: bool = True
    finished: bool = False
    trouble: bool = True
    needs_you_seconds: _Seconds = 10.0
    cooldown_seconds: _Seconds = 3600.0
    ping_url: _PingUrl = ""


class GitHub(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where trouble is filed."""

    repo: _Repository = ""
    repos: _Repositories = ()
    public: bool = False


class Events(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The log of critical events."""

    critical_path: _Path = ""


class RedisPlace(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The Redis whose sessions and jobs are watched."""

    url: _RedisUrl = ""
    logs: _Path = ""
    interval_seconds: _Seconds = 300.0


class Projects(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which projects somebody serves."""

    active: _Names = ()


class Recovery(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Journals that are recovered by the daemon."""

    roots: _Folders = ()


class Config(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Everything that can be configured."""

    daemon: Daemon = Daemon()
    detect: Policy = Policy()
    eyes: Eyes = Eyes()
    store: StorePlace = StorePlace()
    heal: Heal = Heal()
    alerts: Alerts = Alerts()
    github: GitHub = GitHub()
    events: Events = Events()
    redis: RedisPlace = RedisPlace()
    projects: Projects = Projects()
    recovery: Recovery = Recovery()
    heartbeat: Heartbeat = Heartbeat()
    supervision: Supervision = Supervision()
    hooks: Hooks = Hooks()
    gateway: Gateway = Gateway()
    gateway_providers: dict[str, ProviderSettings] = field(default_factory=default_providers)
    gateway_host: HostLimits = HostLimits()
    conversation: Conversation = Conversation()
    response_actions: ResponseActions = ResponseActions()
    # Declared by `[agents.NAME]` tables: how many there are, and how they are called, is the operator's.
    agents: tuple[AgentSpec, ...] = ()
    # So are `[gateway.chats.KEY]` tables.
    gateway_chats: tuple[ChatPlace, ...] = ()


_SECTIONS: Final[Mapping[str, type[Struct]]] = {
    "daemon": Daemon,
    "detect": Policy,
    "eyes": Eyes,
    "store": StorePlace,
    "heal": Heal,
    "alerts": Alerts,
    "github": GitHub,
    "events": Events,
    "redis": RedisPlace,
    "projects": Projects,
    "recovery": Recovery,
    "agents.heartbeat": Heartbeat,
    "session.supervision": Supervision,
    "hooks": Hooks,
    **_GATEWAY_SECTIONS,
}
# Two sections are known by their last word alone.
_FIELDS: Final[Mapping[str, str]] = {"agents.heartbeat": "heartbeat", "session.supervision": "supervision"}
# Tables whose names are the operator's.
_OPEN_TABLES: Final = (AGENTS, CHATS)
# 003 gave this number its name; the rules get it from there.
_NAMED_ELSEWHERE: Final[Mapping[str, str]] = {
    "detect.stale_seconds": "agents.heartbeat.session_health_stale_after"
}
# The domain gives numbers their names and defaults; that they are positive is the configuration's business.
_POSITIVE: Final[Mapping[type, Any]] = {float: _Seconds, int: _Count, Dollars: _Dollars}
_ALLOWED: Final[Mapping[Any, str]] = {
    **_HEARTBEAT_ALLOWED,
    **_GATEWAY_ALLOWED,
    _Loopback: "a loopback address: 127.0.0.1, ::1 or localhost",
    _Port: "a whole number from 0 to 65535",
    bool: "true or false",
    Mode: "observe, mine or all",
    _Folders: 'a list of paths that begin with / or ~/, like ["~/logs"]',
    _Seconds: f"a number of seconds above 0, {SECONDS_MAX} at most",
    _Count: "a whole number from 1 to 1000000000",
    _Dollars: "a number of dollars from 0 to 1000000",
    Runaway: "notify or revive",
    _Path: "empty, or a path that begins with / or ~/",
    _Url: "empty, or an address that begins with https:// or http://",
    _PingUrl: "empty, or an address that begins with https:// or http://; it is shown to nobody",
    _RedisUrl: "empty, or redis://, rediss:// or unix:// and an address",
    _StoreUrl: "empty, or sqlite:/// and an absolute path",
    _Repository: "empty, or owner/name",
    _Repositories: 'a list like ["project=owner/name"]',
    _Names: 'a list of names, like ["popoto"]',
    str: "any text",
    Secret: "any text; it is shown to nobody",
    _Secrets: "a list of addresses; they are shown to nobody",
}
# Lists of paths are written as in PATH in the environment, other lists with commas; all of them also in JSON.
_LISTS: Final[Mapping[Any, str]] = {
    _Folders: os.pathsep,
    _Names: ",",
    _Secrets: ",",
    _Repositories: ",",
    Words: " ",
    UserIds: ",",
}


class Key(Struct, frozen=True):
    """One key: its full name, its type, its default, and in words what it may be."""

    name: str
    kind: Any
    default: Any
    allowed: str

    @property
    def is_secret(self) -> bool:
        return self.kind in (Secret, _Secrets, _PingUrl, _RedisUrl)

    @property
    def section(self) -> str:
        return self.name.rpartition(".")[0]

    @property
    def short(self) -> str:
        return self.name.rpartition(".")[2]

    def of(self, config: "Config") -> Any:
        """Its value."""
        if self.section in _PROVIDER_SECTIONS:
            return getattr(config.gateway_providers[_name(self.section)], self.short)
        return getattr(getattr(config, _field(self.section)), self.short)

    def written(self, value: Any) -> Any:
        """A value as people write it."""
        return spelled(value) if self.kind == Duration else value


def _keys() -> Iterator[Key]:
    for section, model in _SECTIONS.items():
        for each in msgspec.structs.fields(model):
            name = f"{section}.{each.encode_name}"
            kind = _POSITIVE.get(each.type, each.type) if model is Policy else each.type
            if name not in _NAMED_ELSEWHERE:
                yield Key(name, kind, each.default, _ALLOWED[kind])


KEYS: Final[Mapping[str, Key]] = {key.name: key for key in _keys()}


class Document(Struct, frozen=True):
    """A configuration file as it was read."""

    path: str
    content: bytes


class Loaded(Struct, frozen=True):
    """The configuration, and for every key where its value came from."""

    config: Config
    origins: dict[str, str]


# By table and name: what it is, and where it and each of its keys stand.
_Named = dict[str, dict[str, tuple[Any, dict[str, str]]]]


class _Setting(Struct, frozen=True):
    """One value somebody set, not yet checked."""

    key: str
    value: Any
    origin: str
    from_text: bool = False


def load(path: str | None, environ: Mapping[str, str]) -> Config:
    """The configuration of one file, or of none, under the environment's. Raises ConfigError."""
    documents = [] if path is None else [Document(path, read_file(path))]
    return combine(documents, environ).config


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
        link = problem.errno == errno.ELOOP and not follow_symlink
        reason = (
            "a symbolic link, which could show any file of yours: not followed" if link else problem.strerror
        )
        raise ConfigError(problems=f"{plain(path)}: {reason}") from problem
    if len(content) > FILE_BYTES_MAX:
        raise ConfigError(problems=f"{plain(path)}: larger than {FILE_BYTES_MAX} bytes")
    return content


def combine(documents: Sequence[Document], environ: Mapping[str, str]) -> Loaded:
    """Lay the documents over the defaults, later ones over earlier ones, and the environment over all.

    Raises ConfigError with every problem there is, one to a line.
    """
    problems: list[str] = []
    named: _Named = {table: {} for table in _OPEN_TABLES}
    settings = [each for document in documents for each in _of_document(document, environ, named, problems)]
    settings += _of_environ(environ)
    values = {name: key.default for name, key in KEYS.items()}
    origins = dict.fromkeys(KEYS, "default")
    for setting in settings:
        try:
            values[setting.key] = _checked(setting, environ)
            origins[setting.key] = setting.origin
        except ConfigError as problem:
            problems.append(str(problem))
    if problems:
        raise ConfigError(problems="\n".join(problems))
    for table, held in named.items():
        for name, (_, places) in held.items():
            origins |= {f"{table}.{name}{f'.{key}' if key else ''}": place for key, place in places.items()}
    values |= {name: values[other] for name, other in _NAMED_ELSEWHERE.items()}
    alone = [name for name in _SECTIONS if name not in _PROVIDER_SECTIONS]
    fields: dict[str, Any] = {_field(name): _section(name, values) for name in alone}
    fields["gateway_providers"] = {_name(each): _section(each, values) for each in _PROVIDER_SECTIONS}
    fields |= {_field(table): tuple(each for each, _ in held.values()) for table, held in named.items()}
    return Loaded(Config(**fields), origins)


def _name(section: str) -> str:
    """Whose section it is."""
    return section.rpartition(".")[2]


def _field(section: str) -> str:
    """What a section is called in `Config`."""
    return _FIELDS.get(section, section.replace(".", "_"))


def _section(name: str, values: Mapping[str, Any]) -> Any:
    parts = ((key.rpartition("."), value) for key, value in values.items())
    return _SECTIONS[name](**{short: value for (section, _, short), value in parts if section == name})


def _of_document(
    document: Document,
    environ: Mapping[str, str],
    named: _Named,
    problems: list[str],
) -> Iterator[_Setting]:
    """The settings of a file; its agents and chats are added to `named`, its problems to `problems`."""
    shown = plain(document.path)
    try:
        text, tables = _parsed(document.content)
    except ConfigError as problem:
        problems.append(f"{shown}:{problem}")
        return
    lines = dict(_named_lines(text))
    for section, table in _sections(tables):
        origin = _origin(shown, lines, section)
        if section in _OPEN_TABLES:
            named[section] |= _named(section, table, shown, lines, environ, problems)
        elif section not in _SECTIONS:
            problems.append(f"{origin}: {_stray(section, table)}")
        elif not isinstance(table, dict):
            problems.append(f"{origin}: {section}: must be a table, [{section}]")
        else:
            for name, value in table.items():
                yield _Setting(f"{section}.{name}", value, _origin(shown, lines, section, name))


def _sections(tables: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """The tables of a file, those inside of another one under both names: `agents.heartbeat` is no agent."""
    for section, table in tables.items():
        inner = table if isinstance(table, dict) else {}
        own = {name for name in inner if f"{section}.{name}" in (*_SECTIONS, CHATS)}
        yield from ((f"{section}.{name}", inner[name]) for name in inner if name in own)
        if not own or own != set(inner):
            yield section, {name: inner[name] for name in inner if name not in own} if own else table


def _named(
    section: str,
    table: object,
    shown: str,
    lines: Mapping[str, int],
    environ: Mapping[str, str],
    problems: list[str],
) -> dict[str, tuple[Any, dict[str, str]]]:
    """The agents or chats of a file with their places. A later file's word about one replaces the whole of it."""

    def place(name: str, key: str) -> str:
        return _origin(shown, lines, f"{section}.{name}" if name else section, key)

    def expand(path: str) -> str:
        return _expanded(path, environ)

    found: dict[str, Any] = (
        {spec.name: spec for spec in read_agents(table, place, expand, problems)}
        if section == AGENTS
        else {chat.key: chat for chat in read_chats(table, place, expand, problems)}
    )
    keys: Mapping[str, Iterable[str]] = table if isinstance(table, dict) else {}
    return {
        name: (each, {key: place(name, key) for key in ("", *keys[name])}) for name, each in found.items()
    }


def _stray(name: str, value: object) -> str:
    """What to say of a top-level name that is no section: a key of one, more often than not."""
    shown = plain(name, 60)
    if isinstance(value, dict):
        return f"[{shown}]: unknown. {_meant(name, (*_SECTIONS, *_OPEN_TABLES))}"
    key = next((each for each in KEYS.values() if each.short == name), None)
    if key is None:
        return f"{shown}: unknown. {_meant(name, _SECTIONS)}"
    return f"{shown}: unknown outside of a section. Did you mean {key.name}? It stands under [{key.section}]."


def _parsed(content: bytes) -> tuple[str, dict[str, Any]]:
    try:
        text = content.decode()
    except UnicodeDecodeError as problem:
        line = content.count(b"\n", 0, problem.start) + 1
        raise ConfigError(problems=f"{line}: not UTF-8") from problem
    try:
        return text, tomllib.loads(text)
    except RecursionError as problem:
        raise ConfigError(problems="1: nested too deeply") from problem
    # Not only TOMLDecodeError: a number of 5,000 digits is a plain ValueError.
    except ValueError as problem:
        said, _, where = plain(str(problem), 300).partition(" (at ")
        found = re.match(r"line (\d+)", where)
        line = int(found[1]) if found else text.count("\n") + 1
        raise ConfigError(problems=f"{line}: not TOML: {said}") from problem


def _of_environ(environ: Mapping[str, str]) -> Iterator[_Setting]:
    if port := environ.get("WAKEFUL_PORT"):
        yield _Setting("daemon.port", port, "$WAKEFUL_PORT", from_text=True)
    for variable, text in sorted(environ.items()):
        section, separator, name = variable.removeprefix(_PREFIX).partition("__")
        if variable.startswith(_PREFIX) and separator:
            key = f"{section}.{name}".lower().replace("__", ".")
            yield _Setting(key, text, f"${plain(variable, 60)}", from_text=True)


def _checked(setting: _Setting, environ: Mapping[str, str]) -> Any:
    key = KEYS.get(setting.key)
    shown = plain(setting.key, 60)
    if key is None:
        raise ConfigError(problems=f"{setting.origin}: {shown}: unknown. {_meant(setting.key, KEYS)}")
    value = setting.value
    if setting.from_text and key.kind in _LISTS:
        value = _listed(setting, key)
    if key.kind == Duration and isinstance(value, str):
        value = _duration(value)
    try:
        checked = msgspec.convert(value, key.kind, strict=not setting.from_text)
    except msgspec.ValidationError as problem:
        said = f"{shown}: {_written(setting.value, key)} is not {key.allowed}"
        raise ConfigError(problems=f"{setting.origin}: {said}") from problem
    if key.kind == _Path:
        return _expanded(checked, environ) if checked else checked
    return tuple(_expanded(path, environ) for path in checked) if key.kind == _Folders else checked


def _listed(setting: _Setting, key: Key) -> list[Any]:
    """A list from the environment: in JSON, as the file has it, or parted as such a list usually is there."""
    text, parting = setting.value, _LISTS[key.kind]
    if not text.lstrip().startswith("["):
        return [part for part in text.split(parting) if part]
    try:
        return msgspec.json.decode(text, type=list[int] if key.kind == UserIds else list[str])
    except msgspec.DecodeError as problem:
        said = f"{setting.key}: {_written(text, key)} begins like a JSON list of texts and is none"
        ways = f'write ["one", "two"] or one{parting}two'
        raise ConfigError(problems=f"{setting.origin}: {said}; {ways}") from problem


def _duration(text: str) -> float | str:
    """The seconds of `5m`; whatever else it is stays what it was, and is refused with its own words."""
    try:
        return seconds_of(text)
    except BadDuration:
        return text


def _written(value: object, key: Key) -> str:
    """A wrong value as its author wrote it: TOML's booleans are not Python's, and a secret stays one."""
    if key.is_secret:
        return "this value"
    return str(value).lower() if isinstance(value, bool) else plain(repr(value), 60)


def _expanded(path: str, environ: Mapping[str, str]) -> str:
    if path.startswith("/"):
        return path
    if not environ.get("HOME"):
        raise HomeMissing
    return environ["HOME"] + path.removeprefix("~")


def _meant(unknown: str, known: Iterable[str]) -> str:
    """The nearest known name, or all of them. A key is compared with the keys of its own section."""
    section, dot, name = unknown.rpartition(".")
    prefix = section + dot if dot and section in _SECTIONS else ""
    names = [each.removeprefix(prefix) for each in known if each.startswith(prefix)]
    close = get_close_matches(name if prefix else unknown, names, n=1)
    if close:
        return f"Did you mean {prefix}{close[0]}?"
    return f"Known: {', '.join(prefix + each for each in names)}."


def _named_lines(text: str) -> Iterator[tuple[str, int]]:
    """Headers and assignments with their lines. A name inside a multi-line string can mislead it, no worse."""
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
    """The place of a key as `file:line`; the section's line where the key is written in some other fashion."""
    line = lines.get(f"{section}.{name}") or lines.get(section)
    return f"{shown}:{line}" if line is not None else shown
