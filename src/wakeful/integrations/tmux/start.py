"""Starts a program in its own tmux session, or resumes a conversation in the shell of the pane it died in.

The program and its environment are passed in a script that only its owner can read and that removes itself:
every user can read a command line, and a pane has its server's environment. The session keeps its pane until
the program has stayed alive, so that the last output of one that ends at once can be read; then it ends with
its program. A resume types one command, only at an empty shell prompt, and presses Enter only after reading it
back.
"""

import asyncio
import os
import re
import secrets
import shlex
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from wakeful.control.driver import ActionResult, ConversationUnknown, StartRequest
from wakeful.core.clock import Clock
from wakeful.core.errors import OperatorError, StartFailed
from wakeful.core.ids import ConversationId, SessionId
from wakeful.core.managed_session import (
    EPOCH_VARIABLE,
    INTENT_VARIABLE,
    SESSION_VARIABLE,
    ManagedSession,
    PaneAddress,
)
from wakeful.core.process import Process
from wakeful.integrations.claude_code.registry import entry_of
from wakeful.integrations.driver_support import confirmed, declined, unverified
from wakeful.integrations.tmux.input_line import ShellInput, prepare_prompt
from wakeful.integrations.tmux.pane import POLL_SECONDS, PaneController, poll_until, safe_screen_text
from wakeful.integrations.tmux.programs import program_of, start_argv, without_interpreter
from wakeful.integrations.tmux.screen import (
    Screen,
    front_group,
    group_of,
    is_interactive_shell,
    last_output,
    terminal_state,
)
from wakeful.integrations.tmux.server import TmuxFailed, TmuxServer, discard, exists, write_private
from wakeful.integrations.tmux.typed_notes import TypingStage
from wakeful.linux import proc
from wakeful.linux.child_environment import given_environ, kept_back, leaked_names
from wakeful.linux.launch import find_program

# tmux sets these in its panes; the caller's own would name another terminal.
_OF_TMUX: Final = ("TERM", "TMUX", "TMUX_PANE")
# A POSIX shell cannot set other names than these,
_SETTABLE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
# and keeps these for itself.
_READ_ONLY: Final = frozenset({"BASHOPTS", "BASH_VERSINFO", "EUID", "PPID", "SHELLOPTS", "UID", "_"})
# The file runs twice: the first time only to empty the environment of everything but tmux's variables.
_HEAD: Final = """\
if [ "$1" != exact ]; then
  exec env -i TERM="$TERM" TMUX="$TMUX" TMUX_PANE="$TMUX_PANE" /bin/sh "$0" exact
fi
rm -f -- "$0"
"""


async def unset_leaked_variables(server: TmuxServer) -> None:
    """Unset variables that a server of an earlier version may still pass on. Raises TmuxFailed."""
    shown = (await server.run("show-environment", "-g")).decode(errors="replace")
    variables = dict(line.split("=", 1) for line in shown.splitlines() if "=" in line)
    names = leaked_names(variables, os.environ)
    arguments = [word for name in names for word in (";", "set-environment", "-g", "-u", name)]
    if arguments:
        await server.run(*arguments[1:])


def write_script(folder: str, cwd: str, argv: Sequence[str], environ: Mapping[str, str]) -> str:
    """Write the script, readable and executable only by its owner; returns its path. Raises TmuxFailed."""
    name = f"launch-{secrets.token_hex(8)}.sh"
    return write_private(folder, name, os.fsencode(script_text(cwd, argv, environ)), mode=0o700)


def script_text(cwd: str, argv: Sequence[str], environ: Mapping[str, str]) -> str:
    """The script, without variables that a shell cannot set."""
    exports = [
        f"export {name}={shlex.quote(value)}\n"
        for name, value in given_environ(environ).items()
        if _SETTABLE.match(name) and name not in _READ_ONLY and name not in _OF_TMUX
    ]
    return f"{_HEAD}{''.join(exports)}cd -- {shlex.quote(cwd)} || exit 126\nexec {shlex.join(argv)}\n"


MARK_SESSION: Final = "@wakeful_session"
MARK_EPOCH: Final = "@wakeful_epoch"
MARK_INTENT: Final = "@wakeful_intent"
# Until a person attaches: wide enough for the clients' screens, tall enough for a question with a long command.
SIZE: Final = ("-x", "160", "-y", "50")
# A program that cannot run ends within this time.
STABLE_SECONDS: Final = 0.5
# Claude Code shows its input line 0.7 to 2 s after its start; a busy machine may need many times that.
READY_SECONDS_MAX: Final = 60.0
ATTEMPTS_MAX: Final = 5
SERVER_EXIT_SECONDS: Final = 0.1
_NAME: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_-]{0,63}\Z")
_DUPLICATE: Final = "duplicate session"
_SERVER_EXITED: Final = "server exited unexpectedly"
_NO_CONVERSATION: Final = "No conversation found"


class BadTmuxName(OperatorError):
    """Invalid tmux session name {shown!r}: use letters, digits, _ and -, at most 64 characters."""

    code = "bad-tmux-name"


class StartedProgram(Struct, frozen=True):
    """A start of which tmux has the script; the program itself was not seen yet."""

    request: StartRequest
    hosting: ManagedSession
    script: str


class TmuxStarter:
    def __init__(self, server: TmuxServer, folder: str, clock: Clock) -> None:
        self._server = server
        self._folder = folder
        self._clock = clock

    async def begin(self, request: StartRequest) -> StartedProgram:
        """Give the command to tmux. Raises as Driver.start, and BadTmuxName and TmuxFailed, before a program runs."""
        name = _name_of(request)
        command = start_argv(request)
        program = find_program(command[0], cwd=request.cwd, path=request.environ.get("PATH", os.defpath))
        environ = {**request.environ, **marks_of(request, name)}
        script = write_script(self._folder, request.cwd, (program, *command[1:]), environ)
        try:
            address = await self._create_session(request, name, script)
        except TmuxFailed:
            discard(script)
            raise
        return StartedProgram(request, _managed_session_of(request, address, self._clock.now().wall), script)

    async def wait_until_ready(self, started: StartedProgram, ready: Callable[[Screen], bool]) -> bool:
        """Wait until the program has replaced the script, stayed alive and become ready; False if it is not ready in time.

        Raises StartFailed or ConversationUnknown if it has ended, TmuxFailed if it cannot be seen.
        """
        loop = asyncio.get_running_loop()
        began, replaced_at = loop.time(), None
        try:
            while loop.time() - began < READY_SECONDS_MAX:
                screen = await self._require_alive(started)
                if replaced_at is None and _has_replaced_script(started):
                    replaced_at = loop.time()
                if replaced_at is not None and loop.time() - replaced_at > STABLE_SECONDS and ready(screen):
                    break
                await asyncio.sleep(POLL_SECONDS)
            else:
                return False
        finally:
            discard(started.script)
        await self._server.run("set-option", "-w", "-t", _target(started.hosting), "remain-on-exit", "off")
        # It may have ended just before that option was set.
        await self._require_alive(started)
        return True

    async def _require_alive(self, started: StartedProgram) -> Screen:
        """Its live pane. Raises StartFailed with the last output of a dead one, after closing it."""
        target = _target(started.hosting)
        screen = await self._server.capture(target)
        if not screen.dead:
            return screen
        output = await self._server.last_output(target)
        await self._server.run("kill-session", "-t", target)
        request = started.request
        if _NO_CONVERSATION in output:
            raise ConversationUnknown(conversation=request.conversation_id, folder=request.cwd)
        reason = safe_screen_text(output) or "no word of it was seen"
        raise StartFailed(program=request.argv[0], reason=reason)

    async def _create_session(self, request: StartRequest, name: str, script: str) -> PaneAddress:
        for _ in range(ATTEMPTS_MAX):
            try:
                return await self._new_session(request, name, script)
            except TmuxFailed as problem:
                if _DUPLICATE in str(problem):
                    # Its old session may live on in a second pane that a person opened there.
                    name = f"{name[:59]}-{secrets.token_hex(2)}"
                elif _SERVER_EXITED in str(problem) and exists(script):
                    # A server ends with its last session; its socket stays for a moment.
                    await asyncio.sleep(SERVER_EXIT_SECONDS)
                else:
                    raise
        raise TmuxFailed(reason=f"no session could be created in {ATTEMPTS_MAX} attempts")

    async def _new_session(self, request: StartRequest, name: str, script: str) -> PaneAddress:
        Path(self._server.socket).parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        # tmux would interpret these characters in a folder's name; the script changes there itself.
        folder = () if set(request.cwd) & set("#;") else ("-c", request.cwd)
        printed = await self._server.run(
            *("new-session", "-d", "-P", "-F", "#{pane_id} #{pane_pid} #{pid}", "-s", name, *SIZE, *folder),
            *("--", "/bin/sh", script, ";"),
            *_options(name, request),
        )
        await unset_leaked_variables(self._server)
        pane_id, *pids = printed.decode().split()
        process, server = (proc.identify_or_none(int(pid)) for pid in pids)
        return PaneAddress(self._server.socket, pane_id, name, process, server)


def _has_replaced_script(started: StartedProgram) -> bool:
    process = started.hosting.process
    return process is not None and started.script not in proc.command(process.pid)


def _target(managed: ManagedSession) -> str:
    assert managed.pane is not None, "it was started in a pane"
    return managed.pane.target


def _managed_session_of(request: StartRequest, address: PaneAddress, since: float) -> ManagedSession:
    """A program without conversations is identified by the name of its tmux session."""
    return ManagedSession(
        session_id=request.session_id or SessionId(address.session),
        conversation_id=request.conversation_id or ConversationId(address.session),
        driver="tmux",
        cwd=request.cwd,
        argv=request.argv,
        epoch=request.epoch,
        since=since,
        process=address.process,
        pane=address,
        name=request.name,
    )


def _options(name: str, request: StartRequest) -> Sequence[str]:
    """Part of the starting command, so that no crash leaves Wakeful's session without its marks."""
    session_id = request.session_id or name
    marks = {MARK_SESSION: session_id, MARK_EPOCH: str(request.epoch), MARK_INTENT: request.intent_id}
    # The server stays when the last program ends: then its loss always means a crash.
    arguments = ["set-option", "-s", "exit-empty", "off"]
    arguments += [";", "set-option", "-w", "-t", f"={name}:", "remain-on-exit", "on"]
    # A person's tmux.conf may end sessions without an attached client.
    arguments += [";", "set-option", "-t", f"={name}:", "destroy-unattached", "off"]
    for mark, value in marks.items():
        arguments += [";", "set-option", "-t", f"={name}:", mark, value]
    return arguments


def _name_of(request: StartRequest) -> str:
    if request.name is None:
        mark = re.sub(r"[^A-Za-z0-9_-]", "-", request.conversation_id or request.intent_id)
        return f"wakeful-{mark[:36]}"
    if _NAME.match(request.name) is None:
        raise BadTmuxName(shown=request.name[:64])
    return request.name


def marks_of(request: StartRequest, name: str) -> dict[str, str]:
    return {
        SESSION_VARIABLE: request.session_id or name,
        EPOCH_VARIABLE: str(request.epoch),
        INTENT_VARIABLE: request.intent_id,
    }


# After the death of its program a shell shows its prompt at once.
PROMPT_SECONDS_MAX: Final = 1.0
_SHELL: Final = ShellInput()


async def resume(
    controller: PaneController, managed: ManagedSession, request: StartRequest, command: tuple[str, ...]
) -> ActionResult:
    """Type the command into the controller's shell; `hosting` is set once a new agent runs below it."""
    if (reason := _no_shell_reason(controller.process, request.cwd)) is not None:
        return declined(reason)
    # `env` works in every shell, and sets the marks only for the agent, not for the shell.
    marks = [f"{name}={value}" for name, value in marks_of(request, managed.session_id).items()]
    # Wakeful's settings and copies of its secrets that the shell would pass on. Variables that a person exported after
    # the shell's start cannot be read there: the adopted agent had them, or the daemon has them.
    leaks = kept_back(proc.environ(controller.process.pid)) | kept_back(os.environ) | {*managed.kept_back}
    unset = [word for name in sorted(leaks) for word in ("-u", name)]
    await _redraw(controller)
    before = await controller.type_text(
        prepare_prompt(shlex.join(("env", *unset, *marks, *command)), several_lines=False)
    )
    if isinstance(before, ActionResult):
        return before
    controller.record_stage(TypingStage.ENTER)
    await controller.press("Enter")

    async def find_agent() -> Process | None:
        return _agent_below(controller.process, request)

    agent = await poll_until(find_agent, READY_SECONDS_MAX)
    # A shell that runs a command shows no input line to check.
    controller.record_stage(TypingStage.TAKEN)
    if agent is None:
        output = safe_screen_text(last_output((await controller.capture()).rows))
        return unverified("the command was given, but no agent was seen", untrusted=output)
    resumed = replace(managed, process=agent, argv=request.argv, epoch=request.epoch)
    return confirmed(f"process {agent.pid} continues the conversation in its pane", resumed)


def _no_shell_reason(shell: Process, cwd: str) -> str | None:
    """Why no command may be typed into the pane; None if one may."""
    if not is_interactive_shell(proc.command(shell.pid)):
        return "there is no shell in its pane"
    if proc.children(shell):
        return "the shell in its pane runs something"
    if proc.cwd(shell.pid) != cwd:
        return (
            f"the shell in its pane is no longer in {cwd}, and the conversation can only be found from there"
        )
    return None


async def _redraw(controller: PaneController) -> None:
    """Let the shell redraw its prompt: a killed program leaves its screen, even in the prompt's row.

    A draft is redrawn with it and then visible. Only a line editor, which reads single keys, gets this key.
    """

    async def find_prompt() -> Screen | None:
        screen = await controller.capture()
        return screen if _SHELL.shows_prompt(screen) else None

    async def is_redrawn() -> bool | None:
        return None if (await controller.capture()).behind_cursor.strip() else True

    screen = await poll_until(find_prompt, PROMPT_SECONDS_MAX)
    if screen is None or not screen.behind_cursor.strip() or controller.closed_reason(screen) is not None:
        return
    state = terminal_state(screen.tty)
    if state is not None and not state.canonical:
        await controller.press("C-l")
        await poll_until(is_redrawn, PROMPT_SECONDS_MAX)


def _agent_below(shell: Process, request: StartRequest) -> Process | None:
    """The agent of exactly this request in front of the shell, with its conversation if the client reports that."""
    front = front_group(shell.pid)
    if front is None or front == group_of(shell.pid):
        return None
    agent = proc.identify_or_none(front)
    if agent is None or proc.environ_value(agent.pid, INTENT_VARIABLE) != request.intent_id:
        return None
    if program_of(without_interpreter(request.argv)) != "claude":
        return agent
    entry = entry_of(agent)
    return agent if entry is not None and entry.session_id == request.conversation_id else None
