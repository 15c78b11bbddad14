"""A disk that is full, broken or read-only: callers get the error, nothing acknowledged is lost, and when the disk
is well again so is the store.
"""

import asyncio
import os
import resource
import subprocess
from collections.abc import Awaitable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from crash.store_workload import (
    STEPS,
    A,
    RunWorkload,
    change,
    contents,
    contents_after,
    contents_of,
    every,
    run_steps,
    stopped_clock,
)
from wakeful.core.errors import WorldError
from wakeful.storage.sqlite.errors import StoreFull, StoreUnwritable
from wakeful.storage.sqlite.store import SqliteStore
from wakeful.testing.fault_plan import FaultPlan

ALL = range(1, len(STEPS) + 1)


async def attempt(operation: Awaitable[Any]) -> bool:
    """Whether it was acknowledged; no errors but those of a full or broken disk are expected."""
    try:
        await operation
    except (StoreFull, StoreUnwritable):
        return False
    return True


async def fill(store: SqliteStore) -> tuple[int, WorldError]:
    """Store until the disk is full; how many records were acknowledged, and the refusal."""
    for count in range(10_000):
        try:
            await store.record([change(A, float(count), str(count))])
        except WorldError as error:
            return count, error
    raise AssertionError("the disk was not full after 10,000 records")


@contextmanager
def small_tmpfs(folder: Path, options: str = "size=600k") -> Iterator[Path]:
    """A file system of its own that is full soon. Skips, with the reason, where mounting is refused."""
    folder.mkdir(exist_ok=True)
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(folder)],
        capture_output=True,
        text=True,
        check=False,
    )
    if mounted.returncode != 0:
        pytest.skip(f"no tmpfs ({mounted.stderr.strip()}); the file size limit shows the same next door")
    try:
        yield folder
    finally:
        # Lazily: a test that failed may still hold a file, and must leave no mount behind.
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


@contextmanager
def files_limited(size_bytes: int) -> Iterator[None]:
    """No file of this process may grow beyond that size: what a full disk is to a process without root."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size_bytes, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_full_file_system_is_told_and_survived(tmp_path: Path) -> None:
    """On a full tmpfs writing is refused, reading goes on, and with space again the same store goes on."""

    async def scene(disk: Path) -> None:
        ballast = disk / "ballast"
        ballast.write_bytes(bytes(200 << 10))
        store = await SqliteStore.open(disk / "wakeful.db")
        stored, refusal = await fill(store)
        assert isinstance(refusal, StoreFull)
        assert len(await store.transitions()) == stored
        ballast.unlink()
        assert await store.record([change(A, 1.0, "again")]) == stored + 1
        await store.close()
        assert len(await _reopened(disk / "wakeful.db")) == stored + 1

    with small_tmpfs(tmp_path / "small") as disk:
        asyncio.run(scene(disk))


async def _reopened(path: Path) -> list[Any]:
    store = await SqliteStore.open(path)
    try:
        return await store.transitions(limit=10_000)
    finally:
        await store.close()


async def test_a_limited_file_is_told_and_survived(tmp_path: Path) -> None:
    """The same where the limit is on the file and not on the disk, with no privilege needed."""
    store = await SqliteStore.open(tmp_path / "wakeful.db")
    with files_limited(300 << 10):
        stored, refusal = await fill(store)
        assert isinstance(refusal, StoreUnwritable)
        assert len(await store.transitions()) == stored
    assert await store.record([change(A, 1.0, "again")]) == stored + 1
    await store.close()
    assert len(await _reopened(tmp_path / "wakeful.db")) == stored + 1


def test_a_store_is_not_created_on_a_full_file_system(tmp_path: Path) -> None:
    """Without space to create it there is no store, not half of one; with space it is created."""
    with small_tmpfs(tmp_path / "small", "size=64k") as disk:
        ballast = disk / "ballast"
        ballast.write_bytes(bytes(48 << 10))
        with pytest.raises(StoreFull):
            asyncio.run(SqliteStore.open(disk / "wakeful.db"))
        assert not (disk / "wakeful.db").exists()


def test_a_read_only_file_system_is_told(tmp_path: Path) -> None:
    """A store that may not be written is refused as that, unchanged, and opens when the disk is writable again."""
    with small_tmpfs(tmp_path / "small") as disk:
        path = disk / "wakeful.db"
        asyncio.run(run_steps(path))
        before = path.read_bytes()
        subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)
        with pytest.raises(StoreUnwritable):
            asyncio.run(SqliteStore.open(path))
        assert path.read_bytes() == before
        subprocess.run(["mount", "-o", "remount,rw", str(disk)], check=True)
        assert contents_of(path) == contents_after(ALL)


@pytest.mark.parametrize("errno_name", ["ENOSPC", "EIO", "EROFS"])
def test_an_error_at_every_write_point_is_told_and_survived(tmp_path: Path, errno_name: str) -> None:
    """Whatever point fails, only its caller gets an error, and every other step is stored as if nothing had been."""
    with FaultPlan() as plan:
        asyncio.run(run_steps(tmp_path / "wakeful.db"))
    # Closing gives no answer that could be wrong.
    points = [each for each in every(plan.points) if each[0] != "store.close"]
    for index, (name, nth) in enumerate(points):
        with FaultPlan((name, nth, f"raise:{errno_name}")) as plan:
            asyncio.run(_assert_survived(tmp_path / f"wakeful-{index}.db", name))
        assert plan.points.count(name) >= nth


async def _assert_survived(path: Path, point: str) -> None:
    try:
        store = await SqliteStore.open(path, now=stopped_clock)
    except (StoreFull, StoreUnwritable):
        store = await SqliteStore.open(path, now=stopped_clock)
    done = [number for number, step in enumerate(STEPS, 1) if await attempt(step(store))]
    held = await contents(store)
    await store.close()
    # After the commit a step is stored although its caller got an error.
    assert held == await _expected(ALL if point == "store.committed" else done)
    assert len(done) >= len(STEPS) - 1


async def _expected(numbers: Sequence[int]) -> list[list[Any]]:
    return await asyncio.to_thread(contents_after, numbers)


@pytest.mark.parametrize(
    ("failure", "code"),
    [
        ("pwrite64:error=ENOSPC", "store-full"),
        ("pwrite64:error=EIO", "store-unwritable"),
        ("fdatasync:error=EIO", "store-unwritable"),
    ],
)
def test_a_failing_system_call_is_told_and_survived(
    tmp_path: Path, run_workload: RunWorkload, strace: Sequence[str], failure: str, code: str
) -> None:
    """When one of SQLite's own writes or syncs fails, what was refused is not there and all else is."""
    told = []
    call = failure.partition(":")[0]
    # The second sync is that of the folder, which SQLite does not report; opening has synced it already.
    for nth in (12, 30, 60) if call == "pwrite64" else (1, 3, 4):
        database = tmp_path / f"wakeful-{nth}.db"
        inject = ["-o", os.devnull, "-e", f"trace={call}", "-e", f"inject={failure}:when={nth}"]
        ended = run_workload("steps", database, below=[*strace, *inject])
        assert ended.returncode == 0, ended.stderr
        said = [line.split() for line in ended.stdout.splitlines()]
        told += [words[2] for words in said if words[0] == "failed"]
        done = [int(words[1]) for words in said if words[0] == "done"]
        assert contents_of(database) == contents_after(done)
    assert told == [code] * 3


async def test_a_failing_read_is_told_and_survived(tmp_path: Path) -> None:
    """A read that fails says so; the next one is answered."""
    store = await SqliteStore.open(tmp_path / "wakeful.db")
    with FaultPlan(("store.read", 1, "raise:EIO")):
        with pytest.raises(StoreUnwritable, match="Input/output error"):
            await store.sessions()
        assert await store.sessions() == []
    await store.close()
