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
from wakeful.core.process import Sight
from wakeful.journal.event_file import inside
from wakeful.journal.model import Last, StepEntry
from wakeful.journal.recovery_rules import Answer
from wakeful.linux import proc, run_command as inquiry
from wakeful.linux.child_environment import agent_environ, given_environ
from wakeful.linux.launch import find_program
from wakeful.linux.terminate import TOOL_STEPS, carries, end, sweep

MARK_VARIABLE: Final = "WAKEFUL_JOURNAL_STEP"
KEY_VARIABLE: Final = "WAKEFUL_JOURNAL_KEY"
QUERY_SECONDS_MAX: Final = 10.0
UNDO_SECONDS_MAX: Final = 600.0
# A process behind its gate ends within milliseconds of its starter; on a busy machine within this.
GATE_SECONDS: Final = 0.5
_AGAIN_SECONDS: Final = 0.02
# One line on its input lets it through, the end of its input does not.
_GATE: Final = 'read -r go || exit 125; exec "$@" </dev/null'
# Not 1 and 2, with which programs end that could not ask at all.
_ANSWERS: Final = {0: Answer.DONE, 10: Answer.ABSENT, 11: Answer.PARTIAL}

Query = Callable[[str, str | None], object]
"""Asked with a step and its key: `done`, `absent`, `partial` or `unknown`, also from a coroutine."""
T = TypeVar("T")


class GatedProcess:
    """A program that waits to be let through."""

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
            with _log(output) as out, _log(errors) as err:
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
        # Not reaped yet, so that even one that has ended already has an identity.
        self.process = proc.parse_stat(Path(f"/proc/{self._child.pid}/stat").read_bytes()).process

    def let_through(self) -> None:
        assert self._child.stdin is not None, "asked for"
        # Somebody may have ended it at the gate: its exit code says so.
        with suppress(BrokenPipeError), self._child.stdin as gate:
            gate.write(b"go\n")

    def wait(self) -> int:
        """Its exit code once it has ended; if we are stopped meanwhile, it is ended."""
        try:
            return self._child.wait()
        except BaseException:
            self.turn_away()
            raise

    def turn_away(self) -> None:
        """End it, and see it dead."""
        alone(end(self.process, TOOL_STEPS, is_meant=lambda _process: True))
        self._child.wait()
        if self._child.stdin is not None:
            with suppress(BrokenPipeError):
                self._child.stdin.close()


class StepProcesses:
    """What recovery does about the processes of one journal's steps."""

    def __init__(
        self,
        root: Path,
        *,
        query: Query | None = None,
        query_seconds: float = QUERY_SECONDS_MAX,
        environ: Mapping[str, str] | None = None,
    ) -> None:
        """`environ`: for the programs it runs; None: those variables of this process's own that agents get."""
        self._root = root
        self._environ = environ
        self._query = query
        self._query_seconds = query_seconds

    def sight(self, entry: StepEntry) -> Sight:
        """Whether anything of the step still runs: its process, or what that left behind."""
        if not entry.mark and (entry.last is Last.FAILED or _is_own(entry)):
            # It ran inside a program, which saw it end; or inside us, and what we are inside of is never asked about.
            return Sight.DEAD
        seen = _sight(entry)
        if seen is Sight.DEAD and entry.mark and proc.carriers(MARK_VARIABLE, entry.mark, os.getuid()):
            return Sight.ALIVE
        return seen

    def wait(self, entry: StepEntry, seconds: float) -> Sight:
        """What is seen of it once it is no longer alive, or at the end of that time."""
        deadline = time.monotonic() + max(seconds, GATE_SECONDS)
        while (seen := self.sight(entry)) is Sight.ALIVE and time.monotonic() < deadline:
            time.sleep(_AGAIN_SECONDS)
        return seen

    def end(self, entry: StepEntry) -> Sight:
        """End what runs of it and carries its mark; what is seen afterwards.

        A journal lies in a project and can name any process: one without the mark is not signalled.
        """
        if entry.process is not None and entry.mark:
            alone(end(entry.process, is_meant=carries(MARK_VARIABLE, entry.mark)))
        if entry.mark:
            alone(sweep(MARK_VARIABLE, entry.mark))
        return self.sight(entry)

    def ask(self, step: str, entry: StepEntry) -> Answer:
        """What the other side says of it, by the program's own function or by the step's command; never too late."""
        if self._query is not None:
            answer = _called(self._query, step, entry.key, self._query_seconds)
            if answer is not Answer.UNKNOWN:
                return answer
        if not entry.query:
            return Answer.UNKNOWN
        return _ANSWERS.get(self._ran(entry.query, step, entry, self._query_seconds), Answer.UNKNOWN)

    def undo(self, step: str, entry: StepEntry, log: str) -> bool:
        """Run the step's own way back; whether it says that it succeeded. What it says goes to `log` below the root."""
        path = self._root / log
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        _log(path).close()
        # Into a file and not to us: nobody ends an undoing because it says much.
        logged = ["sh", "-c", 'exec "$@" >>"$0" 2>&1', str(path), *entry.undo]
        return bool(entry.undo) and self._ran(logged, step, entry, UNDO_SECONDS_MAX) == 0

    def clean(self, entry: StepEntry) -> tuple[str, ...]:
        """Remove what the step declared as unfinished work; what was there. Raises OSError and OutsideRoot."""
        removed = []
        for name in entry.temp:
            path = inside(self._root, name)
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
            elif path.exists() or path.is_symlink():
                path.unlink()
            else:
                continue
            removed.append(name)
        return tuple(removed)

    def _ran(self, argv: Sequence[str], step: str, entry: StepEntry, seconds: float) -> int:
        given = agent_environ(os.environ) if self._environ is None else self._environ
        environ = {**given, "WAKEFUL_STEP": step, KEY_VARIABLE: entry.key or ""}
        asked = inquiry.ask(
            ["env", "-C", str(self._root), "--", *argv], seconds, environ=environ, with_children=True
        )
        try:
            answer = alone(asked)
        except OSError:
            return -1
        return -1 if answer.exit_code is None else answer.exit_code


def alone(coroutine: Coroutine[Any, Any, T]) -> T:
    """The coroutine's result, from a loop of its own in a thread of its own: callers may be inside another loop."""
    results: list[T] = []
    problems: list[BaseException] = []

    def run() -> None:
        try:
            results.append(asyncio.run(coroutine))
        except BaseException as problem:  # noqa: BLE001 - raised again where it is waited for
            problems.append(problem)

    thread = threading.Thread(target=run, name="wakeful-journal")
    thread.start()
    thread.join()
    if problems:
        raise problems[0]
    return results[0]


def _is_own(entry: StepEntry) -> bool:
    return entry.process is not None and entry.process == proc.identify_if_seen(os.getpid())


def _sight(entry: StepEntry) -> Sight:
    process = entry.process
    if process is not None:
        return proc.sight(process)
    if entry.pid is None:
        return Sight.UNKNOWN
    # A bare pid: nobody there proves its end, somebody there proves nothing.
    try:
        return Sight.DEAD if proc.identify(entry.pid) is None else Sight.UNKNOWN
    except proc.ProcessHidden:
        return Sight.UNKNOWN


def _called(query: Query, step: str, key: str | None, seconds: float) -> Answer:
    """A function's answer, if it comes in time and is one."""
    answers: list[object] = []

    def ask() -> None:
        # Whatever goes wrong in it is no answer.
        with suppress(Exception):
            given = query(step, key)
            answers.append(asyncio.run(_awaited(given, seconds)) if asyncio.iscoroutine(given) else given)

    thread = threading.Thread(target=ask, name="wakeful-query", daemon=True)
    thread.start()
    thread.join(seconds)
    try:
        return Answer(str(answers[0])) if answers else Answer.UNKNOWN
    except ValueError:
        return Answer.UNKNOWN


async def _awaited(given: Coroutine[Any, Any, object], seconds: float) -> object:
    async with asyncio.timeout(seconds):
        return await given


def _log(path: Path) -> Any:
    return os.fdopen(
        os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600), "ab"
    )
