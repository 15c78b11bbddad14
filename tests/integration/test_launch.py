"""Claims about starting programs that outlive us, and about the folder through which they are spoken to."""

import asyncio
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from support.run_program import run_program
from wakeful.core.errors import ClientMissing, StartFailed, WorkingDirectoryGone
from wakeful.core.ids import SessionId
from wakeful.core.process import Process, ProcessState
from wakeful.integrations.driver_support import RunFolder, WriteResult
from wakeful.linux import proc
from wakeful.linux.launch import Streams, launch
from wakeful.linux.terminate import terminate
from wakeful.sources.follow import FileFollower

SECONDS_MAX = 30.0
ENVIRON = {"PATH": "/usr/local/bin:/usr/bin:/bin"}
LAUNCH_AND_DIE = """
import asyncio, os, sys
from wakeful.linux.launch import Streams, launch

async def main():
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 200, inheritable=True)
    process = launch(("sleep", "60"), cwd="/", environ=dict(os.environ), streams=Streams(null, null, null))
    print(process.pid, flush=True)
    os.kill(os.getpid(), 9)

asyncio.run(main())
"""


@pytest.fixture
def null() -> Iterator[Streams]:
    descriptor = os.open(os.devnull, os.O_RDWR)
    yield Streams(descriptor, descriptor, descriptor)
    os.close(descriptor)


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    return RunFolder(tmp_path / "run", SessionId("a-session"))


async def until(condition: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + SECONDS_MAX
    while not condition():
        assert time.monotonic() < deadline, f"no {what}"
        await asyncio.sleep(0.01)


def exists(pid: int) -> bool:
    """Also as a zombie."""
    return Path(f"/proc/{pid}").exists()


def test_it_outlives_whoever_started_it() -> None:
    """Killed -9, the starter leaves it running in a session of its own, with none of its other descriptors."""
    starter = run_program([sys.executable, "-c", LAUNCH_AND_DIE], timeout=20)
    assert starter.returncode == -signal.SIGKILL
    pid = int(starter.stdout)
    process = proc.identify(pid)
    assert process is not None
    try:
        assert os.getsid(pid) == pid
        assert sorted(each.name for each in Path(f"/proc/{pid}/fd").iterdir()) == ["0", "1", "2"]
    finally:
        assert asyncio.run(terminate(process, is_meant=lambda _process: True)).sight is ProcessState.DEAD


async def test_no_zombie_stays(null: Streams) -> None:
    """Fifty children that end are reaped without anybody waiting, and one that has ended has an identity too."""
    started = [launch(("true",), cwd="/", environ=ENVIRON, streams=null) for _ in range(50)]
    assert len({each.started for each in started}) >= 1
    await until(lambda: not any(exists(each.pid) for each in started), "end of all")


def test_a_child_of_an_earlier_loop_is_reaped_by_the_next_start(null: Streams) -> None:
    """A loop that ended before its children did leaves them to the next start."""

    async def start(*argv: str) -> Process:
        return launch(argv, cwd="/", environ=ENVIRON, streams=null)

    first = asyncio.run(start("true"))
    asyncio.run(until(lambda: proc.state_of(first) is ProcessState.DEAD, "end"))
    asyncio.run(start("true"))
    assert not exists(first.pid)


def test_the_program_is_looked_for_on_the_given_path(
    tmp_path: Path, null: Streams, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not on ours, and never in a relative folder; a script without its interpreter is missing too."""
    for name, interpreter in (("script", "/no/such/interpreter"), ("runs", "/bin/sh")):
        (tmp_path / name).write_text(f"#!{interpreter}\n")
        (tmp_path / name).chmod(0o700)
    monkeypatch.chdir(tmp_path)

    async def start(program: str, path: str, cwd: str = str(tmp_path)) -> None:
        launch((program,), cwd=cwd, environ={"PATH": path}, streams=null)

    for program, path in (
        ("true", "/nowhere"),
        ("runs", "."),
        ("runs", ""),
        ("script", str(tmp_path)),
        ("", "/bin"),
    ):
        with pytest.raises(ClientMissing):
            asyncio.run(start(program, path))
    asyncio.run(start("runs", str(tmp_path)))
    asyncio.run(start("./runs", "/nowhere"))
    with pytest.raises(WorkingDirectoryGone):
        asyncio.run(start("true", "/usr/bin:/bin", str(tmp_path / "gone")))


async def test_what_the_kernel_refuses_is_a_failed_start(null: Streams) -> None:
    """An argument longer than any may be starts nothing, and says why."""
    with pytest.raises(StartFailed, match="Argument list too long"):
        launch(("true", "x" * 1024 * 1024), cwd="/", environ=ENVIRON, streams=null)


@pytest.mark.parametrize("ended_before", [False, True])
def test_what_a_process_said_last_is_read_before_its_end_is_believed(
    folder: RunFolder, ended_before: bool
) -> None:
    """Whole lines only, all of them, in order, and then nothing more, at once."""
    program = "import sys; [print(n) for n in range(20000)]; print('torn', end='')"

    async def scenario() -> list[bytes]:
        with folder.open_streams() as streams:
            process = launch((sys.executable, "-c", program), cwd="/", environ=ENVIRON, streams=streams)
        if ended_before:
            await until(lambda: proc.state_of(process) is ProcessState.DEAD, "end")
        lines: list[bytes] = []
        async with FileFollower(folder.output, process) as following:
            assert not await following.feed_until(lines.append, lambda: False, SECONDS_MAX)
        return lines

    began = time.monotonic()
    assert asyncio.run(scenario()) == [str(number).encode() for number in range(20000)]
    assert time.monotonic() - began < SECONDS_MAX / 2


async def test_a_line_is_written_whole_or_not_at_all(folder: RunFolder) -> None:
    """Without a reader: full without a byte more. With a reader: through, however long. The reader gone: said so."""
    assert await folder.write_line(b"x", 0.1) is WriteResult.NO_READER
    with folder.open_streams() as streams:
        assert await folder.write_line(b"x" * 900_000, 0.1) is WriteResult.WHOLE
        assert await folder.write_line(b"y" * 200_000, 0.1) is WriteResult.FULL
        process = launch(("cat",), cwd="/", environ=ENVIRON, streams=streams)
    assert await folder.write_line(b"z" * 3_000_000, SECONDS_MAX) is WriteResult.WHOLE
    await until(lambda: folder.output.stat().st_size == 3_900_002, "all of it")
    assert folder.output.read_bytes() == b"x" * 900_000 + b"\n" + b"z" * 3_000_000 + b"\n"
    await terminate(process, is_meant=lambda _process: True)
    assert await folder.write_line(b"x", 0.1) is WriteResult.NO_READER


async def test_a_torn_line_closes_the_input(folder: RunFolder) -> None:
    """What is longer than any pipe and is not read to its end can be followed by nothing."""
    with folder.open_streams():
        assert await folder.write_line(b"x" * 3_000_000, 0.2) is WriteResult.TORN
        assert await folder.write_line(b"y", 0.2) is WriteResult.NO_READER


def test_the_folder_is_for_its_user_only(folder: RunFolder) -> None:
    """No other user may read the output, or write to the input."""
    with folder.open_streams():
        modes = {path.name: path.stat().st_mode & 0o777 for path in (folder.path, *folder.path.iterdir())}
    assert modes == {"a-session": 0o700, "in": 0o600, "out.jsonl": 0o600, "err": 0o600}
