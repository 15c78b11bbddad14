"""`wakeful session repair`: what is stored of a session, compared with what is there, and mended."""

from typing import Any

import click
from msgspec import Struct

from wakeful.cli.commands.session_acts import order
from wakeful.cli.format.listing import decoded
from wakeful.cli.format.reading_text import scalar
from wakeful.cli.options import answers_json, session_argument
from wakeful.cli.output import say, show_json
from wakeful.core.ids import SessionId


class Change(Struct, frozen=True):
    field: str
    old: Any
    new: Any


class Repaired(Struct, frozen=True):
    """The daemon's answer."""

    session_id: SessionId
    dry_run: bool
    changes: list[Change]
    words: str


@click.command(epilog="Example: wakeful session repair 3f2a91bc --dry-run")
@session_argument
@click.option("--dry-run", is_flag=True, help="Only say what would be mended.")
@answers_json
def repair(*, session_id: SessionId, dry_run: bool, as_json: bool) -> int:
    """Mend what is stored of a session after an unclean exit. What would be mended is shown first."""
    if as_json:
        answer = order(session_id, "repair", {"dry_run": dry_run})
        show_json(answer.body)
        return answer.exit_code
    looked = decoded(order(session_id, "repair", {"dry_run": True}).body, Repaired)
    for change in looked.changes:
        say(f"{change.field}: {scalar(change.old)} -> {scalar(change.new)}")
    if dry_run or not looked.changes:
        say(f"{looked.session_id}: {looked.words}")
        return 0
    done = decoded(order(session_id, "repair", {"dry_run": False}).body, Repaired)
    say(f"{done.session_id}: {done.words}")
    return 0
