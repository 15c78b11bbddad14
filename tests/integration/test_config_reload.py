"""Claims about a changed configuration beside a real daemon: it is applied, or said to need a restart, or refused."""

import json
import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from support.daemon_process import RunningDaemon
from support.real_clients import wait_for
from support.telegram_sink import Telegram

# The daemon waits half a second for a writer to finish.
QUIET_SECONDS = 1.5


@pytest.fixture
def file(daemon: RunningDaemon) -> Path:
    """The user's own configuration; the folder is not there yet."""
    daemon.watch(CLAUDE_CONFIG_DIR=daemon.home / ".claude", CODEX_HOME=daemon.home / ".codex")
    return daemon.home / ".config" / "wakeful" / "wakeful.toml"


@pytest.fixture
def worker() -> Iterator[subprocess.Popen[bytes]]:
    """The process of a session."""
    with subprocess.Popen(["sleep", "600"]) as process:
        yield process
        process.kill()


def write(file: Path, text: str) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    file.chmod(0o600)


def record(daemon: RunningDaemon) -> Any:
    return daemon.run("status", "--json").json["daemon"]


def say(daemon: RunningDaemon, **event: object) -> None:
    log = Path(daemon.environ["WAKEFUL_HOME"]) / "events" / "reloaded.jsonl"
    with log.open("a") as lines:
        lines.write(json.dumps({"at": time.time(), **event}) + "\n")


def test_a_threshold_counts_from_the_moment_the_file_is_written(
    daemon: RunningDaemon, file: Path, worker: subprocess.Popen[bytes]
) -> None:
    """A session that was healthy is silent by the new number, without a restart, and says so in why."""
    daemon.up()
    say(daemon, event="opened", pid=worker.pid, cwd=str(daemon.home))
    say(daemon, event="prompt")
    daemon.wait_for_session(lambda each: each["health"] == "healthy" and each["state"] == "prompting", "it")
    write(file, "[detect]\nsilence_seconds = 2\n")
    daemon.wait_for_session(
        lambda each: any(one["code"] == "silent" for one in each["findings"]), "silence by the new number"
    )
    assert daemon.run("session", "inspect", "reloaded", "--json").json["policy"]["silence_seconds"] == 2
    assert record(daemon)["config_files"] == [str(file)]
    assert "applied: detect.silence_seconds" in daemon.said()


def test_an_alert_goes_through_the_channel_that_was_added(
    daemon: RunningDaemon, file: Path, worker: subprocess.Popen[bytes], telegram: Telegram
) -> None:
    """The next alert arrives there; no child of the daemon would get its token."""
    daemon.up()
    write(
        file,
        f'[alerts]\ntelegram_token = "1:reloaded-token"\ntelegram_chat = "7"\n'
        f'telegram_api = "{telegram.http.url}"\nneeds_you_seconds = 0.1\n',
    )
    wait_for(lambda: "applied: alerts." in daemon.said() or None, "the channel")
    say(daemon, event="opened", pid=worker.pid, cwd=str(daemon.home))
    say(daemon, event="prompt")
    say(daemon, event="asking", about="push to main?")
    wait_for(lambda: any("push to main?" in text for text in telegram.texts("7")) or None, "the alert")
    assert "reloaded-token" not in daemon.said()


def test_what_needs_a_restart_says_so(daemon: RunningDaemon, file: Path) -> None:
    """In the log, `status` and `doctor`; when the file is put back, they are silent again."""
    write(file, "[daemon]\nport = 0\n")
    daemon.up(port=None)
    write(file, '[daemon]\nport = 0\nmode = "observe"\n[heal]\nsteer_seconds = 60\n')
    wait_for(lambda: record(daemon)["config_notes"] or None, "the note")
    note = "configuration: daemon.mode: takes effect after a restart (wakeful down, then wakeful up)"
    assert note in daemon.run("status").out
    assert "daemon.mode" in daemon.run("doctor").out
    assert record(daemon)["mode"] == "mine"
    assert daemon.said().count(note) == 1
    assert "applied: heal.steer_seconds" in daemon.said()
    write(file, "[daemon]\nport = 0\n")
    wait_for(lambda: not record(daemon)["config_notes"] or None, "silence")


@pytest.mark.parametrize(
    "broken", ['[alerts]\ntelegram_token = "half', "[heal]\nsteer_seconds = -1\n", "\xff"]
)
def test_a_broken_file_changes_nothing_and_is_said_once(
    daemon: RunningDaemon, file: Path, broken: str
) -> None:
    """The earlier values stay; the same problem again is not said again; a valid file ends it."""
    write(file, "[heal]\nsteer_seconds = 60\n")
    daemon.up()
    file.write_bytes(broken.encode("latin-1"))
    wait_for(lambda: record(daemon)["config_notes"] or None, "the problem")
    os.utime(file)
    file.write_bytes(broken.encode("latin-1"))
    time.sleep(QUIET_SECONDS)
    assert daemon.said().count("configuration not applied") == 1
    assert "half" not in daemon.said()
    assert "configuration not applied, the earlier one stays in effect" in daemon.run("status").out
    write(file, "[heal]\nsteer_seconds = 60\n")
    wait_for(lambda: not record(daemon)["config_notes"] or None, "a valid file")
    assert "applied" not in daemon.said().replace("not applied", "")
    assert "the configuration is valid again" in daemon.said()


def test_a_file_behind_a_link_and_one_replaced_whole_are_seen(daemon: RunningDaemon, file: Path) -> None:
    """As editors and managers of settings write: a new file renamed over the old one, behind a link."""
    kept = daemon.home / "dotfiles" / "wakeful.toml"
    write(kept, "")
    file.parent.mkdir(parents=True)
    file.symlink_to(kept)
    daemon.up()
    for number in (61, 62):
        aside = kept.with_suffix(".new")
        write(aside, f"[heal]\nsteer_seconds = {number}\n")
        aside.rename(kept)
        count = number - 60
        wait_for(lambda: daemon.said().count("applied: heal.steer_seconds") == count or None, "it")  # noqa: B023


def test_a_working_directory_s_file_counts_again_when_it_is_trusted(
    daemon: RunningDaemon, file: Path
) -> None:
    """An agent that edits it changes nothing; after `config trust` it counts, without a restart."""
    here = daemon.home / "wakeful.toml"
    here.write_text("[heal]\nsteer_seconds = 60\n")
    assert daemon.run("config", "trust").exit_code == 0
    daemon.up()
    here.write_text("[heal]\nsteer_seconds = 61\n")
    wait_for(lambda: record(daemon)["config_notes"] or None, "the refusal")
    assert "has changed" in record(daemon)["config_notes"][0]
    assert daemon.run("config", "trust").exit_code == 0
    wait_for(lambda: "applied: heal.steer_seconds" in daemon.said() or None, "trust")
    assert record(daemon)["config_notes"] == []
    assert not file.exists()


@pytest.mark.parametrize("kind", ["fifo", "folder", "loop", "giant"])
def test_what_is_no_file_of_sensible_size_changes_nothing(
    daemon: RunningDaemon, file: Path, kind: str
) -> None:
    """It is refused at once, and the daemon answers as before."""
    write(file, "[heal]\nsteer_seconds = 60\n")
    daemon.up()
    aside = file.with_name("aside")
    if kind == "fifo":
        os.mkfifo(aside)
    elif kind == "folder":
        aside.mkdir()
    elif kind == "loop":
        aside.symlink_to(file)
    else:
        aside.write_bytes(b"#" * 2_000_000)
    file.unlink()
    aside.rename(file)
    wait_for(lambda: record(daemon)["config_notes"] or None, "the problem")
    assert "stays in effect" in record(daemon)["config_notes"][0]
    assert "steer_seconds" not in daemon.said()
