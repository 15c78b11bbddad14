"""Command `wakeful logs`: the conversation of a session, once or live.

With `-f` the daemon's push feed says when there is more to read, and only what is new is read.
"""

import asyncio
import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from shlex import quote
from typing import TYPE_CHECKING, Final

import click
import msgspec

from wakeful.cli.format.sessions import activity_text, needs_you
from wakeful.cli.options import WholeNumber, json_option, session_argument
from wakeful.cli.output import INTERRUPTED_EXIT_CODE, print_json, print_note, wall_now
from wakeful.cli.read import DaemonReader, SessionReader, read
from wakeful.client.client import decode_body, own_daemon
from wakeful.config.paths import StatePaths
from wakeful.core.clock import iso
from wakeful.core.errors import OperatorError, SessionNotFound
from wakeful.core.ids import SessionId
from wakeful.core.text import plain
from wakeful.judging.findings import State, WaitKind
from wakeful.judging.session_record import SessionRecord
from wakeful.judging.state_words import state_text
from wakeful.views.records import ConversationPart, MessageRecord

if TYPE_CHECKING:
    from wakeful.cli.format.conversation import ConversationLayout

# The most that the daemon gives.
MESSAGES_MAX: Final = 500
READ_SECONDS_MAX: Final = 10.0
# A log grows in bursts: after a change more is about to follow, and one request reads it.
BURST_SECONDS: Final = 0.05


class NoLog(OperatorError):
    """{shown} has no log: nothing was written yet, or the log was deleted."""

    code = "no-log"
    exit_code = 1


@click.command(epilog="Example: wakeful logs docs -f")
@session_argument
@click.option("-f", "--follow", is_flag=True, help="Keep showing new messages until Ctrl-C.")
@click.option(
    "-n",
    "--last",
    "count",
    metavar="N",
    type=WholeNumber(0, MESSAGES_MAX),
    help=f"Only the last N messages and calls, at most {MESSAGES_MAX}.  [default: 50]",
)
@click.option(
    "--since", metavar="T", help="Only since a time of day (22:00), a duration (2h), or an ISO 8601 time."
)
@json_option
def logs(*, session_id: SessionId, follow: bool, count: int | None, since: str | None, as_json: bool) -> int:
    """Show the conversation of a session: who said what and when, and calls with their results.

    Secrets are removed. With --json: one object per line; a call appears again when it has ended.
    """
    since_wall = 0.0
    if since is not None:
        from wakeful.reports.text import parse_moment  # noqa: PLC0415 - for this option alone

        since_wall = parse_moment(since, wall_now())
    shown_max = count if count is not None else MESSAGES_MAX if since is not None else 50
    # One more says whether there are earlier ones.
    limit = MESSAGES_MAX if since is not None else min(shown_max + 1, MESSAGES_MAX)

    def ask(reader: SessionReader) -> tuple[SessionRecord, ConversationPart]:
        record = decode_body(reader.view("status", session_id).body, SessionRecord)
        return record, decode_body(reader.messages(record.id, limit).body, ConversationPart)

    record, part = ask(DaemonReader(own_daemon())) if follow else read(ask)
    printer = ConversationPrinter(record, as_json=as_json)
    if not part.cursor:
        if not follow:
            raise NoLog(shown=printer.name)
        print_note(f"{printer.name} has no log yet")
    recent = [each for each in part.messages if not since_wall or each.at >= iso(since_wall)]
    if len(recent) > shown_max > 0:
        printer.print_earlier()
    printer.print_messages(recent[max(0, len(recent) - shown_max) :])
    if not follow:
        return 0
    with suppress(KeyboardInterrupt):
        asyncio.run(_follow(record.id, part, printer))
    # Only a signal ends it, so this is no error.
    return INTERRUPTED_EXIT_CODE


class ConversationPrinter:
    """Prints messages as lines, or as one JSON object per line."""

    def __init__(self, record: SessionRecord, *, as_json: bool) -> None:
        self.name = plain(record.short_name) or str(record.id)
        self._agent, self._is_alive = record.provider, record.session_alive
        self._as_json = as_json
        self._day = ""
        self._alert = _alert(record)
        if not as_json:
            from wakeful.cli.format.explanation import line_printer  # noqa: PLC0415 - not for JSON

            self._print_line = line_printer()

    def print_messages(self, messages: Sequence[MessageRecord]) -> None:
        if self._as_json:
            for message in messages:
                print_json(msgspec.json.encode(message))
        elif messages:
            from wakeful.cli.format.conversation import conversation_lines, day_of  # noqa: PLC0415

            for line in conversation_lines(messages, self._layout(), self._day):
                self._print_line(line)
            self._day = day_of(messages[-1].at) or self._day
        sys.stdout.flush()

    def print_earlier(self) -> None:
        """On a terminal: that there are earlier messages."""
        if not self._as_json and sys.stdout.isatty():
            self._print_line(
                ((f"earlier messages: wakeful logs {quote(self.name)} -n {MESSAGES_MAX}", "quiet"),)
            )

    def print_state(self, record: SessionRecord) -> None:
        """That the session needs you, or has ended, when that begins; and each new question."""
        self._is_alive = record.session_alive
        before, self._alert = self._alert, _alert(record)
        if self._as_json or self._alert in {before, None}:
            return
        from wakeful.cli.format.conversation import note_line  # noqa: PLC0415 - not for JSON

        words = " · ".join(each for each in (state_text(record.state), activity_text(record)) if each)
        style = "needs-you" if needs_you(record) else "quiet"
        self._print_line(note_line(record.updated_at, words, style, self._layout()))
        sys.stdout.flush()

    def _layout(self) -> "ConversationLayout":
        from wakeful.cli.format.conversation import ASCII_MARKS, ConversationLayout  # noqa: PLC0415

        is_ascii = not _can_show("".join(ASCII_MARKS))
        return ConversationLayout(self._agent, _terminal_cells(), is_alive=self._is_alive, is_ascii=is_ascii)


def _alert(record: SessionRecord) -> tuple[State, str] | None:
    """The state that a person should know, with the open question."""
    if not needs_you(record) and record.state is not State.STOPPED:
        return None
    questions = (wait.untrusted for wait in record.expected_waits if wait.kind is WaitKind.PERSON)
    return record.state, next(questions, "")


def _terminal_cells() -> int | None:
    """The width of the terminal, which may change; None in a pipe."""
    if not sys.stdout.isatty():
        return None
    from shutil import get_terminal_size  # noqa: PLC0415 - for terminals alone

    return get_terminal_size().columns


def _can_show(marks: str) -> bool:
    try:
        marks.encode(sys.stdout.encoding or "utf-8")
    except UnicodeEncodeError:
        return False
    return True


async def _follow(session_id: SessionId, part: ConversationPart, printer: ConversationPrinter) -> None:
    """Print what is new, until cancelled. Raises the errors of the daemon, except that it is away."""
    from wakeful.client.async_client import AsyncDaemonClient  # noqa: PLC0415 - for this option alone
    from wakeful.client.conversation import join_messages  # noqa: PLC0415 - as above
    from wakeful.client.errors import DaemonAway, RequestRefused  # noqa: PLC0415 - as above
    from wakeful.client.feed import follow_session  # noqa: PLC0415 - as above

    socket = StatePaths.from_environ(os.environ).socket
    client, changes = AsyncDaemonClient(socket), _Changes()
    listening = asyncio.create_task(follow_session(socket, session_id, changes.on_change, changes.on_lost))
    known, cursor, has_log = part.messages, part.cursor, bool(part.cursor)
    try:
        while True:
            record = await changes.next()
            one = f"/api/sessions/{session_id}"
            target = f"{one}/messages?limit={MESSAGES_MAX}&after={cursor}"
            try:
                part = decode_body(await client.get(target, READ_SECONDS_MAX), ConversationPart)
                if record is None:
                    # What changed before the connection is not pushed.
                    record = decode_body(await client.get(f"{one}/status", READ_SECONDS_MAX), SessionRecord)
            except DaemonAway:
                # The next connection is a change.
                changes.keep(record)
                continue
            except RequestRefused as refused:
                if refused.reason == SessionNotFound.code:
                    raise NoLog(shown=printer.name) from refused
                raise
            if has_log and not part.cursor:
                print_note("its log is gone")
            has_log = bool(part.cursor)
            joined, before = join_messages(known, part, MESSAGES_MAX), set(known)
            newest = known[-1].at if known and not part.continued else ""
            printer.print_messages([each for each in joined if each not in before and each.at >= newest])
            known, cursor = joined, part.cursor
            printer.print_state(record)
    finally:
        listening.cancel()
        await asyncio.gather(listening, return_exceptions=True)


class _Changes:
    """Changes of a session since they were last waited for, as one."""

    def __init__(self) -> None:
        self._event = asyncio.Event()
        self._record: SessionRecord | None = None
        self._is_lost = False

    def on_change(self, record: SessionRecord | None) -> None:
        self._record = record or self._record
        self._is_lost = False
        self._event.set()

    def keep(self, record: SessionRecord | None) -> None:
        """A record that was not used, unless there is a newer one."""
        self._record = self._record or record

    def on_lost(self) -> None:
        if not self._is_lost:
            self._is_lost = True
            print_note("connection lost; waiting for the daemon")

    async def next(self) -> SessionRecord | None:
        """The newest record, once there was a change."""
        await self._event.wait()
        await asyncio.sleep(BURST_SECONDS)
        self._event.clear()
        record, self._record = self._record, None
        return record
