"""The log of critical events under several writers, kills at every step and full disks: no line lost, doubled or torn."""

import gzip
import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from crash.test_store_disk import files_limited, small_tmpfs
from support.real_clients import wait_for
from wakeful.critical_events import archive_events, log_critical_event, read_recent_events
from wakeful.incidents.line_log import LogFull, LogUnusable
from wakeful.testing.fault_plan import FaultPlan

WRITER = Path(__file__).with_name("critical_writer.py")
ARCHIVE_POINTS = [
    "critical.archive.rest:1",
    "critical.archive.noted:1",
    "critical.archive.grown:1",
    "critical.archive.grown:2",
    "critical.archive.replaced:1",
    "critical.write:1",
    "critical.write:2",
    "critical.write:3",
    "critical.write:4",
]
NOON = "2026-02-03T12:00:00Z"


def start(log: Path, *words: str, faults: str = "") -> subprocess.Popen[str]:
    environ = os.environ | ({"WAKEFUL_FAULTS": faults} if faults else {})
    return subprocess.Popen(
        [sys.executable, str(WRITER), str(log), *words], env=environ, stdout=subprocess.PIPE, text=True
    )


def ending(log: Path, *words: str, faults: str) -> int:
    process = start(log, *words, faults=faults)
    process.communicate(timeout=60)
    return process.returncode


def logged(log: Path) -> list[str]:
    return [event["session_id"] for event in read_recent_events(hours=10**6, path=log)]


def archived(log: Path) -> Iterator[str]:
    for path in log.parent.glob("*.gz"):
        for line in gzip.decompress(path.read_bytes()).splitlines():
            yield json.loads(line)["session_id"]


def fill(log: Path) -> Counter[str]:
    """Lines of three days, one gzip there already."""
    for day in (1, 2, 3, 4):
        log_critical_event(
            "session_unhealthy", f"s{day}", "p", "silent", timestamp=f"2026-02-0{day}T00:00:00Z", path=log
        )
        if day == 1:
            archive_events(NOON, path=log)
    log_critical_event(
        "session_unhealthy", "again", "p", "silent", timestamp="2026-02-01T00:00:00Z", path=log
    )
    return Counter(["s1", "s2", "s3", "s4", "again"])


def test_eight_processes_write_whole_lines_while_a_ninth_archives(tmp_path: Path) -> None:
    """Every line of every process is there once, whole, in the log or in a gzip."""
    log = tmp_path / "logs" / "critical_events.jsonl"
    writers = [start(log, "write", f"w{number}", "40") for number in range(8)]
    wait_for(lambda: (log.exists() and log.stat().st_size) or None, "first line")
    archiver = start(log, "archive", "2026-02-05T00:00:00Z", "60")
    for each in (*writers, archiver):
        assert (each.communicate(timeout=120)[0], each.returncode) == ("", 0)
    expected = Counter(f"w{number}-{line}" for number in range(8) for line in range(40))
    assert Counter(logged(log)) + Counter(archived(log)) == expected
    assert log.read_bytes().count(b"\n") == len(logged(log))
    assert sum(1 for _ in archived(log)) > 0


@pytest.mark.parametrize("point", ARCHIVE_POINTS)
def test_an_archiver_killed_at_any_step_loses_and_doubles_nothing(tmp_path: Path, point: str) -> None:
    """The next writer finds every old line once, in the log or in a gzip that can be read to its end."""
    log = tmp_path / "critical_events.jsonl"
    expected = fill(log)
    assert ending(log, "archive", NOON, "1", faults=f"{point}:kill") == -9
    log_critical_event("session_recovered", "next", "p", "silent", path=log)
    assert Counter(logged(log)) + Counter(archived(log)) == expected + Counter(["next"])
    archive_events(NOON, path=log)
    assert Counter(archived(log)) == Counter(["s1", "s2", "s3", "again"])
    assert {each.suffix for each in tmp_path.iterdir()} == {".jsonl", ".gz"}


def test_a_repair_killed_in_its_middle_is_done_again(tmp_path: Path) -> None:
    """The repair may be killed, too: the next one finds the same."""
    log = tmp_path / "critical_events.jsonl"
    expected = fill(log)
    assert ending(log, "archive", NOON, "1", faults="critical.archive.grown:2:kill") == -9
    assert ending(log, "archive", NOON, "1", faults="critical.archive.cut:1:kill") == -9
    log_critical_event("session_recovered", "next", "p", "silent", path=log)
    assert Counter(logged(log)) + Counter(archived(log)) == expected + Counter(["next"])


@pytest.mark.parametrize("name", ["ENOSPC", "EIO"])
@pytest.mark.parametrize("point", ARCHIVE_POINTS)
def test_an_archiver_that_fails_at_any_step_has_changed_nothing_or_everything(
    tmp_path: Path, point: str, name: str
) -> None:
    """Its caller gets the error, and right afterwards every line is there once."""
    log = tmp_path / "critical_events.jsonl"
    expected = fill(log)
    step, _, nth = point.rpartition(":")
    with (
        FaultPlan((step, int(nth), f"raise:{name}")),
        pytest.raises(LogFull if name == "ENOSPC" else LogUnusable),
    ):
        archive_events(NOON, path=log)
    assert Counter(logged(log)) + Counter(archived(log)) == expected
    assert {each.suffix for each in tmp_path.iterdir()} == {".jsonl", ".gz"}


@pytest.mark.parametrize("nth", [1, 2, 5])
def test_a_writer_killed_before_its_write_leaves_the_log_whole(tmp_path: Path, nth: int) -> None:
    """What was acknowledged is there, and the next writer goes on."""
    log = tmp_path / "critical_events.jsonl"
    assert ending(log, "write", "w", "9", faults=f"critical.write:{nth}:kill") == -9
    log_critical_event("session_recovered", "next", "p", "silent", path=log)
    assert logged(log) == [*(f"w-{number}" for number in range(nth - 1)), "next"]


def test_a_full_disk_is_told_and_the_log_is_whole(tmp_path: Path) -> None:
    """On a full file system the writer gets the error, no half line stays, and with space again it goes on."""
    with small_tmpfs(tmp_path / "small", "size=100k") as disk:
        log = disk / "logs" / "critical_events.jsonl"
        said = start(log, "write", "w", "100").communicate(timeout=60)[0]
        assert said.startswith("log-full ")
        assert log.read_bytes().endswith(b"\n")
        stored = logged(log)
        assert len(stored) > 5
        with pytest.raises(LogFull, match="free some space"):
            archive_events(NOON, path=log)
        assert logged(log) == stored
        os.truncate(log, 0)
        log_critical_event("session_recovered", "again", "p", "silent", path=log)
        assert logged(log) == ["again"]


def test_a_limited_file_is_told_and_the_log_is_whole(tmp_path: Path) -> None:
    """The same where the write is cut short in the middle of a line, with no privilege needed."""
    log = tmp_path / "critical_events.jsonl"
    log_critical_event("session_unhealthy", "first", "p", "silent", path=log)
    before = log.read_bytes()
    with files_limited(len(before) + 50), pytest.raises(LogFull):
        log_critical_event("session_unhealthy", "second", "p", "silent", path=log)
    assert log.read_bytes() == before
    log_critical_event("session_unhealthy", "third", "p", "silent", path=log)
    assert logged(log) == ["first", "third"]
