"""Schema of `[gateway]`, `[conversation]`, `[response_actions]` and the `[gateway.chats]` tables.

It reads no file; `load.py` does. Every problem is reported with its place and key.
"""

from collections.abc import Iterator, Mapping
from enum import StrEnum
from functools import partial
from typing import Annotated, Any, Final, NewType

import msgspec
from msgspec import Meta, Struct

from wakeful.config.heartbeat import CommandWords
from wakeful.config.tables import Expand, FolderPath, KeyOrigin, TableKey, check_value, read_named_tables
from wakeful.core.text import plain
from wakeful.integrations.providers import NAMES

CHATS: Final = "gateway.chats"
DEFAULT_CHAT: Final = "default"
Secret = NewType("Secret", str)
"""A value that is never shown."""


class PermissionMode(StrEnum):
    """What an agent may do without asking, in Claude Code's terms."""

    DEFAULT = "default"
    ACCEPT_EDITS = "acceptEdits"
    PLAN = "plan"
    BYPASS = "bypassPermissions"


# The clients that have a module in `integrations/providers`.
ProviderName = Annotated[str, Meta(pattern=f"^({'|'.join(NAMES)})$")]
_PROVIDERS: Final = " or ".join(NAMES)
_SECONDS_MAX: Final = 86_400
UserIds = tuple[Annotated[int, Meta(ge=1, le=2**53)], ...]
# The Bot API, or a self-hosted server that implements it.
ApiUrl = Annotated[str, Meta(pattern=r"^https?://\S+$")]
DaySeconds = Annotated[float, Meta(gt=0, le=_SECONDS_MAX)]
# Telegram itself allows about one edit a second in a chat.
EditSeconds = Annotated[float, Meta(ge=0.01, le=60)]
SmallCount = Annotated[int, Meta(ge=1, le=1000)]
Minutes = Annotated[float, Meta(gt=0, le=525_600)]
Chars = Annotated[int, Meta(ge=1, le=100_000)]
Milliseconds = Annotated[int, Meta(ge=1, le=600_000)]
Percent = Annotated[float, Meta(gt=0, le=100)]
Factor = Annotated[float, Meta(gt=0, le=1000)]

ALLOWED: Final[Mapping[Any, str]] = {
    UserIds: "a list of numeric user ids, like [123456789]",
    ApiUrl: "an address that begins with https:// or http://",
    ProviderName: _PROVIDERS,
    DaySeconds: f"a number of seconds above 0, {_SECONDS_MAX} at most",
    EditSeconds: "a number of seconds from 0.01 to 60",
    SmallCount: "a whole number from 1 to 1000",
    Minutes: "a number of minutes above 0, 525600 at most",
    Chars: "a whole number of characters from 1 to 100000",
    Milliseconds: "a whole number of milliseconds from 1 to 600000",
    Percent: "a number above 0, 100 at most",
    Factor: "a number above 0, 1000 at most",
}


class GatewayConfig(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    token: Secret = Secret("")
    api: ApiUrl = "https://api.telegram.org"
    allow: UserIds = ()
    admins: UserIds = ()
    provider: ProviderName = "claude"
    turn_seconds: DaySeconds = 1800.0
    question_seconds: DaySeconds = 600.0
    edit_seconds: EditSeconds = 1.0
    approve_only_in_chat: bool = False


class ProviderConfig(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How a provider is run, and when its circuit breaker opens."""

    argv: CommandWords
    failures_max: SmallCount = 3
    open_seconds: DaySeconds = 30.0
    successes_needed: SmallCount = 2


def _provider_section(name: str) -> type[ProviderConfig]:
    """A ProviderConfig whose default command is the provider's name."""
    fields = [("argv", CommandWords, (name,))]
    section = msgspec.defstruct(name, fields, bases=(ProviderConfig,), frozen=True, kw_only=True)
    assert issubclass(section, ProviderConfig), "as its bases say"
    return section


PROVIDER_SECTIONS: Final[Mapping[str, type[ProviderConfig]]] = {
    f"gateway.{name}": _provider_section(name) for name in NAMES
}


def default_providers() -> dict[str, ProviderConfig]:
    return {name: PROVIDER_SECTIONS[f"gateway.{name}"](argv=(name,)) for name in NAMES}


class HostMonitorConfig(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is watched on the host, and the limits for each figure."""

    watch_seconds: DaySeconds = 60.0
    disk_percent: Percent = 90.0
    memory_percent: Percent = 96.0
    load_per_core: Factor = 2.0
    runaway_cpu_percent: Percent = 90.0
    runaway_memory_percent: Percent = 50.0
    error_spike_factor: Factor = 3.0
    pm2: bool = True
    docker: bool = True


class ConversationConfig(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The session pool, and how much of a replied-to message goes into the prompt."""

    max_active_sessions: SmallCount = 24
    idle_ttl_minutes: Minutes = 30.0
    reply_context_max_chars: Chars = 500
    enable_reply_context_injection: bool = True


class ResponseActionsConfig(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Buttons below an answer. The model chooses them: one more call for every answer."""

    enabled: bool = True
    decision_timeout_ms: Milliseconds = 5000
    max_prompt_chars: Chars = 2000
    max_response_chars: Chars = 4000


SECTIONS: Final[Mapping[str, type[Struct]]] = {
    "gateway": GatewayConfig,
    **PROVIDER_SECTIONS,
    "gateway.host": HostMonitorConfig,
    "conversation": ConversationConfig,
    "response_actions": ResponseActionsConfig,
}
_OF_PROVIDER: Final = {
    "argv": "Command of the client; add flags after the program.",
    "failures_max": "After this many failures in a row, no new requests from the chat,",
    "open_seconds": "for this long (seconds);",
    "successes_needed": "then this many single tests must succeed.",
}
MEANINGS: Final = {
    "gateway.token": "The bot's token; better as WAKEFUL_GATEWAY__TOKEN. Set: `wakeful up` starts the gateway.",
    "gateway.api": "Address of the Bot API.",
    "gateway.allow": "Ids of allowed users. Empty: none.",
    "gateway.admins": "Ids of administrators: they see health and errors, decide, and use <telegram-api>.",
    "gateway.provider": "Default provider of a chat.",
    "gateway.turn_seconds": "A turn without progress for this long is given up.",
    "gateway.question_seconds": "A permission request without an answer is denied after this.",
    "gateway.edit_seconds": "Least time between two edits of a message.",
    "gateway.approve_only_in_chat": "true: answers, resumes and checkpoints are decided only in the chat.",
    **{f"gateway.{name}.{key}": meaning for name in NAMES for key, meaning in _OF_PROVIDER.items()},
    "gateway.host.watch_seconds": "Interval of the host checks.",
    "gateway.host.disk_percent": "Alert above this disk use, and remove old files of the gateway.",
    "gateway.host.memory_percent": "Alert above this memory use, and restart sessions to free memory.",
    "gateway.host.load_per_core": "Alert above this load per core.",
    "gateway.host.runaway_cpu_percent": "A provider process above this for five minutes is a runaway,",
    "gateway.host.runaway_memory_percent": "and one above this is a runaway at once.",
    "gateway.host.error_spike_factor": "Error spike: this many times the day's mean, and at least one per minute.",
    "gateway.host.pm2": "Check PM2's processes, if it is installed.",
    "gateway.host.docker": "Check Docker's containers, if its socket exists.",
    "conversation.max_active_sessions": "Above this many sessions, the longest idle one is ended.",
    "conversation.idle_ttl_minutes": "An idle session is ended after this. Its conversation continues with the next message.",
    "conversation.reply_context_max_chars": "Maximum length of the quoted message in a reply.",
    "conversation.enable_reply_context_injection": "false: do not include the quoted message.",
    "response_actions.enabled": "false: only the Context button, and no extra model call.",
    "response_actions.decision_timeout_ms": "No buttons if the decision takes longer.",
    "response_actions.max_prompt_chars": "Characters of the question used for the decision,",
    "response_actions.max_response_chars": "and of the answer.",
}


class ChatConfig(Struct, frozen=True, kw_only=True):
    """Where and how a chat or a topic works. `key` is its conversation key, or `default`."""

    key: str
    folder: str = ""
    permission_mode: PermissionMode | None = None
    provider: ProviderName | None = None
    send_from: str = ""


_Key = Annotated[str, Meta(pattern=r"^(default|chat:-?[0-9]{1,20}:thread:(main|[0-9]{1,20}))$")]
CHAT_KEYS: Final[Mapping[str, TableKey]] = {
    "folder": TableKey(
        FolderPath,
        "",
        "empty, or a path that begins with / or ~/",
        "Working directory. Empty: that of `default`, else its own folder in the state folder.",
    ),
    "permission_mode": TableKey(
        PermissionMode,
        None,
        "default, acceptEdits, plan or bypassPermissions",
        "What the agent may do without asking. Missing: that of the `default` table, else `default`, which asks for everything.",
    ),
    "provider": TableKey(ProviderName, None, _PROVIDERS, "Provider of the chat. Missing: gateway.provider."),
    "send_from": TableKey(
        FolderPath,
        "",
        "empty, or a path that begins with / or ~/",
        "Files in this folder may be sent to the chat. Empty: none.",
    ),
}


def read_chats(table: object, origin: KeyOrigin, expand: Expand, problems: list[str]) -> Iterator[ChatConfig]:
    """The chats of one `[gateway.chats]` table. A chat with an error is left out; `problems` gets the error."""
    refusal = f'{origin("", "")}: {CHATS}: must hold tables, [{CHATS}."chat:1:thread:main"]'
    return read_named_tables(table, refusal, partial(_read_chat, origin, expand), problems)


def _read_chat(
    origin: KeyOrigin, expand: Expand, key: str, table: object, problems: list[str]
) -> ChatConfig | None:
    shown = f'{CHATS}."{plain(key, 60)}"'
    try:
        msgspec.convert(key, _Key)
    except msgspec.ValidationError:
        problems.append(f"{origin(key, '')}: {shown}: must be default or chat:<id>:thread:<id or main>")
        return None
    if not isinstance(table, dict):
        problems.append(f"{origin(key, '')}: {shown}: must be a table, [{shown}]")
        return None
    values: dict[str, Any] = {}
    for name, value in table.items():
        problem = check_value(CHAT_KEYS, name, value, values)
        if problem is not None:
            problems.append(f"{origin(key, name)}: {shown}.{problem}")
        elif CHAT_KEYS[name].kind == FolderPath and values[name]:
            values[name] = expand(values[name])
    return None if problems else ChatConfig(key=key, **values)
