"""Opens checkpoints once, records one decision by a person, and has it carried out once, also after a kill.

The store is the authority: a checkpoint is one note, and its decision another that only the first writer
can create. A decision that was not carried out is carried out at the next start, after a check of the state.
The interfaces check who may decide. `CheckpointNotifier` sends one alert for each open checkpoint of a journal,
and one when it is decided; any program may have opened it. The healer sends the alerts about agents.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping
from typing import Final, Protocol

import msgspec
from msgspec import Struct

from wakeful.alerts.model import AlertCode, AlertKind, Topic, checkpoint_text, resolved_text
from wakeful.alerts.notifier import Notifier
from wakeful.checkpoints.model import (
    NUMBER_MAX,
    STATE_AFTER,
    Checkpoint,
    CheckpointKind,
    ChoiceName,
    is_about_the_same,
    number_draft,
)
from wakeful.core.clock import Clock, iso
from wakeful.core.decoding import json_decoder
from wakeful.core.errors import OperatorError, WakefulError, WorldError
from wakeful.core.fault_points import fault_point
from wakeful.judging.session_record import safe
from wakeful.storage.base import ActionOutcome, Note, Store
from wakeful.storage.note_decoding import decode_note_values, decode_notes

KIND: Final = "checkpoint"
DECISION_KIND: Final = "checkpoint-decision"

log = logging.getLogger("wakeful.checkpoints")


class CheckpointNotFound(OperatorError):
    """No checkpoint {number}. List them with `wakeful checkpoint list --all`."""

    code = "checkpoint-not-found"
    http_status = 404


class NotOffered(OperatorError):
    """Checkpoint {number} cannot be answered with {choice}: {reason}. Possible answers: {offered}."""

    code = "choice-not-offered"
    http_status = 409


class AlreadyDecided(OperatorError):
    """Checkpoint {number} is already {state} by {by} at {at}. Nothing was changed."""

    code = "already-decided"
    exit_code = 1
    http_status = 409


class DecisionOutcome(Struct, frozen=True):
    outcome: ActionOutcome
    words: str


class DecisionResult(Struct, frozen=True):
    """A checkpoint after its decision. `changed`: it was carried out now, not before."""

    checkpoint: Checkpoint
    outcome: ActionOutcome
    words: str
    changed: bool


class CheckpointWriter(Protocol):
    """Writes the files that people read. Raises WorldError if a file cannot be written."""

    async def is_free(self, checkpoint: Checkpoint) -> bool:
        """Whether its file can be written without replacing a foreign one."""

    async def write(self, checkpoint: Checkpoint) -> None:
        """Write its file, or replace it."""


class DecisionExecutor(Protocol):
    """Carries out decisions about one kind of checkpoint."""

    async def carry_out(self, checkpoint: Checkpoint, choice: ChoiceName) -> DecisionOutcome:
        """Check first what is already done: it is called again after a crash, and later after an error."""


class _StoredDecision(Struct, frozen=True):
    choice: ChoiceName
    by: str
    at: float


class _StoredCheckpoint(Struct, frozen=True):
    """A checkpoint in the store. One that is still open there but has a decision was not carried out."""

    stored: Checkpoint
    decision: _StoredDecision | None

    @property
    def current(self) -> Checkpoint:
        decision = self.decision
        if not self.stored.is_open or decision is None:
            return self.stored
        return self.stored.with_decision(decision.choice, decision.by, decision.at)


_decode: Final = json_decoder(Checkpoint)
_decode_decision: Final = json_decoder(_StoredDecision)
# For a kind without an executor in this process: another program carries the decision out.
_RECORDED_ONLY: Final = DecisionOutcome(
    ActionOutcome.CONFIRMED, "the decision is stored: `wakeful recover` continues from it"
)


class Checkpoints:
    """The checkpoints of one store."""

    def __init__(self, store: Store, clock: Clock, files: CheckpointWriter) -> None:
        self._store = store
        self._clock = clock
        self._files = files
        # Set when the parts are wired; a kind without an executor is only recorded.
        self.executors: dict[CheckpointKind, DecisionExecutor] = {}
        # Open checkpoints at the last read of the store; other programs open some, too.
        self._open_count = 0
        self._listeners: list[Callable[[], None]] = []
        self._opening = asyncio.Lock()
        self._executions: dict[int, asyncio.Task[DecisionOutcome]] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def open_count(self) -> int:
        return self._open_count

    def subscribe(self, listener: Callable[[], None]) -> None:
        """Call it whenever the number of open checkpoints changed."""
        self._listeners.append(listener)

    def _set_open_count(self, count: int) -> None:
        if count != self._open_count:
            self._open_count = count
            for listener in self._listeners:
                listener()

    async def list_checkpoints(self, *, everything: bool = True) -> list[Checkpoint]:
        """All checkpoints, or those that need a decision; oldest first."""
        known = await self._load_all()
        return [each.current for each in known.values() if everything or each.current.is_open]

    async def get(self, number: int) -> Checkpoint:
        """Raises CheckpointNotFound."""
        return (await self._load(number)).current

    async def open(self, draft: Checkpoint) -> Checkpoint:
        """Open a checkpoint durably; an open one that asks the same is returned instead. The draft's number is 0."""
        async with self._opening:
            known = await self._load_all()
            same = _same(draft, known)
            if same is None:
                same = await self._add(draft, max(known, default=0) + 1)
                self._set_open_count(self._open_count + 1)
            await self._write(same)
        return same

    async def record(self, number: int, choice: ChoiceName, by: str) -> Checkpoint:
        """Store a decision durably; the first one counts. Raises CheckpointNotFound, NotOffered, AlreadyDecided."""
        checkpoint = await self.get(number)
        if checkpoint.choice(choice) is None:
            raise not_offered_error(checkpoint, choice)
        decision = _StoredDecision(choice, safe(by), round(self._clock.now().wall, 3))
        note = Note(DECISION_KIND, _key(number), msgspec.json.encode(decision))
        if checkpoint.is_open and await self._store.save_new_note(note):
            fault_point("checkpoint.decided")
            await self._load_all()
        decided = await self.get(number)
        if decided.state is not STATE_AFTER[choice]:
            raise _already_decided(decided)
        return decided

    async def decide(self, number: int, choice: ChoiceName, by: str) -> DecisionResult:
        """Record a decision and carry it out once. Raises the errors of `record` and of the executor."""
        checkpoint = await self.record(number, choice, by)
        current = await self._load(number)
        if not current.stored.is_open:
            return DecisionResult(
                checkpoint, ActionOutcome.CONFIRMED, "that was done then; nothing was done now", changed=False
            )
        result = await asyncio.shield(self._start_execution(checkpoint, choice))
        return DecisionResult(checkpoint, result.outcome, result.words, changed=True)

    async def mark_done(self, number: int) -> None:
        """Record that the decision was carried out."""
        known = await self._load(number)
        if known.stored.is_open and known.decision is not None:
            await self._store.save_note(_note(known.current))
            await self._write(known.current)

    async def restore(self) -> None:
        """Carry out decisions that an earlier daemon did not finish, in tasks, so that the listeners open meanwhile."""
        for known in (await self._load_all()).values():
            if known.stored.is_open:
                task = asyncio.create_task(self._finish(known))
                self._tasks.add(task)
                task.add_done_callback(self._tasks.discard)

    async def close(self) -> None:
        """Cancel running executions; the next start finishes them."""
        running = [*self._tasks, *self._executions.values()]
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)

    async def _finish(self, known: _StoredCheckpoint) -> None:
        if known.decision is None:
            # An earlier daemon may have crashed before it wrote the file.
            await self._write(known.current)
            return
        try:
            await asyncio.shield(self._start_execution(known.current, known.decision.choice))
        except WakefulError as error:
            log.warning("checkpoint %s could not be carried out: %s", known.current.number, error)

    def _start_execution(self, checkpoint: Checkpoint, choice: ChoiceName) -> asyncio.Task[DecisionOutcome]:
        """Start one execution for each checkpoint: later callers wait for the same task."""
        running = self._executions.get(checkpoint.number)
        if running is None:
            running = asyncio.create_task(self._execute(checkpoint, choice))
            self._executions[checkpoint.number] = running
            running.add_done_callback(lambda _done: self._executions.pop(checkpoint.number, None))
        return running

    async def _execute(self, checkpoint: Checkpoint, choice: ChoiceName) -> DecisionOutcome:
        executor = self.executors.get(checkpoint.kind)
        outcome = await executor.carry_out(checkpoint, choice) if executor is not None else _RECORDED_ONLY
        fault_point("checkpoint.carried")
        await self.mark_done(checkpoint.number)
        return outcome

    async def _add(self, draft: Checkpoint, number: int) -> Checkpoint:
        """Store the draft with the first number that is free in the store and in the folder of its file."""
        now = self._clock.now().wall
        while True:
            assert number <= NUMBER_MAX, "a million checkpoints"
            added = number_draft(draft, number, now)
            if await self._files.is_free(added) and await self._store.save_new_note(_note(added)):
                fault_point("checkpoint.opened")
                return added
            # Another daemon on this store may have asked the same a moment before.
            theirs = _same(draft, await self._load_all())
            if theirs is not None:
                return theirs
            number += 1

    async def _write(self, checkpoint: Checkpoint) -> None:
        try:
            await self._files.write(checkpoint)
        except WorldError as error:
            # The store has it, and every interface shows it.
            log.warning("%s", error)

    async def _load(self, number: int) -> _StoredCheckpoint:
        known = (await self._load_all()).get(number)
        if known is None:
            raise CheckpointNotFound(number=number)
        return known

    async def _load_all(self) -> Mapping[int, _StoredCheckpoint]:
        decisions = {
            note.key: decision
            for note, decision in decode_notes(await self._store.notes(DECISION_KIND), _decode_decision)
        }
        stored = decode_note_values(await self._store.notes(KIND), _decode)
        known = {each.number: _StoredCheckpoint(each, decisions.get(_key(each.number))) for each in stored}
        self._set_open_count(sum(each.current.is_open for each in known.values()))
        return known


def _same(draft: Checkpoint, known: Mapping[int, _StoredCheckpoint]) -> Checkpoint | None:
    """The open checkpoint that asks the same."""
    current = (each.current for each in known.values())
    return next((each for each in current if each.is_open and is_about_the_same(each, draft)), None)


def _key(number: int) -> str:
    return f"{number:06d}"


def _note(checkpoint: Checkpoint) -> Note:
    return Note(KIND, _key(checkpoint.number), msgspec.json.encode(checkpoint))


def not_offered_error(checkpoint: Checkpoint, choice: ChoiceName) -> WakefulError:
    """The reason why this cannot be chosen, or not any more."""
    if not checkpoint.is_open:
        return _already_decided(checkpoint)
    offered = ", ".join(each.name for each in checkpoint.choices)
    rollback = choice is ChoiceName.ROLLBACK
    reason = "no way to undo this is known" if rollback else "no step or call was interrupted"
    return NotOffered(number=checkpoint.number, choice=choice, reason=reason, offered=offered)


def _already_decided(checkpoint: Checkpoint) -> AlreadyDecided:
    state, at = checkpoint.state.replace("_", " "), checkpoint.decided_at
    stamp = iso(at) if at is not None else "an unknown time"
    return AlreadyDecided(number=checkpoint.number, state=state, by=checkpoint.decided_by, at=stamp)


NOTIFIED_KIND: Final = "checkpoint-told"
INTERVAL_SECONDS: Final = 30.0
_EPISODE_PREFIX: Final = "checkpoint/"


class CheckpointNotifier:
    """Sends alerts about checkpoints of journals; several daemons on one store send each alert once."""

    def __init__(self, checkpoints: Checkpoints, notifier: Notifier, store: Store, clock: Clock) -> None:
        self._checkpoints = checkpoints
        self._notifier = notifier
        self._store = store
        self._clock = clock

    async def run(self) -> None:
        """Check at each interval, until cancelled."""
        while True:
            await self.check()
            await self._clock.sleep(INTERVAL_SECONDS)

    async def check(self) -> None:
        """Queue alerts for new checkpoints, and resolve the alerts of decided ones."""
        journals = [
            each for each in await self._checkpoints.list_checkpoints() if each.kind is CheckpointKind.JOURNAL
        ]
        notified = {note.key for note in await self._store.notes(NOTIFIED_KIND)}
        for each in journals:
            if each.is_open and _notified_key(each) not in notified:
                await self._notify(each)
        decided = {_episode(each): each for each in journals if not each.is_open}
        for pending in self._notifier.open_alerts(_EPISODE_PREFIX):
            episode = pending.alert.episode
            if episode in decided:
                await self._notifier.resolve(episode, _resolved_text(decided[episode]))

    async def _notify(self, checkpoint: Checkpoint) -> None:
        episode = _episode(checkpoint)
        topic = Topic((AlertCode.CHECKPOINT,), checkpoint.project)
        first, *others = checkpoint.may_have or ("nothing is known",)
        text = checkpoint_text(
            checkpoint.project or checkpoint.subject,
            where=f"journal {checkpoint.subject}",
            since=iso(checkpoint.opened_at),
            doubt=f"{first}{f' (and {len(others)} more)' if others else ''}",
            number=checkpoint.number,
        )
        # The alert comes before the note: after a crash in between, the outbox has the episode and does not repeat it.
        await self._notifier.raise_alert(episode, text, topic, kind=AlertKind.NEEDS_YOU)
        # Without an alert channel there is no open alert and no note.
        if self._notifier.open_alerts(episode):
            await self._store.save_new_note(Note(NOTIFIED_KIND, _notified_key(checkpoint), b""))


def _notified_key(checkpoint: Checkpoint) -> str:
    return str(checkpoint.number)


def _episode(checkpoint: Checkpoint) -> str:
    # `open_alerts` matches prefixes: the final slash distinguishes 1 from 10.
    return f"{_EPISODE_PREFIX}{checkpoint.number}/"


def _resolved_text(checkpoint: Checkpoint) -> str:
    did = f"{checkpoint.state.replace('_', ' ')} by {checkpoint.decided_by}"
    what = f"{checkpoint.project or checkpoint.subject}, checkpoint {checkpoint.number}"
    return resolved_text(what, iso(checkpoint.opened_at), because=did)
