"""What is being typed into which pane, kept on disk until its end was seen. A note lasts as long as the typing does.

A daemon that is killed in between leaves its text in an input line, where it looks like somebody's draft. By the note it
is known again. The text itself is kept, readable by its owner alone: a part of it cannot be told by a digest.
"""

import hashlib
from enum import StrEnum
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct

from wakeful.adapters.tmux.private import discard, write_private
from wakeful.domain.decoding import json_decoder
from wakeful.domain.hosting import PaneAddress
from wakeful.domain.ids import SessionId
from wakeful.domain.process import Process

_PREFIX: Final = "typing-"


class Stage(StrEnum):
    """How far it came, at least."""

    BEGUN = "begun"
    # The terminal has the whole text.
    PASTED = "pasted"
    # The whole text was seen in the input line, and Enter was about to be pressed.
    ENTER = "enter"


class TypedNote(Struct, frozen=True):
    """One text on its way. `prompt` is what stood before the cursor of the empty input line, `reader` who reads it."""

    session_id: SessionId
    pane: PaneAddress
    process: Process
    reader: str
    text: str
    prompt: str
    stage: Stage = Stage.BEGUN


_decode: Final = json_decoder(TypedNote)


class TypedNotes:
    """The notes of one folder: one for each pane at most."""

    def __init__(self, folder: str) -> None:
        self._folder = folder

    def keep(self, note: TypedNote) -> None:
        """Write it, in the place of an older one. Raises TmuxFailed."""
        path = self._path(note.pane)
        new = f"{Path(path).name}.new"
        discard(f"{self._folder}/{new}")
        Path(write_private(self._folder, new, msgspec.json.encode(note))).replace(path)

    def find(self, pane: PaneAddress) -> TypedNote | None:
        return _read(Path(self._path(pane)))

    def drop(self, pane: PaneAddress) -> None:
        discard(self._path(pane))

    def all(self) -> list[TypedNote]:
        """What earlier daemons left; a file that is none of ours is removed."""
        found = []
        for path in sorted(Path(self._folder).glob(f"{_PREFIX}*")):
            note = _read(path)
            if note is None:
                discard(str(path))
            else:
                found.append(note)
        return found

    def _path(self, pane: PaneAddress) -> str:
        name = hashlib.sha256(f"{pane.socket}\n{pane.target}".encode()).hexdigest()[:16]
        return f"{self._folder}/{_PREFIX}{name}"


def _read(path: Path) -> TypedNote | None:
    """None if there is none, or none that was written whole."""
    try:
        return _decode(path.read_bytes())
    except (FileNotFoundError, msgspec.DecodeError):
        return None
