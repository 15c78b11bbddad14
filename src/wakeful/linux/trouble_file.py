"""What one process of ours has to say to the others as long as it lives: one line, in a file, with who wrote it."""

import logging
import os
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct

from wakeful.core.decoding import decode_json
from wakeful.core.process import Process, Sight
from wakeful.linux import proc
from wakeful.linux.owner_only import owner_only
from wakeful.linux.small_files import read_small

FILE_BYTES_MAX: Final = 64 * 1024

log = logging.getLogger("wakeful")


class _Trouble(Struct, frozen=True):
    writer: Process
    words: str


class TroubleFile:
    """One file. What a process wrote that has ended counts no more."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def write(self, words: str) -> None:
        """Say this from now on; nothing if it is empty. A disk that refuses it is no trouble of its own."""
        writer = proc.identify_if_seen(os.getpid())
        try:
            if not words or writer is None:
                self._path.unlink(missing_ok=True)
                return
            new = self._path.with_name(f"{self._path.name}.new")
            with open(new, "wb", opener=owner_only) as file:
                file.write(msgspec.json.encode(_Trouble(writer, words)))
            new.replace(self._path)
        except OSError as problem:
            log.warning("%s cannot be written: %s", self._path.name, problem.strerror)

    def read(self) -> str:
        """What is said now; empty if nothing is, or nobody who lives says it."""
        content = read_small(self._path, FILE_BYTES_MAX)
        try:
            said = decode_json(content or b"", _Trouble)
        except msgspec.DecodeError:
            return ""
        return "" if proc.sight(said.writer) is Sight.DEAD else said.words
