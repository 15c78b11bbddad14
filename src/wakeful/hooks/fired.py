"""When a hook of each client last reported: the time of an empty file, for whoever asks whether hooks work at all.

Nothing is judged by it. A client may skip hooks that nobody trusted, and says so nowhere.
"""

import logging
from pathlib import Path
from typing import Final

from wakeful.core.clock import Clock

# A busy agent reports many times a minute; one note of it is enough.
MARK_SECONDS: Final = 60.0

log = logging.getLogger("wakeful")


class Fired:
    """Remembers reports in a folder of its own, once a minute for each client."""

    def __init__(self, folder: Path, clock: Clock) -> None:
        self._folder = folder
        self._clock = clock
        self._marked: dict[str, float] = {}

    def mark(self, client: str) -> None:
        """A hook of this client has reported. A full disk is no reason to lose the report itself."""
        awake = self._clock.now().awake
        if awake - self._marked.get(client, -MARK_SECONDS) < MARK_SECONDS:
            return
        self._marked[client] = awake
        try:
            self._folder.mkdir(mode=0o700, exist_ok=True)
            (self._folder / f"{client}.fired").touch(mode=0o600)
        except OSError as problem:
            log.warning("it cannot be noted that hooks of %s work: %s", client, problem)


def fired_at(folder: Path, client: str) -> float | None:
    """When a hook of this client last reported, give or take a minute; None if none ever did."""
    try:
        return (folder / f"{client}.fired").lstat().st_mtime
    except OSError:
        return None
