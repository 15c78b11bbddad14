"""Which process in a pane is the agent, and whether it left a shell behind. Pure: command lines in, one of them out.

A pane that shows a shell's prompt is alive and its agent is not. A shell that runs a script may be the agent itself;
one without any operand is a prompt, wherever in the pane it runs.
"""

from collections.abc import Callable, Sequence
from typing import Final

from msgspec import Struct

from wakeful.core.process import Process
from wakeful.integrations.tmux.programs import program_of
from wakeful.integrations.tmux.terminal import SHELLS, is_interactive_shell

CLIENTS: Final = ("claude", "codex")
# With a version behind them, as python3.12.
INTERPRETERS: Final = ("bun", "deno", "node", "perl", "python", "ruby")
# A pane with more processes than this runs something; which of them is which no longer matters.
TREE_MAX: Final = 256


class Running(Struct, frozen=True):
    """A process and the words it runs with now: exec changes them and nothing else."""

    process: Process
    argv: tuple[str, ...]
    # Nothing but shells stands above it in its pane: a prompt here is a person's, further down it is a tool's.
    below_shells: bool = True


def pane_tree(
    first: Process,
    argv_of: Callable[[Process], tuple[str, ...]],
    children: Callable[[Process], Sequence[Process]],
) -> list[Running]:
    """A pane's processes from its first one downwards."""
    found = {first: Running(first, argv_of(first))}
    unvisited = list(found.values())
    while unvisited and len(found) < TREE_MAX:
        above = unvisited.pop(0)
        below_shells = above.below_shells and is_shell(above.argv)
        fresh = [
            Running(each, argv_of(each), below_shells)
            for each in children(above.process)
            if each not in found
        ]
        found |= {each.process: each for each in fresh}
        unvisited += fresh
    return list(found.values())


def agent_among(
    tree: Sequence[Running], command: Sequence[str], *, by_name_only: bool = False
) -> Running | None:
    """The agent in a pane, given its processes from the first one downwards; None if only a prompt is left.

    `by_name_only`: the pane is not known to be the agent's, so that just any program in it is not taken for one.
    """
    if not tree:
        return None
    pane = tree[0]
    if is_interactive_shell(tuple(command)) and not by_name_only:
        return pane
    at_prompt = any(each.below_shells and is_interactive_shell(each.argv) for each in tree)
    declared = _first(tree, program_name(command))
    if declared is not None and not (is_shell(declared.argv) and at_prompt):
        return declared
    if not is_shell(pane.argv) and not by_name_only:
        return pane
    for client in CLIENTS:
        if (found := _first(tree, client)) is not None:
            return found
    return None if at_prompt or by_name_only else pane


def is_shell(argv: Sequence[str]) -> bool:
    return program_name(argv) in SHELLS


def program_name(argv: Sequence[str]) -> str:
    """The name of the program; a login shell has a dash before it."""
    return program_of(argv).removeprefix("-")


def _first(tree: Sequence[Running], program: str) -> Running | None:
    """The topmost process that runs this program, by itself or as a script below its interpreter."""
    if program in SHELLS:
        return None
    return next((each for each in tree if program in _programs(each.argv)), None)


def _programs(argv: Sequence[str]) -> tuple[str, ...]:
    name = program_name(argv)
    return (name, program_of(argv[1:])) if is_shell(argv) or name.startswith(INTERPRETERS) else (name,)
