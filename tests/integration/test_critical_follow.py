"""Following the log of critical events: the kernel tells, every event comes once, whatever happens to the file."""

import asyncio
import os
import shutil
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from wakeful.critical_events import archive_events, follow_events, log_critical_event
from wakeful.incidents import line_log as following
from wakeful.incidents.line_log import LogUnusable
from wakeful.sources.base import FileChanges

ARRIVAL_SECONDS_MAX = 30


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "state" / "logs" / "critical_events.jsonl"


def write(log: Path, name: str, day: int = 5) -> None:
    log_critical_event(
        "session_unhealthy", name, "p", "silent", timestamp=f"2026-02-{day:02}T00:00:00Z", path=log
    )


def first_line(log: Path) -> bytes:
    return log.read_bytes().splitlines()[0]


def add(log: Path, content: bytes) -> None:
    with log.open("ab") as file:
        file.write(content)


def link(log: Path) -> None:
    log.parent.mkdir(parents=True)
    log.symlink_to("/etc/passwd")


class Looks:
    """Counts how often followers look, and what the kernel told them meanwhile."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.count = 0
        self.told: set[str] = set()
        more, concerns = following.LineFollower.read_new, following._concerns

        def counted(place: following.LineFollower) -> list[bytes]:
            found = more(place)
            self.count += 1
            return found

        def heard(changes: FileChanges, path: str) -> bool:
            self.told |= changes.changed
            return concerns(changes, path)

        monkeypatch.setattr(following.LineFollower, "read_new", counted)
        monkeypatch.setattr(following, "_concerns", heard)

    async def one_more(self, act: Callable[[], object] = lambda: None) -> None:
        """Do something, and return once a follower has looked after it."""
        before = self.count
        act()
        await until(lambda: self.count > before)


async def until(true: Callable[[], bool]) -> None:
    async with asyncio.timeout(ARRIVAL_SECONDS_MAX):
        while not true():  # noqa: ASYNC110 - a count has no events
            await asyncio.sleep(0.001)


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> Looks:
    return Looks(monkeypatch)


class Heard:
    """What a follower got so far."""

    def __init__(self) -> None:
        self.names: asyncio.Queue[str] = asyncio.Queue()

    async def listen(self, log: Path) -> None:
        async for event in follow_events(log):
            self.names.put_nowait(event["session_id"])

    async def next(self, count: int) -> list[str]:
        async with asyncio.timeout(ARRIVAL_SECONDS_MAX):
            return [await self.names.get() for _ in range(count)]


@asynccontextmanager
async def follower(log: Path) -> AsyncIterator[Heard]:
    heard = Heard()
    task = asyncio.create_task(heard.listen(log))
    try:
        yield heard
        assert heard.names.empty()
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def play(scene: Callable[[], Coroutine[Any, Any, None]]) -> None:
    asyncio.run(scene())


async def test_old_events_come_first_and_new_ones_as_they_are_written(log: Path, looks: Looks) -> None:
    """Each once, in order; half a line is no event until its end."""
    write(log, "old")
    async with follower(log) as heard:
        assert await heard.next(1) == ["old"]
        write(log, "new")
        assert await heard.next(1) == ["new"]
        begun = first_line(log).replace(b"old", b"slow")
        await looks.one_more(lambda: add(log, begun[:50]))
        assert heard.names.empty()
        add(log, begun[50:] + b"\n")
        assert await heard.next(1) == ["slow"]


async def test_a_log_that_is_not_there_yet_is_awaited(log: Path, looks: Looks) -> None:
    """Neither its folder nor the one above need be there."""
    async with follower(log) as heard:
        await looks.one_more()
        write(log, "first")
        assert await heard.next(1) == ["first"]


async def test_archiving_repeats_and_hides_nothing(log: Path) -> None:
    """Lines that stay in the new file are not sent again, and those written meanwhile are sent once."""
    for day in (1, 2, 3, 4):
        write(log, f"day {day}", day)
    async with follower(log) as heard:
        assert len(await heard.next(4)) == 4
        write(log, "before", 4)
        archive_events("2026-02-03T00:00:00Z", path=log)
        write(log, "after", 5)
        assert await heard.next(2) == ["before", "after"]
        archive_events("2026-03-01T00:00:00Z", path=log)
        write(log, "last", 6)
        assert await heard.next(1) == ["last"]


async def test_another_programs_rotation_is_followed(log: Path, looks: Looks) -> None:
    """Moved away, emptied, or its whole folder deleted: later lines are sent."""
    write(log, "one")
    async with follower(log) as heard:
        assert await heard.next(1) == ["one"]
        os.rename(log, log.with_suffix(".old"))  # noqa: PTH104 - blocks as little here as there
        write(log, "two")
        assert await heard.next(1) == ["two"]
        await looks.one_more(lambda: os.truncate(log, 0))
        write(log, "three")
        assert await heard.next(1) == ["three"]
        await looks.one_more(lambda: shutil.rmtree(log.parent.parent))
        write(log, "four")
        assert await heard.next(1) == ["four"]


async def test_nobody_looks_while_nothing_is_told(log: Path, looks: Looks) -> None:
    """Other files of the folder do not stir a follower, and neither does time."""
    neighbour = log.parent / "access.log"
    write(log, "one")
    async with follower(log) as heard:
        await heard.next(1)
        neighbour.write_text("busy")
        await until(lambda: str(neighbour) in looks.told)
        before = looks.count
        for _ in range(20):
            looks.told.clear()
            neighbour.write_text("busy")
            await until(lambda: str(neighbour) in looks.told)
        assert looks.count == before
        write(log, "two")
        await heard.next(1)


async def test_a_follower_refuses_a_link(log: Path) -> None:
    """As every reader does."""
    link(log)
    with pytest.raises(LogUnusable, match="symbolic link"):
        await Heard().listen(log)
