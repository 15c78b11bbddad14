"""Files of a journal, and programs that are killed inside its steps."""

import json
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

from wakeful.checkpoints.model import ChoiceName
from wakeful.journal.checkpoint_store import _with_checkpoints
from wakeful.journal.recovery_rules import RecoveryResult
from wakeful.journal.recovery_watch import (
    recover_journal,
)


def state_of(root: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(state_path(root).read_text())
    return found


def state_path(root: Path) -> Path:
    return root / ".copilot" / "session_state.json"


def events(root: Path) -> list[str]:
    return [json.loads(line)["event"] for line in (root / "events.ndjson").read_text().splitlines()]


def audited(root: Path) -> list[str]:
    with closing(sqlite3.connect(root / "gaia.db")) as rows:
        return [row[0] for row in rows.execute("SELECT event FROM audit ORDER BY events_end")]


def recovered(root: Path, **how: Any) -> RecoveryResult:
    return recover_journal(state_path(root), **how)


def decide(number: int, choice: ChoiceName) -> None:
    _with_checkpoints(lambda desk: desk.record(number, choice, "tester"))


def killed_inside(root: Path, traits: str, inside: str = "") -> None:
    """A program that is killed inside its step `cut`."""
    program = f"import os, wakeful; j = wakeful.Journal({str(root)!r}, steps=['cut', 'after'])\n"
    program += f"with j.step('cut', {traits}): {inside or 'pass'}; os.kill(os.getpid(), 9)\n"
    ended = subprocess.run([sys.executable, "-c", program], check=False, timeout=60)
    assert ended.returncode == -9
