"""Text of `wakeful top`: the banner and the detail of one session, and the requests for that detail.

The text functions are pure and use style names of the theme, so that light and dark both look right; text of
agents is made plain first. `told_of` asks the daemon why a session is judged so and what happened to it. It
blocks: run it in a thread.
"""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Final, TypeVar

from msgspec import Struct
from rich.text import Text

from wakeful.alerts.mute_pause_model import pause_words
from wakeful.cli.commands.events import Events
from wakeful.cli.commands.status import MODES, Overview
from wakeful.cli.format.explanation import (
    HEALTHS,
    HOLDS,
    Line,
    evidence_lines,
    fired_lines,
    held_lines,
    ladder_lines,
    refused_lines,
    rung_style,
)
from wakeful.cli.format.sessions import decoded, needs_you
from wakeful.client.client import Client, Refused
from wakeful.core.durations import age
from wakeful.core.ids import SessionId
from wakeful.core.text import plain
from wakeful.judging.explanation import Hold, Why
from wakeful.judging.findings import Health
from wakeful.judging.resuming import command_line
from wakeful.judging.session_record import SessionRecord
from wakeful.judging.wording import call_text
from wakeful.tui.timeline import Call, Calls, Past, timeline_lines, wall
from wakeful.views.sessions import EventList, EventRecord

_ENDS: Final = {
    "ok": ("✓", "success"),
    "error": ("✗", "error"),
    "refused": ("⊘", "warning"),
    "open": ("…", "text"),
    "waiting": ("◆", "needs-you"),
    "unseen": ("?", "quiet"),
    "cut_off": ("✗", "quiet"),
}
_EVIDENCE_MAX: Final = 6
CALLS_SHOWN_MAX: Final = 8
# From so many columns on the detail stands beside the list.
WIDE: Final = 120
# What stands before the cells of the timeline.
_MARGIN_CELLS: Final = 9


class Standing(Struct, frozen=True):
    """What the banner is made of. `lost_since` is the time of day of the last proof, empty while the link is proven."""

    overview: Overview | None
    counts: str
    older: int
    filter: str
    shown: int
    agents: Sequence[str] = ()
    is_lost: bool = False
    proven_at: str = ""
    trouble: str = ""


def banner(standing: Standing) -> list[Line]:
    """What is wrong with the view first, then what Wakeful may touch, then how many stand where."""
    lines = [*_link_lines(standing)]
    overview = standing.overview
    if overview is not None and overview.daemon.paused is not None:
        words = plain(pause_words(overview.daemon.paused))
        lines.append(((f" {words} · `wakeful resume` ends it ", "paused"),))
    mode = overview.mode if overview is not None else ""
    title: list[tuple[str, str]] = [(" Wakeful", "title")]
    if mode:
        title.append((f"  {mode}: {MODES.get(mode, '')}", "quiet"))
    lines.append(tuple(title))
    lines.append(tuple(_counts(standing)))
    if overview is not None:
        lines += [((f" ! {plain(each)}", "warning"),) for each in _remarks(overview, standing.agents)]
    return lines


def _link_lines(standing: Standing) -> Iterator[Line]:
    if standing.is_lost:
        yield ((f" {lost_text(standing.proven_at, standing.trouble)} ", "lost"),)


def lost_text(proven_at: str, trouble: str) -> str:
    """What is said first while nothing is proven; `proven_at` is the time of day of the last proof."""
    said = plain(trouble or "trying again")
    if proven_at:
        return f"Connection lost. What you see is from {proven_at}; {said} …"
    return f"Connecting; {said} …"


def _counts(standing: Standing) -> Iterator[tuple[str, str]]:
    first, comma, others = standing.counts.partition(", ")
    urgent = first.endswith("you")
    yield (f" {first or 'nobody'}", "needs-you" if urgent else "text")
    yield (f"{comma}{others}", "text")
    if not standing.is_lost:
        yield (" · live", "success")
    if standing.older:
        yield (f" · {standing.older:,} older", "quiet")
    if standing.filter:
        yield (f" · filter: {plain(standing.filter)} ({standing.shown:,} fit), Esc clears it", "accent")


def _remarks(overview: Overview, agents: Sequence[str]) -> Iterator[str]:
    """What is seen late or not at all, what is open, and agents of the hub in trouble."""
    for eye in overview.daemon.eyes:
        if eye.slow is not None:
            yield f"sees late: {eye.name}: {eye.slow}"
        if eye.left_out is not None:
            yield f"not read: {eye.name}: {eye.left_out}"
    yield from agents
    for note in overview.daemon.notes:
        yield next((note.replace(*each) for each in _BY_KEY.items() if each[0] in note), note)


# What a command shows elsewhere, a key shows here.
_BY_KEY: Final = {"`wakeful incidents`": "key 3", "`wakeful checkpoint list`": "key 2"}


class Told(Struct, frozen=True):
    """What was asked about one session beside its record."""

    why: Why
    past: Past = Past()


def detail(record: SessionRecord, told: Told | None, now_wall: float, *, columns: int) -> list[Line]:
    """One session: who it is, why it is judged so and what to do, its time, the ladder, last calls, evidence."""
    is_wide = columns >= WIDE
    # Beside the list it has two fifths of them; each has its margins.
    width = columns * 2 // 5 - 6 if is_wide else columns - 3
    called = plain(record.name or "")
    lines: list[Line] = [
        (
            (f"{plain(record.project) or '-'}", "strong"),
            (f"  {called}  " if called else "  ", "text"),
            (str(record.id), "quiet"),
        )
    ]
    if told is None:
        return [*lines, (("…", "quiet"),)]
    why = told.why
    asks = needs_you(record) and why.health is Health.HEALTHY
    lines.append(((plain(why.sentence), "needs-you" if asks else HEALTHS[why.health]),))
    lines += [] if is_wide else [_ladder_line(why)]
    lines.append(
        (("→ ", "quiet"), (plain(command_line(why.command)), "strong"), (f"  {why.command_text}", "quiet"))
    )
    lines.append(_standing(record, now_wall))
    lines += [(), *ladder_lines(why)] if is_wide else []
    lines += _section("Not to be had now", [*refused_lines(why)])
    lines += _section("Timeline", timeline_lines(told.past, now_wall, width - _MARGIN_CELLS))
    lines += _section("Found", [*fired_lines(why, with_rules=False)])
    lines += _section("Held back", [*held_lines(why, with_rules=False)])
    lines += _section(
        "Last calls", [_call(each, record, now_wall) for each in told.past.calls.calls[-CALLS_SHOWN_MAX:]]
    )
    return lines + _section("Evidence", [*evidence_lines(why, whole_stamps=False)][-_EVIDENCE_MAX:])


def _standing(record: SessionRecord, now_wall: float) -> Line:
    began = _age(record.started_at, now_wall)
    parts = [
        f"{record.state}, {record.health}",
        record.provider,
        "managed" if record.managed else "found: only watched",
        *([f"began {began} ago"] if began else []),
        *([plain(record.cwd)] if record.cwd else []),
    ]
    return ((" · ".join(parts), "quiet"),)


def _ladder_line(why: Why) -> Line:
    """The same where lines are few."""
    pieces: list[tuple[str, str]] = []
    for each in why.ladder:
        if each.hold is not Hold.NOT_APPLICABLE:
            mark, style = HOLDS[each.hold]
            pieces += [(f"{mark} ", style), (f"{each.rung.replace('_', ' ')}  ", rung_style(each.hold))]
    return tuple(pieces)


def _call(call: Call, record: SessionRecord, now_wall: float) -> Line:
    """What is open where no agent was seen is neither running nor known to be cut off."""
    end = "unseen" if call.end == "open" and not record.session_alive else call.end
    mark, style = _ENDS.get(end, ("?", "warning"))
    words = plain(call_text(f"{call.untrusted.tool} {call.untrusted.input}"), 200)
    return ((f"  {mark} ", style), (f"{_age(call.at, now_wall):>4} ", "quiet"), (words, "text"))


def _section(title: str, lines: list[Line]) -> list[Line]:
    return [(), ((title, "title"),), *lines] if lines else []


def _age(stamp: str | None, now_wall: float) -> str:
    return age(now_wall - datetime.fromisoformat(stamp).timestamp()) if stamp is not None else ""


def assembled(lines: Sequence[Line], styles: Mapping[str, str]) -> Text:
    """As one text, by the styles of the theme."""
    text = Text()
    for number, line in enumerate(lines):
        if number:
            text.append("\n")
        for piece, style in line:
            text.append(piece, styles.get(style, ""))
    return text


# As many as the page reads for an hour's work.
CALLS_READ_MAX: Final = 300
# As many transitions as anybody looks at.
EVENT_PAGES_MAX: Final = 10

T = TypeVar("T", bound=Struct)


class _Member(Struct, frozen=True):
    id: str


class _Episode(Struct, frozen=True):
    opened_at: str
    resolved_at: str | None
    members: list[_Member]


class _Episodes(Struct, frozen=True):
    incidents: list[_Episode] = []


def told_of(client: Client, session_id: SessionId) -> Told:
    """Raises what the daemon refuses with."""
    one = f"/api/sessions/{session_id}"
    why = decoded(client.get(f"{one}/why").body, Why)
    calls = _asked(client, f"{one}/calls?limit={CALLS_READ_MAX}", Calls) or Calls()
    episodes = _asked(client, "/api/incidents?all=true", _Episodes) or _Episodes()
    critical = _asked(client, "/api/events?since=7d", Events)
    past = Past(
        _events(client, session_id),
        calls,
        [
            _span(each)
            for each in episodes.incidents
            if any(member.id == session_id for member in each.members)
        ],
        _acts(critical, session_id) if critical is not None else [],
    )
    return Told(why, past)


def _asked(client: Client, target: str, shape: type[T]) -> T | None:
    """None from a daemon of an earlier version, which has no such route."""
    try:
        return decoded(client.get(target).body, shape)
    except Refused:
        return None


def _span(episode: _Episode) -> tuple[float, float | None]:
    over = episode.resolved_at
    return wall(episode.opened_at), wall(over) if over is not None else None


def _acts(critical: Events, session_id: SessionId) -> list[float]:
    """When Wakeful did something about it."""
    mine = (each for each in critical.events if each.get("session_id") == session_id)
    return [wall(str(each["timestamp"])) for each in mine if each.get("action_taken", "none") != "none"]


def _events(client: Client, session_id: SessionId) -> list[EventRecord]:
    """Oldest first."""
    found: list[EventRecord] = []
    for _ in range(EVENT_PAGES_MAX):
        after = found[-1].seq if found else 0
        page = decoded(client.get(f"/api/sessions/{session_id}/events?after={after}").body, EventList)
        found += page.events
        if page.next_cursor is None:
            break
    return found
