"""Writes an open journal for its program, in the order that makes a crash recoverable.

The state is written before the started event, and the completed event before the state: after a crash at any
point, both together show what happened. `api.py` runs the steps, and recovery decides about interrupted ones.
"""

import os
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from msgspec.structs import replace

from wakeful.core.errors import OperatorError
from wakeful.core.process import Process
from wakeful.core.redaction import redact
from wakeful.core.text import plain
from wakeful.journal.files import JournalPaths, RootFiles, own_command
from wakeful.journal.locks import JournalLock
from wakeful.journal.model import (
    SessionState,
    StateMissing,
    StateOutdated,
    StateTorn,
    StepEntry,
    StepStatus,
    start_details,
)
from wakeful.journal.processes import StepProcesses
from wakeful.journal.recovery import (
    ABORTED,
    JournalCheckpoints,
    JournalInUse,
    apply_events,
    current_state,
    rebuild_state,
    recover,
)
from wakeful.journal.recovery_rules import RecoveryResult, RecoveryStatus, StepAction
from wakeful.linux import proc

# A recovery has the journal for milliseconds; another program has it for as long as it runs.
OPEN_SECONDS_MAX: Final = 2.0


class JournalHeld(OperatorError):
    """{root} needs your decision: {reason}. Nothing was run."""

    code = "journal-held"
    exit_code = 1
    http_status = 409


class StateLost(OperatorError):
    """{path} is missing, but {events} lists steps. Restore the file, or start over with fresh=True."""

    code = "state-lost"


class StepCompleted(OperatorError):
    """Step {step} is already completed. Call is_completed({step!r}) first."""

    code = "step-completed"


class StepRuns(OperatorError):
    """This program is already running step {step}. Wait until it ends."""

    code = "step-runs"
    http_status = 409


class KeyChanged(OperatorError):
    """Step {step} was interrupted with the key {before!r}; with {now!r} it could run twice."""

    code = "key-changed"


class JournalClosed(OperatorError):
    """The journal of {root} is closed."""

    code = "journal-closed"


class JournalWriter:
    """The open journal of one root; its methods may be called from several threads."""

    def __init__(
        self,
        root: Path,
        kind: str,
        *,
        plan: Sequence[str],
        processes: StepProcesses,
        checkpoints: JournalCheckpoints,
        fresh: bool,
    ) -> None:
        """Raises JournalInUse, JournalHeld, StateLost, StateForeign, StateOutdated."""
        self.files = RootFiles(JournalPaths(root), command=own_command(), claimed=True)
        self.last_recovery: RecoveryResult | None = None
        self._root = root
        self._kind = kind
        self._plan = tuple(plan)
        self._processes = processes
        self._checkpoints = checkpoints
        self.mutex = threading.RLock()
        # Steps that this program runs now.
        self._running: set[str] = set()
        self.files.paths.create_folders()
        self._lock = JournalLock(self.files.paths.state.parent)
        self._is_open = True
        try:
            self._acquire()
            self.state = self._open_state(fresh=fresh)
            self.write(self.state)
        except BaseException:
            self.close()
            raise

    def is_completed(self, step: str) -> bool:
        return step in self.state.steps_completed

    def next_planned(self, besides: Sequence[str] = ()) -> str | None:
        """The first step of the plan that is not completed."""
        left = (step for step in self._plan if not self.is_completed(step) and step not in besides)
        return next(left, None)

    def next_step(self) -> str | None:
        """The interrupted step, else the next one of the plan, else the one in the state."""
        interrupted = [step for step in self.state.process_map if not self.is_completed(step)]
        if interrupted:
            return interrupted[0]
        step = self.next_planned() if self._plan else self.state.next_immediate_step
        return None if step is None or self.is_completed(step) else step

    def attempt_of(self, step: str, entry: StepEntry) -> int:
        """The number of the attempt that would begin now; recovers an earlier attempt first.

        Raises StepRuns, StepCompleted, KeyChanged, JournalHeld.
        """
        self._require_open()
        if step in self._running:
            raise StepRuns(step=step)
        before = self.state.process_map.get(step)
        if before is not None and before.is_open:
            try:
                self._recover(only=step)
            finally:
                # Also after JournalHeld: a later write of another step must not remove the checkpoint from the state.
                self.state = self.files.read()
            before = self.state.process_map.get(step)
        if self.is_completed(step):
            raise StepCompleted(step=step)
        if before is not None and before.key is not None and before.key != entry.key:
            raise KeyChanged(step=step, before=before.key, now=entry.key)
        return 1 if before is None else before.attempt + 1

    def start(self, step: str, entry: StepEntry, process: Process | None = None) -> StepEntry:
        """Record that the step begins, in this process or in another. Raises as `attempt_of` does."""
        with self.mutex:
            attempt = self.attempt_of(step, entry)
            process = process or proc.identify(os.getpid())
            assert process is not None, "this process exists"
            started = replace(
                entry,
                pid=process.pid,
                started=process.started,
                boot_id=process.boot_id,
                machine=process.machine,
                started_at=self.files.now(),
                attempt=attempt,
                then=self.next_planned((step,)),
            )
            state = self.state.with_entry(step, started)
            self.write(replace(state, current_task_id=step, next_immediate_step=step))
            self.files.trace("action.started", self.state.trace_id, step, start_details(started))
            self._running.add(step)
            return started

    def complete(self, step: str, details: Mapping[str, Any]) -> None:
        with self.mutex:
            entry = self.state.process_map[step]
            self._running.discard(step)
            details = {"attempt": entry.attempt, **details}
            event = self.files.append("action.completed", self.state.trace_id, step, details)
            state = self.state.with_completed(step)
            following = state.next_immediate_step if state.process_map else self.next_planned((step,))
            self.write(replace(state, next_immediate_step=following))
            self.files.database().audit([event])

    def fail(self, step: str, problem: BaseException | str) -> None:
        reason = problem if isinstance(problem, str) else f"{type(problem).__name__}: {problem}"
        self._finish(step, "action.failed", StepStatus.FAILED, {"error": plain(redact(reason), 500)})

    def cancel_start(self, step: str, reason: str) -> None:
        """Record that nothing of a started step ran, so that it may run again."""
        self._finish(step, "recovery.cleared", StepStatus.CLEARED, {"reason": reason, "removed": []})

    def _finish(self, step: str, event: str, last: StepStatus, details: Mapping[str, Any]) -> None:
        with self.mutex:
            entry = self.state.process_map[step]
            self._running.discard(step)
            details = {"attempt": entry.attempt, **details}
            trace = self.files.append(event, self.state.trace_id, step, details)
            self.write(self.state.with_entry(step, replace(entry, last=last)))
            self.files.database().audit([trace])

    def write(self, state: SessionState) -> None:
        """Replace the state; sets `last_sync` to now and the cursor to the end of the events."""
        self._require_open()
        state = replace(state, last_sync=self.files.now(), events_cursor=self.files.events_end())
        self.files.write(state)
        self.state = state

    def close(self) -> None:
        """Release the journal; a second call does nothing."""
        with self.mutex:
            if self._is_open:
                self._is_open = False
                self._lock.close()
                self.files.close()

    def _acquire(self) -> None:
        if not self._lock.acquire(OPEN_SECONDS_MAX):
            seconds = self.files.seconds_since(self.files.read().last_sync)
            raise JournalInUse(root=self._root, pid=self._lock.holder().pid, seconds=seconds)

    def _open_state(self, *, fresh: bool) -> SessionState:
        """The state to continue from: found, recovered or new."""
        try:
            found = self._clean_state()
        except StateMissing as problem:
            if fresh:
                self._recover_last(self.files.newest_session())
            elif self.files.later_session("") is not None:
                raise StateLost(path=self.files.paths.state, events=self.files.paths.events) from problem
            return self._new_state()
        except StateOutdated as problem:
            if not fresh or _is_interrupted(apply_events(self.files, self.files.read())):
                raise
            self._recover_last(str(problem.facts["later"]))
            return self._new_state()
        if found is None:
            self._recover(fresh=fresh)
            found = self.files.read()
        if fresh:
            return self._new_state()
        self._trace_session_start(found.trace_id)
        return found

    def _recover_last(self, trace_id: str | None) -> None:
        """Recover a session without a state file: a fresh start does not answer its open questions."""
        state = rebuild_state(self.files, trace_id) if trace_id is not None else None
        if state is not None and _is_interrupted(state):
            self.files.write(state)
            self._recover(fresh=True)

    def _clean_state(self) -> SessionState | None:
        """The state with newer events applied; None if it needs a recovery first."""
        try:
            found, _ = current_state(self.files)
        except StateTorn:
            return None
        return None if found.checkpoint_numbers or _is_interrupted(found) else found

    def _trace_session_start(self, trace_id: str) -> None:
        self.files.trace("session.start", trace_id, None, {"kind": self._kind, "pid": os.getpid()})

    def _new_state(self) -> SessionState:
        trace_id = self.files.new_trace_id()
        # Before its state: a state of a session without events belongs to another journal or another time.
        self._trace_session_start(trace_id)
        state = SessionState(
            current_task_id=None,
            steps_completed=(),
            next_immediate_step=self._plan[0] if self._plan else None,
            last_sync=self.files.now(),
            trace_id=trace_id,
            process_map={},
            events_cursor=self.files.events_end(),
        )
        self.files.write(state)
        return state

    def _recover(self, *, only: str | None = None, fresh: bool = False) -> None:
        """Recover interrupted steps. Raises JournalHeld if one needs a decision, unless it was aborted and `fresh` is set."""
        result = recover(
            self.files, self._processes, self._checkpoints, only=only, wait_seconds=OPEN_SECONDS_MAX
        )
        self.last_recovery = result
        discarded = fresh and result.approval == ABORTED
        if result.status is not RecoveryStatus.OK and not discarded:
            raise JournalHeld(root=self._root, reason=_wait_reason(result))

    def _require_open(self) -> None:
        if not self._is_open:
            raise JournalClosed(root=self._root)


def _is_interrupted(state: SessionState) -> bool:
    return any(each.is_open for each in state.process_map.values())


def _wait_reason(recovered: RecoveryResult) -> str:
    if recovered.checkpoint is not None:
        more = f", {len(recovered.checkpoints) - 1} more after it" if len(recovered.checkpoints) > 1 else ""
        return (
            f"read {recovered.checkpoint_path}, then `wakeful checkpoint show {recovered.checkpoint}`{more}"
        )
    unsettled = {StepAction.WAIT, StepAction.STOP}
    waiting = [f"step {each.step}: {each.reason}" for each in recovered.steps if each.course in unsettled]
    return "; ".join(waiting) or f"see {recovered.timeline_path}"
