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

from wakeful.control.driver import ActionResult
from wakeful.core.errors import WorldError
from wakeful.core.managed_session import ManagedSession
from wakeful.core.process import Process, ProcessState
from wakeful.integrations.docker.engine import Engine
from wakeful.integrations.docker.inspect import first_process
from wakeful.integrations.driver_support import declined
from wakeful.integrations.tmux.driver import deliver, reader_of, run_action
from wakeful.integrations.tmux.pane import PaneController
from wakeful.integrations.tmux.screen import Screen
from wakeful.integrations.tmux.server import TmuxFailed, TmuxServer
from wakeful.integrations.tmux.typed_notes import TypedNotes
from wakeful.linux import proc
from wakeful.linux.proc import inner_pid

_LOCAL: Final = "unix://"
# The text is passed in the program's environment, because every user of the host can read a command line.
_PASTE: Final = (
    'printf %s "$WAKEFUL_TEXT" | tmux -u load-buffer -b "$1" - &&'
    ' exec tmux -u paste-buffer -d -p -r -b "$1" -t "$2"'
)
_NO_PANE: Final = declined("it is unknown in which pane of its container it runs")


class ContainerPromptDriver:
    """Implements control.driver.PromptDriver. A session's pane has the container's id as its socket."""

    def __init__(self, address: str, folder: str) -> None:
        """`folder` is for notes about texts while they are typed, so that an interrupted one is removed later."""
        self._address = address
        self._folder = folder
        notes = TypedNotes(folder)
        for note in notes.all():
            if proc.state_of(note.process) is ProcessState.DEAD:
                notes.drop(note.pane)

    def is_open(self, managed: ManagedSession) -> bool:
        """Whether the agent runs in a container of this host with a readable terminal, and its engine's socket exists."""
        process, pane = managed.process, managed.pane
        if process is None or pane is None or not self._address.startswith(_LOCAL):
            return False
        is_alive = proc.is_running(process) and first_process(process.pid, pane.socket) == process
        # The kernel does not show the terminals of other users' processes, and Wakeful does not type blindly.
        is_visible = is_alive and os.access(f"/proc/{process.pid}/fd", os.R_OK | os.X_OK)
        return is_visible and Path(self._address.removeprefix(_LOCAL)).is_socket()

    def is_lost(self, managed: ManagedSession) -> bool:
        """Whether it is alive, and its engine's socket does not exist or is not on this host."""
        is_local = self._address.startswith(_LOCAL)
        has_socket = is_local and Path(self._address.removeprefix(_LOCAL)).is_socket()
        process = managed.process
        return process is not None and proc.state_of(process) is ProcessState.ALIVE and not has_socket

    async def deliver(
        self, managed: ManagedSession, prompt: str, environ: Mapping[str, str] | None = None
    ) -> ActionResult:
        """Type the prompt, check the input line, press Enter, check that it is taken. Raises PromptRefused, TmuxFailed."""
        del environ  # its process has one already
        engine = Engine(self._address)
        try:
            controller = await _pane_controller(engine, managed, self._folder)
            if controller is None:
                return _NO_PANE
            result = await run_action(controller, deliver(controller, prompt))
            controller.drop_final_note()
            return result
        finally:
            await engine.close()


async def _pane_controller(engine: Engine, managed: ManagedSession, folder: str) -> PaneController | None:
    """The controller of the agent's pane; None if it is in no pane."""
    at, agent = managed.pane, managed.process
    if at is None or agent is None:
        return None
    container = at.socket
    listed = await _run_tmux(engine, container, "list-panes", "-a", "-F", "#{pane_id} #{pane_pid}")
    above = {inner_pid(each.pid): each for each in _process_line(agent, container)}
    for row in listed.decode(errors="replace").splitlines():
        target, _, number = row.partition(" ")
        first = above.get(int(number)) if number.isdecimal() else None
        if first is not None:
            server = ContainerTmuxServer(engine, container, first)
            # A declared command may be a shell that starts the agent.
            reader = reader_of(proc.command(agent.pid))
            address = replace(at, target=target, process=first)
            return PaneController(server, address, agent, reader, folder, managed.session_id)
    return None


def _process_line(agent: Process, container: str) -> list[Process]:
    try:
        line = (agent, *proc.ancestors(agent.pid))
    except proc.ProcessHidden:
        return []
    return [each for each in line if first_process(each.pid, container) == each]


class ContainerTmuxServer(TmuxServer):
    """The tmux server in a container; it captures the pane with `first` as its first process."""

    def __init__(self, engine: Engine, container: str, first: Process) -> None:
        super().__init__(container)
        self._engine = engine
        self._first = first

    async def run(self, *arguments: str) -> bytes:
        return await _run_tmux(self._engine, self.socket, *arguments)

    async def capture(self, target: str) -> Screen:
        """The pane, with its pid and its terminal on this host."""
        screen = await super().capture(target)
        known = screen.pane_pid == inner_pid(self._first.pid)
        return replace(screen, pane_pid=self._first.pid if known else 0, tty=f"/proc/{self._first.pid}/fd/0")

    async def paste(self, target: str, text: str, folder: str) -> None:
        del folder  # a file of this host does not exist inside
        buffer = f"wakeful-{secrets.token_hex(8)}"
        argv = ("/bin/sh", "-c", _PASTE, "sh", buffer, target)
        await _run(self._engine, self.socket, argv, {"WAKEFUL_TEXT": text})


async def _run_tmux(engine: Engine, container: str, *arguments: str) -> bytes:
    return await _run(engine, container, ("tmux", "-u", *arguments))


async def _run(
    engine: Engine, container: str, argv: tuple[str, ...], environ: Mapping[str, str] | None = None
) -> bytes:
    """The output of a program in the container. Raises TmuxFailed."""
    try:
        ran = await engine.run(container, argv, environ=environ)
    except WorldError as problem:
        raise TmuxFailed(reason=str(problem)) from problem
    if ran.exit_code != 0:
        raise TmuxFailed(reason=ran.text or f"it exited {ran.exit_code}")
    return ran.output
