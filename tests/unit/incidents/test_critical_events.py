"""Critical events as other programs use them: written whole, read back in order, archived without a loss."""

import gzip
import json
import os
import stat
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st

from wakeful.critical_events import archive_events, forget_events, log_critical_event, read_recent_events
from wakeful.incidents import line_log as whole_lines
from wakeful.incidents.critical_event import (
    LINE_BYTES_MAX,
    BadCriticalEvent,
    critical_event,
    line_of,
    reason_of,
    wall_of_stamp,
)
from wakeful.incidents.line_log import LogBusy, LogUnusable
from wakeful.judging.findings import FindingCode
from wakeful.linux.clock import SystemClock

DOCUMENTED_KEYS = [
    "timestamp",
    "event",
    "session_id",
    "project_key",
    "reason",
    "action_taken",
    "github_issue",
    "details",
]
ISSUE = "https://github.com/tomcounsell/ai/issues/45"
DAY = datetime(2026, 2, 5, 10, tzinfo=UTC)


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "logs" / "critical_events.jsonl"


def write(log: Path, session_id: str = "tg_popoto_-5294327191_4469", **changed: Any) -> dict[str, Any]:
    words: dict[str, Any] = {
        "event": "session_unhealthy",
        "session_id": session_id,
        "project_key": "popoto",
        "reason": "silent_for_15_minutes",
        "action_taken": "revival_attempted",
    }
    return log_critical_event(**{**words, **changed}, path=log)


def ids(events: list[dict[str, Any]]) -> list[str]:
    return [event["session_id"] for event in events]


def names(folder: Path) -> list[str]:
    return sorted(each.name for each in folder.iterdir())


def now() -> datetime:
    return datetime.fromtimestamp(SystemClock().now().wall, tz=UTC)


def archived(log: Path) -> dict[str, list[str]]:
    return {
        path.name: [json.loads(line)["session_id"] for line in gzip.open(path, "rt")]
        for path in sorted(log.parent.glob("*.gz"))
    }


def test_a_line_is_the_documented_example(log: Path) -> None:
    """The documented example comes out byte for byte in its keys, their order and their spelling."""
    details = {"last_tool_call": "2026-02-05T09:45:00Z", "tool_count": 40}
    write(log, github_issue=ISSUE, details=details, timestamp=DAY)
    assert log.read_bytes() == (
        b'{"timestamp":"2026-02-05T10:00:00Z","event":"session_unhealthy",'
        b'"session_id":"tg_popoto_-5294327191_4469","project_key":"popoto","reason":"silent_for_15_minutes",'
        b'"action_taken":"revival_attempted","github_issue":"https://github.com/tomcounsell/ai/issues/45",'
        b'"details":{"last_tool_call":"2026-02-05T09:45:00Z","tool_count":40}}\n'
    )


def test_a_key_without_a_value_stays(log: Path) -> None:
    """Without an issue the key is there and null; without details they are empty; the answer is what was written."""
    written = write(log)
    assert list(written) == DOCUMENTED_KEYS
    assert (written["github_issue"], written["details"]) == (None, {})
    assert json.loads(log.read_text()) == written


def test_without_a_path_it_is_in_the_logs_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing configured: the log is ./logs/critical_events.jsonl, its folder made, for its owner alone."""
    monkeypatch.chdir(tmp_path)
    log_critical_event("queue_stalled", "s", "p", "queue_stalled")
    log = tmp_path / "logs" / "critical_events.jsonl"
    assert stat.S_IMODE(log.stat().st_mode) == 0o600
    assert stat.S_IMODE(log.parent.stat().st_mode) == 0o700
    assert ids(read_recent_events()) == ["s"]
    assert names(log.parent) == ["critical_events.jsonl"]


@pytest.mark.parametrize("key", ["event", "action_taken"])
def test_a_word_outside_the_closed_lists_is_refused(log: Path, key: str) -> None:
    """A wrong word is the caller's mistake, said with the right ones; nothing is written."""
    with pytest.raises(BadCriticalEvent, match=key):
        write(log, **{key: "session_sad"})
    assert not log.exists()


def test_events_come_oldest_first(log: Path) -> None:
    """However they were written; those of one second stay in their order, and those before are left out."""
    moment = now()
    for name, hours in (("b", 2), ("a", 3), ("old", 25), ("c", 1), ("d", 1)):
        write(log, name, timestamp=moment - timedelta(hours=hours))
    assert ids(read_recent_events(path=log)) == ["a", "b", "c", "d"]
    assert ids(read_recent_events(hours=48, path=log)) == ["old", "a", "b", "c", "d"]


def test_a_log_that_is_not_there_has_no_events(log: Path) -> None:
    """Before the first write: no events, nothing to archive, nothing to forget, and no file is created."""
    assert (read_recent_events(path=log), archive_events(DAY, path=log), forget_events(path=log)) == (
        [],
        0,
        0,
    )
    assert not log.parent.exists()


def test_an_unterminated_line_is_no_event_and_is_ended_by_the_next_writer(log: Path) -> None:
    """A writer that was killed leaves half a line: readers pass it over, and it takes no other line along."""
    write(log, "first")
    whole = log.read_bytes()
    log.write_bytes(whole + whole.replace(b"first", b"whole but unended").rstrip(b"\n"))
    assert ids(read_recent_events(path=log)) == ["first"]
    log.write_bytes(whole + whole[:40])
    write(log, "second")
    assert ids(read_recent_events(path=log)) == ["first", "second"]
    assert log.read_bytes().count(b"\n") == 3


def test_lines_of_others_are_read_as_they_stand(log: Path) -> None:
    """Another program's extra keys stay, its garbage is passed over."""
    write(log, "ours")
    stamp = now().isoformat()
    theirs = {"timestamp": stamp, "event": "new_kind", "session_id": "theirs", "more": [1]}
    with log.open("ab") as file:
        file.write(
            b"\n\x00\x00\nnot json\n[1]\n" + b'{"timestamp":7}\n' + json.dumps(theirs).encode() + b"\n"
        )
    assert ids(read_recent_events(path=log)) == ["ours", "theirs"]
    assert read_recent_events(path=log)[1]["more"] == [1]


def test_what_is_archived_moves_to_the_gzip_of_its_day(log: Path) -> None:
    """Older lines leave the log for their day's gzip, which grows; the rest stays as it was."""
    for name, days in (("a", 0), ("b", 1), ("c", 1), ("d", 2), ("e", 3)):
        write(log, name, timestamp=DAY + timedelta(days=days))
    assert archive_events(DAY + timedelta(days=2), path=log) == 3
    assert archived(log) == {
        "critical_events-2026-02-05.jsonl.gz": ["a"],
        "critical_events-2026-02-06.jsonl.gz": ["b", "c"],
    }
    write(log, "late", timestamp=DAY)
    assert archive_events("2026-02-07T10:00:01Z", path=log) == 2
    assert archived(log)["critical_events-2026-02-05.jsonl.gz"] == ["a", "late"]
    assert archived(log)["critical_events-2026-02-07.jsonl.gz"] == ["d"]
    assert ids(read_recent_events(hours=10**6, path=log)) == ["e"]
    assert stat.S_IMODE(log.stat().st_mode) == 0o600
    assert len(names(log.parent)) == 4


def test_archiving_nothing_changes_nothing(log: Path) -> None:
    """With no older line the log is the very same file."""
    write(log, timestamp=DAY)
    inode = log.stat().st_ino
    assert archive_events(DAY, path=log) == 0
    assert log.stat().st_ino == inode


def test_a_torn_line_is_archived_with_the_one_before_it(log: Path) -> None:
    """What has no time goes with its neighbour; an unterminated end stays for its writer."""
    write(log, "a", timestamp=DAY)
    with log.open("ab") as file:
        file.write(b'{"torn\n{"timestamp":"2026-02-05T10:0')
    assert archive_events(DAY + timedelta(days=1), path=log) == 2
    assert log.read_bytes() == b'{"timestamp":"2026-02-05T10:0'
    (day,) = log.parent.glob("*.gz")
    assert gzip.decompress(day.read_bytes()).splitlines()[1] == b'{"torn'


def test_after_thirty_days_an_event_is_dropped(log: Path) -> None:
    """An event that was not archived stays a month, no longer, and leaves no gzip."""
    moment = now()
    write(log, "old", timestamp=moment - timedelta(days=31))
    write(log, "young", timestamp=moment - timedelta(days=29))
    assert forget_events(path=log) == 1
    assert ids(read_recent_events(hours=10**5, path=log)) == ["young"]
    assert names(log.parent) == [log.name]


@pytest.mark.parametrize("act", [write, lambda log: read_recent_events(path=log)])
def test_a_link_at_the_path_is_refused(log: Path, act: Any) -> None:
    """A program that can put a link there must not choose what is written or read."""
    victim = log.parent.parent / "victim"
    victim.write_text("precious")
    log.parent.mkdir()
    log.symlink_to(victim)
    with pytest.raises(LogUnusable, match="symbolic link"):
        act(log)
    assert victim.read_text() == "precious"


@pytest.mark.parametrize("act", [write, lambda log: read_recent_events(path=log)])
def test_what_is_no_file_is_refused(log: Path, act: Any) -> None:
    """A FIFO would wait for its other end."""
    log.parent.mkdir()
    os.mkfifo(log)
    with pytest.raises(LogUnusable, match="not a regular file"):
        act(log)


def test_a_lock_that_is_stuck_is_told(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that holds the log forever delays a write until a deadline, and no longer."""
    monkeypatch.setattr(whole_lines, "LOCK_SECONDS_MAX", 0.05)
    with whole_lines.lock_file(log), pytest.raises(LogBusy):
        write(log)
    assert write(log)["project_key"] == "popoto"


def test_secrets_do_not_reach_the_log(log: Path) -> None:
    """Whatever field they are in, however deep."""
    key = "sk-ant-REDACTED"
    write(log, reason=f"failed with {key}", details={"env": [{"ANTHROPIC_API_KEY": key}], key: "x"})
    assert key not in log.read_text()


def test_details_of_any_kind_are_written(log: Path) -> None:
    """What JSON cannot spell is spelled otherwise; a line is one line, and has its bound."""
    ring: list[Any] = []
    ring.append(ring)
    odd = {
        "when": DAY,
        7: {1},
        "path": Path("x"),
        "big": 2**70,
        "nan": float("nan"),
        "half": "\ud800",
        "ring": ring,
    }
    write(log, "odd\nid", details=odd)
    write(log, "huge", details={str(number): "x" * 20_000 for number in range(100)})
    first, second = read_recent_events(path=log)
    assert first["details"]["when"] == "2026-02-05T10:00:00+00:00"
    assert first["details"]["big"] == hex(2**70)
    assert second["details"]["left_out_bytes"] > LINE_BYTES_MAX
    assert log.read_bytes().count(b"\n") == 2


@pytest.mark.parametrize(
    ("code", "amount", "reason"),
    [
        (FindingCode.SILENT, {"seconds": 15 * 60 + 59}, "silent_for_15_minutes"),
        (FindingCode.SILENT, {"seconds": 20}, "silent_for_1_minutes"),
        (FindingCode.ERROR_CASCADE, {"errors": 6}, "6_consecutive_errors"),
        (FindingCode.RUNAWAY, {"seconds": 3 * 3600 - 1}, "running_for_2_hours"),
        (FindingCode.RUNAWAY, {}, "runaway"),
        (FindingCode.SESSION_DEAD, {"seconds": 900, "errors": 9}, "session_dead"),
        ("queue_stalled", {}, "queue_stalled"),
    ],
)
def test_reasons_have_the_documented_words(
    code: FindingCode | str, amount: dict[str, Any], reason: str
) -> None:
    """Three findings are written with their number, every other one by its code."""
    assert reason_of(code, **amount) == reason


@given(st.text(), st.text(), st.dictionaries(st.text(), st.text() | st.integers() | st.floats() | st.none()))
def test_any_text_makes_one_readable_line(session_id: str, reason: str, details: dict[str, Any]) -> None:
    """Whatever it is made of, a line ends once, at its end, and is JSON with the documented keys."""
    event = critical_event(
        "revival_failed", session_id, "p", reason, "none", None, details, at_wall=DAY.timestamp()
    )
    line = line_of(event)
    assert line.index(b"\n") == len(line) - 1
    assert list(json.loads(line)) == DOCUMENTED_KEYS


@pytest.mark.parametrize(
    ("text", "wall"),
    [
        ("2026-02-05T10:00:00Z", DAY.timestamp()),
        ("2026-02-05T10:00:00.250+00:00", DAY.timestamp() + 0.25),
        ("2026-02-05T10:00:00", DAY.timestamp()),
        ("yesterday", None),
        ("9999-12-31T23:59:59-23:00", 253402383599.0),
    ],
)
def test_times_are_read_as_others_spell_them(text: str, wall: float | None) -> None:
    """With Z, with an offset, with a fraction; without a zone it is UTC; anything else is no time."""
    assert wall_of_stamp(text) == wall
