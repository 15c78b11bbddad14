"""Loads the configuration of a command: which files are read, in which order, and which are ignored.

The `wakeful.toml` of the working directory counts only if a person trusts it; an ignored file is reported.
"""

import os
from collections.abc import Callable, Collection
from contextlib import suppress
from pathlib import Path
from typing import Final

from wakeful.cli.output import print_note
from wakeful.config.load import Document, LoadedConfig, combine, read_file
from wakeful.config.paths import StatePaths, config_path
from wakeful.config.schema import ConfigError
from wakeful.config.state_dir import require_home
from wakeful.config.trust import TrustFile
from wakeful.core.text import plain

CONFIG_FILE_NAME: Final = "wakeful.toml"


def working_directory_config() -> Document | None:
    """The working directory's configuration, if there is one. Never through a symlink. Raises ConfigError."""
    try:
        path = Path.cwd() / CONFIG_FILE_NAME
    except FileNotFoundError:
        # The working directory itself was removed.
        return None
    if not os.path.lexists(path):
        return None
    return Document(str(path), read_file(str(path), follow_symlink=False))


def is_trusted(document: Document, paths: StatePaths) -> bool:
    """Raises TrustDamaged."""
    return TrustFile(paths.trust_file).is_trusted(document.path, document.content)


def trust(document: Document, paths: StatePaths) -> None:
    """Trust this content at this path. Raises TrustDamaged."""
    TrustFile(paths.trust_file).trust(document.path, document.content)


def announce(document: Document) -> None:
    """Have a daemon that watches this file read it again. The file itself stays as it is."""
    with suppress(OSError):
        # The end of writing is what inotify reports.
        os.close(os.open(document.path, os.O_WRONLY | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC))


class NoLongerTrusted(ConfigError, code="no-longer-trusted"):
    """{path} has changed. Read it, then run `wakeful config trust`."""


def load_settings(given: str | None) -> LoadedConfig:
    """The configuration of this user in the working directory. Raises ConfigError.

    A file named by `--config` or $WAKEFUL_CONFIG, is the only one read. Otherwise the user's own file is
    read, and over it the working directory's if a person trusts it.
    """
    return combine(_documents(given, trusted_working_directory_config), os.environ)


def watched_files(given: str | None) -> tuple[str, ...]:
    """The files that a start reads, and those that it would read if they existed or were trusted."""
    path = config_path(os.environ, given)
    files = () if path is None else (path,)
    if given or os.environ.get("WAKEFUL_CONFIG"):
        return files
    here = f"{os.getcwd()}/{CONFIG_FILE_NAME}" if _has_working_directory_config() else None  # noqa: PTH109
    return files if here is None else (*files, here)


def _has_working_directory_config() -> bool:
    # A file that is added later counts after a restart: the folder may be a busy one.
    return os.path.lexists(CONFIG_FILE_NAME)


def reload_settings(given: str | None, read: Collection[str]) -> LoadedConfig:
    """The same for a daemon that has read these files. Raises ConfigError, also if one is not trusted any more."""

    path = config_path(os.environ, given)
    if path is not None and os.path.islink(path) and not Path(path).exists():  # noqa: PTH114 - a string
        raise ConfigError(problems=f"{plain(path)}: a link to nothing")

    def trusted_as_before() -> Document | None:
        document = working_directory_config()
        if document is None or is_trusted(document, StatePaths.from_environ(os.environ)):
            return document
        if document.path in read:
            raise NoLongerTrusted(path=plain(document.path))
        return None

    return combine(_documents(given, trusted_as_before), os.environ)


def own_config_path(given: str | None) -> str:
    """Where this user's configuration is, or would be. Raises HomeMissing, HomeNotThere."""
    path = config_path(os.environ, given)
    if path is None:
        # Without a HOME there is no place to write to; `from_environ` says what to set.
        path = f"{StatePaths.from_environ(os.environ).state_dir}/wakeful.toml"
    if given is None:
        require_home(os.environ)
    return os.path.abspath(path)  # noqa: PTH100 - a link stays a link


def config_arguments(given: str | None) -> tuple[str, ...]:
    """The option of another Wakeful command that reads the same file."""
    return () if given is None else ("--config", given)


def _documents(given: str | None, find_here: Callable[[], Document | None]) -> list[Document]:
    path = config_path(os.environ, given)
    if path is not None and (given or os.environ.get("WAKEFUL_CONFIG")):
        return [Document(path, read_file(path))]
    documents = [] if path is None or not Path(path).exists() else [Document(path, read_file(path))]
    here = find_here()
    return documents if here is None else [*documents, here]


def trusted_working_directory_config() -> Document | None:
    """The working directory's configuration if it is trusted; a remark if it is not."""
    try:
        document = working_directory_config()
    except ConfigError as problem:
        print_note(f"ignored {problem}")
        return None
    if document is None or is_trusted(document, StatePaths.from_environ(os.environ)):
        return document
    print_note(f"ignored {plain(document.path)}: not trusted. Read it, then run `wakeful config trust`")
    return None
