"""Opens the SQLite database: checks the file, creates or migrates it, and loads the SQL files.

A damaged, foreign or newer file is refused before anything is written to it. A new store appears whole or not
at all; a migration makes a backup first. Queries have names and migrations have numbers; no SQL is built in
code. After opening, every write goes through the writer connection.
"""

import fcntl
import os
import re
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec
from msgspec import Struct

from wakeful.core.decoding import decode_json
from wakeful.core.fault_points import fault_point
from wakeful.core.ids import SessionId
from wakeful.core.redaction import Redactor, redact
from wakeful.linux.clock import SystemClock
from wakeful.storage.base import FinishedTurns, Note, TransitionCount
from wakeful.storage.sqlite.errors import (
    BUSY_SECONDS_MAX,
    StoreCorrupt,
    StoreForeign,
    StoreNewer,
    StoreOutdated,
    StoreUnwritable,
    translate,
)

_HERE: Final = Path(__file__).parent


class Migration(Struct, frozen=True):
    """One step of the schema; `version` is the number its file name starts with."""

    version: int
    script: str

    def statements(self) -> Iterator[str]:
        """Its statements one by one, so that they can run inside a transaction that is already open."""
        statement = ""
        for line in self.script.splitlines(keepends=True):
            statement += line
            if sqlite3.complete_statement(statement):
                yield statement
                statement = ""


def load_migrations(folder: Path) -> tuple[Migration, ...]:
    """Every `<number>_<name>.sql` of a folder, in order."""
    return tuple(
        Migration(int(file.name.partition("_")[0]), file.read_text("utf-8"))
        for file in sorted(folder.glob("*.sql"))
    )


def load_queries(file: Path) -> Mapping[str, str]:
    """The queries of a file by the names in its `-- name: x` lines."""
    parts = re.split(r"^-- name: (\w+)\n", file.read_text("utf-8"), flags=re.MULTILINE)
    return {name: query.strip() for name, query in zip(parts[1::2], parts[2::2], strict=True)}


MIGRATIONS: Final = load_migrations(_HERE / "migrations")
QUERIES: Final = load_queries(_HERE / "queries.sql")

# "WAKE". SQLite keeps it in the file's header, where `file` and we look for it.
APPLICATION_ID: Final = 0x57414B45
# SQLite's smallest page. It takes a shorter file for a new database and would write to it.
DATABASE_BYTES_MIN: Final = 512
# Checking 1 MiB takes about 1 ms. Beyond this a start would be felt; damage is then refused where it is read.
CHECKED_BYTES_MAX: Final = 64 << 20
# A log that one large transaction swelled is cut back to this.
JOURNAL_BYTES_MAX: Final = 16 << 20
# A new version that disappoints does so within a week.
BACKUP_SECONDS_MAX: Final = 7 * 86_400.0


class Connections(NamedTuple):
    """One connection that writes and one that cannot, to be used by one thread each."""

    writer: sqlite3.Connection
    reader: sqlite3.Connection


def open_database(path: Path, migrations: Sequence[Migration] = MIGRATIONS) -> Connections:
    """Open the store at `path`, created or migrated if need be; its folder must exist.

    Raises StoreCorrupt, StoreForeign or StoreNewer and leaves such a file untouched; StoreBusy, StoreFull
    or StoreUnwritable when the world is in the way.
    """
    try:
        if not _exists(path):
            _create(path, migrations)
        version = _inspect(path, migrations[-1].version)
        return _connect_both(path, migrations, outdated=version < migrations[-1].version)
    except (sqlite3.Error, OSError) as error:
        raise translate(error, path) from error


def inspect_database(path: Path, migrations: Sequence[Migration] = MIGRATIONS) -> int:
    """The schema version of the store at `path`; raises what `open_database` would. Writes nothing."""
    try:
        return _inspect(path, migrations[-1].version)
    except (sqlite3.Error, OSError) as error:
        raise translate(error, path) from error


def _exists(path: Path) -> bool:
    # The log is asked for first: it appears after its database and goes before it.
    orphaned = _sibling(path, "-wal").exists()
    if path.is_file():
        return True
    if path.exists():
        raise StoreForeign(path=str(path))
    if orphaned:
        # A new database would take the old log for its own and be damaged by it.
        raise StoreCorrupt(path=str(path), why=f"it is missing while {path.name}-wal is still there")
    return False


def _inspect(path: Path, version_known: int) -> int:
    """The schema version of a sound store of ours; any other file is refused. Writes nothing."""
    size_bytes = path.stat().st_size
    if size_bytes < DATABASE_BYTES_MIN:
        raise StoreCorrupt(path=str(path), why=f"it is only {size_bytes} bytes long")
    with closing(_open_read_only(path)) as look:
        version = _number(look, "PRAGMA user_version")
        if _number(look, "PRAGMA application_id") != APPLICATION_ID:
            raise StoreForeign(path=str(path))
        if version > version_known:
            raise StoreNewer(path=str(path), found=version, known=version_known)
        if size_bytes <= CHECKED_BYTES_MAX:
            _check(look, path)
    return version


def read_notes(path: Path, kind: str) -> list[Note]:
    """Notes of a kind in a store that nobody may have open; raises as `_read_once` does."""
    return [Note(*row) for row in _read_once(path, "notes", kind)]


def read_transition_counts(path: Path, since: float) -> list[TransitionCount]:
    """The same for moves since a time."""
    return [transition_count_of(*row) for row in _read_once(path, "moves", since)]


def read_finished_turns(path: Path, since: float) -> list[FinishedTurns]:
    """The same for turns that ended well."""
    return [finished_turns_of(*row) for row in _read_once(path, "finished_turns", since)]


def finished_turns_of(session_id: str, *rest: Any) -> FinishedTurns:
    return FinishedTurns(SessionId(session_id), *rest)


def transition_count_of(session_id: str, *rest: Any) -> TransitionCount:
    return TransitionCount(SessionId(session_id), *rest)


def _read_once(path: Path, query: str, value: object) -> list[tuple[Any, ...]]:
    """Rows of a store that nobody may have open; none if there is no store. Writes nothing.

    Raises what `open_database` would, and StoreOutdated for one that only `wakeful up` may bring up to date.
    """
    if not path.is_file():
        return []
    version = inspect_database(path)
    if version < MIGRATIONS[-1].version:
        raise StoreOutdated(path=str(path))
    try:
        with closing(_open_read_only(path)) as look:
            return look.execute(QUERIES[query], (value,)).fetchall()
    except sqlite3.Error as error:
        raise translate(error, path) from error


def _open_read_only(path: Path) -> sqlite3.Connection:
    # Without a log nobody has it open; looking at it as immutable then leaves no file behind.
    return _connect(path, "mode=ro" if _sibling(path, "-wal").exists() else "mode=ro&immutable=1")


def _check(look: sqlite3.Connection, path: Path) -> None:
    complaint = str(look.execute("PRAGMA quick_check(1)").fetchone()[0])
    if complaint != "ok":
        raise StoreCorrupt(path=str(path), why=complaint.splitlines()[-1])


def _connect_both(path: Path, migrations: Sequence[Migration], *, outdated: bool) -> Connections:
    writer = _connect(path, "mode=rw")
    try:
        _set_up(writer, path)
        if outdated:
            # The file of a store that is refused stays as it is.
            _migrate(writer, path, migrations, rehearsal=True)
            # Pages that an earlier version freed hold what stood there. Before the migration: a crash leaves it to be done again.
            writer.execute("VACUUM")
            _migrate(writer, path, migrations)
            writer.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        _drop_old_backups(path)
        # The database and its log exist now; SQLite itself would not tell if their names were not durable.
        _sync_folder(path)
        return Connections(writer, _connect(path, "mode=ro"))
    except BaseException:
        writer.close()
        raise


def _set_up(writer: sqlite3.Connection, path: Path) -> None:
    mode = writer.execute("PRAGMA journal_mode = WAL").fetchone()[0]
    if mode != "wal":
        raise StoreUnwritable(path=str(path), why=f"its file system allows journal mode {mode} only")
    writer.execute("PRAGMA synchronous = NORMAL")
    writer.execute(f"PRAGMA journal_size_limit = {JOURNAL_BYTES_MAX}")
    # What is deleted is overwritten: no page that is free holds what stood in it.
    writer.execute("PRAGMA secure_delete = ON")


def _connect(path: Path, how: str) -> sqlite3.Connection:
    address = f"{path.absolute().as_uri()}?{how}"
    # Opened in one thread and used in another, never in two at once.
    return sqlite3.connect(
        address, uri=True, timeout=BUSY_SECONDS_MAX, isolation_level=None, check_same_thread=False
    )


def _create(path: Path, migrations: Sequence[Migration]) -> None:
    """Make a new store appear at `path`, whole or not at all; one that another process made is left alone."""
    draft = _sibling(path, ".new")
    file = os.open(draft, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    with open(file, "r+b") as stream:  # noqa: PTH123  pathlib cannot ask for 0600 at creation
        fcntl.flock(stream, fcntl.LOCK_EX)
        if path.exists():
            # Whoever was first has renamed its draft; this one is our own, made after that.
            draft.unlink(missing_ok=True)
            return
        fault_point("store.create.write")
        stream.truncate(0)
        stream.write(_new_database(migrations))
        stream.flush()
        os.fsync(stream.fileno())
        fault_point("store.create.rename")
        draft.rename(path)
        fault_point("store.create.renamed")


def _new_database(migrations: Sequence[Migration]) -> bytes:
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as fresh:
        fresh.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        _apply(fresh, migrations)
        image = bytearray(fresh.serialize())
    # Born with a write-ahead log (file format, bytes 18 and 19): switching later would need a lock and a journal.
    image[18:20] = b"\x02\x02"
    return bytes(image)


def _migrate(
    writer: sqlite3.Connection, path: Path, migrations: Sequence[Migration], *, rehearsal: bool = False
) -> None:
    """Bring the tables to the newest version, all at once; a rehearsal takes everything back. Raises StoreCorrupt."""
    writer.execute("BEGIN IMMEDIATE")
    # Asked again behind the lock: another process may have been first.
    version = _number(writer, "PRAGMA user_version")
    try:
        due = [each for each in migrations if each.version > version]
        if due and not rehearsal:
            _back_up(path, _sibling(path, f".before-v{due[-1].version}"))
        if due:
            _apply(writer, due)
        if rehearsal:
            writer.rollback()
            return
        fault_point("store.migrate.commit")
        writer.execute("COMMIT")
    except sqlite3.OperationalError as error:
        writer.rollback()
        if error.sqlite_errorcode != sqlite3.SQLITE_ERROR:
            raise
        # A statement that cannot be said at all: the tables are not those of the version the file names.
        why = f"its tables do not fit schema version {version}, which it claims to have: {error}"
        raise StoreCorrupt(path=str(path), why=why) from error
    except BaseException:
        writer.rollback()
        raise
    fault_point("store.migrate.committed")


def _apply(connection: sqlite3.Connection, migrations: Sequence[Migration]) -> None:
    connection.create_function("redacted", 1, _redact_value, deterministic=True)
    for migration in migrations:
        for statement in migration.statements():
            fault_point("store.migrate.statement")
            connection.execute(statement)
    connection.execute(f"PRAGMA user_version = {migrations[-1].version}")


def _redact_value(value: str | bytes | None) -> str | bytes | None:
    """A text or a document of JSON as this version would have written it."""
    if value is None:
        return None
    if isinstance(value, str):
        return redact(value)
    try:
        document = decode_json(value)
    except msgspec.DecodeError:
        return redact(value.decode("utf-8", "replace")).encode()
    clean = Redactor(()).redact_value(document)
    return value if clean == document else msgspec.json.encode(clean)


def _drop_old_backups(path: Path) -> None:
    """Backups of migrations are for going back to the version before; they may hold what the store no longer does."""
    oldest = SystemClock().now().wall - BACKUP_SECONDS_MAX
    for backup in path.parent.glob(f"{path.name}.before-v*"):
        with suppress(FileNotFoundError):
            if backup.stat().st_mtime < oldest:
                backup.unlink()


def _back_up(path: Path, backup: Path) -> None:
    """Copy the last committed state to `backup`, whole or not at all. The caller holds the write lock."""
    draft = _sibling(backup, ".new")
    fault_point("store.backup.begin")
    os.close(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600))
    fault_point("store.backup.copy")
    with closing(_connect(path, "mode=ro")) as source, closing(_connect(draft, "mode=rw")) as copy:
        source.backup(copy)
    fault_point("store.backup.rename")
    draft.rename(backup)
    _sync_folder(path)


def _number(connection: sqlite3.Connection, query: str) -> int:
    return int(connection.execute(query).fetchone()[0])


def _sibling(path: Path, suffix: str) -> Path:
    return path.with_name(path.name + suffix)


def _sync_folder(path: Path) -> None:
    """Make names durable, not only what is behind them."""
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
