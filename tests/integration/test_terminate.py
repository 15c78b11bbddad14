"""Claims about ending real processes: gently first, the very one that was meant, and no other."""

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4

import pytest

from wakeful.core.process import Process, ProcessState
from wakeful.linux import proc
from wakeful.linux.terminate import terminate, terminate_marked

STUBBORN = "trap '' INT TERM; echo ready; while :; do sleep 0.1; done"
QUICK = ((signal.SIGINT, 0.2), (signal.SIGTERM, 0.2), (signal.SIGKILL, 5.0))
VARIABLE = "WAKEFUL_SESSION"


@contextmanager
def running(*argv: str, **environ: str) -> Iterator[subprocess.Popen[bytes]]:
    """A child in a session of its own, ended and reaped afterwards whatever the test did to it."""
    child = subprocess.Popen(
        argv or ("sleep", "60"),
        env={"PATH": os.environ["PATH"], **environ},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        start_new_session=True,
    )
    try:
        yield child
    finally:
        child.kill()
        child.communicate()


def known(child: subprocess.Popen[bytes]) -> Process:
    process = proc.identify(child.pid)
    assert process is not None
    return process


def anybody(_process: Process) -> bool:
    """Any process with that number is meant: these tests are about what is checked beyond that."""
    return True


@pytest.fixture
def mark() -> str:
    """A session id that is unique on this machine."""
    return f"test-{uuid4()}"


def test_the_first_signal_is_enough_for_a_willing_one() -> None:
    """SIGINT ends it at once, and nothing stronger is sent."""
    with running() as child:
        result = asyncio.run(terminate(known(child), is_meant=anybody))
        assert (result.sight, result.signal) == (ProcessState.DEAD, signal.SIGINT)
        assert result.seconds < 1.0
        assert child.wait() == -signal.SIGINT


def test_a_stubborn_one_is_ended_by_the_last_step() -> None:
    """It ignores SIGINT and SIGTERM, is given its time for each, and then killed."""
    with running("sh", "-c", STUBBORN) as child:
        assert child.stdout is not None
        child.stdout.readline()
        result = asyncio.run(terminate(known(child), QUICK, is_meant=anybody))
        assert (result.sight, result.signal) == (ProcessState.DEAD, signal.SIGKILL)
        assert 0.4 <= result.seconds < 3.0
        assert child.wait() == -signal.SIGKILL


def test_one_that_resists_is_reported_alive() -> None:
    """Out of steps, the answer is what is seen, not what was hoped."""
    with running("sh", "-c", STUBBORN) as child:
        assert child.stdout is not None
        child.stdout.readline()
        result = asyncio.run(terminate(known(child), QUICK[:1], is_meant=anybody))
        assert (result.sight, result.signal) == (ProcessState.ALIVE, signal.SIGINT)


@pytest.mark.parametrize("change", ["started", "boot_id"])
def test_whoever_has_the_pid_now_is_not_signalled(change: str) -> None:
    """The same pid with another start time or boot is another process: dead, and nothing was sent."""
    with running() as child:
        process = known(child)
        stranger = Process(
            process.pid,
            process.started - (change == "started"),
            "another boot" if change == "boot_id" else process.boot_id,
        )
        result = asyncio.run(terminate(stranger, is_meant=anybody))
        assert (result.sight, result.signal) == (ProcessState.DEAD, None)
        assert child.poll() is None


def test_one_that_shows_nothing_yet_is_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """In the middle of exec, or at its end, a process has neither arguments nor environment for a moment."""
    looks = iter([False, False, True])
    monkeypatch.setattr(proc, "command", lambda _pid: ())
    with running() as child:
        result = asyncio.run(terminate(known(child), is_meant=lambda _process: next(looks)))
        assert (result.sight, result.signal) == (ProcessState.DEAD, signal.SIGINT)


def test_one_that_ends_by_itself_is_seen_dead(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing proves any more what it was: it is waited for and not signalled."""
    monkeypatch.setattr(proc, "command", lambda _pid: ())
    with running("sleep", "0.3") as child:
        result = asyncio.run(terminate(known(child), is_meant=lambda _process: False))
        assert (result.sight, result.signal) == (ProcessState.DEAD, None)


def test_one_that_is_gone_is_dead_already() -> None:
    """Ending it twice is fine."""
    with running() as child:
        process = known(child)
        child.kill()
        child.wait()
        result = asyncio.run(terminate(process, is_meant=anybody))
    assert (result.sight, result.signal) == (ProcessState.DEAD, None)


def test_a_sweep_ends_exactly_those_with_the_mark(mark: str) -> None:
    """An orphan and its stubborn sibling end; a longer value, another variable and a newer claim stay."""
    with (
        running("sh", "-c", "sleep 60 & sleep 60", **{VARIABLE: mark}) as family,
        running("sh", "-c", STUBBORN, **{VARIABLE: mark, "WAKEFUL_EPOCH": "3"}) as stubborn,
        running(**{VARIABLE: f"{mark}0"}) as longer,
        running(**{f"NOT_{VARIABLE}": mark}) as other,
        running(**{VARIABLE: mark, "WAKEFUL_EPOCH": "4"}) as newer,
    ):
        assert stubborn.stdout is not None
        stubborn.stdout.readline()
        swept = asyncio.run(terminate_marked(VARIABLE, mark, epoch_max=3))
        assert (family.wait(), stubborn.wait()) == (-signal.SIGTERM, -signal.SIGKILL)
        assert swept.survivors == ()
        assert swept.spared == (known(newer),)
        assert (longer.poll(), other.poll(), newer.poll()) == (None, None, None)
        assert proc.processes_with_variable(VARIABLE, mark, os.getuid()) == [known(newer)]


SWEEP_FROM_INSIDE = """
import asyncio, os, sys
from wakeful.linux.terminate import terminate_marked
swept = asyncio.run(terminate_marked("WAKEFUL_SESSION", sys.argv[1]))
print(len(swept.endings), flush=True)
"""


def test_a_sweep_spares_ourselves_and_our_ancestors(mark: str) -> None:
    """A daemon that an agent started carries its mark, and so does the shell above it: both go on."""
    command = f"'{sys.executable}' -c '{SWEEP_FROM_INSIDE}' {mark}; echo shell lives"
    with running("sh", "-c", command, **{VARIABLE: mark}) as shell:
        output, _ = shell.communicate(timeout=20)
    assert output.decode().split("\n")[:2] == ["0", "shell lives"]


def test_a_sweep_spares_whoever_keeps_a_terminal_for_others(mark: str, tmp_path: Path) -> None:
    """A program with a terminal below it, as a tmux server has, is left alone and named."""
    script = tmp_path / "keeper.py"
    script.write_text("import pty; print('ready', flush=True); pty.spawn(['sleep', '60'])")
    with running(sys.executable, str(script), **{VARIABLE: mark}) as keeper:
        deadline = time.monotonic() + 10
        while not any(proc.has_terminal(each.pid) for each in proc.children(known(keeper))):
            assert time.monotonic() < deadline, "no child with a terminal"
            time.sleep(0.01)
        swept = asyncio.run(terminate_marked(VARIABLE, mark))
        assert keeper.poll() is None
        assert known(keeper) in swept.spared
        assert swept.endings == ()
