"""Command `wakeful recover`: recovers an interrupted program's journal in eight steps, without a daemon."""

import os
from pathlib import Path
from typing import Final

import click

from wakeful.checkpoints.model import file_name
from wakeful.cli.options import Number, json_option
from wakeful.cli.output import print_note, print_record
from wakeful.journal.recovery_rules import RecoveryResult, RecoveryStatus
from wakeful.linux.child_environment import given_environ

STEPS_TOTAL: Final = 8
_EXIT_CODES: Final = {
    RecoveryStatus.OK: 0,
    RecoveryStatus.MANUAL_REVIEW: 1,
    RecoveryStatus.REQUIRED_ROLLBACK: 1,
}


@click.command(epilog="Example: wakeful recover --session-state .copilot/session_state.json")
@click.option(
    "--session-state",
    type=click.Path(path_type=Path),
    required=True,
    metavar="FILE",
    help="The journal's .copilot/session_state.json.",
)
@click.option(
    "--wait",
    type=Number(0, 86_400),
    default=0.0,
    metavar="S",
    help="Seconds to wait for another recovery, for the program, and for its processes.",
)
@json_option
def recover(*, session_state: Path, wait: float, as_json: bool) -> int:
    """Recover a program's journal after a crash. Runs no step again.

    Exit 0: the program can continue. 1: needs your decision. 2: the state is missing or unreadable.
    3: another recovery or the program is running, or the disk is full; nothing was changed.
    """
    from wakeful.journal.recovery_watch import recover_journal  # noqa: PLC0415 - `--help` needs none of it

    recovered = recover_journal(
        session_state,
        wait_seconds=wait,
        progress=lambda number, words: print_note(f"{number}/{STEPS_TOTAL} {words}"),
        environ=given_environ(os.environ),
    )
    print_record(recovered, recovery_lines(recovered), as_json=as_json)
    return _EXIT_CODES[recovered.status]


def recovery_lines(recovered: RecoveryResult) -> list[str]:
    """The result as text; the next thing to do comes last."""
    lines = [f"{recovered.status}  trace {recovered.trace_id}"]
    lines += [f"  ! {each}" for each in recovered.notes]
    lines += [
        f"  step {each.step}: {each.course.replace('_', ' ')}: {each.reason}" for each in recovered.steps
    ]
    lines += [
        f"  {each.path}: {each.reason}; moved to {each.moved_to or 'nowhere'}" for each in recovered.suspects
    ]
    lines.append(f"  completed: {', '.join(recovered.steps_completed) or 'nothing'}")
    lines.append(f"  next: {recovered.next_immediate_step or 'chosen by the program'}")
    folder = str(recovered.checkpoint_path).rpartition("/")[0]
    lines += [
        f"  read {folder}/{file_name(number)}, then decide: wakeful checkpoint show {number}"
        for number in recovered.checkpoints
    ]
    return lines
