"""Builds the command lines that start or resume a client with the intended conversation. Pure.

A resume keeps the options of the first start and nothing else, so a person's prompt is never given twice. An
unknown option is refused, because dropping it could remove a limit.
"""

from collections.abc import Mapping, Sequence
from enum import Enum
from pathlib import PurePath
from typing import Final

from wakeful.control.driver import ArgumentRefused, ConversationUnknown, StartRequest
from wakeful.core.ids import ConversationId, is_uuid


class OptionArity(Enum):
    NONE = 0
    ONE = 1
    MAYBE_ONE = 2
    MANY = 3
    # A resume leaves out the option and its values: it chose or named the conversation.
    LEFT_OUT = 4
    LEFT_OUT_WITH_ONE = 5
    LEFT_OUT_WITH_MAYBE_ONE = 6


_LEFT_OUT: Final = {
    OptionArity.LEFT_OUT: OptionArity.NONE,
    OptionArity.LEFT_OUT_WITH_ONE: OptionArity.ONE,
    OptionArity.LEFT_OUT_WITH_MAYBE_ONE: OptionArity.MAYBE_ONE,
}

CLAUDE_OPTIONS: Final[Mapping[str, OptionArity]] = {
    **dict.fromkeys(("--add-dir", "--allowedTools", "--allowed-tools", "--betas"), OptionArity.MANY),
    **dict.fromkeys(("--disallowedTools", "--disallowed-tools", "--mcp-config", "--tools"), OptionArity.MANY),
    **dict.fromkeys(
        ("--agent", "--agents", "--append-system-prompt", "--debug-file", "--effort"), OptionArity.ONE
    ),
    **dict.fromkeys(("--fallback-model", "--model", "--permission-mode", "--plugin-dir"), OptionArity.ONE),
    **dict.fromkeys(("--setting-sources", "--settings", "--system-prompt", "-n", "--name"), OptionArity.ONE),
    **dict.fromkeys(("-d", "--debug", "--prompt-suggestions"), OptionArity.MAYBE_ONE),
    **dict.fromkeys(
        ("--allow-dangerously-skip-permissions", "--dangerously-skip-permissions"), OptionArity.NONE
    ),
    **dict.fromkeys(("--bare", "--brief", "--chrome", "--no-chrome", "--ide", "--verbose"), OptionArity.NONE),
    **dict.fromkeys(("--disable-slash-commands", "--safe-mode", "--strict-mcp-config"), OptionArity.NONE),
    **dict.fromkeys(("-c", "--continue", "--fork-session"), OptionArity.LEFT_OUT),
    "--session-id": OptionArity.LEFT_OUT_WITH_ONE,
    **dict.fromkeys(("-r", "--resume"), OptionArity.LEFT_OUT_WITH_MAYBE_ONE),
}
CODEX_OPTIONS: Final[Mapping[str, OptionArity]] = {
    **dict.fromkeys(("-c", "--config", "--enable", "--disable", "-m", "--model"), OptionArity.ONE),
    **dict.fromkeys(("-p", "--profile", "-s", "--sandbox", "-a", "--ask-for-approval"), OptionArity.ONE),
    **dict.fromkeys(("-C", "--cd", "--add-dir", "--local-provider"), OptionArity.ONE),
    **dict.fromkeys(
        ("--oss", "--strict-config", "--search", "--approve-for-me", "--full-auto"), OptionArity.NONE
    ),
    **dict.fromkeys(("--dangerously-bypass-approvals-and-sandbox", "--no-alt-screen"), OptionArity.NONE),
    **dict.fromkeys(("--last", "--all"), OptionArity.LEFT_OUT),
}
_INTERPRETERS: Final = frozenset({"node", "bun"})
# These choose another conversation than the named one, or no terminal.
_CLAUDE_REFUSED: Final = frozenset(
    {
        *("-p", "--print", "-r", "--resume", "-c", "--continue", "--session-id", "--fork-session"),
        *("--bg", "--background", "--tmux", "--from-pr", "--no-session-persistence"),
    }
)


def program_of(argv: Sequence[str]) -> str:
    return PurePath(argv[0]).name if argv else ""


def without_interpreter(argv: Sequence[str]) -> tuple[str, ...]:
    """The command line without the interpreter of a client that is a script."""
    wrapped = program_of(argv) in _INTERPRETERS and program_of(argv[1:]) in ("claude", "codex")
    return tuple(argv[1:] if wrapped else argv)


def start_argv(request: StartRequest) -> tuple[str, ...]:
    """The command to start. Raises ArgumentRefused or ConversationUnknown."""
    if request.resume:
        return resume_argv(request.argv, request.conversation_id, request.cwd)
    if program_of(request.argv) != "claude" or request.conversation_id is None:
        return request.argv
    program, *arguments = request.argv
    for word in arguments[: arguments.index("--")] if "--" in arguments else arguments:
        if word.partition("=")[0] in _CLAUDE_REFUSED:
            raise ArgumentRefused(program=program, argument=word, advice="Leave it out.")
    return program, "--session-id", _require_uuid(request.conversation_id, request.cwd), *arguments


def resume_argv(argv: Sequence[str], conversation: ConversationId | None, cwd: str) -> tuple[str, ...]:
    """The command that continues the conversation with the options of its first start.

    Raises ArgumentRefused, ConversationUnknown. A program without conversations is started as it was.
    """
    argv = without_interpreter(argv)
    program, *words = argv
    match program_of(argv):
        case "claude":
            command, options = "--resume", CLAUDE_OPTIONS
        case "codex":
            words = words[1:] if words[:1] == ["resume"] else words
            command, options = "resume", CODEX_OPTIONS
        case _:
            return tuple(argv)
    return (program, command, _require_uuid(conversation, cwd), *kept_options(program, words, options))


def kept_options(program: str, words: Sequence[str], options: Mapping[str, OptionArity]) -> list[str]:
    """The options of a command line with their values, without prompts. Raises ArgumentRefused."""
    found: list[str] = []
    left = list(words)
    while left:
        word = left.pop(0)
        if word == "--":
            break
        if not word.startswith("-") or word == "-":
            continue
        name, equals, _ = word.partition("=")
        takes = options.get(name)
        if takes is None:
            advice = "It is unknown how many words follow it: resume by hand."
            raise ArgumentRefused(program=program, argument=name, advice=advice)
        values = [] if equals else _take_values(left, _LEFT_OUT.get(takes, takes))
        if takes not in _LEFT_OUT:
            found += [word, *values]
    return found


def first_word(words: Sequence[str], options: Mapping[str, OptionArity]) -> str | None:
    """The first word that is no option and no option's value: a command of the client, or a prompt."""
    left = list(words)
    while left:
        word = left.pop(0)
        if not word.startswith("-"):
            return word
        if word == "--":
            return None
        name, equals, _ = word.partition("=")
        takes = options.get(name, OptionArity.NONE)
        if not equals:
            _take_values(left, _LEFT_OUT.get(takes, takes))
    return None


def _take_values(left: list[str], takes: OptionArity) -> list[str]:
    count = {OptionArity.NONE: 0, OptionArity.MANY: len(left)}.get(takes, 1)
    values: list[str] = []
    while left and len(values) < count and (takes is OptionArity.ONE or not left[0].startswith("-")):
        values.append(left.pop(0))
    return values


def _require_uuid(conversation: ConversationId | None, cwd: str) -> str:
    """Raises ConversationUnknown: Codex would silently begin a new conversation for anything but a UUID."""
    if conversation is None or not is_uuid(conversation):
        raise ConversationUnknown(conversation=(conversation or "without a name")[:40], folder=cwd)
    return conversation
