"""Continues a conversation in the pane its agent died in: one command, typed into the shell that is left there.

Only a shell at its prompt with nothing behind it is typed into, and the command is run only after it was read back.
"""

import shlex
from typing import Final

from msgspec.structs import replace

from wakeful.control.driver import Order, Seen
from wakeful.core.managed_session import INTENT_VARIABLE, Hosting
from wakeful.core.process import Process
from wakeful.integrations.claude_code.claude_status import entry_of
from wakeful.integrations.tmux.inputs import ShellInput
from wakeful.integrations.tmux.keys import typable
from wakeful.integrations.tmux.pane import PaneHand, shown, until
from wakeful.integrations.tmux.programs import program_of, unwrapped
from wakeful.integrations.tmux.screen import Screen, last_words
from wakeful.integrations.tmux.starting import READY_SECONDS_MAX, marks_of
from wakeful.integrations.tmux.terminal import front_group, group_of, is_interactive_shell, terminal_state
from wakeful.integrations.tmux.typed_notes import Stage
from wakeful.linux import proc
from wakeful.storage.store import Outcome

# A shell whose program died shows its prompt at once.
PROMPT_SECONDS_MAX: Final = 1.0
_SHELL: Final = ShellInput()


async def resume(hand: PaneHand, hosting: Hosting, order: Order, command: tuple[str, ...]) -> Seen:
    """Type the command into the shell the hand is at; `hosting` is set once a new agent was seen below it."""
    if (reason := _no_shell(hand.process, order.cwd)) is not None:
        return Seen(Outcome.DECLINED, reason)
    # By `env`, which every shell has in the same spelling: the marks are the agent's and not the shell's.
    marks = [f"{name}={value}" for name, value in marks_of(order, hosting.session_id).items()]
    await _redraw(hand)
    before = await hand.type_in(typable(shlex.join(("env", *marks, *command)), several_lines=False))
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
