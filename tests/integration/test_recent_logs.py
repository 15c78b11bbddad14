"""Of many recent logs most are only glanced at in the first scan; those that matter are read."""

import asyncio
import os
import time
import uuid
from pathlib import Path

import pytest

from support import claude_transcripts
from support.stub_clients import stand_in
from wakeful.config.paths import StatePaths
from wakeful.config.schema import Config
from wakeful.core.ids import SessionId
from wakeful.daemon.observer import PlainProcesses, SessionObserver
from wakeful.judging.turn_state import TurnPhase
from wakeful.linux.clock import SystemClock
from wakeful.sessions.registry import Query
from wakeful.sessions.session import TrackedSession
from wakeful.sources import log_source as eye
from wakeful.sources.base import FileChanges
from wakeful.sources.log_source import LogFileSource


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A Claude Code folder, and a lookout that reads nothing at first unless it has to."""
    monkeypatch.setattr(eye, "READ_AT_START_MAX", 0)
    for name in ("HOME", "CODEX_HOME", "WAKEFUL_HOME", "TMUX_TMPDIR"):
        monkeypatch.setenv(name, str(tmp_path))
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(tmp_path / "claude"))
    return tmp_path / "claude"


def working_log(config: Path, *, project: str = "-home-u-proj") -> tuple[str, Path]:
    """A log that ends inside a tool call."""
    conversation, wall = str(uuid.uuid4()), time.time() - 60
    records = (
        claude_transcripts.prompt(wall, conversation),
        claude_transcripts.call(wall, conversation, "make"),
    )
    return conversation, claude_transcripts.write(config, conversation, *records, project=project)


def look() -> SessionObserver:
    observer = SessionObserver(Config(), StatePaths.from_environ(os.environ), SystemClock(), PlainProcesses())
    asyncio.run(observer.scan())
    return observer


def watched(lookout: SessionObserver, conversation: str) -> TrackedSession:
    return lookout.registry.sessions[SessionId(f"claude-{conversation}")]


def test_a_glimpsed_log_is_listed_with_its_project_and_age(config: Path) -> None:
    """Not reading it costs no session its line in the list."""
    conversation, path = working_log(config)
    claude_transcripts.age(path, time.time() - 3600)
    observer = look()
    record = watched(observer, conversation).record
    assert record is not None
    assert (record.project, record.cwd, record.state, record.health) == (
        "proj",
        "/home/u/proj",
        "stopped",
        "unknown",
    )
    assert record.last_activity_at == claude_transcripts.iso(path.stat().st_mtime)
    assert watched(observer, conversation).activity.phase is TurnPhase.UNSEEN
    assert len(observer.registry.page(Query(), observer.clock.now()).bodies) == 1


def test_logs_of_one_folder_share_the_directory_its_name_stands_for(config: Path) -> None:
    """One log is read for the folder, unless it had moved elsewhere: then each speaks for itself."""
    first, second = working_log(config)[0], working_log(config)[0]
    away = str(uuid.uuid4())
    moved = claude_transcripts.record("system", time.time(), away, cwd="/srv/else", subtype="turn_duration")
    claude_transcripts.write(config, away, moved, project="-home-u-other")
    observer = look()
    cwds = [watched(observer, each).presence.cwd for each in (first, second, away)]
    assert cwds == ["/home/u/proj", "/home/u/proj", "/srv/else"]
    eye = observer.sources.logs[0]
    assert isinstance(eye, LogFileSource)
    assert list(eye._cwds.values()) == ["/home/u/proj"]


def test_a_held_log_is_read_whatever_its_age(config: Path, tmp_path: Path) -> None:
    """Who holds a conversation means more once it is known what it was doing."""
    conversation, _ = working_log(config)
    with stand_in(tmp_path / "bin") as agent:
        claude_transcripts.register(config, conversation, agent.pid, "busy")
        held = watched(look(), conversation)
    assert held.activity.phase is TurnPhase.TOOL
    assert held.record is not None
    assert held.record.state == "prompting"


def test_asking_for_a_glimpsed_log_reads_it(config: Path) -> None:
    """A request by id gets all there is, once."""
    conversation, _ = working_log(config)
    observer = look()
    found = observer.registry.find(conversation)
    assert (found.is_log_read, list(found.activity.calls)) == (True, ["toolu_1"])


def test_a_glimpsed_log_that_grows_is_read_from_its_last_boundary(config: Path) -> None:
    """What was glimpsed is not counted twice, and what came before the growth is not lost."""
    conversation, path = working_log(config)
    observer = look()
    with path.open("a") as log:
        log.write(path.read_text().splitlines()[-1].replace("toolu_1", "toolu_2") + "\n")
    observer.sources.logs[0].on_changes(FileChanges({str(path)}, set(), set()))
    grown = watched(observer, conversation)
    assert (grown.is_log_read, grown.activity.calls_total) == (True, 2)


@pytest.mark.parametrize("read_at_start_max", [0, 1])
def test_a_log_that_appeared_is_not_read_again_by_a_sweep(
    config: Path, monkeypatch: pytest.MonkeyPatch, read_at_start_max: int
) -> None:
    """The backstop finds what was reported already: nothing of it counts twice, and nothing is forgotten."""
    monkeypatch.setattr(eye, "READ_AT_START_MAX", read_at_start_max)
    observer = look()
    conversation, path = working_log(config)
    observer.sources.logs[0].on_changes(FileChanges({str(path)}, set(), set()))
    asyncio.run(observer.sources.logs[0].sweep())
    swept = watched(observer, conversation)
    assert (swept.is_log_read, swept.activity.calls_total) == (True, 1)


def test_a_glimpsed_log_that_is_deleted_is_forgotten(config: Path) -> None:
    """A list shows no session whose log is gone, read or not."""
    conversation, path = working_log(config)
    observer = look()
    path.unlink()
    observer.sources.logs[0].on_changes(FileChanges(set(), set(), {str(path)}))
    assert SessionId(f"claude-{conversation}") not in observer.registry.sessions


def test_a_new_folder_is_looked_into_and_nothing_else(config: Path) -> None:
    """The thousandth project costs what the first one did."""
    working_log(config)
    observer = look()
    inside, path = working_log(config, project="-home-u-new")
    unannounced, _ = working_log(config)
    observer.sources.logs[0].on_changes(FileChanges(set(), {str(path.parent)}, set()))
    known = observer.registry.sessions
    assert SessionId(f"claude-{inside}") in known
    assert SessionId(f"claude-{unannounced}") not in known
