"""Checkpoints of journals without a daemon: the store of this user is opened for each question and closed again.

Joins the desk of checkpoints to callers that have no loop. The store is made where it is missing.
"""

import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final, TypeVar

from wakeful.adapters.checkpoints.files import CheckpointFiles
from wakeful.adapters.journal.processes import alone
from wakeful.adapters.sqlite.store import SqliteStore
from wakeful.adapters.system.clock import SystemClock
from wakeful.domain.checkpoint import Checkpoint
from wakeful.home import make_home, require_home
from wakeful.places import Places
from wakeful.services.checkpoints import CheckpointNotFound, Checkpoints

# Where registered journals are remembered, below the state folder.
JOURNALS: Final = "journals"
T = TypeVar("T")


class StoreDesk:
    """Implements ports.journal.CheckpointDesk."""

    def open(self, draft: Checkpoint) -> Checkpoint:
        return _with_desk(lambda desk: desk.open(draft))

    def find(self, number: int) -> Checkpoint | None:
        try:
            return _with_desk(lambda desk: desk.get(number))
        except CheckpointNotFound:
            return None


def _with_desk(ask: Callable[[Checkpoints], Awaitable[T]]) -> T:
    require_home(os.environ)
    places = Places.of(os.environ)
    make_home(places)

    async def asked() -> T:
        store = await SqliteStore.open(Path(places.database))
        try:
            return await ask(
                Checkpoints(store, SystemClock(), CheckpointFiles(Path(places.home) / "checkpoints"))
            )
        finally:
            await store.close()

    return alone(asked())
