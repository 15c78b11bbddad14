"""The hooks that Wakeful adds to a client's settings: events, command, and the edits of the text. Pure.

The command is a line of sh instead of a program of Wakeful: it costs three times as much as `/bin/true`, and
stays harmless when Wakeful is stopped, moved or gone. A hook never gives the client an answer.
"""

import json
import shlex
from collections.abc import Iterator, Mapping
from typing import Any, Final

from wakeful.core.decoding import decode_json
from wakeful.core.errors import OperatorError
from wakeful.hooks.json_edit import (
    JsonContainer,
    JsonPart,
    NotPlainJson,
    append_part,
    container_at,
    parse,
    remove_part,
    root_of,
)

# A part of a text, and the container that it is in.
PartLocation = tuple[JsonContainer, JsonPart]

# A command that ends with this is Wakeful's own.
MARK: Final = "# wakeful hook"
# The client ends a hook that hangs, on a dead network drive for example, after so many seconds and goes on.
HOOK_SECONDS_MAX: Final = 5
# Unread reports are overwritten: an abandoned spool has at most so many,
SLOTS: Final = 512
# of so many bytes. The reader takes none that is longer.
REPORT_BYTES_MAX: Final = 1024 * 1024
# Few, and none that fires with every call: calls are in the log at once, questions to a person are not. Versions of
# a year ago know all of these events; some versions reject settings with an event that they do not know.
EVENTS: Final[Mapping[str, tuple[str, ...]]] = {
    "claude": (
        "SessionStart",
        "UserPromptSubmit",
        "PermissionRequest",
        "Notification",
        "PreCompact",
        "Stop",
        "SessionEnd",
    ),
    "codex": ("SessionStart", "UserPromptSubmit", "PermissionRequest", "Stop"),
}
FILES: Final = {"claude": "settings.json", "codex": "hooks.json"}


class NotOursToWrite(OperatorError, code="not-ours-to-write"):
    """{path} was not changed: {reason}."""


def command_for(spool: str) -> str:
    """The command line of the hook. It writes its standard input to one of the spool's slots and prints nothing.

    It never exits with 2, which would refuse the request: `command` keeps the shell from doing so when it cannot
    create the file. LC_ALL=C saves loading a locale, a third of the cost of `/bin/true`.
    """
    write = f"command exec 2>/dev/null >$(($$%{SLOTS})) && LC_ALL=C exec head -c {REPORT_BYTES_MAX}"
    return f"cd {shlex.quote(spool)} 2>/dev/null && umask 077 && {write}; exit 0 {MARK}"


def plugin_command() -> str:
    """The same for the plugin of Claude Code, whose file is one for all users: the shell finds the spool.

    It is silent where the settings have Wakeful's own hooks, so that nothing is reported twice.
    """
    state = "${WAKEFUL_HOME:-${XDG_STATE_HOME:-$HOME/.local/state}/wakeful}"
    settings = '"${CLAUDE_CONFIG_DIR:-$HOME/.claude}/settings.json"'
    write = f"command exec 2>/dev/null >$(($$%{SLOTS})) && LC_ALL=C exec head -c {REPORT_BYTES_MAX}"
    return f'! grep -qs "{MARK}" {settings} && cd "{state}/spool" 2>/dev/null && umask 077 && {write}; exit 0 {MARK}'


def has_plugin(text: str) -> bool:
    """Whether these settings of Claude Code enable the plugin, from any marketplace. Raises NotPlainJson."""
    settings = parse(text)
    enabled = settings.get("enabledPlugins") if isinstance(settings, dict) else None
    return isinstance(enabled, dict) and any(
        name.partition("@")[0] == "wakeful" and value is True for name, value in enabled.items()
    )


def snippet(client: str, command: str) -> str:
    """The hooks as a settings file of their own."""
    return _json({"hooks": {event: [_group(command)] for event in EVENTS[client]}})


def _group(command: str) -> dict[str, object]:
    return {"hooks": [_handler(command)]}


def _handler(command: str) -> dict[str, object]:
    return {"type": "command", "command": command, "timeout": HOOK_SECONDS_MAX}


def _json(value: object) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False)


def with_hooks(text: str, client: str, command: str) -> str:
    """The settings with Wakeful's hooks after the existing ones. Raises NotPlainJson, also for hooks of another shape."""
    settings = parse(text)
    if not isinstance(settings, dict):
        raise NotPlainJson(reason="the file is not a JSON object")
    if not isinstance(settings.get("hooks", {}), dict):
        raise NotPlainJson(reason="hooks is not an object")
    if "hooks" not in settings:
        return _with_part(text, (), _member("hooks", {each: [_group(command)] for each in EVENTS[client]}))
    for event in EVENTS[client]:
        if event not in settings["hooks"]:
            text = _with_part(text, ("hooks",), _member(event, [_group(command)]))
        elif isinstance(settings["hooks"][event], list):
            text = _with_part(text, ("hooks", event), _json(_group(command)))
        else:
            raise NotPlainJson(reason=f"hooks.{event} is not a list")
    return text


def _member(name: str, value: object) -> str:
    return f"{_json(name)}: {_json(value)}"


def _with_part(text: str, path: tuple[str, ...], part: str) -> str:
    container = root_of(text)
    for name in path:
        member = container.find(name) if container is not None else None
        assert member is not None, "checked before"
        container = container_at(text, member.value)
    assert container is not None, "checked before"
    return append_part(text, container, part, len(path) + 1)


def without_hooks(text: str) -> str:
    """The settings without Wakeful's hooks, and without containers that become empty. Raises NotPlainJson."""
    parse(text)
    while (shorter := _remove_one_hook(text)) is not None:
        assert len(shorter) < len(text), "a hook was removed"
        text = shorter
    return text


def our_commands(text: str) -> frozenset[str]:
    """The commands of Wakeful's hooks in the text. Raises NotPlainJson."""
    return frozenset(handler["command"] for _, handler in _our_handlers(text))


def is_in_place(text: str, client: str, command: str) -> bool:
    """Whether Wakeful's hooks are complete and current, in any place among other hooks. Raises NotPlainJson."""
    found = _our_handlers(text)
    events = [event for event, _ in found]
    return sorted(events) == sorted(EVENTS[client]) and all(each == _handler(command) for _, each in found)


def _our_handlers(text: str) -> list[tuple[str, dict[str, Any]]]:
    parse(text)
    handlers = [(event.name, text[part.value : part.end]) for _, (_, event), _, (_, part) in _handlers(text)]
    return [(event, decode_json(handler)) for event, handler in handlers if _is_ours(handler)]


def _remove_one_hook(text: str) -> str | None:
    """The text without one of Wakeful's hooks and without containers that become empty; None if there is none."""
    for *above, found in _handlers(text):
        container, part = found
        if not _is_ours(text[part.value : part.end]):
            continue
        while above and len(container.parts) == 1:
            container, part = above.pop()
        return remove_part(text, container, part)
    return None


def _handlers(text: str) -> Iterator[tuple[PartLocation, ...]]:
    """The location of each handler, after those of its settings, event and group."""
    for top, hooks in _child_containers(text, root_of(text), "hooks"):
        for event in hooks.parts:
            for group, handlers in _groups(text, event):
                for handler in handlers.parts:
                    yield top, (hooks, event), group, (handlers, handler)


def _groups(text: str, event: JsonPart) -> Iterator[tuple[PartLocation, JsonContainer]]:
    groups = container_at(text, event.value)
    for group in groups.parts if groups is not None else ():
        for _, handlers in _child_containers(text, container_at(text, group.value), "hooks"):
            assert groups is not None, "it has parts"
            yield (groups, group), handlers


def _child_containers(
    text: str, outer: JsonContainer | None, name: str
) -> Iterator[tuple[PartLocation, JsonContainer]]:
    member = outer.find(name) if outer is not None else None
    inner = container_at(text, member.value) if member is not None else None
    if outer is not None and member is not None and inner is not None:
        yield (outer, member), inner


def _is_ours(handler: str) -> bool:
    value = decode_json(handler)
    return isinstance(value, dict) and str(value.get("command", "")).endswith(MARK)
