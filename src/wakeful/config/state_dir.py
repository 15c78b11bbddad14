"""Creates the state folder for this user alone, and reads the store in it without a daemon.

`paths.py` says where it is. Reading raises the errors that the store itself would raise, and writes nothing.
"""

import logging
import os
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

from wakeful.config.paths import StatePaths
from wakeful.config.schema import Config, HomeNotThere
from wakeful.core.errors import WorldError

if TYPE_CHECKING:
    from wakeful.alerts.mute_pause_model import PauseRecord
    from wakeful.storage.base import Note


_PRIVATE_MODE: Final = 0o700
_STORE_NAME: Final = "wakeful.db"

log = logging.getLogger("wakeful")


class StateDirUnusable(WorldError, code="home-unusable"):
    """Cannot create the state folder {folder}: {reason}. Set WAKEFUL_HOME to a writable folder."""


def require_home(environ: Mapping[str, str]) -> None:
    """Raises HomeNotThere if the state folder would be below a HOME that does not exist: that is a mistake."""
    home = environ.get("HOME", "")
    chosen = environ.get("WAKEFUL_HOME") or environ.get("XDG_STATE_HOME", "").startswith("/")
    if home and not chosen and not Path(home).is_dir():
        raise HomeNotThere(shown=home)


def make_state_dir(paths: StatePaths) -> None:
    """Make the state folder and those that other programs write to, for this user alone. Raises StateDirUnusable.

    A folder of this user with another mode is put right, and the log says so. Another user's and a link stay.
    """
    # One by one: a folder that `parents` makes gets the default mode.
    for folder in (paths.state_dir, paths.spool, paths.events, paths.run, paths.logs):
        try:
            Path(folder).mkdir(mode=0o700, parents=True, exist_ok=True)
            mode = _close_to_others(folder, is_ours=folder != paths.state_dir)
        except OSError as error:
            raise StateDirUnusable(folder=folder, reason=error.strerror) from error
        if mode is not None:
            log.warning("%s had mode %o; now only you can use it (mode 700)", folder, mode)


def _close_to_others(folder: str, *, is_ours: bool) -> int | None:
    """Give a folder of this user the mode 700; returns its mode before, None if it was right or is not to be changed.

    The state folder itself may have been set to any folder by mistake, such as a home: it must be empty or hold a store.
    """
    try:
        # O_PATH: without permission to read it the folder could not be opened otherwise.
        descriptor = os.open(folder, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        # A link, or no folder: the parts that use it say so.
        return None
    try:
        found = os.fstat(descriptor)
        # Without the sticky and group bits, which a folder may get from the one above it.
        mode = stat.S_IMODE(found.st_mode) & 0o777
        if found.st_uid != os.geteuid() or mode == _PRIVATE_MODE:
            return None
        opened = f"/proc/self/fd/{descriptor}"
        if not is_ours and not _is_state_folder(opened):
            return None
        os.chmod(opened, _PRIVATE_MODE)  # noqa: PTH101 - a descriptor cannot become another folder meanwhile
        return mode
    finally:
        os.close(descriptor)


def _is_state_folder(folder: str) -> bool:
    try:
        names = set(os.listdir(folder))  # noqa: PTH208 - a descriptor
    except PermissionError:
        # Nothing works in it either way.
        return True
    return not names or _STORE_NAME in names


def store_path(config: Config, paths: StatePaths) -> Path:
    """The path of the store that daemon, commands and journals share."""
    return Path(config.store.url.removeprefix("sqlite://") or paths.database)


def read_stored_notes(path: Path, kind: str) -> "list[Note]":
    """The notes of a kind. Raises the store's errors; writes nothing."""
    from wakeful.storage.sqlite.database import read_notes  # noqa: PLC0415 - not needed while a daemon runs

    return read_notes(path, kind)


def read_stored_pause(path: Path) -> "PauseRecord | None":
    """The stored pause. Raises as `read_stored_notes`."""
    from wakeful.alerts.mute_pause import PAUSE_KIND, pause_from_notes  # noqa: PLC0415 - as above
    from wakeful.alerts.mute_pause_model import pause_record  # noqa: PLC0415 - as above

    return pause_record(pause_from_notes(read_stored_notes(path, PAUSE_KIND)))


def read_store_version(path: Path) -> int:
    """The version of the store's tables. Raises the errors of `wakeful up` about the store; writes nothing."""
    from wakeful.storage.sqlite.database import inspect_database  # noqa: PLC0415 - `up --detach` needs none of it

    return inspect_database(path)
