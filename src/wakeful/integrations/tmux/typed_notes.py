"""Records each text on disk while it is typed into a pane, until its result is stored.

A daemon that is killed in between leaves its text in an input line, where it looks like a person's draft; the
note identifies it. The note holds the text itself, readable by its owner alone, because a digest cannot
recognize a part of it.
"""

import hashlib
from enum import StrEnum
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from wakeful.core.decoding import json_decoder
from wakeful.core.ids import SessionId
from wakeful.core.managed_session import PaneAddress
from wakeful.core.process import Process
from wakeful.integrations.tmux.server import TmuxFailed, discard, write_private
from wakeful.linux import proc
from wakeful.linux.files import read_small

_PREFIX: Final = "typing-"
_UNFINISHED: Final = ".new"
# A prompt may have a MiB, and JSON writes a character in up to six bytes.
NOTE_BYTES_MAX: Final = 8 * 1024 * 1024
# Wakeful types into fewer panes at once. Any program of this user can write more files.
NOTES_MAX: Final = 64
NOTES_BYTES_MAX: Final = 4 * NOTE_BYTES_MAX


class TypingStage(StrEnum):
    """The stage that the typing has reached, at least."""

    BEGUN = "begun"
    # The terminal has the whole text.
    PASTED = "pasted"
    # The whole text was in the input line, and Enter was about to be pressed.
    ENTER = "enter"
    # The outcome is known: the program took it, or it was removed again.
    TAKEN = "taken"
    REMOVED = "removed"


class TypedNote(Struct, frozen=True):
    """A text that is being typed since `at`. `prompt`: the text before the cursor of the empty input line."""

    session_id: SessionId
    pane: PaneAddress
    process: Process
    reader: str
    text: str
    prompt: str
    stage: TypingStage = TypingStage.BEGUN
    at: float = 0.0

    @property
    def is_final(self) -> bool:
        return self.stage in (TypingStage.TAKEN, TypingStage.REMOVED)


_decode: Final = json_decoder(TypedNote)


class TypedNotes:
    """The notes in one folder, at most one for each pane."""

    def __init__(self, folder: str) -> None:
        self._folder = folder

    def save(self, note: TypedNote) -> None:
        """Write the note; it replaces the pane's older one. Raises TmuxFailed."""
        path = self._path(note.pane)
        new = f"{Path(path).name}{_UNFINISHED}"
        discard(f"{self._folder}/{new}")
        written = write_private(self._folder, new, msgspec.json.encode(note))
        try:
            Path(written).replace(path)
        except OSError as problem:
            raise TmuxFailed(reason=f"{path} cannot be written: {problem.strerror}") from problem

    def find(self, pane: PaneAddress) -> TypedNote | None:
        return _read(Path(self._path(pane)))

    def drop(self, pane: PaneAddress) -> None:
        discard(self._path(pane))

    def all(self) -> list[TypedNote]:
        """The newest NOTES_MAX notes of earlier daemons. Removes all other files with these names.

        Unfinished notes are removed, too, because typing began with the older note of the same text.
        """
        found: list[TypedNote] = []
        read_bytes = 0
        for size, path in _newest_first(self._folder):
            is_too_much = len(found) == NOTES_MAX or read_bytes + size > NOTES_BYTES_MAX
            note = None if is_too_much or path.suffix == _UNFINISHED else _read(path)
            if note is None:
                discard(str(path))
            else:
                read_bytes += size
                found.append(note)
        return found

    def _path(self, pane: PaneAddress) -> str:
        name = hashlib.sha256(f"{pane.socket}\n{pane.target}".encode()).hexdigest()[:16]
        return f"{self._folder}/{_PREFIX}{name}"


def _newest_first(folder: str) -> list[tuple[int, Path]]:
    """All files with a note's name, with their sizes."""
    found = []
    for path in Path(folder).glob(f"{_PREFIX}*"):
        try:
            stat = path.lstat()
        except FileNotFoundError:
            continue
        found.append((stat.st_mtime_ns, stat.st_size, path))
    return [(size, path) for _, size, path in sorted(found, reverse=True)]


def _read(path: Path) -> TypedNote | None:
    """None if there is no note, or no complete one."""
    content = read_small(path, NOTE_BYTES_MAX)
    try:
        note = _decode(content) if content else None
    except msgspec.DecodeError:
        return None
    return None if note is None else replace(note, process=proc.with_machine(note.process))
