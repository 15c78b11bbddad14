"""Claims about what is kept of a session on disk: no secret is in it, and a restart changes no verdict."""

import os
import sqlite3
import time
from contextlib import closing
from pathlib import Path

import msgspec
import pytest

from support.judging_helpers import POLICY, at, folded, held
from support.secret_kinds import KINDS, Kind
from wakeful.judging import events as e
from wakeful.judging.activity import INPUT_BYTES_KEPT_MAX, Activity
from wakeful.judging.activity_redaction import redacted_activity
from wakeful.judging.judge import judge
from wakeful.storage.sqlite.database import BACKUP_SECONDS_MAX, MIGRATIONS, open_database

REPEATS = 12
BEFORE = 4


def _events(kind: Kind, *, error: bool) -> list[e.Event]:
    """One call over and over, with a secret in all that it says."""
    given = msgspec.json.encode({"command": f"export A=1; {kind.text}", "description": kind.text})
    events: list[e.Event] = [e.LogOpened(1.0, cwd="/home/u"), e.Prompted(1.0)]
    for number in range(REPEATS):
        began = 2.0 + 2 * number
        events.append(e.CallStarted(began, f"c{number}", "Bash", input=given))
        events.append(e.CallEnded(began + 1, f"c{number}", is_error=error, result=kind.text.encode()))
    return events


def _restarted(activity: Activity) -> Activity:
    kept = msgspec.json.encode(redacted_activity(activity))
    return msgspec.json.decode(kept, type=Activity)


@pytest.mark.parametrize("error", [False, True])
@pytest.mark.parametrize("kind", KINDS[::7], ids=lambda kind: kind.name)
def test_a_restart_changes_no_verdict(kind: Kind, error: bool) -> None:
    """Wherever it comes: what is compared is compared as it was."""
    events = _events(kind, error=error)
    whole = judge(folded(events), held(), POLICY, at(40))
    assert whole.findings, "the same call twelve times is a loop"
    for cut in range(2, len(events), 5):
        again = folded(events[cut:], _restarted(folded(events[:cut])))
        verdict = judge(again, held(), POLICY, at(40))
        assert [(each.code, each.since, each.summary) for each in verdict.findings] == [
            (each.code, each.since, each.summary) for each in whole.findings
        ]


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_nothing_that_is_kept_holds_a_secret(kind: Kind) -> None:
    """In calls, results, errors, failures, questions, tasks in the background; bytes as they are before encoding."""
    activity = folded(
        [*_events(kind, error=True), e.CallStarted(90, "open", "Bash", input=kind.text.encode())]
    )
    activity.asks = activity.failure_message = kind.text
    kept = redacted_activity(activity)
    assert kind.secret not in kind.text or kind.is_in(_seen(activity)), "what is in memory is whole"
    assert not kind.is_in(_seen(kept))


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_an_input_that_was_cut_shows_no_half_of_a_secret(kind: Kind) -> None:
    """Wherever the border falls."""
    for back in range(4, len(kind.text), 9):
        given = ("x " * INPUT_BYTES_KEPT_MAX)[: INPUT_BYTES_KEPT_MAX - back] + kind.text
        activity = folded([e.Prompted(1.0), e.CallStarted(2.0, "c", "Bash", input=given.encode())])
        assert not kind.is_in(_seen(redacted_activity(activity)))


def _seen(activity: Activity) -> str:
    """Every text and every bytes in it, bytes as text."""
    return str(msgspec.to_builtins(activity, builtin_types=(bytes,)))


def test_a_migration_cleans_what_an_earlier_version_kept(tmp_path: Path) -> None:
    """Rows, pages that were free, and the log beside them; a backup goes after a week."""
    path = tmp_path / "wakeful.db"
    open_database(path, MIGRATIONS[:4]).writer.close()
    texts = [kind.text for kind in KINDS]
    _fill_as_before(path, texts)
    assert any(kind.is_in(_bytes_of(path)) for kind in KINDS)
    _close(open_database(path))
    leaked = [kind.name for kind in KINDS if kind.is_in(_bytes_of(path))]
    assert leaked == []
    backup = path.with_name(f"wakeful.db.before-v{MIGRATIONS[-1].version}")
    assert backup.stat().st_mode & 0o777 == 0o600
    long_ago = time.time() - BACKUP_SECONDS_MAX - 60
    _close(open_database(path))
    assert backup.exists(), "a version that disappoints can be left"
    os.utime(backup, (long_ago, long_ago))
    _close(open_database(path))
    assert not backup.exists()


def test_what_is_deleted_is_overwritten(tmp_path: Path) -> None:
    """No free page holds what stood in it."""
    path = tmp_path / "wakeful.db"
    opened = open_database(path)
    opened.writer.execute("INSERT INTO notes VALUES ('', 'k', 'k', ?)", (b"telltale" * 5000,))
    opened.writer.execute("DELETE FROM notes")
    _close(opened)
    assert "telltale" not in _bytes_of(path)


def _fill_as_before(path: Path, texts: list[str]) -> None:
    """As versions before wrote it: without secure_delete, and with rows that were deleted since."""
    with closing(sqlite3.connect(path)) as store, store:
        for number, text in enumerate(texts):
            record = msgspec.json.encode({"id": "s", "findings": [{"untrusted": [text]}]})
            row = (number + 1, "s", 1.0, "idle", "idle", "ok", "ok", "r", record)
            store.execute("INSERT INTO transitions VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", row)
            bookmark = (f"/log/{number}".encode(), "1", 1, b"", 9, text.encode())
            store.execute("INSERT INTO bookmarks VALUES (?, ?, ?, ?, ?, ?)", bookmark)
            store.execute(
                "INSERT INTO notes VALUES ('alert', ?, ?)", (str(number), msgspec.json.encode([text]))
            )
            store.execute("INSERT INTO outbox (kind, payload) VALUES ('x', ?)", (msgspec.json.encode(text),))
        store.execute("DELETE FROM outbox")


def _bytes_of(path: Path) -> str:
    files = (path, path.with_name("wakeful.db-wal"))
    # JSON escapes quotes; what is searched for has none.
    texts = [each.read_bytes().decode("utf-8", "replace") for each in files if each.exists()]
    return "".join(texts).replace("\\", "")


def _close(opened: object) -> None:
    assert isinstance(opened, tuple)
    for connection in opened:
        connection.close()
