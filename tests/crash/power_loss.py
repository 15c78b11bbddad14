"""A disk that loses its power: what a traced program wrote, and every way in which the unsynced part of it may be lost.

Fed with the lines of an strace, it keeps for each file what is surely on the disk and what is on its way, and the same
for names. `image` then builds a folder as a power cut could leave it: writes dropped, torn or zeroed, names old or new.
"""

import random
import re
import shutil
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

TRACED = "mkdir,openat,write,pwrite64,ftruncate,rename,link,unlink,fsync,fdatasync"
# strace pads short pids.
_CUT = re.compile(r"^(\d+) +(.*) <unfinished \.\.\.>$")
_RESUMED = re.compile(r"^(\d+) +<\.\.\. \w+ resumed>(.*)$")
_LINE = re.compile(r"^\d+ +(\w+)\((.*)\)\s+= (-?\d+)")
_TEXT = re.compile(r'"((?:\\x[0-9a-f]{2})*)"')
_OPENED = re.compile(r"= \d+<((?:\\x[0-9a-f]{2})+)>")
_HANDLE = re.compile(r"^\d+<((?:\\x[0-9a-f]{2})+)>")


def _bytes(escaped: str) -> bytes:
    return bytes.fromhex(escaped.replace("\\x", ""))


@dataclass
class Content:
    """A file's bytes: those that are safe, and the writes behind them."""

    safe: bytes = b""
    pending: list[tuple[int, bytes]] = field(default_factory=list)
    is_folder: bool = False

    def now(self) -> bytes:
        return _applied(self.safe, self.pending)


def _applied(content: bytes, writes: list[tuple[int, bytes]]) -> bytes:
    grown = bytearray(content)
    for offset, written in writes:
        if offset < 0:
            del grown[:]
            continue
        grown.extend(bytes(max(0, offset + len(written) - len(grown))))
        grown[offset : offset + len(written)] = written
    return bytes(grown)


def whole_calls(lines: Iterable[str]) -> Iterator[str]:
    """The trace with calls in one piece that another thread interrupted, where they returned."""
    begun: dict[str, str] = {}
    for line in lines:
        cut, resumed = _CUT.match(line), _RESUMED.match(line)
        if cut is not None:
            begun[cut[1]] = cut[2]
        elif resumed is not None:
            yield f"{resumed[1]} {begun.pop(resumed[1], '')}{resumed[2]}"
        else:
            yield line


class Disk:
    """Everything below one root."""

    def __init__(self, root: Path) -> None:
        self._root = str(root)
        self.names: dict[str, Content] = {}
        self._safe_names: dict[str, Content] = {}
        self._moves: list[tuple[str, Content | None]] = []
        # Every whole content that was ever put into a file of this name.
        self.states: set[bytes] = set()
        self.said: list[str] = []

    def take(self, line: str) -> bool:
        """Carry out one line of the trace; whether it changed anything that a power cut could lose."""
        found = _LINE.match(line)
        if found is None or found[3].startswith("-"):
            return False
        call, arguments = found[1], found[2]
        paths = [_bytes(each).decode("utf-8", "replace") for each in _TEXT.findall(arguments)]
        if call in {"write", "pwrite64", "ftruncate", "fsync", "fdatasync"}:
            return self._on_file(call, arguments)
        if call == "openat":
            return self._opened(paths[0], arguments, line)
        return self._named(call, [each for each in paths if self._is_ours(each)])

    def image(self, target: Path, chance: random.Random, how: str) -> None:
        """The folder after a power cut now; `how` is dropped, kept, torn, zeroed or mixed."""
        shutil.rmtree(target, ignore_errors=True)
        target.mkdir(parents=True)
        names = dict(self._safe_names)
        # A file system keeps the order of names, and may have come to any point of it.
        for path, content in self._moves[: chance.randint(0, len(self._moves))]:
            _put(names, path, content)
        for path, content in sorted(names.items()):
            place = target / path[len(self._root) + 1 :]
            if content.is_folder:
                place.mkdir(parents=True, exist_ok=True)
            elif place.parent.is_dir():
                place.write_bytes(_survived(content, chance, how))

    def _is_ours(self, path: str) -> bool:
        # The index of a write-ahead log is memory that has a name; it does not survive and is made again.
        return path.startswith(f"{self._root}/") and not path.endswith("-shm")

    def _opened(self, path: str, arguments: str, line: str) -> bool:
        opened = _OPENED.search(line)
        path = _bytes(opened[1]).decode() if opened else path
        if not self._is_ours(path) or "O_CREAT" not in arguments:
            return False
        if path not in self.names:
            self._move(path, Content())
        elif "O_TRUNC" in arguments:
            self.names[path].pending.append((-1, b""))
        return True

    def _on_file(self, call: str, arguments: str) -> bool:
        handle = _HANDLE.match(arguments)
        path = _bytes(handle[1]).decode("utf-8", "replace") if handle else ""
        written = _TEXT.search(arguments)
        if call == "write" and written is not None and arguments.startswith("2<"):
            self.said.append(_bytes(written[1]).decode())
        if path == self._root or (path in self.names and self.names[path].is_folder):
            return self._sync_folder(path)
        if path not in self.names:
            return False
        content = self.names[path]
        if call in {"fsync", "fdatasync"}:
            content.safe, content.pending = content.now(), []
        elif call == "ftruncate":
            content.pending.append((-1, b""))
        elif written is not None:
            offset = int(arguments.rpartition(", ")[2]) if call == "pwrite64" else len(content.now())
            content.pending.append((offset, _bytes(written[1])))
        return True

    def _sync_folder(self, folder: str) -> bool:
        kept = []
        for path, content in self._moves:
            if path.rpartition("/")[0] == folder:
                _put(self._safe_names, path, content)
            else:
                kept.append((path, content))
        self._moves = kept
        return True

    def _named(self, call: str, paths: list[str]) -> bool:
        if not paths:
            return False
        if call == "mkdir":
            self._move(paths[0], Content(is_folder=True))
        elif call == "unlink":
            self._move(paths[0], None)
        elif paths[0] in self.names:
            content = self.names[paths[0]]
            if call == "rename":
                self.states.add(content.now())
                self._move(paths[0], None)
            self._move(paths[1], content)
        return True

    def _move(self, path: str, content: Content | None) -> None:
        _put(self.names, path, content)
        self._moves.append((path, content))


def _put(names: dict[str, Content], path: str, content: Content | None) -> None:
    if content is None:
        names.pop(path, None)
    else:
        names[path] = content


def _survived(content: Content, chance: random.Random, how: str) -> bytes:
    pending = content.pending
    if how == "mixed":
        pending = [each for each in pending if chance.random() < 0.5]
    elif how == "dropped":
        pending = []
    elif how in {"torn", "zeroed"} and pending:
        at = chance.randrange(len(pending))
        offset, written = pending[at]
        cut = chance.randint(0, len(written))
        rest = bytes(len(written) - cut) if how == "zeroed" else b""
        pending = [*pending[:at], (offset, written[:cut] + rest)]
    return _applied(content.safe, pending)
