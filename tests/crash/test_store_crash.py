"""kill -9 at every write point of the store: what was acknowledged is there, and nothing is there by half."""

import asyncio
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

from crash.forks import Forks
from crash.store_workload import (
    CROWD,
    DURABLE_STEPS,
    NEXT_MIGRATION,
    STEPS,
    WORKLOAD,
    RunWorkload,
    contents_after,
    contents_of,
    crowd_member,
    every,
    run_steps,
)
from wakeful.storage.sqlite.database import MIGRATIONS, open_database
from wakeful.testing.fault_plan import FaultPlan

Point = tuple[str, int]
NEXT = (*MIGRATIONS, NEXT_MIGRATION)
OLD_VERSION, NEW_VERSION = MIGRATIONS[-1].version, NEXT_MIGRATION.version


def acknowledged(output: str) -> list[int]:
    return [int(line.removeprefix("done ")) for line in output.splitlines() if line.startswith("done ")]


def assert_whole(database: Path, output: str) -> None:
    """The acknowledged steps are there, at most one more, and no file but the database."""
    done = len(acknowledged(output))
    possible = [contents_after(range(1, count + 1)) for count in (done, done + 1)]
    assert contents_of(database) in possible
    assert [file.name for file in database.parent.iterdir()] == [database.name]


def test_kill_at_every_write_point_loses_nothing_acknowledged(tmp_path: Path) -> None:
    """A process killed at any point reached from creating to closing leaves a whole store behind."""
    with FaultPlan() as plan:
        asyncio.run(run_steps(tmp_path / "wakeful.db"))
    points = list(every(plan.points))
    assert {name for name, _ in points} >= {
        "store.create.rename",
        "store.write",
        "store.commit",
        "store.close",
    }
    with Forks(WORKLOAD) as forks:
        for index, (name, nth) in enumerate(points):
            database = tmp_path / str(index) / "wakeful.db"
            database.parent.mkdir()
            ended = forks.run("steps", database, f"{name}:{nth}:kill")
            assert ended.returncode == -signal.SIGKILL, (name, nth, ended.stderr)
            assert_whole(database, ended.stdout)
    sys.stdout.write(f"killed at {len(points)} write points, {len(points)} whole\n")


def test_kill_at_system_calls_loses_nothing_acknowledged(
    tmp_path: Path, run_workload: RunWorkload, strace: Sequence[str]
) -> None:
    """The same between SQLite's own writes and syncs, the last checkpoint included."""
    calls = _calls_of_one_run(tmp_path, run_workload, strace)
    # Every sync, and of the writes (some hundred) every twelfth.
    kills = [("fdatasync", nth + 1) for nth in range(calls["fdatasync"])]
    kills += [("pwrite64", nth + 1) for nth in range(1, calls["pwrite64"], 12)]
    for call, nth in kills:
        database = tmp_path / f"{call}-{nth}" / "wakeful.db"
        database.parent.mkdir()
        inject = ["-o", os.devnull, "-e", f"trace={call}", "-e", f"inject={call}:signal=KILL:when={nth}"]
        ended = run_workload("steps", database, below=[*strace, *inject])
        assert ended.returncode == -signal.SIGKILL, (call, nth, ended.stderr)
        assert_whole(database, ended.stdout)
    sys.stdout.write(f"killed at {len(kills)} system calls, {len(kills)} whole\n")


def _calls_of_one_run(folder: Path, run_workload: RunWorkload, strace: Sequence[str]) -> Counter[str]:
    """How often the thread that makes most of them makes each call; strace counts per thread."""
    trace = folder / "trace"
    below = [*strace, "-o", str(trace), "-e", "trace=pwrite64,fdatasync"]
    assert run_workload("steps", folder / "counted.db", below=below).returncode == 0
    lines = (line.split(maxsplit=1) for line in trace.read_text().splitlines())
    calls = Counter((thread, call.partition("(")[0]) for thread, call in lines if "(" in call)
    return Counter({call: max(calls[key] for key in calls if key[1] == call) for _, call in calls})


def test_kill_inside_a_crowd_loses_nothing_acknowledged(tmp_path: Path, run_workload: RunWorkload) -> None:
    """Of many callers committed together each is stored whole or not at all, and whole if its commit returned."""
    # Every caller writes twice, so all of these are reached; how many share a commit is left to chance.
    for nth in range(1, 2 * CROWD, 11):
        database = tmp_path / f"wakeful-{nth}.db"
        ended = run_workload("crowd", database, faults=f"store.write:{nth}:kill")
        assert ended.returncode == -signal.SIGKILL, (nth, ended.stderr)
        stored = {(each.session_id, each.reason) for each in contents_of(database)[1]}
        told = acknowledged(ended.stdout)
        for member in range(CROWD):
            own = {(each.session_id, each.reason) for each in crowd_member(member)}
            assert own <= stored or (not own & stored and member not in told)


def test_kill_inside_a_migration_leaves_the_old_or_the_new_store(
    tmp_path: Path, run_workload: RunWorkload
) -> None:
    """Whatever was stored survives a kill at any point of a migration, and a backup that exists is whole."""
    origin = tmp_path / "origin.db"
    asyncio.run(run_steps(origin))
    rows = len(contents_of(origin)[1])
    for index, (name, nth) in enumerate(_points_of_migration(origin, tmp_path / "trial.db")):
        database = tmp_path / str(index) / "wakeful.db"
        database.parent.mkdir()
        shutil.copyfile(origin, database)
        ended = run_workload("migrate", database, faults=f"{name}:{nth}:kill")
        assert ended.returncode == -signal.SIGKILL, (name, nth, ended.stderr)
        assert _version_and_rows(database) in {(OLD_VERSION, rows), (NEW_VERSION, rows)}
        backup = database.with_name(f"wakeful.db.before-v{NEW_VERSION}")
        assert not backup.exists() or _version_and_rows(backup) == (OLD_VERSION, rows)
        _migrate(database)
        assert _version_and_rows(database) == (NEW_VERSION, rows)
        assert _version_and_rows(backup) == (OLD_VERSION, rows)


def _points_of_migration(origin: Path, trial: Path) -> list[Point]:
    shutil.copyfile(origin, trial)
    with FaultPlan() as plan:
        _migrate(trial)
    assert "store.backup.rename" in plan.points
    return list(every(plan.points))


def _migrate(database: Path) -> None:
    for connection in open_database(database, NEXT):
        connection.close()


def _version_and_rows(database: Path) -> tuple[int, int]:
    with closing(sqlite3.connect(database)) as connection:
        version = connection.execute("PRAGMA user_version").fetchone()[0]
        return version, connection.execute("SELECT count(*) FROM transitions").fetchone()[0]


def test_what_is_durable_is_synced_before_it_is_acknowledged(
    tmp_path: Path, run_workload: RunWorkload, strace: Sequence[str]
) -> None:
    """Intents, claims and endings return only after the log was synced; record does not wait for that."""
    trace = tmp_path / "trace"
    calls = "trace=pwrite64,write,fdatasync"
    run_workload("steps", tmp_path / "wakeful.db", below=[*strace, "-y", "-o", str(trace), "-e", calls])
    synced = {}
    clean = True
    for line in trace.read_text().splitlines():
        if "pwrite64(" in line and "wakeful.db-wal" in line:
            clean = False
        elif "fdatasync(" in line and "wakeful.db-wal" in line and line.endswith("= 0"):
            clean = True
        elif '"done ' in line:
            synced[int(line.split('"done ')[1].split("\\n")[0])] = clean
    assert len(synced) == len(STEPS)
    assert [number for number, each in synced.items() if each] == list(DURABLE_STEPS)


def test_processes_that_race_for_a_missing_store_share_one(tmp_path: Path) -> None:
    """Several processes create, open and write one store at once; nothing any of them stored is lost."""
    database = tmp_path / "wakeful.db"
    argv = [sys.executable, str(WORKLOAD), "crowd", str(database)]
    racing = [subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) for _ in range(4)]
    told = [acknowledged(each.communicate(timeout=60)[0]) for each in racing]
    assert [len(each) for each in told] == [CROWD] * 4
    sessions, transitions, *_ = contents_of(database)
    assert [each.version for each in sessions] == [4 * len(crowd_member(0))] * CROWD
    assert len(transitions) == 4 * len(crowd_member(0)) * CROWD
