"""The timeline of all sessions: what each span says, and what is not known."""

import pytest

from wakeful.core.clock import iso
from wakeful.core.ids import SessionId
from wakeful.storage.base import StateChange
from wakeful.views import timeline
from wakeful.views.timeline import ActivityKind, Lane, LaneSpan, activity_kind, fleet_timeline

A, B = SessionId("claude-a"), SessionId("claude-b")
NOW = 1_800_000_000.0
SINCE = NOW - 86_400


def change(seconds: float, state: str, old_state: str = "idle", *, of: SessionId = A) -> StateChange:
    return StateChange(
        of, SINCE + seconds, old_state, "healthy" if old_state else "", state, "healthy", state
    )


def spans(*expected: tuple[int, ActivityKind]) -> tuple[LaneSpan, ...]:
    return tuple(LaneSpan(*each) for each in expected)


def test_a_lane_begins_with_what_was_before_its_first_change() -> None:
    """A new session has nothing before it; a change to the same kind of work is no span of its own."""
    found = fleet_timeline(
        [
            change(60.9, "prompting"),
            change(100, "idle", "", of=B),
            change(200, "starting", "prompting"),
            change(300, "waiting", "prompting"),
        ],
        SINCE,
        NOW,
    )
    idle, working, person = ActivityKind.IDLE, ActivityKind.WORKING, ActivityKind.PERSON
    assert found.lanes == (
        Lane(A, spans((0, idle), (60, working), (300, person))),
        Lane(B, spans((100, idle))),
    )
    assert (found.since, found.until, found.complete) == (iso(SINCE), iso(NOW), True)


def test_of_too_many_changes_the_timeline_begins_with_the_oldest_that_was_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What was not read is not drawn as if nothing had happened."""
    monkeypatch.setattr(timeline, "CHANGES_MAX", 2)
    found = fleet_timeline([change(500, "prompting"), change(600, "idle", "prompting")], SINCE, NOW)
    assert (found.since, found.complete) == (iso(SINCE + 500), False)
    assert found.lanes[0].spans[1:] == spans((0, ActivityKind.WORKING), (100, ActivityKind.IDLE))


@pytest.mark.parametrize(
    ("standing", "kind"),
    [
        (("waiting", "healthy", "waiting"), ActivityKind.PERSON),
        (("prompting", "degraded", "silent"), ActivityKind.SILENT),
        (("prompting", "degraded", "loop"), ActivityKind.PROBLEM),
        (("stopped", "dead", "session_dead"), ActivityKind.DEAD),
        (("stopped", "unknown", "stopped"), ActivityKind.UNKNOWN),
        (("stopped", "healthy", "stopped"), ActivityKind.STOPPED),
        (("detached", "healthy", "detached"), ActivityKind.IDLE),
    ],
)
def test_each_kind_of_time_has_one_name(standing: tuple[str, str, str], kind: ActivityKind) -> None:
    """The same in `wakeful top` and on the page."""
    assert activity_kind(*standing) is kind
