"""Lists all panes of all tmux servers of this user, with one command per server.

It never types and never ends anything. A server that hangs, refuses or answers in another form is `unknown`.
Names and titles are untrusted text. tmux's control mode is not used: it has crashed servers.
"""

import os
import secrets
import socket as unix
import stat
from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path
from typing import Final

from msgspec import Struct

from wakeful.core.errors import WorldError
from wakeful.core.process import ProcessState
from wakeful.core.text import plain
from wakeful.linux.run_command import CommandResult, run_command

DEADLINE_SECONDS: Final = 5.0
# A cache of cleaned names: a listing repeats them every tick.
TEXTS_KEPT: Final = 4096
TEXT_CHARS_MAX: Final = 500
_EMPTY_SERVER: Final = b"no current target"
# In the order of _parse_row, the only one with spaces last. As few as possible, because every field costs the server
# time, and the current command alone as much as all of these; /proc says what a pane runs.
_FIELDS: Final = ("pane_id", "pane_pid", "pane_dead", "window_activity", "session_name")
_ROW: Final = " ".join(f"#{{{field}}}" for field in _FIELDS)


class TmuxFolderClosed(WorldError):
    """The folder of this user's tmux sockets, {folder}, cannot be read: {reason}."""

    code = "tmux-folder-closed"


class PaneRow(Struct, frozen=True):
    """One pane as tmux lists it. `pane_id` (`%3`) is its address on this server; names are for people."""

    session: str
    pane_id: str
    # A dead pane's pid may belong to another process by now.
    pid: int
    dead: bool


class Listing(Struct, frozen=True):
    """The listing of one socket. `dead`: it has no server. `unknown`: the listing failed; `reason` says why."""

    socket: Path
    sight: ProcessState
    panes: tuple[PaneRow, ...] = ()
    reason: str = ""
    # The last output of each pane's window, in whole seconds since the epoch. Not part of a row, so that the row of a
    # busy pane stays equal.
    wrote: tuple[int, ...] = ()
    # tmux failed, although the socket has a server: the server may have only just started.
    came_up: bool = False


def sockets(uid: int, extra: Iterable[Path] = ()) -> list[Path]:
    """Every tmux socket of this user: in tmux's own folder, and in `extra`. Raises TmuxFolderClosed."""
    # tmux's own default, which is safe because tmux and this module both check the owner.
    root = os.environ.get("TMUX_TMPDIR") or "/tmp"  # noqa: S108
    named = (*_entries(Path(root) / f"tmux-{uid}", uid), *extra)
    return sorted({path for path in named if _is_socket_of(path, uid)})


async def list_panes(socket: Path, deadline_seconds: float = DEADLINE_SECONDS) -> Listing:
    """All panes of the server on this socket, within the deadline; a failure is in the listing, not raised."""
    listing = await _list_once(socket, deadline_seconds)
    if listing.came_up:
        # A server started between tmux's failure and the check of its socket.
        listing = await _list_once(socket, deadline_seconds)
    return listing


async def _list_once(socket: Path, deadline_seconds: float) -> Listing:
    # A program may put newlines and tabs into its name to forge rows; it cannot guess this separator.
    separator = secrets.token_hex(8)
    argv = ("tmux", "-u", "-S", str(socket), "list-panes", "-a", "-F", separator + _ROW)
    try:
        answer = await run_command(argv, deadline_seconds)
    except OSError as problem:
        return Listing(socket, ProcessState.UNKNOWN, reason=f"tmux cannot be run: {problem.strerror}")
    if answer.exit_code is None:
        reason = f"tmux gave no complete answer within {deadline_seconds:g} s"
        return Listing(socket, ProcessState.UNKNOWN, reason=reason)
    if answer.exit_code != 0:
        return _failed_listing(socket, answer)
    try:
        found = parse_panes(answer.output, separator.encode())
    except ValueError:
        return Listing(socket, ProcessState.UNKNOWN, reason="tmux sent an unknown answer")
    return Listing(
        socket, ProcessState.ALIVE, tuple(row for row, _ in found), wrote=tuple(wrote for _, wrote in found)
    )


def parse_panes(output: bytes, separator: bytes) -> list[tuple[PaneRow, int]]:
    """Every printed pane with the time of its window's last output. Raises ValueError for any other output."""
    before, *rows = output.split(separator)
    if before:
        raise ValueError("these are not the requested rows")
    return [_parse_row(row) for row in rows]


def _parse_row(row: bytes) -> tuple[PaneRow, int]:
    fields = row.split(b" ", len(_FIELDS) - 1)
    if len(fields) != len(_FIELDS) or not row.endswith(b"\n"):
        raise ValueError("this is not a requested row")
    pane_id, pid, dead, wrote, session = fields
    return PaneRow(_text(session[:-1]), pane_id.decode("ascii"), int(pid), dead == b"1"), int(wrote)


def _failed_listing(socket: Path, answer: CommandResult) -> Listing:
    """The listing after a failure of tmux. The socket shows whether there is a server: messages change with versions."""
    state = server_state(socket)
    if state is ProcessState.DEAD:
        return Listing(socket, ProcessState.DEAD, reason="no server on this socket")
    if state is ProcessState.ALIVE and answer.errors.startswith(_EMPTY_SERVER):
        return Listing(socket, ProcessState.ALIVE)
    reason = _text(answer.errors) or f"tmux exited {answer.exit_code}"
    return Listing(socket, ProcessState.UNKNOWN, reason=reason, came_up=state is ProcessState.ALIVE)


def server_state(socket: Path) -> ProcessState:
    """Whether the socket has a server: costs one connection, no program."""
    with unix.socket(unix.AF_UNIX) as probe:
        probe.setblocking(False)
        try:
            probe.connect(str(socket))
        except (ConnectionRefusedError, FileNotFoundError):
            return ProcessState.DEAD
        except OSError:
            return ProcessState.UNKNOWN
    return ProcessState.ALIVE


def _entries(folder: Path, uid: int) -> list[Path]:
    try:
        status = folder.lstat()
        return list(folder.iterdir()) if stat.S_ISDIR(status.st_mode) and status.st_uid == uid else []
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as problem:
        raise TmuxFolderClosed(folder=folder, reason=problem.strerror) from problem


def _is_socket_of(path: Path, uid: int) -> bool:
    try:
        status = path.lstat()
    except OSError:
        return False
    return stat.S_ISSOCK(status.st_mode) and status.st_uid == uid


@lru_cache(TEXTS_KEPT)
def _text(raw: bytes) -> str:
    # Replaced, not escaped as surrogates: those cannot be encoded again for a client.
    return plain(raw.decode(errors="replace"), TEXT_CHARS_MAX)
