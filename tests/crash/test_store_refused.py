"""Files that are damaged, not ours or newer: refused with one sentence that says what to do, and left as they are."""

import asyncio
import os
import re
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from crash.store_workload import NEXT_MIGRATION, run_steps
from wakeful.core.errors import WakefulError
from wakeful.storage.sqlite.database import APPLICATION_ID, MIGRATIONS, open_database
from wakeful.storage.sqlite.errors import StoreCorrupt, StoreForeign, StoreNewer
from wakeful.storage.sqlite.store import SqliteStore

Spoil = Callable[[Path], object]
PAGE_BYTES = 4096


def truncated_to(size_bytes: int) -> Spoil:
    return lambda path: os.truncate(path, size_bytes)


def overwritten(offset: int, with_: bytes) -> Spoil:
    def spoil(path: Path) -> None:
        with path.open("r+b") as file:
            file.seek(offset)
            file.write(with_)

    return spoil


def replaced_by(content: bytes) -> Spoil:
    return lambda path: path.write_bytes(content)


def after_sql(statement: str) -> Spoil:
    def spoil(path: Path) -> None:
        with closing(sqlite3.connect(path)) as connection:
            connection.execute(statement)

    return spoil


SPOILED: dict[str, tuple[Spoil, type[WakefulError], str]] = {
    "empty": (truncated_to(0), StoreCorrupt, "only 0 bytes"),
    "truncated inside its header": (truncated_to(50), StoreCorrupt, "only 50 bytes"),
    "truncated after one page": (truncated_to(PAGE_BYTES), StoreCorrupt, "malformed"),
    "truncated by one page": (lambda path: os.truncate(path, path.stat().st_size - PAGE_BYTES), StoreCorrupt, "malformed"),
    "header flipped": (overwritten(3, b"\xff"), StoreCorrupt, "not a database"),
    "page size impossible": (overwritten(16, b"\x00\x03"), StoreCorrupt, "not a database"),
    "schema page spoiled": (overwritten(100, b"\x07"), StoreCorrupt, "malformed"),
    "inner page spoiled": (overwritten(PAGE_BYTES, b"\xa5" * 64), StoreCorrupt, "."),
    "garbage": (replaced_by(b"\x13\x37" * 5000), StoreCorrupt, "not a database"),
    "text": (replaced_by(b"{}\n"), StoreCorrupt, "only 3 bytes"),
    "another program's database": (after_sql("PRAGMA application_id = 1"), StoreForeign, "is not a Wakeful store"),
    "no application id": (after_sql("PRAGMA application_id = 0"), StoreForeign, "is not a Wakeful store"),
    "newer": (after_sql("PRAGMA user_version = 999"), StoreNewer, "schema 999; this version knows"),
}  # fmt: skip


def bytes_below(folder: Path) -> dict[str, bytes]:
    return {each.name: each.read_bytes() for each in folder.iterdir()}


@pytest.mark.parametrize("name", SPOILED)
def test_a_spoiled_file_is_refused_and_left_as_it_is(tmp_path: Path, name: str) -> None:
    """The refusal says which file and why; no byte of it changes and no file appears beside it."""
    spoil, error, why = SPOILED[name]
    path = tmp_path / "wakeful.db"
    asyncio.run(run_steps(path))
    spoil(path)
    before = bytes_below(tmp_path)
    with pytest.raises(error, match=why) as caught:
        asyncio.run(SqliteStore.open(path))
    assert bytes_below(tmp_path) == before
    assert str(caught.value).startswith(str(path))
    assert "\n" not in str(caught.value)


def test_a_newer_schema_that_is_still_in_the_log_is_refused(tmp_path: Path) -> None:
    """A database whose newer version was not folded into its file yet is as new as it is."""
    path = tmp_path / "wakeful.db"
    newer = open_database(path, [*MIGRATIONS, NEXT_MIGRATION])
    newer.writer.execute("CREATE TABLE still_in_the_log (id)")
    newer.writer.execute("PRAGMA user_version = 999")
    database, log = path.read_bytes(), path.with_name("wakeful.db-wal").read_bytes()
    with pytest.raises(StoreNewer, match=re.escape("schema 999")):
        asyncio.run(SqliteStore.open(path))
    assert path.read_bytes() == database
    assert path.with_name("wakeful.db-wal").read_bytes() == log
    for connection in newer:
        connection.close()


def test_a_log_without_its_database_is_refused(tmp_path: Path) -> None:
    """A new database would adopt the old log; so there is none until a person has looked."""
    log = tmp_path / "wakeful.db-wal"
    log.write_bytes(b"left behind")
    with pytest.raises(StoreCorrupt, match=r"missing while wakeful\.db-wal is still there"):
        asyncio.run(SqliteStore.open(tmp_path / "wakeful.db"))
    assert bytes_below(tmp_path) == {"wakeful.db-wal": b"left behind"}


@pytest.mark.parametrize("make", [Path.mkdir, os.mkfifo])
def test_what_is_no_file_is_refused(tmp_path: Path, make: Callable[[Path], None]) -> None:
    """A folder or a pipe in the store's place is refused without waiting on it."""
    make(tmp_path / "wakeful.db")
    with pytest.raises(StoreForeign):
        asyncio.run(SqliteStore.open(tmp_path / "wakeful.db"))


def test_the_application_id_is_the_one_in_old_files() -> None:
    """The constant may never change: every store written so far carries it."""
    assert APPLICATION_ID.to_bytes(4, "big") == b"WAKE"


def test_a_version_that_its_tables_do_not_fit_is_refused(tmp_path: Path) -> None:
    """Lowered by hand, it would be migrated twice; nothing of the migration stays."""
    path = tmp_path / "wakeful.db"
    asyncio.run(run_steps(path))
    after_sql("PRAGMA user_version = 1")(path)
    before = path.read_bytes()
    with pytest.raises(StoreCorrupt, match="do not fit schema version 1, which it claims to have"):
        asyncio.run(SqliteStore.open(path))
    assert path.read_bytes() == before
