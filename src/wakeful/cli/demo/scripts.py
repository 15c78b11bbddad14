"""The six agents of the demo: the script of each, and a sentence that explains its verdict. Pure.

The numbers in a sentence come from the record; only the text around them is written here.
"""

import re
from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

from msgspec import Struct

from wakeful.judging.findings import Attention, FindingCode, State, WaitKind
from wakeful.judging.session_record import FindingRecord, SessionRecord, WaitRecord
from wakeful.judging.state_words import health_text
from wakeful.judging.wording import call_text

# At this length nothing is sped up, except 20 seconds of silence instead of ten minutes.
FULL_SECONDS: Final = 60.0
SILENCE_SECONDS: Final = 20.0
ANSWER_AT_SECONDS: Final = 40.0
# Claude Code ends a Bash call after 120 s unless it declared more: that is what needs an explanation.
_BASH_TIMEOUT_SECONDS: Final = 120
_DECLARED: Final = re.compile(r"may run (\d+) s")
# Shorter pauses between two records are not explained.
_QUIET_SECONDS_MIN: Final = 3.0
_BUILD_TIMEOUT_SECONDS: Final = 300
# Four calls of two seconds for each: more than a minute of work.
_FILES: Final = ("cart", "price", "stock", "order", "query", "index", "facet", "page", "route", "cache")


class DemoAgent(Struct, frozen=True):
    """One agent: its name, also that of its project, its script, and whether it runs in a tmux pane."""

    name: str
    steps: list[Mapping[str, Any]]
    in_tmux: bool = False


def demo_agents(pace: float) -> tuple[DemoAgent, ...]:
    """The agents. `pace` 1 takes a minute, 0.5 half a minute."""
    return (
        DemoAgent("works", _working_steps(pace)),
        DemoAgent("asks-you", _asking_steps(pace)),
        DemoAgent("long-build", _building_steps(pace)),
        DemoAgent("goes-silent", _hanging_steps(pace)),
        DemoAgent("in-circles", _looping_steps(pace)),
        DemoAgent("gets-killed", _dying_steps(pace), in_tmux=True),
    )


def _working_steps(pace: float) -> list[Mapping[str, Any]]:
    calls = [call for number, name in enumerate(_FILES) for call in _change_steps(name, number)]
    return [
        {"prompt": "Add a search to the shop"},
        *({**call, "seconds": 2 * pace} for call in calls),
        {"end": "The shop has a search."},
    ]


def _change_steps(name: str, number: int) -> list[Mapping[str, Any]]:
    """One file is read, changed and tested: every call and every result differs."""
    path, wanted = f"src/{name}.py", f"def {name}_"
    found = f"src/shop.py:{12 + 3 * number}: from shop.{name} import {name}_index"
    edit = {"file_path": path, "old_string": f"{wanted}find", "new_string": f"{wanted}search"}
    return [
        {"tool": "Grep", "input": {"pattern": wanted}, "result": found},
        {"tool": "Read", "input": {"file_path": path}, "result": f"class {name.title()}:\n    ..."},
        {"tool": "Edit", "input": edit, "result": f"The file {path} has been updated."},
        {"tool": "Bash", "input": {"command": f"pytest -q {name}"}, "result": f"{41 + number} passed"},
    ]


def _asking_steps(pace: float) -> list[Mapping[str, Any]]:
    push = {"tool": "Bash", "input": {"command": "git push"}, "seconds": 3 * pace, "result": "main -> main"}
    return [
        {"prompt": "Release it"},
        {"tool": "Read", "input": {"file_path": "CHANGELOG.md"}, "seconds": 5 * pace, "result": "# 1.2"},
        {"text": "All set. I would push now."},
        {"ask": "permission prompt", **push},
        {"end": "Released."},
    ]


def _building_steps(pace: float) -> list[Mapping[str, Any]]:
    build = {"command": "make release", "timeout": _BUILD_TIMEOUT_SECONDS * 1000}
    return [
        {"prompt": "Build the release"},
        {"tool": "Bash", "input": build, "seconds": 50 * pace, "result": "done"},
        {"end": "The release is built."},
    ]


def _hanging_steps(pace: float) -> list[Mapping[str, Any]]:
    read = {"tool": "Read", "input": {"file_path": "spec.md"}, "seconds": 8 * pace, "result": "# Spec"}
    return [{"prompt": "Write the parser"}, read, {"hang": True}]


def _looping_steps(pace: float) -> list[Mapping[str, Any]]:
    test = {"tool": "Bash", "input": {"command": "npm test"}, "seconds": 2.5 * pace, "result": "1 failing"}
    return [{"prompt": "Make the tests pass"}, {"loop": [test]}]


def _dying_steps(pace: float) -> list[Mapping[str, Any]]:
    test = {"tool": "Bash", "input": {"command": "npm run e2e"}, "seconds": 120}
    return [{"prompt": "Run the browser tests"}, {"killed": 18 * pace}, test]


def verdict_text(record: SessionRecord) -> str:
    """Health, and why: the code of the finding, or that a person is needed."""
    health = health_text(record.health)
    if record.findings:
        return f"{health} · {record.findings[0].code}"
    return f"{health} · needs you" if record.attention is Attention.PERSON else health


def activity_text(record: SessionRecord) -> str:
    """Its current call or question. An agent's words: show them plain."""
    if record.expected_waits:
        return call_text(record.expected_waits[0].untrusted)
    return call_text(next(iter(record.findings[0].untrusted), "")) if record.findings else ""


def verdict_reason(record: SessionRecord, now_wall: float) -> str:
    """One sentence that a newcomer understands."""
    if record.findings:
        return _finding_reason(record.findings[0], now_wall)
    if record.state is State.WAITING:
        return "Waiting for you: no alarm, but only you can answer."
    if record.expected_waits:
        return _wait_reason(record, record.expected_waits[0], now_wall)
    return "Turn finished. Silence is normal now."


def _finding_reason(finding: FindingRecord, now_wall: float) -> str:
    if finding.code is FindingCode.AGENT_EXITED:
        return f"The agent died, tmux is alive{_orphans_reason(finding)}."
    if finding.code is FindingCode.SESSION_DEAD:
        return f"The process died during a turn{_orphans_reason(finding)}."
    if finding.code is FindingCode.LOOP:
        return f"Looping: {finding.summary}."
    if finding.code is FindingCode.SILENT:
        quiet_seconds = now_wall - _wall(finding.since)
        return f"Silent for {quiet_seconds:.0f} s, and nothing is running."
    return f"{finding.summary}."


def _orphans_reason(finding: FindingRecord) -> str:
    orphan = next((line for line in finding.evidence if "still runs" in line), None)
    return f"; {orphan}" if orphan is not None else ""


def _wait_reason(record: SessionRecord, wait: WaitRecord, now_wall: float) -> str:
    quiet_seconds = now_wall - _wall(record.last_activity_at or wait.since)
    declared = _DECLARED.search(wait.evidence)
    if declared is not None and int(declared[1]) > _BASH_TIMEOUT_SECONDS:
        return f"A call with a timeout of {declared[1]} s is running: no alarm until then."
    if quiet_seconds < _QUIET_SECONDS_MIN:
        return "Calls start and finish: a healthy turn."
    if wait.kind is WaitKind.TOOL:
        return f"A call has been running for {quiet_seconds:.0f} s; no alarm yet."
    left_seconds = max(0.0, _wall(wait.until or record.judged_at) - now_wall)
    return f"The model has been silent for {quiet_seconds:.0f} s; alarm in {left_seconds:.0f} s."


def _wall(stamp: str) -> float:
    return datetime.fromisoformat(stamp).timestamp()
