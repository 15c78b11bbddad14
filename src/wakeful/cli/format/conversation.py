"""Text of a conversation: who said what and when, and calls with their results folded to one line. Pure.

`logs` and `top` show the same lines. Pieces have style names as in `explanation.py`; text of agents is made plain.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Final

from msgspec import Struct
from rich.cells import cell_len, chop_cells, set_cell_size

from wakeful.cli.format.explanation import Line
from wakeful.core.durations import age
from wakeful.core.text import plain, plain_lines
from wakeful.judging.events import Speaker
from wakeful.judging.wording import call_text, result_text
from wakeful.views.records import CallEnd, CallRecord, MessageRecord

# More than the daemon sends of one text.
_TEXT_CHARS_MAX: Final = 5000
# Below this width the seconds are left out.
_WIDE_CELLS: Final = 60
# Narrower texts cannot be read.
_TEXT_CELLS_MIN: Final = 12
_WHO_CELLS: Final = 7
_PERSON: Final = "you"

_MARKS: Final = {
    CallEnd.OK: ("✓", "success"),
    CallEnd.ERROR: ("✗", "error"),
    CallEnd.REFUSED: ("⊘", "warning"),
    CallEnd.OPEN: ("…", "text"),
    CallEnd.WAITING: ("◆", "needs-you"),
    CallEnd.CUT_OFF: ("✗", "quiet"),
}
_WORDS: Final = {
    CallEnd.REFUSED: "refused",
    CallEnd.OPEN: "running",
    CallEnd.WAITING: "waiting for you",
    CallEnd.CUT_OFF: "interrupted",
}
# Without a living agent, an open call neither runs nor is known to be cut off.
_UNSEEN: Final = ("?", "quiet", "result unknown")
# For a terminal that has no UTF-8.
ASCII_MARKS: Final[Mapping[str, str]] = {"✓": "+", "✗": "x", "⊘": "-", "…": ".", "◆": "!", "→": ">"}


class ConversationLayout(Struct, frozen=True):
    """How the lines are made. Without `cells` nothing is wrapped or cut."""

    # What the agent is called.
    agent: str
    cells: int | None = None
    # Whether the agent lives.
    is_alive: bool = True
    # Whether it waits for a person: then its open calls do.
    asks: bool = False
    is_ascii: bool = False


def conversation_lines(
    messages: Iterable[MessageRecord], layout: ConversationLayout, day: str = ""
) -> Iterator[Line]:
    """The lines of these messages. A line with the date precedes those of another day than `day`."""
    for message in messages:
        own_day = day_of(message.at)
        if own_day and own_day != day:
            day = own_day
            yield ((day, "quiet"),)
        yield from message_lines(message, layout)


def message_lines(message: MessageRecord, layout: ConversationLayout) -> Iterator[Line]:
    """The lines of one text or call, after its time and its speaker."""
    if message.call is not None:
        body = _call_lines(message.call, layout, _text_cells(layout))
        who, style = "", "quiet"
    else:
        text_style = "quiet" if message.by is Speaker.CLIENT else "text"
        shown = _text_lines(message.untrusted.text, _text_cells(layout))
        body = (((each, text_style),) for each in shown)
        who, style = _who(message.by, layout)
    when = f"{_clock(message.at, layout)} "
    for number, line in enumerate(body):
        if number:
            yield ((" " * (len(when) + _WHO_CELLS + 1), "quiet"), *line)
        else:
            yield ((when, "quiet"), (f"{set_cell_size(who, _WHO_CELLS)} ", style), *line)


def note_line(at: str, text: str, style: str, layout: ConversationLayout) -> Line:
    """One line that Wakeful adds to a conversation."""
    when, who = _clock(at, layout), set_cell_size("wakeful", _WHO_CELLS)
    return ((f"{when} ", "quiet"), (f"{who} ", "quiet"), (_cut(plain(text), _text_cells(layout)), style))


def day_of(stamp: str) -> str:
    """The local date; empty for a record without a time."""
    then = _local(stamp)
    return f"{then:%Y-%m-%d}" if then is not None else ""


def _local(stamp: str) -> datetime | None:
    """None for a record without a time, which has the epoch."""
    try:
        then = datetime.fromisoformat(stamp)
    except ValueError:
        return None
    return then.astimezone() if then.timestamp() > 0 else None


def _clock(stamp: str, layout: ConversationLayout) -> str:
    with_seconds = layout.cells is None or layout.cells >= _WIDE_CELLS
    then = _local(stamp)
    if then is None:
        return "--:--:--" if with_seconds else "--:--"
    return f"{then:%H:%M:%S}" if with_seconds else f"{then:%H:%M}"


def _who(by: Speaker, layout: ConversationLayout) -> tuple[str, str]:
    if by is Speaker.PERSON:
        return _PERSON, "accent"
    if by is Speaker.AGENT:
        return plain(layout.agent, _WHO_CELLS) or "agent", "strong"
    return by.value, "quiet"


def _text_cells(layout: ConversationLayout) -> int | None:
    if layout.cells is None:
        return None
    margin = len("00:00 " if layout.cells < _WIDE_CELLS else "00:00:00 ") + _WHO_CELLS + 1
    return max(_TEXT_CELLS_MIN, layout.cells - margin)


def _text_lines(text: str, cells: int | None) -> Iterator[str]:
    """Several empty lines are shown as one."""
    before = ""
    for line in plain_lines(text, _TEXT_CHARS_MAX).split("\n") or [""]:
        if line or before:
            yield from wrap(line, cells) if cells is not None else (line,)
        before = line


def _call_lines(call: CallRecord, layout: ConversationLayout, cells: int | None) -> Iterator[Line]:
    """The call and its result in one line; in two where they do not fit."""
    is_open = call.end is CallEnd.OPEN
    end = CallEnd.WAITING if is_open and layout.asks else call.end
    (mark, style), state = _MARKS[end], _WORDS.get(end, "")
    if is_open and not layout.is_alive:
        mark, style, state = _UNSEEN
    words = call.untrusted
    name = plain(call_text(f"{words.tool} {words.input}".strip())) or "an earlier call"
    about = "  ".join(each for each in (state, _duration(call)) if each)
    result = plain(result_text(words.result.encode()))
    folded = f"{_mark('→', layout)} {result}" if result else ""
    tail = f"  {about}" if about else ""
    mark_piece = (f"{_mark(mark, layout)} ", style)
    text_style = "quiet" if call.end is CallEnd.CUT_OFF else "text"
    name_cells, tail_cells = cell_len(name) + 2, cell_len(tail)
    if cells is None or name_cells + tail_cells + cell_len(folded) + 1 <= cells:
        yield (
            mark_piece,
            (name, text_style),
            (tail, "quiet"),
            *(((f" {folded}", "quiet"),) if folded else ()),
        )
        return
    # What was called comes first.
    is_short = name_cells + tail_cells <= cells
    yield (mark_piece, (_cut(name, cells - 2), text_style), *(((tail, "quiet"),) if is_short else ()))
    rest = folded if is_short else " ".join(each for each in (about, folded) if each)
    if rest:
        yield ((f"  {_cut(rest, cells - 2)}", "quiet"),)


def _duration(call: CallRecord) -> str:
    """Empty for less than a second."""
    began, ended = _local(call.at), _local(call.ended_at or "")
    seconds = (ended - began).total_seconds() if began is not None and ended is not None else 0.0
    return age(seconds) if seconds >= 1 else ""


def _mark(mark: str, layout: ConversationLayout) -> str:
    return ASCII_MARKS.get(mark, mark) if layout.is_ascii else mark


def _cut(text: str, cells: int | None) -> str:
    if cells is None or cell_len(text) <= cells:
        return text
    return f"{set_cell_size(text, max(0, cells - 1)).rstrip()}…"


def wrap(line: str, cells: int) -> Sequence[str]:
    """Lines of at most this width, broken between words; a longer word is cut. Its indentation stays."""
    if cell_len(line) <= cells:
        return (line,)
    indent = line[: min(len(line) - len(line.lstrip()), cells // 2)]
    found, current = list[str](), indent
    for word in line.split():
        joined = f"{current} {word}" if current.strip() else f"{current}{word}"
        if cell_len(joined) <= cells:
            current = joined
            continue
        if current.strip():
            found.append(current)
        *whole, current = chop_cells(f"{indent}{word}", cells)
        found += whole
    return [*found, current]
