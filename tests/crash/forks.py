"""A worker that is imported once and forked for every life: most of a killed process's time was its interpreter's start.

    python forks.py WORKER

Each line of standard input is a life: the words for the worker's `main` and its faults. Each is answered by a line with
how it ended (the negative signal if it was killed) and what it said. A life is a process of its own, which `kill -9` ends
as it ends any other.
"""

import os
import runpy
import subprocess
import sys
import traceback
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, Any, Self

import msgspec
from msgspec import Struct

from wakeful.core import fault_points as faults


class Life(Struct):
    """What is asked of one life."""

    mode: str
    folder: str
    faults: str = ""


class Ended(Struct):
    """How a life ended and what it said."""

    returncode: int
    stdout: str
    stderr: str


class Forks(AbstractContextManager["Forks"]):
    """One worker, imported and waiting. Lives of one Forks follow each other; for two at a time take two."""

    def __init__(self, worker: Path) -> None:
        argv = [sys.executable, __file__, str(worker)]
        self._server = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def run(self, mode: str, folder: Path, faults: str = "") -> Ended:
        assert self._server.stdin is not None
        assert self._server.stdout is not None
        self._server.stdin.write(msgspec.json.encode(Life(mode, str(folder), faults)) + b"\n")
        self._server.stdin.flush()
        return msgspec.json.decode(self._server.stdout.readline(), type=Ended)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._server.communicate(timeout=60)


def _serve(main: Callable[[str, Path], None]) -> None:
    for line in sys.stdin.buffer:
        ended = _lived(main, msgspec.json.decode(line, type=Life))
        sys.stdout.buffer.write(msgspec.json.encode(ended) + b"\n")
        sys.stdout.buffer.flush()


def _lived(main: Callable[[str, Path], None], life: Life) -> Ended:
    with TemporaryFile() as out, TemporaryFile() as err:
        pid = os.fork()
        if pid == 0:
            _live(main, life, out, err)
        _, status = os.waitpid(pid, 0)
        said = [(file.seek(0), file.read().decode())[1] for file in (out, err)]
        return Ended(os.waitstatus_to_exitcode(status), *said)


def _live(main: Callable[[str, Path], None], life: Life, out: IO[bytes], err: IO[bytes]) -> None:
    os.dup2(out.fileno(), 1)
    os.dup2(err.fileno(), 2)
    if life.faults:
        faults.install(
            faults.FaultInjector(faults.InjectedFault.parse(each) for each in life.faults.split(","))
        )
    code = 1
    try:
        main(life.mode, Path(life.folder))
        code = 0
    finally:
        if code:
            traceback.print_exc()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


if __name__ == "__main__":
    known: dict[str, Any] = runpy.run_path(sys.argv[1], run_name="worker")
    _serve(known["main"])
