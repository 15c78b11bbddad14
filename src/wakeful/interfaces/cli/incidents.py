"""`wakeful incidents`: troubles by their cause, many sessions together in one."""

from collections.abc import Iterator
from datetime import datetime
from typing import Final

import click
from msgspec import Struct

from wakeful.domain.plaintext import plain
from wakeful.interfaces.cli.durations import age
from wakeful.interfaces.cli.listing import decoded
from wakeful.interfaces.cli.options import answers_json
from wakeful.interfaces.cli.output import wall_now
from wakeful.interfaces.cli.work import client, shown

NONE: Final = "No incident is open. `wakeful incidents --all` lists those that are over."
NONE_EVER: Final = "No incident in the last 30 days."


class Episode(Struct, frozen=True):
    """What is shown of an incident of /api/incidents."""

    id: str
    opened_at: str
    resolved_at: str | None
    words: str
    summary: str
    did: str
    issue_url: str | None


class Episodes(Struct, frozen=True):
    incidents: list[Episode]


@click.command(epilog="Example: wakeful incidents --all --json")
@click.option("--all", "everything", is_flag=True, help="Also those that are over, for 30 days.")
@answers_json
def incidents(*, everything: bool, as_json: bool) -> int:
    """List what is wrong by its cause: an outage under twenty sessions is one incident."""
    answer = client().get("/api/incidents?all=" + ("true" if everything else "false"))
    return shown(answer, lambda body: list(incident_lines(body, wall_now(), everything)), as_json=as_json)


def incident_lines(body: bytes, now: float, everything: bool) -> Iterator[str]:
    """Each with how long it goes on, what was seen and done, and where its issue is."""
    episodes = decoded(body, Episodes).incidents
    if not episodes:
        yield NONE_EVER if everything else NONE
    for episode in episodes:
        yield plain(f"{episode.id}  {_span(episode, now)}  {episode.words}")
        did = f"did: {episode.did}" if episode.did else ""
        yield from (f"    {plain(each)}" for each in (episode.summary, did, episode.issue_url) if each)


def _span(episode: Episode, now: float) -> str:
    opened = _wall(episode.opened_at)
    if episode.resolved_at is None:
        return f"open for {age(now - opened)}"
    return f"over after {age(_wall(episode.resolved_at) - opened)}"


def _wall(stamp: str) -> float:
    return datetime.fromisoformat(stamp).timestamp()
