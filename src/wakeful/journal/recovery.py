"""Recovers a journal after a crash in eight fixed steps, and reports each one as it begins.

The rules of `recovery_rules.py` decide. Recovery runs no step of the program: it settles what is known, opens
checkpoints for the rest, and leaves a state from which the program can continue. If it is killed, the next
recovery starts from the beginning and comes to the same result.
"""

from collections.abc import Callable, Sequence
from contextlib import suppress
from shlex import join
from typing import Final, Protocol

from msgspec.structs import replace

from wakeful.checkpoints.model import NUMBER_MAX, Checkpoint, CheckpointKind, CheckpointState, file_name
from wakeful.core.errors import WorldError
from wakeful.core.fault_points import fault_point
from wakeful.core.process import ProcessState
from wakeful.core.redaction import redact
from wakeful.journal.checkpoint_draft import (
    NEEDS_CHECKPOINT,
    asks_about_file,
    asks_about_step,
    draft_checkpoints,
)
from wakeful.journal.event_file import EventLogSlice
from wakeful.journal.files import AcquiredLock, RootFiles
from wakeful.journal.model import (
    OnAlive,
    SessionState,
    StateOutdated,
    StateTorn,
    StepEntry,
    StepStatus,
    Trace,
    reconcile,
    without_completed,
)
from wakeful.journal.processes import StepProcesses
from wakeful.journal.recovery_rules import (
    STATUS_OF,
    RecoveryResult,
    RecoveryStatus,
    RemoteAnswer,
    StepAction,
    StepDecision,
    StepOutcome,
    Suspect,
    decide_step,
    worst_status,
)

STEPS: Final = (
    "read the session state",
    "lock the journal",
    "look at its processes",
    "write the timeline",
    "ask a person where that is needed",
    "bring the state up to date",
    "record the outcome",
    "remove the lock",
)
AWAITING_APPROVAL: Final = "awaiting-approval"
ABORTED: Final = "aborted"
# The timeline stays short; events.ndjson has the rest.
TIMELINE_EVENTS_MAX: Final = 200
Progress = Callable[[int, str], None]


def no_progress(_number: int, _text: str) -> None: ...


class JournalInUse(WorldError):
    """{root} is in use by pid {pid}, which wrote {seconds:.0f} s ago. Nothing was changed. Use `--wait 60` to wait for it."""

    code = "journal-in-use"
    retryable = True


class JournalCheckpoints(Protocol):
    def open(self, draft: Checkpoint) -> Checkpoint:
        """Open a checkpoint durably; if an open one asks the same, that one is returned."""

    def find(self, number: int) -> Checkpoint | None:
        """None if this store has no checkpoint with that number."""


def recover(
    files: RootFiles,
    processes: StepProcesses,
    checkpoints: JournalCheckpoints,
    *,
    only: str | None = None,
    wait_seconds: float = 0.0,
    progress: Progress = no_progress,
) -> RecoveryResult:
    """Recover a journal after a crash: all of its steps, or only one.

    Raises StateMissing, StateForeign, RecoveryRuns, JournalInUse.
    """
    progress(1, STEPS[0])
    with suppress(StateTorn):
        # A missing or foreign state is refused before anything changes.
        files.read()
    progress(2, STEPS[1])
    with files.lock(wait_seconds) as locked:
        recovered = _Recovery(files, processes, checkpoints, wait_seconds, progress).run(locked, only)
        progress(8, STEPS[7])
    return recovered


def current_state(files: RootFiles) -> tuple[SessionState, EventLogSlice]:
    """The state with newer events and audit rows applied, and those events.

    Raises StateMissing, StateForeign, StateTorn, StateOutdated.
    """
    state = files.read()
    later = files.later_session(state.trace_id)
    if later is not None:
        raise StateOutdated(path=files.state_path, later=later)
    return apply_events(files, state), files.read_events(state.events_cursor)


def apply_events(files: RootFiles, state: SessionState) -> SessionState:
    """The state with the events and audit rows of its session applied."""
    return reconcile(without_completed(state), files.session_traces(state.trace_id))


def rebuild_state(files: RootFiles, trace_id: str) -> SessionState:
    """A session's state from events and audit rows alone."""
    return apply_events(files, SessionState(None, (), None, files.now(), trace_id, {}, 0))


class _Recovery:
    """One recovery, with the lock held."""

    def __init__(
        self,
        files: RootFiles,
        processes: StepProcesses,
        checkpoints: JournalCheckpoints,
        wait_seconds: float,
        progress: Progress,
    ) -> None:
        self._files = files
        self._processes = processes
        self._checkpoints = checkpoints
        self._wait_seconds = wait_seconds
        self._progress = progress
        self._torn_state_path: str | None = None
        self._is_aborted = False
        self._notes: list[str] = []
        self._outcomes: list[StepOutcome] = []
        self._suspects: tuple[Suspect, ...] = ()
        self._state, self._reading = self._load()

    def run(self, locked: AcquiredLock, only: str | None) -> RecoveryResult:
        if locked.owner is not None:
            owner = locked.owner
            silent_seconds = self._files.seconds_since(self._state.last_sync)
            if silent_seconds < self._files.stale_seconds(self._state.trace_id):
                raise JournalInUse(root=self._files.root, pid=owner.pid, seconds=silent_seconds)
            self._notes.append(
                f"pid {owner.pid} runs the journal and has written nothing for {silent_seconds:.0f} s: wait for it, or end it"
            )
            return self._result(RecoveryStatus.MANUAL_REVIEW, self._state.checkpoint_numbers)
        if locked.taken_over is not None:
            self._notes.append(f"took over the lock of {locked.taken_over}, which is gone")
            self._trace("recovery.lock_taken_over", None, owner=locked.taken_over)
        # The checkpoints that block this journal, without unknown ones and those of another journal.
        journal = (CheckpointKind.JOURNAL, self._files.root, self._state.trace_id)
        found = (self._checkpoints.find(number) for number in self._state.checkpoint_numbers)
        blocking = tuple(
            each for each in found if each is not None and (each.kind, each.subject, each.trace_id) == journal
        )
        self._progress(3, STEPS[2])
        for step, entry in tuple(self._state.process_map.items()):
            if entry.is_open and only in {None, step}:
                self._recover_step(step, entry, blocking)
        self._compare_files(blocking)
        self._progress(4, STEPS[3])
        self._files.append_timeline(self._timeline())
        self._progress(5, STEPS[4])
        numbers = self._pending_checkpoints(blocking)
        self._progress(6, STEPS[5])
        self._save(numbers)
        self._progress(7, STEPS[6])
        return self._conclude(numbers)

    def _load(self) -> tuple[SessionState, EventLogSlice]:
        try:
            state, reading = current_state(self._files)
        except StateTorn as problem:
            return self._rebuild_torn_state(problem)
        self._notes += reading.notes
        return state, reading

    def _rebuild_torn_state(self, problem: StateTorn) -> tuple[SessionState, EventLogSlice]:
        """Rebuild a torn state from its events; a torn state is never accepted."""
        reading = self._files.read_events(0)
        state = rebuild_state(self._files, self._files.newest_session() or self._files.new_trace_id())
        self._notes += [str(problem), *reading.notes]
        self._torn_state_path = self._files.quarantine_state()
        fault_point("journal.set_aside")
        # On disk at once: after a crash from here on, the state waits for a checkpoint that does not exist.
        self._files.write(state.with_checkpoints([NUMBER_MAX]))
        self._state = state
        self._trace("recovery.state_moved", None, reason=str(problem), moved_to=self._torn_state_path)
        return state, reading

    def _recover_step(self, step: str, entry: StepEntry, blocking: Sequence[Checkpoint]) -> None:
        state = self._processes.probe(entry)
        if state is ProcessState.ALIVE:
            patience_seconds = self._wait_seconds if entry.on_alive is OnAlive.WAIT else 0.0
            state = self._processes.wait(entry, patience_seconds)
        has_effects = entry.last in {StepStatus.STARTED, StepStatus.FAILED}
        answer = self._processes.query_remote(step, entry) if has_effects else RemoteAnswer.UNKNOWN
        decision = decide_step(entry, state, answer)
        decided = next((each for each in blocking if _is_decision_pending(each, step, entry)), None)
        if decision.course in NEEDS_CHECKPOINT and decided is not None:
            decision = self._apply_decision(step, entry, state, decided)
        action, reason = self._execute(step, entry, decision)
        self._outcomes.append(StepOutcome(step, entry.attempt, state, answer, action, reason))

    def _apply_decision(
        self, step: str, entry: StepEntry, state: ProcessState, checkpoint: Checkpoint
    ) -> StepDecision:
        """Carry out a person's decision about a step."""
        reason = f"{checkpoint.state.replace('_', ' ')} by {checkpoint.decided_by} in {file_name(checkpoint.number)}"
        self._trace(
            f"checkpoint.{checkpoint.state}",
            step,
            attempt=entry.attempt,
            number=checkpoint.number,
            by=checkpoint.decided_by,
        )
        if checkpoint.state is CheckpointState.ABORTED:
            self._state = self._state.with_entry(step, replace(entry, last=StepStatus.ABORTED))
            return StepDecision(StepAction.STOP, reason)
        if checkpoint.state is CheckpointState.COUNTED_DONE:
            return StepDecision(StepAction.COUNT_DONE, reason)
        if checkpoint.state is CheckpointState.ROLLED_BACK:
            # End the process first: it could repeat the effect after the undo.
            if state is ProcessState.ALIVE and not self._terminate(step, entry):
                return StepDecision(StepAction.CHECKPOINT, f"its process {entry.pid} could not be ended")
            log = f".tmp/logs/{step}-undo-{checkpoint.number}.out"
            if not self._undo(step, entry, checkpoint.number, log):
                return StepDecision(StepAction.ROLLBACK, f"its undo step failed and wrote {log}")
            return StepDecision(StepAction.RERUN, reason)
        return StepDecision(
            StepAction.END_AND_RERUN if state is ProcessState.ALIVE else StepAction.RERUN, reason
        )

    def _terminate(self, step: str, entry: StepEntry) -> bool:
        self._trace("recovery.process_ending", step, pid=entry.pid)
        state = self._processes.terminate(entry)
        self._trace("recovery.process_ended", step, pid=entry.pid, sight=str(state))
        return state is ProcessState.DEAD

    def _undo(self, step: str, entry: StepEntry, number: int, log: str) -> bool:
        # Written before the undo begins: an interrupted undo needs another decision.
        self._state = self._state.with_entry(step, replace(entry, last=StepStatus.UNDOING, undo_of=number))
        self._files.write(self._state)
        details = {"attempt": entry.attempt, "checkpoint": number, "log": log}
        self._trace("recovery.undo_started", step, command=redact(join(entry.undo)), **details)
        succeeded = self._processes.undo(step, entry, log)
        self._trace("recovery.undone" if succeeded else "recovery.undo_failed", step)
        return succeeded

    def _execute(self, step: str, entry: StepEntry, decision: StepDecision) -> tuple[StepAction, str]:
        action, reason = decision.course, decision.reason
        if action is StepAction.END_AND_RERUN and not self._terminate(step, entry):
            return StepAction.CHECKPOINT, f"its process {entry.pid} could not be ended"
        if action in {StepAction.RERUN, StepAction.END_AND_RERUN}:
            removed = self._processes.clean(entry)
            self._trace("recovery.cleared", step, attempt=entry.attempt, reason=reason, removed=list(removed))
            self._state = self._state.with_entry(step, replace(entry, last=StepStatus.CLEARED))
        elif action in {StepAction.COUNT_DONE, StepAction.LEAVE}:
            self._trace("action.completed", step, attempt=entry.attempt, counted=reason)
            self._state = self._state.with_completed(step)
        return action, reason

    def _compare_files(self, blocking: Sequence[Checkpoint]) -> None:
        for each in self._files.find_suspects(self._state.trace_id):
            self._trace(
                "recovery.suspect", each.step, path=each.path, reason=each.reason, moved_to=each.moved_to
            )
            if any(
                checkpoint.state in _CONTINUING_STATES and asks_about_file(checkpoint, each)
                for checkpoint in blocking
            ):
                self._trace("artefact.accepted", None, paths=[each.path])
            else:
                self._suspects = (*self._suspects, each)

    def _pending_checkpoints(self, blocking: Sequence[Checkpoint]) -> tuple[int, ...]:
        """The numbers of the checkpoints that need a decision now."""
        self._is_aborted = any(each.state is CheckpointState.ABORTED for each in blocking)
        waiting = [each for each in blocking if each.is_open or each.state is CheckpointState.ABORTED]
        if not self._is_aborted:
            waiting += map(self._open_checkpoint, self._new_drafts(waiting, self._torn_note(blocking)))
        return tuple(each.number for each in waiting)

    def _new_drafts(self, blocking: Sequence[Checkpoint], torn: str | None) -> list[Checkpoint]:
        """Drafts for the questions that are in no checkpoint yet."""
        undecided = [
            each
            for each in self._outcomes
            if each.course in NEEDS_CHECKPOINT
            and not any(asks_about_step(one, each.step, each.attempt) for one in blocking)
        ]
        suspects = [
            each for each in self._suspects if not any(asks_about_file(one, each) for one in blocking)
        ]
        return draft_checkpoints(self._files.root, self._state, self._outcomes, undecided, suspects, torn)

    def _torn_note(self, blocking: Sequence[Checkpoint]) -> str | None:
        """The note that a torn state needs a person, also if its recovery was interrupted; None without one."""
        if self._torn_state_path is not None:
            return f"the state was torn and was moved to {self._torn_state_path} now: its events say what stands here"
        if len(blocking) < len(self._state.checkpoint_numbers):
            return "the state waits for a checkpoint that this store does not know: read its files"
        return None

    def _open_checkpoint(self, draft: Checkpoint) -> Checkpoint:
        opened = self._checkpoints.open(draft)
        self._trace("checkpoint.opened", None, number=opened.number, file=file_name(opened.number))
        return opened

    def _save(self, numbers: Sequence[int]) -> None:
        entries = self._state.process_map
        open_steps = [step for step, each in entries.items() if each.is_open]
        cleared = [step for step, each in entries.items() if each.last is StepStatus.CLEARED]
        interrupted = open_steps or cleared
        following = interrupted[0] if interrupted else self._state.next_immediate_step
        end = self._files.read_events(self._reading.end).end
        self._state = replace(
            self._state.with_checkpoints(numbers),
            current_task_id=open_steps[0] if open_steps else None,
            next_immediate_step=following,
            last_sync=self._files.now(),
            events_cursor=end,
        )
        self._files.write(self._state)
        fault_point("journal.recovered")

    def _conclude(self, numbers: tuple[int, ...]) -> RecoveryResult:
        statuses = tuple(STATUS_OF[each.course] for each in self._outcomes)
        status = worst_status((*statuses, RecoveryStatus.MANUAL_REVIEW if numbers else RecoveryStatus.OK))
        recovered = self._result(status, numbers)
        self._trace(
            "session.recovered",
            None,
            status=str(status),
            approval=recovered.approval,
            checkpoint=recovered.checkpoint,
            checkpoints=list(numbers),
            next_immediate_step=recovered.next_immediate_step,
        )
        waiting = f": {', '.join(map(file_name, numbers))} waits for a person" if numbers else ""
        self._files.append_timeline([f"-> {status}{waiting}", ""])
        return recovered

    def _result(self, status: RecoveryStatus, numbers: tuple[int, ...]) -> RecoveryResult:
        first = numbers[0] if numbers else None
        return RecoveryResult(
            status=status,
            approval=self._approval(numbers),
            trace_id=self._state.trace_id,
            next_immediate_step=self._state.next_immediate_step,
            steps_completed=self._state.steps_completed,
            steps=tuple(self._outcomes),
            suspects=self._suspects,
            checkpoint=first,
            checkpoint_path=f"{self._files.root}/{file_name(first)}" if first is not None else None,
            timeline_path=self._files.timeline_path,
            notes=tuple(self._notes),
            checkpoints=numbers,
        )

    def _approval(self, numbers: Sequence[int]) -> str | None:
        if (
            any(each.last is StepStatus.ABORTED for each in self._state.process_map.values())
            or self._is_aborted
        ):
            return ABORTED
        return AWAITING_APPROVAL if numbers else None

    def _timeline(self) -> list[str]:
        traces = self._reading.traces
        left_out = len(traces) - TIMELINE_EVENTS_MAX
        lines = [f"Recovery at {self._files.now()}, trace {self._state.trace_id}"]
        lines += [f"  {left_out} earlier events"] if left_out > 0 else []
        lines += [_event_line(each) for each in traces[-TIMELINE_EVENTS_MAX:]]
        lines += [f"  ! {note}" for note in self._notes]
        lines += [f"  ! {each.path}: {each.reason}; {each.moved_to or 'nowhere'}" for each in self._suspects]
        lines += [
            f"  = step {each.step}: {each.course} ({each.reason}; process {each.sight}, other side {each.answer})"
            for each in self._outcomes
        ]
        return lines

    def _trace(self, event: str, step: str | None, **details: object) -> None:
        self._files.trace(event, self._state.trace_id, step, details)


_CONTINUING_STATES: Final = frozenset({CheckpointState.CONTINUED, CheckpointState.COUNTED_DONE})


def _is_decision_pending(checkpoint: Checkpoint, step: str, entry: StepEntry) -> bool:
    """Whether a decision still has to be carried out for this step; each decision starts an undo only once.

    A step that is not in the checkpoint, because it still ran then, needs its own checkpoint.
    """
    if checkpoint.is_open or not asks_about_step(checkpoint, step, entry.attempt):
        return False
    # Earlier versions did not record which decision started an undo.
    is_begun = entry.undo_of == checkpoint.number or (
        entry.last is StepStatus.UNDOING and entry.undo_of is None
    )
    return not (checkpoint.state is CheckpointState.ROLLED_BACK and is_begun)


def _event_line(trace: Trace) -> str:
    step = f" {trace.step}" if trace.step else ""
    attempt = f" (attempt {trace.details['attempt']})" if "attempt" in trace.details else ""
    return f"  {trace.at} {trace.event}{step}{attempt}"
