"""Answers about work and leases as text for people. Prompts and results are others' words: made plain, kept short."""

from typing import Any, Final

from wakeful.core.decoding import decode_json
from wakeful.core.text import plain

SUMMARY_CHARS_MAX: Final = 60
_HEADERS: Final = ("ID", "STATE", "TRIED", "PROJECT", "SESSION", "PROMPT")


def work_lines(body: bytes) -> list[str]:
    """Where a work stands, in one line."""
    work = _fields(body)
    tried = f"{work['attempts']} of {work['attempts_max']} attempts made"
    return [plain(f"{work['id']} is {work['state']}, {tried}")]


def list_lines(body: bytes) -> list[str]:
    """A table of works, and how to go on."""
    page = _fields(body)
    if not page["works"]:
        return ["no work"]
    rows = [_HEADERS, *map(_cells, page["works"])]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
    ]
    more = page["next_cursor"]
    return lines if more is None else [*lines, f"more: --after {more}"]


def run_lines(body: bytes) -> list[str]:
    """What to do and how to say that it is done."""
    run = _fields(body)["run"]
    if run is None:
        return ["no work is due"]
    return [
        plain(f"{run['work_id']} is yours until {run['lease_until']}, epoch {run['epoch']}"),
        plain(f"session: {run['session_id'] or '-'}"),
        plain(f"prompt: {run['prompt']}"),
        f"then: wakeful work complete {plain(run['work_id'])} --epoch {run['epoch']}",
    ]


def renewed_lines(body: bytes) -> list[str]:
    """Until when a lease goes on."""
    lease = _fields(body)
    return [plain(f"yours until {lease['lease_until']}, epoch {lease['epoch']}")]


def lease_lines(body: bytes) -> list[str]:
    """What was taken, and how to keep it and give it back."""
    lease = _fields(body)
    id_, epoch = plain(lease["session_id"]), lease["epoch"]
    return [
        plain(f"{id_} is yours until {lease['lease_until']}, epoch {epoch}"),
        f"keep it: wakeful session claim {id_} --epoch {epoch}",
        f"give it back: wakeful session yield {id_} --epoch {epoch}",
    ]


def yielded_lines(body: bytes) -> list[str]:
    """What is free again."""
    return [plain(f"{_fields(body)['session_id']} is free")]


def _fields(body: bytes) -> dict[str, Any]:
    return decode_json(body, dict[str, Any])


def _cells(work: dict[str, Any]) -> tuple[str, ...]:
    tried = f"{work['attempts']}/{work['attempts_max']}"
    cells = (work["id"], work["state"], tried, work["project"] or "-", work["session_id"] or "-")
    return (*map(plain, cells), plain(work["summary"], SUMMARY_CHARS_MAX))
