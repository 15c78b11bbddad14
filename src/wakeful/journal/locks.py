"""Locks of a journal, by its program and by recovery, and the registry of journals that the daemon recovers.

A program's claim is a kernel lock on `.copilot`, which ends with the process. A recovery's lock is a file
that names its holder by pid, start time and boot id. It appears in one step with its content and its kernel
lock; one without a kernel lock belongs to a dead process or to another program. The registry has one small
file per root.
"""

import fcntl
import hashlib
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final, NamedTuple

import msgspec
from msgspec import Struct

from wakeful.core.decoding import json_decoder
from wakeful.core.errors import WorldError
from wakeful.core.process import Process, ProcessState
from wakeful.core.text import plain
from wakeful.incidents.line_log import open_for_reading, translate_errors
from wakeful.journal.state_file import replace_file
from wakeful.linux import proc

# For a holder that cannot be found: a lock outlives its process if a child has inherited it.
UNKNOWN_PROCESS: Final = Process(0, 0, "")
_RETRY_SECONDS: Final = 0.02
_LOCK_BYTES_MAX: Final = 4096
_PATH_BYTES_MAX: Final = 4096


class RecoveryRuns(WorldError):
    """Another recovery is using {path}: {owner}. Use `--wait 60` to wait for it."""

    code = "recovery-runs"
    retryable = True


class LockHolder(Struct, frozen=True):
    """Content of `.tmp/agent_recovery.lock`."""

    pid: int
    started: int
    boot_id: str
    since: str
    command: str
    machine: str = ""

    @property
    def process(self) -> Process:
        return Process(self.pid, self.started, self.boot_id, self.machine)


class _FoundLock(NamedTuple):
    """An existing lock: its owner as text, and whether the owner has ended."""

    owner: str
    has_ended: bool


_decode: Final = json_decoder(LockHolder)


@contextmanager
def recovery_lock(path: Path, *, since: str, command: str, wait_seconds: float) -> Iterator[str | None]:
    """Hold the recovery lock of a journal; yields its earlier owner, if that died. Raises RecoveryRuns."""
    draft = path.with_name(f"{path.name}.{os.getpid()}-{time.monotonic_ns()}")
    with translate_errors(path):
        file = _create_draft(draft, since, command)
    try:
        with translate_errors(path):
            taken_over = _acquire(path, draft, time.monotonic() + wait_seconds)
            draft.unlink()
            _sweep_drafts(path)
        yield taken_over
    finally:
        with suppress(FileNotFoundError):
            draft.unlink()
        if _is_same_file(path, file):
            path.unlink()
        os.close(file)


class JournalLock:
    """A program's lock on its journal, until the program ends or closes it."""

    def __init__(self, folder: Path) -> None:
        self._file = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)

    def acquire(self, wait_seconds: float = 0.0) -> bool:
        """Whether the lock was acquired within this time."""
        deadline = time.monotonic() + wait_seconds
        while True:
            try:
                fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if time.monotonic() >= deadline:
                    return False
                time.sleep(_RETRY_SECONDS)
            else:
                return True

    def holder(self) -> Process:
        """The process that holds it; UNKNOWN_PROCESS if that cannot be found."""
        found = os.fstat(self._file)
        pid = proc.flock_holders([(found.st_dev, found.st_ino)]).get((found.st_dev, found.st_ino))
        return (proc.identify_or_none(pid) if pid is not None else None) or UNKNOWN_PROCESS

    def close(self) -> None:
        os.close(self._file)


def _create_draft(draft: Path, since: str, command: str) -> int:
    """A lock file on disk under a name of its own, locked by this process."""
    process = proc.identify(os.getpid())
    assert process is not None, "this process exists"
    holder = LockHolder(process.pid, process.started, process.boot_id, since, command, process.machine)
    file = os.open(draft, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(file, fcntl.LOCK_EX)
        os.write(file, msgspec.json.encode(holder) + b"\n")
        os.fsync(file)
    except OSError:
        draft.unlink()
        os.close(file)
        raise
    return file


def _acquire(path: Path, draft: Path, deadline: float) -> str | None:
    taken_over = None
    while True:
        try:
            os.link(draft, path)
        except FileExistsError:
            found = _inspect_lock(path)
            if found is not None and found.has_ended:
                taken_over = found.owner
            elif found is not None and time.monotonic() >= deadline:
                raise RecoveryRuns(path=path, owner=found.owner) from None
            elif found is not None:
                time.sleep(_RETRY_SECONDS)
        else:
            return taken_over


def _inspect_lock(path: Path) -> _FoundLock | None:
    """The lock at this path, removed if its owner has ended; None if it was removed meanwhile."""
    try:
        file = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    try:
        content = os.read(file, _LOCK_BYTES_MAX)
        found = _parse_lock(content)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return _FoundLock(found.owner, has_ended=False)
        if not _is_same_file(path, file):
            return None
        if found.has_ended:
            path.unlink()
        return found
    finally:
        os.close(file)


def _parse_lock(content: bytes) -> _FoundLock:
    """The owner of a lock. A lock without an owner's name was made by another program and may be held."""
    try:
        holder = _decode(content)
    except msgspec.DecodeError:
        number = next(iter(content.split()), b"")
        pid = int(number) if number.isdigit() and len(number) < 10 else 0
        if not pid:
            return _FoundLock("a process it does not name; remove it if no recovery runs", has_ended=False)
        try:
            has_ended = proc.identify(pid) is None
        except proc.ProcessHidden:
            has_ended = False
        return _FoundLock(f"pid {pid}", has_ended)
    owner = f"pid {holder.pid} ({plain(holder.command, 80)}) since {plain(holder.since, 40)}"
    return _FoundLock(owner, has_ended=proc.state_of(holder.process) is ProcessState.DEAD)


def _is_same_file(path: Path, file: int) -> bool:
    try:
        return os.path.samestat(os.fstat(file), path.lstat())
    except FileNotFoundError:
        return False


def _sweep_drafts(path: Path) -> None:
    """Remove drafts of recoveries that were killed before they had the lock."""
    for draft in path.parent.glob(f"{path.name}.*"):
        with suppress(OSError), draft.open("rb") as stream:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
            draft.unlink()


def register_root(folder: Path, root: Path) -> None:
    """Add a root to the registry, if it is not there. Raises LogFull or LogUnusable."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    name = os.fsencode(root)
    replace_file(folder / hashlib.sha256(name).hexdigest()[:32], name)


def registered_roots(folder: Path) -> list[Path]:
    """Every registered root that still exists, in a stable order."""
    try:
        files = sorted(folder.iterdir())
    except FileNotFoundError:
        return []
    roots = [_root_of(path) for path in files if not path.name.startswith(".")]
    # Not Path.is_dir: it raises for a name that is too long.
    return [root for root in roots if root is not None and os.path.isdir(root)]  # noqa: PTH112


def _root_of(path: Path) -> Path | None:
    try:
        file = open_for_reading(path)
    except OSError:
        return None
    if file is None:
        return None
    try:
        root = os.fsdecode(os.read(file, _PATH_BYTES_MAX))
    finally:
        os.close(file)
    return Path(root) if root.startswith("/") and "\0" not in root else None
