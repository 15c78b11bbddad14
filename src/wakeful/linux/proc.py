"""Reads processes from /proc: identity, age, parents, command, environment, open files and locks.

A process may vanish between two reads; that is an answer, not an error. Reads are not cached. This module sends no
signals and draws no conclusions. `InnerProcesses` finds processes of containers by their inner pid, which on the host
belongs to another process or none. It keeps the result of one pass over /proc, which covers every process that started
before it, and makes another pass only for a younger one.
"""

import os
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from wakeful.core.errors import WorldError
from wakeful.core.process import Process, ProcessState
from wakeful.linux.machine import boot_id, this_machine

# The kernel's limit (PID_MAX_LIMIT); pids come from files that any program may have written.
PID_MAX: Final = 2**22
_READ_BYTES: Final = 65536
_TICKS_PER_SECOND: Final = os.sysconf("SC_CLK_TCK")
# PF_EXITING of the kernel's sched.h.
_EXITING: Final = 0x4
# Stopped, and stopped by a tracer; see proc(5).
_STOPPED: Final = "Tt"
_NO_PROCESS_ERRORS: Final = (FileNotFoundError, ProcessLookupError)


class ProcessHidden(WorldError):
    """Cannot read process {pid} on this system: {reason}."""

    code = "process-hidden"


class Stat(Struct, frozen=True, gc=False):
    pid: int
    comm: str
    state: str
    parent_pid: int
    flags: int
    threads: int
    started: int

    @property
    def has_ended(self) -> bool:
        """A zombie has ended. A zombie with threads has not: only its first thread ended."""
        return self.state in "ZXx" and self.threads <= 1

    @property
    def process(self) -> Process:
        return process_of(self.pid, self.started)


def parse_stat(line: bytes) -> Stat:
    """Read a stat line. The process chooses its name, which may contain spaces and parentheses."""
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


def process_of(pid: int, started: int) -> Process:
    """The process of this boot of this machine with this pid and start time."""
    return Process(pid, started, boot_id(), this_machine().id)


def with_machine(process: Process) -> Process:
    """A process from a file, equal to the same process as it is seen now: earlier versions stored no machine."""
    return process if process.machine else replace(process, machine=this_machine().id)


def is_of_this_machine(process: Process) -> bool:
    return process.machine in ("", this_machine().id)


def identify(pid: int) -> Process | None:
    """The process with this pid; None without one or for a zombie. Raises ProcessHidden."""
    try:
        stat = _stat(pid)
    except OSError as problem:
        raise ProcessHidden(pid=pid, reason=problem.strerror) from problem
    return None if stat is None or stat.has_ended else stat.process


def state_of(process: Process) -> ProcessState:
    """Whether exactly this process lives. On this machine another boot id means dead; of others nothing is known."""
    if not is_of_this_machine(process):
        return ProcessState.UNKNOWN
    try:
        return ProcessState.DEAD if _live_stat(process) is None else ProcessState.ALIVE
    except OSError:
        return ProcessState.UNKNOWN


def is_running(process: Process) -> bool:
    """Whether exactly this process lives and is not stopped: after Ctrl-Z, a signal or in a debugger it reads nothing."""
    try:
        stat = _live_stat(process)
    except OSError:
        return False
    return stat is not None and stat.state not in _STOPPED


def is_ending(pid: int) -> bool:
    """Whether this process has begun to end. A container's first process ends all others there before it is gone."""
    try:
        stat = _stat(pid)
    except OSError:
        return False
    return stat is not None and bool(stat.flags & _EXITING)


def age_seconds(process: Process) -> float:
    """Seconds since its start, including the host's sleep."""
    return time.clock_gettime(time.CLOCK_BOOTTIME) - process.started / _TICKS_PER_SECOND


def parent_of(process: Process) -> Process | None:
    """Its parent; None for the first process, for an ended one, and if the parent is hidden."""
    try:
        stat = _stat(process.pid)
        parent = None if stat is None or stat.process != process else _stat(stat.parent_pid)
    except OSError:
        return None
    # A parent younger than its child is another process that got the pid meanwhile.
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
    """Every live process by its parent's pid, from one pass. Pass it to `children` when asking about many."""
    found: dict[int, list[Process]] = {}
    for pid in _pids():
        try:
            stat = _stat(pid)
        except OSError:
            continue  # Hidden, like all processes of another user.
        if stat is not None and not stat.has_ended:
            found.setdefault(stat.parent_pid, []).append(stat.process)
    return found


def children(process: Process, known: Mapping[int, Sequence[Process]] | None = None) -> list[Process]:
    """Its live children; none if the process has ended, even if its pid is in use again."""
    known = children_by_parent() if known is None else known
    if state_of(process) is not ProcessState.ALIVE:
        return []
    return [child for child in known.get(process.pid, ()) if child.started >= process.started]


def descendants(process: Process, known: Mapping[int, Sequence[Process]] | None = None) -> list[Process]:
    """Its live descendants, without orphaned ones: for those see `processes_with_variable`."""
    known = children_by_parent() if known is None else known
    found: dict[Process, None] = {}
    unvisited = [process]
    while unvisited:
        # A pid reused during the pass can close a circle: no process is visited twice.
        fresh = [child for child in children(unvisited.pop(), known) if child not in found]
        found |= dict.fromkeys(fresh)
        unvisited += fresh
    return list(found)


def child_pids(pid: int) -> list[int]:
    """The pids of its children, by one read; empty if the kernel does not list them or it has ended."""
    return [int(each) for each in _read_or_empty(f"/proc/{pid}/task/{pid}/children").split()]


def command(pid: int) -> tuple[str, ...]:
    """Its arguments, empty if it has ended. They may contain secrets: redact before showing."""
    raw = _read_or_empty(f"/proc/{pid}/cmdline")
    return tuple(os.fsdecode(part) for part in raw.removesuffix(b"\0").split(b"\0")) if raw else ()


def executable(pid: int) -> str | None:
    """Its executable; None if it has ended or is unreadable."""
    return _target(f"/proc/{pid}/exe")


def comm(pid: int) -> str:
    """Its short name, empty if it has ended."""
    return os.fsdecode(_read_or_empty(f"/proc/{pid}/comm").removesuffix(b"\n"))


def status(pid: int) -> bytes:
    """The content of /proc/PID/status, empty if it has ended or is unreadable."""
    return _read_or_empty(f"/proc/{pid}/status")


def cwd(pid: int) -> str | None:
    """Its working folder; None if it has ended or is unreadable."""
    return _target(f"/proc/{pid}/cwd")


def has_terminal(pid: int) -> bool:
    """Whether it has a terminal: a person's window, a pane. False if it has ended or is unreadable."""
    line = _read_or_empty(f"/proc/{pid}/stat")
    # Field 7 of proc(5); the first field after the name is number 3.
    return bool(line) and line[line.rindex(b")") + 2 :].split()[4] != b"0"


def environ_value(pid: int, name: str) -> str | None:
    """A variable of its initial environment; None without it, or if the process has ended or is unreadable."""
    wanted = os.fsencode(f"{name}=")
    for entry in _read_or_empty(f"/proc/{pid}/environ").split(b"\0"):
        if entry.startswith(wanted):
            return os.fsdecode(entry.removeprefix(wanted))
    return None


def environ(pid: int) -> dict[str, str]:
    """Its initial environment; empty if it has ended or is unreadable."""
    entries = (
        os.fsdecode(each).partition("=") for each in _read_or_empty(f"/proc/{pid}/environ").split(b"\0")
    )
    return {name: value for name, equals, value in entries if equals}


def environ_values(pid: int, names: Collection[str]) -> dict[str, str]:
    """The non-empty ones of these variables in its initial environment."""
    return {name: value for name in names if (value := environ_value(pid, name))}


def open_files(pid: int) -> list[str]:
    """The paths of its open files; empty if it has ended or is unreadable."""
    found = []
    with suppress(*_NO_PROCESS_ERRORS, PermissionError):
        for descriptor in Path(f"/proc/{pid}/fd").iterdir():
            with suppress(OSError):  # closed meanwhile
                found.append(str(descriptor.readlink()))
    return found


def processes_with_variable(name: str, value: str, uid: int) -> list[Process]:
    """The user's processes that were started with NAME=value: a session's tools, including orphans.

    A process in the middle of exec has no environment for a moment (seen once in 1,500 new ones), so one look
    proves presence, never absence.
    """
    wanted = os.fsencode(f"\0{name}={value}\0")
    found = []
    for pid in _pids(uid):
        # Identity first: if the pid is reused now, the answer names an ended process, not an unrelated one.
        process = identify_or_none(pid)
        if process is not None and wanted in b"\0" + _read_or_empty(f"/proc/{pid}/environ"):
            found.append(process)
    return found


def processes_by_variable(names: Collection[str], uid: int) -> dict[tuple[str, str], list[Process]]:
    """As `processes_with_variable`, for all values of these variables, in one pass for many sessions."""
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


# Device and inode of a file, as in os.stat.
FileKey = tuple[int, int]


def flock_holders(keys: Collection[FileKey]) -> dict[FileKey, int]:
    """The process that holds the flock of each of these files, from one read; unlocked files are missing.

    The pid is the one that took the lock; it may have ended while a child still holds the descriptor.
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
    """Device, inode and pid of every held flock in /proc/locks. Waiting ones (`->`) hold nothing."""
    held = []
    for line in text.splitlines():
        fields = line.split()
        if len(fields) > 5 and fields[1] == b"FLOCK":
            major, minor, inode = fields[5].split(b":")
            held.append((os.makedev(int(major, 16), int(minor, 16)), int(inode), int(fields[4])))
    return held


def _has_open(pid: int, key: FileKey) -> bool:
    """Whether the process has this file open. btrfs and overlayfs show another device in stat than in locks."""
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


def _live_stat(process: Process) -> Stat | None:
    """The stat of exactly this process while it lives. Raises OSError if that is unknown."""
    is_here = process.boot_id == boot_id() and is_of_this_machine(process)
    stat = _stat(process.pid) if is_here else None
    return None if stat is None or stat.has_ended or stat.started != process.started else stat


def _stat(pid: int) -> Stat | None:
    """Its stat, or None if no such process exists. Raises OSError if that is unknown."""
    if not 0 < pid <= PID_MAX:
        return None
    try:
        return parse_stat(_read(f"/proc/{pid}/stat"))
    except _NO_PROCESS_ERRORS:
        # /proc mounted with hidepid, or not mounted, gives the same error for live processes.
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
    """The process with this pid; None without one, or if it is hidden."""
    try:
        return identify(pid)
    except ProcessHidden:
        return None


def _pids(uid: int | None = None) -> Iterator[int]:
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


# A start time is rounded down to a tick, and a process is listed a moment after its start.
_SLACK_TICKS = 2


class InnerProcesses:
    """Processes in other pid namespaces, by their inner pid and start time."""

    def __init__(self) -> None:
        self._known: dict[tuple[int, int], Process] = {}
        self._seen_until = 0

    def find(self, pid: int, started: int) -> Process | None:
        """The process with this pid in its namespace; it may have ended meanwhile. All namespaces share one clock."""
        if started + _SLACK_TICKS >= self._seen_until:
            self._seen_until = int(time.clock_gettime(time.CLOCK_BOOTTIME) * _TICKS_PER_SECOND)
            live = (each for row in children_by_parent().values() for each in row)
            self._known = {
                (inner, each.started): each
                for each in live
                if (inner := inner_pid(each.pid)) is not None and inner != each.pid
            }
        return self._known.get((pid, started))


def inner_pid(pid: int) -> int | None:
    """The pid of a process in its own namespace; None if it has ended or is unreadable."""
    for line in status(pid).splitlines():
        if line.startswith(b"NSpid:"):
            return int(line.split()[-1])
    return None
