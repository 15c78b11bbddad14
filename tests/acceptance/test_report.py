"""The real `wakeful report`: with a daemon, over HTTP, and without one."""

import json
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from support import claude_transcripts
from support.claude_transcripts import answer, call, prompt
from support.daemon_process import RunningDaemon

CONVERSATION = "5a74ada3-0000-4000-8000-000000000001"
ASKING = "5a74ada3-0000-4000-8000-000000000002"


@pytest.fixture
def worked(daemon: RunningDaemon) -> RunningDaemon:
    """A session that finished in a repository with a new file, and a dead one."""
    folder, config = daemon.home / "shop", daemon.home / "claude"
    folder.mkdir()
    subprocess.run(["git", "init", "-q", str(folder)], check=True)
    (folder / "new.py").write_text("x = 1\n")
    now = time.clock_gettime(time.CLOCK_REALTIME)
    asked, answered = prompt(now - 20, CONVERSATION), answer(now - 10, CONVERSATION)
    claude_transcripts.write(
        config, CONVERSATION, asked | {"cwd": str(folder)}, answered | {"cwd": str(folder)}
    )
    claude_transcripts.write(config, ASKING, prompt(now - 9, ASKING), call(now - 8, ASKING, "make"))
    daemon.watch(CLAUDE_CONFIG_DIR=config)
    return daemon


def without_time(report: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in report.items() if key not in {"since", "until", "notes"}}


def finished(report: dict[str, Any]) -> dict[str, Any]:
    return next(each for each in report["sessions"] if each["id"] == f"claude-{CONVERSATION}")


def test_every_door_tells_the_same(worked: RunningDaemon) -> None:
    """Command and HTTP give one record, a status bar one line; without a daemon one look gives it, and says so."""
    off = worked.run("report", "--line")
    assert (off.out, off.err, off.exit_code) == ("not running\n", "", 3)
    alone = worked.run("report", "--since", "1h", "--json")
    assert alone.exit_code == 0, alone.err
    assert "no daemon" in alone.err
    assert "no daemon" in alone.json["notes"][0]
    assert not Path(worked.environ["WAKEFUL_HOME"]).exists(), "a look leaves nothing behind"
    worked.up()
    told = worked.run("report", "--since", "1h", "--json")
    assert (told.exit_code, told.err) == (0, "")
    assert without_time(told.json) == without_time(alone.json)
    done = finished(told.json)
    assert (done["part"], done["finished"], done["unchanged"]) == ("finished", 1, False)
    assert (done["folder"]["changed_files"], done["folder"]["unpushed_commits"]) == (1, None)
    assert done["spent"] == {"input_tokens": 5, "output_tokens": 7, "whole": True}
    asked = worked.run("report", "--since", json.loads(told.out)["since"])
    assert "✓ finished\n" in asked.out
    assert "0 commits, 1 changed file" in asked.out
    on = worked.run("report", "--line", "--since", "1h")
    assert (on.out, on.err, on.exit_code) == ("all well · 1 finished\n", "", 0)


def test_a_wrong_moment_is_one_line(daemon: RunningDaemon) -> None:
    """With the ways to write one."""
    said = daemon.run("report", "--since", "25:00")
    assert (said.out, said.exit_code) == ("", 2)
    assert "22:00" in said.err
    assert said.err.count("\n") == 1
