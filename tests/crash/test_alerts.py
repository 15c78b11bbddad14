"""kill -9 at every step of an alert: the operator gets it at least once, a chat at most once."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from wakeful.core.fault_points import VARIABLE

WORKER = Path(__file__).with_name("alert_worker.py")


def work(folder: Path, chat: str, fault: str = "") -> int:
    words = (sys.executable, str(WORKER), str(folder / "wakeful.db"), str(folder / "said"), chat)
    return subprocess.run(words, env={**os.environ, VARIABLE: fault}, check=False, timeout=60).returncode


def said(folder: Path) -> int:
    path = folder / "said"
    return len(path.read_text().splitlines()) if path.exists() else 0


@pytest.mark.parametrize(
    ("fault", "times"), [("store.committed:1:kill", 1), ("alert.sent:1:kill", 2), ("store.commit:2:kill", 2)]
)
def test_the_operator_is_told_at_least_once(tmp_path: Path, fault: str, times: int) -> None:
    """Killed once it is stored, once it is sent, and before that is noted: sent, and twice where the result was unknown."""
    assert work(tmp_path, "", fault) == -signal.SIGKILL
    assert work(tmp_path, "") == 0
    assert said(tmp_path) == times
    assert work(tmp_path, "") == 0
    assert said(tmp_path) == times


@pytest.mark.parametrize(("fault", "times"), [("store.committed:1:kill", 1), ("alert.sent:1:kill", 1)])
def test_somebody_s_chat_is_told_at_most_once(tmp_path: Path, fault: str, times: int) -> None:
    """A note that it leaves is made first, so that it is never said twice."""
    assert work(tmp_path, "42", fault) == -signal.SIGKILL
    assert work(tmp_path, "42") == 0
    assert said(tmp_path) <= 1
    assert said(tmp_path) == times
