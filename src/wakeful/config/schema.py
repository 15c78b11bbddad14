"""Schema of the configuration: sections, keys, allowed values and defaults, and the `[agents.NAME]` tables.

It reads no file and does not know whether a file is trusted; `load.py` reads. Every problem is reported with
its place and key.
"""

import os
import re
from collections.abc import Callable, Iterator, Mapping
from enum import StrEnum
from functools import partial
from typing import Annotated, Any, Final

import msgspec
from msgspec import Meta, Struct, field

from wakeful.agents.model import (
    READY_SECONDS,
    AgentRuntime,
    AgentSpec,
    BadAgentName,
    Restart,
    parse_agent_name,
)
from wakeful.config.gateway import (
    ALLOWED as _GATEWAY_ALLOWED,
    CHATS,
    PROVIDER_SECTIONS,
    SECTIONS as _GATEWAY_SECTIONS,
    ChatConfig,
    ConversationConfig,
    GatewayConfig,
    HostMonitorConfig,
    ProviderConfig,
    ResponseActionsConfig,
    Secret,
    UserIds,
    default_providers,
)
from wakeful.config.heartbeat import (
    ALLOWED as _HEARTBEAT_ALLOWED,
    SECONDS_MAX,
    CommandWords,
    Duration,
    HeartbeatConfig,
    HooksConfig,
    SupervisionConfig,
)
from wakeful.config.tables import Expand, FolderPath, KeyOrigin, TableKey, check_value, read_named_tables
from wakeful.core.durations import format_duration
from wakeful.core.errors import OperatorError
from wakeful.core.text import plain
from wakeful.judging.thresholds import Dollars, Policy

AGENTS_SECTION: Final = "agents"
# An agent that is not ready by then will not become ready.
READY_SECONDS_MAX: Final = 600
# The kernel takes no NUL in an argument or a path, and a line break in either is a mistake.
_Argument = Annotated[str, Meta(pattern=r"^[^\x00\n\r]*$", max_length=4096)]
_Program = Annotated[tuple[_Argument, ...], Meta(min_length=1, max_length=1000)]
_Variable = Annotated[str, Meta(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$", max_length=200)]
_Variables = tuple[_Variable, ...]
_Mount = Annotated[str, Meta(pattern=r"^(/|~/)[^:\x00\n\r]*:/[^:\x00\n\r]*(:(ro|rw))?$", max_length=4096)]
_Mounts = tuple[_Mount, ...]
# Refuses values that the engine would read as an option or as two words.
_Token = Annotated[str, Meta(pattern=r"^([A-Za-z0-9][^\s\x00]*)?$", max_length=500)]
_ReadySeconds = Annotated[float, Meta(gt=0, le=READY_SECONDS_MAX)]


AGENT_KEYS: Final[Mapping[str, TableKey]] = {
    "runtime": TableKey(AgentRuntime, None, "docker or tmux", "Where the agent runs. Required."),
    "command": TableKey(
        _Program, None, 'a list of words, the program first, like ["claude"]', "The command to run. Required."
    ),
    "image": TableKey(
        _Token,
        "",
        "the name of an image",
        "Required for docker, and only for docker. The image must contain `sh`, `sleep`, `tmux` and the program.",
    ),
    "workdir": TableKey(
        FolderPath,
        "",
        "empty, or a path that begins with / or ~/",
        "Working directory. For docker, a path in the container.",
    ),
    "env": TableKey(
        _Variables,
        (),
        'a list of names of variables, like ["ANTHROPIC_API_KEY"]',
        "Variables to pass from the daemon's environment. Values are never stored.",
    ),
    "network": TableKey(
        _Token,
        "",
        "the name of a network",
        'docker only. Empty: no network. Claude Code needs one, like "bridge".',
    ),
    "mounts": TableKey(
        _Mounts,
        (),
        'a list like ["~/code:/code:ro"]',
        "docker only. host:container; add :ro for read-only.",
    ),
    "user": TableKey(_Token, "", "a user, or uid:gid", "docker only. Empty: the user of the image."),
    "ready": TableKey(
        str, "", "a regular expression", "Text on its screen when it is ready. Empty: no check."
    ),
    "ready_seconds": TableKey(
        _ReadySeconds,
        READY_SECONDS,
        f"a number of seconds above 0, {READY_SECONDS_MAX} at most",
        "Time limit for the start.",
    ),
    "restart": TableKey(
        Restart,
        Restart.MANUAL,
        "manual or auto",
        "Who restarts a stale agent: you (manual), or Wakeful once (auto).",
    ),
}
DOCKER_ONLY: Final = ("image", "network", "mounts", "user")
_REQUIRED_KEYS: Final = ("runtime", "command")


def read_agents(table: object, origin: KeyOrigin, expand: Expand, problems: list[str]) -> Iterator[AgentSpec]:
    """The agents of one `[agents]` table. An agent with an error is left out; `problems` gets the error."""
    refusal = f"{origin('', '')}: agents: must hold tables, [agents.NAME]"
    return read_named_tables(table, refusal, partial(_read_agent, origin, expand), problems)


def _read_agent(
    origin: KeyOrigin, expand: Expand, name: str, keys: object, problems: list[str]
) -> AgentSpec | None:
    shown = f"agents.{plain(name, 60)}"
    try:
        parse_agent_name(name)
    except BadAgentName as problem:
        problems.append(f"{origin(name, '')}: {shown}: {problem}")
        return None
    if not isinstance(keys, dict):
        problems.append(f"{origin(name, '')}: {shown}: must be a table, [{shown}]")
        return None
    values: dict[str, Any] = {}
    for key, value in keys.items():
        reason = _check_value(key, value, expand, values)
        if reason is not None:
            problems.append(f"{origin(name, key)}: {shown}.{reason}")
    problems += (f"{origin(name, key)}: {shown}{reason}" for key, reason in _table_problems(keys, values))
    return None if problems else AgentSpec(name=name, **values)


def _check_value(key: str, value: object, expand: Expand, values: dict[str, Any]) -> str | None:
    """Put a checked value into `values`, or return the problem with it."""
    problem = check_value(AGENT_KEYS, key, value, values)
    if problem is None and key == "ready":
        problem = _pattern_problem(values[key])
    if problem is None and key == "workdir" and values[key]:
        values[key] = expand(values[key])
    if problem is None and key == "mounts":
        values[key] = tuple(expand(each) for each in values[key])
    return problem


def _table_problems(keys: Mapping[str, object], values: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Problems of the table as a whole: the key concerned and the text."""
    for key in _REQUIRED_KEYS:
        if key not in keys:
            yield "", f": {key} is missing: {AGENT_KEYS[key].allowed}"
    if "command" in values and not values["command"][0]:
        yield "command", ".command: its first word is the program and must not be empty"
    runtime = values.get("runtime")
    if runtime is AgentRuntime.DOCKER and not values.get("image") and "image" not in keys:
        yield "", ": image is missing: docker needs the name of one"
    if runtime is AgentRuntime.DOCKER and str(keys.get("workdir", "")).startswith("~"):
        yield "workdir", ".workdir: must begin with / inside a container"
    if runtime is AgentRuntime.TMUX:
        for key in DOCKER_ONLY:
            if key in keys:
                yield key, f'.{key}: only for runtime = "docker"'


def _pattern_problem(text: str) -> str | None:
    try:
        re.compile(text)
    except re.error as problem:
        return f"ready: {plain(repr(text), 60)} is not a regular expression: {plain(str(problem), 100)}"
    return None


class ConfigError(OperatorError, code="bad-config"):
    """{problems}"""


class HomeMissing(ConfigError, code="home-missing"):
    """HOME is not set. Set HOME, or set WAKEFUL_HOME to a folder of your own."""


class HomeNotThere(ConfigError, code="home-not-there"):
    """HOME is {shown!r}, but this folder does not exist. Correct HOME, or set WAKEFUL_HOME to a folder of your own."""


class PathNotAbsolute(ConfigError, code="path-not-absolute"):
    """{variable} is {shown!r}: it must be an absolute path."""


class Mode(StrEnum):
    """Which sessions Wakeful may act on."""

    OBSERVE = "observe"
    MINE = "mine"
    ALL = "all"


# Only loopback: a listener beyond it would need TLS, which is not there yet.
_Loopback = Annotated[str, Meta(pattern=r"^(127\.\d{1,3}\.\d{1,3}\.\d{1,3}|::1|localhost)$")]
_Port = Annotated[int, Meta(ge=0, le=65535)]
_Folder = Annotated[str, Meta(pattern=r"^(/|~/)")]
_Folders = tuple[_Folder, ...]
_Seconds = Annotated[float, Meta(gt=0, le=SECONDS_MAX)]
_Count = Annotated[int, Meta(ge=1, le=1_000_000_000)]
_Dollars = Annotated[float, Meta(ge=0, le=1_000_000)]
_Path = Annotated[str, Meta(pattern=r"^((/|~/).*)?$")]
_Url = Annotated[str, Meta(pattern=r"^(https?://\S+)?$")]
# Secret: a ping from elsewhere would hide that the daemon has died.
_PingUrl = Annotated[str, Meta(pattern=r"^(https?://\S+)?$", description="secret")]
_RedisUrl = Annotated[str, Meta(pattern=r"^((redis|rediss|unix)://\S+)?$")]
_StoreUrl = Annotated[str, Meta(pattern=r"^(sqlite:///.+)?$")]
_Repository = Annotated[str, Meta(pattern=r"^([\w.-]+/[\w.-]+)?$")]
_Repositories = tuple[Annotated[str, Meta(pattern=r"^[^=]+=[\w.-]+/[\w.-]+$")], ...]
_Names = tuple[str, ...]
_Patterns = tuple[Annotated[str, Meta(pattern=r"^[A-Za-z_*?][A-Za-z0-9_*?]*$", max_length=200)], ...]
_Secrets = tuple[Secret, ...]


class DaemonConfig(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    host: _Loopback = "127.0.0.1"
    port: _Port = 4747
    tcp: bool = True
    mode: Mode = Mode.MINE
    pass_environment: _Patterns = ()


class SourcesConfig(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Folders and sockets to watch in addition to those that the clients' own variables name."""

    claude_dirs: _Folders = ()
    codex_dirs: _Folders = ()
    tool_use_dirs: _Folders = ()
    event_dirs: _Folders = ()
    tmux_sockets: _Folders = ()


class StoreConfig(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    url: _StoreUrl = ""


class RunawayResponse(StrEnum):
    """The response to a turn that runs away while it makes progress."""

    NOTIFY = "notify"
    REVIVE = "revive"


class HealingConfig(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    runaway: RunawayResponse = RunawayResponse.NOTIFY
    confirm_seconds: _Seconds = 3.0
    steer_seconds: _Seconds = 120.0
    pace_seconds: _Seconds = 2.0
    pace_burst: _Count = 10


class AlertsConfig(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
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


class GitHubConfig(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where issues about problems are filed."""

    repo: _Repository = ""
    repos: _Repositories = ()
    public: bool = False


class EventsConfig(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The log of critical events."""

    critical_path: _Path = ""


class RedisConfig(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The Redis whose sessions and jobs are watched."""

    url: _RedisUrl = ""
    logs: _Path = ""
    interval_seconds: _Seconds = 300.0


class ProjectsConfig(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The projects that have a worker."""

    active: _Names = ()


class RecoveryConfig(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Journals that the daemon recovers."""

    roots: _Folders = ()


class Config(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    daemon: DaemonConfig = DaemonConfig()
    detect: Policy = Policy()
    eyes: SourcesConfig = SourcesConfig()
    store: StoreConfig = StoreConfig()
    heal: HealingConfig = HealingConfig()
    alerts: AlertsConfig = AlertsConfig()
    github: GitHubConfig = GitHubConfig()
    events: EventsConfig = EventsConfig()
    redis: RedisConfig = RedisConfig()
    projects: ProjectsConfig = ProjectsConfig()
    recovery: RecoveryConfig = RecoveryConfig()
    heartbeat: HeartbeatConfig = HeartbeatConfig()
    supervision: SupervisionConfig = SupervisionConfig()
    hooks: HooksConfig = HooksConfig()
    gateway: GatewayConfig = GatewayConfig()
    gateway_providers: dict[str, ProviderConfig] = field(default_factory=default_providers)
    gateway_host: HostMonitorConfig = HostMonitorConfig()
    conversation: ConversationConfig = ConversationConfig()
    response_actions: ResponseActionsConfig = ResponseActionsConfig()
    # From the `[agents.NAME]` and `[gateway.chats.KEY]` tables, whose names the operator chooses.
    agents: tuple[AgentSpec, ...] = ()
    gateway_chats: tuple[ChatConfig, ...] = ()


SECTIONS: Final[Mapping[str, type[Struct]]] = {
    "daemon": DaemonConfig,
    "detect": Policy,
    "eyes": SourcesConfig,
    "store": StoreConfig,
    "heal": HealingConfig,
    "alerts": AlertsConfig,
    "github": GitHubConfig,
    "events": EventsConfig,
    "redis": RedisConfig,
    "projects": ProjectsConfig,
    "recovery": RecoveryConfig,
    "agents.heartbeat": HeartbeatConfig,
    "session.supervision": SupervisionConfig,
    "hooks": HooksConfig,
    **_GATEWAY_SECTIONS,
}
_FIELDS: Final[Mapping[str, str]] = {"agents.heartbeat": "heartbeat", "session.supervision": "supervision"}
# Tables whose inner names the operator chooses.
OPEN_TABLES: Final = (AGENTS_SECTION, CHATS)
# The rules take this number from the heartbeat's section.
CONFIGURED_UNDER: Final[Mapping[str, str]] = {
    "detect.stale_seconds": "agents.heartbeat.session_health_stale_after"
}
# The judging rules give numbers their names and defaults; the configuration checks that they are positive.
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
    RunawayResponse: "notify or revive",
    _Path: "empty, or a path that begins with / or ~/",
    _Url: "empty, or an address that begins with https:// or http://",
    _PingUrl: "empty, or an address that begins with https:// or http://; it is never shown",
    _RedisUrl: "empty, or redis://, rediss:// or unix:// and an address",
    _StoreUrl: "empty, or sqlite:/// and an absolute path",
    _Repository: "empty, or owner/name",
    _Repositories: 'a list like ["project=owner/name"]',
    _Names: 'a list of names, like ["popoto"]',
    _Patterns: 'a list of names of variables, * for any letters, like ["MY_*"]',
    str: "any text",
    Secret: "any text; it is never shown",
    _Secrets: "a list of addresses; they are never shown",
}
# Lists of paths are written as in PATH in the environment, other lists with commas; all of them also in JSON.
LISTS: Final[Mapping[Any, str]] = {
    _Folders: os.pathsep,
    _Names: ",",
    _Patterns: ",",
    _Secrets: ",",
    _Repositories: ",",
    CommandWords: " ",
    UserIds: ",",
}


def field_of(section: str) -> str:
    return _FIELDS.get(section, section.replace(".", "_"))


def provider_of(section: str) -> str:
    return section.rpartition(".")[2]


class ConfigKey(Struct, frozen=True):
    """One key: its full name, its type, its default, and the allowed values in words."""

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

    def value_in(self, config: "Config") -> Any:
        if self.section in PROVIDER_SECTIONS:
            return getattr(config.gateway_providers[provider_of(self.section)], self.short)
        return getattr(getattr(config, field_of(self.section)), self.short)

    def format_value(self, value: Any) -> Any:
        return format_duration(value) if self.kind == Duration else value

    def expand(self, value: Any, expand: Callable[[str], str]) -> Any:
        """A value with its paths expanded, if it has any."""
        if self.kind == _Path:
            return expand(value) if value else value
        return tuple(map(expand, value)) if self.kind == _Folders else value


def _keys() -> Iterator[ConfigKey]:
    for section, model in SECTIONS.items():
        for each in msgspec.structs.fields(model):
            name = f"{section}.{each.encode_name}"
            kind = _POSITIVE.get(each.type, each.type) if model is Policy else each.type
            if name not in CONFIGURED_UNDER:
                yield ConfigKey(name, kind, each.default, _ALLOWED[kind])


KEYS: Final[Mapping[str, ConfigKey]] = {key.name: key for key in _keys()}


def secret_values(config: Config) -> Iterator[str]:
    """The values that no other program may see."""
    for key in KEYS.values():
        if key.is_secret:
            value = key.value_in(config)
            yield from value if isinstance(value, tuple) else (value,)
