"""Commands `wakeful backlog …`: the backlog of a folder, in gaia.db and doc/todo-archive.ndjson."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

import click
import msgspec

from wakeful.cli.app import CommandEntry, LazyGroup
from wakeful.cli.options import Command, Number, json_option
from wakeful.cli.output import print_json, print_line, print_record
from wakeful.core.errors import OperatorError
from wakeful.core.text import plain

_MODULE: Final = "wakeful.cli.commands.backlog"
COMMANDS: Final = {
    "add": CommandEntry("Change", f"{_MODULE}:add", "Add an item"),
    "update": CommandEntry("Change", f"{_MODULE}:update", "Change fields of an item"),
    "list": CommandEntry("See", f"{_MODULE}:list_items", "List items in the order they were added"),
    "sync": CommandEntry(
        "Change", f"{_MODULE}:sync", "Merge gaia.db and the archive; --master also writes a page"
    ),
}


class BadField(OperatorError):
    """{shown!r} is not a field: write name=value."""

    code = "bad-field"


class NothingToChange(OperatorError):
    """Nothing to change: give --status, --title, --priority, --est-hours or --set name=value."""

    code = "nothing-to-change"


@click.command(cls=LazyGroup, entries=COMMANDS, epilog="Example: wakeful backlog update T-12 --status done")
def backlog() -> None:
    """Manage the open items of this project. gaia.db is authoritative; every change is also written to doc/todo-archive.ndjson."""


def root_option(command: Command) -> Command:
    return click.option(
        "--root",
        type=click.Path(path_type=Path),
        default=Path(),
        metavar="DIR",
        help="Folder of the backlog. Default: the current one.",
    )(command)


def set_option(command: Command) -> Command:
    return click.option("--set", "others", multiple=True, metavar="NAME=VALUE", help="Set any other field.")(
        command
    )


def priority_of(text: str) -> str | int:
    """The text; an integer if it is a whole number."""
    return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else text


@click.command(epilog="Example: wakeful backlog add T-12 'fix the build' --priority high --est-hours 2")
@click.argument("item_id", metavar="ID")
@click.argument("title")
@click.option("--status", default="todo", show_default=True)
@click.option("--priority", type=priority_of, required=True, metavar="P", help="A word or a number.")
@click.option("--est-hours", type=Number(0), required=True, metavar="H", help="Estimated hours.")
@click.option("--added-at", metavar="T", help="In ISO 8601. Default: now.")
@set_option
@root_option
@json_option
def add(
    *, item_id: str, added_at: str | None, others: tuple[str, ...], root: Path, as_json: bool, **known: Any
) -> int:
    """Add an item."""
    from wakeful.journal.backlog import Backlog  # noqa: PLC0415 - `--help` needs none of it

    given = {"id": item_id, **known, **_fields(others), **({"added_at": added_at} if added_at else {})}
    return _print_item(Backlog(root).add(given), as_json=as_json)


@click.command(epilog="Example: wakeful backlog update T-12 --status done")
@click.argument("item_id", metavar="ID")
@click.option("--status")
@click.option("--title")
@click.option("--priority", type=priority_of, metavar="P")
@click.option("--est-hours", type=Number(0), metavar="H")
@set_option
@root_option
@json_option
def update(*, item_id: str, others: tuple[str, ...], root: Path, as_json: bool, **known: Any) -> int:
    """Change fields of an item."""
    from wakeful.journal.backlog import Backlog  # noqa: PLC0415 - `--help` needs none of it

    fields = {name: value for name, value in known.items() if value is not None} | _fields(others)
    if not fields:
        raise NothingToChange
    return _print_item(Backlog(root).update(item_id, fields), as_json=as_json)


@click.command("list", epilog="Example: wakeful backlog list --status todo --json")
@click.option("--status", help="Only items with this status.")
@root_option
@json_option
def list_items(*, status: str | None, root: Path, as_json: bool) -> int:
    """List the backlog."""
    from wakeful.journal.backlog import Backlog  # noqa: PLC0415 - `--help` needs none of it

    items = Backlog(root).items(status)
    lines = [_line(item) for item in items] or ["The backlog is empty."]
    print_record({"items": items}, lines, as_json=as_json)
    return 0


@click.command(epilog="Example: wakeful backlog sync --master")
@click.option(
    "--prefer",
    type=click.Choice(["db", "archive"]),
    default="db",
    show_default=True,
    help="Which one wins where an item differs.",
)
@click.option("--master", is_flag=True, help="Also write MASTER_BACKLOG.md.")
@root_option
@json_option
def sync(*, prefer: str, master: bool, root: Path, as_json: bool) -> int:
    """Merge gaia.db and the archive, and list the items that differ."""
    from wakeful.journal.backlog import Backlog  # noqa: PLC0415 - `--help` needs none of it

    synced = Backlog(root).sync(prefer_archive=prefer == "archive", write_master=master)
    if as_json:
        print_json(msgspec.json.encode(synced))
        return 0
    print_line(
        f"{synced.items} items; {len(synced.imported)} imported, {len(synced.archived)} added to the archive"
    )
    for name in synced.differing:
        print_line(f"  {plain(name, 80)} differed: kept {prefer}")
    for problem in synced.left_out:
        print_line(f"  left out: {plain(problem, 200)}")
    if synced.master_path is not None:
        print_line(f"  wrote {synced.master_path}")
    return 0


def _fields(given: Iterable[str]) -> dict[str, str]:
    fields = {}
    for each in given:
        name, found, value = each.partition("=")
        if not found or not name:
            raise BadField(shown=each[:40])
        fields[name] = value
    return fields


def _print_item(item: dict[str, Any], *, as_json: bool) -> int:
    print_record(item, [_line(item)], as_json=as_json)
    return 0


def _line(item: dict[str, Any]) -> str:
    words = (item["id"], item["status"], item["priority"], f"{item['est_hours']:g} h", item["title"])
    return "  ".join(plain(str(word), 120) for word in words)
