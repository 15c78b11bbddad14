"""Claims about a program that is kept running beside the daemon, with real processes."""

import asyncio
import os
import sys
from pathlib import Path

import pytest

from wakeful.linux import child_process as kept_child, log_files
from wakeful.linux.child_process import ChildSupervisor

SECONDS_MAX = 30.0
# Says its pid, then lives until its standard input ends.
FAITHFUL = "import os, sys; print(os.getpid(), flush=True); sys.stdin.read()"
FAILING = "import sys; print('the token is wrong'); sys.exit(2)"


def child(program: str, log: Path) -> ChildSupervisor:
    return ChildSupervisor("gateway", (sys.executable, "-c", program), log)


def pids(log: Path) -> list[int]:
    return [int(line) for line in log.read_text().split()] if log.exists() else []


async def until_pids(log: Path, count: int) -> list[int]:
    async with asyncio.timeout(SECONDS_MAX):
        while len(pids(log)) < count:  # noqa: ASYNC110 - another process writes it
            await asyncio.sleep(0.01)
    return pids(log)


def lives(pid: int) -> bool:
    return Path(f"/proc/{pid}").exists()


async def test_it_is_started_again_and_ends_with_us(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Killed, it comes back as another process; cancelled, the last one is gone before we go on."""
    monkeypatch.setattr(kept_child, "FIRST_PAUSE_SECONDS", 0.01)
    log = tmp_path / "logs" / "gateway.log"
    kept = child(FAITHFUL, log)
    keeping = asyncio.create_task(kept.run())
    (first,) = await until_pids(log, 1)
    async with asyncio.timeout(SECONDS_MAX):
        while kept.status_line != f"gateway: runs (pid {first})":  # noqa: ASYNC110 - it may speak before we know its pid
            await asyncio.sleep(0.01)
    os.kill(first, 9)
    _, second = await until_pids(log, 2)
    keeping.cancel()
    await asyncio.gather(keeping, return_exceptions=True)
    assert not lives(first)
    assert not lives(second)


async def test_its_log_stays_short_while_it_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The earlier output is kept once more beside it, as readable as before, and new output is the log."""
    monkeypatch.setattr(kept_child, "LOG_SECONDS", 0.01)
    monkeypatch.setattr(log_files, "LOG_BYTES_MAX", 1000)
    path, older = tmp_path / "gateway.log", tmp_path / "gateway.log.1"
    talking = "import sys, time\nwhile True: print('word ' * 20, flush=True); time.sleep(0.001)"
    kept = child(talking, path)
    keeping = asyncio.create_task(kept.run())
    async with asyncio.timeout(SECONDS_MAX):
        while not older.exists() or not 0 < path.stat().st_size < 1000:  # noqa: ASYNC110 - a process writes
            await asyncio.sleep(0.01)
    keeping.cancel()
    await asyncio.gather(keeping, return_exceptions=True)
    assert older.read_text().startswith("word word")
    assert "\0" not in path.read_text(), "it goes on at its new end, not behind a hole"
    assert older.stat().st_mode & 0o777 == 0o600


async def test_its_last_words_say_why_it_ended(tmp_path: Path) -> None:
    """The status says what the program said, and when it is tried again."""
    kept = child(FAILING, tmp_path / "gateway.log")
    keeping = asyncio.create_task(kept.run())
    async with asyncio.timeout(SECONDS_MAX):
        while "ended" not in kept.status_line:  # noqa: ASYNC110 - told by a process
            await asyncio.sleep(0.01)
    keeping.cancel()
    await asyncio.gather(keeping, return_exceptions=True)
    assert kept.status_line == "gateway: ended with 2, starts again in 1 s: the token is wrong"


def test_a_daemon_that_is_killed_takes_it_along(tmp_path: Path) -> None:
    """The pipe closes with its holder, without a message."""
    log = tmp_path / "gateway.log"
    holder = (
        "import asyncio, pathlib, sys\n"
        "from wakeful.linux.child_process import ChildSupervisor\n"
        f"kept = ChildSupervisor('gateway', (sys.executable, '-c', {FAITHFUL!r}), pathlib.Path({str(log)!r}))\n"
        "asyncio.run(kept.run())"
    )

    async def scene() -> None:
        daemon = await asyncio.create_subprocess_exec(sys.executable, "-c", holder)
        (pid,) = await until_pids(log, 1)
        daemon.kill()
        await daemon.wait()
        async with asyncio.timeout(SECONDS_MAX):
            while lives(pid):  # noqa: ASYNC110 - another process ends
                await asyncio.sleep(0.01)

    asyncio.run(scene())
