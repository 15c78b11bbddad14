"""`wakeful recover`, `wakeful backlog` and the three scripts as a person or a program types them."""

import json
import os
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from support.run_program import run_program
from wakeful.journal.api import Journal
from wakeful.journal.locks import recovery_lock

REPOSITORY = Path(__file__).parents[2]
Say = Callable[..., "subprocess.CompletedProcess[str]"]
ITEM = ("T-1", "fix the build", "--priority", "high", "--est-hours", "2")


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("WAKEFUL_HOME", str(tmp_path / "home"))
    folder = tmp_path / "root"
    folder.mkdir()
    return folder


@pytest.fixture
def say(root: Path) -> Say:
    """A command in the journal's folder."""

    def run(*words: str, script: str | None = None) -> "subprocess.CompletedProcess[str]":
        start = [sys.executable, str(REPOSITORY / script)] if script else [sys.executable, "-m", "wakeful"]
        return run_program([*start, *words], cwd=root)

    return run


def recover(say: Say, *more: str) -> "subprocess.CompletedProcess[str]":
    return say("recover", "--session-state", ".copilot/session_state.json", *more)


def cut_off(root: Path, **traits: Any) -> None:
    program = "import json, os, sys, wakeful; traits = json.loads(sys.argv[2])\n"
    program += "with wakeful.Journal(sys.argv[1]).step('push', **traits): os.kill(os.getpid(), 9)\n"
    subprocess.run([sys.executable, "-c", program, str(root), json.dumps(traits)], check=False, timeout=60)


def archive(root: Path) -> list[dict[str, Any]]:
    lines = (root / "doc" / "todo-archive.ndjson").read_text().splitlines()
    return [json.loads(line) for line in lines]


def test_a_safe_recovery_says_its_eight_steps_and_exits_0(root: Path, say: Say) -> None:
    """Progress beside the answer, the answer in a few lines, and the same as JSON."""
    cut_off(root, effects="local")
    said = recover(say)
    assert said.returncode == 0
    assert [line[9:12] for line in said.stderr.splitlines()] == [f"{number}/8" for number in range(1, 9)]
    assert said.stdout.startswith("ok  trace ")
    assert "next: push" in said.stdout
    assert json.loads(recover(say, "--json").stdout)["status"] == "ok"


def test_a_recovery_that_needs_a_person_exits_1_and_names_the_file(root: Path, say: Say) -> None:
    """manual-review and required-rollback are answers of no."""
    cut_off(root, effects="remote")
    said = recover(say)
    assert said.returncode == 1
    assert f"read {root}/CHECKPOINT_1.md" in said.stdout
    cut_off(root / "other", effects="remote", query=["sh", "-c", "exit 11"])
    state = root / "other" / ".copilot" / "session_state.json"
    said = say("recover", "--session-state", str(state), "--json")
    assert (said.returncode, json.loads(said.stdout)["status"]) == (1, "required-rollback")


def test_a_missing_or_foreign_state_exits_2(root: Path, say: Say) -> None:
    """One line says what is wrong; no folder is made and no file changed."""
    assert recover(say).returncode == 2
    assert list(root.iterdir()) == []
    Journal(root).close()
    (root / ".copilot" / "session_state.json").write_text('{"schema": 9}')
    said = recover(say)
    assert said.returncode == 2
    assert said.stderr.splitlines()[-1].startswith("wakeful: ")
    assert say("recover", "--session-state", "elsewhere.json").returncode == 2


def test_a_second_recovery_exits_3_and_names_the_owner(root: Path, say: Say) -> None:
    """`--wait` gives up after its time, too."""
    Journal(root).close()
    with recovery_lock(
        root / ".tmp" / "agent_recovery.lock", since="2026-02-05T10:00:00Z", command="me", wait_seconds=0
    ):
        for more in ((), ("--wait", "0.2")):
            said = recover(say, *more)
            assert said.returncode == 3
            assert f"pid {os.getpid()} (me)" in said.stderr


def test_a_torn_state_is_kept_and_exits_1(root: Path, say: Say) -> None:
    """What is left of it lies in .tmp/corrupt."""
    cut_off(root, effects="local")
    (root / ".copilot" / "session_state.json").write_text('{"current_task_id": "pu')
    said = recover(say)
    assert said.returncode == 1
    assert [each.read_text() for each in (root / ".tmp" / "corrupt").iterdir()] == ['{"current_task_id": "pu']


def test_the_backlog_is_added_to_changed_and_listed(root: Path, say: Say) -> None:
    """Both homes get every change; the newest line of an id wins."""
    assert say("backlog", "add", *ITEM, "--set", "owner=ann").returncode == 0
    assert say("backlog", "update", "T-1", "--status", "done").returncode == 0
    assert [(each["status"], each["owner"]) for each in archive(root)] == [("todo", "ann"), ("done", "ann")]
    listed = json.loads(say("backlog", "list", "--json").stdout)["items"]
    assert [(each["id"], each["status"], each["priority"], each["est_hours"]) for each in listed] == [
        ("T-1", "done", "high", 2.0)
    ]
    assert say("backlog", "list", "--status", "todo").stdout == "The backlog is empty.\n"


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("add", "T-1", "again", "--priority", "1", "--est-hours", "1"), "already"),
        (("add", "", "no id", "--priority", "1", "--est-hours", "1"), "needs id"),
        (("add", "T-2", "no hours", "--priority", "1"), "--est-hours"),
        (("add", "T-2", "when", "--priority", "1", "--est-hours", "1", "--added-at", "soon"), "ISO 8601"),
        (("update", "T-9", "--status", "done"), "No backlog item"),
        (("update", "T-1"), "Nothing to change"),
        (("update", "T-1", "--set", "nothing"), "name=value"),
        (("list", "--root", "nowhere"), "is not a folder"),
    ],
)
def test_what_an_item_lacks_is_named(say: Say, words: tuple[str, ...], told: str) -> None:
    """Exit 2, one line, nothing written."""
    say("backlog", "add", *ITEM)
    said = say("backlog", *words)
    assert said.returncode == 2
    assert told in said.stderr


def test_a_missing_database_is_made_from_the_archive(root: Path, say: Say) -> None:
    """The newest line of each id counts, lines without the required fields are named, and the import is traced."""
    rows = [
        {
            "id": "A",
            "title": "a",
            "status": "todo",
            "priority": 1,
            "est_hours": 1,
            "added_at": "2026-02-01T00:00:00Z",
        },
        {
            "id": "A",
            "title": "a",
            "status": "done",
            "priority": 1,
            "est_hours": 1,
            "added_at": "2026-02-01T00:00:00Z",
        },
        {"id": "B", "title": "no status"},
    ]
    (root / "doc").mkdir()
    (root / "doc" / "todo-archive.ndjson").write_text(
        "".join(json.dumps(row) + "\n" for row in rows) + '{"id": "C"'
    )
    assert [each["status"] for each in json.loads(say("backlog", "list", "--json").stdout)["items"]] == [
        "done"
    ]
    assert sorted(path.name for path in root.iterdir()) == ["doc"], "a list makes nothing"
    assert "line 3" in say("backlog", "sync").stdout
    first = json.loads((root / "events.ndjson").read_text().splitlines()[0])
    assert (first["event"], first["details"]) == ("recovery.sync", {"rows_imported": 1, "lines_left_out": 1})
    with closing(sqlite3.connect(root / "gaia.db")) as database:
        rows = database.execute("SELECT event, trace_id FROM audit ORDER BY rowid").fetchall()
    assert rows[0] == ("recovery.sync", first["trace_id"])


def test_sync_tells_differences_and_keeps_whom_it_was_told_to(root: Path, say: Say) -> None:
    """gaia.db is the truth unless the archive is preferred; what only one has goes to the other."""
    say("backlog", "add", *ITEM)
    path = root / "doc" / "todo-archive.ndjson"
    line = json.loads(path.read_text())
    path.write_text(json.dumps(line | {"status": "other"}) + "\n" + json.dumps(line | {"id": "T-2"}) + "\n")
    synced = json.loads(say("backlog", "sync", "--json").stdout)
    assert (synced["imported"], synced["differing"], synced["items"]) == (["T-2"], ["T-1"], 2)
    assert archive(root)[-1]["status"] == "todo"
    path.write_text(json.dumps(line | {"status": "other"}) + "\n")
    say("backlog", "sync", "--prefer", "archive")
    items = json.loads(say("backlog", "list", "--json").stdout)["items"]
    assert [each["status"] for each in items] == ["other", "todo"]


def test_a_page_for_people_can_be_written(root: Path, say: Say) -> None:
    """What others wrote is text in it, and nothing else."""
    say("backlog", "add", "T-1", "a | [b](http://x) \x1b[31m<img>", "--priority", "high", "--est-hours", "2")
    assert say("backlog", "sync", "--master").returncode == 0
    page = (root / "MASTER_BACKLOG.md").read_text()
    assert "## todo (1)" in page
    assert r"a \| \[b](http://x) \<img>" in page


def test_the_recovery_scripts_are_the_same_commands(root: Path, say: Say) -> None:
    """restore_session, update_todo and sync_backlog_to_db, with the documented arguments."""
    cut_off(root, effects="local")
    state = ("--session-state", ".copilot/session_state.json")
    assert say(*state, script="scripts/restore_session.py").stdout.startswith("ok  trace ")
    say("backlog", "add", *ITEM)
    assert say("T-1", "--status", "done", script="agents/update_todo.py").returncode == 0
    assert archive(root)[-1]["status"] == "done"
    assert say(script="agents/sync_backlog_to_db.py").stdout.startswith("1 items")
