"""One process at a time: a lock that the kernel holds and gives back when its holder ends, however it ends."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from wakeful.domain.errors import WorldError


class HeldByAnother(WorldError):
    """{what} runs already: pid {pid}. End it first."""

    code = "held-by-another"
    exit_code = 1


@contextmanager
def sole(path: Path, what: str) -> Iterator[None]:
    """Be the only one inside. Raises HeldByAnother."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.pread(descriptor, 20, 0).decode(errors="replace").strip()
            raise HeldByAnother(what=what, pid=holder or "unknown") from None
        os.truncate(descriptor, 0)
        os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
        yield
    finally:
        os.close(descriptor)
