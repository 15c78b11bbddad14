"""The session list of `wakeful top`: order, filter and counts of the sessions, and the table widget.

`SessionListModel` is pure: records in, rows out. It keeps ten thousand sessions in order by keys that are computed once.
The table renders only visible lines, so that ten thousand rows cost as much as thirty.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from typing import ClassVar, Final

from rich.cells import cell_len, set_cell_size
from rich.segment import Segment
from rich.style import Style
from textual.binding import Binding, BindingType
from textual.geometry import Size
from textual.message import Message
from textual.reactive import reactive
from textual.scroll_view import ScrollView
from textual.strip import Strip

from wakeful.cli.format.sessions import (
    RowTone,
    SessionTableRow,
    activity_text,
    counts_text,
    needs_you,
    row_of,
    sort_key_of,
)
from wakeful.cli.table import MARKS
from wakeful.core.ids import SessionId
from wakeful.judging.session_record import SessionRecord
from wakeful.judging.state_words import state_health_text
from wakeful.tui.commands import shown_name

SortKey = tuple[int, int, float, str]

MOVED_ROWS_MAX: Final = 200


class SessionListModel:
    """The feed writes it, the table reads it."""

    def __init__(self) -> None:
        self._records: dict[SessionId, SessionRecord] = {}
        self._keys: dict[SessionId, SortKey] = {}
        self._texts: dict[SessionId, str] = {}
        self._filter_text = ""
        self._filter_words: tuple[str, ...] = ()
        # The sessions that match the filter, in order, and their sort keys.
        self._rows: list[SessionRecord] = []
        self._row_keys: list[SortKey] = []
        self._name_cells: int | None = None
        self._counts: str | None = None
        self.older = 0

    def __len__(self) -> int:
        return len(self._records)

    def get(self, session_id: SessionId) -> SessionRecord | None:
        return self._records.get(session_id)

    def replace(self, records: Iterable[SessionRecord], older: int) -> None:
        self._records = {record.id: record for record in records}
        self._keys = {record.id: sort_key_of(record) for record in self._records.values()}
        self._texts.clear()
        self._name_cells = self._counts = None
        self.older = older
        self._sort()

    def change(self, records: Sequence[SessionRecord]) -> None:
        """Take changed records; of two records of a session the later one counts."""
        # Moving row by row is slower than sorting beyond this many.
        moves = len(records) <= MOVED_ROWS_MAX
        for record in records:
            known = self._records.get(record.id)
            if known is not None and known.updated_at > record.updated_at:
                continue
            if known is None or known.short_name != record.short_name:
                self._name_cells = None
            if known is not None and moves:
                place = self.row_number(record.id)
                if place is not None:
                    del self._rows[place], self._row_keys[place]
            self._records[record.id] = record
            self._keys[record.id] = sort_key_of(record)
            self._texts.pop(record.id, None)
            if moves:
                self._insert_row(record)
        self._counts = None
        if not moves:
            self._sort()

    def remove(self, session_id: SessionId) -> None:
        """Forget a session that the daemon does not know any more."""
        place = self.row_number(session_id)
        if place is not None:
            del self._rows[place], self._row_keys[place]
        if self._records.pop(session_id, None) is not None:
            del self._keys[session_id]
            self._texts.pop(session_id, None)
            self._name_cells = self._counts = None

    def filter(self, text: str) -> None:
        """Show only sessions whose text has all of these words."""
        before, self._filter_text = self._filter_text, text
        self._filter_words = tuple(text.lower().split())
        if before and text.startswith(before):
            # A longer filter only removes rows, and the order stays.
            self._rows = [each for each in self._rows if self._matches_filter(each)]
            self._row_keys = [self._keys[each.id] for each in self._rows]
        else:
            self._sort()

    @property
    def rows(self) -> Sequence[SessionRecord]:
        """The sessions that match the filter; those that need a person come first."""
        return self._rows

    def row_number(self, session_id: SessionId) -> int | None:
        """Its row, if it matches the filter."""
        key = self._keys.get(session_id)
        place = bisect_left(self._row_keys, key) if key is not None else len(self._rows)
        is_there = place < len(self._rows) and self._rows[place].id == session_id
        return place if is_there else None

    def next_needing_person(self, place: int) -> int | None:
        """The next row after this one that needs a person; after the last the first again."""
        # They are all at the top.
        count = next((at for at, each in enumerate(self.rows) if not needs_you(each)), len(self.rows))
        if not count:
            return None
        return place + 1 if place + 1 < count else 0

    @property
    def name_cells(self) -> int:
        """The width of the longest name of all sessions."""
        if self._name_cells is None:
            names = (shown_name(each) for each in self._records.values())
            self._name_cells = max(map(cell_len, names), default=0)
        return self._name_cells

    def counts(self) -> str:
        """`2 need you, 3 running`, of all sessions without the filter."""
        if self._counts is None:
            self._counts = counts_text(list(self._records.values()))
        return self._counts

    def _matches_filter(self, record: SessionRecord) -> bool:
        if not self._filter_words:
            return True
        text = self._texts.get(record.id)
        if text is None:
            parts = (
                *(record.id, record.project, record.state, record.health, record.attention, record.provider),
                state_health_text(record.state, record.health),
                *(
                    record.agent or "",
                    record.name or "",
                    record.short_name,
                    "managed" if record.managed else "found",
                    activity_text(record),
                ),
            )
            text = self._texts[record.id] = " ".join(parts).lower()
        return all(word in text for word in self._filter_words)

    def _insert_row(self, record: SessionRecord) -> None:
        if self._matches_filter(record):
            place = bisect_left(self._row_keys, self._keys[record.id])
            self._rows.insert(place, record)
            self._row_keys.insert(place, self._keys[record.id])

    def _sort(self) -> None:
        fitting = (each for each in self._records.values() if self._matches_filter(each))
        self._rows = sorted(fitting, key=lambda each: self._keys[each.id])
        self._row_keys = [self._keys[each.id] for each in self._rows]


_STATE_CELLS: Final = 10
_AGE_CELLS: Final = 4
_NAME_CELLS_MIN: Final = 12
# A name takes at most this share of the row.
_NAME_SHARE: Final = 0.4
_PROJECT_CELLS: Final = 18
# From this width on there is room for the project, which a name may not contain.
WIDE_CELLS: Final = 90
# Below this width what a session does matters more than its age.
_NARROW_CELLS: Final = 50
_TONE_CLASSES: Final = {
    RowTone.NEEDS_YOU: "table--needs-you",
    RowTone.PROBLEM: "table--problem",
    RowTone.BUSY: "table--busy",
    RowTone.LATER: "table--later",
    RowTone.IDLE: "table--idle",
    RowTone.PAST: "table--past",
}


_LOUD: Final = (RowTone.NEEDS_YOU, RowTone.PROBLEM)


class SessionTable(ScrollView, can_focus=True):
    """The rows of the list. The cursor stays on its session when that moves."""

    COMPONENT_CLASSES: ClassVar[set[str]] = {
        *_TONE_CLASSES.values(),
        *("table--header", "table--quiet", "table--text", "table--strong", "table--cursor", "table--lost"),
    }
    DEFAULT_CSS = """
    SessionTable { overflow-x: hidden; overflow-y: auto; scrollbar-size-vertical: 1; }
    SessionTable > .table--needs-you { color: $warning; text-style: bold; }
    SessionTable > .table--problem { color: $error; text-style: bold; }
    SessionTable > .table--busy { color: $success; }
    SessionTable > .table--later { color: $secondary; }
    SessionTable > .table--idle { color: $accent; }
    SessionTable > .table--past { color: $quiet; }
    SessionTable > .table--header { color: $quiet; }
    SessionTable > .table--quiet { color: $quiet; }
    SessionTable > .table--text { color: $foreground; }
    SessionTable > .table--strong { color: $foreground; text-style: bold; }
    SessionTable > .table--cursor { background: $cursor; }
    SessionTable > .table--lost { color: $lost; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("down,j", "move(1)", show=False),
        Binding("up,k", "move(-1)", show=False),
        Binding("pagedown,ctrl+f", "page(1)", show=False),
        Binding("pageup,ctrl+b", "page(-1)", show=False),
        Binding("home,g", "jump(0)", show=False),
        Binding("end,G", "jump(-1)", show=False),
    ]

    is_lost: reactive[bool] = reactive(True)

    class Chosen(Message):
        """The cursor is on another session, or on none."""

        def __init__(self, session_id: SessionId | None) -> None:
            super().__init__()
            self.session_id = session_id

    def __init__(self, model: SessionListModel, now: Callable[[], float]) -> None:
        super().__init__(id="table")
        self._now = now
        self._session_list = model
        self._row_number = 0
        self._selected_id: SessionId | None = None

    @property
    def selected(self) -> SessionRecord | None:
        rows = self._session_list.rows
        return rows[self._row_number] if self._row_number < len(rows) else None

    @property
    def row_number(self) -> int:
        return self._row_number

    def show_rows(self) -> None:
        """Show the changed list: the cursor stays on its session, or on its row."""
        place = self._session_list.row_number(self._selected_id) if self._selected_id is not None else None
        count = len(self._session_list.rows)
        # One more for the header.
        self.virtual_size = Size(self.size.width, count + 1)
        self.select_row(place if place is not None else min(self._row_number, max(0, count - 1)))

    def select_row(self, place: int) -> None:
        self._row_number = place
        record = self.selected
        chosen = record.id if record is not None else None
        if chosen != self._selected_id:
            self._selected_id = chosen
            self.post_message(self.Chosen(chosen))
        visible = max(1, self.size.height - 1)
        top = self.scroll_offset.y
        if self._row_number < top:
            self.scroll_to(y=self._row_number, animate=False, immediate=True)
        elif self._row_number >= top + visible:
            self.scroll_to(y=self._row_number - visible + 1, animate=False, immediate=True)
        self.refresh()

    def action_move(self, rows: int) -> None:
        self._select_nearest(self._row_number + rows)

    def action_page(self, pages: int) -> None:
        self._select_nearest(self._row_number + pages * max(1, self.size.height - 2))

    def action_jump(self, place: int) -> None:
        self._select_nearest(place if place >= 0 else len(self._session_list.rows) - 1)

    def on_click(self, event: object) -> None:
        line = getattr(event, "y", 0)
        if line >= 1:
            self._select_nearest(self.scroll_offset.y + line - 1)

    def render_line(self, y: int) -> Strip:
        width = self.size.width
        if y == 0:
            return self._strip([("table--header", text) for text in self._header(width)], width, None)
        place = self.scroll_offset.y + y - 1
        rows = self._session_list.rows
        if place >= len(rows):
            return Strip.blank(width, self.rich_style)
        background = self.get_component_rich_style("table--cursor") if place == self._row_number else None
        return self._strip(self._cells(row_of(rows[place], self._now()), width), width, background)

    def on_resize(self) -> None:
        """The selected row stays in sight."""
        self.show_rows()

    def watch_is_lost(self) -> None:
        self.refresh()

    def _select_nearest(self, place: int) -> None:
        self.select_row(max(0, min(place, len(self._session_list.rows) - 1)))

    def _header(self, width: int) -> list[str]:
        titles = ["  NAME", "STATE", *([" AGE"] if width >= _NARROW_CELLS else [])]
        titles += ["PROJECT"] if width >= WIDE_CELLS else []
        cells = self._widths(width)
        return [
            set_cell_size(f" {title}", count) for title, count in zip([*titles, "DOING"], cells, strict=True)
        ]

    def _widths(self, width: int) -> list[int]:
        """Of mark and name, state, age, project, and what it does."""
        name_cells = max(_NAME_CELLS_MIN, min(self._session_list.name_cells, int(width * _NAME_SHARE)))
        fixed = [name_cells + 3, _STATE_CELLS + 1]
        fixed += [_AGE_CELLS + 1] if width >= _NARROW_CELLS else []
        fixed += [_PROJECT_CELLS + 1] if width >= WIDE_CELLS else []
        return [*fixed, max(1, width - sum(fixed))]

    def _cells(self, row: SessionTableRow, width: int) -> list[tuple[str, str]]:
        tone, past = _TONE_CLASSES[row.tone], row.tone is RowTone.PAST
        mark, _ = MARKS[row.tone]
        widths = self._widths(width)
        # Sessions that Wakeful only watches are not bold.
        quieter = "table--strong" if row.record.managed else "table--text"
        name = f" {mark} {cut_middle(shown_name(row.record), widths[0] - 3)}"
        texts = [(tone if past or row.tone in _LOUD else quieter, name), (tone, f" {row.word}")]
        texts += [("table--quiet", f" {row.age:>4}")] if width >= _NARROW_CELLS else []
        texts += [("table--quiet", f" {row.project}")] if width >= WIDE_CELLS else []
        texts.append((tone if past else "table--text", f" {row.doing}"))
        return [(style, _fit(text, cells)) for (style, text), cells in zip(texts, widths, strict=True)]

    def _strip(self, cells: list[tuple[str, str]], width: int, background: Style | None) -> Strip:
        base = self.rich_style
        over = Style(bgcolor=background.bgcolor, bold=True) if background is not None else Style.null()
        # Without a connection nothing has a colour.
        segments = [
            Segment(text, base + self._style("table--lost" if self.is_lost else name) + over)
            for name, text in cells
        ]
        return Strip(segments).adjust_cell_length(width, base)

    def _style(self, name: str) -> Style:
        return self.get_component_rich_style(name, partial=True)


def cut_middle(name: str, cells: int) -> str:
    """A name without its middle if it is too long: its end tells it from others of its project."""
    if cell_len(name) <= cells:
        return name
    tail = name[-max(1, cells // 2 - 1) :]
    return f"{set_cell_size(name, max(0, cells - 1 - cell_len(tail)))}…{tail}"


def _fit(text: str, cells: int) -> str:
    """Cut or padded to this width; `…` marks a cut."""
    if cell_len(text) <= cells:
        return set_cell_size(text, cells)
    return set_cell_size(text, max(0, cells - 2)) + "… "
