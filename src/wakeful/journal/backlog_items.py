"""Backlog items: required fields, validation, and the Markdown page for people. Pure."""

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, Final

from wakeful.core.errors import OperatorError
from wakeful.core.text import plain

REQUIRED: Final = ("id", "title", "status", "priority", "est_hours", "added_at")
# More than a million hours is a mistake.
_HOURS_MAX: Final = 1_000_000.0
_TEXT_CHARS_MAX: Final = 2000


class BadItem(OperatorError):
    """An item of the backlog needs {field}: {wanted}."""

    code = "bad-backlog-item"


class ItemUnknown(OperatorError):
    """No backlog item {shown!r}. List them with `wakeful backlog list`."""

    code = "backlog-item-unknown"
    http_status = 404


class ItemExists(OperatorError):
    """Backlog item {shown!r} already exists. Change it with `wakeful backlog update`."""

    code = "backlog-item-exists"
    http_status = 409


def validate_item(item: Mapping[str, Any]) -> dict[str, Any]:
    """The item with the required fields first, in their order, then its other fields. Raises BadItem."""
    for field in ("id", "title", "status"):
        text = item.get(field)
        if not isinstance(text, str) or not text.strip() or len(text) > _TEXT_CHARS_MAX:
            raise BadItem(field=field, wanted=f"a text of at most {_TEXT_CHARS_MAX} characters")
    priority = item.get("priority")
    if isinstance(priority, bool) or not isinstance(priority, str | int | float) or priority == "":
        raise BadItem(field="priority", wanted="a word or a number")
    hours = item.get("est_hours")
    if isinstance(hours, bool) or not isinstance(hours, int | float) or not 0 <= hours <= _HOURS_MAX:
        raise BadItem(field="est_hours", wanted="a number of hours, 0 or more")
    if not _is_time(item.get("added_at")):
        raise BadItem(field="added_at", wanted="a time in ISO 8601")
    known = {field: item[field] for field in REQUIRED}
    rest = {str(name): value for name, value in item.items() if name not in REQUIRED}
    return {**known, "est_hours": float(hours), **rest}


def master_page(items: Iterable[Mapping[str, Any]], at: str) -> str:
    """MASTER_BACKLOG.md: the backlog for people, by status."""
    by_status: dict[str, list[Mapping[str, Any]]] = {}
    for item in items:
        by_status.setdefault(str(item["status"]), []).append(item)
    lines = [
        "# Backlog",
        "",
        f"Written {at} by `wakeful backlog sync --master` from gaia.db; changes belong there.",
    ]
    for status, rows in sorted(by_status.items()):
        lines += ["", f"## {_cell(status)} ({len(rows)})", ""]
        lines += ["| id | title | priority | hours | added |", "|---|---|---|---|---|"]
        lines += [_row(item) for item in rows]
    return "\n".join([*lines, ""])


def _row(item: Mapping[str, Any]) -> str:
    cells = (item["id"], item["title"], item["priority"], f"{item['est_hours']:g}", item["added_at"])
    return f"| {' | '.join(_cell(str(cell)) for cell in cells)} |"


def _cell(text: str) -> str:
    """Escape untrusted text for a Markdown cell: no new cell, no markup, no remote picture."""
    shown = plain(text, 200).replace("\\", "\\\\")
    for mark in "|`*<&[":
        shown = shown.replace(mark, f"\\{mark}")
    return shown


def _is_time(value: object) -> bool:
    if not isinstance(value, str):
        return False
    try:
        datetime.fromisoformat(value)
    except ValueError:
        return False
    return True
