"""Creates the state folder for this user alone, and reads the store in it without a daemon.

`paths.py` says where it is. Reading raises the errors that the store itself would raise, and writes nothing.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from wakeful.config.paths import StatePaths
from wakeful.config.schema import Config, HomeNotThere
from wakeful.core.errors import WorldError

if TYPE_CHECKING:
    from wakeful.alerts.mute_pause_model import PauseRecord
    from wakeful.storage.base import Note


class StateDirUnusable(WorldError, code="home-unusable"):
    """Cannot create the state folder {folder}: {reason}. Set WAKEFUL_HOME to a writable folder."""


def require_home(environ: Mapping[str, str]) -> None:
    """Raises HomeNotThere if the state folder would be below a HOME that does not exist: that is a mistake."""
    home = environ.get("HOME", "")
    chosen = environ.get("WAKEFUL_HOME") or environ.get("XDG_STATE_HOME", "").startswith("/")
    if home and not chosen and not Path(home).is_dir():
        raise HomeNotThere(shown=home)


def make_state_dir(paths: StatePaths) -> None:
    """Make the state folder and those that other programs write to, for this user alone. Raises StateDirUnusable."""
    # One by one: a folder that `parents` makes gets the default mode.
    for folder in (paths.state_dir, paths.spool, paths.events, paths.run, paths.logs):
        try:
            Path(folder).mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise StateDirUnusable(folder=folder, reason=error.strerror) from error


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
