"""Reads processes from /proc: identity, age, parents, command, environment, open files and locks.

A process may vanish between two reads; that is an answer, not an error. Reads are not cached, except the boot
id. This module sends no signals and draws no conclusions. `InnerProcesses` finds processes of containers by
their pid inside, which means another process on the host or none. It keeps one pass over /proc, which covers
every process that started before it, and makes another only for a younger one.
"""

import os
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Final

from msgspec import Struct

from wakeful.core.errors import WorldError
from wakeful.core.process import Process, ProcessState

# The kernel's own ceiling (PID_MAX_LIMIT); pids come out of files that anybody may have written.
PID_MAX: Final = 2**22
_READ_BYTES: Final = 65536
_TICKS_PER_SECOND: Final = os.sysconf("SC_CLK_TCK")
# PF_EXITING of the kernel's sched.h.
_EXITING: Final = 0x4
# Stopped, and stopped by a tracer, as proc(5) has it.
_STOPPED: Final = "Tt"
_NO_PROCESS_ERRORS: Final = (FileNotFoundError, ProcessLookupError)


class ProcessHidden(WorldError):
    """This system does not let us look at process {pid}: {reason}."""

    code = "process-hidden"


class Stat(Struct, frozen=True, gc=False):
    """What one line of /proc/PID/stat says about a process."""

    pid: int
    comm: str
    state: str
    parent_pid: int
    flags: int
    threads: int
    started: int

    @property
    def has_ended(self) -> bool:
        """A zombie has ended. One with threads left has not: only its first thread did."""
        return self.state in "ZXx" and self.threads <= 1

    @property
    def process(self) -> Process:
        return Process(self.pid, self.started, boot_id())


def parse_stat(line: bytes) -> Stat:
    """Read a stat line. The name in it is the process's own choice and may hold spaces and parentheses."""
    opened, closed = line.index(b"("), line.rindex(b")")
    # The first field after the name is number 3 of proc(5).
    fields = line[closed + 2 :].split()
    return Stat(
        pid=int(line[:opened]),
        comm=os.fsdecode(line[opened + 1 : closed]),
        state=fields[0].decode(),
        parent_pid=int(fields[1]),
        flags=int(fields[6]),
        threads=int(fields[17]),
        started=int(fields[19]),
    )


@cache
def boot_id() -> str:
    """Which boot of the host this is."""
    return _read("/proc/sys/kernel/random/boot_id").decode().strip()


def identify(pid: int) -> Process | None:
    """The process that has this pid now; None if there is none or it is a zombie. Raises ProcessHidden."""
    try:
        stat = _stat(pid)
    except OSError as problem:
        raise ProcessHidden(pid=pid, reason=problem.strerror) from problem
    return None if stat is None or stat.has_ended else stat.process


def state_of(process: Process) -> ProcessState:
    """Whether this very process lives. Ask about processes of this host only: another boot id means dead."""
    if process.boot_id != boot_id():
        return ProcessState.DEAD
    try:
        stat = _stat(process.pid)
    except OSError:
        return ProcessState.UNKNOWN
    if stat is None or stat.has_ended or stat.started != process.started:
        return ProcessState.DEAD
    return ProcessState.ALIVE


def is_running(process: Process) -> bool:
    """Whether this very process lives and is not stopped: by Ctrl-Z, a signal or a debugger, and then it reads nothing."""
    if process.boot_id != boot_id():
        return False
    try:
        stat = _stat(process.pid)
    except OSError:
        return False
    return (
        stat is not None
        and not stat.has_ended
        and stat.started == process.started
        and stat.state not in _STOPPED
    )


def is_ending(pid: int) -> bool:
    """Whether this process has begun to end. A container's first one takes everybody else in there along before it is gone."""
    try:
        stat = _stat(pid)
    except OSError:
        return False
    return stat is not None and bool(stat.flags & _EXITING)


def age_seconds(process: Process) -> float:
    """How long ago it was started, the host's sleep included."""
    return time.clock_gettime(time.CLOCK_BOOTTIME) - process.started / _TICKS_PER_SECOND


def parent_of(process: Process) -> Process | None:
    """Its parent; None for the first process, for one that is gone, and where the parent cannot be seen."""
    try:
        stat = _stat(process.pid)
        parent = None if stat is None or stat.process != process else _stat(stat.parent_pid)
    except OSError:
        return None
    # A parent that is younger than its child is a stranger who got the pid in between.
    if parent is None or parent.has_ended or parent.started > process.started:
        return None
    return parent.process


def ancestors(pid: int) -> list[Process]:
    """Parent, grandparent and so on up to the first process. Raises ProcessHidden for `pid` itself."""
    found: list[Process] = []
    process = identify(pid)
    while process is not None and (process := parent_of(process)) is not None:
        found.append(process)
    return found


def children_by_parent() -> dict[int, list[Process]]:
    """Every living process under its parent's pid, from one pass. Hand it on when asking about many."""
    found: dict[int, list[Process]] = {}
    for pid in _pids():
        try:
            stat = _stat(pid)
        except OSError:
            continue  # Hidden from us, like everything it started as somebody else.
        if stat is not None and not stat.has_ended:
            found.setdefault(stat.parent_pid, []).append(stat.process)
    return found


def children(process: Process, known: Mapping[int, Sequence[Process]] | None = None) -> list[Process]:
    """Its living children; none if the process itself is gone, whoever has its pid now."""
    known = children_by_parent() if known is None else known
    if state_of(process) is not ProcessState.ALIVE:
        return []
    return [child for child in known.get(process.pid, ()) if child.started >= process.started]


def descendants(process: Process, known: Mapping[int, Sequence[Process]] | None = None) -> list[Process]:
    """Its living children, theirs, and so on. Whoever was orphaned on the way is not among them: see `carriers`."""
    known = children_by_parent() if known is None else known
    found: dict[Process, None] = {}
    unvisited = [process]
    while unvisited:
        # A pid that changed hands during the pass can close a circle: nobody is visited twice.
        fresh = [child for child in children(unvisited.pop(), known) if child not in found]
        found |= dict.fromkeys(fresh)
        unvisited += fresh
    return list(found)


def child_pids(pid: int) -> list[int]:
    """The pids of its children, by one read; none where the kernel does not list them, or it is gone."""
    return [int(each) for each in _read_or_empty(f"/proc/{pid}/task/{pid}/children").split()]


def command(pid: int) -> tuple[str, ...]:
    """Its argument list, empty when it is gone. May hold secrets and anything else: not for showing as it is."""
    raw = _read_or_empty(f"/proc/{pid}/cmdline")
    return tuple(os.fsdecode(part) for part in raw.removesuffix(b"\0").split(b"\0")) if raw else ()


def executable(pid: int) -> str | None:
    """The file that it runs; None when it is gone or not ours to read."""
    return _target(f"/proc/{pid}/exe")


def comm(pid: int) -> str:
    """Its short name, empty when it is gone."""
    return os.fsdecode(_read_or_empty(f"/proc/{pid}/comm").removesuffix(b"\n"))


def status(pid: int) -> bytes:
    """Everything /proc/PID/status says, empty when it is gone or not ours to read."""
    return _read_or_empty(f"/proc/{pid}/status")


def cwd(pid: int) -> str | None:
    """Its working folder; None when it is gone or not ours to read."""
    return _target(f"/proc/{pid}/cwd")


def has_terminal(pid: int) -> bool:
    """Whether it belongs to a terminal: a person's window, a pane. False when it is gone or not ours to read."""
    line = _read_or_empty(f"/proc/{pid}/stat")
    # Field 7 of proc(5); the first one after the name is number 3.
    return bool(line) and line[line.rindex(b")") + 2 :].split()[4] != b"0"


def environ_value(pid: int, name: str) -> str | None:
    """A variable it was started with; None when it has none, is gone or is not ours to read."""
    wanted = os.fsencode(f"{name}=")
    for entry in _read_or_empty(f"/proc/{pid}/environ").split(b"\0"):
        if entry.startswith(wanted):
            return os.fsdecode(entry.removeprefix(wanted))
    return None


def environ(pid: int) -> dict[str, str]:
    """All it was started with; nothing when it is gone or not ours to read."""
    entries = (
        os.fsdecode(each).partition("=") for each in _read_or_empty(f"/proc/{pid}/environ").split(b"\0")
    )
    return {name: value for name, equals, value in entries if equals}


def environ_values(pid: int, names: Collection[str]) -> dict[str, str]:
    """Those of these variables that it was started with and that are not empty."""
    return {name: value for name in names if (value := environ_value(pid, name))}


def open_files(pid: int) -> list[str]:
    """The paths of the files it has open; none when it is gone or not ours to read."""
    found = []
    with suppress(*_NO_PROCESS_ERRORS, PermissionError):
        for descriptor in Path(f"/proc/{pid}/fd").iterdir():
            with suppress(OSError):  # it was closed while we looked
                found.append(str(descriptor.readlink()))
    return found


def processes_with_variable(name: str, value: str, uid: int) -> list[Process]:
    """The user's processes that were started with NAME=value: a session's tools, orphans among them.

    A process in the middle of exec has no environment for a moment (seen once in 1,500 fresh ones), so that
    one look proves who is there, not that nobody is.
    """
    wanted = os.fsencode(f"\0{name}={value}\0")
    found = []
    for pid in _pids(uid):
        # Identity first: should the pid change hands now, the answer names somebody who is gone, not a stranger.
        process = identify_or_none(pid)
        if process is not None and wanted in b"\0" + _read_or_empty(f"/proc/{pid}/environ"):
            found.append(process)
    return found


def processes_by_variable(names: Collection[str], uid: int) -> dict[tuple[str, str], list[Process]]:
    """As `carriers`, for every value of these variables, by one pass: many sessions that end at once cost one."""
    wanted = {os.fsencode(f"{name}="): name for name in names}
    found: dict[tuple[str, str], list[Process]] = {}
    for pid in _pids(uid):
        process = identify_or_none(pid)
        entries = _read_or_empty(f"/proc/{pid}/environ").split(b"\0") if process is not None else ()
        for entry in entries:
            head, equals, value = entry.partition(b"=")
            name = wanted.get(head + equals)
            if name is not None and process is not None:
                found.setdefault((name, os.fsdecode(value)), []).append(process)
    return found


# The device and inode of a file, as os.stat has them.
FileKey = tuple[int, int]


def flock_holders(keys: Collection[FileKey]) -> dict[FileKey, int]:
    """Which process holds the flock of each of these files; unlocked ones are missing. One read for all.

    The pid is the one that took the lock; it may be gone while a child still holds the descriptor.
    """
    wanted = set(keys)
    by_inode = {inode: (device, inode) for device, inode in wanted}
    found: dict[FileKey, int] = {}
    for device, inode, pid in parse_flocks(_read("/proc/locks")):
        if (device, inode) in wanted:
            found[device, inode] = pid
        elif inode in by_inode and _has_open(pid, by_inode[inode]):
            found[by_inode[inode]] = pid
    return found


def parse_flocks(text: bytes) -> list[tuple[int, int, int]]:
    """Device, inode and pid of every flock held, from /proc/locks. Those who wait for one (`->`) hold nothing."""
    held = []
    for line in text.splitlines():
        fields = line.split()
        if len(fields) > 5 and fields[1] == b"FLOCK":
            major, minor, inode = fields[5].split(b":")
            held.append((os.makedev(int(major, 16), int(minor, 16)), int(inode), int(fields[4])))
    return held


def _has_open(pid: int, key: FileKey) -> bool:
    """Whether the process has this file open. btrfs and overlayfs show one device to stat, another in locks."""
    try:
        with os.scandir(f"/proc/{pid}/fd") as descriptors:
            return any(_key_of(descriptor) == key for descriptor in descriptors)
    except (*_NO_PROCESS_ERRORS, PermissionError):
        return False


def _key_of(entry: os.DirEntry[str]) -> FileKey | None:
    try:
        found = entry.stat()
    except (*_NO_PROCESS_ERRORS, PermissionError):
        return None
    return found.st_dev, found.st_ino


def _stat(pid: int) -> Stat | None:
    """Its stat, or None if no such process exists. Raises OSError where that cannot be told."""
    if not 0 < pid <= PID_MAX:
        return None
    try:
        return parse_stat(_read(f"/proc/{pid}/stat"))
    except _NO_PROCESS_ERRORS:
        # Mounted with hidepid, or not at all, /proc says the same of living processes.
        if _pid_exists(pid):
            raise
        return None


def _pid_exists(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def identify_or_none(pid: int) -> Process | None:
    """The process that has this pid now; None if there is none, or none that we may look at."""
    try:
        return identify(pid)
    except ProcessHidden:
        return None


def _pids(uid: int | None = None) -> Iterator[int]:
    """Every pid, or those of one user."""
    with os.scandir("/proc") as entries:
        for entry in entries:
            if entry.name.isdigit() and (uid is None or _owner_of(entry) == uid):
                yield int(entry.name)


def _owner_of(entry: os.DirEntry[str]) -> int | None:
    try:
        return entry.stat().st_uid
    except _NO_PROCESS_ERRORS:
        return None


def _target(link: str) -> str | None:
    try:
        return str(Path(link).readlink())
    except (*_NO_PROCESS_ERRORS, PermissionError):
        return None


def _read_or_empty(path: str) -> bytes:
    """The file's content, empty when its process is gone or not ours to read."""
    try:
        return _read(path)
    except (*_NO_PROCESS_ERRORS, PermissionError):
        return b""


def _read(path: str) -> bytes:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        parts = []
        while part := os.read(descriptor, _READ_BYTES):
            parts.append(part)
        return b"".join(parts)
    finally:
        os.close(descriptor)


# A start is rounded down to a tick, and a process is listed a moment after it was started.
_SLACK_TICKS = 2


class InnerProcesses:
    """Whoever lives in another namespace than ours, by number and start in there."""

    def __init__(self) -> None:
        self._known: dict[tuple[int, int], Process] = {}
        self._seen_until = 0

    def find(self, pid: int, started: int) -> Process | None:
        """The process with this number in a namespace of its own; it may have ended since. Starts share one clock."""
        if started + _SLACK_TICKS >= self._seen_until:
            self._seen_until = int(time.clock_gettime(time.CLOCK_BOOTTIME) * _TICKS_PER_SECOND)
            self._known = _inner_processes()
        return self._known.get((pid, started))


def _inner_processes() -> dict[tuple[int, int], Process]:
    living = (each for row in children_by_parent().values() for each in row)
    numbered = ((each, inner_pid(each.pid)) for each in living)
    return {(pid, each.started): each for each, pid in numbered if pid is not None and pid != each.pid}


def inner_pid(pid: int) -> int | None:
    """The number a process has in its own namespace; None when it is gone or not ours to read."""
    for line in status(pid).splitlines():
        if line.startswith(b"NSpid:"):
            return int(line.split()[-1])
    return None
