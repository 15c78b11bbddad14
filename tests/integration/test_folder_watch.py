"""Claims about watching folders with the kernel's inotify, and about scanning a tree."""

import asyncio
import errno
import os
import resource
import sys
import time
from collections.abc import Coroutine, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from wakeful.sources.base import FileChanges
from wakeful.sources.folder_watch import FolderWatch, ScannedFile, scan_tree, watch_or_await
from wakeful.sources.log_file import LogFile

if TYPE_CHECKING:
    from asyncinotify import Watch

TOLD_WITHIN_SECONDS = 30


def told(
    *, changed: Iterable[Path] = (), folders: Iterable[Path] = (), gone: Iterable[Path] = ()
) -> FileChanges:
    return FileChanges(
        {str(path) for path in changed}, {str(path) for path in folders}, {str(path) for path in gone}
    )


async def next_of(watch: FolderWatch) -> FileChanges:
    return await asyncio.wait_for(anext(watch), TOLD_WITHIN_SECONDS)


def run(scene: Coroutine[Any, Any, None]) -> None:
    asyncio.run(scene)


class Limited(FolderWatch):
    """A watch whose kernel has room for a few folders only."""

    def __init__(self, watches_max: int) -> None:
        super().__init__()
        self.watches_max = watches_max

    def _watch(self, folder: str) -> "Watch":
        if len(self._watched_folders) >= self.watches_max:
            raise OSError(errno.ENOSPC, "no more watches", folder)
        return super()._watch(folder)


class Overtaken(FolderWatch):
    """A watch before which a client makes its next folder each time, just before it is set."""

    def __init__(self, *made: Path) -> None:
        super().__init__()
        self.still_to_make = list(made)

    def _watch(self, folder: str) -> "Watch":
        if self.still_to_make:
            self.still_to_make.pop(0).mkdir()
        return super()._watch(folder)


async def test_a_hundred_changed_logs_are_one_batch(tmp_path: Path) -> None:
    """Everything that waits is reported at once, each log once however often it was written."""
    logs = [tmp_path / f"folder-{n % 10}" / f"{n}.jsonl" for n in range(100)]
    async with FolderWatch() as watch:
        for n in range(10):
            (tmp_path / f"folder-{n}").mkdir()
            assert watch.add(f"{tmp_path}/folder-{n}")
        for log in logs * 3:
            with log.open("ab") as file:
                file.write(b"line\n")
        assert await next_of(watch) == told(changed=logs)


async def test_a_new_folder_is_told_and_watched_when_added(tmp_path: Path) -> None:
    """What happens below a folder is reported from the moment it is added."""
    folder = tmp_path / "new"
    async with FolderWatch() as watch:
        watch.add(str(tmp_path))
        folder.mkdir()
        assert await next_of(watch) == told(folders=(folder,))
        assert watch.add(str(folder))
        (folder / "log").write_bytes(b"line\n")
        assert await next_of(watch) == told(changed=(folder / "log",))


async def test_a_folder_that_appears_while_it_is_being_awaited_is_watched(tmp_path: Path) -> None:
    """Between looking for it and watching where it will be, a client may make it, and the way to it."""
    way = tmp_path / ".claude"
    logs = way / "projects"
    async with Overtaken(way, logs) as watch:
        assert watch_or_await(watch, str(logs))
        (logs / "shop").mkdir()
        assert logs / "shop" in {Path(each) for each in (await next_of(watch)).folders}


async def test_what_happened_last_is_what_is_told(tmp_path: Path) -> None:
    """Rotated, replaced, made and deleted within one batch: each path says how it ended."""
    log, rotated, brief = tmp_path / "log", tmp_path / "log.1", tmp_path / "brief"
    log.write_bytes(b"old\n")
    async with FolderWatch() as watch:
        watch.add(str(tmp_path))
        log.rename(rotated)
        log.write_bytes(b"new\n")
        brief.write_bytes(b"")
        brief.unlink()
        (tmp_path / "folder").mkdir()
        (tmp_path / "folder").rmdir()
        assert await next_of(watch) == told(changed=(log, rotated), gone=(brief, tmp_path / "folder"))


async def test_a_name_that_is_no_text_is_told_all_the_same(tmp_path: Path) -> None:
    """Names are bytes; the reported name leads back to the very file."""

    name = os.fsencode(tmp_path) + b"/\xff\xfe.jsonl"
    async with FolderWatch() as watch:
        watch.add(str(tmp_path))
        os.mknod(name)
        assert {os.fsencode(each) for each in (await next_of(watch)).changed} == {name}


async def test_an_overflow_means_rescan(tmp_path: Path) -> None:
    """More events than the kernel keeps: it tells no path, so everything has to be looked at."""
    events = int(Path("/proc/sys/fs/inotify/max_queued_events").read_text()) + 100
    async with FolderWatch() as watch:
        watch.add(str(tmp_path))
        with (tmp_path / "a").open("wb", 0) as one, (tmp_path / "b").open("wb", 0) as other:
            for _ in range(events // 2):  # in turns: the kernel folds equal events into one
                one.write(b"x")
                other.write(b"x")
        batch = await next_of(watch)
        while not batch.rescan:
            assert batch == told(changed=(tmp_path / "a", tmp_path / "b"))
            batch = await next_of(watch)
        (tmp_path / "after").touch()
        assert await next_of(watch) == told(changed=(tmp_path / "after",))


async def test_a_reached_limit_makes_folders_slow_not_an_error(tmp_path: Path) -> None:
    """Folders beyond the limit are named; watched ones go on; with room again they are watched."""
    folders = [tmp_path / name for name in "abc"]
    for folder in folders:
        folder.mkdir()
    async with Limited(watches_max=2) as watch:
        assert [watch.add(str(folder)) for folder in folders] == [True, True, False]
        assert watch.slow_folders == {f"{tmp_path}/c"}
        (folders[0] / "log").touch()
        assert await next_of(watch) == told(changed=(folders[0] / "log",))
        watch.watches_max = 3
        assert watch.add(f"{tmp_path}/c")
        assert not watch.slow_folders


async def test_without_any_inotify_every_folder_is_slow(tmp_path: Path) -> None:
    """No descriptor left when it starts: it says so for every folder, and waits without end or error."""
    async with FolderWatch():
        pass  # imports what is needed while there are descriptors
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    watch = FolderWatch()
    resource.setrlimit(resource.RLIMIT_NOFILE, (_lowest_free_descriptor(), hard))
    try:
        await watch.__aenter__()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert not watch.add(str(tmp_path))
    assert watch.slow_folders == {str(tmp_path)}
    waiting = asyncio.ensure_future(anext(watch))
    await asyncio.sleep(0)
    assert not waiting.done()
    await watch.__aexit__(None, None, None)
    with pytest.raises(StopAsyncIteration):
        await waiting


def _lowest_free_descriptor() -> int:
    descriptor = os.dup(0)
    os.close(descriptor)
    return descriptor


async def test_a_deleted_folder_is_dropped_and_may_come_back(tmp_path: Path) -> None:
    """Its end is reported, nothing of it is kept, and a folder of the same name is watched again."""
    folder = tmp_path / "folder"
    folder.mkdir()
    async with FolderWatch() as watch:
        watch.add(str(folder))
        folder.rmdir()
        assert await next_of(watch) == told(gone=(folder,))
        assert not watch._watched_folders
        folder.mkdir()
        assert watch.add(str(folder))
        (folder / "log").touch()
        assert await next_of(watch) == told(changed=(folder / "log",))


async def test_a_moved_folder_takes_no_old_names_along(tmp_path: Path) -> None:
    """What happens below it is not told under a path that is gone; under its new one it is, once added."""
    old, new = tmp_path / "old", tmp_path / "new"
    (old / "inner").mkdir(parents=True)
    async with Limited(watches_max=3) as watch:
        for folder in (tmp_path, old, old / "inner"):
            watch.add(str(folder))
        watch.add(f"{old}/slow")
        assert watch.slow_folders == {f"{old}/slow"}
        old.rename(new)
        assert await next_of(watch) == told(folders=(new,), gone=(old,))
        assert [watched.folder for watched in watch._watched_folders.values()] == [str(tmp_path)]
        assert not watch.slow_folders
        (new / "inner" / "unheard").touch()
        assert watch.add(f"{new}/inner")
        (new / "inner" / "heard").touch()
        assert await next_of(watch) == told(changed=(new / "inner" / "heard",))


async def test_what_is_no_folder_is_not_watched(tmp_path: Path) -> None:
    """A symlink to a folder, a file and nothing at all: not watched, and not slow either."""
    (tmp_path / "folder").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "folder")
    (tmp_path / "file").touch()
    async with FolderWatch() as watch:
        assert [watch.add(f"{tmp_path}/{name}") for name in ("link", "file", "missing")] == [False] * 3
        assert not watch.slow_folders


async def test_closing_ends_the_iteration(tmp_path: Path) -> None:
    """A task that waits when the watch is closed does not wait on."""
    async with FolderWatch() as watch:
        watch.add(str(tmp_path))
        waiting = asyncio.create_task(_batches(watch))
        await asyncio.sleep(0)
    assert await asyncio.wait_for(waiting, TOLD_WITHIN_SECONDS) == []


async def _batches(watch: FolderWatch) -> list[FileChanges]:
    return [batch async for batch in watch]


@pytest.mark.parametrize("pending", [False, True])
async def test_idle_folders_cost_nothing(tmp_path: Path, *, pending: bool) -> None:
    """While nothing happens nothing runs; nor while a change waits that is not asked for."""
    async with FolderWatch() as watch:
        watch.add(str(tmp_path))
        (tmp_path / "told").touch()
        await next_of(watch)
        waiting = [] if pending else [asyncio.create_task(_batches(watch))]
        await asyncio.sleep(0)
        if pending:
            (tmp_path / "pending").touch()
        began, switches = time.process_time(), resource.getrusage(resource.RUSAGE_SELF).ru_nvcsw
        await asyncio.sleep(0.5)
        assert time.process_time() - began < 0.02
        assert resource.getrusage(resource.RUSAGE_SELF).ru_nvcsw - switches <= 5
    await asyncio.gather(*waiting)


WRITER = """
import random, sys
paths = sys.argv[1:]
pick = random.Random(1)
for n in range(4000):
    with open(pick.choice(paths), "ab", 0) as log:
        log.write(b"rec")
        log.write(b"ord %d\\n" % n)
"""


async def test_being_told_is_enough_to_miss_nothing(tmp_path: Path) -> None:
    """Another process writes to twenty logs; reading only the reported ones gives every record of each in order."""
    paths = [tmp_path / f"{n}.jsonl" for n in range(20)]
    logs = {str(path): LogFile(str(path), str(tmp_path)) for path in paths}
    seen: dict[str, list[bytes]] = {path: [] for path in logs}
    async with FolderWatch() as watch:
        watch.add(str(tmp_path))
        writer = await asyncio.create_subprocess_exec(sys.executable, "-c", WRITER, *logs)
        while sum(map(len, seen.values())) < 4000:
            for path in (await next_of(watch)).changed:
                seen[path] += logs[path].read_new().lines
        assert await writer.wait() == 0
    assert seen == {str(path): path.read_bytes().splitlines() for path in paths}


def test_a_scan_finds_regular_files_of_its_suffix_down_to_its_depth(tmp_path: Path) -> None:
    """No link is followed, nothing but files is found, and what is found is as it is on disk."""
    inner = tmp_path / "one" / "two.jsonl"
    inner.mkdir(parents=True)
    found = [tmp_path / "a.jsonl", tmp_path / "one" / "b.jsonl", inner / "c.jsonl"]
    for path in (*found, inner / "other.txt"):
        path.write_bytes(b"line\n")
    (tmp_path / "link.jsonl").symlink_to(found[0])
    (tmp_path / "linked").symlink_to(tmp_path / "one")
    os.mkfifo(tmp_path / "pipe.jsonl")
    for depth in range(3):
        files = scan_tree(tmp_path, ".jsonl", depth)
        assert {file.path for file in files} == {str(path) for path in found[: depth + 1]}
    status = found[0].stat()
    expected = ScannedFile(str(found[0]), status.st_ino, status.st_size, status.st_mtime)
    assert scan_tree(tmp_path, ".jsonl", 0) == [expected]


def test_a_scan_names_each_folder_before_it_looks_into_it(tmp_path: Path) -> None:
    """A log born while its folder is being watched is found by the scan, so that none falls between."""
    (tmp_path / "one" / "two" / "three").mkdir(parents=True)
    named: list[str] = []

    def birth(folder: str) -> None:
        named.append(folder)
        Path(folder, "born.jsonl").touch()

    files = scan_tree(tmp_path, ".jsonl", 2, on_folder=birth)
    assert named == [f"{tmp_path}/one", f"{tmp_path}/one/two"]
    assert [file.path for file in files] == [f"{folder}/born.jsonl" for folder in named]


def test_a_scan_of_nothing_finds_nothing(tmp_path: Path) -> None:
    """A root that is missing or a file is empty, not an error."""
    (tmp_path / "file").touch()
    assert [scan_tree(tmp_path / name, "", 3) for name in ("missing", "file")] == [[], []]
