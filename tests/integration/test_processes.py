"""Claims about seeing real processes: who they are, whose they are, and that their end is reported at once."""

import asyncio
import fcntl
import os
import resource
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Final

import pytest

from wakeful.core.process import Process, ProcessState
from wakeful.linux import proc
from wakeful.linux.clock import SystemClock
from wakeful.linux.exit_watch import POLL_SECONDS, ExitWatch

PATIENCE_SECONDS: Final = 30.0
# Promised is 20 ms up to the API; the whole of it is left to the rest when this machine is busy.
TOLD_SECONDS_MAX: Final = 0.1
KILLS: Final = 100


@contextmanager
def running(*argv: str, **environ: str) -> Iterator[subprocess.Popen[bytes]]:
    """A child that is ended and reaped afterwards, whatever the test did to it."""
    child = subprocess.Popen(
        argv or ("sleep", "60"),
        env={**os.environ, **environ},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
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


def eventually(condition: Callable[[], bool]) -> None:
    """Wait for the kernel, which does not report when a process changed its state."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not condition():
        assert time.monotonic() < deadline, "it never came true"
        time.sleep(0.005)


def become_zombie(child: subprocess.Popen[bytes]) -> None:
    child.kill()
    eventually(lambda: b") Z " in Path(f"/proc/{child.pid}/stat").read_bytes())


def is_unreaped(child: subprocess.Popen[bytes]) -> bool:
    return Path(f"/proc/{child.pid}").exists()


def has_begun(pid: int, comm: str, variable: str) -> bool:
    """Whether exec is over: first comes the new name, last the environment."""
    return proc.comm(pid) == comm and proc.environ_value(pid, variable) is not None


def slow(watch: ExitWatch) -> bool:
    return watch.is_polling


class Told:
    """Remembers which ends were reported, and lets a test wait for the next."""

    def __init__(self) -> None:
        self.ends: list[Process] = []
        self._queue: asyncio.Queue[Process] = asyncio.Queue()

    def __call__(self, process: Process) -> None:
        self.ends.append(process)
        self._queue.put_nowait(process)

    async def next(self) -> Process:
        return await asyncio.wait_for(self._queue.get(), PATIENCE_SECONDS)


@asynccontextmanager
async def watching() -> AsyncIterator[tuple[ExitWatch, Told]]:
    before = open_descriptors()
    told = Told()
    watch = ExitWatch(told)
    try:
        yield watch, told
    finally:
        watch.close()
    assert open_descriptors() == before, "descriptors were left open"


def open_descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def test_a_process_that_has_begun_to_end_is_told_apart() -> None:
    """The kernel marks it before it is gone; a zombie has that mark, a process at work has not."""
    with running() as child:
        assert not proc.is_ending(child.pid)
        become_zombie(child)
        assert proc.is_ending(child.pid)
    assert not proc.is_ending(child.pid)


def test_a_process_is_known_by_pid_start_and_boot() -> None:
    """Asked twice, the same process is the same value; gone and reaped, it is none."""
    with running() as child:
        process = known(child)
        assert process == proc.identify(child.pid)
        assert process.boot_id == Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        assert proc.state_of(process) is ProcessState.ALIVE
    assert proc.identify(process.pid) is None
    assert proc.state_of(process) is ProcessState.DEAD


def test_a_zombie_is_dead() -> None:
    """It is not reaped and kill(pid, 0) still works, but its work has ended."""
    with running() as child:
        process = known(child)
        become_zombie(child)
        os.kill(child.pid, 0)
        assert proc.state_of(process) is ProcessState.DEAD
        assert proc.identify(child.pid) is None


def test_a_process_whose_first_thread_ended_is_alive() -> None:
    """Its stat line shows a zombie; its pidfd and its other threads know better."""
    script = (
        "import ctypes, threading, time\n"
        "threading.Thread(target=time.sleep, args=(60,)).start()\n"
        "ctypes.CDLL(None).pthread_exit(None)\n"
    )
    with running(sys.executable, "-c", script) as child:
        process = known(child)
        eventually(lambda: b") Z " in Path(f"/proc/{child.pid}/stat").read_bytes())
        assert proc.state_of(process) is ProcessState.ALIVE


async def test_another_start_time_is_another_process() -> None:
    """A pid that changed hands does not keep its first owner alive, nor is the new one watched for it."""
    async with watching() as (watch, told):
        with running() as child:
            process = known(child)
            former = Process(process.pid, process.started - 1, process.boot_id)
            assert proc.state_of(former) is ProcessState.DEAD
            assert watch.watch(former) is ProcessState.DEAD
            assert watch.watch(process) is ProcessState.ALIVE
            child.kill()
            assert await told.next() == process
        assert told.ends == [process]


@pytest.mark.parametrize(
    "problem", [FileNotFoundError(2, "hidden"), PermissionError(13, "closed"), OSError(24, "full")]
)
def test_a_process_that_cannot_be_seen_is_unknown(problem: OSError, monkeypatch: pytest.MonkeyPatch) -> None:
    """With hidepid the files of living processes are missing; closed, missing or no room is not dead."""
    with running() as child:
        process = known(child)

        def closed(_path: str) -> bytes:
            raise problem

        monkeypatch.setattr(proc, "_read", closed)
        assert proc.state_of(process) is ProcessState.UNKNOWN
        with pytest.raises(proc.ProcessHidden, match=f"{process.pid} on this system: {problem.strerror}"):
            proc.identify(process.pid)


def test_what_a_process_says_of_itself_is_read() -> None:
    """Command, short name, folder and environment come back as they were given; of no process, nothing."""
    with running("sleep", "60", WAKEFUL_TEST="a=b ü") as child:
        eventually(lambda: has_begun(child.pid, "sleep", "WAKEFUL_TEST"))
        assert proc.command(child.pid) == ("sleep", "60")
        assert proc.cwd(child.pid) == str(Path.cwd())
        assert proc.environ_value(child.pid, "WAKEFUL_TEST") == "a=b ü"
        assert proc.environ_value(child.pid, "WAKEFUL_TES") is None
    assert (proc.command(child.pid), proc.comm(child.pid), proc.cwd(child.pid)) == ((), "", None)
    assert proc.environ_value(child.pid, "WAKEFUL_TEST") is None


def test_families_are_seen_up_and_down() -> None:
    """A grandchild is a descendant and has us among its ancestors; a dead process has no children."""
    with running("sh", "-c", "sleep 60 & echo $!; read line; kill $!") as shell:
        process = known(shell)
        assert shell.stdout is not None
        grandchild = proc.identify(int(shell.stdout.readline()))
        assert grandchild is not None
        assert proc.children(process) == [grandchild]
        me = proc.identify(os.getpid())
        assert me is not None
        assert {process, grandchild} <= set(proc.descendants(me))
        assert proc.ancestors(grandchild.pid)[:2] == [process, me]
        assert proc.parent_of(grandchild) == process
        stranger = Process(process.pid, process.started - 1, process.boot_id)
        assert proc.descendants(stranger) == []
        shell.communicate(b"\n", timeout=PATIENCE_SECONDS)
    assert proc.children(process) == []


def test_an_orphaned_tool_is_found_by_its_environment() -> None:
    """Its agent was killed and it has another parent now; the session id it carries remains."""
    with running("sh", "-c", "setsid sleep 60 & echo $!; read line", WAKEFUL_TEST_ID="s-1") as agent:
        assert agent.stdout is not None
        tool_pid = int(agent.stdout.readline())
        tool = proc.identify(tool_pid)
        assert tool is not None
        try:
            eventually(lambda: has_begun(tool_pid, "sleep", "WAKEFUL_TEST_ID"))
            assert set(proc.processes_with_variable("WAKEFUL_TEST_ID", "s-1", os.getuid())) == {
                known(agent),
                tool,
            }
            agent.kill()
            agent.wait()
            assert proc.processes_with_variable("WAKEFUL_TEST_ID", "s-1", os.getuid()) == [tool]
            assert proc.processes_with_variable("WAKEFUL_TEST_ID", "s-", os.getuid()) == []
            assert proc.processes_with_variable("WAKEFUL_TEST_ID", "s-1", os.getuid() + 1) == []
        finally:
            os.kill(tool_pid, signal.SIGKILL)


def test_the_holder_of_a_lock_is_found(tmp_path: Path) -> None:
    """One read answers for many files; an unlocked file has no holder."""
    locked, free = tmp_path / "locked", tmp_path / "free"
    free.touch()
    script = f"exec 9>{locked}; flock 9; echo held; read line"
    with running("bash", "-c", script) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == b"held\n"
        keys = {path: (path.stat().st_dev, path.stat().st_ino) for path in (locked, free)}
        holders = proc.flock_holders(keys.values())
        assert set(holders) == {keys[locked]}
        # flock(1) took it for its shell, and has left; what the kernel names is who asked.
        assert proc.identify(holders[keys[locked]]) in (None, known(child))
    with locked.open() as mine:
        fcntl.flock(mine, fcntl.LOCK_EX)
        assert proc.flock_holders([keys[locked]]) == {keys[locked]: os.getpid()}


def test_a_lock_is_found_where_stat_names_another_device(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on btrfs and overlayfs: then who has the file open decides, not the inode number alone."""
    path, other = tmp_path / "locked", tmp_path / "other"
    other.touch()
    with path.open("w") as mine:
        fcntl.flock(mine, fcntl.LOCK_EX)
        genuine = proc.parse_flocks

        def elsewhere(text: bytes) -> list[tuple[int, int, int]]:
            return [(device + 1, inode, pid) for device, inode, pid in genuine(text)]

        monkeypatch.setattr(proc, "parse_flocks", elsewhere)
        key = (path.stat().st_dev, path.stat().st_ino)
        assert proc.flock_holders([key]) == {key: os.getpid()}
        assert proc.flock_holders([(key[0] + 7, key[1])]) == {}


async def test_an_exit_is_told_once_and_before_it_is_reaped() -> None:
    """Watched twice, told once, while it is still a zombie."""
    async with watching() as (watch, told):
        with running("cat") as child:
            process = known(child)
            assert watch.watch(process) is ProcessState.ALIVE
            assert watch.watch(process) is ProcessState.ALIVE
            assert child.stdin is not None
            child.stdin.close()
            child.stdin = None
            assert await told.next() == process
            assert proc.state_of(process) is ProcessState.DEAD
            assert is_unreaped(child), "somebody reaped it for us"
            assert watch.watch(process) is ProcessState.DEAD
        assert told.ends == [process]
        assert not slow(watch)


async def test_a_kill_is_told_at_once() -> None:
    """The median of many kills is far below what a poll could reach."""
    took: list[float] = []
    async with watching() as (watch, told):
        for _ in range(KILLS):
            with running() as child:
                watch.watch(known(child))
                killed = time.monotonic()
                child.kill()
                await told.next()
                took.append(time.monotonic() - killed)
    median, worst = statistics.median(took), max(took)
    print(f"kill -9 to told: median {median * 1000:.2f} ms, worst of {KILLS} {worst * 1000:.2f} ms")  # noqa: T201
    assert median < TOLD_SECONDS_MAX


async def test_the_end_of_an_unwatched_process_is_not_told() -> None:
    """Also when it had already ended and the loop had not come round to it."""
    async with watching() as (watch, told):
        with running() as forgotten, running() as other:
            process = known(forgotten)
            watch.watch(process)
            watch.watch(known(other))
            become_zombie(forgotten)
            watch.unwatch(process)
            other.kill()
            await told.next()
        assert process not in told.ends


async def test_without_room_for_a_pidfd_ends_are_told_late_but_told() -> None:
    """Out of descriptors is slow, said so, and over as soon as there is room again."""
    async with watching() as (watch, told):
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        assert soft == hard, "the limit was not raised"
        with running() as first, running() as second:
            processes = known(first), known(second)
            # Every number below the limit is taken, so that nothing can be opened at all.
            resource.setrlimit(resource.RLIMIT_NOFILE, (3, hard))
            try:
                assert [watch.watch(process) for process in processes] == [ProcessState.UNKNOWN] * 2
                assert slow(watch)
            finally:
                resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
            first.kill()
            assert await told.next() == processes[0]
            assert not slow(watch), "the other one has its pidfd now"
            second.kill()
            assert await told.next() == processes[1]
        assert told.ends == list(processes)


async def test_a_kernel_without_pidfd_is_slow_and_right(monkeypatch: pytest.MonkeyPatch) -> None:
    """Polling sees a zombie too, and stops when no process is left to poll."""

    def missing(pid: int) -> int:
        raise OSError(38, "Function not implemented", str(pid))

    monkeypatch.setattr(os, "pidfd_open", missing)
    async with watching() as (watch, told):
        with running() as child, running() as forgotten:
            assert watch.watch(known(child)) is ProcessState.ALIVE
            assert watch.watch(known(forgotten)) is ProcessState.ALIVE
            assert slow(watch)
            process = known(child)
            become_zombie(child)
            assert await asyncio.wait_for(told.next(), 3 * POLL_SECONDS) == process
            watch.unwatch(known(forgotten))
            assert not slow(watch)
            assert watch._timer is None


async def test_the_descriptor_limit_is_raised_as_far_as_allowed() -> None:
    """A thousand watched processes need a thousand descriptors, and the usual limit is 1,024."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard - 1, hard))
    async with watching() as (_, _):
        assert resource.getrlimit(resource.RLIMIT_NOFILE) == (hard, hard)


def test_the_system_clock_sleeps_until_its_moment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not a tick early, even when the loop's timers are."""
    on_time = asyncio.sleep

    async def too_early(seconds: float) -> None:
        await on_time(seconds / 2)

    monkeypatch.setattr(asyncio, "sleep", too_early)
    clock = SystemClock()
    until = clock.now().awake + 0.05
    asyncio.run(clock.sleep_until(until))
    assert until <= clock.now().awake < until + PATIENCE_SECONDS
    assert clock.jumps == 0


def test_a_stamp_newer_than_the_last_look_is_new() -> None:
    """However long ago the system clock was last asked, a record written now is written now."""
    clock = SystemClock()
    first = clock.now()
    time.sleep(0.05)
    assert clock.instant(time.time()).awake >= first.awake + 0.05
