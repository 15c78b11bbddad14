"""Types prompts into an agent in a container.

It sends the keys of the tmux driver through the engine to the tmux inside. Before and after each key the pane
is checked from this host: the container's processes by their host pids, and the pane's terminal through the
process that has it open. No file in the container is trusted.
"""

import os
import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from msgspec.structs import replace

from wakeful.control.driver import Seen
from wakeful.core.errors import WorldError
from wakeful.core.managed_session import Hosting
from wakeful.core.process import Process, Sight
from wakeful.integrations.docker.engine import Engine
from wakeful.integrations.docker.inspect import first_process
from wakeful.integrations.tmux import driver as acts
from wakeful.integrations.tmux.driver import reader_of, seen_through
from wakeful.integrations.tmux.pane import PaneHand
from wakeful.integrations.tmux.screen import Screen
from wakeful.integrations.tmux.server import TmuxFailed, TmuxServer
from wakeful.integrations.tmux.typed_notes import TypedNotes
from wakeful.linux import proc
from wakeful.linux.proc import inner_pid
from wakeful.storage.base import Outcome

_LOCAL: Final = "unix://"
# The text travels in the program's environment: everybody on the host can read a command line.
_PASTE: Final = (
    'printf %s "$WAKEFUL_TEXT" | tmux -u load-buffer -b "$1" - &&'
    ' exec tmux -u paste-buffer -d -p -r -b "$1" -t "$2"'
)
_NO_PANE: Final = Seen(Outcome.DECLINED, "nobody knows in which pane of its container it runs")


class ContainerSpeaker:
    """Implements control.driver.Speaker. A hosting's pane has the container's id for its socket."""

    def __init__(self, address: str, folder: str) -> None:
        """`folder` is for what is known of texts while they are typed: one that was cut off is removed later."""
        self._address = address
        self._folder = folder
        notes = TypedNotes(folder)
        for note in notes.all():
            if proc.sight(note.process) is Sight.DEAD:
                notes.drop(note.pane)

    def is_open(self, hosting: Hosting) -> bool:
        """The agent runs in a container of this host, its terminal can be looked at, and its engine's socket is there."""
        process, pane = hosting.process, hosting.pane
        if process is None or pane is None or not self._address.startswith(_LOCAL):
            return False
        alive = proc.runs(process) and first_process(process.pid, pane.socket) == process
        # Of other users' processes the kernel shows no terminals, and nobody types blindly.
        seen = alive and os.access(f"/proc/{process.pid}/fd", os.R_OK | os.X_OK)
        return seen and Path(self._address.removeprefix(_LOCAL)).is_socket()

    def is_lost(self, hosting: Hosting) -> bool:
        """It lives, and its engine's socket is gone, or is no file of this host."""
        alive = hosting.process is not None and proc.sight(hosting.process) is Sight.ALIVE
        return alive and not (
            self._address.startswith(_LOCAL) and Path(self._address.removeprefix(_LOCAL)).is_socket()
        )

    async def deliver(self, hosting: Hosting, prompt: str, environ: Mapping[str, str] | None = None) -> Seen:
        """Type the prompt, see it stand in the input line, press Enter, see it taken. Raises PromptRefused, TmuxFailed."""
        del environ  # its process lives already
        engine = Engine(self._address)
        try:
            hand = await _hand(engine, hosting, self._folder)
            if hand is None:
                return _NO_PANE
            seen = await seen_through(hand, acts.deliver(hand, prompt))
            hand.forget()
            return seen
        finally:
            await engine.close()


async def _hand(engine: Engine, hosting: Hosting, folder: str) -> PaneHand | None:
    """The hand for the pane that the agent was started in; None if it is in none of them."""
    at, agent = hosting.pane, hosting.process
    if at is None or agent is None:
        return None
    container = at.socket
    listed = await _tell(engine, container, "list-panes", "-a", "-F", "#{pane_id} #{pane_pid}")
    above = {inner_pid(each.pid): each for each in _line(agent, container)}
    for row in listed.decode(errors="replace").splitlines():
        target, _, number = row.partition(" ")
        first = above.get(int(number)) if number.isdecimal() else None
        if first is not None:
            server = InnerTmux(engine, container, first)
            # A declared command may be a shell that starts the agent.
            reader = reader_of(proc.command(agent.pid))
            address = replace(at, target=target, process=first)
            return PaneHand(server, address, agent, reader, folder, hosting.session_id)
    return None


def _line(agent: Process, container: str) -> list[Process]:
    """The agent and whoever it descends from, inside its container."""
    try:
        line = (agent, *proc.ancestors(agent.pid))
    except proc.ProcessHidden:
        return []
    return [each for each in line if first_process(each.pid, container) == each]


class InnerTmux(TmuxServer):
    """The tmux server in a container, and of its panes the one that `first` is the first process of."""

    def __init__(self, engine: Engine, container: str, first: Process) -> None:
        super().__init__(container)
        self._engine = engine
        self._first = first

    async def tell(self, *words: str) -> bytes:
        return await _tell(self._engine, self.socket, *words)

    async def look(self, target: str) -> Screen:
        """The pane now, with its process and its terminal as this host has them."""
        screen = await super().look(target)
        known = screen.pane_pid == inner_pid(self._first.pid)
        return replace(screen, pane_pid=self._first.pid if known else 0, tty=f"/proc/{self._first.pid}/fd/0")

    async def paste(self, target: str, text: str, folder: str) -> None:
        del folder  # a file of this host is none in there
        buffer = f"wakeful-{secrets.token_hex(8)}"
        argv = ("/bin/sh", "-c", _PASTE, "sh", buffer, target)
        await _run(self._engine, self.socket, argv, {"WAKEFUL_TEXT": text})


async def _tell(engine: Engine, container: str, *words: str) -> bytes:
    return await _run(engine, container, ("tmux", "-u", *words))


async def _run(
    engine: Engine, container: str, argv: tuple[str, ...], environ: Mapping[str, str] | None = None
) -> bytes:
    """What a program in the container said. Raises TmuxFailed."""
    try:
        ran = await engine.run(container, argv, environ=environ)
    except WorldError as problem:
        raise TmuxFailed(reason=str(problem)) from problem
    if ran.exit_code != 0:
        raise TmuxFailed(reason=ran.words or f"it exited {ran.exit_code}")
    return ran.output
