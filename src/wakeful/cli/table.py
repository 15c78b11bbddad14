"""Prints the session table: in colour on a terminal, as aligned plain text elsewhere.

Rich is imported for terminals only. The text of a row is already plain.
"""

import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final
from unicodedata import combining, east_asian_width

from wakeful.cli.format.sessions import RowTone, SessionTableRow, short_ids
from wakeful.core.text import plain

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

# Mark and style for every tone. A mark is one cell wide in every font.
MARKS: Final = {
    RowTone.NEEDS_YOU: ("◆", "bold yellow"),
    RowTone.PROBLEM: ("✗", "bold red"),
    RowTone.BUSY: ("●", "green"),
    RowTone.LATER: ("◌", "magenta"),
    RowTone.IDLE: ("○", "cyan"),
    RowTone.PAST: ("·", "dim"),
}
_PLAIN_HEADERS: Final = (
    *("ID", "NAME", "STATE", "HEALTH", "ATTENTION", "AGE", "PROVIDER", "PROJECT"),
    *("MANAGED", "DOING"),
)
# Below these widths there is no room for further columns: what a session does matters more.
_NARROW_CELLS: Final = 72
_WIDE_CELLS: Final = 120
_NAME_SHARE: Final = 3
_NAME_CELLS_MIN: Final = 10
# The end of a name is what tells it from others of its project.
_NAME_END_CELLS: Final = 7
# The tones of rows whose whole text is worth a second line.
_URGENT: Final = (RowTone.NEEDS_YOU, RowTone.PROBLEM)


def print_rows(rows: Sequence[SessionTableRow], footer: Sequence[str] = ()) -> None:
    footer = [plain(line) for line in footer]
    if sys.stdout.isatty():
        from rich.console import Console  # noqa: PLC0415 - costs as much as the rest of the command

        draw(Console(highlight=False, markup=False, emoji=False), rows, footer)
        return
    for line in (*(plain_lines(rows) if rows else ()), *footer):
        sys.stdout.write(f"{line}\n")


def plain_lines(rows: Sequence[SessionTableRow]) -> list[str]:
    """For pipes: whole ids, no colour, no tabs, nothing cut off; only the last column holds spaces of its own."""
    cells = [_PLAIN_HEADERS, *map(_plain_cells, rows)]
    widths = [max(map(_width, column)) for column in zip(*cells, strict=True)]
    return [
        "  ".join(
            text + " " * (width - _width(text)) for text, width in zip(row, widths, strict=True)
        ).rstrip()
        for row in cells
    ]


def _plain_cells(row: SessionTableRow) -> tuple[str, ...]:
    record = row.record
    joined = row.project.replace(" ", "_")
    return (
        record.id,
        _name_of(row).replace(" ", "_"),
        record.state,
        record.health,
        record.attention,
        row.age,
        record.provider,
        joined,
        "yes" if row.managed else "-",
        row.doing or "-",
    )


def _width(text: str) -> int:
    """Cells on a terminal: East Asian characters take two, combining ones none."""
    if text.isascii():
        return len(text)
    return sum(0 if combining(char) else 1 + (east_asian_width(char) in "WF") for char in text)


def draw(console: "Console", rows: Sequence[SessionTableRow], footer: Sequence[str]) -> None:
    for line in _coloured_lines(rows, console.width) if rows else ():
        console.print(line, no_wrap=True, overflow="ellipsis", crop=True)
    for words in footer:
        console.print(words, style="dim")


def _coloured_lines(rows: Sequence[SessionTableRow], width: int) -> Iterator["Text"]:
    from rich.text import Text  # noqa: PLC0415 - as above

    columns = _columns(rows, width)
    yield Text("  ".join(column.title.ljust(column.width) for column in columns) + "  DOING", "dim")
    for number, row in enumerate(rows):
        line = Text("  ").join(column.cell(number, row.tone) for column in columns)
        doing = Text(row.doing, "dim" if row.tone is RowTone.PAST else "")
        if row.tone in _URGENT and line.cell_len + 2 + doing.cell_len > width:
            # A text that asks for action gets a line of its own.
            yield line
            line = Text()
        yield line.append("  ").append_text(doing)


def _columns(rows: Sequence[SessionTableRow], width: int) -> "list[_Column]":
    cells_max = max(_NAME_CELLS_MIN, width // _NAME_SHARE)
    names = [_shortened(_name_of(row), cells_max) for row in rows]
    columns = [
        _Column("  STATE", [f"{MARKS[row.tone][0]} {row.word}" for row in rows], by_tone=True),
        _Column("AGE", [row.age.rjust(3) for row in rows], style="dim"),
        _Column("NAME", names, style="bold"),
    ]
    columns[2].width = min(columns[2].width, cells_max)
    if width >= _WIDE_CELLS:
        ids = short_ids([row.record for row in rows])
        columns += [
            _Column("PROJECT", [row.project for row in rows]),
            _Column("ID", [ids[row.record.id] for row in rows], style="dim"),
        ]
        columns[3].width = min(columns[3].width, width // _NAME_SHARE // 2)
    managed = ["yes" if row.managed else "" for row in rows]
    if width >= _NARROW_CELLS and any(managed):
        columns.append(_Column("MANAGED", managed, style="dim"))
    return columns


def _name_of(row: SessionTableRow) -> str:
    """The short name, which every command takes; an older daemon sends none."""
    return plain(row.record.short_name) or row.project


def _shortened(name: str, cells_max: int) -> str:
    if _width(name) <= cells_max or not name.isascii():
        return name
    return f"{name[: cells_max - _NAME_END_CELLS - 1]}…{name[-_NAME_END_CELLS:]}"


class _Column:
    """One column of the table on a terminal: its cells, as wide as the widest of them."""

    def __init__(self, title: str, texts: Sequence[str], *, style: str = "", by_tone: bool = False) -> None:
        self.title = title
        self.width = max(map(_width, (title, *texts)))
        self._texts = texts
        self._style = style
        self._by_tone = by_tone

    def cell(self, number: int, tone: RowTone) -> "Text":
        from rich.text import Text  # noqa: PLC0415 - as above

        text = Text(
            self._texts[number], MARKS[tone][1] if self._by_tone or tone is RowTone.PAST else self._style
        )
        text.truncate(self.width, overflow="ellipsis", pad=True)
        return text
