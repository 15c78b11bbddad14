"""Runs `wakeful demo`: six scripted agents, a real daemon, and its changing verdicts, for a minute.

The demo is a client like any other: it receives changes over the daemon's WebSocket. Signals only ask it to
end and never interrupt it, so that everything it started is ended in every case.
"""

import signal
import socket
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from wakeful.cli.demo.environment import DemoEnvironment
from wakeful.cli.demo.screen import DemoScreen, DemoTable, TerminalKeys, open_screen, terminal_keys
from wakeful.cli.demo.scripts import ANSWER_AT_SECONDS, FULL_SECONDS, SILENCE_SECONDS, demo_agents
from wakeful.cli.format.sessions import decode_sessions
from wakeful.cli.output import print_line
from wakeful.client.client import DaemonClient, decode_body
from wakeful.core.errors import WorldError
from wakeful.judging.findings import State
from wakeful.judging.session_record import SessionRecord
from wakeful.judging.state_words import health_text
from wakeful.views.records import FEED_URL, FeedMessage

if TYPE_CHECKING:
    from websockets.sync.client import ClientConnection

TICK_SECONDS: Final = 0.25
_ASKING_AGENT: Final = "asks-you"
_NEXT_STEPS: Final = (
    "Now your own agents:",
    "  wakeful up    start the daemon, until Ctrl-C",
    "  wakeful ls    list your sessions and their state",
)


class DaemonLost(WorldError):
    """The demo's daemon stopped unexpectedly."""

    code = "demo-daemon-lost"


class StopSignal:
    """Remembers the first signal that asked the demo to end."""

    def __init__(self) -> None:
        self.signal: int | None = None

    def __call__(self, number: int, _frame: FrameType | None) -> None:
        self.signal = self.signal or number

    @property
    def is_set(self) -> bool:
        return self.signal is not None

    @property
    def exit_code(self) -> int:
        """0 after Ctrl-C, which is one way to end the demo; other signals give their code."""
        return 0 if self.signal in {None, signal.SIGINT} else 128 + (self.signal or 0)


def run_demo(seconds: float | None = None) -> int:
    """Play the demo in so many seconds, a minute if none are given; the exit code. Leaves nothing behind."""
    length_seconds = FULL_SECONDS if seconds is None else seconds
    with _catch_signals() as ending:
        environment = DemoEnvironment(length_seconds / FULL_SECONDS)
        try:
            shown = _play(environment, length_seconds, ending)
        finally:
            environment.close()
        _print_summary(environment, shown)
    return ending.exit_code


@contextmanager
def _catch_signals() -> Iterator[StopSignal]:
    ending = StopSignal()
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = [signal.signal(number, ending) for number in numbers]
    try:
        yield ending
    finally:
        for number, handler in zip(numbers, before, strict=True):
            signal.signal(number, handler)


def _play(environment: DemoEnvironment, length_seconds: float, ending: StopSignal) -> DemoTable:
    """Start everything, then watch until the time is up or a signal arrives."""
    pace = length_seconds / FULL_SECONDS
    _print_progress(
        f"The demo does not touch your sessions. Its folder: {environment.folder}\nstarting a daemon … "
    )
    environment.start_daemon(gave_up=lambda: ending.is_set)
    if ending.is_set:
        return DemoTable({})
    _print_progress("six scripted agents … ")
    began = time.monotonic()
    with _open_feed(environment) as feed, terminal_keys() as pressed:
        table = DemoTable({environment.start_agent(each): each.name for each in demo_agents(pace)})
        _print_progress("watching\n")
        with open_screen(length_seconds, _headline(environment, pace)) as shown:
            _watch(_DemoRun(environment, table, shown, pressed, feed, began, length_seconds, pace), ending)
    return table


class _DemoRun(Struct):
    stage: DemoEnvironment
    board: DemoTable
    screen: DemoScreen
    keys: TerminalKeys
    feed: "FeedClient"
    began: float
    length_seconds: float
    pace: float
    answered: bool = False

    @property
    def elapsed_seconds(self) -> float:
        return time.monotonic() - self.began


def _watch(show: _DemoRun, ending: StopSignal) -> None:
    for record in show.feed.current_records():
        show.board.update(record, show.elapsed_seconds)
    show.screen.draw(show.board, show.elapsed_seconds)
    while show.elapsed_seconds < show.length_seconds and not ending.is_set:
        for record in show.feed.changed_records(TICK_SECONDS):
            show.board.update(record, show.elapsed_seconds)
        typed = show.keys.read_pressed()
        if "q" in typed:
            break
        if "y" in typed or show.elapsed_seconds > ANSWER_AT_SECONDS * show.pace:
            _answer_once(show)
        show.screen.draw(show.board, show.elapsed_seconds)
    show.screen.draw(show.board, show.elapsed_seconds, last=True)


def _answer_once(show: _DemoRun) -> None:
    """Only after the question: an earlier yes would prevent it."""
    if not show.answered and show.board.state_of(_ASKING_AGENT) is State.WAITING:
        show.stage.answer(_ASKING_AGENT)
        show.answered = True


class FeedClient:
    """The daemon's push feed, read as every client reads it."""

    def __init__(self, connection: "ClientConnection", client: DaemonClient) -> None:
        self._connection = connection
        self._client = client

    def current_records(self) -> list[SessionRecord]:
        """The present records: requested after the subscription, so that nothing is missed."""
        return decode_sessions(self._client.get("/api/sessions").body).sessions

    def changed_records(self, within_seconds: float) -> Iterator[SessionRecord]:
        """Records as they change, for so long. Raises DaemonLost."""
        from websockets.exceptions import ConnectionClosed  # noqa: PLC0415 - not for --help

        deadline = time.monotonic() + within_seconds
        while (left_seconds := deadline - time.monotonic()) > 0:
            try:
                message = self._connection.recv(timeout=left_seconds)
            except TimeoutError:
                return
            except ConnectionClosed as problem:
                raise DaemonLost from problem
            yield from (change.record for change in decode_body(message, FeedMessage).changes)


@contextmanager
def _open_feed(environment: DemoEnvironment) -> Iterator[FeedClient]:
    from websockets.sync.client import connect  # noqa: PLC0415 - as above

    connected = socket.socket(socket.AF_UNIX)
    connected.connect(environment.paths.socket)
    with connect(FEED_URL, sock=connected, proxy=None) as connection:
        yield FeedClient(connection, DaemonClient(environment.paths))


def _headline(environment: DemoEnvironment, pace: float) -> list[str]:
    patience = f"The demo reports silence after {SILENCE_SECONDS * pace:.0f} s; Wakeful's default is 10 min."
    notes = (
        [f"({environment.tmux_problem}: gets-killed runs without a terminal)"]
        if environment.tmux_problem
        else []
    )
    return [patience, *notes]


def _print_progress(words: str) -> None:
    sys.stdout.write(words)
    sys.stdout.flush()


def _print_summary(environment: DemoEnvironment, table: DemoTable) -> None:
    verdicts = Counter(
        line.record.findings[0].code if line.record.findings else health_text(line.record.health)
        for line in table.rows
        if line.record is not None
    )
    print_line()
    print_line(
        f"At the end: {', '.join(f'{count} {each}' for each, count in verdicts.items()) or 'nothing yet'}."
    )
    gone = "Demo removed: all processes, the tmux server and the folder."
    left = f"All processes have ended, but {environment.folder} could not be removed."
    print_line(left if environment.folder.exists() else gone)
    print_line()
    for line in _NEXT_STEPS:
        print_line(line)
