"""The backlog's archive on the disk: `doc/todo-archive.ndjson`, one line each time an item changes, the newest one wins.

Its fields are checked in `domain/backlog`. Lines that hold no item are counted and passed over, never taken away.
"""

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec

from wakeful.incidents.whole_lines import append, explained, locked, read_lines, sync_folder
from wakeful.journal.backlog_items import BadItem, checked
from wakeful.sources.shapes import plain_record


def read_archive(path: Path) -> tuple[dict[str, dict[str, Any]], tuple[str, ...]]:
    """The newest item of each id, and what is wrong with lines that hold none. Raises LogUnusable."""
    items: dict[str, dict[str, Any]] = {}
    wrong = []
    with explained(path):
        for number, line in enumerate(read_lines(path), 1):
            try:
                item = checked(plain_record(line) or {})
            except BadItem as problem:
                wrong.append(f"line {number}: {problem}")
            else:
                items[item["id"]] = item
    return items, tuple(wrong)


def append_items(path: Path, items: Iterable[dict[str, Any]]) -> None:
    """Add a line for each, all or none, durably. Raises LogFull, LogBusy or LogUnusable."""
    lines = b"".join(msgspec.json.encode(item) + b"\n" for item in items)
    with explained(path), locked(path) as file:
        is_new = os.fstat(file).st_size == 0
        append(file, lines)
        if is_new:
            sync_folder(path.parent)
