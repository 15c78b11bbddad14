"""Errors of the store's file, each with the next step for the operator.

`translate` maps SQLite's error codes to them.
"""

import errno
import sqlite3
from pathlib import Path
from typing import Final

from wakeful.core.errors import OperatorError, WakefulError, WorldError


class StoreCorrupt(WorldError):
    """{path} is damaged ({why}) and was not changed. Move it away or restore a backup, then start again."""

    code = "store-corrupt"


class StoreForeign(OperatorError):
    """{path} is not a Wakeful store and was not changed. Set WAKEFUL_HOME to another folder."""

    code = "store-foreign"


class StoreNewer(OperatorError):
    """{path} was written by a newer Wakeful (schema {found}; this version knows {known}). Update Wakeful."""

    code = "store-newer"


class StoreOutdated(OperatorError):
    """{path} was written by an older Wakeful. Run `wakeful up` to upgrade it; a copy is kept."""

    code = "store-outdated"


class StoreBusy(WorldError):
    """{path} stayed locked by another process for {seconds:g} s. Nothing was stored; try again."""

    code = "store-busy"
    retryable = True


class StoreFull(WorldError):
    """No space left for {path}. Nothing was stored; free some space and try again."""

    code = "store-full"
    http_status = 507
    retryable = True


class StoreUnwritable(WorldError):
    """{path} cannot be used ({why}). Nothing was stored. Check the disk and the file's permissions."""

    code = "store-unwritable"
    retryable = True


# SQLite retries a lock for this long before it gives up; a commit of another process takes milliseconds.
BUSY_SECONDS_MAX: Final = 5.0
_BUSY: Final = frozenset({sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED})
_CORRUPT: Final = frozenset({sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB})
_UNUSABLE: Final = frozenset(
    {
        sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_NOLFS, sqlite3.SQLITE_PERM,
        sqlite3.SQLITE_PROTOCOL, sqlite3.SQLITE_READONLY,
    }
)  # fmt: skip


def translate(error: BaseException, path: Path) -> BaseException:
    """The store error for `error`; `error` itself if its cause is in Wakeful."""
    if isinstance(error, sqlite3.Error):
        return _of_sqlite(error, str(path)) or error
    if isinstance(error, OSError):
        full = error.errno in {errno.ENOSPC, errno.EDQUOT}
        return StoreFull(path=str(path)) if full else StoreUnwritable(path=str(path), why=error.strerror)
    return error


def _of_sqlite(error: sqlite3.Error, path: str) -> WakefulError | None:
    # Errors of the Python module have no code; the low byte of an extended code is its family.
    family = getattr(error, "sqlite_errorcode", 0) & 0xFF
    if family == sqlite3.SQLITE_FULL:
        return StoreFull(path=path)
    if family in _BUSY:
        return StoreBusy(path=path, seconds=BUSY_SECONDS_MAX)
    if family in _CORRUPT:
        return StoreCorrupt(path=path, why=str(error))
    if family in _UNUSABLE:
        return StoreUnwritable(path=path, why=f"{error}, {error.sqlite_errorname}")
    return None
