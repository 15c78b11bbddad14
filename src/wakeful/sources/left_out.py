"""Which logs an eye does not read, and why, in words for `status` and `doctor`. Nothing here looks at a file."""

from collections.abc import Iterator, Mapping
from typing import Final

from wakeful.core.text import plain
from wakeful.sources.tail import Refusal

# Enough to recognise what went wrong; the rest is counted.
NAMED_MAX: Final = 3
_NAME_CHARS_MAX: Final = 200

# For one and for several, in the order in which they are told.
_WORDS: Final[Mapping[Refusal, tuple[str, str]]] = {
    Refusal.CLOSED: ("folder cannot be listed (permission)", "folders cannot be listed (permission)"),
    Refusal.TOO_LONG: ("path is too long to be read", "paths are too long to be read"),
    Refusal.UNREADABLE: ("log cannot be read (permission)", "logs cannot be read (permission)"),
    Refusal.SYMLINK: ("log is a symbolic link", "logs are symbolic links"),
    Refusal.NOT_A_FILE: ("log is no regular file", "logs are no regular files"),
    Refusal.NOT_A_FOLDER: ("log lies behind a symbolic link", "logs lie behind symbolic links"),
    Refusal.FAILED: ("log cannot be read (input/output error)", "logs cannot be read (input/output error)"),
}


class LeftOut:
    """What the last scan saw and could not be a log, and what could not be read since."""

    def __init__(self) -> None:
        self._scanned: dict[str, Refusal] = {}
        self._refused: dict[str, Refusal] = {}

    def __contains__(self, path: str) -> bool:
        return path in self._refused

    def see(self, odd: Mapping[str, Refusal]) -> None:
        """A part of the tree was scanned."""
        self._scanned |= odd

    def see_all(self, odd: Mapping[str, Refusal]) -> list[str]:
        """All of it was scanned; the folders that were closed before and are not any more."""
        before, self._scanned = self._scanned, dict(odd)
        return [each for each, why in before.items() if why is Refusal.CLOSED and each not in odd]

    def read(self, path: str, refused: Refusal | None) -> None:
        """A log was read, or refused to be."""
        if refused is not None and refused in _WORDS:
            self._refused[path] = refused
        else:
            self._refused.pop(path, None)

    def forget(self, gone: str) -> None:
        """A file is gone, or a folder with all in it."""
        for each in (self._scanned, self._refused):
            for path in [path for path in each if path == gone or path.startswith(f"{gone}/")]:
                del each[path]

    def words(self) -> str | None:
        """How many, why, and which; None if nothing is left out."""
        return "; ".join(_told(self._refused | self._scanned)) or None


def _told(left_out: Mapping[str, Refusal]) -> Iterator[str]:
    for why, (one, several) in _WORDS.items():
        paths = sorted(path for path, each in left_out.items() if each is why)
        if paths:
            more = f" and {len(paths) - NAMED_MAX} more" if len(paths) > NAMED_MAX else ""
            named = ", ".join(plain(path, _NAME_CHARS_MAX) for path in paths[:NAMED_MAX])
            yield f"{len(paths)} {one if len(paths) == 1 else several}: {named}{more}"
