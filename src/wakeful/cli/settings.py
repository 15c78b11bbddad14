"""Which configuration files a command reads, and in which order; what it says about those it leaves alone."""

import os
from pathlib import Path

from wakeful.cli import trust
from wakeful.cli.output import note
from wakeful.config.config import ConfigError
from wakeful.config.load import Document, Loaded, combine, read_file
from wakeful.config.paths import Places, config_path
from wakeful.core.text import plain


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
        document = trust.found_here()
    except ConfigError as problem:
        note(f"ignored {problem}")
        return None
    if document is None or trust.is_trusted(document, Places.of(os.environ)):
        return document
    note(f"ignored {plain(document.path)}: not trusted. Read it, then run `wakeful config trust`")
    return None
