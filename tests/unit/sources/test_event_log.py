"""The event log any program may write: its contract, and the example of its reference page."""

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

from support.judging_helpers import at, folded
from wakeful.core.ids import ConversationId
from wakeful.judging import events as e
from wakeful.judging.evidence import RuntimeState
from wakeful.judging.findings import Health, State
from wakeful.judging.judge import judge
from wakeful.judging.thresholds import Policy
from wakeful.sources.event_log import NeutralReader

PAGE = Path(__file__).parents[3] / "docs/reference/event-log.md"


def told(event: str, **fields: Any) -> list[e.Event]:
    return list(NeutralReader().read(json.dumps({"at": 5.0, "event": event} | fields).encode()))


@pytest.mark.parametrize(
    ("event", "fields", "expected"),
    [
        (
            "opened",
            {"conversation": "c-1", "cwd": "/w", "version": "1", "pid": 7, "project": "p"},
            e.LogOpened(5.0, ConversationId("c-1"), "/w", "1", 7, "p"),
        ),
        ("opened", {"conversation": "--yolo"}, e.LogOpened(5.0)),
        ("prompt", {}, e.Prompted(5.0)),
        ("prompt", {"by_person": False}, e.Prompted(5.0, by_person=False)),
        ("text", {}, e.TextWritten(5.0)),
        ("progress", {"percent": 40}, e.Progressed(5.0)),
        ("call", {"call": "1", "tool": "make"}, e.CallStarted(5.0, "1", "make")),
        (
            "call",
            {"call": 1, "tool": "ask", "kind": "person", "input": [1], "timeout_seconds": 9},
            e.CallStarted(5.0, "1", "ask", e.CallKind.PERSON, b"[1]", 9.0),
        ),
        ("call", {"call": "1", "tool": "x", "kind": "wormhole"}, e.CallStarted(5.0, "1", "x")),
        ("result", {"call": "1"}, e.CallEnded(5.0, "1")),
        (
            "result",
            {"call": "1", "error": True, "result": "no"},
            e.CallEnded(5.0, "1", is_error=True, result=b'"no"'),
        ),
        ("result", {"call": "1", "refused": True}, e.CallEnded(5.0, "1", refused=True)),
        ("asking", {"about": "push?"}, e.QuestionAsked(5.0, "push?")),
        ("answered", {}, e.QuestionAnswered(5.0)),
        ("done", {}, e.TurnEnded(5.0)),
        ("failed", {"reason": "auth", "message": "no key"}, e.TurnFailed(5.0, e.Failure.AUTH, "no key")),
        ("failed", {"reason": "gremlins"}, e.TurnFailed(5.0, e.Failure.UNKNOWN)),
        ("interrupted", {}, e.TurnInterrupted(5.0)),
        ("closed", {}, e.ClientClosed(5.0)),
        ("weather", {"call": [7]}, e.RecordSkipped(0.0, "weather")),
        ("call", {"tool": "x"}, e.FormatDrifted(5.0, "call.call")),
        ("call", {"call": "1"}, e.FormatDrifted(5.0, "call.tool")),
        ("result", {}, e.FormatDrifted(5.0, "result.call")),
        ("asking", {}, e.FormatDrifted(5.0, "asking.about")),
        ("failed", {}, e.FormatDrifted(5.0, "failed.reason")),
        ("done", {"at": "yesterday"}, e.FormatDrifted(0.0, "at")),
        ("result", {"call": "1", "error": "yes"}, e.FormatDrifted(0.0, "error")),
    ],
)
def test_every_event(event: str, fields: dict[str, Any], expected: e.Event) -> None:
    """Known events become what they mean; more keys are ignored, more events skipped, missing fields drift."""
    assert told(event, **fields) == [expected]


def test_times_in_both_spellings() -> None:
    """Epoch seconds and ISO 8601 name the same moment."""
    assert told("done", at="1970-01-01T00:00:05Z") == told("done") == told("done", at=5)


def test_the_example_of_the_reference_page_works_as_printed(tmp_path: Path) -> None:
    """The page's shell script leaves a log that reads without a mark and ends stopped and healthy."""
    found = re.search(r"```sh\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert found is not None
    log = tmp_path / "build-7.jsonl"
    script = re.sub(r"^log=.*$", f"log={log}", found[1], count=1, flags=re.MULTILINE)
    subprocess.run(["sh", "-c", script], check=True)
    events = [event for line in log.read_bytes().splitlines() for event in NeutralReader().read(line)]
    kinds = [type(event) for event in events]
    assert kinds == [
        e.LogOpened, e.Prompted, e.CallStarted, e.CallEnded, e.QuestionAsked, e.QuestionAnswered, e.TurnEnded, e.ClientClosed,
    ]  # fmt: skip
    verdict = judge(folded(events), RuntimeState(vouched=True), Policy(), at(events[-1].at))
    assert (verdict.state, verdict.health) == (State.STOPPED, Health.HEALTHY)


def test_the_page_names_every_event_and_no_other() -> None:
    """The table of the reference page and the reader agree."""
    documented = set(re.findall(r"^\| `(\w+)` \|", PAGE.read_text(), re.MULTILINE))
    for event in documented:
        assert not isinstance(told(event)[0], e.RecordSkipped), event
    assert documented == {
        "opened", "prompt", "text", "progress", "call", "result", "asking", "answered", "done", "failed",
        "interrupted", "closed",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("event", "expected"),
    [("opened", True), ("prompt", False), ("done", False), ("call", False), ("failed", False)],
)
def test_boundaries(event: str, expected: bool) -> None:
    """Reading may begin only where the log names its process: a turn without it has no process."""
    line = json.dumps({"at": 1, "event": event, "call": "1", "tool": "x", "reason": "auth"}).encode()
    assert NeutralReader().is_boundary(line) is expected
