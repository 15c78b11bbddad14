"""Command `wakeful incidents`: lists problems by their cause, with many sessions in one incident."""

from collections.abc import Iterator
from datetime import datetime
from typing import Final

import click

from wakeful.alerts.model import format_time
from wakeful.cli import read_store as stored
from wakeful.cli.commands.work import print_list
from wakeful.cli.options import json_option
from wakeful.cli.output import wall_now
from wakeful.client.client import decode_body
from wakeful.core.durations import age
from wakeful.core.text import plain
from wakeful.views.incidents import IncidentList, IncidentRecord

NO_OPEN_INCIDENTS: Final = "No incident is open. Resolved ones: `wakeful incidents --all`"
# Of an outage with hundreds of sessions the first ones are enough.
MEMBERS_SHOWN_MAX: Final = 10
NO_INCIDENTS: Final = "No incidents in the last 30 days."


@click.command(epilog="Example: wakeful incidents --all --json")
@click.option("--all", "everything", is_flag=True, help="Also show incidents resolved in the last 30 days.")
@json_option
def incidents(*, everything: bool, as_json: bool) -> int:
    """List problems grouped by cause: an outage that affects twenty sessions is one incident."""
    target = "/api/incidents?all=" + ("true" if everything else "false")
    answer = stored.daemon_or_store(target, lambda: stored.stored_incidents(everything))
    return print_list(answer, lambda body: incident_lines(body, wall_now(), everything), as_json=as_json)


def incident_lines(body: bytes, now: float, everything: bool) -> Iterator[str]:
    """Each with its time, cause, sessions and issue."""
    episodes = decode_body(body, IncidentList).incidents
    if not episodes:
        yield NO_INCIDENTS if everything else NO_OPEN_INCIDENTS
    for episode in episodes:
        yield f"{_span(episode, now)}  {plain(episode.words)}"
        yield from (f"    {plain(each)}" for each in incident_details(episode))


def incident_details(episode: IncidentRecord) -> Iterator[str]:
    """What became of each session in it, and where its issue is."""
    # Sessions that are still affected come first.
    ordered = sorted(episode.members, key=lambda each: each.left_at is not None)
    if len(ordered) == 1:
        yield ordered[0].words
    else:
        yield from (f"{each.name}: {each.words}" for each in ordered[:MEMBERS_SHOWN_MAX])
        if len(ordered) > MEMBERS_SHOWN_MAX:
            yield f"and {len(ordered) - MEMBERS_SHOWN_MAX} more: use --json for all"
    if not ordered and episode.did:
        yield episode.did
    if episode.issue_url:
        yield episode.issue_url


def _span(episode: IncidentRecord, now: float) -> str:
    opened, began = _wall(episode.opened_at), format_time(episode.opened_at)
    if episode.resolved_at is None:
        return f"OPEN  since {began}, for {age(now - opened)}"
    return f"resolved  from {began}, for {age(_wall(episode.resolved_at) - opened)}"


def _wall(stamp: str) -> float:
    return datetime.fromisoformat(stamp).timestamp()
