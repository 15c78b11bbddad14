"""A private tmux server for tests: no user's configuration, no user's sessions."""

import asyncio
import subprocess
from pathlib import Path
from typing import Final

from wakeful.integrations.tmux.panes import Listing, PaneRow, list_panes

PATIENCE_SECONDS: Final = 30.0


class Server:
    """A private tmux server without any user's configuration."""

    def __init__(self, socket: Path) -> None:
        self.socket = socket

    def tmux(self, *argv: str) -> str:
        command = ("tmux", "-u", "-S", str(self.socket), "-f", "/dev/null", *argv)
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()

    def start(self, name: str, *command: str) -> int:
        """Begin a session; returns the pid of its command."""
        return int(self.tmux("new-session", "-d", "-P", "-F", "#{pane_pid}", "-s", name, *command))

    def end(self) -> None:
        subprocess.run(("tmux", "-S", str(self.socket), "kill-server"), check=False, capture_output=True)

    @property
    def pid(self) -> int:
        return int(self.tmux("display-message", "-p", "#{pid}"))

    def look(self, deadline_seconds: float = PATIENCE_SECONDS) -> Listing:
        return asyncio.run(list_panes(self.socket, deadline_seconds))

    def pane(self) -> PaneRow:
        (only,) = self.look().panes
        return only
