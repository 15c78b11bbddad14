"""Runs short commands with a deadline: helper programs, questions to a client, the operator's hook program.

A pidfd reports the exit and pipes carry the output. There is no shell and no thread per command. Nothing is
left running: at the deadline, on too much output and when cancelled, the program is killed.
"""

import asyncio
import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryFile
from typing import Final

from msgspec import Struct

from wakeful.core.errors import WorldError
from wakeful.core.redaction import redact
from wakeful.core.text import plain
from wakeful.linux.child_environment import given_environ, helper_environ, hook_environ
from wakeful.linux.launch import find_program

# SIGKILL ends a process at once, unless the kernel is stuck on its behalf: then waiting is useless.
REAP_SECONDS_MAX: Final = 1.0
# A program that prints without end is cut off here.
OUTPUT_BYTES_MAX: Final = 16 * 1024 * 1024
READ_BYTES: Final = 64 * 1024


class CommandResult(Struct, frozen=True):
    """`exit_code` is None if the program had not finished, or its output was too long."""

    exit_code: int | None
    output: bytes
    errors: bytes


async def run_command(
    argv: Sequence[str],
    deadline_seconds: float,
    *,
    environ: Mapping[str, str] | None = None,
    with_children: bool = False,
    given: bytes = b"",
    cwd: str | None = None,
) -> CommandResult:
    """Run the program and return its output by the deadline. Raises OSError if it cannot be started.

    It reads `given` from its standard input. Processes that it leaves with open pipes are not waited for;
    `with_children` ends its children with it.
    """
    # An unnamed file: a program that does not read it blocks nothing.
    with ExitStack() as opened:
        stdin = opened.enter_context(TemporaryFile()) if given else None
        if stdin is not None:
            stdin.write(given)
            stdin.seek(0)
        # Not as a context: that would wait for its exit, even while the kernel is stuck.
        program = subprocess.Popen(  # noqa: ASYNC220 - returns once the program runs; the answer is awaited
            argv,
            stdin=stdin if stdin is not None else subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=helper_environ(os.environ) if environ is None else given_environ(environ),
            cwd=cwd,
            start_new_session=with_children,
        )
    assert program.stdout is not None, "asked for"
    assert program.stderr is not None, "asked for"
    with program.stdout, program.stderr:
        try:
            pidfd = os.pidfd_open(program.pid)
        except OSError:
            program.kill()
            program.wait()
            raise
        pipes = (program.stdout.fileno(), program.stderr.fileno())
        return await _RunningCommand(program, pidfd, pipes, with_children).wait(deadline_seconds)


class _RunningCommand:
    def __init__(
        self, program: subprocess.Popen[bytes], pidfd: int, pipes: tuple[int, int], with_children: bool
    ) -> None:
        self._program = program
        self._with_children = with_children
        self._loop = asyncio.get_running_loop()
        self._pidfd = pidfd
        self._output, self._errors = output, errors = pipes
        self._buffers = {output: bytearray(), errors: bytearray()}
        self._exited: asyncio.Future[None] = self._loop.create_future()
        # True once the program has ended and both pipes are read to the end, False if the output is too long.
        self._complete: asyncio.Future[bool] = self._loop.create_future()
        self._open = {output, errors, pidfd}

    async def wait(self, deadline_seconds: float) -> CommandResult:
        self._loop.add_reader(self._pidfd, self._on_exit)
        for pipe in self._buffers:
            os.set_blocking(pipe, False)
            self._loop.add_reader(pipe, self._on_output, pipe)
        try:
            await asyncio.wait({self._complete}, timeout=deadline_seconds)
            finished = self._complete.done() and self._complete.result()
            exit_code = self._program.returncode if finished else None
            return CommandResult(
                exit_code, bytes(self._buffers[self._output]), bytes(self._buffers[self._errors])
            )
        finally:
            await self._release()

    def _on_output(self, pipe: int) -> None:
        chunk = os.read(pipe, READ_BYTES)
        self._buffers[pipe] += chunk
        if not chunk:
            self._close(pipe)
        elif len(self._buffers[pipe]) > OUTPUT_BYTES_MAX and not self._complete.done():
            self._complete.set_result(False)

    def _on_exit(self) -> None:
        # Before wait(): until then no other process or group can get its pid.
        if self._with_children:
            self._kill()
        self._program.wait()
        self._exited.set_result(None)
        self._close(self._pidfd)

    def _close(self, source: int) -> None:
        self._loop.remove_reader(source)
        self._open.discard(source)
        if not self._open and not self._complete.done():
            self._complete.set_result(True)

    async def _release(self) -> None:
        try:
            if not self._exited.done():
                self._kill()
                await asyncio.wait({self._exited}, timeout=REAP_SECONDS_MAX)
        finally:
            for source in self._open:
                self._loop.remove_reader(source)
            os.close(self._pidfd)

    def _kill(self) -> None:
        if not self._with_children:
            self._program.kill()
            return
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._program.pid, signal.SIGKILL)


# A client starts within 1.1 s, and a status command makes no request.
STATUS_SECONDS_MAX: Final = 15.0
# Codex retries a refused request for 7 s.
PROBE_SECONDS_MAX: Final = 60.0
PROBE_PROMPT: Final = "Reply with the word OK and nothing else."
_NO_RESULT: Final = CommandResult(None, b"", b"")


class ClientCommands:
    def __init__(self, argv: Sequence[str], folder: str, environ: Mapping[str, str]) -> None:
        assert argv, "a program first"
        self._argv = tuple(argv)
        self._folder = folder
        self._environ = environ

    async def run_status(self, *words: str) -> CommandResult:
        """Run without the operator's flags, which are for turns. A client that cannot be run gives an empty result."""
        return await self._run((self._argv[0], *words), STATUS_SECONDS_MAX)

    async def run_probe(self, *words: str) -> CommandResult:
        return await self._run((*self._argv, *words), PROBE_SECONDS_MAX)

    async def run_model(self, prompt: str, seconds_max: float, *words: str) -> CommandResult:
        """Run with the prompt on standard input: any user can read arguments."""
        return await self._run((*self._argv, *words), seconds_max, prompt.encode())

    async def _run(self, argv: Sequence[str], seconds_max: float, given: bytes = b"") -> CommandResult:
        try:
            words = (self._program(argv[0]), *argv[1:])
            return await run_command(
                words, seconds_max, environ=self._environ, with_children=True, cwd=self._folder, given=given
            )
        except (WorldError, OSError):
            return _NO_RESULT

    def _program(self, name: str) -> str:
        Path(self._folder).mkdir(mode=0o700, parents=True, exist_ok=True)
        return find_program(name, cwd=self._folder, path=self._environ.get("PATH", ""))


def credentials_fingerprint(paths: Sequence[str], environ: Mapping[str, str], names: Sequence[str]) -> str:
    """A digest of files (time, size, inode) and of variables; it contains no secret."""
    digest = sha256()
    for path in paths:
        digest.update(_file_fingerprint(path))
    for name in names:
        digest.update(environ.get(name, "").encode(errors="surrogateescape") + b"\0")
    return digest.hexdigest()


def _file_fingerprint(path: str) -> bytes:
    try:
        status = Path(path).stat()
    except OSError:
        return b"none\0"
    return f"{status.st_mtime_ns}:{status.st_size}:{status.st_ino}\0".encode()


DEADLINE_SECONDS: Final = 10.0
ERROR_CHARS_MAX: Final = 200


class HookProgram:
    def __init__(self, argv: Sequence[str], deadline_seconds: float = DEADLINE_SECONDS) -> None:
        self._argv = tuple(argv)
        self._deadline_seconds = deadline_seconds

    async def run(self, event: bytes) -> str | None:
        """Run it with the event on standard input; returns the problem, or None."""
        try:
            answer = await run_command(
                self._argv,
                self._deadline_seconds,
                environ=hook_environ(os.environ),
                with_children=True,
                given=event,
            )
        except OSError as problem:
            return problem.strerror or str(problem)
        if max(len(answer.output), len(answer.errors)) > OUTPUT_BYTES_MAX:
            return f"ended, for it said more than {OUTPUT_BYTES_MAX} bytes"
        if answer.exit_code is None:
            return f"not done after {self._deadline_seconds:g} s"
        if answer.exit_code == 0:
            return None
        errors = plain(redact(answer.errors.decode(errors="replace")), ERROR_CHARS_MAX)
        return f"exit {answer.exit_code} {errors}".rstrip()
