"""Reads and atomically replaces `.copilot/session_state.json`.

A reader gets the old state or the new one, even after a power cut: the new file is synced before it is renamed,
and the folder is synced before the call returns. The writer must hold the journal's lock. Links, files of other
users and files that are too large are refused.
"""

import errno
import os
import stat
from pathlib import Path
from typing import Final

from wakeful.core.fault_points import fault_point
from wakeful.incidents.line_log import sync_folder, translate_errors
from wakeful.journal.model import SessionState, StateForeign, StateMissing, read_state, state_bytes

# Ten thousand steps have about a megabyte.
STATE_BYTES_MAX: Final = 64 * 1024 * 1024
_SAFE_FLAGS: Final = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


def load_state(path: Path) -> SessionState:
    """Raises StateMissing, StateForeign or StateTorn."""
    return read_state(_read_file(path), str(path))


def replace_state(path: Path, state: SessionState) -> None:
    """Replace the state. Raises LogFull or LogUnusable; then the old state stays."""
    replace_file(path, state_bytes(state))


def replace_file(path: Path, content: bytes) -> None:
    """Replace a file by its whole new content, durably. Raises LogFull or LogUnusable; then nothing changed."""
    draft = path.with_name(f".{path.name}.new")
    with translate_errors(path):
        try:
            _write(draft, content)
            fault_point("journal.rename")
            draft.rename(path)
        except OSError:
            draft.unlink(missing_ok=True)
            raise
        fault_point("journal.renamed")
        sync_folder(path.parent)


def _write(draft: Path, content: bytes) -> None:
    file = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | _SAFE_FLAGS, 0o600)
    try:
        left = content
        while left:
            fault_point("journal.write")
            left = left[os.write(file, left) :]
        os.fsync(file)
    finally:
        os.close(file)


def _read_file(path: Path) -> bytes:
    try:
        file = os.open(path, os.O_RDONLY | _SAFE_FLAGS)
    except (FileNotFoundError, NotADirectoryError) as problem:
        raise StateMissing(path=path) from problem
    except OSError as problem:
        link = problem.errno == errno.ELOOP
        reason = "it is a symbolic link, which could lead anywhere" if link else problem.strerror
        raise StateForeign(path=path, reason=reason) from problem
    try:
        _check(os.fstat(file), path)
        with open(file, "rb", closefd=False) as stream:
            return stream.read(STATE_BYTES_MAX)
    finally:
        os.close(file)


def _check(found: os.stat_result, path: Path) -> None:
    if not stat.S_ISREG(found.st_mode):
        raise StateForeign(path=path, reason="it is not a regular file")
    if found.st_uid != os.geteuid():
        raise StateForeign(path=path, reason="it belongs to another user")
    if found.st_size >= STATE_BYTES_MAX:
        raise StateForeign(path=path, reason=f"it has {found.st_size:,} bytes")
