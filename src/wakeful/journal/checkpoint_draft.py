"""Drafts the checkpoints of an interrupted journal.

A checkpoint lists completed steps, possible effects, steps that were not begun, and the choices with their
consequences. Each is about one step, so that several interrupted steps are decided separately; changed files
share one.
"""

import shlex
from collections.abc import Sequence

from wakeful.checkpoints.model import Checkpoint, CheckpointChoice, CheckpointKind, ChoiceName
from wakeful.core.process import ProcessState
from wakeful.core.redaction import redact
from wakeful.journal.model import SessionState, StepEntry
from wakeful.journal.recovery_rules import StepAction, StepOutcome, Suspect

NEEDS_CHECKPOINT = frozenset({StepAction.CHECKPOINT, StepAction.ROLLBACK})


def draft_checkpoints(
    root: str,
    state: SessionState,
    outcomes: Sequence[StepOutcome],
    undecided: Sequence[StepOutcome],
    suspects: Sequence[Suspect],
    torn: str | None,
) -> list[Checkpoint]:
    """One draft for each step in `undecided`, and one for changed files; the first also reports `torn`.

    The store sets numbers and times when it opens them.
    """
    questions: list[tuple[Sequence[StepOutcome], Sequence[Suspect]]] = [([each], ()) for each in undecided]
    if suspects or (torn is not None and not undecided):
        questions.append(((), suspects))
    drafts = []
    for number, (steps, files) in enumerate(questions):
        notes = [torn] if torn is not None and number == 0 else []
        drafts.append(_draft_checkpoint(root, state, outcomes, steps, files, notes))
    return drafts


def _draft_checkpoint(
    root: str,
    state: SessionState,
    outcomes: Sequence[StepOutcome],
    undecided: Sequence[StepOutcome],
    suspects: Sequence[Suspect],
    notes: Sequence[str],
) -> Checkpoint:
    entries = {each.step: state.process_map[each.step] for each in undecided}
    may_have = [_may_have_line(each, entries[each.step]) for each in undecided]
    may_have += [f"{_file_prefix(each)} {each.reason}" for each in suspects]
    return Checkpoint(
        number=0,
        kind=CheckpointKind.JOURNAL,
        subject=root,
        project=root.rpartition("/")[2],
        opened_at=0.0,
        happened=tuple(f"step {step} is completed" for step in state.steps_completed),
        may_have=(*may_have, *notes),
        did_not=tuple(_did_not_lines(state, outcomes)),
        choices=tuple(_choices(undecided, entries, suspects)),
        trace_id=state.trace_id,
    )


def asks_about_step(checkpoint: Checkpoint, step: str, attempt: int) -> bool:
    prefix = redact(_step_prefix(step, attempt))
    return any(line.startswith(prefix) for line in checkpoint.may_have)


def asks_about_file(checkpoint: Checkpoint, suspect: Suspect) -> bool:
    prefix = redact(_file_prefix(suspect))
    return any(line.startswith(prefix) for line in checkpoint.may_have)


def _file_prefix(suspect: Suspect) -> str:
    return f"{suspect.path} of step {suspect.step}:"


def _step_prefix(step: str, attempt: int) -> str:
    return f"step {step}, attempt {attempt},"


def _may_have_line(outcome: StepOutcome, entry: StepEntry) -> str:
    key = "no idempotency key" if entry.key is None else f"idempotency key {entry.key}"
    process = f"its process {entry.pid} is {outcome.sight}"
    lives = "; it is still running" if outcome.sight is ProcessState.ALIVE else ""
    logs = f"; it wrote {entry.stdout_path}" if entry.stdout_path else ""
    prefix = _step_prefix(outcome.step, outcome.attempt)
    return f"{prefix} {entry.effects} effects, {key}: {outcome.reason}; {process}{lives}{logs}"


def _did_not_lines(state: SessionState, outcomes: Sequence[StepOutcome]) -> list[str]:
    rerun = [
        f"step {each.step} did not end and is run again"
        for each in outcomes
        if each.course is StepAction.RERUN
    ]
    then = [entry.then for entry in state.process_map.values() if entry.then is not None]
    return rerun + [f"step {step} and the steps after it were not started" for step in then[-1:]]


def _choices(
    undecided: Sequence[StepOutcome], entries: dict[str, StepEntry], suspects: Sequence[Suspect]
) -> list[CheckpointChoice]:
    names = ", ".join(entries) or "what follows"
    pids = ", ".join(str(entries[each.step].pid) for each in undecided if each.sight is ProcessState.ALIVE)
    running = f"What still runs (process {pids})" if pids else ""
    end_note = f" {running} is ended first." if running else ""
    leave_note = f" {running} is left alone." if running else ""
    file_note = (
        f" The journal continues without {', '.join(each.path for each in suspects)}." if suspects else ""
    )
    repeat_note = " If it has happened already, it happens twice." if entries else ""
    consequence = f"{names} is run again from its start.{repeat_note}{end_note}{file_note}"
    choices = [CheckpointChoice(ChoiceName.CONTINUE, consequence)]
    if entries:
        consequence = (
            f"you checked, and it has happened: {names} counts as completed and is not run again; the journal continues"
            f" after it. If it has not happened, it never will.{leave_note}{file_note}"
        )
        choices.append(CheckpointChoice(ChoiceName.DONE, consequence))
    commands = tuple(shlex.join(entry.undo) for entry in entries.values() if entry.undo)
    if commands:
        consequence = f"these commands undo {names}; after that it counts as not started.{end_note}"
        choices.append(CheckpointChoice(ChoiceName.ROLLBACK, consequence, commands))
    choices.append(
        CheckpointChoice(
            ChoiceName.ABORT, f"nothing is run and nothing undone; the journal stays closed.{leave_note}"
        )
    )
    return choices
