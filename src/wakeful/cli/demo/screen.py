"""Draws the demo: a live table on a terminal, a line per change in a pipe.

Both draw the same board, which is filled from the daemon's records. Text of agents is made plain here before
it is shown.
"""

import os
import select
import sys
import termios
import tty
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, Protocol

from msgspec import Struct

from wakeful.cli.demo.scripts import activity_text, verdict_reason, verdict_text
from wakeful.cli.output import print_line, wall_now
from wakeful.core.text import plain
from wakeful.judging.findings import Attention, Health, State
from wakeful.judging.session_record import SessionRecord
from wakeful.judging.state_words import state_column_text

if TYPE_CHECKING:
    from rich.console import Console
    from rich.live import Live
    from rich.text import Text

# A changed verdict is highlighted for this long.
_HIGHLIGHT_SECONDS: Final = 3.0
_NAME_CELLS: Final = 13
_STATE_CELLS: Final = 11
_VERDICT_CELLS: Final = 21
_VERDICT_END_CELLS: Final = 2 + _NAME_CELLS + _STATE_CELLS + _VERDICT_CELLS
_AGE_CELLS: Final = 6
# Title, six agents of three lines, footer: a lower terminal gets no empty lines.
_SPACED_LINES_MIN: Final = 24
_STYLES: Final = {
    Health.HEALTHY: "green",
    Health.STALE: "cyan",
    Health.UNKNOWN: "magenta",
    Health.DEGRADED: "bold red",
    Health.DEAD: "bold red",
}


class DemoRow(Struct):
    """One agent: its newest record, its verdict before, and when that changed."""

    name: str
    record: SessionRecord | None = None
    before: str = ""
    changed_at_seconds: float = 0.0
    announced: bool = True

    @property
    def verdict_text(self) -> str:
        return (
            f"{state_column_text(self.record.state)} {verdict_text(self.record)}"
            if self.record is not None
            else ""
        )


class DemoTable:
    def __init__(self, names: dict[str, str]) -> None:
        self._by_session = {session_id: DemoRow(name) for session_id, name in names.items()}

    @property
    def rows(self) -> list[DemoRow]:
        return list(self._by_session.values())

    def state_of(self, name: str) -> State | None:
        return next((line.record.state for line in self.rows if line.name == name and line.record), None)

    def update(self, record: SessionRecord, elapsed_seconds: float) -> None:
        """Take a record. An agent is shown from its first turn on: before that it only starts."""
        line = self._by_session.get(record.id)
        if line is None or (line.record is None and record.state is State.IDLE):
            return
        before, line.record = line.verdict_text, record
        if line.verdict_text != before:
            line.before, line.changed_at_seconds, line.announced = before, elapsed_seconds, False


class DemoScreen(Protocol):
    def draw(self, table: DemoTable, elapsed_seconds: float, *, last: bool = False) -> None:
        """Show the changes; the last drawing stays on the screen."""


class PlainScreen:
    """For pipes and logs: two lines for every change."""

    def draw(self, table: DemoTable, elapsed_seconds: float, *, last: bool = False) -> None:
        del elapsed_seconds, last  # every line has the time of its own change
        for line in table.rows:
            if line.record is not None and not line.announced:
                line.announced = True
                was = f"  (was {line.before})" if line.before else ""
                print_line(f"{line.changed_at_seconds:4.0f} s  {line.name:<11}  {line.verdict_text}{was}")
                print_line(f"        {plain(verdict_reason(line.record, wall_now()))}")
        sys.stdout.flush()


class LiveScreen:
    """For terminals: the table, redrawn in place."""

    def __init__(self, live: "Live", seconds: float, headline: Sequence[str]) -> None:
        self._live = live
        self._seconds = seconds
        self._headline = headline

    def draw(self, table: DemoTable, elapsed_seconds: float, *, last: bool = False) -> None:
        from rich.console import Group  # noqa: PLC0415 - costs as much as the rest of the command

        width, height = self._live.console.size
        rows = self._rows(table, elapsed_seconds, width, height)
        footer = [] if last else [self._progress(elapsed_seconds, width)]
        self._live.update(Group(*rows, *footer), refresh=True)

    def _rows(self, table: DemoTable, elapsed_seconds: float, width: int, height: int) -> list["Text"]:
        gap = [_text()] if height >= _SPACED_LINES_MIN else []
        rows: list[Text] = [_text((line, "dim")) for line in self._headline]
        rows.append(_columns(width))
        for line in table.rows:
            rows += [self._verdict(line, elapsed_seconds, width), _reason(line), *gap]
        return rows

    def _verdict(self, line: DemoRow, elapsed_seconds: float, width: int) -> "Text":
        record = line.record
        if record is None:
            return _text(("○ ", "dim"), (line.name.ljust(_NAME_CELLS), "bold"), ("starting", "dim"))
        age_seconds = max(0.0, elapsed_seconds - line.changed_at_seconds)
        fresh = age_seconds < _HIGHLIGHT_SECONDS and line.before
        mark, style = _mark(record)
        shown = _text(
            (f"{mark} ", style),
            (line.name.ljust(_NAME_CELLS), "bold"),
            (state_column_text(record.state).ljust(_STATE_CELLS), ""),
            (verdict_text(record), "reverse" if fresh else style),
        )
        shown.pad_right(_VERDICT_END_CELLS - shown.cell_len)
        room = width - shown.cell_len - _AGE_CELLS
        doing = _text((plain(activity_text(record)), "cyan"))
        doing.truncate(max(0, room), overflow="ellipsis", pad=True)
        return shown.append_text(doing).append(f"{age_seconds:.0f} s".rjust(_AGE_CELLS), "dim")

    def _progress(self, elapsed_seconds: float, width: int) -> "Text":
        keys = "y answers asks-you · q ends" if sys.stdin.isatty() else "Ctrl-C ends"
        counter = f" {min(elapsed_seconds, self._seconds):3.0f} of {self._seconds:.0f} s   "
        cells = max(0, width - len(counter) - len(keys))
        done = int(cells * min(1.0, elapsed_seconds / self._seconds))
        return _text(("━" * done, "green"), ("━" * (cells - done), "dim"), (counter, ""), (keys, "dim"))


def _columns(width: int) -> "Text":
    names = (("  AGENT", 2 + _NAME_CELLS), ("STATE", _STATE_CELLS), ("VERDICT", _VERDICT_CELLS))
    titles = "".join(name.ljust(cells) for name, cells in names) + "ABOUT"
    return _text((titles.ljust(width - _AGE_CELLS) + "FOR".rjust(_AGE_CELLS), "dim"))


def _reason(line: DemoRow) -> "Text":
    return _text(
        ("  ", ""), (plain(verdict_reason(line.record, wall_now())) if line.record is not None else "", "")
    )


def _text(*parts: tuple[str, str]) -> "Text":
    from rich.text import Text  # noqa: PLC0415 - see above

    return Text.assemble(*parts, no_wrap=True, overflow="ellipsis")


def _mark(record: SessionRecord) -> tuple[str, str]:
    """One cell and a colour: the same marks as `wakeful ls`."""
    if record.attention is Attention.PERSON:
        return "◆", "bold yellow"
    if record.health in {Health.DEGRADED, Health.DEAD}:
        return "✗", _STYLES[record.health]
    return ("●" if record.active_prompt else "○"), _STYLES[record.health]


@contextmanager
def open_screen(seconds: float, headline: Sequence[str]) -> Iterator[DemoScreen]:
    """The screen for this stdout; afterwards the terminal is restored and keeps the last drawing."""
    console = _console()
    if console is None:
        for line in headline:
            print_line(line)
        yield PlainScreen()
        return
    from rich.live import Live  # noqa: PLC0415 - see above

    with Live(console=console, auto_refresh=False, vertical_overflow="crop") as live:
        yield LiveScreen(live, seconds, headline)


def _console() -> "Console | None":
    if not sys.stdout.isatty():
        return None
    from rich.console import Console  # noqa: PLC0415 - see above

    console = Console(highlight=False, markup=False, emoji=False)
    return None if console.is_dumb_terminal else console


class TerminalKeys:
    """Single keys of the terminal, if there is one."""

    def __init__(self, descriptor: int | None) -> None:
        self._descriptor = descriptor

    def read_pressed(self) -> str:
        """Everything typed since the last call; never waits."""
        if self._descriptor is None:
            return ""
        ready, _, _ = select.select([self._descriptor], [], [], 0)
        return os.read(self._descriptor, 64).decode(errors="replace") if ready else ""


@contextmanager
def terminal_keys() -> Iterator[TerminalKeys]:
    """Read keys one by one without echo; afterwards the terminal reads lines again."""
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        yield TerminalKeys(None)
        return
    descriptor = sys.stdin.fileno()
    before = termios.tcgetattr(descriptor)
    try:
        # Ctrl-C stays a signal.
        tty.setcbreak(descriptor)
        yield TerminalKeys(descriptor)
    finally:
        termios.tcsetattr(descriptor, termios.TCSADRAIN, before)
