"""What the tmux runtime remembers of an agent between its start and its stop: a small file each.

It is what a container is to an engine: it outlives the daemon, the tmux server and the host's boot, so that an agent
that ended without being stopped is told from one that was never started.
"""

import os
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct

from wakeful.core.decoding import decode_json
from wakeful.core.process import Process
from wakeful.integrations.tmux.failure import TmuxFailed
from wakeful.linux.owner_only import owner_only
from wakeful.linux.small_files import read_small

# A mark has some 200 bytes.
MARK_BYTES_MAX: Final = 64 * 1024


class AgentMark(Struct, frozen=True):
    """One agent that was started. `process` is its pane's first; `ready` is false until it was seen ready."""

    epoch: int
    process: Process | None
    ready: bool
    # Whoever showed it. Marks of earlier versions have none.
    server: Process | None = None


class AgentMarks:
    """The files of one folder, which is its owner's alone."""

    def __init__(self, folder: str) -> None:
        self._folder = Path(folder)

    def find(self, name: str) -> AgentMark | None:
        """What is remembered; None also for a damaged file, which the next start writes anew."""
        try:
            content = read_small(self._path(name), MARK_BYTES_MAX)
            return decode_json(content, AgentMark) if content else None
        except msgspec.DecodeError:
            return None

    def keep(self, name: str, mark: AgentMark) -> None:
        """Replace what is remembered, whole. Raises TmuxFailed."""
        fresh = self._path(f".{name}.{os.getpid()}")
        try:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            with open(fresh, "wb", opener=owner_only) as file:
                file.write(msgspec.json.encode(mark))
            fresh.replace(self._path(name))
        except OSError as problem:
            raise TmuxFailed(reason=f"{self._folder} cannot be written: {problem.strerror}") from problem

    def drop(self, name: str) -> None:
        self._path(name).unlink(missing_ok=True)

    def others(self, name: str) -> bool:
        """Whether any other agent is remembered."""
        found = {each.stem for each in self._folder.glob("*.json") if not each.name.startswith(".")}
        return bool(found - {name})

    def _path(self, name: str) -> Path:
        return self._folder / f"{name}.json"
