"""Runs commands on one tmux server with a deadline: read a pane, paste text, press keys.

Text reaches a pane through a buffer that is read from a private file, never through a command line, which
every user of the host can read. A server that does not answer raises TmuxFailed, which differs from an empty
answer; only `is_visible`, which says whether a person views a pane, returns False. Private files are created new
or not at all.
"""

import asyncio
import os
import secrets
from contextlib import suppress
from pathlib import Path
from typing import Final

from wakeful.core.errors import WorldError
from wakeful.core.text import plain
from wakeful.integrations.tmux.panes import DEADLINE_SECONDS
from wakeful.integrations.tmux.screen import FACTS, Screen, last_output
from wakeful.linux.run_command import run_command


class TmuxFailed(WorldError):
    """tmux failed: {reason}."""

    code = "tmux-failed"
    retryable = True


def write_private(folder: str, name: str, content: bytes, mode: int = 0o600) -> str:
    """Write a new file in a folder that only its owner can read; returns its path. Raises TmuxFailed."""
    path = f"{folder}/{name}"
    try:
        Path(folder).mkdir(mode=0o700, parents=True, exist_ok=True)
        with open(path, "xb", opener=lambda at, flags: os.open(at, flags | os.O_NOFOLLOW, mode)) as file:
            file.write(content)
    except OSError as problem:
        raise TmuxFailed(reason=f"{path} cannot be written: {problem.strerror}") from problem
    return path


def discard(path: str) -> None:
    """Remove a file if it exists. A folder of this name stays."""
    with suppress(OSError):
        Path(path).unlink()


def exists(path: str) -> bool:
    return Path(path).exists()


TEXT_CHARS_MAX: Final = 200
SCROLLED_ROWS: Final = 20
LAST_OUTPUT_SECONDS: Final = 0.2


class TmuxServer:
    """The server on one socket. `config` replaces the user's own tmux.conf, for tests."""

    def __init__(
        self, socket: str, deadline_seconds: float = DEADLINE_SECONDS, config: str | None = None
    ) -> None:
        self.socket = socket
        self._deadline_seconds = deadline_seconds
        self._program = ("tmux", "-u", "-S", socket, *(("-f", config) if config is not None else ()))

    async def run(self, *arguments: str) -> bytes:
        """Run one command, or several with `;` between them; returns the output. Raises TmuxFailed."""
        try:
            answer = await run_command((*self._program, *arguments), self._deadline_seconds)
        except OSError as problem:
            raise TmuxFailed(reason=f"it cannot be run: {problem.strerror}") from problem
        if answer.exit_code is None:
            raise TmuxFailed(reason=f"no answer within {self._deadline_seconds:g} s")
        if answer.exit_code != 0:
            errors = plain(answer.errors.decode(errors="replace"), TEXT_CHARS_MAX)
            raise TmuxFailed(reason=errors or f"it exited {answer.exit_code}")
        return answer.output

    async def capture(self, target: str) -> Screen:
        """Facts and rows of a pane, from one command. Raises TmuxFailed."""
        captured = await self.run(
            "display-message", "-p", "-t", target, FACTS, ";", "capture-pane", "-p", "-e", "-t", target
        )
        try:
            return Screen.parse(captured)
        except ValueError as problem:
            raise TmuxFailed(reason="it sent an unknown answer") from problem

    async def last_output(self, target: str) -> str:
        """The last rows with text of a dead pane, scrolled ones included. Raises TmuxFailed."""
        # tmux may notice a program's end before it has read the last output. If the program ends right after writing,
        # that is sometimes lost: in 2 of 250 on a busy machine the kernel had not passed it on yet.
        await asyncio.sleep(LAST_OUTPUT_SECONDS)
        # tmux scrolls a dead pane by one row to make room for its mark.
        captured = await self.run("capture-pane", "-p", "-S", f"-{SCROLLED_ROWS}", "-t", target)
        return last_output(captured.decode(errors="replace").split("\n"))

    async def option(self, target: str, name: str) -> str:
        """A user option of the session; empty if it has none. Raises TmuxFailed."""
        shown = await self.run("display-message", "-p", "-t", target, f"#{{{name}}}")
        return shown.decode(errors="replace").strip()

    async def paste(self, target: str, text: str, folder: str) -> None:
        """Put the text into the pane as one paste, bracketed if its program wants that. Raises TmuxFailed."""
        # Newlines stay newlines (-r): as returns, tmux's default, each would be an Enter.
        buffer = f"wakeful-{secrets.token_hex(8)}"
        path = write_private(folder, buffer, text.encode())
        try:
            await self.run(
                *("load-buffer", "-b", buffer, path, ";"),
                *("paste-buffer", "-d", "-p", "-r", "-b", buffer, "-t", target),
            )
        finally:
            discard(path)

    async def press(self, target: str, *keys: str) -> None:
        """Raises TmuxFailed."""
        await self.run("send-keys", "-t", target, *keys)


VISIBLE_SECONDS_MAX: Final = 2.0
# For a client: the active pane of its session's current window.
_PANE_OF_CLIENT: Final = "#{pane_id}"


async def is_visible(socket: str, target: str) -> bool:
    """Whether it is the active pane of an attached client; False if the server does not answer."""
    try:
        listed = await TmuxServer(socket, VISIBLE_SECONDS_MAX).run("list-clients", "-F", _PANE_OF_CLIENT)
    except TmuxFailed:
        return False
    return target.encode() in listed.split()
