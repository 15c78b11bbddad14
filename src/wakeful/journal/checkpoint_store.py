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
from wakeful.config.paths import StatePaths, config_path
from wakeful.config.state_dir import make_state_dir, require_home, store_path
from wakeful.journal.processes import run_in_thread
from wakeful.linux.clock import SystemClock
from wakeful.storage.sqlite.store import SqliteStore

# Folder of the registry of journals, below the state folder.
REGISTRY_FOLDER: Final = "journals"
T = TypeVar("T")


class StoredJournalCheckpoints:
    """Implements journal.recovery.JournalCheckpoints. `database` defaults to the store of the configuration."""

    def __init__(self, database: Path | None = None) -> None:
        self._database = database

    def open(self, draft: Checkpoint) -> Checkpoint:
        return _with_checkpoints(lambda checkpoints: checkpoints.open(draft), self._database)

    def find(self, number: int) -> Checkpoint | None:
        try:
            return _with_checkpoints(lambda checkpoints: checkpoints.get(number), self._database)
        except CheckpointNotFound:
            return None

    def list_checkpoints(self, *, everything: bool) -> list[Checkpoint]:
        """All checkpoints, or those that need a decision; oldest first. Creates no store."""
        paths = StatePaths.from_environ(os.environ)
        if not (self._database or _configured_store(paths)).exists():
            return []
        return _with_checkpoints(
            lambda checkpoints: checkpoints.list_checkpoints(everything=everything), self._database
        )


def _configured_store(paths: StatePaths) -> Path:
    """The store that the daemon uses: no interface shows a checkpoint of another one. Raises ConfigError."""
    path = config_path(os.environ)
    config = load(path if path is not None and Path(path).exists() else None, os.environ)
    return store_path(config, paths)


def _with_checkpoints(ask: Callable[[Checkpoints], Awaitable[T]], database: Path | None = None) -> T:
    require_home(os.environ)
    paths = StatePaths.from_environ(os.environ)
    make_state_dir(paths)
    path = database or _configured_store(paths)

    async def open_and_ask() -> T:
        store = await SqliteStore.open(path)
        try:
            return await ask(
                Checkpoints(store, SystemClock(), CheckpointFiles(Path(paths.state_dir) / "checkpoints"))
            )
        finally:
            await store.close()

    return run_in_thread(open_and_ask())
