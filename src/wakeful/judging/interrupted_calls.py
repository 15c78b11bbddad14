"""Classifies the unfinished tool calls of a session by the effects they may have had.

`local` can be repeated or checked on this machine, `remote` cannot be undone, `unknown` counts as remote.
Healing and recovery use the answer; this module decides no action. The rules are in
docs/reference/effects.md.
"""

import re
from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec
from msgspec import Struct

from wakeful.core.clock import Instant
from wakeful.core.decoding import json_decoder
from wakeful.core.redaction import redact
from wakeful.effects.inline_code import read_tool_script
from wakeful.effects.rules import MEANINGS, RANK, Effect, EffectRule, rules_by_name
from wakeful.effects.shell import Ruling, classify_text, classify_words
from wakeful.judging.activity import INPUT_BYTES_KEPT_MAX, Activity, BackgroundTask, OpenCall
from wakeful.judging.events import CallKind
from wakeful.judging.kept_ids import kept_id

_decode: Final = json_decoder(dict[str, Any])


class EffectVerdict(Struct, frozen=True):
    """The class of a call, the deciding rule, and the part of the agent's text that it applies to."""

    effect: Effect
    rule: EffectRule
    words: str

    @property
    def reads_only(self) -> bool:
        """Whether nothing was changed, not even locally."""
        return MEANINGS[self.rule].reads_only


class InterruptedCall(Struct, frozen=True):
    """A call that had not returned when its session ended. `given`: the beginning of its input."""

    call: str
    tool: str
    since: Instant
    verdict: EffectVerdict
    given: bytes = b""


def classify(tool: str, given: bytes) -> EffectVerdict:
    """The class of one call. Never raises; an unreadable input is unknown."""
    return _verdict(_ruling_for(tool, given), tool, given)


def interrupted_calls(activity: Activity) -> tuple[InterruptedCall, ...]:
    """The unfinished work of a session, oldest first: its open calls, and the commands it left running."""
    tasks = [
        _interrupted(handle, task, _classify_kept_input(task.tool, task.input))
        for handle, task in activity.background.items()
    ]
    calls = [_interrupted(call.call, call, _of_call(call, activity)) for call in activity.calls.values()]
    return tuple(sorted([*tasks, *calls], key=lambda each: each.since))


def _interrupted(handle: str, call: OpenCall | BackgroundTask, ruling: Ruling) -> InterruptedCall:
    return InterruptedCall(
        kept_id(handle), call.tool, call.since, _verdict(ruling, call.tool, call.input), call.input
    )


def _of_call(call: OpenCall, activity: Activity) -> Ruling:
    if call.kind is CallKind.SUBAGENT:
        return Ruling(EffectRule.SUBAGENT, call.tool)
    if call.kind is CallKind.PERSON:
        return Ruling(EffectRule.ASKS_PERSON, call.tool)
    ruling = _classify_kept_input(call.tool, call.input)
    if ruling.rule is EffectRule.POLLS and not _polls_known(call.input, activity):
        return Ruling(EffectRule.POLLS_UNSEEN, ruling.words)
    return ruling


def _classify_kept_input(tool: str, given: bytes) -> Ruling:
    """The ruling for a stored input, which may be cut."""
    ruling = _ruling_for(tool, given)
    if len(given) < INPUT_BYTES_KEPT_MAX or tool in TOOLS:
        return ruling
    return _worst(ruling, Ruling(EffectRule.UNREADABLE, ruling.words))


_HANDLE: Final = re.compile(rb'\b(?:session_id|task_id|bash_id|shell_id)"?\s*:\s*"?([\w-]+)')


def _polls_known(given: bytes, activity: Activity) -> bool:
    """Whether a call waits for a known background command, which has its own class."""
    handles = [handle.decode("ascii", "replace") for handle in _HANDLE.findall(given)]
    return bool(handles) and all({handle, kept_id(handle)} & activity.background.keys() for handle in handles)


def _verdict(ruling: Ruling, tool: str, given: bytes) -> EffectVerdict:
    """The verdict, with its text from the redacted input: redaction needs whole quotes to see where a secret ends."""
    text = given.decode("utf-8", "replace")
    clean = redact(text)
    words = ruling.words if clean == text else redact(_ruling_for(tool, clean.encode()).words)
    return EffectVerdict(MEANINGS[ruling.rule].effect, ruling.rule, words)


def _worst(*rulings: Ruling) -> Ruling:
    return max(rulings, key=lambda ruling: RANK[ruling.rule])


# The rules of tools that do not depend on their input.
TOOLS: Final[Mapping[str, EffectRule]] = rules_by_name(
    reads="EnterPlanMode Glob Grep LS LSP ListMcpResourcesTool NotebookRead Read ReadMcpResourceTool Skill TaskCreate "
    "TaskGet TaskList TaskUpdate TodoRead TodoWrite ToolSearch glob grep list_dir list_mcp_resources ls read "
    "read_file read_mcp_resource search_file_content todoread todowrite tool_search update_plan view_image",
    network_read="WebFetch WebSearch web__run web_fetch web_search webfetch",
    local_write="Edit KillBash KillShell MultiEdit NotebookEdit TaskStop Write apply_patch create_file edit "
    "replace write write_file",
    polls="BashOutput TaskOutput wait",
    asks_person="AskUserQuestion ExitPlanMode request_permissions request_user_input",
    subagent="Agent AgentOutputTool Task send_input spawn_agent task wait_agent",
)
SHELL_TOOLS: Final = (
    "Bash", "bash", "container.exec", "exec_command", "execute_command", "local_shell", "run_shell_command",
    "run_terminal_cmd", "shell", "shell_command",
)  # fmt: skip


def _ruling_for(tool: str, given: bytes) -> Ruling:
    if tool in TOOLS:
        return Ruling(TOOLS[tool], tool)
    classifier = _TOOL_CLASSIFIERS.get(tool)
    if classifier is not None:
        return classifier(given)
    return Ruling(_mcp_rule(tool) if tool.startswith("mcp__") else EffectRule.UNKNOWN_TOOL, tool[:200])


_CUT_COMMAND: Final = re.compile(rb'"(?:command|cmd)"\s*:\s*"((?:[^"\\]|\\.)*)', re.DOTALL)


def shell_command(given: bytes) -> str | list[str] | None:
    """The command of a shell tool: a text or an argument list. Raises ValueError if its input was cut."""
    try:
        arguments = _decode(given)
    except msgspec.DecodeError as error:
        raise ValueError("not whole") from error
    inner = arguments.get("action")
    arguments = inner if isinstance(inner, dict) else arguments
    command = next((arguments[key] for key in ("command", "cmd", "script") if key in arguments), None)
    if isinstance(command, list) and command:
        return [str(word) for word in command]
    return command if isinstance(command, str) else None


def _shell(given: bytes) -> Ruling:
    try:
        command = shell_command(given)
    except ValueError:
        # The rest of a cut input can still show that it is remote.
        found = _CUT_COMMAND.search(given)
        text = found[1].decode("utf-8", "replace").replace("\\n", "\n").replace('\\"', '"') if found else ""
        return _worst(classify_text(text), Ruling(EffectRule.UNREADABLE))
    if isinstance(command, list):
        return classify_words(command)
    return classify_text(command) if command is not None else Ruling(EffectRule.UNREADABLE)


def _classify_typed_input(given: bytes) -> Ruling:
    """An empty line polls a program, Ctrl-C ends it, anything else is input for it."""
    try:
        chars = _decode(given).get("chars", "")
    except msgspec.DecodeError:
        return Ruling(EffectRule.UNREADABLE)
    return _typed_chars(chars if isinstance(chars, str) else None)


def _typed_chars(chars: str | None) -> Ruling:
    if chars == "":
        return Ruling(EffectRule.POLLS, "write_stdin")
    if chars == "\x03":
        return Ruling(EffectRule.LOCAL_WRITE, "write_stdin: Ctrl-C")
    return Ruling(EffectRule.TYPED_INPUT, "write_stdin")


def _script(given: bytes) -> Ruling:
    """Code that calls tools: each call is classified; unreadable parts count as hidden commands."""
    script = read_tool_script(given.decode("utf-8", "replace"))
    rulings = [_classify_tool_call(call.tool, call.argument) for call in script.calls]
    if not script.whole:
        # Its texts may be the commands it runs.
        texts = map(classify_text, script.texts)
        remote = [each for each in texts if MEANINGS[each.rule].effect is Effect.REMOTE]
        rulings += [Ruling(EffectRule.HIDDEN_COMMAND, "tools in a script"), *remote]
    return _worst(Ruling(EffectRule.READS, "a script without tools"), *rulings)


def _classify_tool_call(tool: str, argument: str | None) -> Ruling:
    if tool in SHELL_TOOLS:
        return classify_text(argument) if argument is not None else Ruling(EffectRule.HIDDEN_COMMAND, tool)
    if tool == "write_stdin":
        return _typed_chars(argument)
    if tool in _TOOL_CLASSIFIERS:
        return Ruling(EffectRule.HIDDEN_COMMAND, tool)
    return _ruling_for(tool, b"{}")


_TOOL_CLASSIFIERS: Final[Mapping[str, Callable[[bytes], Ruling]]] = {
    **dict.fromkeys(SHELL_TOOLS, _shell),
    "exec": _script,
    "write_stdin": _classify_typed_input,
}

_NAME_PART: Final = re.compile(r"[A-Z]?[a-z]+|[A-Z]+|[0-9]+")
_MCP_READS: Final = frozenset(
    {
        "browse", "count", "describe", "diff", "explain", "fetch", "find", "get", "grep", "inspect", "list", "lookup",
        "query", "read", "retrieve", "search", "show", "stat", "status", "view",
    }
)  # fmt: skip
_MCP_WRITES: Final = frozenset(
    {
        "add", "apply", "approve", "assign", "call", "cancel", "click", "close", "comment", "commit", "copy", "create",
        "delete", "deploy", "disable", "do", "drop", "edit", "email", "enable", "eval", "exec", "execute", "fill",
        "insert", "invoke", "kill", "lock", "mark", "merge", "message", "move", "notify", "open", "patch", "pay", "post",
        "publish", "push", "put", "refund", "remove", "rename", "reply", "resolve", "restart", "rotate", "run", "save",
        "send", "set", "share", "start", "stop", "submit", "subscribe", "sync", "trigger", "type", "update", "upload",
        "upsert", "write",
    }
)  # fmt: skip


def _mcp_rule(tool: str) -> EffectRule:
    """A tool reads if one of the first two words of its name is a reading verb and none is a writing one."""
    parts = [part.lower() for part in _NAME_PART.findall(tool[:200].rsplit("__", 1)[-1])]
    # A query may change data, as in SQL.
    reads = bool(_MCP_READS.intersection(parts[:2])) and parts[0] != "query"
    return EffectRule.MCP_READ if reads and not _MCP_WRITES.intersection(parts) else EffectRule.MCP_TOOL
