"""Group commit: one writer thread puts all operations that arrive during a commit into the next transaction.

Each caller gets the result or error of its own operation once it is committed. An operation is a function of
the connection that may run twice (the first run is rolled back then), so it has no effects but SQL.
"""

import asyncio
import sqlite3
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeVar

from wakeful.core.fault_points import fault_point
from wakeful.storage.sqlite.errors import StoreBusy, StoreCorrupt, StoreUnwritable, translate

T = TypeVar("T")
Operation = Callable[[sqlite3.Connection], T]

# A commit of 1,000 operations takes some 30 ms; more would delay the first caller without gain.
OPERATIONS_PER_COMMIT_MAX: Final = 1000
# These affect all operations of a batch alike; retrying each would cost the waiting time again.
_BATCH_ERRORS: Final = (StoreBusy, StoreCorrupt, StoreUnwritable)


@dataclass(slots=True, eq=False)
class _Job:
    operation: Operation[Any]
    durable: bool
    answer: "asyncio.Future[Any]"
    result: Any = None
    failure: BaseException | None = None


class Writer:
    """Owns the writing connection. Belongs to the event loop in which it was created."""

    def __init__(self, connection: sqlite3.Connection, path: Path) -> None:
        self._connection = connection
        self._path = path
        self._loop = asyncio.get_running_loop()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="store-writer")
        self._waiting: list[_Job] = []
        self._idle = asyncio.Event()
        self._idle.set()
        self._durable = False

    async def commit(self, operation: Operation[T], *, durable: bool = False) -> T:
        """Run `operation` in a transaction; returns its result once it is committed, and synced if `durable`.

        Cancelling the caller undoes nothing: the operation may still be committed.
        """
        job = _Job(operation, durable, self._loop.create_future())
        self._waiting.append(job)
        if self._idle.is_set():
            self._idle.clear()
            # Not at once: operations of the same loop iteration join the same transaction.
            self._loop.call_soon(self._begin)
        result: T = await job.answer
        return result

    async def close(self) -> None:
        """Finish running operations and close the connection. `commit` must not be called any more."""
        await self._idle.wait()
        try:
            await self._loop.run_in_executor(self._thread, self._end)
        finally:
            self._thread.shutdown(wait=False)

    def _begin(self) -> None:
        batch = self._waiting[:OPERATIONS_PER_COMMIT_MAX]
        del self._waiting[:OPERATIONS_PER_COMMIT_MAX]
        running = self._loop.run_in_executor(self._thread, self._store, batch)
        running.add_done_callback(partial(self._answer, batch))

    def _answer(self, batch: Sequence[_Job], running: "asyncio.Future[None]") -> None:
        batch_error = running.exception()
        for job in batch:
            failure = job.failure if batch_error is None else self._failure(batch_error)
            if job.answer.done():
                continue
            if failure is None:
                job.answer.set_result(job.result)
            else:
                job.answer.set_exception(failure)
        if self._waiting:
            self._begin()
        else:
            self._idle.set()

    def _end(self) -> None:
        fault_point("store.close")
        self._connection.close()

    def _store(self, batch: Sequence[_Job]) -> None:
        self._commit_or_divide(batch)
        fault_point("store.committed")

    def _commit_or_divide(self, batch: Sequence[_Job]) -> None:
        """Commit a batch together or, if one operation fails, each alone: only that one fails."""
        try:
            self._commit_together(batch)
        except Exception as error:  # noqa: BLE001 - each caller gets the error of its own operation
            if self._connection.in_transaction:
                self._connection.rollback()
            divisible = len(batch) > 1 and not isinstance(self._failure(error), _BATCH_ERRORS)
            for job in batch:
                if divisible:
                    self._commit_or_divide([job])
                else:
                    job.failure = self._failure(error)

    def _commit_together(self, batch: Sequence[_Job]) -> None:
        fault_point("store.begin")
        durable = any(job.durable for job in batch)
        if durable != self._durable:
            # FULL syncs the log before a commit returns; NORMAL leaves that to checkpoints.
            self._connection.execute(f"PRAGMA synchronous = {'FULL' if durable else 'NORMAL'}")
            self._durable = durable
        self._connection.execute("BEGIN IMMEDIATE")
        for job in batch:
            job.result = job.operation(self._connection)
        fault_point("store.commit")
        self._connection.execute("COMMIT")

    def _failure(self, error: BaseException) -> BaseException:
        """A new error for each caller: one exception in two tasks would mix their tracebacks."""
        failure = translate(error, self._path)
        if failure is not error:
            failure.__cause__ = error
        return failure
