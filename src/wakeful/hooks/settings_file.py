"""A client's settings file: read as it is, replaced whole, and left alone where it is not ours to write.

What is written into it is decided elsewhere. A link is never followed: whoever keeps settings elsewhere, in a
repository for example, writes them there.
"""

import os
import secrets
import stat
from pathlib import Path
from typing import Final

from wakeful.core.errors import WorldError
from wakeful.hooks.model import NotOursToWrite

# Settings are a few KB; what is larger was not written by a client or a person.
SETTINGS_BYTES_MAX: Final = 4 * 1024 * 1024
BACKUP: Final = ".before-wakeful"
_READ: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_NEW: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC


class SettingsChanged(WorldError):
    """{path} was changed by somebody else just now. Nothing was written; try again."""

    code = "settings-changed"
    retryable = True


def backup_of(path: Path) -> Path:
    return path.with_name(path.name + BACKUP)


def read_settings(path: Path) -> bytes | None:
    """The file's bytes; None if there is none. Raises NotOursToWrite."""
    try:
        descriptor = os.open(path, _READ)
    except FileNotFoundError:
        if path.is_symlink():
            raise NotOursToWrite(path=path, reason="it is a symbolic link") from None
        _require_folder(path)
        return None
    except OSError as problem:
        why = "it is a symbolic link" if path.is_symlink() else problem.strerror
        raise NotOursToWrite(path=path, reason=why) from problem
    try:
        _require_ours(path, os.fstat(descriptor))
    except NotOursToWrite:
        os.close(descriptor)
        raise
    with os.fdopen(descriptor, "rb") as file:
        return file.read()


def look_at_settings(path: Path) -> bytes:
    """The file's bytes, links followed: only to be shown. Raises OSError, and NotOursToWrite for what is no settings file."""
    # Opening a FIFO would wait for its writer.
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise NotOursToWrite(path=path, reason="it is no regular file")
        content = file.read(SETTINGS_BYTES_MAX + 1)
    if len(content) > SETTINGS_BYTES_MAX:
        raise NotOursToWrite(path=path, reason="it is larger than any settings")
    return content


def _require_folder(path: Path) -> None:
    if not path.parent.is_dir():
        raise NotOursToWrite(path=path, reason=f"there is no folder {path.parent}; start the client once")
    if not os.access(path.parent, os.W_OK):
        raise NotOursToWrite(path=path, reason=f"{path.parent} cannot be written to")


def _require_ours(path: Path, found: os.stat_result) -> None:
    _require_folder(path)
    reason = (
        "it is no regular file"
        if not stat.S_ISREG(found.st_mode)
        else "it is another user's"
        if found.st_uid != os.geteuid()
        else "it has a second name (a hard link)"
        if found.st_nlink > 1
        else "it is read-only"
        if not found.st_mode & stat.S_IWUSR
        else "it is larger than any settings"
        if found.st_size > SETTINGS_BYTES_MAX
        else None
    )
    if reason is not None:
        raise NotOursToWrite(path=path, reason=reason)


def replace_settings(path: Path, before: bytes | None, after: bytes) -> None:
    """Write aside, sync, rename; the mode stays. Raises SettingsChanged if it is not what it was."""
    if read_settings(path) != before:
        raise SettingsChanged(path=path)
    mode = stat.S_IMODE(path.stat().st_mode) if before is not None else 0o600
    aside = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    try:
        with os.fdopen(os.open(aside, _NEW, 0o600), "wb") as file:
            os.fchmod(file.fileno(), mode)
            file.write(after)
            file.flush()
            os.fsync(file.fileno())
        aside.rename(path)
    except OSError:
        aside.unlink(missing_ok=True)
        raise


def remove_settings(path: Path, before: bytes) -> None:
    """Remove the file. Raises SettingsChanged if it is not what it was."""
    if read_settings(path) != before:
        raise SettingsChanged(path=path)
    path.unlink()


def keep_backup(path: Path, content: bytes) -> None:
    """Keep these bytes beside the file, for its owner alone; an older backup is replaced, a link there is not followed."""
    aside = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    with os.fdopen(os.open(aside, _NEW, 0o600), "wb") as file:
        file.write(content)
    aside.rename(backup_of(path))


def read_backup(path: Path) -> bytes | None:
    """What stood there before our hooks did; None if that is not known."""
    try:
        with os.fdopen(os.open(backup_of(path), _READ), "rb") as file:
            return file.read(SETTINGS_BYTES_MAX) if stat.S_ISREG(os.fstat(file.fileno()).st_mode) else None
    except OSError:
        return None
