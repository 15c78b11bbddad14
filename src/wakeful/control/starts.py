"""What a person's command becomes: which driver, which conversation, which environment. Pure.

`wakeful run -- claude …` knows its conversation before anything starts, because Wakeful names it; `codex exec` tells
its own afterwards; any other program is known by the name it was given.
"""

import re
from collections.abc import Collection, Mapping
from pathlib import PurePath
from typing import Final
from uuid import UUID

from msgspec import Struct

from wakeful.core.errors import OperatorError
from wakeful.core.ids import ConversationId, SessionId
from wakeful.core.managed_session import EPOCH_VARIABLE, INTENT_VARIABLE, SESSION_VARIABLE

NAME_CHARS_MAX: Final = 64
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*\Z")
# What a client, tmux or Wakeful tells its children about itself: a session started from inside another one must not
# be taken for a part of it.
INHERITED: Final = frozenset(
    {
        "CLAUDECODE",
        "CLAUDE_CODE_SESSION_ID",
        "CLAUDE_CODE_CHILD_SESSION",
        "CLAUDE_CODE_ENTRYPOINT",
        "CLAUDE_CODE_EXECPATH",
        "CLAUDE_EFFORT",
        "CODEX_THREAD_ID",
        "CODEX_SESSION_ID",
        "CODEX_TOOL_CALL_ID",
        "TMUX",
        "TMUX_PANE",
        SESSION_VARIABLE,
        EPOCH_VARIABLE,
        INTENT_VARIABLE,
    }
)


class BadName(OperatorError):
    """{shown!r} cannot be a session's name: letters, digits, _ and - only, 64 characters at most."""

    code = "bad-name"


class NoCommand(OperatorError):
    """There is no command to run. Example: wakeful run -- claude"""

    code = "no-command"


class CodexNeedsExec(OperatorError):
    """Codex is driven as `codex exec`: wakeful run -- codex exec "your prompt". Start the interactive one yourself and hand it over with `wakeful session adopt`."""

    code = "codex-needs-exec"


class NoHeadlessDriver(OperatorError):
    """{program} has no way to be driven without a terminal: leave --headless out. With --detach it starts in a tmux of its own and you stay here."""

    code = "no-headless-driver"


class RunRequest(Struct, frozen=True, forbid_unknown_fields=True):
    """`wakeful run` as it was asked for: the command, where, in which environment, with or without a terminal."""

    argv: tuple[str, ...]
    cwd: str
    environ: dict[str, str]
    name: str | None = None
    terminal: bool = True
    prompt: str | None = None


class Plan(Struct, frozen=True):
    """What will be started. Without `session_id` the client names its conversation itself."""

    driver: str
    argv: tuple[str, ...]
    session_id: SessionId | None
    conversation_id: ConversationId | None
    name: str | None
    prompt: str | None
    prompt_id: str | None = None
    # Nobody reads logs of such a client: it is seen by an event log that is opened for it.
    unseen: bool = False


def plan_run(request: RunRequest, new_id: UUID, drivers: Collection[str] = ()) -> Plan:
    """Decide how a command is hosted. Raises NoCommand, BadName, CodexNeedsExec or NoHeadlessDriver.

    `drivers`: what can be driven without a terminal, by the names of their programs.
    """
    if not request.argv or not request.argv[0]:
        raise NoCommand
    if request.name is not None:
        check_name(request.name)
    program = PurePath(request.argv[0]).name
    if program == "claude":
        return _claude(request, new_id)
    if program == "codex":
        return _codex(request)
    if not request.terminal and program in drivers:
        session_id = SessionId(f"{program}-{new_id}")
        conversation = ConversationId(str(new_id))
        return Plan(
            program, request.argv, session_id, conversation, request.name, request.prompt, unseen=True
        )
    if not request.terminal:
        raise NoHeadlessDriver(program=program)
    name = request.name or f"{plain_name(program)}-{str(new_id)[:8]}"
    return Plan(
        "tmux", request.argv, SessionId(name), ConversationId(name), name, request.prompt, unseen=True
    )


def check_name(name: str) -> None:
    """Raises BadName."""
    if len(name) > NAME_CHARS_MAX or _NAME.match(name) is None:
        raise BadName(shown=name[:NAME_CHARS_MAX])


def environment(caller: Mapping[str, str]) -> dict[str, str]:
    """The caller's environment without what tells its children whose they are."""
    return {name: value for name, value in caller.items() if name not in INHERITED}


def _claude(request: RunRequest, new_id: UUID) -> Plan:
    conversation = ConversationId(str(new_id))
    driver = "tmux" if request.terminal else "claude"
    return Plan(
        driver, request.argv, SessionId(f"claude-{new_id}"), conversation, request.name, request.prompt
    )


def _codex(request: RunRequest) -> Plan:
    """`codex exec FLAGS PROMPT`: the last word is the prompt, unless one was given apart from the command."""
    program, *words = request.argv
    if not words or words[0] != "exec":
        raise CodexNeedsExec
    flags, prompt = words[1:], request.prompt
    if prompt is None and flags and not flags[-1].startswith("-"):
        prompt = flags.pop()
    if prompt is None:
        raise CodexNeedsExec
    return Plan("codex", (program, *flags), None, None, request.name, prompt)


def plain_name(program: str) -> str:
    """What is left of a name that may be a session's."""
    return re.sub(r"[^A-Za-z0-9_-]", "-", program)[: NAME_CHARS_MAX // 2].strip("-") or "run"
