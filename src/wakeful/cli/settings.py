"""Loads the configuration of a command: which files are read, in which order, and which are ignored.

The `wakeful.toml` of the working directory counts only if a person trusts it; an ignored file is reported.
"""

import os
from pathlib import Path
from typing import Final

from wakeful.cli.output import print_note
from wakeful.config.load import Document, LoadedConfig, combine, read_file
from wakeful.config.paths import StatePaths, config_path
from wakeful.config.schema import ConfigError
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


def load_settings(given: str | None) -> LoadedConfig:
    """The configuration of this user in the working directory. Raises ConfigError.

    A file named by `--config` or $WAKEFUL_CONFIG, is the only one read. Otherwise the user's own file is
    read, and over it the working directory's if a person trusts it.
    """
    return combine(_documents(given), os.environ)


def config_arguments(given: str | None) -> tuple[str, ...]:
    """The option of another Wakeful command that reads the same file."""
    return () if given is None else ("--config", given)


def _documents(given: str | None) -> list[Document]:
    path = config_path(os.environ, given)
    if path is not None and (given or os.environ.get("WAKEFUL_CONFIG")):
        return [Document(path, read_file(path))]
    documents = [] if path is None or not Path(path).exists() else [Document(path, read_file(path))]
    here = trusted_working_directory_config()
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
