"""Every pane of every tmux server of this user, by one listing per server. It looks; it never types or ends.

A server that hangs, refuses us or answers otherwise than expected is `unknown`. Names and titles are text from
outside. tmux's control mode is not used: it has crashed servers.
"""

import asyncio
import os
import secrets
import socket as unix
import stat
from collections.abc import Iterable
from pathlib import Path
from typing import Final, Self

from msgspec import Struct

from wakeful.domain.errors import WorldError
from wakeful.domain.plaintext import plain
from wakeful.domain.process import Sight

DEADLINE_SECONDS: Final = 5.0
# SIGKILL ends a process at once, unless the kernel itself is stuck on its behalf: then nobody can wait for it.
REAP_SECONDS_MAX: Final = 1.0
# A row is below 1 KB: ten thousand panes fit, a program that prints without end does not.
OUTPUT_BYTES_MAX: Final = 16 * 1024 * 1024
TEXT_CHARS_MAX: Final = 500
_EMPTY_SERVER: Final = b"no current target"
# In the order of PaneRow.parse. No more than is needed: what a pane runs is asked of /proc by its pid, for every
# field costs the server, and the current command alone as much as all of these.
_FIELDS: Final = ("session_name", "pane_id", "pane_pid", "pane_dead")


class TmuxFolderClosed(WorldError):
    """The folder of this user's tmux sockets, {folder}, cannot be read: {reason}."""

    code = "tmux-folder-closed"


class PaneRow(Struct, frozen=True):
    """One pane as tmux lists it. `pane_id` (`%3`) is its address on this server; names are for people."""

    session: str
    pane_id: str
    # A dead pane's pid is history and may be somebody else's by now.
    pid: int
    dead: bool

    @classmethod
    def parse(cls, fields: list[bytes]) -> Self:
        """Read the fields of a row; raises ValueError if they are not what we asked for."""
        session, pane_id, pid, dead = fields
        return cls(_text(session), pane_id.decode("ascii"), int(pid), dead == b"1")


class Listing(Struct, frozen=True):
    """What one socket showed. `dead`: nobody serves it. `unknown`: we could not find out, and `reason` is why."""

    socket: Path
    sight: Sight
    panes: tuple[PaneRow, ...] = ()
    reason: str = ""


def sockets(uid: int, extra: Iterable[Path] = ()) -> list[Path]:
    """Every tmux socket of this user: in tmux's own folder, and those named. Raises TmuxFolderClosed."""
    # tmux's own default, which is safe because tmux and we both insist on the owner.
    root = os.environ.get("TMUX_TMPDIR") or "/tmp"  # noqa: S108
    named = (*_entries(Path(root) / f"tmux-{uid}", uid), *extra)
    return sorted({path for path in named if _is_socket_of(path, uid)})


async def list_panes(socket: Path, deadline_seconds: float = DEADLINE_SECONDS) -> Listing:
    """All panes of the server on this socket; never later than the deadline, never an exception for the world."""
    # A program may put newlines and tabs into its name and so forge rows; it cannot guess this.
    separator = secrets.token_hex(8)
    row = separator.join(("", *(f"#{{{field}}}" for field in _FIELDS), ""))
    argv = ("tmux", "-u", "-S", str(socket), "list-panes", "-a", "-F", row)
    try:
        answer = await _ask(argv, deadline_seconds)
    except OSError as problem:
        return Listing(socket, Sight.UNKNOWN, reason=f"tmux cannot be run: {problem.strerror}")
    if answer.exit_code is None:
        reason = f"tmux gave no complete answer within {deadline_seconds:g} s"
        return Listing(socket, Sight.UNKNOWN, reason=reason)
    if answer.exit_code != 0:
        return _refused(socket, answer)
    return _listed(socket, answer.output, separator.encode())


def parse_panes(output: bytes, separator: bytes) -> tuple[PaneRow, ...]:
    """Read what tmux printed; raises ValueError if it is not what we asked for."""
    parts = output.split(separator)
    width = len(_FIELDS) + 1
    # Before the first row stands nothing, after each one a newline.
    if len(parts) % width != 1 or any(part.strip() for part in parts[::width]):
        raise ValueError("these are not the rows asked for")
    starts = range(1, len(parts) - 1, width)
    return tuple(PaneRow.parse(parts[start : start + len(_FIELDS)]) for start in starts)


def _listed(socket: Path, output: bytes, separator: bytes) -> Listing:
    try:
        return Listing(socket, Sight.ALIVE, parse_panes(output, separator))
    except ValueError:
        return Listing(socket, Sight.UNKNOWN, reason="tmux answered in a form we do not know")


def _refused(socket: Path, answer: "_Answer") -> Listing:
    """tmux said no. Whether a server is there is asked of the socket: messages change with versions."""
    served = _served(socket)
    if served is Sight.DEAD:
        return Listing(socket, Sight.DEAD, reason="no server on this socket")
    if served is Sight.ALIVE and answer.errors.startswith(_EMPTY_SERVER):
        return Listing(socket, Sight.ALIVE)
    return Listing(socket, Sight.UNKNOWN, reason=_text(answer.errors) or f"tmux exited {answer.exit_code}")


def _served(socket: Path) -> Sight:
    with unix.socket(unix.AF_UNIX) as probe:
        probe.setblocking(False)
        try:
            probe.connect(str(socket))
        except (ConnectionRefusedError, FileNotFoundError):
            return Sight.DEAD
        except OSError:
            return Sight.UNKNOWN
    return Sight.ALIVE


def _entries(folder: Path, uid: int) -> list[Path]:
    """What lies in the folder, if it is one and the user's own."""
    try:
        found = folder.lstat()
        return list(folder.iterdir()) if stat.S_ISDIR(found.st_mode) and found.st_uid == uid else []
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as problem:
        raise TmuxFolderClosed(folder=folder, reason=problem.strerror) from problem


def _is_socket_of(path: Path, uid: int) -> bool:
    try:
        found = path.lstat()
    except OSError:
        return False
    return stat.S_ISSOCK(found.st_mode) and found.st_uid == uid


def _text(raw: bytes) -> str:
    # Replaced, not escaped as surrogates: those cannot be encoded again on their way to a client.
    return plain(raw.decode(errors="replace"), TEXT_CHARS_MAX)


class _Answer(Struct, frozen=True):
    """`exit_code` is None if the program had not finished, or had said more than anybody needs."""

    exit_code: int | None
    output: bytes
    errors: bytes


class _Inquiry(asyncio.SubprocessProtocol):
    """Collects what a program says, up to a bound."""

    def __init__(self) -> None:
        loop = asyncio.get_running_loop()
        self.said = {1: bytearray(), 2: bytearray()}
        self.exited: asyncio.Future[None] = loop.create_future()
        # True once the program is gone and both pipes are read to the end, False if it said too much.
        self.complete: asyncio.Future[bool] = loop.create_future()

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        self.said[fd] += data
        if len(self.said[fd]) > OUTPUT_BYTES_MAX and not self.complete.done():
            self.complete.set_result(False)

    def process_exited(self) -> None:
        self.exited.set_result(None)

    def connection_lost(self, exc: Exception | None) -> None:
        del exc  # how the pipes ended makes no difference to what was said
        if not self.complete.done():
            self.complete.set_result(True)


async def _ask(argv: tuple[str, ...], deadline_seconds: float) -> _Answer:
    """Run a program that is expected to answer at once; what it said by the deadline. Raises OSError.

    At the deadline, on too much output and when cancelled it is killed, and whatever it left holding the
    pipes is not waited for.
    """
    loop = asyncio.get_running_loop()
    transport, inquiry = await loop.subprocess_exec(_Inquiry, *argv, stdin=asyncio.subprocess.DEVNULL)
    try:
        await asyncio.wait({inquiry.complete}, timeout=deadline_seconds)
        finished = inquiry.complete.done() and inquiry.complete.result()
        exit_code = transport.get_returncode() if finished else None
        return _Answer(exit_code, bytes(inquiry.said[1]), bytes(inquiry.said[2]))
    finally:
        transport.close()
        await asyncio.wait({inquiry.exited}, timeout=REAP_SECONDS_MAX)
