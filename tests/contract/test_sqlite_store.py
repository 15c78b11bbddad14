"""What only the SQLite store promises: its file, its migrations, its way of sharing and of committing together."""

import asyncio
import json
import os
import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import msgspec
import pytest
from msgspec.structs import replace

from contract.lease_contract import work
from contract.machine_contract import ONE, TWO
from contract.store_contract import A, B, bookmark, change, hosting, intent
from wakeful.core.leases import Lease, LeaseKey
from wakeful.core.process import Process
from wakeful.storage.base import FinishedTurns, Note
from wakeful.storage.sqlite import database as opening
from wakeful.storage.sqlite.database import MIGRATIONS, QUERIES, Migration, open_database
from wakeful.storage.sqlite.errors import StoreBusy, StoreCorrupt, StoreUnwritable
from wakeful.storage.sqlite.store import SqliteStore
from wakeful.testing.fault_plan import FaultPlan

LATER = Migration(
    MIGRATIONS[-1].version + 1, "-- Two statements; one with a semicolon inside.\nCREATE TABLE later (\n  id TEXT\n);\nINSERT INTO later VALUES ('a;b');\n"
)  # fmt: skip

ALL_OF_IT = {
    "enqueue": {"SCAN CONSTANT ROW"},
    "hostings": {"SCAN hostings"},
    # Few rows: the machines, and the managed sessions.
    "sessions_elsewhere": {"SCAN machines", "SCAN hostings"},
    "other_machines": {"SCAN machines"},
    "forget_other_machines": {"SCAN machines"},
}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "wakeful.db"


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Another process's write lock, as far as SQLite can tell."""
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        yield
        other.execute("ROLLBACK")


def values_of(query: str) -> int:
    """How many values it takes, whether by place or by number."""
    numbered = [int(each) for each in re.findall(r"\?(\d+)", query)]
    return max(numbered, default=query.count("?"))


def mode(path: Path) -> int:
    return path.stat().st_mode & 0o777


async def test_what_was_stored_is_there_after_reopening(path: Path) -> None:
    """A store is its file."""
    store = await SqliteStore.open(path)
    await store.record([change(A), change(B)])
    await store.save_bookmarks([bookmark()])
    await store.save_intent(intent())
    await store.close()
    again = await SqliteStore.open(path)
    assert [row.id for row in await again.sessions()] == [A, B]
    assert await again.bookmarks() == [bookmark()]
    assert await again.open_intents() == [intent()]
    await again.close()
    assert [each.name for each in path.parent.iterdir()] == ["wakeful.db"]


async def test_nobody_else_may_read_the_file(path: Path) -> None:
    """The database and its log are 0600 whatever the umask says."""
    before = os.umask(0)
    try:
        store = await SqliteStore.open(path)
        await store.record([change()])
        assert {mode(each) for each in path.parent.iterdir()} == {0o600}
        assert len(list(path.parent.iterdir())) == 3
        await store.close()
    finally:
        os.umask(before)


async def test_a_missing_folder_is_told(tmp_path: Path) -> None:
    """The folder is not made here, with whatever permissions; its absence is the world's fault."""
    with pytest.raises(StoreUnwritable, match="No such file or directory"):
        await SqliteStore.open(tmp_path / "nowhere" / "wakeful.db")


async def test_a_path_may_hold_any_character(tmp_path: Path) -> None:
    """Characters that mean something in an address of SQLite are part of a name here."""
    folder = tmp_path / "a?b#c%20d é\udcff"
    folder.mkdir()
    store = await SqliteStore.open(folder / "wakeful.db")
    await store.record([change()])
    assert (folder / "wakeful.db-wal").exists()
    await store.close()


async def test_operations_that_arrive_during_a_commit_share_the_next_one(path: Path) -> None:
    """Fifty callers that come while a commit runs cost one commit more, not fifty."""
    store = await SqliteStore.open(path)
    with FaultPlan(("store.commit", 1, "stall")) as plan:
        first = asyncio.ensure_future(store.record([change()]))
        await asyncio.to_thread(plan.wait_for, "store.commit")
        others = [asyncio.ensure_future(store.record([change()])) for _ in range(50)]
        await asyncio.sleep(0)
        plan.release()
        assert await asyncio.gather(first, *others) == list(range(1, 52))
        assert plan.points.count("store.commit") == 2
    await store.close()


async def test_closing_waits_for_those_who_still_wait(path: Path) -> None:
    """Callers that have not even begun when the store is closed are stored too."""
    store = await SqliteStore.open(path)
    with FaultPlan(("store.commit", 1, "stall")) as plan:
        asked = [asyncio.ensure_future(store.record([change()]))]
        await asyncio.to_thread(plan.wait_for, "store.commit")
        asked += [asyncio.ensure_future(store.record([change()])) for _ in range(5)]
        await asyncio.sleep(0)
        closing_ = asyncio.ensure_future(store.close())
        await asyncio.sleep(0)
        plan.release()
        assert await asyncio.gather(*asked) == list(range(1, 7))
        await closing_


async def test_readers_never_wait_for_the_writer(path: Path) -> None:
    """While a commit stands still, reading is answered from what was committed before."""
    store = await SqliteStore.open(path)
    await store.record([change(A)])
    with FaultPlan(("store.commit", 1, "stall")) as plan:
        stuck = asyncio.ensure_future(store.record([change(B)]))
        await asyncio.to_thread(plan.wait_for, "store.commit")
        assert [row.id for row in await store.sessions()] == [A]
        assert not stuck.done()
    assert await stuck == 2
    await store.close()


async def test_a_locked_store_is_busy_and_then_goes_on(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another process's lock is waited for, then told as busy; reading goes on and so does writing afterwards."""
    monkeypatch.setattr(opening, "BUSY_SECONDS_MAX", 0.05)
    store = await SqliteStore.open(path)
    with locked(path):
        with pytest.raises(StoreBusy) as caught:
            await store.record([change()])
        assert caught.value.retryable
        assert await store.sessions() == []
    assert await store.record([change()]) == 1
    await store.close()


async def test_a_short_lock_is_waited_for(path: Path) -> None:
    """A commit of another process in between is no error."""
    store = await SqliteStore.open(path)
    with FaultPlan() as plan, locked(path):
        waiting = asyncio.ensure_future(store.record([change()]))
        await asyncio.to_thread(plan.wait_for, "store.begin")
        assert not waiting.done()
    assert await waiting == 1
    await store.close()


async def test_stores_on_one_file_see_each_other(path: Path) -> None:
    """Two that are open at once number their transitions together; of two equal intents one wins."""
    one, two = await SqliteStore.open(path), await SqliteStore.open(path)
    seqs = await asyncio.gather(*(store.record([change()]) for store in (one, two) * 10))
    assert sorted(seqs) == list(range(1, 21))
    assert sorted(await asyncio.gather(one.save_intent(intent()), two.save_intent(intent()))) == [False, True]
    assert (await one.sessions())[0].version == (await two.sessions())[0].version == 20
    await one.close()
    assert await two.record([change()]) == 21
    await two.close()


async def test_leases_of_stores_on_one_file_are_one_truth(path: Path) -> None:
    """What one store hands out the other refuses, at once; nothing is remembered beside the file."""
    one, two = await SqliteStore.open(path), await SqliteStore.open(path)
    await one.enqueue(work(attempts_max=2))
    runs = await asyncio.gather(one.claim_next_run("one"), two.claim_next_run("two"))
    (run,) = [each for each in runs if each is not None]
    assert await two.heartbeat_run_lease(run.work.id, run.epoch, -1.0) is not None
    assert len(await two.expire_runs()) == 1
    again = await two.claim_next_run("two")
    assert again is not None
    assert not await one.complete_run(run.work.id, run.epoch, "late")
    assert await one.complete_run(again.work.id, again.epoch, "in time")
    await one.close()
    await two.close()


async def test_a_migration_keeps_a_backup_of_what_was(path: Path) -> None:
    """Before an older database is changed it is copied, as private as itself; a new one needs no copy."""
    store = await SqliteStore.open(path)
    await store.record([change(A)])
    await store.close()
    for connection in open_database(path, [*MIGRATIONS, LATER]):
        connection.close()
    backup = path.with_name(f"wakeful.db.before-v{LATER.version}")
    assert sorted(each.name for each in path.parent.iterdir()) == ["wakeful.db", backup.name]
    assert mode(backup) == 0o600
    with closing(sqlite3.connect(path)) as migrated, closing(sqlite3.connect(backup)) as copy:
        assert migrated.execute("PRAGMA user_version").fetchone() == (LATER.version,)
        assert migrated.execute("SELECT id FROM later").fetchall() == [("a;b",)]
        assert copy.execute("PRAGMA user_version").fetchone() == (LATER.version - 1,)
        assert copy.execute("SELECT count(*) FROM transitions").fetchone() == (1,)


async def test_a_store_of_the_first_version_gains_work_and_keeps_the_rest(path: Path) -> None:
    """What was stored before there was work is still there, with a backup beside it; the unused outbox is gone."""
    first = open_database(path, MIGRATIONS[:1])
    first.writer.execute("INSERT INTO outbox (kind, payload) VALUES ('alert', x'31')")
    first.writer.execute(
        "INSERT INTO intents (id, session_id, act, evidence, at) VALUES ('i', 'claude-a', 'stop', x'7b7d', 1.0)"
    )
    for connection in first:
        connection.close()
    store = await SqliteStore.open(path)
    assert [each.id for each in await store.open_intents()] == ["i"]
    assert await store.enqueue(work())
    assert (await store.claim_next_run("a")) is not None
    await store.close()
    assert path.with_name(f"wakeful.db.before-v{MIGRATIONS[-1].version}").exists()
    with closing(sqlite3.connect(path)) as migrated:
        assert migrated.execute("SELECT name FROM sqlite_master WHERE name = 'outbox'").fetchall() == []


async def test_turns_that_an_earlier_version_counted_stay_counted(path: Path) -> None:
    """What went from work to idle and healthy was a finished turn; a death was none."""
    before = open_database(path, MIGRATIONS[:6])
    moves = (
        ("prompting", "idle", "healthy"),
        ("waiting", "stopped", "stale"),
        ("prompting", "stopped", "dead"),
    )
    for seq, (old, new, health) in enumerate(moves, 1):
        before.writer.execute(
            "INSERT INTO transitions VALUES (?, 'claude-a', ?, ?, ?, 'healthy', ?, 'seen', x'7b7d')",
            (seq, float(seq), old, new, health),
        )
    for connection in before:
        connection.close()
    store = await SqliteStore.open(path)
    assert await store.finished_turns(0.0) == [FinishedTurns(A, 2, 2.0)]
    await store.close()


async def test_rows_without_a_machine_become_those_of_the_machine_that_migrates(path: Path) -> None:
    """As they were written before; processes in documents too, so they equal those that are seen. A backup is made."""
    before = open_database(path, MIGRATIONS[:8])
    old = replace(hosting(A), process=Process(7, 70, "boot"), pane=None)
    document = json.dumps({key: each for key, each in msgspec.to_builtins(old).items() if each is not None})
    unmarked = document.replace(', "machine": ""', "")
    assert unmarked != document
    for statement, values in (
        ("INSERT INTO hostings VALUES ('claude-a', ?)", (unmarked.encode(),)),
        (
            "INSERT INTO leases VALUES ('claude-a', 1, 'me', 1.0, 9e9, ?)",
            (b'{"pid":7,"started":70,"boot_id":"boot"}',),
        ),
        (
            "INSERT INTO transitions VALUES (1, 'claude-a', 1.0, '', 'idle', '', 'healthy', 'seen', ?, NULL, 0)",
            (b'{"session_alive":true}',),
        ),
        ("INSERT INTO sessions VALUES ('claude-a', 4, 1)", ()),
        (
            "INSERT INTO bookmarks VALUES (x'2f61', '7', 5, x'00', 1, ?)",
            (b'{"holders":{"7":{"process":{"pid":7,"started":70,"boot_id":"boot"}}}}',),
        ),
        (
            "INSERT INTO intents (id, session_id, act, evidence, at) VALUES ('i', 'claude-a', 'stop', x'7b7d', 1.0)",
            (),
        ),
        ("INSERT INTO notes VALUES ('agent', 'bot', x'7b7d'), ('pause', 'everything', x'7b7d')", ()),
        ("INSERT INTO spendings (key, at) VALUES ('claude-a', 5.0), ('issue:shop', 5.0)", ()),
    ):
        before.writer.execute(statement, values)
    for connection in before:
        connection.close()
    store = await SqliteStore.open(path, machine=ONE, now=lambda: 6.0)
    process = Process(7, 70, "boot", ONE.id)
    assert await store.managed_sessions() == [replace(old, process=process)]
    assert [each.holder for each in await store.leases()] == [process]
    (marked,) = await store.bookmarks()
    assert msgspec.json.decode(marked.folded)["holders"]["7"]["process"]["machine"] == ONE.id
    assert [(row.version, row.id) for row in await store.sessions()] == [(4, A)]
    assert [each.id for each in await store.open_intents()] == ["i"]
    assert len(await store.notes("agent")) == len(await store.notes("pause")) == 1
    other = await SqliteStore.open(path, machine=TWO, now=lambda: 6.0)
    assert [(each.session_id, each.host) for each in await other.sessions_elsewhere()] == [(A, "one")]
    assert not await other.notes("agent")
    assert not await other.open_intents()
    assert not await other.bookmarks()
    assert len(await other.notes("pause")) == 1
    for kind, key, free in (("revival", "claude-a", True), ("issue", "issue:shop", False)):
        note = Note(kind, "n", b"")
        assert await other.spend_budget(key, note, times_max=1, window_seconds=60.0) is free
        assert not await store.spend_budget(key, note, times_max=1, window_seconds=60.0)
    taken = await store.claim_lease(LeaseKey(A), "me", instead_of=process)
    assert isinstance(taken, Lease), "the stored holder equals the process as it is encoded now"
    await other.close()
    await store.close()
    assert path.with_name(f"wakeful.db.before-v{MIGRATIONS[-1].version}").exists()


async def test_a_migration_that_fails_changes_nothing(path: Path) -> None:
    """A statement that cannot run takes back those before it."""
    await (await SqliteStore.open(path)).close()
    broken = Migration(LATER.version, "CREATE TABLE half (id);\nCREATE TABLE transitions (id);\n")
    with pytest.raises(StoreCorrupt, match="already exists"):
        open_database(path, [*MIGRATIONS, broken])
    with closing(sqlite3.connect(path)) as after:
        assert after.execute("PRAGMA user_version").fetchone() == (MIGRATIONS[-1].version,)
        assert after.execute("SELECT name FROM sqlite_master WHERE name = 'half'").fetchall() == []
    await (await SqliteStore.open(path)).close()


def test_migrations_are_numbered_without_a_gap() -> None:
    """A version says how many steps were taken."""
    assert [each.version for each in MIGRATIONS] == list(range(1, len(MIGRATIONS) + 1))


def test_every_query_fits_the_schema(path: Path) -> None:
    """No query names what is not there, and none reads a whole table but those that are asked for all of it."""
    writer, reader = open_database(path)
    with closing(writer), closing(reader):
        for name, query in QUERIES.items():
            plan = reader.execute(f"EXPLAIN QUERY PLAN {query}", [None] * values_of(query)).fetchall()
            scanned = {row[3] for row in plan if row[3].startswith("SCAN") and "USING" not in row[3]}
            assert scanned <= ALL_OF_IT.get(name, set()), name


async def test_the_rows_of_machines_before_are_inherited_and_their_processes_stay_theirs(path: Path) -> None:
    """A container that was started again, or a copied home: nothing is concluded about the processes, of any boot."""
    earlier = await SqliteStore.open(path, machine=ONE, now=lambda: 6.0)
    same_boot = replace(hosting(A), process=Process(7, 70, TWO.boot_id, ONE.id), pane=None)
    other_boot = replace(hosting(B), process=Process(8, 80, ONE.boot_id, ONE.id), pane=None)
    for managed in (same_boot, other_boot):
        await earlier.save_managed_session(managed)
    await earlier.save_note(Note("agent", "bot", b"{}"))
    await earlier.save_note(Note("pause", "everything", b"{}"))
    assert await earlier.spend_budget("claude-a", Note("revival", "n", b""), times_max=1, window_seconds=60.0)
    assert not await earlier.inherit()
    await earlier.close()
    store = await SqliteStore.open(path, machine=TWO, now=lambda: 6.0)
    assert await store.notes("agent") == []
    assert await store.inherit()
    assert not await store.inherit()
    assert await store.managed_sessions() == [same_boot, other_boot]
    assert [len(await store.notes(kind)) for kind in ("agent", "pause")] == [1, 1]
    note = Note("revival", "m", b"")
    assert not await store.spend_budget("claude-a", note, times_max=1, window_seconds=60.0)
    assert await store.sessions_elsewhere() == []
    await store.close()
