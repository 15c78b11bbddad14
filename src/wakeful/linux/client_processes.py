"""Identifies agent clients among processes, and checks claims that a process runs a session.

Files of other programs name processes by pid, and any program of this user can write such a file. So a
process counts only if the kernel confirms it: it runs the client's executable with the client's arguments,
belongs to this user, and is neither process 1, nor Wakeful, nor an ancestor of Wakeful.
"""

import os
import re
from collections.abc import Mapping, Sequence
from pathlib import PurePosixPath
from typing import Final

from msgspec import Struct

from wakeful.core.process import Process
from wakeful.linux import proc

INIT: Final = 1


class ClientProgram(Struct, frozen=True):
    """File names of one client. A name of `scripts` counts only inside one of the folders `packages`."""

    names: frozenset[str]
    prefixes: tuple[str, ...] = ()
    scripts: frozenset[str] = frozenset()
    packages: frozenset[str] = frozenset()


CLIENTS: Final[Mapping[str, ClientProgram]] = {
    # Native: `claude`, `…/claude-code/bin/claude.exe`, `…/claude/versions/2.1.197`. Before that: `node …/cli.js`.
    "claude": ClientProgram(
        names=frozenset({"claude", "claude.exe"}),
        scripts=frozenset({"cli.js", "cli.mjs"}),
        packages=frozenset({"claude-code", "claude-agent-sdk"}),
    ),
    # Native: `codex`, `codex-x86_64-unknown-linux-musl`. npm starts it below `node …/codex.js`.
    "codex": ClientProgram(
        names=frozenset({"codex", "codex.js", "codex-exec"}), prefixes=("codex-x86_64-", "codex-aarch64-")
    ),
}
# A version may follow, as in python3.12. Node scripts may replace their arguments by a title.
_NODE: Final = re.compile(r"(?:node(?:js)?|bun|deno)-?[0-9.]*")
_PYTHON: Final = re.compile(r"python[0-9.]*[a-z]?")
# Options of these interpreters that take a value.
_OPTIONS_WITH_VALUE: Final = frozenset(
    {"-r", "--require", "--import", "--loader", "-C", "--conditions", "-W", "-X"}
)
# A program or a module is run instead of a file: `python3 -c`, also as `-Ic`, `node -e`.
_NO_FILE: Final = re.compile(r"-[bBdEhiIOPqsSuvx]*[cemp].*|--eval(?:=.*)?|--print(?:=.*)?", re.DOTALL)
# `bun run FILE`, `deno run FILE`.
_RUN: Final = "run"
# The kernel's suffix for an executable that was replaced by an update while it runs.
_DELETED: Final = " (deleted)"


def client_of(pid: int) -> str | None:
    """The client that this process runs; None for any other program and for an ended process."""
    executable, words = proc.executable(pid), proc.command(pid)
    return next((name for name, each in CLIENTS.items() if runs_client(executable, words, each)), None)


def is_client(pid: int, provider: str) -> bool:
    """Whether this process is that provider's client, by its executable and its arguments."""
    program = CLIENTS.get(provider)
    return program is not None and runs_client(proc.executable(pid), proc.command(pid), program)


def runs_client(executable: str | None, words: Sequence[str], program: ClientProgram) -> bool:
    """The same for an executable and its arguments. If the kernel hides the executable, the first word counts."""
    if not words:
        return False
    path = PurePosixPath(executable.removesuffix(_DELETED) if executable is not None else words[0])
    installed = path.parent.name == "versions" and path.parent.parent.name in program.names
    if path.name in program.names or path.name.startswith(program.prefixes) or installed:
        return True
    is_node = _NODE.fullmatch(path.name) is not None
    if not is_node and _PYTHON.fullmatch(path.name) is None:
        return False
    titled = is_node and PurePosixPath(words[0]).name in program.names
    script = _script(words[1:])
    return titled or (script is not None and _is_script(PurePosixPath(script), program))


def reason_against(process: Process, provider: str, *, any_user: bool = False) -> str | None:
    """Why this live process cannot run a session of this client; None if it can."""
    reason = reason_to_spare(process, any_user=any_user)
    if reason is None and not is_client(process.pid, provider):
        reason = f"process {process.pid} does not run {provider}"
    return reason


def reason_to_spare(process: Process, *, any_user: bool = False) -> str | None:
    """Why this process must never be signalled or count as a session's, whatever it runs; None without a reason."""
    if process.pid == INIT:
        return "process 1 is the first process of this host"
    if process.pid == os.getpid():
        return f"process {process.pid} is Wakeful"
    if any(each.pid == process.pid for each in proc.ancestors(os.getpid())):
        return f"process {process.pid} started Wakeful"
    if not any_user and user_of(process.pid) != os.getuid():
        return f"process {process.pid} belongs to another user"
    return None


def user_of(pid: int) -> int | None:
    """Its real user; None when it has ended, or when its effective user differs."""
    for line in proc.status(pid).splitlines():
        if line.startswith(b"Uid:"):
            real, effective = line.split()[1:3]
            return int(real) if real == effective else None
    return None


def _is_script(path: PurePosixPath, program: ClientProgram) -> bool:
    packaged = path.name in program.scripts and program.packages.intersection(path.parts)
    return path.name in program.names or bool(packaged)


def _script(words: Sequence[str]) -> str | None:
    """The file that an interpreter runs; None if it runs none."""
    rest = iter(words)
    for word in rest:
        if _NO_FILE.fullmatch(word):
            return None
        if word in _OPTIONS_WITH_VALUE:
            next(rest, None)
        elif word != _RUN and not word.startswith("-"):
            return word
    return None
