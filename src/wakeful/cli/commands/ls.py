"""Command `wakeful ls`: lists the sessions."""

import os
import sys
from collections.abc import Callable, Iterator
from typing import Final

import click

from wakeful.alerts.mute_pause_model import pause_lines
from wakeful.cli.format.sessions import counts_text, decode_sessions, left_out_lines, session_rows
from wakeful.cli.options import PlainChoice, json_option
from wakeful.cli.output import print_json, print_line, print_line_now, wall_now
from wakeful.cli.read import DaemonReader, SessionReader, read
from wakeful.cli.table import print_rows
from wakeful.client.client import DaemonClient, decode_body, own_daemon
from wakeful.config.paths import StatePaths
from wakeful.judging.findings import Health, State
from wakeful.judging.session_record import SessionRecord
from wakeful.judging.state_words import HEALTH_WORDS, STATE_WORDS, state_text
from wakeful.views.records import Overview, SessionList

# The daemon gives 10,000 records at once.
PAGES_MAX: Final = 100
NO_SESSIONS: Final = "No agent sessions in the last 24 hours. Start claude or codex, or try `wakeful demo`."


@click.command(epilog="Example: wakeful ls --health dead")
@click.option("--all", "everything", is_flag=True, help="Also list older sessions.")
@click.option("--project", metavar="P", help="Only sessions of this project.")
@click.option("--health", type=PlainChoice(Health, HEALTH_WORDS), help="Only sessions with this health.")
@click.option("--state", type=PlainChoice(State, STATE_WORDS), help="Only sessions in this state.")
@click.option("--watch", is_flag=True, help="Show the list again whenever a session changes.")
@json_option
def ls(
    *,
    everything: bool,
    project: str | None,
    health: str | None,
    state: str | None,
    watch: bool,
    as_json: bool,
) -> int:
    """List the sessions on this machine. Those that need you come first."""
    options = {"all": "true" if everything else None, "project": project, "health": health, "state": state}
    filters = {key: value for key, value in options.items() if value is not None}
    if watch:
        if as_json:
            raise click.UsageError("Use either --watch or --json.")
        return _watch(filters)
    if as_json:
        print_json(read(lambda reader: reader.sessions(filters)).body)
        return 0
    page, overview = read(lambda reader: (whole_list(reader, filters), reader.overview().body))
    _print_list(page, left_out_lines(overview), filtered=bool(filters))
    return 0


def _print_list(page: SessionList, last_lines: list[str], *, filtered: bool) -> None:
    for line in pause_lines(page.paused):
        print_line(line)
    # Scripts read the values of JSON, as in the table above it.
    word_of = state_text if sys.stdout.isatty() else str
    last_lines = footer(page.sessions, page.older, filtered=filtered, word_of=word_of) + last_lines
    print_rows(session_rows(page.sessions, wall_now()), last_lines)


class _LiveList:
    """The list that `ls --watch` shows."""

    def __init__(self, client: DaemonClient, filters: dict[str, str]) -> None:
        self._client = client
        self._filters = filters

    def fetch(self) -> SessionList:
        return whole_list(DaemonReader(self._client), self._filters)

    def fetch_overview(self) -> Overview:
        return decode_body(self._client.get("/api/status").body, Overview)

    def draw(self, page: SessionList, lost: str) -> None:
        """A terminal shows one list, a pipe gets one after the other."""
        sys.stdout.write("\x1b[H\x1b[2J" if sys.stdout.isatty() else "")
        _print_list(page, [lost] if lost else [], filtered=bool(self._filters))
        print_line_now("")


def _watch(filters: dict[str, str]) -> int:
    import asyncio  # noqa: PLC0415 - a tenth of the start time, for this option alone

    from wakeful.cli.watch_list import ListWatcher  # noqa: PLC0415 - a WebSocket, for this option alone

    shown = _LiveList(own_daemon(), filters)
    # Raises DaemonAway before the screen changes.
    shown.fetch_overview()
    asyncio.run(ListWatcher(StatePaths.from_environ(os.environ).socket, shown).run())
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


def footer(
    records: list[SessionRecord],
    older: int,
    *,
    filtered: bool,
    word_of: Callable[[State], str] = state_text,
) -> list[str]:
    """The last lines: counts by state, and how many sessions are folded."""
    none = "No matching sessions." if filtered else NO_SESSIONS
    folded = [f"{older:,} older: wakeful ls --all"] if older else []
    return [counts_text(records, word_of) or none, *folded]
