"""What is found although no single event looks like it: each of these is reached by counting on, unjudged."""

from collections.abc import Sequence
from typing import Final

import pytest

from wakeful.judging import events as e
from wakeful.judging.findings import FindingCode
from wakeful.judging.thresholds import Policy
from wakeful.replay.engine import Replay

T0: Final = 1_770_000_000.0
POLICY: Final = Policy()


def episodes(events: Sequence[e.Event], *, thorough: bool) -> list[tuple[FindingCode, float, float | None]]:
    """Every episode in seconds since the beginning."""
    replay = Replay([POLICY], thorough=thorough)
    replay.feed(events)
    (outcome,) = replay.finish()
    return [
        (each.code, each.began.wall - T0, None if each.ended is None else each.ended.wall - T0)
        for each in outcome.episodes
    ]


def steady(seconds: float, gap_seconds: float) -> list[e.Event]:
    """One turn that never rests for long."""
    count = int(seconds / gap_seconds)
    return [e.Prompted(T0), *(e.Progressed(T0 + number * gap_seconds) for number in range(1, count))]


def spending(tokens_each: int) -> list[e.Event]:
    return [e.Prompted(T0), *(e.TokensSpent(T0 + number, tokens_each, 0) for number in range(1, 20))]


def calling(count: int) -> list[e.Event]:
    events: list[e.Event] = [e.Prompted(T0)]
    for number in range(count):
        given = b'{"command": "make %d"}' % number
        events.append(e.CallStarted(T0 + 1 + number, f"c{number}", "Bash", input=given))
        events.append(e.CallEnded(T0 + 1.5 + number, f"c{number}", result=b"made %d" % number))
    return events


@pytest.mark.parametrize(
    ("events", "began"),
    [
        (steady(POLICY.runaway_seconds + 600.0, 60.0), POLICY.runaway_seconds + 1.0),
        (spending(POLICY.runaway_tokens_max // 5), 6.0),
        (calling(POLICY.runaway_calls_max + 5), POLICY.runaway_calls_max + 1.0),
    ],
    ids=["duration", "tokens", "calls"],
)
def test_a_turn_that_runs_away_steadily_is_seen_in_time(events: Sequence[e.Event], began: float) -> None:
    """Duration, tokens and calls are each found at the moment they are too many."""
    assert episodes(events, thorough=False) == [(FindingCode.RUNAWAY, began, None)]
    assert episodes(events, thorough=False) == episodes(events, thorough=True)


def test_steady_work_below_every_limit_finds_nothing() -> None:
    """Time that passes between events is no silence, however long the turn is."""
    assert episodes(steady(POLICY.runaway_seconds - 600.0, 300.0), thorough=False) == []


def test_a_pause_between_turns_is_no_silence() -> None:
    """A day without a prompt, and the turn after it is judged from its own beginning."""
    day = 86_400.0
    events = [e.Prompted(T0), e.TurnEnded(T0 + 5), e.Prompted(T0 + day), e.Progressed(T0 + day + 700)]
    assert episodes(events, thorough=False) == [(FindingCode.SILENT, day + 600.0, day + 700.0)]
