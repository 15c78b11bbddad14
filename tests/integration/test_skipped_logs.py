"""What lies in the place of a log and is not read is counted and named, and is not called slow."""

import asyncio
import json
import os
import shutil
import subprocess
import sys
import time
import uuid
from pathlib import Path
from typing import Any, NoReturn

import pytest

from support import claude_transcripts
from support.daemon_process import RunningDaemon
from support.stub_clients import stand_in
from wakeful.config.paths import StatePaths
from wakeful.config.schema import Config
from wakeful.daemon.observer import PlainProcesses, SessionObserver
from wakeful.linux.clock import SystemClock
from wakeful.sources.base import FileChanges
from wakeful.sources.folder_watch import FolderWatch
from wakeful.views.records import SourceRecord

TRANSCRIPTS = "claude-transcripts"
# Root reads what it likes, unless it gives that up.
UNPRIVILEGED = ("setpriv", "--bounding-set", "-dac_override,-dac_read_search")


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of claude_transcripts."""
    for name in ("HOME", "CODEX_HOME", "WAKEFUL_HOME", "TMUX_TMPDIR"):
        monkeypatch.setenv(name, str(tmp_path))
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(tmp_path / "claude"))
    folder = tmp_path / "claude" / "projects" / "-proj"
    folder.mkdir(parents=True)
    return folder


def a_log(project: Path) -> Path:
    return project / f"{uuid.uuid4()}.jsonl"


def lookout() -> SessionObserver:
    return SessionObserver(Config(), StatePaths.from_environ(os.environ), SystemClock(), PlainProcesses())


def eye_of(seen: SessionObserver) -> SourceRecord:
    return next(each for each in seen.sources.records() if each.name == TRANSCRIPTS)


def looked() -> SourceRecord:
    seen = lookout()
    asyncio.run(seen.scan())
    return eye_of(seen)


def test_what_wakeful_asks_a_client_itself_is_nobodys_session(project: Path, tmp_path: Path) -> None:
    """A probe of a login is in the registry while it runs, and its hooks fire like anybody's: neither is a session."""
    paths, seen = StatePaths.from_environ(os.environ), lookout()
    for cwd in (paths.probe, str(project)):
        conversation = str(uuid.uuid4())
        with stand_in(tmp_path / "bin") as client:
            claude_transcripts.register(project.parents[1], conversation, client.pid, cwd=cwd)
        hook = {"session_id": conversation, "cwd": cwd, "hook_event_name": "SessionStart"}
        spool = Path(paths.spool)
        spool.mkdir(exist_ok=True)
        (spool / conversation).write_text(json.dumps(hook))
        asyncio.run(seen.scan())
        assert len(seen.registry.sessions) == (cwd != paths.probe)


def test_what_is_no_file_is_counted_by_its_kind_and_named(project: Path) -> None:
    """A link, a pipe and a folder with the names of logs; whatever else is there has no place to lie in."""
    link, pipe, folder = sorted(a_log(project) for _ in range(3))
    link.symlink_to("/etc/passwd")
    os.mkfifo(pipe)
    folder.mkdir()
    (project / "notes.jsonl").symlink_to("/etc/passwd")
    source = looked()
    assert (
        source.left_out == f"1 log is a symbolic link: {link}; 2 logs are not regular files: {pipe}, {folder}"
    )
    assert source.slow is None


def test_many_are_counted_and_three_are_named(project: Path) -> None:
    """A folder full of links is one short line."""
    links = sorted(a_log(project) for _ in range(5))
    for link in links:
        link.symlink_to("/nowhere")
    assert looked().left_out == f"5 logs are symbolic links: {', '.join(map(str, links[:3]))} and 2 more"


def test_an_odd_log_is_said_as_it_comes_and_goes(project: Path) -> None:
    """Being told of it is enough; when it is gone nothing is left out any more."""
    seen = lookout()
    seen.sources.logs[0].scan()
    pipe, folder = a_log(project), a_log(project)
    os.mkfifo(pipe)
    folder.mkdir()
    seen.sources.logs[0].on_changes(FileChanges({str(pipe)}, {str(folder)}, set()))
    assert (eye_of(seen).left_out or "").startswith("2 logs are not regular files")
    seen.sources.logs[0].on_changes(FileChanges(set(), set(), {str(pipe), str(folder)}))
    assert eye_of(seen).left_out is None


def test_a_failing_eye_loses_nobody_elses_place(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What one eye cannot say is logged; the bookmarks of the others are saved."""
    conversation = str(uuid.uuid4())
    claude_transcripts.write(
        project.parents[1], conversation, claude_transcripts.prompt(time.time(), conversation)
    )
    seen = lookout()
    asyncio.run(seen.scan())

    def fail() -> NoReturn:
        raise KeyError(conversation)

    for broken in seen.sources.logs[1:]:
        monkeypatch.setattr(broken, "take_bookmarks", fail)
    assert [Path(each.path).stem for each in seen.sources.take_bookmarks()] == [conversation]


def test_places_are_said_a_few_at_a_time(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many logs were read, their places come in slices, and each of them once."""
    monkeypatch.setattr("wakeful.daemon.source_set.BOOKMARKS_AT_ONCE_MAX", 2)
    conversations = {str(uuid.uuid4()) for _ in range(3)}
    for each in conversations:
        claude_transcripts.write(project.parents[1], each, claude_transcripts.prompt(time.time(), each))
    seen = lookout()
    asyncio.run(seen.scan())
    slices = [[Path(each.path).stem for each in seen.sources.take_bookmarks()] for _ in range(3)]
    assert [len(each) for each in slices] == [2, 1, 0]
    assert {stem for each in slices for stem in each} == conversations


def _need_setpriv() -> None:
    if shutil.which("setpriv") is None:
        pytest.skip("setpriv (util-linux) is missing")


def _unprivileged() -> tuple[str, ...]:
    return UNPRIVILEGED if os.geteuid() == 0 else ()


def told_without_privilege() -> dict[str, Any]:
    """The transcripts' source as `wakeful status` shows it to a user who may not read everything."""
    _need_setpriv()
    done = subprocess.run(
        [*_unprivileged(), sys.executable, "-m", "wakeful", "status", "--json"],
        capture_output=True,
        check=True,
    )
    eyes: list[dict[str, Any]] = json.loads(done.stdout)["daemon"]["eyes"]
    return next(each for each in eyes if each["name"] == TRANSCRIPTS)


def test_what_may_not_be_read_is_said_with_the_reason(project: Path) -> None:
    """A log and a folder of mode 000: permission, not a limit of the kernel, and the other eyes live on."""
    closed = project.parent / "-closed"
    closed.mkdir(mode=0)
    for folder in ("sessions", "thread-writer-locks"):
        (project.parents[1] / folder).mkdir(mode=0)
    log = a_log(project)
    log.write_text("{}\n")
    log.chmod(0)
    eye = told_without_privilege()
    assert eye["left_out"] == (
        f"1 folder cannot be listed (permission): {closed}; 1 log cannot be read (permission): {log}"
    )
    assert eye["slow"] is None


def test_a_closed_folder_is_not_taken_for_a_limit(
    daemon: RunningDaemon, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The daemon cannot watch it either, and says why, to `status` and to `doctor`."""
    _need_setpriv()
    closed = daemon.home / ".claude" / "projects" / "-closed"
    closed.mkdir(mode=0, parents=True)
    argv = daemon.argv
    monkeypatch.setattr(daemon, "argv", lambda *words: [*_unprivileged(), *argv(*words)])
    daemon.up()
    said = f"1 folder cannot be listed (permission): {closed}"
    status = daemon.run("status").out
    assert f"left out   {TRANSCRIPTS}: {said}" in status
    assert "slow" not in status
    assert f"{TRANSCRIPTS} skips {said}" in daemon.run("doctor").out


def test_a_limit_is_told_in_the_right_number(project: Path) -> None:
    """One folder is no folders."""

    class OneRefused(FolderWatch):
        def add(self, folder: str) -> bool:
            return folder != str(project)

    seen = SessionObserver(
        Config(), StatePaths.from_environ(os.environ), SystemClock(), PlainProcesses(), folders=OneRefused()
    )
    seen.sources.logs[0].scan()
    assert (eye_of(seen).slow or "").startswith("1 folder cannot be watched (inotify limit)")


def test_the_list_says_what_it_does_not_show(project: Path) -> None:
    """A list without it would pass for a whole one."""
    pipe = a_log(project)
    os.mkfifo(pipe)
    listed = subprocess.run(
        [sys.executable, "-P", "-m", "wakeful", "ls"], check=True, capture_output=True, text=True, timeout=30
    )
    assert f"not shown: {TRANSCRIPTS}: 1 log is not a regular file: {pipe}" in listed.stdout
