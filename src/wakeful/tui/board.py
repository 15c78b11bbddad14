"""The board: every session in the order a person should read it, what fits the filter, and who is next. Pure.

No terminal and no network: records go in, rows come out. Ten thousand of them are kept in order by keys that are made once.
"""

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from typing import Final

from wakeful.cli.format.listing import counts_text, doing, needs_you, order_of
from wakeful.core.ids import SessionId, shortened
from wakeful.judging.session_record import SessionRecord

Key = tuple[int, int, float, str]

MOVED_AT_ONCE_MAX: Final = 200


class Board:
    """Written by the link, read by the table."""

    def __init__(self) -> None:
        self._records: dict[SessionId, SessionRecord] = {}
        self._keys: dict[SessionId, Key] = {}
        self._texts: dict[SessionId, str] = {}
        self._asked_for = ""
        self._words: tuple[str, ...] = ()
        # Those that fit, in order, and the keys they are ordered by.
        self._rows: list[SessionRecord] = []
        self._order: list[Key] = []
        self._short: dict[str, str] | None = None
        self._counts: str | None = None
        self.older = 0

    def __len__(self) -> int:
        return len(self._records)

    def replace(self, records: Iterable[SessionRecord], older: int) -> None:
        """The whole list."""
        self._records = {record.id: record for record in records}
        self._keys = {record.id: order_of(record) for record in self._records.values()}
        self._texts.clear()
        self._short = self._counts = None
        self.older = older
        self._sort()

    def change(self, records: Sequence[SessionRecord]) -> None:
        """What changed; news that overtook each other count by their time."""
        # One after the other moves rows; beyond this many sorting anew is quicker.
        moves = len(records) <= MOVED_AT_ONCE_MAX
        for record in records:
            known = self._records.get(record.id)
            if known is not None and known.updated_at > record.updated_at:
                continue
            if known is None:
                self._short = None
            elif moves:
                self._take_out(record.id)
            self._records[record.id] = record
            self._keys[record.id] = order_of(record)
            self._texts.pop(record.id, None)
            if moves:
                self._put_in(record)
        self._counts = None
        if not moves:
            self._sort()

    def filter(self, text: str) -> None:
        """Show only sessions in whose text every one of these words stands."""
        before, self._asked_for = self._asked_for, text
        self._words = tuple(text.lower().split())
        if before and text.startswith(before):
            # One letter more: whoever did not fit does not fit now, and the order stays.
            self._rows = [each for each in self._rows if self._fits(each)]
            self._order = [self._keys[each.id] for each in self._rows]
        else:
            self._sort()

    @property
    def rows(self) -> Sequence[SessionRecord]:
        """Those that fit, who needs a person first."""
        return self._rows

    def place_of(self, session_id: SessionId) -> int | None:
        """Its row, if it fits."""
        key = self._keys.get(session_id)
        place = bisect_left(self._order, key) if key is not None else len(self._rows)
        is_there = place < len(self._rows) and self._rows[place].id == session_id
        return place if is_there else None

    def next_needing(self, place: int) -> int | None:
        """The row of the next one behind this row that needs a person; the first one again after the last."""
        # They stand together at the top.
        count = next((at for at, each in enumerate(self.rows) if not needs_you(each)), len(self.rows))
        if not count:
            return None
        return place + 1 if place + 1 < count else 0

    def short_id(self, session_id: SessionId) -> str:
        """As much of an id as commands need."""
        if self._short is None:
            self._short = shortened(map(str, self._records))
        return self._short[session_id]

    def counts(self) -> str:
        """`2 need you, 3 prompting`, of all, whatever the filter."""
        if self._counts is None:
            self._counts = counts_text(list(self._records.values()))
        return self._counts

    def _fits(self, record: SessionRecord) -> bool:
        if not self._words:
            return True
        text = self._texts.get(record.id)
        if text is None:
            text = self._texts[record.id] = _text_of(record)
        return all(word in text for word in self._words)

    def _take_out(self, session_id: SessionId) -> None:
        place = self.place_of(session_id)
        if place is not None:
            del self._rows[place], self._order[place]

    def _put_in(self, record: SessionRecord) -> None:
        if self._fits(record):
            place = bisect_left(self._order, self._keys[record.id])
            self._rows.insert(place, record)
            self._order.insert(place, self._keys[record.id])

    def _sort(self) -> None:
        fitting = (each for each in self._records.values() if self._fits(each))
        self._rows = sorted(fitting, key=lambda each: self._keys[each.id])
        self._order = [self._keys[each.id] for each in self._rows]


def _text_of(record: SessionRecord) -> str:
    """What a person may remember of a session."""
    parts = (
        *(record.id, record.project, record.state, record.health, record.attention, record.provider),
        *(record.agent or "", record.name or "", "managed" if record.managed else "found", doing(record)),
    )
    return " ".join(parts).lower()
