"""Text of sessions: rows of the list, those that need attention first, and whole records.

Pure: records in, rows and lines out. `table.py` draws the rows. The text of a record has every field of its
JSON, in the same order and with the same names.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime
from enum import StrEnum
from typing import Any, Final

from msgspec import Struct

from wakeful.alerts.mute_pause_model import PauseRecord, pause_lines
from wakeful.client.client import decode_body
from wakeful.core.decoding import decode_json
from wakeful.core.durations import age
from wakeful.core.ids import abbreviate_ids
from wakeful.core.text import plain
from wakeful.judging.findings import NEEDS_YOU, Attention, FindingCode, Health, State, WaitKind
from wakeful.judging.resume_command import command_line
from wakeful.judging.session_record import SessionRecord, WaitRecord
from wakeful.judging.state_words import health_text, state_column_text, state_health_text, state_text
from wakeful.judging.waits import PROBABLY_ASKS
from wakeful.judging.wording import call_text
from wakeful.reports.model import needs_you_text
from wakeful.views.records import Overview, SessionList


class RowTone(StrEnum):
    """How prominent a row is."""

    NEEDS_YOU = "needs you"
    PROBLEM = "problem"
    BUSY = "busy"
    LATER = "later"
    IDLE = "idle"
    PAST = "past"


class SessionTableRow(Struct, frozen=True):
    """One session, in the words of the list."""

    tone: RowTone
    record: SessionRecord
    word: str
    age: str
    project: str
    managed: bool
    doing: str


_STATES: Final = (
    State.WAITING,
    State.PROMPTING,
    State.STARTING,
    State.STOPPING,
    State.IDLE,
    State.DETACHED,
    State.STOPPED,
)


def left_out_lines(overview: bytes) -> list[str]:
    """One line for each log source that does not read everything: without them a list would pass for a whole one."""
    sources = decode_body(overview, Overview).daemon.eyes
    return [f"not shown: {each.name}: {each.left_out}" for each in sources if each.left_out is not None]


def decode_sessions(body: bytes) -> SessionList:
    """The page in an answer. Raises DaemonVersionMismatch."""
    return decode_body(body, SessionList)


class _PausedBody(Struct, frozen=True):
    paused: PauseRecord | None = None


def paused_lines(body: bytes) -> list[str]:
    """The first line of a list, from its answer: every list of the daemon names under `paused` who paused."""
    return pause_lines(decode_body(body, _PausedBody).paused)


def session_rows(records: Iterable[SessionRecord], now_wall: float) -> list[SessionTableRow]:
    """Rows in reading order."""
    return [row_of(record, now_wall) for record in sorted(records, key=sort_key_of)]


def needs_you(record: SessionRecord) -> bool:
    return record.attention in NEEDS_YOU


def counts_text(records: Sequence[SessionRecord], word_of: Callable[[State], str] = state_text) -> str:
    """`2 need you, 3 running, 1 idle`; each session counts once."""
    counts = Counter(None if needs_you(record) else record.state for record in records)
    parts = [needs_you_text(counts[None])] if counts[None] else []
    return ", ".join([*parts, *(f"{counts[state]:,} {word_of(state)}" for state in _STATES if counts[state])])


def short_ids(records: Sequence[SessionRecord]) -> dict[str, str]:
    """For every id a prefix that commands accept for it."""
    return abbreviate_ids(str(record.id) for record in records)


def match_lines(records: Sequence[SessionRecord]) -> list[str]:
    """One line for each session of a choice: its name, state, project and short id."""
    ids = short_ids(records)
    rows = [
        (
            plain(each.short_name or each.name or each.agent or each.project) or ids[each.id],
            state_health_text(each.state, each.health),
            plain(each.project) or "-",
            ids[each.id],
        )
        for each in records
    ]
    widths = [max(len(row[column]) for row in rows) for column in range(3)]
    return [
        "  ".join((*(cell.ljust(width) for cell, width in zip(row[:3], widths, strict=True)), row[3]))
        for row in rows
    ]


def sort_key_of(record: SessionRecord) -> tuple[int, int, float, str]:
    """Sorts sessions that need a person first, then by state; the most recently active first among equals."""
    rank = NEEDS_YOU.index(record.attention) if needs_you(record) else len(NEEDS_YOU)
    return rank, _STATES.index(record.state), -(_wall(record.last_activity_at) or 0.0), record.id


def row_of(record: SessionRecord, now_wall: float) -> SessionTableRow:
    since = _wall(_since(record))
    return SessionTableRow(
        tone=_tone(record),
        record=record,
        word=_row_word(record),
        age=age(now_wall - since) if since is not None else "-",
        project=plain(record.project) or "-",
        managed=record.managed,
        doing=plain(_countdown(record, now_wall) or activity_text(record)),
    )


def _row_word(record: SessionRecord) -> str:
    if record.health in {Health.DEAD, Health.STALE}:
        return health_text(record.health)
    return state_column_text(record.state)


def _tone(record: SessionRecord) -> RowTone:
    if record.attention in {Attention.PERSON, Attention.LOGIN}:
        return RowTone.NEEDS_YOU
    if record.attention is Attention.OPERATOR:
        return RowTone.PROBLEM
    if record.attention is Attention.TIME:
        return RowTone.LATER
    if record.state is State.STOPPED:
        return RowTone.PAST
    return RowTone.IDLE if record.state in {State.IDLE, State.DETACHED} else RowTone.BUSY


def _since(record: SessionRecord) -> str | None:
    if record.findings:
        return record.findings[0].since
    return record.expected_waits[0].since if record.expected_waits else record.last_activity_at


def _countdown(record: SessionRecord, now_wall: float) -> str | None:
    """How long a usage limit lasts, if that is known."""
    if not record.findings or record.findings[0].code is not FindingCode.USAGE_LIMITED:
        return None
    until = next((_wall(each.until) for each in record.expected_waits if each.kind is WaitKind.LIMIT), None)
    if until is None:
        return None
    return f"usage limit, ends in {age(until - now_wall)}" if until > now_wall else "usage limit, ended"


def activity_text(record: SessionRecord) -> str:
    """What it does or waits for, or what is wrong. May hold an agent's words: show it plain."""
    if record.findings:
        first = record.findings[0]
        return " · ".join([first.summary, *map(call_text, first.untrusted[:1])])
    if record.expected_waits:
        first_wait, *others = record.expected_waits
        return _wait_text(first_wait) + (f" (+{len(others)} more)" if others else "")
    if record.state is State.IDLE:
        return f"asks: {record.asks.untrusted}" if record.asks is not None else "ready for a prompt"
    if record.state is State.DETACHED:
        return "done; Wakeful cannot send it a prompt"
    if record.health is Health.UNKNOWN:
        return "ended; no log shows how" if record.broken_at is not None else "no process seen"
    return "ended normally" if record.state is State.STOPPED else ""


def _wait_text(wait: WaitRecord) -> str:
    about = call_text(wait.untrusted)
    if wait.kind is WaitKind.MODEL:
        return "thinking"
    if wait.kind is WaitKind.PERSON:
        asks = PROBABLY_ASKS if wait.probable else "asks you"
        return f"{asks} · {about}" if about else asks
    return about or wait.evidence


def _wall(stamp: str | None) -> float | None:
    return datetime.fromisoformat(stamp).timestamp() if stamp is not None else None


def record_lines(body: bytes) -> list[str]:
    """The fields of a JSON object, one to a line, nested ones indented."""
    return list(_field_lines(decode_json(body, dict[str, Any]), indent=""))


def ending_lines(body: bytes) -> list[str]:
    answer = decode_json(body, dict[str, Any])
    ending, session = answer["ending"].replace("_", " "), answer["session"]
    return [plain(f"{ending}: {session['id']} is {state_health_text(session['state'], session['health'])}")]


def saved_case_lines(body: bytes) -> list[str]:
    case = decode_json(body, dict[str, Any])
    said = ", ".join(case["verdict"]["findings"]) or health_text(case["verdict"]["health"])
    return [
        plain(f"saved {case['id']} with {case['events']} events; verdict {said}, expected {case['expect']}"),
        plain(f"judge it again: wakeful replay {case['path']}"),
    ]


def _field_lines(fields: dict[str, Any], indent: str) -> Iterator[str]:
    width = max(map(len, fields), default=0)
    for key, value in fields.items():
        if isinstance(value, dict):
            yield f"{indent}{plain(key)}"
            yield from _field_lines(value, f"{indent}  ")
        elif isinstance(value, list) and value and isinstance(value[0], dict):
            yield f"{indent}{plain(key)}"
            for each in value:
                first, *others = _field_lines(each, f"{indent}    ")
                yield f"{indent}  - {first.strip()}"
                yield from others
        else:
            yield f"{indent}{plain(key).ljust(width)}  {value_text(value, key)}"


def value_text(value: Any, key: str = "") -> str:
    """One value as people read it."""
    if value is None or value == []:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list):
        texts = [plain(str(each)) for each in value]
        return command_line(texts) if key == "argv" else " | ".join(texts)
    return plain(str(value))
