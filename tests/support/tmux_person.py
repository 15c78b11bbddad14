"""A person in a tmux of their own: real keys go through a terminal and the tmux client to the server."""

import fcntl
import os
import pty
import select
import struct
import termios
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

from support.real_clients import wait_for
from support.tmux_server import Server

PREFIX: Final = b"\x01"
KEY_SECONDS: Final = 0.05


class TmuxPerson:
    """Their server reads a tmux.conf of theirs: prefix C-a, status bar at the top."""

    def __init__(
        self,
        socket: Path,
        environ: Mapping[str, str],
        *,
        terminal: str = "tmux-256color",
        columns: int = 80,
    ) -> None:
        config = socket.parent / "person.tmux.conf"
        config.write_text(
            "set -g prefix C-a\nunbind C-b\nbind C-a send-prefix\nset -g status-position top\n"
            f"set -g default-terminal {terminal}\nset -g default-command /bin/sh\n"
        )
        self.server = Server(socket)
        self._environ = {**environ, "TERM": "xterm-256color"}
        words = ("tmux", "-u", "-S", str(socket), "-f", str(config))
        self._pid, self._terminal = pty.fork()
        if self._pid == 0:
            os.execvpe("tmux", (*words, "new-session", "-s", "me", "-n", "shell"), self._environ)
        fcntl.ioctl(self._terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
        # A client whose output is not read stops.
        threading.Thread(target=self._drain, daemon=True).start()
        wait_for(lambda: self.screen().strip() or None, "shell prompt")

    def press(self, *keys: bytes) -> None:
        """tmux takes keys that come at once for a paste, in which the prefix is text."""
        for each in keys:
            os.write(self._terminal, each)
            time.sleep(KEY_SECONDS)

    def type_line(self, text: str) -> None:
        self.press(text.encode(), b"\r")

    def screen(self) -> str:
        """What the current window shows."""
        with suppress(Exception):
            return self.server.tmux("capture-pane", "-p", "-t", "me:")
        return ""

    def wait_for(self, text: str) -> str:
        try:
            return wait_for(lambda: said if text in (said := self.screen()) else None, repr(text), 30)
        except AssertionError as error:
            error.add_note(self.screen())
            raise

    def window(self) -> str:
        """The name of the current window."""
        return self.server.tmux("display-message", "-p", "-t", "me:", "#{window_name}")

    def windows(self) -> list[str]:
        return self.server.tmux("list-windows", "-t", "me", "-F", "#{window_name}").split()

    def options(self) -> str:
        """Every option, hook and key of the server."""
        shown = ("show-options -s", "show-options -g", "show-options -gw", "show-hooks -g", "list-keys")
        own = ("show-options -t me", "show-hooks -t me")
        return "\n".join(self.server.tmux(*each.split()) for each in (*shown, *own))

    def end(self) -> None:
        self.server.end()
        os.close(self._terminal)
        os.waitpid(self._pid, 0)

    def _drain(self) -> None:
        with suppress(OSError, ValueError):
            while True:
                select.select([self._terminal], [], [])
                if not os.read(self._terminal, 65536):
                    return
