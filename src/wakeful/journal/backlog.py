"""The backlog of a folder, for any program: add, change and list items, and synchronize its two files.

`gaia.db` is authoritative once it exists; `doc/todo-archive.ndjson` gets a line for every change. No daemon
is needed.
"""

import os
from collections.abc import Callable, Mapping
from contextlib import closing
from os import PathLike
from pathlib import Path
from typing import Any

from msgspec import Struct

from wakeful.core.errors import OperatorError
from wakeful.journal.backlog_items import ItemExists, ItemUnknown, master_page, validate_item
from wakeful.journal.database import Item, append_items, read_archive
from wakeful.journal.files import JournalPaths, RootFiles
from wakeful.journal.model import StateMissing, StateTorn
from wakeful.journal.state_file import replace_file

__all__ = ["Backlog", "SyncResult"]
AnyPath = str | PathLike[str]


class FolderMissing(OperatorError):
    """{shown} is not a folder."""

    code = "folder-missing"


class SyncResult(Struct, frozen=True):
    """How gaia.db and the archive differed. For `differing` gaia.db wins, unless `prefer_archive` was given."""

    items: int
    imported: tuple[str, ...]
    differing: tuple[str, ...]
    archived: tuple[str, ...]
    left_out: tuple[str, ...]
    master_path: str | None


class Backlog:
    """The backlog below one root. Methods raise what its files raise: full, busy, unusable."""

    def __init__(self, root: AnyPath) -> None:
        folder = Path(os.path.realpath(root))
        if not folder.is_dir():
            raise FolderMissing(shown=os.fspath(root))
        self._paths = JournalPaths(folder)
        self._files = RootFiles(self._paths, command="wakeful backlog")

    def add(self, item: Mapping[str, Any]) -> dict[str, Any]:
        """Add an item; `added_at` defaults to now. Raises BadItem, ItemExists."""
        added = validate_item({"added_at": self._files.now(), **item})

        def insert(found: Item | None) -> Item:
            if found is not None:
                raise ItemExists(shown=added["id"])
            return added

        return self._put(added["id"], insert)

    def update(self, item_id: str, fields: Mapping[str, Any]) -> dict[str, Any]:
        """Change fields of an item, but not its id. Raises BadItem, ItemUnknown."""

        def change(found: Item | None) -> Item:
            if found is None:
                raise ItemUnknown(shown=item_id[:40])
            return validate_item({**found, **fields, "id": found["id"]})

        return self._put(item_id, change)

    def items(self, status: str | None = None) -> list[dict[str, Any]]:
        """Every item, or those with this status, in the order in which they were added. Creates no file."""
        self._paths.check_folders()
        if os.path.lexists(self._paths.database):
            with closing(self._files):
                known = self._files.database().items()
        else:
            # There is only the archive; the first change creates the database from it.
            archive, _ = read_archive(self._paths.archive)
            known = sorted(archive.values(), key=lambda each: (each["added_at"], each["id"]))
        return [each for each in known if status in {None, each["status"]}]

    def sync(self, *, prefer_archive: bool = False, write_master: bool = False) -> SyncResult:
        """Import items that only the archive has, archive those that only gaia.db has, and report those that differ.

        A recovery.sync event and its audit row contain the counts.
        """
        with closing(self._open()):
            database = self._files.database()
            archive, left_out = read_archive(self._paths.archive)
            known = {each["id"]: each for each in database.items()}
            differing = tuple(name for name, item in archive.items() if name in known and known[name] != item)
            imported = tuple(name for name in archive if name not in known)
            missing = tuple(name for name in known if name not in archive)
            to_import = imported + (differing if prefer_archive else ())
            database.put_items(archive[name] for name in to_import)
            to_archive = missing + (() if prefer_archive else differing)
            if to_archive:
                append_items(self._paths.archive, [known[name] for name in to_archive])
            details = {
                "rows_imported": len(to_import),
                "differing": list(differing),
                "rows_archived": len(to_archive),
            }
            self._files.trace("recovery.sync", self._trace_id(), None, details)
            if write_master:
                page = master_page(database.items(), self._files.now())
                replace_file(self._paths.master, page.encode("utf-8", "replace"))
            path = str(self._paths.master) if write_master else None
            return SyncResult(len(known) + len(imported), imported, differing, missing, left_out, path)

    def _open(self) -> RootFiles:
        self._paths.create_folders()
        self._files.database()
        return self._files

    def _put(self, item_id: str, make: Callable[[Item | None], Item]) -> dict[str, Any]:
        with closing(self._open()):
            # The database first: after a crash in between, the next sync adds the line.
            item = dict(self._files.database().change_item(item_id, make))
            append_items(self._paths.archive, [item])
        return item

    def _trace_id(self) -> str:
        try:
            return self._files.read().trace_id
        except (StateMissing, StateTorn):
            return self._files.new_trace_id()
