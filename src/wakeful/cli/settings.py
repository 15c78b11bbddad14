"""Loads the configuration of a command: which files are read, in which order, and which are ignored.

The `wakeful.toml` of the working directory counts only if a person trusts it; an ignored file is reported.
"""

import os
from pathlib import Path
from typing import Final

from wakeful.cli.output import note
from wakeful.config.load import Document, Loaded, combine, read_file
from wakeful.config.paths import Places, config_path
from wakeful.config.schema import ConfigError
from wakeful.config.trust import TrustBook
from wakeful.core.text import plain

NAME: Final = "wakeful.toml"


def found_here() -> Document | None:
    """The working directory's configuration, if there is one. Never through a symlink. Raises ConfigError."""
    try:
        path = Path.cwd() / NAME
    except FileNotFoundError:
        # The working directory itself was removed.
        return None
    if not os.path.lexists(path):
        return None
    return Document(str(path), read_file(str(path), follow_symlink=False))


def is_trusted(document: Document, places: Places) -> bool:
    """Raises TrustDamaged."""
    return TrustBook(places.trusted).is_trusted(document.path, document.content)


def trust(document: Document, places: Places) -> None:
    """Remember this very content at this very path. Raises TrustDamaged."""
    TrustBook(places.trusted).trust(document.path, document.content)


def load_settings(given: str | None) -> Loaded:
    """The configuration of this user, here and now. Raises ConfigError.

    A file that was named, by `--config` or $WAKEFUL_CONFIG, is the only one. Otherwise the user's own file is
    read, and over it the working directory's if a person trusts it.
    """
    return combine(_documents(given), os.environ)


def file_words(given: str | None) -> tuple[str, ...]:
    """What has another command of ours read the same file."""
    return () if given is None else ("--config", given)


def _documents(given: str | None) -> list[Document]:
    path = config_path(os.environ, given)
    if path is not None and (given or os.environ.get("WAKEFUL_CONFIG")):
        return [Document(path, read_file(path))]
    documents = [] if path is None or not Path(path).exists() else [Document(path, read_file(path))]
    here = trusted_here()
    return documents if here is None else [*documents, here]


def trusted_here() -> Document | None:
    """The working directory's configuration, if it is trusted; one loud line if it is not."""
    try:
        document = found_here()
    except ConfigError as problem:
        note(f"ignored {problem}")
        return None
    if document is None or is_trusted(document, Places.of(os.environ)):
        return document
    note(f"ignored {plain(document.path)}: not trusted. Read it, then run `wakeful config trust`")
    return None
