"""What Wakeful is measured against, written by hand and as plainly as anybody would write it.

Each does the same work as the row it stands in, or the least that any program would have to do. No Wakeful here.
"""

import os
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from datetime import datetime
from pathlib import Path
from typing import Final, Self

import msgspec
from msgspec import Raw, Struct

PYTHON_PASS: Final = [sys.executable, "-c", "pass"]


def scan_and_stat(root: Path) -> int:
    """The least that a start must do: list the tree and stat every file. Gives their number."""
    return sum(1 for _ in _files(root))


def stat_all(paths: Sequence[Path]) -> int:
    """What a poller does at every tick."""
    return sum(os.stat(path).st_size for path in paths)  # noqa: PTH116 - a Path's own stat is slower


def _files(root: Path) -> Iterator[str]:
    folders = [str(root)]
    while folders:
        with os.scandir(folders.pop()) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    folders.append(entry.path)
                else:
                    entry.stat(follow_symlinks=False)
                    yield entry.path


class _Usage(Struct, gc=False):
    input_tokens: int = 0
    output_tokens: int = 0
    cache_creation_input_tokens: int = 0


class _Block(Struct, gc=False):
    type: str = ""
    id: str = ""
    name: str = ""
    input: Raw = Raw(b"")
    text: Raw = Raw(b"")
    tool_use_id: str = ""
    is_error: bool | None = None
    content: Raw = Raw(b"")


class _Message(Struct, gc=False):
    id: str = ""
    content: str | list[_Block] = ""
    stop_reason: str | None = None
    usage: _Usage | None = None


class _Record(Struct, gc=False, rename="camel"):
    """The fields that judging needs, as Wakeful's own reader names them."""

    type: str = ""
    subtype: str = ""
    timestamp: datetime | None = None
    session_id: str | None = None
    cwd: str | None = None
    version: str | None = None
    message: _Message | None = None
    is_sidechain: bool = False
    is_meta: bool = False
    error: Raw = Raw(b"")


def read_everything(root: Path) -> int:
    """Decode every line of every log with msgspec, typed, unneeded fields skipped. Gives their number."""
    decode = msgspec.json.Decoder(_Record).decode
    lines = 0
    for path in _files(root):
        with open(path, "rb") as log:  # noqa: PTH123 - as above
            for line in log:
                decode(line)
                lines += 1
    return lines


class SecondPoller:
    """Asks about processes once a second, as supervisors without pidfds do. A zombie counts as dead."""

    def __init__(self) -> None:
        self.noticed_seconds: list[float] = []
        self._watched: set[int] = set()
        self._killed_at: dict[int, float] = {}
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="poller")

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *problem: object) -> None:
        self._ended.set()
        self._thread.join()

    def watch(self, pid: int) -> None:
        self._watched.add(pid)

    def killed(self, pid: int) -> float:
        """Its last moment, which is now."""
        self._killed_at[pid] = time.monotonic()
        return self._killed_at[pid]

    def _run(self) -> None:
        while not self._ended.wait(1.0):
            for pid in [pid for pid in tuple(self._watched) if _is_dead(pid)]:
                self._watched.discard(pid)
                self.noticed_seconds.append(time.monotonic() - self._killed_at[pid])


def _is_dead(pid: int) -> bool:
    try:
        stat = Path(f"/proc/{pid}/stat").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return True
    return stat.rpartition(b")")[2].split()[0] in {b"Z", b"X"}


def has_sessions(socket: Path, names: Sequence[str]) -> None:
    """One question per session, as supervisors of tmux sessions ask."""
    for name in names:
        subprocess.run(["tmux", "-S", str(socket), "has-session", "-t", f"={name}"], check=True)


BareRow = tuple[str, float, str, str, str, str, str, bytes]


def bare_loop(path: Path, rows: Sequence[BareRow], *, per_commit: int) -> None:
    """Insert rows into one plain table, so many per commit, and read the last one back."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = NORMAL")
        connection.execute("CREATE TABLE transitions (seq INTEGER PRIMARY KEY, a, b, c, d, e, f, g, h)")
        insert = "INSERT INTO transitions (a, b, c, d, e, f, g, h) VALUES (?, ?, ?, ?, ?, ?, ?, ?)"
        for at in range(0, len(rows), per_commit):
            connection.execute("BEGIN")
            connection.executemany(insert, rows[at : at + per_commit])
            connection.execute("COMMIT")
        last = connection.execute("SELECT * FROM transitions WHERE seq > ?", (len(rows) - 1,)).fetchall()
        assert len(last) == 1, "what was stored is readable"


@contextmanager
def fastapi_server(folder: Path, body: bytes) -> Iterator[tuple[int, Path]]:
    """FastAPI and pydantic with the sessions of this list, in a process of their own; its pid and socket."""
    records, socket = folder / "records.json", folder / "fastapi.sock"
    records.write_bytes(body)
    argv = [sys.executable, "-m", "bench.fastapi_peer", str(socket), str(records)]
    with subprocess.Popen(argv, cwd=Path(__file__).parents[1]) as process:
        try:
            while not socket.exists():
                assert process.poll() is None, "the peer serves"
                time.sleep(0.05)
            yield process.pid, socket
        finally:
            process.terminate()
