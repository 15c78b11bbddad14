"""Recovers a journal after a crash in eight fixed steps, and reports each one as it begins.

The rules of `recovery_rules.py` decide. Recovery runs no step of the program: it settles what is known, opens
checkpoints for the rest, and leaves a state from which the program can continue. If it is killed, the next
recovery starts from the beginning and comes to the same result.
"""

from collections.abc import Callable, Sequence
from contextlib import suppress
from shlex import join
from typing import Final

from msgspec.structs import replace

from wakeful.checkpoints.model import NUMBER_MAX, Checkpoint, CheckpointKind, CheckpointState, file_name
from wakeful.core.errors import WorldError
from wakeful.core.fault_points import reach
from wakeful.core.process import Process, Sight
from wakeful.core.redaction import redact
from wakeful.journal.base import CheckpointDesk, JournalFiles, Locked, Reading, StepProcesses
from wakeful.journal.checkpoint_draft import HELD, is_asked_about, is_asked_about_file, questions
from wakeful.journal.model import (
    Last,
    OnAlive,
    SessionState,
    StateOutdated,
    StateTorn,
    StepEntry,
    Trace,
    reconciled,
    without_completed,
)
from wakeful.journal.recovery_rules import (
    STATUS_OF,
    Answer,
    Course,
    Decision,
    Recovered,
    Status,
    StepOutcome,
    Suspect,
    decide_step,
    worst,
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
AWAITING: Final = "awaiting-approval"
ABORTED: Final = "aborted"
# The timeline stays short; the events hold the rest.
TIMELINE_EVENTS_MAX: Final = 200
Progress = Callable[[int, str], None]


class JournalInUse(WorldError):
    """{root} is in use by pid {pid}, which wrote {seconds:.0f} s ago. Nothing was changed; `--wait 60` waits for it."""

    code = "journal-in-use"
    retryable = True


def recover(
    files: JournalFiles,
    processes: StepProcesses,
    desk: CheckpointDesk,
    *,
    only: str | None = None,
    wait_seconds: float = 0.0,
    progress: Progress = lambda number, words: None,  # noqa: ARG005 - nobody listens
) -> Recovered:
    """Settle what a crash left behind, of all steps or of one; how that ended.

    Raises StateMissing, StateForeign, RecoveryRuns, JournalInUse.
    """
    progress(1, STEPS[0])
    with suppress(StateTorn):
        # What is missing or not ours is refused before anything is touched.
        files.read()
    progress(2, STEPS[1])
    with files.lock(wait_seconds) as locked:
        recovered = _Recovery(files, processes, desk, wait_seconds, progress).run(locked, only)
        progress(8, STEPS[7])
    return recovered


def current_state(files: JournalFiles) -> tuple[SessionState, Reading]:
    """The state with all that events and audit rows tell beyond it, and those events.

    Raises StateMissing, StateForeign, StateTorn, StateOutdated.
    """
    state = files.read()
    later = files.later_session(state.trace_id)
    if later is not None:
        raise StateOutdated(path=files.state_path, later=later)
    return updated(files, state), files.told(state.events_cursor)


def updated(files: JournalFiles, state: SessionState) -> SessionState:
    """The state with all that events and audit rows tell of its session."""
    return reconciled(without_completed(state), files.known(state.trace_id))


def rebuilt(files: JournalFiles, trace_id: str) -> SessionState:
    """A session's state as events and audit rows alone tell it."""
    return updated(files, SessionState(None, (), None, files.now(), trace_id, {}, 0))


class _Recovery:
    """One run of it, with the lock held."""

    def __init__(
        self,
        files: JournalFiles,
        processes: StepProcesses,
        desk: CheckpointDesk,
        wait_seconds: float,
        progress: Progress,
    ) -> None:
        self._files = files
        self._processes = processes
        self._desk = desk
        self._wait_seconds = wait_seconds
        self._progress = progress
        self._torn_at: str | None = None
        self._is_aborted = False
        self._notes: list[str] = []
        self._outcomes: list[StepOutcome] = []
        self._suspects: tuple[Suspect, ...] = ()
        self._state, self._reading = self._loaded()

    def run(self, locked: Locked, only: str | None) -> Recovered:
        if locked.owner is not None:
            return self._in_use(locked.owner)
        if locked.taken_over is not None:
            self._notes.append(f"took over the lock of {locked.taken_over}, which is gone")
            self._trace("recovery.lock_taken_over", None, owner=locked.taken_over)
        asked = self._asked()
        self._progress(3, STEPS[2])
        for step, entry in tuple(self._state.process_map.items()):
            if entry.is_open and only in {None, step}:
                self._settle(step, entry, asked)
        self._compare_files(asked)
        self._progress(4, STEPS[3])
        self._files.tell(self._timeline())
        self._progress(5, STEPS[4])
        numbers = self._held_by(asked)
        self._progress(6, STEPS[5])
        self._keep(numbers)
        self._progress(7, STEPS[6])
        return self._concluded(numbers)

    def _loaded(self) -> tuple[SessionState, Reading]:
        try:
            state, reading = current_state(self._files)
        except StateTorn as problem:
            return self._mended(problem)
        self._notes += reading.notes
        return state, reading

    def _mended(self, problem: StateTorn) -> tuple[SessionState, Reading]:
        """What the events tell in the place of a torn state; no torn state is ever accepted."""
        reading = self._files.told(0)
        state = rebuilt(self._files, self._files.newest_session() or self._files.new_trace_id())
        self._notes += [str(problem), *reading.notes]
        self._torn_at = self._files.set_aside()
        reach("journal.set_aside")
        # On the disk at once: whoever is killed now leaves a state that waits, for a checkpoint that nobody has.
        self._files.write(state.awaiting([NUMBER_MAX]))
        self._state = state
        self._trace("recovery.state_moved", None, reason=str(problem), moved_to=self._torn_at)
        return state, reading

    def _in_use(self, owner: Process) -> Recovered:
        silent_seconds = self._files.seconds_since(self._state.last_sync)
        if silent_seconds < self._files.stale_seconds(self._state.trace_id):
            raise JournalInUse(root=self._files.root, pid=owner.pid, seconds=silent_seconds)
        self._notes.append(
            f"pid {owner.pid} has the journal and wrote nothing for {silent_seconds:.0f} s: wait for it, or end it"
        )
        return self._result(Status.MANUAL_REVIEW, self._state.awaited)

    def _asked(self) -> tuple[Checkpoint, ...]:
        """The checkpoints that hold this journal, without those this store does not know."""
        found = (self._desk.find(number) for number in self._state.awaited)
        return tuple(each for each in found if each is not None and self._is_ours(each))

    def _is_ours(self, found: Checkpoint) -> bool:
        subject = (found.kind, found.subject, found.trace_id)
        return subject == (CheckpointKind.JOURNAL, self._files.root, self._state.trace_id)

    def _settle(self, step: str, entry: StepEntry, asked: Sequence[Checkpoint]) -> None:
        sight = self._processes.sight(entry)
        if sight is Sight.ALIVE:
            patience_seconds = self._wait_seconds if entry.on_alive is OnAlive.WAIT else 0.0
            sight = self._processes.wait(entry, patience_seconds)
        is_asked = entry.last in {Last.STARTED, Last.FAILED}
        answer = self._processes.ask(step, entry) if is_asked else Answer.UNKNOWN
        decision = decide_step(entry, sight, answer)
        word = next((each for each in asked if _answers(each, step, entry)), None)
        if decision.course in HELD and word is not None:
            decision = self._as_decided(step, entry, sight, word)
        course, reason = self._carried_out(step, entry, decision)
        self._outcomes.append(StepOutcome(step, entry.attempt, sight, answer, course, reason))

    def _as_decided(self, step: str, entry: StepEntry, sight: Sight, asked: Checkpoint) -> Decision:
        """What a person decided about a step that was held."""
        who = f"{asked.state.replace('_', ' ')} by {asked.decided_by} in {file_name(asked.number)}"
        decided = {"attempt": entry.attempt, "number": asked.number, "by": asked.decided_by}
        self._trace(f"checkpoint.{asked.state}", step, **decided)
        if asked.state is CheckpointState.ABORTED:
            self._state = self._state.with_entry(step, replace(entry, last=Last.ABORTED))
            return Decision(Course.STOP, who)
        if asked.state is CheckpointState.COUNTED_DONE:
            return Decision(Course.COUNT_DONE, who)
        if asked.state is CheckpointState.ROLLED_BACK:
            # First its end: what still runs could do it once more behind the undoing.
            if sight is Sight.ALIVE and not self._ended(step, entry):
                return Decision(Course.CHECKPOINT, f"its process {entry.pid} could not be ended")
            log = f".tmp/logs/{step}-undo-{asked.number}.out"
            if not self._undone(step, entry, asked.number, log):
                return Decision(Course.ROLLBACK, f"its undoing failed and wrote {log}")
            return Decision(Course.RERUN, who)
        return Decision(Course.END_AND_RERUN if sight is Sight.ALIVE else Course.RERUN, who)

    def _ended(self, step: str, entry: StepEntry) -> bool:
        self._trace("recovery.process_ending", step, pid=entry.pid)
        seen = self._processes.end(entry)
        self._trace("recovery.process_ended", step, pid=entry.pid, sight=str(seen))
        return seen is Sight.DEAD

    def _undone(self, step: str, entry: StepEntry, number: int, log: str) -> bool:
        # Known before it begins: cut off, an undoing is a question again.
        self._state = self._state.with_entry(step, replace(entry, last=Last.UNDOING, undo_of=number))
        self._files.write(self._state)
        details = {"attempt": entry.attempt, "checkpoint": number, "log": log}
        self._trace("recovery.undo_started", step, command=redact(join(entry.undo)), **details)
        succeeded = self._processes.undo(step, entry, log)
        self._trace("recovery.undone" if succeeded else "recovery.undo_failed", step)
        return succeeded

    def _carried_out(self, step: str, entry: StepEntry, decision: Decision) -> tuple[Course, str]:
        course, reason = decision.course, decision.reason
        if course is Course.END_AND_RERUN and not self._ended(step, entry):
            return Course.CHECKPOINT, f"its process {entry.pid} could not be ended"
        if course in {Course.RERUN, Course.END_AND_RERUN}:
            self._clear(step, entry, reason)
        elif course in {Course.COUNT_DONE, Course.LEAVE}:
            self._trace("action.completed", step, attempt=entry.attempt, counted=reason)
            self._state = self._state.completed(step)
        return course, reason

    def _clear(self, step: str, entry: StepEntry, reason: str) -> None:
        """The step may be run again, from its start."""
        removed = self._processes.clean(entry)
        self._trace("recovery.cleared", step, attempt=entry.attempt, reason=reason, removed=list(removed))
        self._state = self._state.with_entry(step, replace(entry, last=Last.CLEARED))

    def _compare_files(self, asked: Sequence[Checkpoint]) -> None:
        for each in self._files.suspects(self._state.trace_id):
            self._trace(
                "recovery.suspect", each.step, path=each.path, reason=each.reason, moved_to=each.moved_to
            )
            if any(word.state in _GOES_ON and is_asked_about_file(word, each) for word in asked):
                self._trace("artefact.accepted", None, paths=[each.path])
            else:
                self._suspects = (*self._suspects, each)

    def _held_by(self, asked: Sequence[Checkpoint]) -> tuple[int, ...]:
        """The checkpoints that have to be decided now."""
        self._is_aborted = any(each.state is CheckpointState.ABORTED for each in asked)
        held_by = [each for each in asked if each.is_open or each.state is CheckpointState.ABORTED]
        if not self._is_aborted:
            held_by += map(self._opened, self._unasked(held_by, self._torn_words(asked)))
        return tuple(each.number for each in held_by)

    def _unasked(self, asked: Sequence[Checkpoint], torn: str | None) -> list[Checkpoint]:
        """What a person has to be asked and was not yet."""
        held = [
            each
            for each in self._outcomes
            if each.course in HELD and not any(is_asked_about(one, each.step, each.attempt) for one in asked)
        ]
        suspects = [
            each for each in self._suspects if not any(is_asked_about_file(one, each) for one in asked)
        ]
        return questions(self._files.root, self._state, self._outcomes, held, suspects, torn)

    def _torn_words(self, asked: Sequence[Checkpoint]) -> str | None:
        """A torn state is held until somebody has seen it, also when its recovery was cut off."""
        if self._torn_at is not None:
            return f"the state was torn and lies in {self._torn_at} now: its events say what stands here"
        if len(asked) < len(self._state.awaited):
            return "the state waits for a checkpoint that this store does not know: look at what it says"
        return None

    def _opened(self, draft: Checkpoint) -> Checkpoint:
        opened = self._desk.open(draft)
        self._trace("checkpoint.opened", None, number=opened.number, file=file_name(opened.number))
        return opened

    def _keep(self, numbers: Sequence[int]) -> None:
        entries = self._state.process_map
        open_ones = [step for step, each in entries.items() if each.is_open]
        again = [step for step, each in entries.items() if each.last is Last.CLEARED]
        cut_off = open_ones or again
        following = cut_off[0] if cut_off else self._state.next_immediate_step
        end = self._files.told(self._reading.end).end
        self._state = replace(
            self._state.awaiting(numbers),
            current_task_id=open_ones[0] if open_ones else None,
            next_immediate_step=following,
            last_sync=self._files.now(),
            events_cursor=end,
        )
        self._files.write(self._state)
        reach("journal.recovered")

    def _concluded(self, numbers: tuple[int, ...]) -> Recovered:
        statuses = tuple(STATUS_OF[each.course] for each in self._outcomes)
        status = worst((*statuses, Status.MANUAL_REVIEW if numbers else Status.OK))
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
        self._files.tell([f"-> {status}{waiting}", ""])
        return recovered

    def _result(self, status: Status, numbers: tuple[int, ...]) -> Recovered:
        first = numbers[0] if numbers else None
        return Recovered(
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
        if any(each.last is Last.ABORTED for each in self._state.process_map.values()) or self._is_aborted:
            return ABORTED
        return AWAITING if numbers else None

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


_GOES_ON: Final = frozenset({CheckpointState.CONTINUED, CheckpointState.COUNTED_DONE})


def _answers(asked: Checkpoint, step: str, entry: StepEntry) -> bool:
    """Whether a person's word is still to be carried out for this step: an undoing is begun once for each word.

    What the checkpoint did not name (it still ran then, and nobody asked about it) is a question of its own.
    """
    if asked.is_open or not is_asked_about(asked, step, entry.attempt):
        return False
    # By whose word it was begun is not known of an undoing that an earlier version told of.
    is_begun = entry.undo_of == asked.number or (entry.last is Last.UNDOING and entry.undo_of is None)
    return not (asked.state is CheckpointState.ROLLED_BACK and is_begun)


def _event_line(trace: Trace) -> str:
    step = f" {trace.step}" if trace.step else ""
    attempt = f" (attempt {trace.details['attempt']})" if "attempt" in trace.details else ""
    return f"  {trace.at} {trace.event}{step}{attempt}"
