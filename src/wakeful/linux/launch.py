"""Starts programs that outlive Wakeful: own session, no inherited descriptors but three, never a shell.

Child processes are reaped as they end, and nothing waits for them. After Wakeful's end, process 1 reaps them.
"""

import asyncio
import os
import resource
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from wakeful.core.errors import ClientMissing, StartFailed, WorkingDirectoryGone
from wakeful.core.process import Process
from wakeful.linux import proc
from wakeful.linux.child_environment import given_environ

# The daemon raises its own limit for pidfds; programs that use select() expect their user's limit.
_DESCRIPTORS: Final = resource.getrlimit(resource.RLIMIT_NOFILE)
# Kept until reaped: a child that is not waited for stays a zombie.
_children: Final[dict[int, subprocess.Popen[bytes]]] = {}


class Streams(NamedTuple):
    stdin: int
    stdout: int
    stderr: int


def launch(argv: Sequence[str], *, cwd: str, environ: Mapping[str, str], streams: Streams) -> Process:
    """Start a program; call it inside the loop that will reap it.

    It is searched on the PATH of `environ`. After WorkingDirectoryGone, ClientMissing or StartFailed nothing runs.
    """
    reap()
    program = find_program(argv[0], cwd=cwd, path=environ.get("PATH", os.defpath))
    child = _spawn(program, argv, cwd, environ, streams)
    _children[child.pid] = child
    resource.prlimit(child.pid, resource.RLIMIT_NOFILE, _DESCRIPTORS)
    # Read before it is reaped, so that even a child that has ended already has an identity.
    process = proc.parse_stat(Path(f"/proc/{child.pid}/stat").read_bytes()).process
    _reap_on_exit(child)
    return process


def find_program(name: str, *, cwd: str, path: str) -> str:
    """The program's path. Raises WorkingDirectoryGone or ClientMissing."""
    # Path.is_dir raises for a name that is too long.
    if not os.path.isdir(cwd):  # noqa: PTH112
        raise WorkingDirectoryGone(folder=cwd)
    # A relative entry would find another program in every folder, also in those an agent may write to.
    folders = os.pathsep.join(folder for folder in path.split(os.pathsep) if folder.startswith("/"))
    wanted = str(Path(cwd) / name) if "/" in name else name
    found = shutil.which(wanted, path=folders) if name else None
    if found is None:
        raise ClientMissing(program=name)
    return found


def launched_pids() -> frozenset[int]:
    """The children that outlive Wakeful."""
    return frozenset(_children)


def reap() -> None:
    for child in tuple(_children.values()):
        _collect(child)


def _spawn(
    program: str,
    argv: Sequence[str],
    cwd: str,
    environ: Mapping[str, str],
    streams: Streams,
) -> subprocess.Popen[bytes]:
    try:
        return subprocess.Popen(
            argv,
            executable=program,
            cwd=cwd,
            env=given_environ(environ),
            stdin=streams.stdin,
            stdout=streams.stdout,
            stderr=streams.stderr,
            start_new_session=True,
        )
    except (FileNotFoundError, NotADirectoryError, PermissionError) as problem:
        # The folder may have gone since it was checked; a script's interpreter may be missing.
        if problem.filename == cwd:
            raise WorkingDirectoryGone(folder=cwd) from problem
        raise ClientMissing(program=argv[0]) from problem
    except (OSError, ValueError) as problem:
        raise StartFailed(program=argv[0], reason=str(problem)) from problem


def _reap_on_exit(child: subprocess.Popen[bytes]) -> None:
    try:
        pidfd = os.pidfd_open(child.pid)
    except OSError:
        # No free descriptor: the next launch reaps it.
        return
    asyncio.get_running_loop().add_reader(pidfd, _on_exit, child, pidfd)


def _on_exit(child: subprocess.Popen[bytes], pidfd: int) -> None:
    asyncio.get_running_loop().remove_reader(pidfd)
    os.close(pidfd)
    _collect(child)


def _collect(child: subprocess.Popen[bytes]) -> None:
    if child.poll() is not None:
        _children.pop(child.pid, None)
