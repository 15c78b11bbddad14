"""Command `wakeful events`: reads, follows or archives the critical events, also without a daemon."""

import asyncio
import os
import sys
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlencode

import click
import msgspec

from wakeful.alerts.mute_pause_model import pause_lines
from wakeful.cli.options import json_option
from wakeful.cli.output import INTERRUPTED_EXIT_CODE, print_json, print_line, print_record, wall_now
from wakeful.cli.settings import load_settings
from wakeful.client.client import decode_body, own_daemon
from wakeful.client.errors import DaemonNotRunning
from wakeful.config.paths import StatePaths
from wakeful.core.text import plain
from wakeful.incidents.critical_event import stamp, wall_of_stamp
from wakeful.reports.text import parse_moment
from wakeful.views.records import ArchiveAnswer, CriticalEventList

EVENTS_SHOWN_MAX: Final = 1000
NO_EVENTS: Final = "No critical events since {}."
_KEYS: Final = ("timestamp", "event", "project_key", "session_id", "reason", "action_taken", "github_issue")


@click.command(epilog="Example: wakeful events --since 2h --follow")
@click.option(
    "--since", metavar="T", default="24h", show_default=True, help="How long ago (2h), or an ISO 8601 time."
)
@click.option("--follow", is_flag=True, help="Keep showing new events until Ctrl-C.")
@click.option("--archive-before", metavar="T", help="Move older events to one gzip file per day.")
@json_option
def events(*, since: str, follow: bool, archive_before: str | None, as_json: bool) -> int:
    """List critical events and what was done about them, oldest first."""
    since_wall = parse_moment(since, wall_now())
    if archive_before is not None:
        if follow:
            raise click.UsageError("Use either --follow or --archive-before.")
        return _archive(archive_before, as_json=as_json)
    if follow:
        found = _fetch_or_read_events(since_wall)[1]
        if not as_json:
            _print_pause(found)
        try:
            asyncio.run(_follow(Path(found.path), since_wall, as_json=as_json))
        except KeyboardInterrupt:
            # Only a signal ends it, so this is no error.
            return INTERRUPTED_EXIT_CODE
        return 0
    body, found = _fetch_or_read_events(since_wall)
    if as_json:
        print_json(body)
    else:
        _print_pause(found)
        if found.left_out:
            print_line(f"{found.left_out:,} older ones are not shown; the log is {found.path}")
        for event in found.events:
            print_line(event_line(event))
        if not found.events:
            print_line(NO_EVENTS.format(stamp(since_wall)))
    return 0


def event_line(event: dict[str, Any]) -> str:
    """One event in one line, plain whatever another program wrote."""
    return "  ".join(plain(str(event.get(key) or "-"), 100) for key in _KEYS)


def _print_pause(found: CriticalEventList) -> None:
    for line in pause_lines(found.paused):
        print_line(line)


def _archive(before: str, *, as_json: bool) -> int:
    """By the daemon, which checks the caller; without a daemon, by this process."""
    stamped = stamp(parse_moment(before, wall_now()))
    try:
        order = msgspec.json.encode({"before": stamped})
        done = decode_body(
            own_daemon().post("/api/events/archive", order).body,
            ArchiveAnswer,
        )
    except DaemonNotRunning:
        from wakeful.cli.person import require_person  # noqa: PLC0415
        from wakeful.critical_events import archive_events  # noqa: PLC0415 - reading needs none of it

        require_person()
        path = log_path(load_settings(None).config.events.critical_path)
        done = ArchiveAnswer(archive_events(stamped, path=path), path)
    events_text = f"{done.archived} event{'' if done.archived == 1 else 's'}"
    print_record(done, [f"archived {events_text} in {Path(done.path).parent}"], as_json=as_json)
    return 0


async def _follow(path: Path, since_wall: float, *, as_json: bool) -> None:
    from wakeful.critical_events import follow_events  # noqa: PLC0415 - reading needs none of it

    async for event in follow_events(path):
        wall = wall_of_stamp(str(event.get("timestamp")))
        if wall is None or wall < since_wall:
            continue
        print_record(event, [event_line(event)], as_json=as_json)
        sys.stdout.flush()


def _fetch_or_read_events(since_wall: float) -> tuple[bytes, CriticalEventList]:
    """The daemon's answer; without a daemon, the same from the configured log."""
    query = urlencode({"since": stamp(since_wall), "limit": EVENTS_SHOWN_MAX})
    try:
        body = own_daemon().get(f"/api/events?{query}").body
    except DaemonNotRunning:
        found = _read_log(since_wall)
        return msgspec.json.encode(found), found
    return body, decode_body(body, CriticalEventList)


def _read_log(since_wall: float) -> CriticalEventList:
    from wakeful.cli import read_store as stored  # noqa: PLC0415 - as above
    from wakeful.critical_events import CriticalLog  # noqa: PLC0415 - only without a daemon

    log = CriticalLog(Path(log_path(load_settings(None).config.events.critical_path)))
    found = log.recent(since_wall)
    return CriticalEventList(
        str(log.path),
        found[-EVENTS_SHOWN_MAX:],
        max(0, len(found) - EVENTS_SHOWN_MAX),
        stored.pause_in_store(),
    )


def log_path(configured: str) -> str:
    return configured or f"{StatePaths.from_environ(os.environ).logs}/critical_events.jsonl"
