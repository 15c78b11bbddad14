"""The SQL of this adapter, read from its files: named queries and numbered migrations. No SQL is built here."""

import re
import sqlite3
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from msgspec import Struct

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
