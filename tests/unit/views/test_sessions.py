"""Claims about the calls of a session, as a page lists them."""

import json

import msgspec
import pytest

from support.supervisor_fixture import SupervisorFixture, subject
from wakeful.judging.events import (
    BudgetReported,
    CallEnded,
    CallStarted,
    Event,
    Prompted,
    QuestionAnswered,
    QuestionAsked,
    TextWritten,
    TokensSpent,
    TurnEnded,
)
from wakeful.views.calls import open_call_end, recent_calls
from wakeful.views.records import CallEnd, CallList

KEY = "sk-ant-api03-" + "a1B2" * 12


def started(at: float, call: str, tool: str = "Bash", **given: str) -> CallStarted:
    return CallStarted(at, call, tool, input=json.dumps(given).encode())


def ends(found: CallList) -> list[tuple[str, CallEnd]]:
    return [(each.untrusted.tool, each.end) for each in found.calls]


def test_calls_are_joined_with_what_came_of_them() -> None:
    """Each end says how; what is open stays open, and a turn that is over cuts off what did not come back."""
    events: list[Event] = [
        Prompted(10.0),
        started(11.0, "a", "Read", file_path="x"),
        CallEnded(12.0, "a", result=b"fine"),
        started(13.0, "b", "Bash", command="false"),
        CallEnded(14.0, "b", is_error=True),
        started(15.0, "c", "Write"),
        CallEnded(16.0, "c", is_error=True, refused=True),
        started(17.0, "d", "Fetch"),
        TurnEnded(18.0),
        Prompted(19.0),
        started(20.0, "e", "Task"),
    ]
    found = recent_calls(events, 50)
    assert ends(found) == [
        ("Read", CallEnd.OK),
        ("Bash", CallEnd.ERROR),
        ("Write", CallEnd.REFUSED),
        ("Fetch", CallEnd.CUT_OFF),
        ("Task", CallEnd.OPEN),
    ]
    assert found.calls[0].untrusted.result == "fine"
    assert (found.calls[0].at, found.calls[0].ended_at) == (
        "1970-01-01T00:00:11.000Z",
        "1970-01-01T00:00:12.000Z",
    )
    assert found.calls[4].ended_at is None
    assert found.since == "1970-01-01T00:00:10.000Z"


def test_a_prompt_written_behind_its_first_call_cuts_nothing_off() -> None:
    """A first batch out of order: the call is of that prompt's turn; a prompt that really follows ends the turn before."""
    late = [started(11.0, "a"), Prompted(10.0)]
    assert ends(recent_calls(late, 50)) == [("Bash", CallEnd.OPEN)]
    assert ends(recent_calls([*late, Prompted(12.0)], 50)) == [("Bash", CallEnd.CUT_OFF)]
    assert ends(recent_calls([started(100.0, "a"), Prompted(10.0)], 50)) == [("Bash", CallEnd.CUT_OFF)]


@pytest.mark.parametrize("asked", ["Bash", 'Bash {"command":"make"}'])
def test_an_open_call_waits_is_cut_off_or_runs_as_its_session_does(
    house: SupervisorFixture, asked: str
) -> None:
    """It waits where its session asks about it, is cut off only where its agent is known to be gone, else it is open."""
    process = house.start("a")
    assert standing(house, "a", "Bash") is CallEnd.OPEN
    at = house.clock.now().wall
    house.hear(
        "a", Prompted(at), started(at, "r", "Read"), started(at, "b", "Bash"), QuestionAsked(at, asked)
    )
    assert (standing(house, "a", "Bash"), standing(house, "a", "Read")) == (CallEnd.WAITING, CallEnd.OPEN)
    house.hear("a", QuestionAnswered(at, "Bash"))
    assert standing(house, "a", "Bash") is CallEnd.OPEN
    house.end(process)
    assert standing(house, "a", "Bash") is CallEnd.CUT_OFF


def standing(house: SupervisorFixture, name: str, tool: str) -> CallEnd:
    session = house.registry.sessions[subject(name).id]
    assert session.verdict is not None
    return open_call_end(session.activity, session.verdict, tool)


def test_a_call_behind_which_the_budget_was_used_up_is_cut_off(house: SupervisorFixture) -> None:
    """Its client lives on and does nothing more in that turn."""
    house.start("a")
    now = house.clock.now().wall
    paid = [BudgetReported(now, 0.0, 0.3), TokensSpent(now, 1, 1, 1.0), BudgetReported(now, 0.2, 0.3)]
    house.hear("a", Prompted(now), *paid, started(now, "c"))
    assert standing(house, "a", "Bash") is CallEnd.OPEN
    house.hear("a", TokensSpent(now, 1, 1, 1.0))
    assert standing(house, "a", "Bash") is CallEnd.CUT_OFF


def test_a_log_without_ids_means_the_newest_open_call() -> None:
    """Two calls of one tool are open: the later one came back."""
    events = [started(1.0, "a"), started(2.0, "b"), CallEnded(3.0, "", tool="Bash"), CallEnded(4.0, "nobody")]
    assert ends(recent_calls(events, 50)) == [("Bash", CallEnd.OPEN), ("Bash", CallEnd.OK)]


def test_only_the_newest_are_told_and_no_secret_is() -> None:
    """A key in a command, in a result or in a tool's name is removed, and long words are cut."""
    events: list[Event] = [TextWritten(0.0)]
    for number in range(9):
        events.append(started(number + 1.0, str(number), f"Bash {KEY}", command=f"curl -H {KEY} {'x' * 400}"))
        events.append(CallEnded(number + 1.5, str(number), result=KEY.encode()))
    found = recent_calls(events, 3)
    assert len(found.calls) == 3
    assert KEY not in msgspec.json.encode(found).decode()
    assert max(len(text) for each in found.calls for text in msgspec.structs.astuple(each.untrusted)) <= 300


def test_nothing_is_known_of_a_log_that_cannot_be_read() -> None:
    """No events are an empty list, not an error."""
    assert recent_calls([], 50) == CallList((), None)
