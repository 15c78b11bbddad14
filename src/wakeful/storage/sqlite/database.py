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
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec
from msgspec import Struct

from wakeful.core.decoding import decode_json
from wakeful.core.fault_points import fault_point
from wakeful.core.ids import SessionId
from wakeful.core.machine import Machine
from wakeful.core.redaction import Redactor, redact
from wakeful.linux.clock import SystemClock
from wakeful.linux.machine import this_machine
from wakeful.storage.base import SHARED, FinishedTurns, Note, TransitionCount, is_shared
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
        """Its single statements, which can run inside an open transaction."""
        statement = ""
        for line in self.script.splitlines(keepends=True):
            statement += line
            if sqlite3.complete_statement(statement):
                yield statement
                statement = ""


def load_migrations(folder: Path) -> tuple[Migration, ...]:
    """Every `<number>_<name>.sql` of a folder, sorted."""
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

# "WAKE". SQLite keeps it in the file's header, where `file` and Wakeful read it.
APPLICATION_ID: Final = 0x57414B45
# SQLite's smallest page. SQLite treats a shorter file as a new database and would write to it.
DATABASE_BYTES_MIN: Final = 512
# Checking 1 MiB takes about 1 ms. A larger file would delay the start; damage is then found when it is read.
CHECKED_BYTES_MAX: Final = 64 << 20
# After a large transaction the log is truncated to this.
JOURNAL_BYTES_MAX: Final = 16 << 20
# The schema version with the table `machines`; tests open older ones.
_MACHINES_SINCE: Final = 9
# Problems of a new version show within a week.
BACKUP_SECONDS_MAX: Final = 7 * 86_400.0


class Connections(NamedTuple):
    """A writing and a read-only connection, for one thread each."""

    writer: sqlite3.Connection
    reader: sqlite3.Connection


def open_database(
    path: Path, migrations: Sequence[Migration] = MIGRATIONS, *, machine: Machine | None = None
) -> Connections:
    """Open the store at `path`, created or migrated if necessary; its folder must exist.

    `machine` opens it, by default this machine; rows of earlier versions become its own.

    Raises StoreCorrupt, StoreForeign or StoreNewer and leaves such a file untouched; StoreBusy, StoreFull
    or StoreUnwritable for outside causes.
    """
    machine = this_machine() if machine is None else machine
    try:
        if not _exists(path):
            _create(path, migrations, machine)
        version = _inspect(path, migrations[-1].version)
        return _connect_both(path, migrations, machine, outdated=version < migrations[-1].version)
    except (sqlite3.Error, OSError) as error:
        raise translate(error, path) from error


def inspect_database(path: Path) -> int:
    """The schema version of the store at `path`; raises what `open_database` would. Writes nothing."""
    try:
        return _inspect(path, MIGRATIONS[-1].version)
    except (sqlite3.Error, OSError) as error:
        raise translate(error, path) from error


def _exists(path: Path) -> bool:
    # The log is checked first: it appears after its database and disappears before it.
    orphaned = _sibling(path, "-wal").exists()
    if path.is_file():
        return True
    if path.exists():
        raise StoreForeign(path=str(path))
    if orphaned:
        # SQLite would apply the old log to a new database and damage it.
        raise StoreCorrupt(path=str(path), why=f"it is missing while {path.name}-wal is still there")
    return False


def _inspect(path: Path, version_known: int) -> int:
    """The schema version of a sound store; any other file is refused. Writes nothing."""
    size_bytes = path.stat().st_size
    if size_bytes < DATABASE_BYTES_MIN:
        raise StoreCorrupt(path=str(path), why=f"it is only {size_bytes} bytes long")
    with closing(_open_read_only(path)) as reader:
        version = _number(reader, "PRAGMA user_version")
        if _number(reader, "PRAGMA application_id") != APPLICATION_ID:
            raise StoreForeign(path=str(path))
        if version > version_known:
            raise StoreNewer(path=str(path), found=version, known=version_known)
        if size_bytes <= CHECKED_BYTES_MAX:
            _check(reader, path)
    return version


def read_notes(path: Path, kind: str) -> list[Note]:
    """Notes of a kind in a store that no process may have open; raises as `_read_once` does."""
    machine = SHARED if is_shared(kind) else this_machine().id
    return [Note(*row) for row in _read_once(path, "notes", machine, kind)]


def read_transition_counts(path: Path, since: float) -> list[TransitionCount]:
    return [transition_count_of(*row) for row in _read_once(path, "moves", since, this_machine().id)]


def read_finished_turns(path: Path, since: float) -> list[FinishedTurns]:
    return [finished_turns_of(*row) for row in _read_once(path, "finished_turns", since, this_machine().id)]


def finished_turns_of(session_id: str, *rest: Any) -> FinishedTurns:
    return FinishedTurns(SessionId(session_id), *rest)


def transition_count_of(session_id: str, *rest: Any) -> TransitionCount:
    return TransitionCount(SessionId(session_id), *rest)


def _read_once(path: Path, query: str, *values: object) -> list[tuple[Any, ...]]:
    """Rows of a store that no process may have open; empty without a store. Writes nothing.

    Raises what `open_database` would, and StoreOutdated for one that only `wakeful up` may migrate.
    """
    if not path.is_file():
        return []
    if inspect_database(path) < MIGRATIONS[-1].version:
        raise StoreOutdated(path=str(path))
    try:
        with closing(_open_read_only(path)) as reader:
            return reader.execute(QUERIES[query], values).fetchall()
    except sqlite3.Error as error:
        raise translate(error, path) from error


def _open_read_only(path: Path) -> sqlite3.Connection:
    # Without a log no process has it open; opening it as immutable then leaves no file behind.
    return _connect(path, "mode=ro" if _sibling(path, "-wal").exists() else "mode=ro&immutable=1")


def _check(reader: sqlite3.Connection, path: Path) -> None:
    result = str(reader.execute("PRAGMA quick_check(1)").fetchone()[0])
    if result != "ok":
        raise StoreCorrupt(path=str(path), why=result.splitlines()[-1])


def _connect_both(
    path: Path, migrations: Sequence[Migration], machine: Machine, *, outdated: bool
) -> Connections:
    writer = _connect(path, "mode=rw")
    try:
        _set_up(writer, path)
        if outdated:
            # A rehearsal first: the file of a refused store stays unchanged.
            _migrate(writer, path, migrations, machine, rehearsal=True)
            # Pages freed by an earlier version still have their content. Before the migration, so a crash repeats it.
            writer.execute("VACUUM")
            _migrate(writer, path, migrations, machine)
            writer.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        _save_machine(writer, machine)
        # Backups serve a return to the previous version; they may contain data that the store has deleted.
        oldest = SystemClock().now().wall - BACKUP_SECONDS_MAX
        for backup in path.parent.glob(f"{path.name}.before-v*"):
            with suppress(FileNotFoundError):
                if backup.stat().st_mtime < oldest:
                    backup.unlink()
        # The database and its log exist now; SQLite does not sync their names.
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
    # Deleted content is overwritten, so free pages contain nothing.
    writer.execute("PRAGMA secure_delete = ON")


def _connect(path: Path, how: str) -> sqlite3.Connection:
    address = f"{path.absolute().as_uri()}?{how}"
    # Opened in one thread and used in another, never in two at once.
    return sqlite3.connect(
        address, uri=True, timeout=BUSY_SECONDS_MAX, isolation_level=None, check_same_thread=False
    )


def _create(path: Path, migrations: Sequence[Migration], machine: Machine) -> None:
    """Create a new store at `path`, whole or not at all; a store of another process is left unchanged."""
    draft = _sibling(path, ".new")
    file = os.open(draft, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    with open(file, "r+b") as stream:  # noqa: PTH123  pathlib cannot ask for 0600 at creation
        fcntl.flock(stream, fcntl.LOCK_EX)
        if path.exists():
            # Another process was first and renamed its draft; this draft was made after that.
            draft.unlink(missing_ok=True)
            return
        fault_point("store.create.write")
        stream.truncate(0)
        stream.write(_new_database(migrations, machine))
        stream.flush()
        os.fsync(stream.fileno())
        fault_point("store.create.rename")
        draft.rename(path)
        fault_point("store.create.renamed")


def _new_database(migrations: Sequence[Migration], machine: Machine) -> bytes:
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as memory:
        memory.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        _apply(memory, migrations, machine)
        _save_machine(memory, machine)
        image = bytearray(memory.serialize())
    # With a write-ahead log from the start (file format, bytes 18 and 19): switching later needs a lock and a journal.
    image[18:20] = b"\x02\x02"
    return bytes(image)


def _migrate(
    writer: sqlite3.Connection,
    path: Path,
    migrations: Sequence[Migration],
    machine: Machine,
    *,
    rehearsal: bool = False,
) -> None:
    """Migrate the tables to the newest version in one transaction; a rehearsal rolls back. Raises StoreCorrupt."""
    writer.execute("BEGIN IMMEDIATE")
    # Read again behind the lock: another process may have been first.
    version = _number(writer, "PRAGMA user_version")
    try:
        due = [each for each in migrations if each.version > version]
        if due and not rehearsal:
            _back_up(path, _sibling(path, f".before-v{due[-1].version}"))
        if due:
            _apply(writer, due, machine)
        if rehearsal:
            writer.rollback()
            return
        fault_point("store.migrate.commit")
        writer.execute("COMMIT")
    except sqlite3.OperationalError as error:
        writer.rollback()
        if error.sqlite_errorcode != sqlite3.SQLITE_ERROR:
            raise
        # A statement failed to compile: the tables are not those of the file's version.
        why = f"its tables do not fit schema version {version}, which it claims to have: {error}"
        raise StoreCorrupt(path=str(path), why=why) from error
    except BaseException:
        writer.rollback()
        raise
    fault_point("store.migrate.committed")


def _apply(connection: sqlite3.Connection, migrations: Sequence[Migration], machine: Machine) -> None:
    connection.create_function("redacted", 1, _redact_value, deterministic=True)
    connection.create_function("this_machine", 0, lambda: machine.id, deterministic=True)
    connection.create_function("with_machine", 1, partial(_add_machine, machine.id), deterministic=True)
    connection.create_function("is_alive", 1, _is_alive, deterministic=True)
    for migration in migrations:
        for statement in migration.statements():
            fault_point("store.migrate.statement")
            connection.execute(statement)
    connection.execute(f"PRAGMA user_version = {migrations[-1].version}")


def _redact_value(value: str | bytes | None) -> str | bytes | None:
    """A text or a JSON document, redacted as this version would have written it."""
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


def _add_machine(machine: str, document: bytes | None) -> bytes | None:
    """A JSON document with the machine of every process in it; other contents stay as they are."""
    if document is None or b'"boot_id"' not in document:
        return document
    try:
        value = decode_json(document)
    except msgspec.DecodeError:
        return document
    _mark_processes(value, machine)
    return msgspec.json.encode(value)


def _mark_processes(value: object, machine: str) -> None:
    """Mark them in place. Their key comes last, as this version encodes it: leases compare encoded processes."""
    if isinstance(value, list):
        for each in value:
            _mark_processes(each, machine)
    elif isinstance(value, dict):
        if {"pid", "started", "boot_id"} == value.keys():
            value["machine"] = machine
        for each in value.values():
            _mark_processes(each, machine)


# Tables whose rows belong to a machine.
_MACHINE_TABLES: Final = (
    "transitions",
    "sessions",
    "bookmarks",
    "intents",
    "hostings",
    "attempts",
    "notes",
    "spendings",
)


def inherit_rows(machine: str, connection: sqlite3.Connection) -> bool:
    """Make the rows of all other machines this one's. Whether there were any.

    Their processes stay theirs, and unknown: the state folder may be a copy, and the machine it is of may live.
    """
    if not connection.execute(QUERIES["other_machines"], (machine,)).fetchall():
        return False
    for table in _MACHINE_TABLES:
        update = f"UPDATE OR REPLACE {table} SET machine = ? WHERE machine NOT IN (?, ?)"  # noqa: S608 - fixed names
        connection.execute(update, (machine, machine, SHARED))
    connection.execute(QUERIES["forget_other_machines"], (machine,))
    return True


def _is_alive(record: bytes | None) -> bool:
    """What a session record says of its agent; false for anything else."""
    try:
        value = decode_json(record or b"")
    except msgspec.DecodeError:
        return False
    return isinstance(value, dict) and value.get("session_alive") is True


def _save_machine(writer: sqlite3.Connection, machine: Machine) -> None:
    """Store its name and boot, for the other machines. A store of an older schema has no place for them."""
    if _number(writer, "PRAGMA user_version") < _MACHINES_SINCE:
        return
    known = writer.execute(QUERIES["machine"], (machine.id,)).fetchone()
    if known != (machine.host, machine.boot_id):
        writer.execute(QUERIES["save_machine"], (machine.id, machine.host, machine.boot_id))


def _back_up(path: Path, backup: Path) -> None:
    """Copy the last committed state to `backup`, whole or not at all. The caller has the write lock."""
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
    """Make file names durable, not only their content."""
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
