"""Interface of a provider's client: driver, turn reader, login, flags, and one-shot questions to its model.

A Provider value holds everything that differs between clients, so other modules need not name one. Its driver
starts, prompts and stops processes; its Hearing reads turns from its output. A one-shot question is outside
every conversation: nothing of it is kept, and no tool may be used.
"""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Protocol

from msgspec import Struct

from wakeful.control.driver import Driver
from wakeful.control.login import ProviderLogin
from wakeful.control.turn_events import TurnEvent
from wakeful.core.clock import Clock


class OneShot(Protocol):
    """One provider's."""

    async def execute(self, prompt: str, seconds_max: float) -> str | None:
        """What it answered; None if it did not, in that time or at all. Never raises."""


class TurnReader(Protocol):
    """Reads one turn out of a client's output. Pure: it never opens anything."""

    def feed(self, line: bytes) -> Sequence[TurnEvent]:
        """What this line tells; nothing if it is torn, unknown or of another shape."""

    def on_caught_up(self) -> Sequence[TurnEvent]:
        """All that was there has been read; what is known of the turn now."""

    def on_prompt_given(self) -> None:
        """The process whose output it is was given the prompt: what it was told before belongs to another turn."""

    def on_new_process(self) -> bool:
        """Another process goes on in this conversation, with a file of its own.

        False: the one before ended at work on something else, and took the prompt along unread: nobody will answer it.
        """


class Provider(Struct, frozen=True):
    """`name` is also that of its program, its driver and its section of the configuration."""

    name: str
    # Of the folder all runs share, a clock, and the environment of prompts whose sender gave none.
    driver: Callable[[Path, Clock, dict[str, str]], Driver]
    # Of the id of a prompt.
    hearing: Callable[[str], TurnReader]
    # Of its configured command, a folder of ours with nothing in it, and its environment.
    login: Callable[[Sequence[str], str, Mapping[str, str]], ProviderLogin]
    one_shot: Callable[[Sequence[str], str, Mapping[str, str]], OneShot]
    # Of a permission mode, in Claude Code's words: what a start is given for it.
    flags: Callable[[str], tuple[str, ...]]
    # Stands between the program and its flags at a start.
    subcommand: tuple[str, ...] = ()
