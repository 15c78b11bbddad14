"""The example of docs/how-to/journal.md, run as a newcomer would."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from wakeful.checkpoints.model import ChoiceName
from wakeful.journal.checkpoint_store import _with_checkpoints
from wakeful.journal.recovery_watch import recover_journal

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "journal.md"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("WAKEFUL_HOME", str(tmp_path / "home"))
    example = re.search(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert example is not None
    folder = tmp_path / "release"
    folder.mkdir()
    (folder / "release.py").write_text(example[1])
    return folder


def release(folder: Path, *words: str) -> "subprocess.CompletedProcess[str]":
    argv = [sys.executable, "release.py", *words]
    return subprocess.run(argv, cwd=folder, capture_output=True, text=True, timeout=60, check=False)


def test_the_example_does_what_its_page_says(folder: Path) -> None:
    """Killed behind the mail it asks; told that the mail is out it ends, and there is one mail and one release."""
    assert release(folder, "--crash").returncode == -9
    held = release(folder)
    told = f"{folder} needs your decision: read {folder}/CHECKPOINT_1.md, then `wakeful checkpoint show 1`."
    assert (held.returncode, held.stderr) == (1, f"{told} Nothing was run.\n")
    _with_checkpoints(lambda desk: desk.record(1, ChoiceName.DONE, "newcomer"))
    recovered = recover_journal(folder / ".copilot" / "session_state.json")
    assert recovered.next_immediate_step is None
    ended = release(folder)
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "released\n", "")
    assert (folder / "elsewhere" / "mails").read_text() == "1.2 is out\n"
    assert len(list((folder / "elsewhere").glob("publish-*"))) == 1
    assert release(folder).stdout == "released\n"


def test_what_waits_is_read_without_a_daemon(folder: Path) -> None:
    """List and show give what a daemon gives and say that there is none; where nothing ever was, nothing is made."""
    nothing = wakeful("checkpoint", "list")
    assert nothing.stdout.startswith("No checkpoint needs your decision.")
    assert not (folder.parent / "home").exists()
    release(folder, "--crash")
    release(folder)
    listed = wakeful("checkpoint", "list", "--json")
    assert [each["number"] for each in json.loads(listed.stdout)["checkpoints"]] == [1]
    assert "no daemon" in listed.stderr
    assert "step announce, attempt 1" in wakeful("checkpoint", "show", "1").stdout
    missing = wakeful("checkpoint", "show", "2")
    assert (missing.returncode, "No checkpoint 2" in missing.stderr) == (2, True)
    assert wakeful("checkpoint", "continue", "1").returncode == 3


def wakeful(*words: str) -> "subprocess.CompletedProcess[str]":
    argv = [sys.executable, "-m", "wakeful", *words]
    return subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False)
