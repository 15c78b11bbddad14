"""Starts a program in its own tmux session, or resumes a conversation in the shell of the pane it died in.

The program and its environment travel in a script that only its owner can read and that removes itself: every
user can read a command line, and a pane has its server's environment. The session keeps its pane until the
program has stayed alive, so that the last output of one that ends at once can be read; then it ends with its
program. A resume types one command, only at an empty shell prompt, and runs it only after it was read back.
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

from wakeful.control.driver import ConversationUnknown, Order, Seen
from wakeful.core.clock import Clock
from wakeful.core.errors import OperatorError, StartFailed
from wakeful.core.ids import ConversationId, SessionId
from wakeful.core.managed_session import (
    EPOCH_VARIABLE,
    INTENT_VARIABLE,
    SESSION_VARIABLE,
    Hosting,
    PaneAddress,
)
from wakeful.core.process import Process
from wakeful.integrations.claude_code.registry import entry_of
from wakeful.integrations.tmux.input_line import ShellInput, typable
from wakeful.integrations.tmux.pane import POLL_SECONDS, PaneHand, shown, until
from wakeful.integrations.tmux.programs import command_of, program_of, unwrapped
from wakeful.integrations.tmux.screen import (
    Screen,
    front_group,
    group_of,
    is_interactive_shell,
    last_words,
    terminal_state,
)
from wakeful.integrations.tmux.server import TmuxFailed, TmuxServer, discard, exists, write_private
from wakeful.integrations.tmux.typed_notes import Stage
from wakeful.linux import proc
from wakeful.linux.child_environment import given_environ, kept_back, leaked_names
from wakeful.linux.launch import find_program
from wakeful.storage.base import Outcome

# What tmux tells its panes: the caller's own would name another terminal.
_OF_TMUX: Final = ("TERM", "TMUX", "TMUX_PANE")
# Names a POSIX shell cannot set: the others it keeps for itself.
_SETTABLE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
_READ_ONLY: Final = frozenset({"BASHOPTS", "BASH_VERSINFO", "EUID", "PPID", "SHELLOPTS", "UID", "_"})
# Twice through the same file: the first time only to empty the environment of everything but tmux's own words.
_HEAD: Final = """\
if [ "$1" != exact ]; then
  exec env -i TERM="$TERM" TMUX="$TMUX" TMUX_PANE="$TMUX_PANE" /bin/sh "$0" exact
fi
rm -f -- "$0"
"""


async def forget_leaked(server: TmuxServer) -> None:
    """Take from a server what one that an earlier version started may still hand on. Raises TmuxFailed."""
    shown = (await server.tell("show-environment", "-g")).decode(errors="replace")
    held = dict(line.split("=", 1) for line in shown.splitlines() if "=" in line)
    words = [
        word for name in leaked_names(held, os.environ) for word in (";", "set-environment", "-g", "-u", name)
    ]
    if words:
        await server.tell(*words[1:])


def write_script(folder: str, cwd: str, argv: Sequence[str], environ: Mapping[str, str]) -> str:
    """Write the script, readable and runnable by its owner alone; its path. Raises TmuxFailed."""
    name = f"launch-{secrets.token_hex(8)}.sh"
    return write_private(folder, name, os.fsencode(script_text(cwd, argv, environ)), mode=0o700)


def script_text(cwd: str, argv: Sequence[str], environ: Mapping[str, str]) -> str:
    """The script. Variables whose names no shell can set are left out."""
    exports = [
        f"export {name}={shlex.quote(value)}\n"
        for name, value in given_environ(environ).items()
        if _SETTABLE.match(name) and name not in _READ_ONLY and name not in _OF_TMUX
    ]
    return f"{_HEAD}{''.join(exports)}cd -- {shlex.quote(cwd)} || exit 126\nexec {shlex.join(argv)}\n"


MARK_SESSION: Final = "@wakeful_session"
MARK_EPOCH: Final = "@wakeful_epoch"
MARK_INTENT: Final = "@wakeful_intent"
# Until somebody attaches: wide enough for what clients draw, tall enough for a question with a long command.
SIZE: Final = ("-x", "160", "-y", "50")
# A program that cannot run ends within this; one that lives longer says itself what is wrong.
SETTLE_SECONDS: Final = 0.5
# Claude Code shows its input line 0.7 to 2 s after its start; a busy machine may need many times that.
READY_SECONDS_MAX: Final = 60.0
ATTEMPTS_MAX: Final = 5
LEAVING_SECONDS: Final = 0.1
_NAME: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_-]{0,63}\Z")
_DUPLICATE: Final = "duplicate session"
_LEAVING: Final = "server exited unexpectedly"
_NO_CONVERSATION: Final = "No conversation found"


class BadTmuxName(OperatorError):
    """{shown!r} cannot be the name of a tmux session: letters, digits, _ and - only, 64 characters at most."""

    code = "bad-tmux-name"


class Given(Struct, frozen=True):
    """A program whose script was given to tmux, and which nobody has seen yet."""

    order: Order
    hosting: Hosting
    script: str


class Starting:
    """Starts sessions on one server of our own."""

    def __init__(self, server: TmuxServer, folder: str, clock: Clock) -> None:
        self._server = server
        self._folder = folder
        self._clock = clock

    async def begin(self, order: Order) -> Given:
        """Give the command to tmux. Raises what the port names, BadTmuxName and TmuxFailed: then nothing was started."""
        name = _name_of(order)
        command = command_of(order)
        program = find_program(command[0], cwd=order.cwd, path=order.environ.get("PATH", os.defpath))
        environ = {**order.environ, **marks_of(order, name)}
        script = write_script(self._folder, order.cwd, (program, *command[1:]), environ)
        try:
            address = await self._addressed(order, name, script)
        except TmuxFailed:
            discard(script)
            raise
        return Given(order, _hosting_of(order, address, self._clock.now().wall), script)

    async def settle(self, given: Given, ready: Callable[[Screen], bool]) -> bool:
        """See the program take the script's place, stay, and become ready; False if it lives and is not ready in time.

        Raises StartFailed or ConversationUnknown when it is gone, TmuxFailed when nobody could see it.
        """
        loop = asyncio.get_running_loop()
        began, replaced_at = loop.time(), None
        try:
            while loop.time() - began < READY_SECONDS_MAX:
                screen = await self._see(given)
                if replaced_at is None and _became_the_program(given):
                    replaced_at = loop.time()
                if replaced_at is not None and loop.time() - replaced_at > SETTLE_SECONDS and ready(screen):
                    break
                await asyncio.sleep(POLL_SECONDS)
            else:
                return False
        finally:
            discard(given.script)
        await self._server.tell("set-option", "-w", "-t", _target(given.hosting), "remain-on-exit", "off")
        # It may have ended just before it was told not to be kept.
        await self._see(given)
        return True

    async def _see(self, given: Given) -> Screen:
        """Its pane, alive. Raises StartFailed with the last words of a dead one, after closing it."""
        target = _target(given.hosting)
        screen = await self._server.look(target)
        if not screen.dead:
            return screen
        said = await self._server.last_words(target)
        await self._server.tell("kill-session", "-t", target)
        raise _failed(given.order, said)

    async def _addressed(self, order: Order, name: str, script: str) -> PaneAddress:
        for _ in range(ATTEMPTS_MAX):
            try:
                return await self._new_session(order, name, script)
            except TmuxFailed as problem:
                if _DUPLICATE in str(problem):
                    # Its old session may live on in a second pane that somebody opened there.
                    name = f"{name[:59]}-{secrets.token_hex(2)}"
                elif _LEAVING in str(problem) and exists(script):
                    # A server ends with its last session, and the socket outlives it for a moment.
                    await asyncio.sleep(LEAVING_SECONDS)
                else:
                    raise
        raise TmuxFailed(reason=f"no session could be made in {ATTEMPTS_MAX} attempts")

    async def _new_session(self, order: Order, name: str, script: str) -> PaneAddress:
        Path(self._server.socket).parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        # A folder with these would be read as tmux's own language; the script goes there by itself.
        place = () if set(order.cwd) & set("#;") else ("-c", order.cwd)
        told = await self._server.tell(
            *("new-session", "-d", "-P", "-F", "#{pane_id} #{pane_pid} #{pid}", "-s", name, *SIZE, *place),
            *("--", "/bin/sh", script, ";"),
            *_options(name, order),
        )
        await forget_leaked(self._server)
        pane_id, *pids = told.decode().split()
        process, server = (proc.identify_if_seen(int(pid)) for pid in pids)
        return PaneAddress(self._server.socket, pane_id, name, process, server)


def _became_the_program(given: Given) -> bool:
    process = given.hosting.process
    return process is not None and given.script not in proc.command(process.pid)


def _target(hosting: Hosting) -> str:
    assert hosting.pane is not None, "it was started in one"
    return hosting.pane.target


def _hosting_of(order: Order, address: PaneAddress, since: float) -> Hosting:
    """Where it lives. A program without conversations is known by the name of its tmux session."""
    return Hosting(
        session_id=order.session_id or SessionId(address.session),
        conversation_id=order.conversation_id or ConversationId(address.session),
        driver="tmux",
        cwd=order.cwd,
        argv=order.argv,
        epoch=order.epoch,
        since=since,
        process=address.process,
        pane=address,
        name=order.name,
    )


def _options(name: str, order: Order) -> Sequence[str]:
    """Set with the start in one command, so that no crash leaves a session of ours without its marks."""
    session_id = order.session_id or name
    marks = {MARK_SESSION: session_id, MARK_EPOCH: str(order.epoch), MARK_INTENT: order.intent_id}
    # Whoever leaves the last program has closed it: only a server that dies takes sessions along.
    words = ["set-option", "-s", "exit-empty", "off"]
    words += [";", "set-option", "-w", "-t", f"={name}:", "remain-on-exit", "on"]
    # A person's tmux.conf may say that sessions nobody looks at end.
    words += [";", "set-option", "-t", f"={name}:", "destroy-unattached", "off"]
    for mark, value in marks.items():
        words += [";", "set-option", "-t", f"={name}:", mark, value]
    return words


def _name_of(order: Order) -> str:
    if order.name is None:
        mark = re.sub(r"[^A-Za-z0-9_-]", "-", order.conversation_id or order.intent_id)
        return f"wakeful-{mark[:36]}"
    if _NAME.match(order.name) is None:
        raise BadTmuxName(shown=order.name[:64])
    return order.name


def marks_of(order: Order, name: str) -> dict[str, str]:
    """The variables by which the agent and its tools tell whose they are."""
    return {
        SESSION_VARIABLE: order.session_id or name,
        EPOCH_VARIABLE: str(order.epoch),
        INTENT_VARIABLE: order.intent_id,
    }


def _failed(order: Order, said: str) -> StartFailed | ConversationUnknown:
    if _NO_CONVERSATION in said:
        return ConversationUnknown(conversation=order.conversation_id, folder=order.cwd)
    return StartFailed(program=order.argv[0], reason=shown(said) or "no word of it was seen")


# A shell whose program died shows its prompt at once.
PROMPT_SECONDS_MAX: Final = 1.0
_SHELL: Final = ShellInput()


async def resume(hand: PaneHand, hosting: Hosting, order: Order, command: tuple[str, ...]) -> Seen:
    """Type the command into the shell the hand is at; `hosting` is set once a new agent was seen below it."""
    if (reason := _no_shell(hand.process, order.cwd)) is not None:
        return Seen(Outcome.DECLINED, reason)
    # By `env`, which every shell has in the same spelling: the marks are the agent's and not the shell's.
    marks = [f"{name}={value}" for name, value in marks_of(order, hosting.session_id).items()]
    left_out = [word for name in _leaking(hand.process, hosting) for word in ("-u", name)]
    await _redraw(hand)
    before = await hand.type_in(
        typable(shlex.join(("env", *left_out, *marks, *command)), several_lines=False)
    )
    if isinstance(before, Seen):
        return before
    hand.note(Stage.ENTER)
    await hand.press("Enter")

    async def held() -> Process | None:
        return _holder_below(hand.process, order)

    holder = await until(held, READY_SECONDS_MAX)
    # A shell that runs a command shows no input line to look at.
    hand.note(Stage.TAKEN)
    if holder is None:
        seen = shown(last_words((await hand.look()).rows))
        return Seen(Outcome.UNVERIFIED, "the command was given, but no agent was seen", untrusted=seen)
    words = f"process {holder.pid} continues the conversation in its pane"
    resumed = replace(hosting, process=holder, argv=order.argv, epoch=order.epoch)
    return Seen(Outcome.RECOVERED, words, resumed)


def _leaking(shell: Process, hosting: Hosting) -> list[str]:
    """Settings of Wakeful, and copies of its secrets, that the shell would hand on.

    What a person exported there after the shell's start cannot be read: the agent that was handed over had it, or the
    daemon has it.
    """
    return sorted(kept_back(proc.environ(shell.pid)) | kept_back(os.environ) | {*hosting.kept_back})


def _no_shell(shell: Process, cwd: str) -> str | None:
    """Why nothing may be typed into what the pane shows."""
    if not is_interactive_shell(proc.command(shell.pid)):
        return "there is no shell in its pane"
    if proc.children(shell):
        return "the shell in its pane runs something"
    if proc.cwd(shell.pid) != cwd:
        return f"the shell in its pane is not in {cwd} any more, and a conversation is found from there only"
    return None


async def _redraw(hand: PaneHand) -> None:
    """A killed program leaves its screen behind, in the very row of the prompt: let the shell draw it anew.

    A draft is drawn again with it, and then seen. Only a line editor knows this key, and it takes no lines.
    """

    async def prompted() -> Screen | None:
        screen = await hand.look()
        return screen if _SHELL.prompts(screen) else None

    async def redrawn() -> bool | None:
        return None if (await hand.look()).behind_cursor.strip() else True

    screen = await until(prompted, PROMPT_SECONDS_MAX)
    if screen is None or not screen.behind_cursor.strip() or hand.closed(screen) is not None:
        return
    state = terminal_state(screen.tty)
    if state is not None and not state.canonical:
        await hand.press("C-l")
        await until(redrawn, PROMPT_SECONDS_MAX)


def _holder_below(shell: Process, order: Order) -> Process | None:
    """The agent of this very order that came up in front of the shell, with its conversation where it tells that."""
    front = front_group(shell.pid)
    if front is None or front == group_of(shell.pid):
        return None
    agent = proc.identify_if_seen(front)
    if agent is None or proc.environ_value(agent.pid, INTENT_VARIABLE) != order.intent_id:
        return None
    if program_of(unwrapped(order.argv)) != "claude":
        return agent
    entry = entry_of(agent)
    return agent if entry is not None and entry.session_id == order.conversation_id else None
