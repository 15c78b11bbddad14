"""Claims about the strip of time in `wakeful top`: what each cell says, how long each kind lasted, and what is not known."""

import msgspec

from wakeful.core.clock import iso
from wakeful.tui.timeline import (
    CELLS_MAX,
    CELLS_MIN,
    SessionHistory,
    timeline_lines,
)
from wakeful.views.records import CallEnd, CallList, CallRecord, CallText, EventRecord

NOW = 1_800_000_000.0


def moved(minutes_ago: float, state: str, health: str = "healthy", reason: str = "") -> EventRecord:
    return EventRecord(1, iso(NOW - minutes_ago * 60), None, state, None, health, reason or state)


def test_changes_that_were_left_out_are_counted() -> None:
    """A session that changed too often: a line below the strip says what was not stored."""
    events = [moved(60, "idle"), msgspec.structs.replace(moved(30, "prompting"), left_out=1_234)]
    *_, legend = timeline_lines(SessionHistory(events), NOW)
    assert legend[-1] == ("1,234 changes left out", "quiet")


def test_an_hour_is_drawn_by_what_was_true_in_it() -> None:
    """Blank before the first transition, then each kind as long as it lasted, up to now."""
    events = [moved(45, "idle"), moved(30, "prompting"), moved(15, "stopped", "dead", "session_dead")]
    strip, legend = timeline_lines(SessionHistory(events), NOW)
    cells = "".join(text for text, _ in strip[1:])
    quarter = CELLS_MAX // 4
    assert cells == " " * quarter + "▂" * quarter + "▄" * quarter + "█" * quarter
    assert [text.strip() for text, _ in legend[1:]] == ["▄ running 15m", "▂ idle 15m", "█ dead 15m"]


def test_a_long_life_is_drawn_over_more_hours() -> None:
    """The shortest span that shows everything; of a session of weeks, the last seven days."""
    for hours, shown in ((2, 3), (20, 24), (900, 168)):
        strip, legend = timeline_lines(SessionHistory([moved(hours * 60, "idle")]), NOW)
        blank = sum(text == " " for text, _ in strip[1:])
        assert blank == round(CELLS_MAX * max(0, shown - hours) / shown)
        assert "idle" in legend[1][0]


def ran(minutes_ago: float, minutes: float | None, end: CallEnd = CallEnd.OK) -> CallRecord:
    at = NOW - minutes_ago * 60
    ended_at = iso(at + minutes * 60) if minutes is not None else None
    return CallRecord(iso(at), ended_at, end, CallText("Bash", "{}", ""))


def test_work_is_parted_into_model_and_tools() -> None:
    """As on the page: between calls it waits for its model; before the part of the log that was read it just works."""
    calls = CallList((ran(45, 15), ran(40, 5), ran(15, None, CallEnd.OPEN)), iso(NOW - 45 * 60))
    strip, legend = timeline_lines(SessionHistory([moved(60, "prompting")], calls), NOW)
    quarter = CELLS_MAX // 4
    assert (
        "".join(text for text, _ in strip[1:])
        == "▄" * quarter + "▅" * quarter + "▃" * quarter + "▅" * quarter
    )
    assert [text.strip() for text, _ in legend[1:]] == [
        "▄ running 15m",
        "▃ waiting for the model 15m",
        "▅ running a tool 30m",
    ]


def test_a_call_that_was_cut_off_is_not_drawn_as_if_it_had_run() -> None:
    """Its end is unknown; nor did the turn wait for its model from then on."""
    calls = CallList((ran(30, None, CallEnd.CUT_OFF),), iso(NOW - 3600))
    _, legend = timeline_lines(SessionHistory([moved(60, "prompting")], calls), NOW)
    assert [text.strip() for text, _ in legend[1:]] == [
        "▄ running 30m",
        "▃ waiting for the model 30m",
    ]


def test_incidents_and_acts_stand_below_the_time_they_happened_in() -> None:
    """A line as long as the incident, a diamond where Wakeful acted; no line if there was neither."""
    past = SessionHistory([moved(60, "idle")], incidents=[(NOW - 1800, NOW - 900)], acts=[NOW - 1790])
    _, marks, _ = timeline_lines(past, NOW)
    quarter = CELLS_MAX // 4
    cells = "".join(text for text, _ in marks[1:])
    assert cells == " " * 2 * quarter + "◆" + "─" * (quarter - 1) + " " * quarter


def test_a_strip_fits_into_its_place() -> None:
    """As many cells as there is room for, within reason."""
    for given, drawn in ((200, CELLS_MAX), (30, 30), (3, CELLS_MIN)):
        strip, *_ = timeline_lines(SessionHistory([moved(10, "idle")]), NOW, given)
        assert len(strip) - 1 == drawn


def test_nobody_is_drawn_without_a_transition() -> None:
    """Nothing is known, nothing is shown."""
    assert timeline_lines(SessionHistory(), NOW) == []
