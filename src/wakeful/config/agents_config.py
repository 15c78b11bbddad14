"""`[agents.NAME]` tables of the configuration: their keys, what each may be, and the specifications they make.

Every problem is named with its place and key, as everywhere in the configuration. Nothing here reads a file, and
nothing here knows whether the file may be trusted.
"""

import re
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Annotated, Any, Final

from msgspec import Meta

from wakeful.agents.model import (
    READY_SECONDS,
    AgentRuntime,
    AgentSpec,
    BadAgentName,
    Restart,
    parse_agent_name,
)
from wakeful.config.tables import Expand, Folder, Place, TableKey, checked, read_named
from wakeful.core.text import plain

SECTION: Final = "agents"
# An agent that needs longer than this to come up is not coming up.
READY_SECONDS_MAX: Final = 600
# The kernel takes no NUL in an argument or a path, and a line break in either is a slip.
_Word = Annotated[str, Meta(pattern=r"^[^\x00\n\r]*$", max_length=4096)]
_Program = Annotated[tuple[_Word, ...], Meta(min_length=1, max_length=1000)]
_Variable = Annotated[str, Meta(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$", max_length=200)]
_Variables = tuple[_Variable, ...]
_Mount = Annotated[str, Meta(pattern=r"^(/|~/)[^:\x00\n\r]*:/[^:\x00\n\r]*(:(ro|rw))?$", max_length=4096)]
_Mounts = tuple[_Mount, ...]
# What the engine would read as an option or as two words.
_Token = Annotated[str, Meta(pattern=r"^([A-Za-z0-9][^\s\x00]*)?$", max_length=500)]
_ReadySeconds = Annotated[float, Meta(gt=0, le=READY_SECONDS_MAX)]


AGENT_KEYS: Final[Mapping[str, TableKey]] = {
    "runtime": TableKey(AgentRuntime, None, "docker or tmux", "Where it lives. Needed."),
    "command": TableKey(
        _Program, None, 'a list of words, the program first, like ["claude"]', "What is run. Needed."
    ),
    "image": TableKey(
        _Token,
        "",
        "the name of an image",
        "docker only, and needed there. It has `sh`, `sleep`, `tmux` and the program.",
    ),
    "workdir": TableKey(
        Folder, "", "empty, or a path that begins with / or ~/", "Where it works. In docker a path inside."
    ),
    "env": TableKey(
        _Variables,
        (),
        'a list of names of variables, like ["ANTHROPIC_API_KEY"]',
        "Passed through by name from the daemon's environment; values are never written down.",
    ),
    "network": TableKey(
        _Token,
        "",
        "the name of a network",
        'docker only. Empty: none at all. Claude Code needs one, like "bridge".',
    ),
    "mounts": TableKey(
        _Mounts,
        (),
        'a list like ["~/code:/code:ro"]',
        "docker only. host:container, with :ro if it may not write.",
    ),
    "user": TableKey(_Token, "", "a user, or uid:gid", "docker only. Empty: the image's own."),
    "ready": TableKey(
        str, "", "a regular expression", "Its screen shows this once it is ready. Empty: not asked."
    ),
    "ready_seconds": TableKey(
        _ReadySeconds,
        READY_SECONDS,
        f"a number of seconds above 0, {READY_SECONDS_MAX} at most",
        "It must be ready by then.",
    ),
    "restart": TableKey(
        Restart, Restart.MANUAL, "manual or auto", "Who brings a stale one back: a person, or Wakeful, once."
    ),
}
DOCKER_ONLY: Final = ("image", "network", "mounts", "user")
_NEEDED: Final = ("runtime", "command")


def read_agents(table: object, place: Place, expand: Expand, problems: list[str]) -> Iterator[AgentSpec]:
    """The agents of one `[agents]` table; whatever is wrong is added to `problems`, and that agent is left out."""
    refusal = f"{place('', '')}: agents: must hold tables, [agents.NAME]"
    return read_named(table, refusal, partial(_agent, place, expand), problems)


def _agent(place: Place, expand: Expand, name: str, keys: object, problems: list[str]) -> AgentSpec | None:
    shown = f"agents.{plain(name, 60)}"
    try:
        parse_agent_name(name)
    except BadAgentName as problem:
        problems.append(f"{place(name, '')}: {shown}: {problem}")
        return None
    if not isinstance(keys, dict):
        problems.append(f"{place(name, '')}: {shown}: must be a table, [{shown}]")
        return None
    values: dict[str, Any] = {}
    for key, value in keys.items():
        said = _checked(key, value, expand, values)
        if said is not None:
            problems.append(f"{place(name, key)}: {shown}.{said}")
    problems += (f"{place(name, key)}: {shown}{said}" for key, said in _amiss(keys, values))
    return None if problems else AgentSpec(name=name, **values)


def _checked(key: str, value: object, expand: Expand, values: dict[str, Any]) -> str | None:
    """Take a value into `values`, or say what is wrong with it."""
    said = checked(AGENT_KEYS, key, value, values)
    if said is None and key == "ready":
        said = _not_a_pattern(values[key])
    if said is None:
        values[key] = _expanded(key, values[key], expand)
    return said


def _expanded(key: str, value: Any, expand: Expand) -> Any:
    if key == "workdir" and value:
        return expand(value)
    return tuple(expand(each) for each in value) if key == "mounts" else value


def _amiss(keys: Mapping[str, object], values: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """What is wrong with the table as a whole: the key it is about, and words."""
    for key in _NEEDED:
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


def _not_a_pattern(text: str) -> str | None:
    try:
        re.compile(text)
    except re.error as problem:
        return f"ready: {plain(repr(text), 60)} is not a regular expression: {plain(str(problem), 100)}"
    return None
