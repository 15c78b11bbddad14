"""Drafts the checkpoint of an interrupted session: its remote calls, possible effects and choices. Pure.

Sessions of a queue have their own choices: the message is tried again, not the conversation.
"""

from collections.abc import Iterator, Sequence

from wakeful.checkpoints.model import Checkpoint, CheckpointChoice, CheckpointKind, ChoiceName
from wakeful.core.clock import iso
from wakeful.effects.rules import MEANINGS, Effect
from wakeful.healing.case import HealingCase
from wakeful.judging.evidence import Orphan
from wakeful.judging.interrupted_calls import InterruptedCall
from wakeful.judging.wording import quote


def session_draft(
    case: HealingCase, calls: Sequence[InterruptedCall], done: Sequence[str], orphans: Sequence[Orphan]
) -> Checkpoint:
    """`done` are the returned calls with remote effects; `orphans` are processes that still run."""
    return Checkpoint(
        number=0,
        kind=CheckpointKind.SESSION,
        subject=case.session_id,
        project=case.project,
        opened_at=case.opened_at,
        happened=tuple(done),
        may_have=tuple(map(_describe_call, calls)),
        did_not=tuple(_not_begun(calls)),
        choices=(_continue(orphans), _done(orphans), _abort(orphans)),
        trace_id=case.work,
    )


def queue_draft(
    *,
    session_id: str,
    project: str,
    work: str,
    reason: str,
    calls: Sequence[InterruptedCall],
    done: Sequence[str],
) -> Checkpoint:
    """`work` names the attempt; `reason` says why it waits, also if no call was interrupted."""
    count_as_done = (_queue_done(),) if calls else ()
    return Checkpoint(
        number=0,
        kind=CheckpointKind.QUEUE,
        subject=session_id,
        project=project,
        opened_at=0.0,
        happened=tuple(done),
        may_have=tuple(map(_describe_call, calls)) or (f"nothing elsewhere, but {reason}",),
        did_not=tuple(_not_begun(calls)),
        choices=(_queue_continue(calls), *count_as_done, _queue_abort()),
        trace_id=work,
    )


def _queue_continue(calls: Sequence[InterruptedCall]) -> CheckpointChoice:
    briefing = " The next attempt gets a note about the interrupted calls, each of which may have happened; it may repeat them."
    return CheckpointChoice(ChoiceName.CONTINUE, f"its message is enqueued again.{briefing if calls else ''}")


def _queue_done() -> CheckpointChoice:
    return CheckpointChoice(
        ChoiceName.DONE,
        "you checked, and each of these calls has happened. Its message is enqueued again, and the next attempt is"
        " instructed not to repeat them.",
    )


def _queue_abort() -> CheckpointChoice:
    return CheckpointChoice(
        ChoiceName.ABORT,
        "its job is marked as failed and the chat gets a message that it could not recover. Nothing is repeated and nothing is"
        " undone.",
    )


def _describe_call(call: InterruptedCall) -> str:
    verdict = call.verdict
    begun = f"{call.tool} {quote(verdict.words)}, begun {iso(call.since.wall)}"
    return f"{begun}: {verdict.effect} ({MEANINGS[verdict.rule].says})"


def _not_begun(calls: Sequence[InterruptedCall]) -> Iterator[str]:
    yield "the rest of its turn: no other call was started"
    local = sum(each.verdict.effect is Effect.LOCAL for each in calls)
    if local:
        yield f"nothing elsewhere by the {local} local call{'' if local == 1 else 's'} above"


def _continue(orphans: Sequence[Orphan]) -> CheckpointChoice:
    return CheckpointChoice(
        ChoiceName.CONTINUE,
        "the conversation continues. Its agent gets a note about the interrupted calls, each of which may have happened; it may"
        f" do them again.{_orphans_text(orphans, ' first')}",
    )


def _done(orphans: Sequence[Orphan]) -> CheckpointChoice:
    return CheckpointChoice(
        ChoiceName.DONE,
        "you checked, and each of these calls has happened. The conversation continues, and its agent is instructed"
        f" not to repeat them.{_orphans_text(orphans, ' first')}",
    )


def _abort(orphans: Sequence[Orphan]) -> CheckpointChoice:
    return CheckpointChoice(
        ChoiceName.ABORT,
        "it stays stopped and this task is given up. Nothing is repeated and nothing is undone: Wakeful has no way"
        f" to undo these calls.{_orphans_text(orphans)}",
    )


def _orphans_text(orphans: Sequence[Orphan], when: str = "") -> str:
    """A sentence about processes that still run; it names only one, because long lines are cut."""
    if not orphans:
        return ""
    one, others = orphans[0], len(orphans) - 1
    more = f" and {others} more" if others else ""
    return f" What still runs is ended{when}: {quote(one.command)} (process {one.process.pid}){more}."
