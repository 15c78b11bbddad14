"""`wakeful events` as a person types it, and /api/events as a program asks: the log in its documented shape."""

import gzip
import json
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

import msgspec
import pytest

from support.daemon_process import RunningDaemon
from support.supervisor_fixture import SupervisorFixture, open_http_fixture
from wakeful.critical_events import CriticalLog, log_critical_event
from wakeful.views.records import CriticalEventList

NOON = 1_770_289_200.0  # 2026-02-05T11:00:00Z


@pytest.fixture
def home(tmp_path: Path) -> RunningDaemon:
    """A home whose daemon does not run."""
    return RunningDaemon(tmp_path / "wakeful")


def log_of(home: RunningDaemon) -> Path:
    return home.home / "state" / "logs" / "critical_events.jsonl"


def write(log: Path, name: str, at: str | float | None = None, **more: Any) -> None:
    log_critical_event("session_unhealthy", name, "popoto", "silent", timestamp=at, path=log, **more)


def test_without_a_daemon_the_log_is_read(home: RunningDaemon) -> None:
    """A day by default, oldest first, one plain line each; nothing is made where nothing is."""
    assert home.run("events").out.startswith("No critical events since 20")
    assert not log_of(home).exists()
    write(log_of(home), "old", "2026-02-05T10:00:00Z")
    write(
        log_of(home),
        "new\x1b[2J",
        action_taken="revival_attempted",
        github_issue="https://github.com/a/b/issues/1",
    )
    (line,) = home.run("events").out.splitlines()
    assert line.split()[1:] == [
        "session_unhealthy",
        "popoto",
        "new",
        "silent",
        "revival_attempted",
        "https://github.com/a/b/issues/1",
    ]
    told = home.run("events", "--since", "2026-02-05T10:00:00Z", "--json").json
    assert [event["session_id"] for event in told["events"]] == ["old", "new\x1b[2J"]
    assert (told["path"], told["left_out"]) == (str(log_of(home)), 0)


def test_another_path_may_be_configured(home: RunningDaemon) -> None:
    """events.critical_path is where commands look, too."""
    elsewhere = home.home / "elsewhere.jsonl"
    write(elsewhere, "there")
    told = home.run("events", "--json", environ={"WAKEFUL_EVENTS__CRITICAL_PATH": str(elsewhere)}).json
    assert [event["session_id"] for event in told["events"]] == ["there"]


def test_archiving_moves_older_events(home: RunningDaemon) -> None:
    """What was processed is in its day's gzip, the rest stays."""
    write(log_of(home), "old", "2026-02-05T10:00:00Z")
    write(log_of(home), "new")
    said = home.run("events", "--archive-before", "1d")
    assert said.out == f"archived 1 event in {log_of(home).parent}\n"
    (day,) = log_of(home).parent.glob("*.gz")
    assert json.loads(gzip.decompress(day.read_bytes()))["session_id"] == "old"
    assert home.run("events", "--archive-before", "2026-02-06T00:00:00Z", "--json").json["archived"] == 0


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--since", "soon"], "use 30m, 24h, 7d, 22:00, today, yesterday or ISO 8601"),
        (["--archive-before", "-"], "Invalid time"),
        (["--follow", "--archive-before", "1d"], "either --follow or --archive-before"),
    ],
)
def test_a_mistake_is_said_in_one_line(home: RunningDaemon, words: list[str], said: str) -> None:
    """Exit 2, and what to write instead."""
    spoken = home.run("events", *words)
    assert (spoken.exit_code, spoken.out, spoken.err.count("\n")) == (2, "", 1)
    assert said in spoken.err


def test_a_log_that_cannot_be_read_is_the_worlds_fault(home: RunningDaemon) -> None:
    """Exit 3 with the reason."""
    log_of(home).parent.mkdir(parents=True)
    log_of(home).symlink_to("/etc/passwd")
    spoken = home.run("events")
    assert (spoken.exit_code, spoken.out) == (3, "")
    assert "symbolic link" in spoken.err


@pytest.fixture
def following(home: RunningDaemon) -> Iterator["subprocess.Popen[str]"]:
    process = subprocess.Popen(
        home.argv("events", "--follow", "--json", "--since", "2026-01-01T00:00:00Z"),
        env=home.environ,
        cwd=home.home,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    with process:
        try:
            yield process
        finally:
            process.kill()


def test_following_shows_events_until_interrupted(
    home: RunningDaemon, following: "subprocess.Popen[str]"
) -> None:
    """One JSON line each, at once, across an archive; Ctrl-C ends it without a word."""
    write(log_of(home), "first", "2026-02-05T10:00:00Z")
    output = _output(following)
    assert json.loads(output.readline())["session_id"] == "first"
    home.run("events", "--archive-before", "1d")
    write(log_of(home), "second")
    assert json.loads(output.readline())["session_id"] == "second"
    following.send_signal(signal.SIGINT)
    assert following.communicate(timeout=20) == ("", "")
    assert following.returncode == 130


def _output(process: "subprocess.Popen[str]") -> IO[str]:
    assert process.stdout is not None
    return process.stdout


def test_the_door_gives_the_newest_events(tmp_path: Path) -> None:
    """Oldest first, as many as fit, how many did not; the body has the shape that is described."""
    log = CriticalLog(tmp_path / "critical_events.jsonl")
    for minute in range(5):
        write(log.path, f"s{minute}", NOON - 60 * (5 - minute), details={"n": minute})
    with open_http_fixture(tmp_path, SupervisorFixture(start_wall=NOON)) as doors, doors.socket() as door:
        answer = door.get("/api/events?since=4m&limit=2")
        told = msgspec.json.decode(answer.content, type=CriticalEventList)
        assert msgspec.json.encode(told) == answer.content
        assert ([event["session_id"] for event in told.events], told.left_out) == (["s3", "s4"], 2)
        assert len(door.get("/api/events?since=2026-02-05T10:57:00Z").json()["events"]) == 3
        refused = door.get("/api/events?since=soon")
        assert (refused.status_code, refused.json()["code"]) == (400, "bad-moment")
        assert door.get("/api/events?limit=0").status_code == 400
        archived = door.post("/api/events/archive", json={"before": "2026-02-05T10:57:00Z"})
        assert (archived.status_code, archived.json()["archived"]) == (200, 2)
        assert len(door.get("/api/events").json()["events"]) == 3
        log.path.unlink()
        assert door.get("/api/events").json()["events"] == []
