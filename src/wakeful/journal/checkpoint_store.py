"""Opens and reads checkpoints of journals without a daemon.

The store is opened for each request and closed again. It serves callers without an event loop. It uses the
daemon's own store, so that the daemon shows these checkpoints; the store is created if it is missing.
"""

import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final, TypeVar

from wakeful.checkpoints.files import CheckpointFiles
from wakeful.checkpoints.model import Checkpoint
from wakeful.checkpoints.service import CheckpointNotFound, Checkpoints
from wakeful.config.load import load
from wakeful.config.paths import Places, config_path
from wakeful.config.state_dir import make_home, require_home, store_path
from wakeful.journal.processes import alone
from wakeful.linux.clock import SystemClock
from wakeful.storage.sqlite.store import SqliteStore

# Where registered journals are remembered, below the state folder.
JOURNALS: Final = "journals"
T = TypeVar("T")


class StoreDesk:
    """Implements journal.base.CheckpointDesk. `database` is the one of the configuration unless another is given."""

    def __init__(self, database: Path | None = None) -> None:
        self._database = database

    def open(self, draft: Checkpoint) -> Checkpoint:
        return _with_desk(lambda desk: desk.open(draft), self._database)

    def find(self, number: int) -> Checkpoint | None:
        try:
            return _with_desk(lambda desk: desk.get(number), self._database)
        except CheckpointNotFound:
            return None

    def listed(self, *, everything: bool) -> list[Checkpoint]:
        """All of them, or those somebody has to decide; oldest first. Where there is no store, none is made."""
        places = Places.of(os.environ)
        if not (self._database or _configured(places)).exists():
            return []
        return _with_desk(lambda desk: desk.listed(everything=everything), self._database)


def _configured(places: Places) -> Path:
    """The daemon's own store. Raises ConfigError: a question in another one would be shown to nobody."""
    written = config_path(os.environ)
    known = load(written if written is not None and Path(written).exists() else None, os.environ)
    return store_path(known, places)


def _with_desk(ask: Callable[[Checkpoints], Awaitable[T]], database: Path | None = None) -> T:
    require_home(os.environ)
    places = Places.of(os.environ)
    make_home(places)
    path = database or _configured(places)

    async def asked() -> T:
        store = await SqliteStore.open(path)
        try:
            return await ask(
                Checkpoints(store, SystemClock(), CheckpointFiles(Path(places.home) / "checkpoints"))
            )
        finally:
            await store.close()

    return alone(asked())
