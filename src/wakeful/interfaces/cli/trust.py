"""Which configurations of working directories a person trusts: by path and hash, in one file of the state folder.

A repository that is cloned brings its `wakeful.toml` along; until somebody says so it sets nothing. A file that
changed is a stranger again.
"""

import os
from pathlib import Path
from typing import Final

import msgspec

from wakeful.config_reading import Document, read_file
from wakeful.domain.decoding import decode_json
from wakeful.domain.errors import OperatorError
from wakeful.places import Places

NAME: Final = "wakeful.toml"


class TrustDamaged(OperatorError):
    """{path} is damaged, so nothing is trusted. Remove it, then run `wakeful config trust` where you need it."""

    code = "trust-damaged"


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
    return _trusted(places).get(_name(document)) == _digest(document)


def trust(document: Document, places: Places) -> None:
    """Remember this very content at this very path; the file is replaced whole, and only its owner reads it."""
    entries = {**_trusted(places), _name(document): _digest(document)}
    Path(places.home).mkdir(mode=0o700, parents=True, exist_ok=True)
    fresh = f"{places.trusted}.{os.getpid()}"
    descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(msgspec.json.encode(entries))
    Path(fresh).replace(places.trusted)


def _trusted(places: Places) -> dict[str, str]:
    try:
        return decode_json(Path(places.trusted).read_bytes(), dict[str, str])
    except FileNotFoundError:
        return {}
    except msgspec.DecodeError as problem:
        raise TrustDamaged(path=places.trusted) from problem


def _name(document: Document) -> str:
    """The path as JSON can hold it: bytes that are not UTF-8 become escapes."""
    return document.path.encode("utf-8", "backslashreplace").decode()


def _digest(document: Document) -> str:
    from hashlib import sha256  # noqa: PLC0415 - loads OpenSSL, and most folders have nothing to be trusted

    return sha256(document.content).hexdigest()
