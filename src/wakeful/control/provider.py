"""Interface of a provider's client: driver, turn reader, login, flags, and one-shot questions to its model.

A Provider value holds everything that differs between clients, so other modules need not name one. Its driver
starts, prompts and stops processes; its TurnReader reads turns from its output. A one-shot question is outside
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
    async def execute(self, prompt: str, seconds_max: float) -> str | None:
        """The answer; None if there is none in that time. Never raises."""


class TurnReader(Protocol):
    """Reads one turn from a client's output. Pure: it opens nothing."""

    def feed(self, line: bytes) -> Sequence[TurnEvent]:
        """The events of this line; none if it is torn, unknown or of another shape."""

    def on_caught_up(self) -> Sequence[TurnEvent]:
        """The existing output was read; the events that follow from it."""

    def on_prompt_given(self) -> None:
        """The process got the prompt: earlier output belongs to another turn."""

    def on_new_process(self) -> bool:
        """Another process continues this conversation, with its own file.

        False: the process before ended during other work, and the prompt was lost unread.
        """


class Provider(Struct, frozen=True):
    """`name` is also that of its program, its driver and its section of the configuration."""

    name: str
    # Arguments: the folder of all runs, a clock, and the environment of prompts whose sender gave none.
    driver: Callable[[Path, Clock, dict[str, str]], Driver]
    # Argument: the id of a prompt.
    turn_reader: Callable[[str], TurnReader]
    # Arguments: its configured command, an empty folder of Wakeful's, and its environment.
    login: Callable[[Sequence[str], str, Mapping[str, str]], ProviderLogin]
    one_shot: Callable[[Sequence[str], str, Mapping[str, str]], OneShot]
    # The flags of a start for a permission mode, in Claude Code's words.
    flags: Callable[[str], tuple[str, ...]]
    # Inserted between the program and its flags at a start.
    subcommand: tuple[str, ...] = ()
