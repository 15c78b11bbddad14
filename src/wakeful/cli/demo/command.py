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

from wakeful.cli.demo.scenes import (
    ANSWER_AT_SECONDS,
    FULL_SECONDS,
    SILENCE_SECONDS,
    scenes,
)
from wakeful.cli.demo.screen import Board, Keys, Screen, keys, screen
from wakeful.cli.demo.stage import Stage
from wakeful.cli.format.sessions import decode_sessions
from wakeful.cli.output import say
from wakeful.client.client import Client
from wakeful.core.decoding import decode_json
from wakeful.core.errors import WorldError
from wakeful.judging.findings import State
from wakeful.judging.session_record import SessionRecord

if TYPE_CHECKING:
    from websockets.sync.client import ClientConnection

TICK_SECONDS: Final = 0.25
_ASKING: Final = "asks-you"
_NEXT: Final = (
    "Now your own agents:",
    "  wakeful up    watch every session of this machine, until Ctrl-C",
    "  wakeful ls    who works, who waits for you, who is gone",
)


class DaemonLost(WorldError):
    """The demo's daemon ended while it was watched."""

    code = "demo-daemon-lost"


class _Change(Struct, frozen=True):
    record: SessionRecord


class _Batch(Struct, frozen=True):
    """A message of the push feed; the greeting has no changes."""

    changes: tuple[_Change, ...] = ()


class Ending:
    """Remembers the first signal that asked the demo to end."""

    def __init__(self) -> None:
        self.signal: int | None = None

    def __call__(self, number: int, _frame: FrameType | None) -> None:
        self.signal = self.signal or number

    @property
    def asked(self) -> bool:
        return self.signal is not None

    @property
    def exit_code(self) -> int:
        """Ctrl-C is one of the ways to end a demo; the others are somebody else's will."""
        return 0 if self.signal in {None, signal.SIGINT} else 128 + (self.signal or 0)


def run_demo(seconds: float | None = None) -> int:
    """Play the demo in so many seconds, a minute if none are given; the exit code. Leaves nothing behind."""
    length_seconds = FULL_SECONDS if seconds is None else seconds
    with _signals() as ending:
        stage = Stage(length_seconds / FULL_SECONDS)
        try:
            shown = _play(stage, length_seconds, ending)
        finally:
            stage.close()
        _say_goodbye(stage, shown)
    return ending.exit_code


@contextmanager
def _signals() -> Iterator[Ending]:
    ending = Ending()
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = [signal.signal(number, ending) for number in numbers]
    try:
        yield ending
    finally:
        for number, handler in zip(numbers, before, strict=True):
            signal.signal(number, handler)


def _play(stage: Stage, length_seconds: float, ending: Ending) -> Board:
    """Start everything, then watch until time is up or somebody asks to end."""
    pace = length_seconds / FULL_SECONDS
    _progress(f"Nothing of yours is touched: all of it lives in {stage.folder}\nstarting a daemon … ")
    stage.start_daemon(gave_up=lambda: ending.asked)
    if ending.asked:
        return Board({})
    _progress("six scripted agents … ")
    began = time.monotonic()
    with _feed(stage) as feed, keys() as pressed:
        board = Board({stage.start_agent(scene): scene.name for scene in scenes(pace)})
        _progress("watching\n")
        with screen(length_seconds, _headline(stage, pace)) as shown:
            _watch(_Show(stage, board, shown, pressed, feed, began, length_seconds, pace), ending)
    return board


class _Show(Struct):
    """All that one tick of the demo needs."""

    stage: Stage
    board: Board
    screen: Screen
    keys: Keys
    feed: "Feed"
    began: float
    length_seconds: float
    pace: float
    answered: bool = False

    @property
    def elapsed_seconds(self) -> float:
        return time.monotonic() - self.began


def _watch(show: _Show, ending: Ending) -> None:
    for record in show.feed.present():
        show.board.take(record, show.elapsed_seconds)
    show.screen.draw(show.board, show.elapsed_seconds)
    while show.elapsed_seconds < show.length_seconds and not ending.asked:
        for record in show.feed.changed(TICK_SECONDS):
            show.board.take(record, show.elapsed_seconds)
        typed = show.keys.pressed()
        if "q" in typed:
            break
        if "y" in typed or show.elapsed_seconds > ANSWER_AT_SECONDS * show.pace:
            _answer_once(show)
        show.screen.draw(show.board, show.elapsed_seconds)
    show.screen.draw(show.board, show.elapsed_seconds, last=True)


def _answer_once(show: _Show) -> None:
    """A yes before the question would keep it from ever being asked."""
    if not show.answered and show.board.state_of(_ASKING) is State.WAITING:
        show.stage.answer(_ASKING)
        show.answered = True


class Feed:
    """The daemon's push feed, read by a client like any other."""

    def __init__(self, connection: "ClientConnection", client: Client) -> None:
        self._connection = connection
        self._client = client

    def present(self) -> list[SessionRecord]:
        """What is known already: asked for after listening began, so that nothing is missed."""
        return decode_sessions(self._client.get("/api/sessions").body).sessions

    def changed(self, within_seconds: float) -> Iterator[SessionRecord]:
        """Records as they change, for so long. Raises DaemonLost."""
        from websockets.exceptions import ConnectionClosed  # noqa: PLC0415 - costs nobody who only asks for help

        deadline = time.monotonic() + within_seconds
        while (left_seconds := deadline - time.monotonic()) > 0:
            try:
                message = self._connection.recv(timeout=left_seconds)
            except TimeoutError:
                return
            except ConnectionClosed as problem:
                raise DaemonLost from problem
            yield from (change.record for change in decode_json(message, _Batch).changes)


@contextmanager
def _feed(stage: Stage) -> Iterator[Feed]:
    from websockets.sync.client import connect  # noqa: PLC0415 - as above

    door = socket.socket(socket.AF_UNIX)
    door.connect(stage.places.socket)
    with connect("ws://localhost/api/ws", sock=door, proxy=None) as connection:
        yield Feed(connection, Client(stage.places))


def _headline(stage: Stage, pace: float) -> list[str]:
    patience = f"Silence counts after {SILENCE_SECONDS * pace:.0f} s here; Wakeful's own default is 10 min."
    notes = [f"({stage.tmux_trouble}: gets-killed runs without a terminal)"] if stage.tmux_trouble else []
    return [patience, *notes]


def _progress(words: str) -> None:
    sys.stdout.write(words)
    sys.stdout.flush()


def _say_goodbye(stage: Stage, board: Board) -> None:
    seen = Counter(_found(line.record) for line in board.lines if line.record is not None)
    say()
    say(f"At the end: {', '.join(f'{count} {each}' for each, count in seen.items()) or 'nothing yet'}.")
    gone = "All of it is gone again: every process, the tmux server, the folder."
    left = f"Everything was ended, but {stage.folder} could not be removed."
    say(left if stage.folder.exists() else gone)
    say()
    for line in _NEXT:
        say(line)


def _found(record: SessionRecord) -> str:
    return record.findings[0].code if record.findings else record.health
