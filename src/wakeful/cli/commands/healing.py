"""Commands `wakeful session revive` and `wakeful restore`: bring sessions back because a person asks."""

from typing import Any, Final

import click
import msgspec

from wakeful.cli.commands.mute import operator_name
from wakeful.cli.commands.session_control import ACTION_SECONDS_MAX, action_text, post_action, print_action
from wakeful.cli.format.sessions import paused_lines
from wakeful.cli.options import acted_session_argument, json_option
from wakeful.cli.output import print_json, print_line, print_note
from wakeful.client.client import DaemonClient, own_daemon
from wakeful.core.decoding import decode_json
from wakeful.core.errors import WakefulError
from wakeful.core.ids import SessionId

# Sessions are brought back one by one, so the last one waits.
RESTORE_SECONDS_MAX: Final = 600.0


@click.command(epilog="Example: wakeful session revive 3f2a91bc --yes")
@acted_session_argument
@click.option("--yes", "approved", is_flag=True, help="I checked the interrupted calls: resume it.")
@json_option
def revive(*, session_id: SessionId, approved: bool, as_json: bool) -> int:
    """Resume a managed session now, even if Wakeful gave up or waits for your decision."""
    return print_action(
        post_action(session_id, "revive", {"approved": approved, "by": operator_name()}), as_json=as_json
    )


@click.command(epilog="Example: wakeful restore --dry-run")
@click.option("--dry-run", is_flag=True, help="Show what would be resumed without resuming it.")
@json_option
def restore(*, dry_run: bool, as_json: bool) -> int:
    """Resume all sessions that a reboot or a dead tmux server ended, with name, folder and conversation.

    Skips live sessions and those that need your decision. Resumed sessions are managed.
    """
    client = own_daemon()
    answer = client.get("/api/lost")
    found = decode_json(answer.body)
    lost = found["lost"]
    if not as_json:
        for line in paused_lines(answer.body):
            print_line(line)
    outcomes = [
        each if dry_run or each["skipped"] else _restore_one(client, each, quiet=as_json) for each in lost
    ]
    if as_json:
        print_json(msgspec.json.encode({"lost": outcomes, "dry_run": dry_run, "paused": found["paused"]}))
    else:
        _print_outcomes(outcomes)
    return 0 if all(each.get("outcome", "recovered") == "recovered" for each in outcomes) else 1


def _print_outcomes(outcomes: list[dict[str, Any]]) -> None:
    """Sessions that were skipped, or that a dry run would bring back."""
    if not outcomes:
        print_line("nothing to resume: no session ended with a reboot or a tmux server")
    for each in outcomes:
        if each["skipped"]:
            print_line(_line(each, f"skipped: {each['skipped']}"))
        elif "outcome" not in each:
            print_line(_line(each, f"would be resumed: {each['because']}"))


def _restore_one(client: DaemonClient, lost: dict[str, Any], *, quiet: bool) -> dict[str, Any]:
    if not quiet:
        print_note(f"resuming {lost['name']} …")
    try:
        answer = client.post(
            f"/api/sessions/{lost['session_id']}/restore",
            b"{}",
            timeout_seconds=RESTORE_SECONDS_MAX + ACTION_SECONDS_MAX,
        )
    except WakefulError as error:
        # A session that cannot be brought back does not stop the others.
        outcome, words = "declined", str(error)
    else:
        action = decode_json(answer.body)
        outcome, words = action["outcome"], action["words"]
    done = {**lost, "outcome": outcome, "words": words}
    if not quiet:
        print_line(_line(done, action_text("resume", outcome, words)))
    return done


def _line(lost: dict[str, Any], what: str) -> str:
    return f"{lost['name']}  {lost['cwd']}  {what}"
