"""`gaia.db` with the tables `audit` (events) and `backlog` (items), and the backlog's archive file.

The event file is authoritative: audit rows that a crash prevented are copied from it. A database with tables of
these names but other columns belongs to another program and is left unchanged. The archive,
`doc/todo-archive.ndjson`, gets one line per change of an item; the newest line wins. Lines without a valid item
are counted and skipped, never removed.
"""

import os
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import msgspec

from wakeful.core.decoding import decode_json
from wakeful.core.errors import OperatorError
from wakeful.core.fault_points import fault_point
from wakeful.incidents.line_log import append, lock_file, read_lines, sync_folder, translate_errors
from wakeful.journal.backlog_items import BadItem, validate_item
from wakeful.journal.event_file import LocatedTrace
from wakeful.journal.model import Trace
from wakeful.sources.parsing import plain_record
from wakeful.storage.sqlite.database import CHECKED_BYTES_MAX
from wakeful.storage.sqlite.errors import BUSY_SECONDS_MAX, StoreCorrupt, translate

AUDIT_COLUMNS: Final = ("id", "at", "event", "trace_id", "step", "details", "events_end")
ITEM_COLUMNS: Final = ("id", "title", "status", "priority", "est_hours", "added_at", "rest")
_TABLES: Final = {"audit": AUDIT_COLUMNS, "backlog": ITEM_COLUMNS}
_CREATE: Final = (
    """CREATE TABLE audit (id TEXT PRIMARY KEY, at TEXT NOT NULL, event TEXT NOT NULL, trace_id TEXT NOT NULL,
       step TEXT, details TEXT NOT NULL, events_end INTEGER NOT NULL)""",
    """CREATE TABLE backlog (id TEXT PRIMARY KEY, title TEXT NOT NULL, status TEXT NOT NULL,
       priority TEXT NOT NULL, est_hours REAL NOT NULL, added_at TEXT NOT NULL, rest TEXT NOT NULL)""",
    "CREATE INDEX audit_end ON audit (events_end)",
)
_INSERT_TRACE: Final = "INSERT OR IGNORE INTO audit VALUES (?, ?, ?, ?, ?, ?, ?)"
_PUT_ITEM: Final = "INSERT OR REPLACE INTO backlog VALUES (?, ?, ?, ?, ?, ?, ?)"
_NEWEST_SESSION: Final = """SELECT trace_id FROM audit WHERE event IN ('session.start', 'action.started')
    ORDER BY rowid DESC LIMIT 1"""
_LATER_SESSION: Final = """SELECT trace_id FROM audit WHERE event = 'action.started' AND trace_id != ?1 AND rowid >
    (SELECT coalesce(max(rowid), 0) FROM audit WHERE trace_id = ?1 AND event IN ('session.start', 'action.started'))
    ORDER BY rowid DESC LIMIT 1"""
# Every database begins with this; SQLite treats an empty file as a new database.
_HEADER: Final = b"SQLite format 3\0"

Item = Mapping[str, Any]


class GaiaForeign(OperatorError):
    """{path} belongs to another program ({why}) and was not changed. Move it away, or use another folder."""

    code = "gaia-foreign"


class GaiaDatabase:
    """One database, for one thread at a time. Methods raise the errors of a store: full, busy, unwritable, corrupt."""

    def __init__(self, path: Path) -> None:
        self.path = path
        with self._translate_errors():
            _inspect(path)
            self._rows = sqlite3.connect(
                path, timeout=BUSY_SECONDS_MAX, isolation_level=None, check_same_thread=False
            )
            try:
                # A power cut may lose rows, which the events have too, but tears none.
                self._rows.execute("PRAGMA journal_mode = WAL")
                self._rows.execute("PRAGMA synchronous = NORMAL")
                _check(self._rows, path)
                self.is_new = not _known_tables(self._rows, path)
            except BaseException:
                self._rows.close()
                raise

    def create(self, items: Iterable[Item]) -> None:
        """Create the tables with the first items in one transaction, unless another process did."""
        with self._transaction():
            if not _known_tables(self._rows, self.path):
                for statement in _CREATE:
                    self._rows.execute(statement)
                self._rows.executemany(_PUT_ITEM, map(_item_row, items))
        self.is_new = False

    def audit(self, traces: Iterable[LocatedTrace]) -> None:
        """Store events as rows; existing rows stay."""
        rows = [_trace_row(each) for each in traces]
        with self._transaction():
            self._rows.executemany(_INSERT_TRACE, rows)

    def audited_end(self) -> tuple[str, int]:
        """The id and the end offset of the last event that has a row; ("", 0) without rows."""
        query = "SELECT id, events_end FROM audit ORDER BY events_end DESC, rowid DESC LIMIT 1"
        with self._translate_errors():
            return msgspec.convert(self._rows.execute(query).fetchone() or ("", 0), tuple[str, int])

    def details(self, events: Iterable[str], trace_id: str) -> list[tuple[str, str | None, dict[str, Any]]]:
        """Event, step and details of a trace's rows of these kinds, oldest first."""
        kinds = tuple(events)
        query = (
            f"SELECT event, step, details FROM audit WHERE trace_id = ? AND event IN ({', '.join('?' * len(kinds))})"  # noqa: S608 - placeholders only
            " ORDER BY rowid"
        )
        with self._translate_errors():
            rows = self._rows.execute(query, (trace_id, *kinds)).fetchall()
            return [(str(event), step, _object(details)) for event, step, details in rows]

    def traces(self, trace_id: str) -> tuple[Trace, ...]:
        """The events of one session's steps, oldest first."""
        query = "SELECT at, event, step, id, details FROM audit WHERE trace_id = ? AND step IS NOT NULL ORDER BY rowid"
        with self._translate_errors():
            rows = self._rows.execute(query, (trace_id,)).fetchall()
            names = ("at", "event", "step", "id", "details", "trace_id")
            # The details are last: they are JSON.
            found = (zip(names, (*row[:-1], _object(row[-1]), trace_id), strict=True) for row in rows)
            return tuple(msgspec.convert(dict(each), Trace) for each in found)

    def newest_session(self) -> str | None:
        return self._query_one(_NEWEST_SESSION)

    def later_session(self, trace_id: str) -> str | None:
        return self._query_one(_LATER_SESSION, trace_id)

    def _query_one(self, query: str, *values: str) -> str | None:
        with self._translate_errors():
            row = self._rows.execute(query, values).fetchone()
        return str(row[0]) if row is not None else None

    def kind_of(self, trace_id: str) -> str | None:
        """The kind of a trace's newest session; None without a row."""
        rows = self.details(["session.start"], trace_id)
        return str(rows[-1][2].get("kind")) if rows else None

    def change_item(self, item_id: str, make: Callable[[Item | None], Item]) -> Item:
        """Store `make(item)` for this id in one transaction; `make` gets None for a new id."""
        with self._transaction():
            row = self._rows.execute("SELECT * FROM backlog WHERE id = ?", (item_id,)).fetchone()
            item = make(_item(row) if row is not None else None)
            self._rows.execute(_PUT_ITEM, _item_row(item))
        return item

    def put_items(self, items: Iterable[Item]) -> None:
        """Insert items or replace those with the same id."""
        with self._transaction():
            self._rows.executemany(_PUT_ITEM, map(_item_row, items))

    def items(self) -> list[dict[str, Any]]:
        """The whole backlog, in the order in which it was added."""
        with self._translate_errors():
            rows = self._rows.execute("SELECT * FROM backlog ORDER BY added_at, id").fetchall()
            return [_item(row) for row in rows]

    def close(self) -> None:
        self._rows.close()

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        with self._translate_errors():
            self._rows.execute("BEGIN IMMEDIATE")
            try:
                yield
                fault_point("journal.commit")
                self._rows.execute("COMMIT")
            except BaseException:
                self._rows.rollback()
                raise

    @contextmanager
    def _translate_errors(self) -> Iterator[None]:
        try:
            yield
        except (sqlite3.Error, OSError) as error:
            raise translate(error, self.path) from error
        except msgspec.DecodeError as error:
            raise StoreCorrupt(path=self.path, why="a row does not hold what Wakeful writes") from error


def _inspect(path: Path) -> None:
    """Raises GaiaForeign or StoreCorrupt for a file that SQLite must not open."""
    if path.is_symlink() or (path.exists() and not path.is_file()):
        raise GaiaForeign(path=path, why="it is not a file of its own")
    if not path.exists():
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600))
        return
    with path.open("rb") as stream:
        head = stream.read(len(_HEADER))
    if head and head != _HEADER:
        raise StoreCorrupt(path=path, why="it is not an SQLite database")


def _check(rows: sqlite3.Connection, path: Path) -> None:
    if path.stat().st_size <= CHECKED_BYTES_MAX:
        result = str(rows.execute("PRAGMA quick_check(1)").fetchone()[0])
        if result != "ok":
            raise StoreCorrupt(path=path, why=result.splitlines()[-1])


def _known_tables(rows: sqlite3.Connection, path: Path) -> bool:
    """Whether the tables exist. Raises GaiaForeign if they have other columns."""
    present = 0
    for table, columns in _TABLES.items():
        found = tuple(row[1] for row in rows.execute(f"PRAGMA table_info({table})"))
        if found and found != columns:
            raise GaiaForeign(path=path, why=f"its table {table} has other columns")
        present += bool(found)
    return present == len(_TABLES)


def _trace_row(located: LocatedTrace) -> tuple[object, ...]:
    trace = located.trace
    details = msgspec.json.encode(trace.details).decode()
    return trace.id, trace.at, trace.event, trace.trace_id, trace.step, details, located.end


def _item_row(item: Item) -> tuple[object, ...]:
    rest = {name: value for name, value in item.items() if name not in ITEM_COLUMNS}
    known = [item[name] for name in ITEM_COLUMNS[:-1]]
    # A priority may be a word or a number: JSON preserves its type.
    known[3] = msgspec.json.encode(item["priority"]).decode()
    return *known, msgspec.json.encode(rest).decode()


def _item(row: tuple[Any, ...]) -> dict[str, Any]:
    item = dict(zip(ITEM_COLUMNS, row, strict=True))
    rest = _object(item.pop("rest"))
    try:
        return validate_item({**item, "priority": _decode_column(item["priority"], Any), **rest})
    except BadItem as problem:
        raise msgspec.DecodeError(str(problem)) from problem


def _object(text: object) -> dict[str, Any]:
    found: dict[str, Any] = _decode_column(text, dict[str, Any])
    return found


def _decode_column(text: object, kind: Any) -> Any:
    """Decode a JSON column, which may also contain a number or NULL. Raises msgspec.DecodeError."""
    if not isinstance(text, str | bytes):
        raise msgspec.DecodeError("no text")
    return decode_json(text, kind)


def read_archive(path: Path) -> tuple[dict[str, dict[str, Any]], tuple[str, ...]]:
    """The newest item of each id, and the errors of lines without an item. Raises LogUnusable."""
    items: dict[str, dict[str, Any]] = {}
    wrong = []
    with translate_errors(path):
        for number, line in enumerate(read_lines(path), 1):
            try:
                item = validate_item(plain_record(line) or {})
            except BadItem as problem:
                wrong.append(f"line {number}: {problem}")
            else:
                items[item["id"]] = item
    return items, tuple(wrong)


def append_items(path: Path, items: Iterable[dict[str, Any]]) -> None:
    """Add a line for each, durably, all or none. Raises LogFull, LogBusy or LogUnusable."""
    lines = b"".join(msgspec.json.encode(item) + b"\n" for item in items)
    with translate_errors(path), lock_file(path) as file:
        is_new = os.fstat(file).st_size == 0
        append(file, lines)
        if is_new:
            sync_folder(path.parent)
