"""Ten thousand idle sessions under the eyes of one real daemon: what several rows are measured in.

Every session has a transcript; as many as the scale says have a living process too. Made once per run, at first
use, and ended with the run.
"""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import cached_property
from pathlib import Path
from typing import Final

from bench.corpus import write_corpus
from bench.room import END_SECONDS_MAX, START_SECONDS_MAX, Daemon, Room, wait_until
from bench.scale import SESSIONS, Scale

# One short turn each: how much lies in a log is for other rows.
LOG_BYTES: Final = 8_000


class Crowd:
    """The room, its logs and its daemon."""

    def __init__(self, room: Room, logs: list[Path], daemon: Daemon) -> None:
        self.room = room
        self.logs = logs
        self.daemon = daemon


class Stage:
    """What a run has: its scale, and a crowd that is made when a row first asks for it."""

    def __init__(self, scale: Scale) -> None:
        self.scale = scale
        self._stack = ExitStack()

    @cached_property
    def crowd(self) -> Crowd:
        room = self._stack.enter_context(Room())
        logs = write_corpus(room.claude, SESSIONS, SESSIONS * LOG_BYTES)
        self._stack.enter_context(_idlers(room, logs[: self.scale.alive]))
        daemon = self._stack.enter_context(room.daemon())
        daemon.rest()
        return Crowd(room, logs, daemon)

    def close(self) -> None:
        self._stack.close()


@contextmanager
def _idlers(room: Room, logs: list[Path]) -> Iterator[None]:
    """A living process for each of these logs, as the registry tells it."""
    names = room.path / "conversations"
    names.write_text("\n".join(path.stem for path in logs))
    # A registry entry counts only for a process that runs the client, recognised by its name.
    program = room.path / "bin" / "claude"
    program.parent.mkdir()
    program.symlink_to(Path(__file__).with_name("idlers.py"))
    argv = [sys.executable, str(program), str(room.claude), str(names)]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None, "asked for"
        process.stdout.readline()
        registry = room.claude / "sessions"
        wait_until(lambda: len(list(registry.iterdir())) == len(logs), "the registry", START_SECONDS_MAX)
        yield
        # Closing its input ends it and every process it forked.
        process.communicate(timeout=END_SECONDS_MAX)
