"""Command `wakeful ls`: lists the sessions."""

from collections.abc import Iterator
from typing import Final

import click

from wakeful.alerts.mute_pause_model import pause_lines
from wakeful.cli.format.sessions import counts_text, decode_sessions, left_out_lines, session_rows
from wakeful.cli.options import json_option
from wakeful.cli.output import print_json, print_line, wall_now
from wakeful.cli.read import SessionReader, read
from wakeful.cli.table import print_rows
from wakeful.judging.findings import Health, State
from wakeful.judging.session_record import SessionRecord
from wakeful.views.records import SessionList

# The daemon gives 10,000 records at once.
PAGES_MAX: Final = 100
NO_SESSIONS: Final = "No agent sessions in the last 24 hours. Start claude or codex, or try `wakeful demo`."


@click.command(epilog="Example: wakeful ls --health dead")
@click.option("--all", "everything", is_flag=True, help="Also list older sessions.")
@click.option("--project", metavar="P", help="Only sessions of this project.")
@click.option(
    "--health", type=click.Choice([each.value for each in Health]), help="Only sessions with this health."
)
@click.option(
    "--state", type=click.Choice([each.value for each in State]), help="Only sessions in this state."
)
@json_option
def ls(*, everything: bool, project: str | None, health: str | None, state: str | None, as_json: bool) -> int:
    """List the sessions on this machine. Those that need you come first."""
    options = {"all": "true" if everything else None, "project": project, "health": health, "state": state}
    filters = {key: value for key, value in options.items() if value is not None}
    if as_json:
        print_json(read(lambda reader: reader.sessions(filters)).body)
        return 0
    page, overview = read(lambda reader: (whole_list(reader, filters), reader.overview().body))
    for line in pause_lines(page.paused):
        print_line(line)
    last_lines = footer(page.sessions, page.older, filtered=bool(filters)) + left_out_lines(overview)
    print_rows(session_rows(page.sessions, wall_now()), last_lines)
    return 0


def whole_list(reader: SessionReader, filters: dict[str, str]) -> SessionList:
    """Every page of the list as one."""
    pages = list(_pages(reader, filters))
    records = [record for page in pages for record in page.sessions]
    older = 0 if "all" in filters else sum(page.older for page in pages)
    return SessionList(records, older, None, pages[0].paused)


def _pages(reader: SessionReader, filters: dict[str, str]) -> Iterator[SessionList]:
    for _ in range(PAGES_MAX):
        page = decode_sessions(reader.sessions(filters).body)
        yield page
        if page.next_cursor is None:
            return
        filters = {**filters, "cursor": page.next_cursor}


def footer(records: list[SessionRecord], older: int, *, filtered: bool) -> list[str]:
    """The last lines: counts by state, and how many sessions are folded."""
    none = "No matching sessions." if filtered else NO_SESSIONS
    folded = [f"{older:,} older: wakeful ls --all"] if older else []
    return [counts_text(records) or none, *folded]
