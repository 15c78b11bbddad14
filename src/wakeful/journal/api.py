"""Public API of the journal of a program's steps.

Steps can be resumed after a crash, and none is repeated without approval. `Journal(root)` keeps its files
under `root`. Every record is on disk before its step begins and after it ends. It needs no daemon and no
configuration.
"""

import asyncio
import os
from collections.abc import Mapping, Sequence
from os import PathLike
from pathlib import Path
from shlex import join
from types import TracebackType
from typing import Any, Self, TypedDict, Unpack

from msgspec import Struct
from msgspec.structs import replace

from wakeful.config.paths import StatePaths
from wakeful.core.errors import WorldError
from wakeful.core.redaction import redact
from wakeful.journal.checkpoint_store import REGISTRY_FOLDER, StoredJournalCheckpoints
from wakeful.journal.event_file import fingerprint, resolve_inside
from wakeful.journal.locks import register_root
from wakeful.journal.model import STALE_SECONDS, BadTrait, OnAlive, StepEffects, StepEntry, parse_step
from wakeful.journal.processes import (
    KEY_VARIABLE,
    MARK_VARIABLE,
    QUERY_SECONDS_MAX,
    GatedProcess,
    Query,
    StepProcesses,
)
from wakeful.journal.recovery import JournalCheckpoints, JournalInUse
from wakeful.journal.recovery_rules import RecoveryResult
from wakeful.journal.writer import (
    JournalClosed,
    JournalHeld,
    JournalWriter,
    KeyChanged,
    StateLost,
    StepCompleted,
    StepRuns,
)
from wakeful.linux import proc
from wakeful.linux.child_environment import given_environ

__all__ = [
    "Journal",
    "JournalClosed",
    "JournalHeld",
    "JournalInUse",
    "KeyChanged",
    "Ran",
    "StateLost",
    "Step",
    "StepCompleted",
    "StepFailed",
    "StepRuns",
    "Traits",
]
AnyPath = str | PathLike[str]


class StepFailed(WorldError):
    """Step {step} ended with exit code {exit_code}. Its output: {errors_path}"""

    code = "step-failed"


class Traits(TypedDict, total=False):
    """Declared properties of a step. Without `effects` it counts as remote.

    `undo` and `query` are commands as lists of words; a query exits with 0 for done, 10 for absent, 11 for
    partial. `temp` is removed before the step runs again.
    """

    effects: str
    key: str | None
    undo: Sequence[str]
    query: Sequence[str]
    detachable: bool
    orphanable: bool
    on_alive: str
    temp: Sequence[AnyPath]


class Ran(Struct, frozen=True):
    """A program that exited with 0, and the paths of its output."""

    step: str
    exit_code: int
    stdout_path: str
    stderr_path: str


class Journal:
    """The journal of one program; one process at a time has it.

    Without a write it is stale after 5 minutes if `kind` is `interactive`, after 30 minutes if it is `batch`.
    `register` lets the daemon recover it. `steps` is the plan for `next_step`. `query(step, key)` asks the
    other side about an interrupted step: `done`, `absent`, `partial` or `unknown`. `fresh` discards the
    earlier state.

    Opening it recovers from a crash. Raises JournalHeld while a person has to decide, JournalInUse,
    StateLost, StateForeign, StateOutdated.
    """

    def __init__(
        self,
        root: AnyPath,
        kind: str = "interactive",
        register: bool = False,
        *,
        steps: Sequence[str] = (),
        query: Query | None = None,
        query_seconds: float = QUERY_SECONDS_MAX,
        fresh: bool = False,
        checkpoints: JournalCheckpoints | None = None,
    ) -> None:
        if kind not in STALE_SECONDS:
            raise BadTrait(name="kind", allowed=" or ".join(STALE_SECONDS), shown=kind)
        self.kind = kind
        self.root = Path(os.path.realpath(root))
        self._writer = JournalWriter(
            self.root,
            kind,
            plan=[parse_step(step) for step in steps],
            processes=StepProcesses(
                self.root, query=query, query_seconds=query_seconds, environ=given_environ(os.environ)
            ),
            checkpoints=checkpoints if checkpoints is not None else StoredJournalCheckpoints(),
            fresh=fresh,
        )
        try:
            if register:
                register_root(
                    Path(StatePaths.from_environ(os.environ).state_dir) / REGISTRY_FOLDER, self.root
                )
        except BaseException:
            self.close()
            raise

    @classmethod
    async def open(
        cls, root: AnyPath, kind: str = "interactive", register: bool = False, **rest: Any
    ) -> Self:
        """Open a journal without blocking the event loop."""
        return await asyncio.to_thread(cls, root, kind, register, **rest)

    @property
    def trace_id(self) -> str:
        """Constant until the journal is opened with `fresh`; useful as part of an idempotency key."""
        return self._writer.state.trace_id

    @property
    def recovered(self) -> RecoveryResult | None:
        """The result of the last recovery, if one was needed."""
        return self._writer.last_recovery

    def is_completed(self, step: str) -> bool:
        return self._writer.is_completed(step)

    def next_step(self) -> str | None:
        """The interrupted step, else the next one of the plan, else None."""
        return self._writer.next_step()

    def step(self, name: str, **traits: Unpack[Traits]) -> "Step":
        """A step, for `with` and `async with`: completed when its block ends, failed when its block raises.

        Entering it raises StepRuns, StepCompleted, KeyChanged, and JournalHeld if an earlier attempt needs a
        decision.
        """
        return Step(self._writer, self.root, parse_step(name), self._entry(traits))

    def run(
        self,
        argv: Sequence[str],
        *,
        step: str | None = None,
        cwd: AnyPath | None = None,
        environ: Mapping[str, str] | None = None,
        **traits: Unpack[Traits],
    ) -> Ran:
        """Run a program as a step and wait for it; its output goes to `.tmp/logs`. Raises StepFailed.

        It starts after its pid is on disk, with the step's key in $WAKEFUL_JOURNAL_KEY.
        """
        running = self._launch(argv, step, cwd, environ, traits)
        try:
            exit_code = running.gated.wait()
        except BaseException as problem:
            self._writer.fail(running.step, problem)
            raise
        return self._finish_run(running, exit_code)

    async def run_async(
        self,
        argv: Sequence[str],
        *,
        step: str | None = None,
        cwd: AnyPath | None = None,
        environ: Mapping[str, str] | None = None,
        **traits: Unpack[Traits],
    ) -> Ran:
        """Like `run`, without blocking the event loop. If it is cancelled, the program is ended."""
        launching = asyncio.ensure_future(asyncio.to_thread(self._launch, argv, step, cwd, environ, traits))
        try:
            # The thread goes on after a cancellation, and the program it starts must not be left running.
            running = await asyncio.shield(launching)
            exit_code = await asyncio.to_thread(running.gated.wait)
        except BaseException as problem:
            if await _has_started(launching):
                await asyncio.to_thread(launching.result().gated.terminate)
                await asyncio.to_thread(self._writer.fail, launching.result().step, problem)
            raise
        return await asyncio.to_thread(self._finish_run, running, exit_code)

    def beat(self) -> None:
        """Report that a long step is still running: sets `last_sync` to now."""
        with self._writer.mutex:
            self._writer.write(self._writer.state)

    def close(self) -> None:
        """Release the journal; a second call does nothing."""
        self._writer.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await asyncio.to_thread(self.close)

    def _entry(self, traits: Traits) -> StepEntry:
        temp = tuple(os.fspath(path) for path in traits.get("temp", ()))
        for path in temp:
            resolve_inside(self.root, path)
        return StepEntry(
            cmd=_display_command(proc.command(os.getpid())),
            effects=_parse_enum(StepEffects, "effects", traits.get("effects", "unknown")),
            key=traits.get("key"),
            undo=_parse_command("undo", traits.get("undo", ())),
            query=_parse_command("query", traits.get("query", ())),
            detachable=traits.get("detachable", False),
            orphanable=traits.get("orphanable", False),
            on_alive=_parse_enum(OnAlive, "on_alive", traits.get("on_alive", "wait")),
            temp=temp,
        )

    def _launch(
        self,
        argv: Sequence[str],
        step: str | None,
        cwd: AnyPath | None,
        environ: Mapping[str, str] | None,
        traits: Traits,
    ) -> "_RunningStep":
        """Start the program behind its gate, and release it once its pid is on disk."""
        name = parse_step(step if step is not None else Path(argv[0]).name)
        logs = self._writer.files.paths.logs / f"{name}-{self._writer.files.stamp()}"
        output, errors = logs.with_name(f"{logs.name}.out"), logs.with_name(f"{logs.name}.err")
        with self._writer.mutex:
            entry = self._entry(traits)
            mark = f"{self.trace_id}/{name}/{self._writer.attempt_of(name, entry)}"
            marks = {MARK_VARIABLE: mark, KEY_VARIABLE: entry.key or ""}
            child_environ = given_environ(os.environ if environ is None else environ) | marks
            gated = GatedProcess(
                argv, cwd=Path(cwd or self.root), environ=child_environ, output=output, errors=errors
            )
            paths = [str(path.relative_to(self.root)) for path in (output, errors)]
            entry_of_run = replace(
                entry, cmd=_display_command(argv), mark=mark, stdout_path=paths[0], stderr_path=paths[1]
            )
            try:
                self._writer.start(name, entry_of_run, gated.process)
            except BaseException:
                gated.terminate()
                raise
        gated.release()
        return _RunningStep(name, gated, str(output), str(errors))

    def _finish_run(self, running: "_RunningStep", exit_code: int) -> Ran:
        if exit_code != 0:
            self._writer.fail(running.step, f"exit code {exit_code}")
            raise StepFailed(step=running.step, exit_code=exit_code, errors_path=running.errors)
        self._writer.complete(running.step, {"exit_code": exit_code})
        return Ran(running.step, exit_code, running.output, running.errors)


class _RunningStep(Struct, frozen=True):
    step: str
    gated: GatedProcess
    output: str
    errors: str


async def _has_started(launching: "asyncio.Future[Any]") -> bool:
    """Wait for the launch; returns whether it succeeded."""
    await asyncio.wait({launching})
    return launching.exception() is None


class Step:
    """One step of a journal, begun by `with` or `async with`."""

    def __init__(self, writer: JournalWriter, root: Path, name: str, entry: StepEntry) -> None:
        self.name = name
        self._writer = writer
        self._root = root
        self._entry = entry
        self._artefacts: set[str] = set()

    @property
    def key(self) -> str | None:
        """The idempotency key to send with the request."""
        return self._entry.key

    @property
    def attempt(self) -> int:
        return self._entry.attempt

    def artefact(self, path: AnyPath) -> None:
        """Declare a result file of this step: its hash is stored when the step ends and compared after a crash."""
        resolve_inside(self._root, path)
        self._artefacts.add(os.fspath(path))

    def __enter__(self) -> Self:
        self._entry = self._writer.start(self.name, self._entry)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None:
            self._writer.fail(self.name, error)
            return
        try:
            hashes = {path: fingerprint(resolve_inside(self._root, path)) for path in sorted(self._artefacts)}
        except OSError as problem:
            self._writer.fail(self.name, problem)
            raise
        self._writer.complete(self.name, {"artefacts": hashes} if hashes else {})

    async def __aenter__(self) -> Self:
        entering = asyncio.ensure_future(asyncio.to_thread(self.__enter__))
        try:
            # The thread goes on after a cancellation.
            return await asyncio.shield(entering)
        except asyncio.CancelledError:
            if await _has_started(entering):
                await asyncio.to_thread(
                    self._writer.cancel_start, self.name, "cancelled before its block began"
                )
            raise

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await asyncio.to_thread(self.__exit__, kind, error, trace)


def _display_command(argv: Sequence[str]) -> str:
    """A command for people: redacted, at most 2000 characters."""
    return redact(join(argv))[:2000]


def _parse_enum(values: Any, name: str, given: str) -> Any:
    try:
        return values(given)
    except ValueError as problem:
        raise BadTrait(name=name, allowed=" or ".join(values), shown=str(given)[:40]) from problem


def _parse_command(name: str, given: Sequence[str]) -> tuple[str, ...]:
    """A command as a tuple of words; a plain string is refused, because it would become a list of letters."""
    if isinstance(given, str):
        raise BadTrait(name=name, allowed="a list of words", shown=given[:40])
    return tuple(given)
