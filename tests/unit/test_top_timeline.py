"""Claims about the strip of time in `wakeful top`: what each cell says, how long each kind lasted, and what is not known."""

import pytest

from wakeful.domain.moment import iso
from wakeful.interfaces.tui.timeline import CELLS, Kind, kind_of, timeline_lines
from wakeful.services.session_events import EventRecord

NOW = 1_800_000_000.0


def moved(minutes_ago: float, state: str, health: str = "healthy", reason: str = "") -> EventRecord:
    return EventRecord(1, iso(NOW - minutes_ago * 60), None, state, None, health, reason or state)


def test_an_hour_is_drawn_by_what_was_true_in_it() -> None:
    """Blank before the first transition, then each kind as long as it lasted, up to now."""
    strip, legend = timeline_lines(
        [moved(45, "idle"), moved(30, "prompting"), moved(15, "stopped", "dead", "session_dead")], NOW
    )
    cells = "".join(text for text, _ in strip[1:])
    quarter = CELLS // 4
    assert cells == " " * quarter + "▂" * quarter + "▅" * quarter + "█" * quarter
    assert [text.strip() for text, _ in legend[1:]] == ["▅ working 15m", "▂ idle 15m", "█ dead 15m"]


def test_a_long_life_is_drawn_over_more_hours() -> None:
    """The shortest span that shows everything; of a session of weeks, the last seven days."""
    for hours, shown in ((2, 3), (20, 24), (900, 168)):
        strip, legend = timeline_lines([moved(hours * 60, "idle")], NOW)
        blank = sum(text == " " for text, _ in strip[1:])
        assert blank == round(CELLS * max(0, shown - hours) / shown)
        assert "idle" in legend[1][0]


def test_nobody_is_drawn_without_a_transition() -> None:
    """Nothing is known, nothing is shown."""
    assert timeline_lines([], NOW) == []


@pytest.mark.parametrize(
    ("event", "kind"),
    [
        (moved(1, "waiting"), Kind.PERSON),
        (moved(1, "prompting", "degraded", "silent"), Kind.SILENT),
        (moved(1, "prompting", "degraded", "loop"), Kind.TROUBLE),
        (moved(1, "stopped", "unknown"), Kind.UNKNOWN),
        (moved(1, "stopped"), Kind.STOPPED),
        (moved(1, "detached"), Kind.IDLE),
    ],
)
def test_the_words_are_those_of_the_page(event: EventRecord, kind: Kind) -> None:
    """One name for each kind of time."""
    assert kind_of(event) is kind
