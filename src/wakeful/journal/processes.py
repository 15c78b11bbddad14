"""Processes of a journal's steps: started behind a gate, checked, waited for, queried, ended and undone.

A program runs only after its pid is on disk: it waits at a pipe, and if its starter dies, the pipe closes and
nothing runs. All calls block; call them in a thread from an event loop. Recovery decides which of them are
made.
"""

import asyncio
import os
import shutil
import subprocess
import threading
import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, TypeVar

from wakeful.core.errors import StartFailed
from wakeful.core.process import ProcessState
from wakeful.journal.event_file import resolve_inside
from wakeful.journal.model import StepEntry, StepStatus
from wakeful.journal.recovery_rules import RemoteAnswer
from wakeful.linux import proc
from wakeful.linux.child_environment import agent_environ, given_environ
from wakeful.linux.launch import find_program
from wakeful.linux.run_command import run_command
from wakeful.linux.terminate import TOOL_STEPS, has_variable, terminate, terminate_marked

MARK_VARIABLE: Final = "WAKEFUL_JOURNAL_STEP"
KEY_VARIABLE: Final = "WAKEFUL_JOURNAL_KEY"
QUERY_SECONDS_MAX: Final = 10.0
UNDO_SECONDS_MAX: Final = 600.0
# A process behind its gate ends within milliseconds of its starter; on a busy machine within this.
GATE_SECONDS: Final = 0.5
_RETRY_SECONDS: Final = 0.02
# A line on stdin starts the program; the end of stdin does not.
_GATE: Final = 'read -r go || exit 125; exec "$@" </dev/null'
# Not 1 and 2: programs exit with these if the query itself failed.
_ANSWERS: Final = {0: RemoteAnswer.DONE, 10: RemoteAnswer.ABSENT, 11: RemoteAnswer.PARTIAL}

Query = Callable[[str, str | None], object]
"""Called with a step and its key; returns `done`, `absent`, `partial` or `unknown`, or a coroutine of these."""
T = TypeVar("T")


class GatedProcess:
    """A program that waits at a pipe until it is released."""

    def __init__(
        self,
        argv: Sequence[str],
        *,
        cwd: Path,
        environ: Mapping[str, str],
        output: Path,
        errors: Path,
    ) -> None:
        """Raises FolderGone, ClientMissing or StartFailed: nothing runs."""
        program = find_program(argv[0], cwd=str(cwd), path=environ.get("PATH", os.defpath))
        try:
            with _open_log(output) as out, _open_log(errors) as err:
                self._child = subprocess.Popen(
                    ["/bin/sh", "-c", _GATE, "sh", program, *argv[1:]],
                    cwd=cwd,
                    env=given_environ(environ),
                    stdin=subprocess.PIPE,
                    stdout=out,
                    stderr=err,
                    start_new_session=True,
                )
        except (OSError, ValueError) as problem:
            raise StartFailed(program=argv[0], reason=str(problem)) from problem
        # Not reaped yet, so even a process that has already ended has an identity.
        self.process = proc.parse_stat(Path(f"/proc/{self._child.pid}/stat").read_bytes()).process

    def release(self) -> None:
        assert self._child.stdin is not None, "stdin is a pipe"
        # It may have been killed at the gate: `wait` then returns its exit code.
        with suppress(BrokenPipeError), self._child.stdin as gate:
            gate.write(b"go\n")

    def wait(self) -> int:
        """Its exit code once it has ended; if the wait is interrupted, it is ended."""
        try:
            return self._child.wait()
        except BaseException:
            self.terminate()
            raise

    def terminate(self) -> None:
        """End it and wait for its exit."""
        run_in_thread(terminate(self.process, TOOL_STEPS, is_meant=lambda _process: True))
        self._child.wait()
        if self._child.stdin is not None:
            with suppress(BrokenPipeError):
                self._child.stdin.close()


class StepProcesses:
    """Checks, queries, ends and undoes the processes of one journal's steps."""

    def __init__(
        self,
        root: Path,
        *,
        query: Query | None = None,
        query_seconds: float = QUERY_SECONDS_MAX,
        environ: Mapping[str, str] | None = None,
    ) -> None:
        """`environ` is for the programs it runs; None: those variables of this process that agents get."""
        self._root = root
        self._environ = environ
        self._query = query
        self._query_seconds = query_seconds

    def probe(self, entry: StepEntry) -> ProcessState:
        """Whether anything of the step still runs: its process, or processes that it left behind."""
        if not entry.mark and (entry.last is StepStatus.FAILED or _is_this_process(entry)):
            # It ran inside a program that recorded its end, or inside this process, which never probes a running step.
            return ProcessState.DEAD
        state = _probe_process(entry)
        if (
            state is ProcessState.DEAD
            and entry.mark
            and proc.processes_with_variable(MARK_VARIABLE, entry.mark, os.getuid())
        ):
            return ProcessState.ALIVE
        return state

    def wait(self, entry: StepEntry, seconds: float) -> ProcessState:
        """Its state once it is no longer alive, or at the end of that time."""
        deadline = time.monotonic() + max(seconds, GATE_SECONDS)
        while (state := self.probe(entry)) is ProcessState.ALIVE and time.monotonic() < deadline:
            time.sleep(_RETRY_SECONDS)
        return state

    def terminate(self, entry: StepEntry) -> ProcessState:
        """End the processes with the step's mark; returns the state afterwards.

        A journal in a project can name any process: one without the mark gets no signal.
        """
        if entry.process is not None and entry.mark:
            run_in_thread(terminate(entry.process, is_meant=has_variable(MARK_VARIABLE, entry.mark)))
        if entry.mark:
            run_in_thread(terminate_marked(MARK_VARIABLE, entry.mark))
        return self.probe(entry)

    def query_remote(self, step: str, entry: StepEntry) -> RemoteAnswer:
        """The answer of the other side: from the program's own function first, then from the step's command."""
        if self._query is not None:
            answer = _call_query(self._query, step, entry.key, self._query_seconds)
            if answer is not RemoteAnswer.UNKNOWN:
                return answer
        if not entry.query:
            return RemoteAnswer.UNKNOWN
        return _ANSWERS.get(self._run(entry.query, step, entry, self._query_seconds), RemoteAnswer.UNKNOWN)

    def undo(self, step: str, entry: StepEntry, log: str) -> bool:
        """Run the step's undo command, with its output in `log` below the root; returns whether it succeeded."""
        path = self._root / log
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        _open_log(path).close()
        # Into a file, not a pipe: much output must not end an undo.
        logged = ["sh", "-c", 'exec "$@" >>"$0" 2>&1', str(path), *entry.undo]
        return bool(entry.undo) and self._run(logged, step, entry, UNDO_SECONDS_MAX) == 0

    def clean(self, entry: StepEntry) -> tuple[str, ...]:
        """Remove the step's declared temporary files; returns those that existed. Raises OSError and OutsideRoot."""
        removed = []
        for name in entry.temp:
            path = resolve_inside(self._root, name)
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
            elif path.exists() or path.is_symlink():
                path.unlink()
            else:
                continue
            removed.append(name)
        return tuple(removed)

    def _run(self, argv: Sequence[str], step: str, entry: StepEntry, seconds: float) -> int:
        given = agent_environ(os.environ) if self._environ is None else self._environ
        environ = {**given, "WAKEFUL_STEP": step, KEY_VARIABLE: entry.key or ""}
        command = ["env", "-C", str(self._root), "--", *argv]
        try:
            answer = run_in_thread(run_command(command, seconds, environ=environ, with_children=True))
        except OSError:
            return -1
        return -1 if answer.exit_code is None else answer.exit_code


def run_in_thread(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine in an event loop and thread of its own: callers may be inside another loop."""
    results: list[T] = []
    problems: list[BaseException] = []

    def run() -> None:
        try:
            results.append(asyncio.run(coroutine))
        except BaseException as problem:  # noqa: BLE001 - raised again in the waiting thread
            problems.append(problem)

    thread = threading.Thread(target=run, name="wakeful-journal")
    thread.start()
    thread.join()
    if problems:
        raise problems[0]
    return results[0]


def _is_this_process(entry: StepEntry) -> bool:
    return entry.process is not None and entry.process == proc.identify_or_none(os.getpid())


def _probe_process(entry: StepEntry) -> ProcessState:
    process = entry.process
    if process is not None:
        return proc.state_of(process)
    if entry.pid is None:
        return ProcessState.UNKNOWN
    # A bare pid: if no process has it, the step's process has ended; a process that has it proves nothing.
    try:
        return ProcessState.DEAD if proc.identify(entry.pid) is None else ProcessState.UNKNOWN
    except proc.ProcessHidden:
        return ProcessState.UNKNOWN


def _call_query(query: Query, step: str, key: str | None, seconds: float) -> RemoteAnswer:
    """The function's answer; UNKNOWN if it is late or invalid."""
    answers: list[object] = []

    def ask() -> None:
        # An exception is no answer.
        with suppress(Exception):
            answer = query(step, key)
            answers.append(
                asyncio.run(_await_within(answer, seconds)) if asyncio.iscoroutine(answer) else answer
            )

    thread = threading.Thread(target=ask, name="wakeful-query", daemon=True)
    thread.start()
    thread.join(seconds)
    try:
        return RemoteAnswer(str(answers[0])) if answers else RemoteAnswer.UNKNOWN
    except ValueError:
        return RemoteAnswer.UNKNOWN


async def _await_within(answer: Coroutine[Any, Any, object], seconds: float) -> object:
    async with asyncio.timeout(seconds):
        return await answer


def _open_log(path: Path) -> Any:
    return os.fdopen(
        os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600), "ab"
    )
