"""Reads and creates the token of the TCP listener: 256 bits in a file that only its owner can read.

This is the only IO of access control. The file is created whole or not at all, and is rejected if another
user could have read or written it.
"""

import errno
import os
import re
import secrets
import stat
from pathlib import Path
from typing import Final

from wakeful.core.errors import OperatorError

TOKEN_BYTES: Final = 32
# 32 bytes in URL-safe base64 without padding.
_TOKEN: Final = re.compile(r"[A-Za-z0-9_-]{43}\n?\Z")


class TokenFileUnsafe(OperatorError, code="token-file-unsafe"):
    """{path} is readable by other users or is not yours, so its token is not secret. Run: chmod 600 {path}"""


class TokenFileLink(OperatorError, code="token-file-link"):
    """{path} is a symbolic link. Wakeful does not read a token through a link. Remove it; the next start creates a new file."""


class TokenFileBroken(OperatorError, code="token-file-broken"):
    """{path} does not contain a Wakeful token. Delete it; the next start creates a new one."""


def load_or_create_token(path: Path) -> str:
    """The token in this file, created if there is none. Raises TokenFileUnsafe, TokenFileLink or TokenFileBroken."""
    try:
        return read_token(path)
    except FileNotFoundError:
        _create(path)
    return read_token(path)


def read_token(path: Path) -> str:
    """The token in this file. Raises FileNotFoundError, TokenFileUnsafe, TokenFileLink or TokenFileBroken."""
    try:
        # NONBLOCK: opening a FIFO of this name would wait for its writer.
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        raise
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise TokenFileLink(path=path) from error
        # Another user's file.
        raise TokenFileUnsafe(path=path) from error
    try:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            raise TokenFileBroken(path=path)
        if found.st_uid != os.geteuid() or stat.S_IMODE(found.st_mode) & 0o077:
            raise TokenFileUnsafe(path=path)
        text = os.read(descriptor, 100).decode("ascii", "replace")
    finally:
        os.close(descriptor)
    if _TOKEN.match(text) is None:
        raise TokenFileBroken(path=path)
    return text.rstrip("\n")


def _create(path: Path) -> None:
    """Write aside, then link: a crash leaves no half token, and of two starts one wins."""
    aside = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    with os.fdopen(os.open(aside, flags, 0o600), "wb") as file:
        file.write(secrets.token_urlsafe(TOKEN_BYTES).encode() + b"\n")
        file.flush()
        os.fsync(file.fileno())
    try:
        os.link(aside, path)
    except FileExistsError:
        return
    finally:
        aside.unlink()
