"""Claims about the loop's heartbeat with a real socket, a real thread and a loop that really stalls."""

import asyncio
import os
import socket
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from wakeful.linux.systemd import STALL_FILES_MAX, LoopWatchdog, SystemdNotifier


@pytest.fixture
def systemd(tmp_path: Path) -> Iterator[socket.socket]:
    """Where systemd would listen."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listener:
        listener.bind(str(tmp_path / "notify"))
        listener.setblocking(False)
        yield listener


def told(systemd: socket.socket) -> list[str]:
    words = []
    with suppress(BlockingIOError):
        while True:
            words.append(systemd.recv(100).decode())
    return words


def notifier(systemd: socket.socket, seconds: float = 0.3) -> SystemdNotifier:
    environ = {"NOTIFY_SOCKET": systemd.getsockname(), "WATCHDOG_USEC": str(int(seconds * 1e6)), "A": "b"}
    taken = SystemdNotifier.from_environ(environ)
    assert environ == {"A": "b"}
    return taken


async def beat_for(pulse: LoopWatchdog, seconds: float) -> None:
    task = asyncio.create_task(pulse.run())
    await asyncio.sleep(seconds)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


def test_a_running_loop_is_told(systemd: socket.socket, tmp_path: Path) -> None:
    """Ready, then a word three times as often as systemd waits, then the end; no stacks are written."""
    asyncio.run(beat_for(LoopWatchdog(tmp_path, notifier(systemd, 0.18)), 0.3))
    words = told(systemd)
    assert (words[0], words[-1], set(words[1:-1])) == ("READY=1", "STOPPING=1", {"WATCHDOG=1"})
    assert len(words) > 4
    assert list(tmp_path.glob("stall-*")) == []


async def test_a_stalled_loop_is_written_down_and_told_no_more(
    systemd: socket.socket, tmp_path: Path
) -> None:
    """The stacks name the culprit, once for a stall; systemd gets no sign of life meanwhile; old ones go."""
    for number in range(STALL_FILES_MAX + 2):
        (tmp_path / f"stall-2020010{number:02}.txt").touch()

    def hold_up_the_loop() -> None:
        told(systemd)
        deadline = time.monotonic() + 0.8
        while time.monotonic() < deadline:
            time.sleep(0.01)
        assert told(systemd) == []

    pulse = LoopWatchdog(tmp_path, notifier(systemd), stall_seconds=0.3)
    task = asyncio.create_task(pulse.run())
    await asyncio.sleep(0.1)
    hold_up_the_loop()
    await asyncio.sleep(0.1)
    assert "WATCHDOG=1" in told(systemd)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    written = sorted(tmp_path.glob("stall-*.txt"))
    assert len(written) == STALL_FILES_MAX
    assert "hold_up_the_loop" in written[-1].read_text()
    assert written[-1].stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize(
    ("environ", "seconds"),
    [
        ({}, None),
        ({"WATCHDOG_USEC": "60000000"}, 60.0),
        ({"WATCHDOG_USEC": "60000000", "WATCHDOG_PID": str(os.getpid())}, 60.0),
        ({"WATCHDOG_USEC": "60000000", "WATCHDOG_PID": "1"}, None),
        ({"WATCHDOG_USEC": "soon"}, None),
        ({"WATCHDOG_USEC": "0"}, None),
    ],
)
def test_how_long_systemd_waits(environ: dict[str, str], seconds: float | None) -> None:
    """As its variables say, if they mean us."""
    assert SystemdNotifier.from_environ(dict(environ)).watchdog_seconds == seconds


def test_nobody_to_tell_is_no_trouble(tmp_path: Path) -> None:
    """Without a socket, with one of another kind, or with one that is gone, telling does nothing."""
    for address in ("", "vsock:2:1", str(tmp_path / "gone")):
        SystemdNotifier.from_environ({"NOTIFY_SOCKET": address}).send("READY=1")
