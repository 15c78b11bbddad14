"""Claims about the entries of the views of `wakeful top`: answers in, lines out."""

import json
from datetime import UTC, datetime

from wakeful.tui.views import event_entries

NOW = datetime(2027, 1, 16, 8, tzinfo=UTC).timestamp()


def event_line(**event: str) -> str:
    events = [{"timestamp": "2027-01-14T22:01:00.000Z", **event}]
    body = json.dumps({"path": "", "events": events, "left_out": 0, "paused": None})
    names = {"claude-1": "docs"}
    (entry,) = event_entries(body.encode(), NOW, lambda each: names.get(each, each))
    return "".join(text for text, _ in entry.lines[0])


def test_an_event_of_another_day_has_room_after_its_time() -> None:
    """The date is the longest form of a time, and what happened is a word of its own."""
    day, month, time, *words = event_line(event="session_unhealthy", reason="session_dead").split()
    assert (month, len(time), words[:2]) == ("Jan", len("22:01"), ["session", "unhealthy"])
    assert day.isdigit()


def test_an_event_names_its_session_as_the_list_does() -> None:
    """A recovery says what was before; a session that is not listed is called as its project."""
    listed = event_line(
        event="session_recovered", session_id="claude-1", project_key="shop", reason="session_dead"
    )
    assert listed.split()[3:] == ["session", "recovered", "docs", "before:", "session", "dead"]
    gone = event_line(event="queue_stalled", session_id="claude-2", project_key="shop", reason="no worker")
    assert gone.split()[5] == "shop"
