"""Labelled cases: those beside this folder, and the shared ones beside `$WAKEFUL_CORPUS`."""

from pathlib import Path
from typing import Final

import pytest

from support.recordings import CORPUS
from wakeful.judging import events as e
from wakeful.judging.thresholds import Policy
from wakeful.replay.cases import BadCase, LabelledCase, label_of, read_case
from wakeful.replay.engine import Replay

OWN: Final = Path(__file__).parents[2] / "cases"


def cases() -> list[LabelledCase]:
    files = [*sorted(OWN.glob("*.jsonl")), *sorted((CORPUS.parent / "cases").glob("*.jsonl"))]
    lines = [line for file in dict.fromkeys(files) for line in file.read_bytes().splitlines()]
    return [read_case(line, "here") for line in lines]


@pytest.mark.parametrize("case", cases(), ids=lambda case: case.id)
def test_a_case_is_judged_as_its_label_says(case: LabelledCase) -> None:
    """The first finding at `now` is the one expected, or there is none; judging more often changes nothing."""
    for thorough in (False, True):
        replay = Replay([Policy()], until=case.now, thorough=thorough)
        replay.feed(case.events)
        (outcome,) = replay.finish(case.now, gone=case.gone)
        assert label_of(outcome.verdict) == case.expect


def read(events: str) -> tuple[e.Event, ...]:
    return read_case(b'{"id":"x","now":9,"expect":"ok","events":[%s]}' % events.encode(), "here").events


def test_a_call_is_made_right_after_what_came_before_it() -> None:
    """A case tells when a call came back; the time before it was the call's."""
    _, started, ended = read('{"t":1,"user":"go"},{"t":5,"tool":"Bash","input":{"command":"a"},"result":""}')
    assert isinstance(started, e.CallStarted)
    assert (started.at, started.tool, started.timeout_seconds) == (1.0, "Bash", 120.0)
    assert ended == e.CallEnded(5.0, started.call, result=b'""')


def test_a_call_after_words_is_made_when_it_came_back() -> None:
    """Between a last word and the next call lies whatever a person did."""
    _, started, _ = read('{"t":1,"text":"done"},{"t":500,"tool":"Read","input":{},"result":"x"}')
    assert started.at == 500.0


def test_a_call_without_a_result_is_open() -> None:
    """It declares its own time in milliseconds, as Claude Code does."""
    (started,) = read('{"t":5,"tool":"Task","input":{"timeout":1800000}}')
    assert isinstance(started, e.CallStarted)
    assert (started.kind, started.timeout_seconds) == (e.CallKind.SUBAGENT, 1800.0)


def test_what_the_client_says_is_progress_unless_the_provider_refused() -> None:
    """A refused request is life, a compaction is work."""
    events = read(
        '{"t":1,"system":"API Error: 500"},{"t":2,"system":"context condensed"},{"t":3,"system":"x"}'
    )
    assert events == (e.RequestRetried(1.0), e.CompactionEnded(2.0), e.Progressed(3.0))


def test_an_interruption_a_question_and_a_limit_are_heard() -> None:
    """None of them is progress: the turn is cut, waits for a person, or ended until a time that is named."""
    cut, asked, limited = read(
        '{"t":1,"user":"[Request interrupted by user]"},{"t":2,"system":"Bash needs your permission"},'
        '{"t":3,"system":"Claude usage limit reached|1770281100"}'
    )
    assert (cut, asked) == (e.TurnInterrupted(1.0), e.QuestionAsked(2.0, "Bash needs your permission"))
    assert isinstance(limited, e.TurnFailed)
    assert (limited.failure, limited.until) == (e.Failure.LIMIT, 1770281100.0)


def test_equal_words_have_equal_numbers() -> None:
    """The numbers identify a monologue."""
    one, same, other = read('{"t":1,"text":"a"},{"t":2,"text":"a"},{"t":3,"text":"b"}')
    assert isinstance(one, e.TextWritten)
    assert isinstance(same, e.TextWritten)
    assert isinstance(other, e.TextWritten)
    assert one.words == same.words != other.words


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"[]",
        b'{"id":"x"}',
        b'{"id":"x","events":[{}],"now":1}',
        b'{"id":',
        b'{"id":"x","events":[],"now":1,"proc":"zombie"}',
    ],
)
def test_what_is_no_case_says_where_it_stands(line: bytes) -> None:
    """A wrong line of a cases file is the author's mistake, and is named."""
    with pytest.raises(BadCase, match=r"^cases\.jsonl:7: not a case: "):
        read_case(line, "cases.jsonl:7")


@pytest.mark.parametrize(
    "said",
    [
        "The user doesn't want to take this action right now.",
        "User rejected tool use",
        "exec command rejected by user",
    ],
)
def test_a_persons_no_is_no_error(said: str) -> None:
    """In the words of any client."""
    *_, ended = read(f'{{"t":1,"tool":"Bash","input":{{}},"result":"{said}","is_error":true}}')
    assert isinstance(ended, e.CallEnded)
    assert ended.refused


def test_an_empty_answer_is_an_answer() -> None:
    """Three of them are a monologue; what blanks they are made of does not matter."""
    first, second = read('{"t":1,"text":""},{"t":2,"text":" \\n "}')
    assert isinstance(first, e.TextWritten)
    assert isinstance(second, e.TextWritten)
    assert first.words == second.words != 0


def test_a_providers_refusal_is_no_word_of_the_agent() -> None:
    """Some clients write it where the answer would stand."""
    assert read('{"t":1,"text":"API Error: 529 overloaded_error"}') == (e.RequestRetried(1.0),)


def test_what_is_mentioned_before_any_prompt_opens_no_turn() -> None:
    """No prompt waits for an answer yet."""
    assert read('{"t":1,"system":"session started"}') == (e.LogOpened(1.0),)


def test_a_heartbeat_is_no_progress_and_a_notice_no_person() -> None:
    """Only its writer lives; and what a client writes in a person's place begins nothing afresh."""
    assert read('{"t":1,"user":"go"},{"t":2,"system":"heartbeat ok"}') == (e.Prompted(1.0),)
    (prompted,) = read('{"t":1,"user":"<task-notification>a build ended"}')
    assert prompted == e.Prompted(1.0, by_person=False)
