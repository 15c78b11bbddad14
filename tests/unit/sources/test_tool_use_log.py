"""Logs of tool hooks: which post belongs to which pre, what an error is, and how they are judged."""

import json
from typing import Any

import pytest

from support.judging_helpers import at, codes, folded, held
from wakeful.judging import events as e
from wakeful.judging.findings import FindingCode
from wakeful.judging.judge import judge
from wakeful.judging.thresholds import Policy
from wakeful.sources.tool_use_log import ToolUseReader

T = 1_770_281_100.0


def pre(tool: str = "Bash", seconds: float = 0.0, given: Any = None, **fields: Any) -> bytes:
    common = {
        "event": "pre_tool_use",
        "tool_name": tool,
        "tool_input": given or {},
        "start_time": T + seconds,
    }
    return json.dumps(common | fields).encode()


def post(tool: str = "Bash", seconds: float = 0.0, preview: Any = "ok", **fields: Any) -> bytes:
    common = {
        "event": "post_tool_use",
        "tool_name": tool,
        "tool_output_preview": preview,
        "end_time": T + seconds,
    }
    return json.dumps(common | fields).encode()


def told(*lines: bytes) -> list[e.Event]:
    reader = ToolUseReader()
    return [event for line in lines for event in reader.read(line)]


def test_a_call_and_its_end() -> None:
    """Pre and post become one call, with the input and the timeout it declared."""
    started, ended = told(pre(given={"command": "make", "timeout": 900_000}), post(seconds=1.4))
    assert isinstance(started, e.CallStarted)
    assert (started.at, started.tool, started.timeout_seconds) == (T, "Bash", 900.0)
    assert started.input == b'{"command": "make", "timeout": 900000}'
    assert ended == e.CallEnded(T + 1.4, "", result=b'"ok"', tool="Bash")


def test_a_post_belongs_to_the_newest_open_pre_of_its_tool() -> None:
    """Without ids the newest call of the same tool came back, and no other."""
    activity = folded(told(pre(given=1), pre("Read", 1.0), pre(seconds=2.0, given=2), post(seconds=3.0)))
    assert [(call.tool, call.input) for call in activity.calls.values()] == [("Bash", b"1"), ("Read", b"{}")]


def test_an_id_is_believed_where_there_is_one() -> None:
    """With `tool_use_id` the oldest call can come back first."""
    lines = (pre(tool_use_id="a"), pre(seconds=1.0, tool_use_id="b"), post(seconds=2.0, tool_use_id="a"))
    assert list(folded(told(*lines)).calls) == ["b"]


def test_a_reader_that_begins_anew_still_finds_the_open_call() -> None:
    """The reader remembers nothing: after a restart the post still ends what the pre opened."""
    activity = folded(ToolUseReader().read(pre()))
    folded(ToolUseReader().read(pre(seconds=1.0)), activity)
    folded(ToolUseReader().read(post(seconds=2.0)), activity)
    folded(ToolUseReader().read(post(seconds=3.0)), activity)
    assert not activity.calls


@pytest.mark.parametrize(
    ("fields", "is_error"),
    [
        ({}, False),
        ({"is_error": True}, True),
        ({"is_error": False, "tool_output_preview": "Error: x"}, False),
        ({"error": "broken"}, True),
        ({"error": ""}, False),
        ({"exit_code": 0, "tool_output_preview": "Traceback (most"}, False),
        ({"exit_code": 2}, True),
        ({"is_error": None, "error": None, "tool_output_preview": "Error: x"}, True),
        ({"tool_output_preview": "Error: no such file"}, True),
        ({"tool_output_preview": "Exit code 1\noops"}, True),
        ({"tool_output_preview": "Exit code 0\nfine"}, False),
        ({"tool_output_preview": "Traceback (most recent call last)"}, True),
        ({"tool_output_preview": "<tool_use_error>x</tool_use_error>"}, True),
        ({"tool_output_preview": "No Error here"}, False),
        ({"tool_output_preview": {"stdout": "Error"}}, False),
    ],
)
def test_what_counts_as_an_error(fields: dict[str, Any], is_error: bool) -> None:
    """What the hook says decides; only if it says nothing, how the result begins."""
    (ended,) = told(post(**fields))
    assert isinstance(ended, e.CallEnded)
    assert ended.is_error is is_error


@pytest.mark.parametrize(
    ("stamps", "seconds"),
    [
        ({"start_time": T}, T),
        ({"timestamp": T + 1}, T + 1),
        ({"timestamp": "2026-02-05T08:45:00Z"}, T),
        ({"start_time": T, "timestamp": T + 1}, T),
    ],
)
def test_times_in_every_spelling(stamps: dict[str, Any], seconds: float) -> None:
    """Epoch or ISO, `start_time` before `timestamp`."""
    line = json.dumps({"event": "pre_tool_use", "tool_name": "Bash"} | stamps).encode()
    assert [event.at for event in told(line)] == [seconds]


def test_six_error_results_in_a_row_are_a_cascade() -> None:
    """More than five consecutive errors, and a good result ends the row; a lost pre does not hide one."""
    failed = []
    for number in range(1, 7):
        failed += [pre(seconds=number, given=number), post(seconds=number, exit_code=1)]
    assert codes(judge(folded(told(*failed)), held(), Policy(), at(T + 10))) == [FindingCode.ERROR_CASCADE]
    assert codes(judge(folded(told(*failed[:-2])), held(), Policy(), at(T + 10))) == []
    ended = [*failed, pre(seconds=7), post(seconds=7)]
    assert codes(judge(folded(told(*ended)), held(), Policy(), at(T + 10))) == []
    posts = [post(seconds=number, exit_code=1) for number in range(6)]
    assert codes(judge(folded(told(*posts)), held(), Policy(), at(T + 10))) == [FindingCode.ERROR_CASCADE]


def test_silence_is_counted_from_the_last_entry() -> None:
    """600 s after the last entry, unless the open call declared more time."""

    def silent_after(seconds: float, **given: Any) -> bool:
        activity = folded(told(pre(), post(seconds=1.0), pre(seconds=2.0, given=given)))
        return FindingCode.SILENT in codes(judge(activity, held(), Policy(), at(T + 2.0 + seconds)))

    assert not silent_after(599.0)
    assert silent_after(601.0)
    assert not silent_after(1700.0, timeout=1_800_000)
    assert silent_after(1900.0, timeout=1_800_000)


def test_a_call_that_never_came_back_does_not_make_later_ones_silent() -> None:
    """A pre whose post was lost stays open; the log that goes on is not silent for it."""
    activity = folded(told(pre("WebFetch"), pre(seconds=5000.0), post(seconds=5001.0)))
    assert codes(judge(activity, held(), Policy(), at(T + 5010.0))) == []


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (b'{"event":"pre_tool_use"}', e.FormatDrifted(0.0, "pre_tool_use.tool_name")),
        (b'{"event":"pre_tool_use","tool_name":"Bash"}', e.FormatDrifted(0.0, "pre_tool_use.start_time")),
        (b'{"event":"post_tool_use","tool_name":"Bash"}', e.FormatDrifted(0.0, "post_tool_use.end_time")),
        (b'{"event":"post_tool_use","tool_name":7}', e.FormatDrifted(0.0, "tool_name")),
        (b'{"tool_name":"Bash"}', e.FormatDrifted(0.0, "event")),
        (b'{"event":"session_start","tool_name":7}', e.RecordSkipped(0.0, "session_start")),
        (b"7", e.LineMalformed(0.0, "not a JSON object")),
    ],
)
def test_other_shapes(line: bytes, expected: e.Event) -> None:
    """Needed fields missing: drift. Other events: skipped. Anything else: malformed."""
    assert told(line) == [expected]


def test_no_line_is_a_boundary() -> None:
    """Rows of errors and repeats may begin anywhere, so such a log is read from its start."""
    assert not any(ToolUseReader().is_boundary(line) for line in (pre(), post()))
