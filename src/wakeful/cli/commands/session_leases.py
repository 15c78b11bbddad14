"""Commands `wakeful session claim|yield`: the lease of a conversation, for tools that run it themselves."""

import click

from wakeful.cli.commands.work import (
    caller_name,
    epoch_option,
    lease_lines,
    owner_option,
    post,
    renewed_lines,
    ttl_option,
    yielded_lines,
)
from wakeful.cli.options import WholeNumber, id_argument, json_option
from wakeful.cli.output import print_answer
from wakeful.core.durations import parse_duration
from wakeful.core.ids import SessionId


@click.command(epilog="Example: wakeful session claim 3f2a91bc --owner nightly-build --json")
@id_argument
@owner_option
@ttl_option
@click.option("--epoch", type=WholeNumber(1), help="Renew the lease with this epoch instead of claiming.")
@json_option
def claim(*, session_id: SessionId, owner: str | None, ttl: str, epoch: int | None, as_json: bool) -> int:
    """Claim a conversation as its only owner, or renew the claim. Exit 1: another owner has it; prints who."""
    if epoch is not None:
        order = {"epoch": epoch, "ttl_seconds": parse_duration(ttl)}
        return print_answer(post(f"/api/sessions/{session_id}/renew", order), renewed_lines, as_json=as_json)
    claimed = {"owner": owner or caller_name(), "ttl_seconds": parse_duration(ttl)}
    return print_answer(post(f"/api/sessions/{session_id}/claim", claimed), lease_lines, as_json=as_json)


@click.command("yield", epilog="Example: wakeful session yield 3f2a91bc --epoch 4")
@id_argument
@epoch_option
@json_option
def give_back(*, session_id: SessionId, epoch: int, as_json: bool) -> int:
    """Release a claimed conversation. Exit 1: the claim was already over."""
    answer = post(f"/api/sessions/{session_id}/yield", {"epoch": epoch})
    return print_answer(answer, yielded_lines, as_json=as_json)
