"""Writes and reads CHECKPOINT_<n>.md: whole files, never through a symlink, never over a foreign file.

Files of a journal are in its root, files of an agent in Wakeful's own folder. The store remains the
authority: if a file cannot be written, `wakeful checkpoint show` still shows the checkpoint.
"""

import asyncio
import errno
import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from wakeful.checkpoints.model import (
    BadCheckpoint,
    Checkpoint,
    CheckpointKind,
    file_name,
    from_markdown,
    to_markdown,
)
from wakeful.core.errors import WorldError
from wakeful.core.fault_points import fault_point

# Wakeful's own files have a few thousand bytes; larger ones are not read.
FILE_BYTES_MAX: Final = 256 * 1024
_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_NEW: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_READ: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class CheckpointNotWritten(WorldError):
    """{path} was not written: {reason}. See `wakeful checkpoint show {number}` instead."""

    code = "checkpoint-not-written"
    retryable = True


class CheckpointFiles:
    """`own` is the folder for agents' checkpoints, created when first needed. Disk access runs in threads."""

    def __init__(self, own: Path) -> None:
        self._own_folder = own

    def path_of(self, checkpoint: Checkpoint) -> Path:
        folder = Path(checkpoint.subject) if checkpoint.kind is CheckpointKind.JOURNAL else self._own_folder
        return folder / file_name(checkpoint.number)

    async def is_free(self, checkpoint: Checkpoint) -> bool:
        """Whether its path is empty or has an earlier version of the same checkpoint."""
        return await asyncio.to_thread(self._is_free, checkpoint)

    async def write(self, checkpoint: Checkpoint) -> None:
        """Write the whole file durably. Raises CheckpointNotWritten."""
        await asyncio.to_thread(self._write, checkpoint)

    def _is_free(self, checkpoint: Checkpoint) -> bool:
        path = self.path_of(checkpoint)
        try:
            path.lstat()
        except FileNotFoundError:
            return True
        except OSError:
            # Its folder cannot be read, so no file can be replaced there either.
            return True
        found = read_checkpoint(path)
        return found is not None and _identity(found) == _identity(checkpoint)

    def _write(self, checkpoint: Checkpoint) -> None:
        path = self.path_of(checkpoint)
        try:
            if checkpoint.kind is not CheckpointKind.JOURNAL:
                self._own_folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            if not self._is_free(checkpoint):
                raise FileExistsError(errno.EEXIST, "a different file is in its place")
            with _open_folder(path.parent) as folder:
                _replace(folder, path.name, to_markdown(checkpoint).encode("utf-8", "replace"))
        except OSError as error:
            raise CheckpointNotWritten(path=path, reason=error.strerror, number=checkpoint.number) from error


def read_checkpoint(path: Path) -> Checkpoint | None:
    """The checkpoint in a file; None if it is missing, a link, too long or no checkpoint."""
    try:
        with os.fdopen(os.open(path, _READ), "rb") as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                return None
            text = file.read(FILE_BYTES_MAX + 1)
        return from_markdown(text.decode()) if len(text) <= FILE_BYTES_MAX else None
    except (OSError, UnicodeDecodeError, BadCheckpoint):
        return None


def _identity(checkpoint: Checkpoint) -> tuple[int, str, str | None]:
    return checkpoint.number, f"{checkpoint.opened_at:.3f}", checkpoint.trace_id


@contextmanager
def _open_folder(folder: Path) -> Iterator[int]:
    descriptor = os.open(folder, _FOLDER)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _replace(folder: int, name: str, content: bytes) -> None:
    """Write a draft, sync and rename it: readers find the old text or the new one. A link at the name is replaced."""
    draft = f".{name}.{secrets.token_hex(8)}"
    try:
        with os.fdopen(os.open(draft, _NEW, 0o600, dir_fd=folder), "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        fault_point("checkpoint.written")
        os.rename(draft, name, src_dir_fd=folder, dst_dir_fd=folder)
    except OSError:
        with suppress(FileNotFoundError):
            os.unlink(draft, dir_fd=folder)
        raise
    os.fsync(folder)
