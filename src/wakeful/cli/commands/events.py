"""Command `wakeful events`: reads, follows or archives the critical events, also without a daemon."""

import asyncio
import os
import sys
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlencode

import click
import msgspec
from msgspec import Struct

from wakeful.alerts.mute_pause_model import PauseRecord, paused_text
from wakeful.cli.format.sessions import decoded
from wakeful.cli.options import answers_json
from wakeful.cli.output import INTERRUPTED, say, show_json, wall_now
from wakeful.cli.settings import load_settings
from wakeful.client.client import Client, DaemonNotRunning
from wakeful.config.paths import Places
from wakeful.core.text import plain
from wakeful.incidents.critical_event import stamp, wall_of_stamp
from wakeful.reports.text import wall_at

LIMIT: Final = 1000
NONE: Final = "No critical event since {}."
_KEYS: Final = ("timestamp", "event", "project_key", "session_id", "reason", "action_taken", "github_issue")


class Events(Struct, frozen=True):
    """The body of /api/events."""

    path: str
    events: list[dict[str, Any]]
    left_out: int
    paused: PauseRecord | None = None


class Archived(Struct, frozen=True):
    """The body of /api/events/archive."""

    archived: int
    path: str


@click.command(epilog="Example: wakeful events --since 2h --follow")
@click.option(
    "--since", metavar="T", default="24h", show_default=True, help="How long ago, or a time in ISO 8601."
)
@click.option("--follow", is_flag=True, help="Then show each new event as it is written, until Ctrl-C.")
@click.option("--archive-before", metavar="T", help="Move older events to the gzip of their day instead.")
@answers_json
def events(*, since: str, follow: bool, archive_before: str | None, as_json: bool) -> int:
    """Show what went wrong and what was done about it, oldest first."""
    since_wall = wall_at(since, wall_now())
    if archive_before is not None:
        if follow:
            raise click.UsageError("--follow and --archive-before are two different wishes.")
        return _archive(archive_before, as_json=as_json)
    if follow:
        found = _listed(since_wall)[1]
        if not as_json:
            _say_pause(found)
        try:
            asyncio.run(_follow(Path(found.path), since_wall, as_json=as_json))
        except KeyboardInterrupt:
            # Nothing else ends it, so that this is no error.
            return INTERRUPTED
        return 0
    body, found = _listed(since_wall)
    if as_json:
        show_json(body)
    else:
        _show(found, since_wall)
    return 0


def event_line(event: dict[str, Any]) -> str:
    """One event in one line, whatever another program put into it."""
    return "  ".join(plain(str(event.get(key) or "-"), 100) for key in _KEYS)


def _show(found: Events, since_wall: float) -> None:
    _say_pause(found)
    if found.left_out:
        say(f"{found.left_out:,} older ones are not shown; the log is {found.path}")
    for event in found.events:
        say(event_line(event))
    if not found.events:
        say(NONE.format(stamp(since_wall)))


def _say_pause(found: Events) -> None:
    for line in paused_text(found.paused):
        say(line)


def _archive(before: str, *, as_json: bool) -> int:
    """By the daemon, which asks who wants it; without one, here."""
    stamped = stamp(wall_at(before, wall_now()))
    try:
        order = msgspec.json.encode({"before": stamped})
        done = decoded(Client(Places.of(os.environ)).post("/api/events/archive", order).body, Archived)
    except DaemonNotRunning:
        done = _archived_here(stamped)
    if as_json:
        show_json(msgspec.json.encode(done))
    else:
        say(f"archived {done.archived} event{'' if done.archived == 1 else 's'} in {Path(done.path).parent}")
    return 0


def _archived_here(stamped: str) -> Archived:
    from wakeful.cli.person import require_person  # noqa: PLC0415
    from wakeful.critical_events import archive_events  # noqa: PLC0415 - readers need none of it

    require_person()
    path = log_path(load_settings(None).config.events.critical_path)
    return Archived(archive_events(stamped, path=path), path)


async def _follow(path: Path, since_wall: float, *, as_json: bool) -> None:
    from wakeful.critical_events import follow_events  # noqa: PLC0415 - readers need none of it

    async for event in follow_events(path):
        wall = wall_of_stamp(str(event.get("timestamp")))
        if wall is None or wall < since_wall:
            continue
        if as_json:
            show_json(msgspec.json.encode(event))
        else:
            say(event_line(event))
        sys.stdout.flush()


def _listed(since_wall: float) -> tuple[bytes, Events]:
    """The daemon's answer; without a daemon, the same of its log as it is configured."""
    query = urlencode({"since": stamp(since_wall), "limit": LIMIT})
    try:
        body = Client(Places.of(os.environ)).get(f"/api/events?{query}").body
    except DaemonNotRunning:
        found = _read(since_wall)
        return msgspec.json.encode(found), found
    return body, decoded(body, Events)


def _read(since_wall: float) -> Events:
    from wakeful.cli import read_store as stored  # noqa: PLC0415 - as above
    from wakeful.critical_events import CriticalLog  # noqa: PLC0415 - costs nobody who has a daemon

    log = CriticalLog(Path(log_path(load_settings(None).config.events.critical_path)))
    found = log.recent(since_wall)
    return Events(str(log.path), found[-LIMIT:], max(0, len(found) - LIMIT), stored.paused())


def log_path(configured: str) -> str:
    return configured or f"{Places.of(os.environ).logs}/critical_events.jsonl"
