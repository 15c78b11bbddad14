"""Records which `wakeful.toml` and `HEARTBEAT.md` files a person trusts, by path and hash.

Both lie in working directories: a cloned repository brings them along, and an agent can write them. Neither
counts until a person trusts it, and a changed file does not count any more. Callers hash the bytes that they
use. The record is one file in the state folder.
"""

import os
from pathlib import Path

import msgspec

from wakeful.core.decoding import decode_json
from wakeful.core.errors import OperatorError


class TrustDamaged(OperatorError, code="trust-damaged"):
    """{path} is damaged, so nothing is trusted. Remove it, then run `wakeful config trust` where you need it."""


class TrustFile:
    """Implements heartbeat.policy.TrustedFiles."""

    def __init__(self, path: str) -> None:
        self._path = path

    def stamp(self) -> tuple[int, int] | None:
        """Differs after each change, because the file is replaced as a whole."""
        try:
            stat = Path(self._path).stat()
        except OSError:
            return None
        return stat.st_ino, stat.st_mtime_ns

    def is_trusted(self, path: str, content: bytes) -> bool:
        """Whether exactly this content is trusted at exactly this path. Raises TrustDamaged."""
        return self._entries().get(_name(path)) == _digest(content)

    def trust(self, path: str, content: bytes) -> None:
        """Record path and hash. The file is replaced whole and readable only by its owner. Raises TrustDamaged."""
        entries = {**self._entries(), _name(path): _digest(content)}
        Path(self._path).parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        fresh = f"{self._path}.{os.getpid()}"
        descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(msgspec.json.encode(entries))
        Path(fresh).replace(self._path)

    def _entries(self) -> dict[str, str]:
        try:
            return decode_json(Path(self._path).read_bytes(), dict[str, str])
        except FileNotFoundError:
            return {}
        except (OSError, msgspec.DecodeError) as problem:
            raise TrustDamaged(path=self._path) from problem


def _name(path: str) -> str:
    """The path as JSON can hold it: bytes that are not UTF-8 become escapes."""
    return path.encode("utf-8", "backslashreplace").decode()


def _digest(content: bytes) -> str:
    from hashlib import sha256  # noqa: PLC0415 - loads OpenSSL, and most folders have no file to trust

    return sha256(content).hexdigest()
