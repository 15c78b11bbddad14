"""Claims about the host as healing sees it: a death is blamed on memory only if the kernel killed a process
just then."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from wakeful.linux.host import OOM_SECONDS, HostInfo
from wakeful.testing.virtual_clock import VirtualClock


class Memory:
    """A kernel's count of those it ended, and the place that reads it."""

    def __init__(self, tmp_path: Path) -> None:
        self.clock = VirtualClock()
        self._file = tmp_path / "vmstat"
        self.kills(3)
        self.place = HostInfo("tower", self.clock, self._file)

    def kills(self, count: int) -> None:
        self._file.write_text(f"pgfault 99\noom_kill {count}\noom_kill_disable 7\n")


@pytest.fixture
def memory(tmp_path: Path) -> Memory:
    return Memory(tmp_path)


def watched(memory: Memory, story: Callable[[], Awaitable[None]]) -> None:
    """While the daemon looks now and then."""

    async def told() -> None:
        looking = asyncio.create_task(memory.place.run())
        await story()
        looking.cancel()

    asyncio.run(told())


def test_a_kill_just_now_is_told_for_a_minute(memory: Memory) -> None:
    """And not what was killed before the daemon came."""

    async def story() -> None:
        await memory.clock.run_for(1)
        assert not memory.place.oom_killed()
        memory.kills(4)
        assert memory.place.oom_killed()
        await memory.clock.run_for(OOM_SECONDS - 1)
        assert memory.place.oom_killed()
        await memory.clock.run_for(30)
        assert not memory.place.oom_killed()

    watched(memory, story)


def test_a_kill_of_yesterday_is_not_blamed_for_a_death_of_today(memory: Memory) -> None:
    """There was no query in between."""

    async def story() -> None:
        await memory.clock.run_for(100)
        memory.kills(4)
        await memory.clock.run_for(86_400)
        assert not memory.place.oom_killed()

    watched(memory, story)


def test_after_a_long_time_without_a_look_nothing_is_blamed(memory: Memory) -> None:
    """When it was is not known."""
    memory.kills(4)
    asyncio.run(memory.clock.run_for(3600))
    assert not memory.place.oom_killed()
