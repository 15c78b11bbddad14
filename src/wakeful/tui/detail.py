"""Text of `wakeful top`: the banner and the detail of one session, and the requests for that detail.

The text functions are pure and use style names of the theme, so that light and dark both look right; text of
agents is made plain first. `fetch_detail` asks the daemon why a session is judged so and what happened to it.
It blocks: run it in a thread.
"""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Final, TypeVar

from msgspec import Struct
from rich.text import Text

from wakeful.alerts.mute_pause_model import pause_text
from wakeful.cli.format.explanation import (
    HEALTH_STYLES,
    LEVEL_MARKS,
    Line,
    evidence_lines,
    fired_lines,
    level_style,
    refused_action_lines,
    suppressed_lines,
)
from wakeful.cli.format.sessions import needs_you
from wakeful.client.client import DaemonClient, decode_body
from wakeful.client.errors import RequestRefused
from wakeful.core.durations import age
from wakeful.core.ids import SessionId
from wakeful.core.text import plain
from wakeful.judging.explanation import Explanation, LevelState
from wakeful.judging.findings import Health
from wakeful.judging.resume_command import command_line
from wakeful.judging.session_record import SessionRecord
from wakeful.judging.state_words import state_health_text
from wakeful.judging.wording import call_text
from wakeful.tui.commands import shown_name
from wakeful.tui.timeline import NO_CALLS, SessionHistory, timeline_lines, wall_of
from wakeful.views.incidents import IncidentList
from wakeful.views.records import (
    MODES,
    CallList,
    CallRecord,
    CriticalEventList,
    EventList,
    EventRecord,
    Overview,
)

_CALL_MARKS: Final = {
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
# From this width on the detail is beside the list.
WIDE: Final = 120
# The margin before the cells of the timeline.
_MARGIN_CELLS: Final = 9


class BannerState(Struct, frozen=True):
    """The content of the banner. `proven_at` is the time of day of the last message."""

    overview: Overview | None
    counts: str
    older: int
    filter: str
    shown: int
    agents: Sequence[str] = ()
    is_lost: bool = False
    proven_at: str = ""
    problem: str = ""


def banner(state: BannerState) -> list[Line]:
    """The lost connection first, then pause and mode, counts, and problems."""
    lines: list[Line] = []
    if state.is_lost:
        lines.append(((f" {disconnected_text(state.proven_at, state.problem)} ", "lost"),))
    overview = state.overview
    if overview is not None and overview.daemon.paused is not None:
        words = plain(pause_text(overview.daemon.paused))
        lines.append(((f" {words} · `wakeful unpause` ends it ", "paused"),))
    mode = overview.mode if overview is not None else ""
    title: list[tuple[str, str]] = [(" Wakeful", "title")]
    if mode:
        title.append((f"  {MODES.get(mode, mode)}", "quiet"))
    lines.append(tuple(title))
    lines.append(tuple(_counts(state)))
    if overview is not None:
        lines += [((f" ! {plain(each)}", "warning"),) for each in _problem_texts(overview, state.agents)]
    return lines


def disconnected_text(proven_at: str, problem: str) -> str:
    """The first line without a connection; `proven_at` is the time of day of the last message."""
    said = plain(problem or "trying again")
    if proven_at:
        return f"Connection lost. Last update {proven_at}; {said} …"
    return f"Connecting; {said} …"


def _counts(state: BannerState) -> Iterator[tuple[str, str]]:
    first, comma, others = state.counts.partition(", ")
    urgent = first.endswith("you")
    yield (f" {first or 'no sessions'}", "needs-you" if urgent else "text")
    yield (f"{comma}{others}", "text")
    if not state.is_lost:
        yield (" · live", "success")
    if state.older:
        yield (f" · {state.older:,} older", "quiet")
    if state.filter:
        yield (f" · filter: {plain(state.filter)} ({state.shown:,} match), Esc clears it", "accent")


def _problem_texts(overview: Overview, agents: Sequence[str]) -> Iterator[str]:
    """Slow or incomplete log sources, agents with problems, and notes of the daemon."""
    for source in overview.daemon.eyes:
        if source.slow is not None:
            yield f"slow: {source.name}: {source.slow}"
        if source.left_out is not None:
            yield f"skipped: {source.name}: {source.left_out}"
    yield from agents
    for note in overview.daemon.notes:
        yield next((note.replace(*each) for each in _BY_KEY.items() if each[0] in note), note)


# Here a key shows what a command shows elsewhere.
_BY_KEY: Final = {"`wakeful incidents`": "key 3", "`wakeful checkpoint list`": "key 2"}


class SessionDetail(Struct, frozen=True):
    """What the daemon answered about one session beside its record. Without `past` only the summary is shown."""

    why: Explanation
    past: SessionHistory | None = None


def head_line(record: SessionRecord, now_wall: float) -> Line:
    """The name of a session and what it is."""
    began = _age(record.started_at, now_wall)
    parts = [
        record.provider,
        "managed" if record.managed else "watched only",
        *([f"started {began} ago"] if began else []),
        *([plain(record.cwd)] if record.cwd else []),
    ]
    return ((shown_name(record), "strong"), (f"  {' · '.join(parts)}", "quiet"))


def why_lines(record: SessionRecord, explanation: Explanation) -> list[Line]:
    """The verdict in one line, and the command that helps in another."""
    asks = needs_you(record) and explanation.health is Health.HEALTHY
    return [
        ((plain(explanation.sentence), "needs-you" if asks else HEALTH_STYLES[explanation.health]),),
        (
            ("→ ", "quiet"),
            (plain(command_line(_by_name(record, explanation.command))), "strong"),
            (f"  {explanation.command_text}", "quiet"),
        ),
    ]


def _by_name(record: SessionRecord, command: Sequence[str]) -> list[str]:
    """Every command of Wakeful takes the short name."""
    own = command[:1] == ("wakeful",) and record.short_name
    return [record.short_name if own and each == record.id else each for each in command]


def detail(
    record: SessionRecord,
    fetched: SessionDetail,
    now_wall: float,
    *,
    cells: int,
    with_head: bool,
    calls_max: int = CALLS_SHOWN_MAX,
) -> list[Line]:
    """Liveness, timeline, findings, calls and evidence; `with_head` what is beside the conversation otherwise."""
    explanation, past = fetched.why, fetched.past or SessionHistory()
    lines: list[Line] = []
    if with_head:
        lines += [head_line(record, now_wall), *why_lines(record, explanation)]
    lines += [
        (
            ("id ", "quiet"),
            (str(record.id), "text"),
            (f"  {state_health_text(record.state, record.health)}", "quiet"),
        )
    ]
    lines.append(_liveness_line(explanation))
    lines += _section("Unavailable", [*refused_action_lines(explanation)])
    lines += _section("Timeline", timeline_lines(past, now_wall, cells - _MARGIN_CELLS))
    lines += _section("Findings", [*fired_lines(explanation, with_rules=False)])
    lines += _section("Suppressed", [*suppressed_lines(explanation, with_rules=False)])
    calls = past.calls.calls[-calls_max:] if calls_max > 0 else ()
    lines += _section("Last calls", [_call_line(each, record, now_wall) for each in calls])
    return lines + _section("Evidence", [*evidence_lines(explanation, whole_stamps=False)][-_EVIDENCE_MAX:])


def _liveness_line(explanation: Explanation) -> Line:
    pieces: list[tuple[str, str]] = []
    for each in explanation.ladder:
        if each.hold is not LevelState.NOT_APPLICABLE:
            mark, style = LEVEL_MARKS[each.hold]
            pieces += [(f"{mark} ", style), (f"{each.rung.replace('_', ' ')}  ", level_style(each.hold))]
    return tuple(pieces)


def _call_line(call: CallRecord, record: SessionRecord, now_wall: float) -> Line:
    """Without a living agent, an open call neither runs nor is known to be cut off."""
    end = "unseen" if call.end == "open" and not record.session_alive else call.end
    mark, style = _CALL_MARKS.get(end, ("?", "warning"))
    words = plain(call_text(f"{call.untrusted.tool} {call.untrusted.input}"), 200)
    return ((f"  {mark} ", style), (f"{_age(call.at, now_wall):>4} ", "quiet"), (words, "text"))


def _section(title: str, lines: list[Line]) -> list[Line]:
    return [(), ((title, "title"),), *lines] if lines else []


def _age(stamp: str | None, now_wall: float) -> str:
    return age(now_wall - datetime.fromisoformat(stamp).timestamp()) if stamp is not None else ""


def to_rich_text(lines: Sequence[Line], styles: Mapping[str, str]) -> Text:
    """One text in the styles of the theme."""
    text = Text()
    for number, line in enumerate(lines):
        if number:
            text.append("\n")
        for piece, style in line:
            text.append(piece, styles.get(style, ""))
    return text


# As many as the page reads for an hour's work.
CALLS_READ_MAX: Final = 300
# More transitions are not read.
EVENT_PAGES_MAX: Final = 10

T = TypeVar("T", bound=Struct)


def fetch_detail(client: DaemonClient, session_id: SessionId, *, with_past: bool) -> SessionDetail:
    """Raises DaemonAway, DaemonRefused or DaemonVersionMismatch."""
    explanation = decode_body(client.get(f"/api/sessions/{session_id}/why").body, Explanation)
    return SessionDetail(explanation, _fetch_past(client, session_id) if with_past else None)


def _fetch_past(client: DaemonClient, session_id: SessionId) -> SessionHistory:
    target = f"/api/sessions/{session_id}/calls?limit={CALLS_READ_MAX}"
    calls = _fetch_optional(client, target, CallList) or NO_CALLS
    incidents = _fetch_optional(client, "/api/incidents?all=true", IncidentList)
    critical = _fetch_optional(client, "/api/events?since=7d", CriticalEventList)
    return SessionHistory(
        _fetch_events(client, session_id),
        calls,
        [
            (wall_of(each.opened_at), wall_of(each.resolved_at) if each.resolved_at is not None else None)
            for each in (incidents.incidents if incidents is not None else ())
            if any(member.id == session_id for member in each.members)
        ],
        _action_times(critical, session_id) if critical is not None else [],
    )


def _fetch_optional(client: DaemonClient, target: str, shape: type[T]) -> T | None:
    """None from a daemon of an earlier version, which has no such route."""
    try:
        return decode_body(client.get(target).body, shape)
    except RequestRefused:
        return None


def _action_times(critical: CriticalEventList, session_id: SessionId) -> list[float]:
    """When Wakeful did something about it."""
    mine = (each for each in critical.events if each.get("session_id") == session_id)
    return [wall_of(str(each["timestamp"])) for each in mine if each.get("action_taken", "none") != "none"]


def _fetch_events(client: DaemonClient, session_id: SessionId) -> list[EventRecord]:
    """Oldest first."""
    found: list[EventRecord] = []
    for _ in range(EVENT_PAGES_MAX):
        after = found[-1].seq if found else 0
        page = decode_body(client.get(f"/api/sessions/{session_id}/events?after={after}").body, EventList)
        found += page.events
        if page.next_cursor is None:
            break
    return found
