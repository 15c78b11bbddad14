"""Command `wakeful report`: what happened since a given time; `--line` prints one line for a status bar."""

import asyncio
from datetime import UTC, datetime
from typing import Final
from urllib.parse import urlencode

import click

from wakeful.cli.options import json_option
from wakeful.cli.output import print_answer, print_line, print_note, wall_now
from wakeful.client.client import DaemonAnswer, decode_body, local_answer, own_daemon
from wakeful.client.errors import DaemonNotRunning
from wakeful.core.clock import iso
from wakeful.judging.wording import format_length
from wakeful.reports.model import Report
from wakeful.reports.text import parse_moment, report_lines

# Logs and git of sixty sessions, on a machine that is busy.
REPORT_SECONDS_MAX: Final = 30.0
# A status bar does not wait longer.
LINE_SECONDS_MAX: Final = 3.0
DAEMON_OFF_LINE: Final = "not running"


@click.command(epilog="Example: wakeful report --since 22:00")
@click.option(
    "--since",
    metavar="T",
    default="12h",
    show_default=True,
    help="A time of day (22:00), a duration (12h), `today`, `yesterday`, or an ISO 8601 time.",
)
@click.option("--line", is_flag=True, help="Print one line for a status bar, without reading git or logs.")
@json_option
def report(*, since: str, line: bool, as_json: bool) -> int:
    """Report what finished, waits for you, died or was resumed, with commits, tokens and cost."""
    since_wall = parse_moment(since, wall_now())
    if line and as_json:
        raise click.UsageError("Use either --line or --json.")
    if line:
        try:
            answer = own_daemon().get(_target(since_wall, folders=False), timeout_seconds=LINE_SECONDS_MAX)
        except DaemonNotRunning as problem:
            # The line is for the status bar, the exit code for scripts.
            print_line(DAEMON_OFF_LINE)
            return problem.exit_code
        print_line(decode_body(answer.body, Report).line)
        return 0
    return print_answer(
        _fetch_or_build(since_wall),
        lambda body: report_lines(decode_body(body, Report), heading(since_wall, wall_now()), wall_now()),
        as_json=as_json,
    )


def heading(since_wall: float, now_wall: float) -> str:
    """The start of the report by this host's clock; today needs no date."""
    then, now = (datetime.fromtimestamp(wall, UTC).astimezone() for wall in (since_wall, now_wall))
    days = (now.date() - then.date()).days
    day = {0: "today", 1: "yesterday"}.get(days, f"{then:%Y-%m-%d}")
    return f"Since {day} {then:%H:%M}, {format_length(now_wall - since_wall)}"


def _fetch_or_build(since_wall: float) -> DaemonAnswer:
    try:
        return own_daemon().get(_target(since_wall, folders=True), timeout_seconds=REPORT_SECONDS_MAX)
    except DaemonNotRunning:
        answer = local_answer(_build_locally(since_wall))
        print_note("no daemon: checked once, the rest is from the store, nothing is watched")
        return answer


def _build_locally(since_wall: float) -> Report:
    from wakeful.cli.settings import load_settings  # noqa: PLC0415 - only without a daemon
    from wakeful.daemon.reports import report_once  # noqa: PLC0415 - as above

    return asyncio.run(report_once(load_settings(None).config, since_wall))


def _target(since_wall: float, *, folders: bool) -> str:
    return "/api/report?" + urlencode({"since": iso(since_wall), "folders": str(folders).lower()})
