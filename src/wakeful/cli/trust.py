"""`wakeful.toml` of a working directory, and whether a person trusts it."""

import os
from pathlib import Path
from typing import Final

from wakeful.config.load import Document, read_file
from wakeful.config.paths import Places
from wakeful.config.trust import TrustBook

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
