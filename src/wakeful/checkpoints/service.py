"""Opens checkpoints once, records one decision by a person, and has it carried out once, also after a kill.

The store is the authority: a checkpoint is one note, and its decision another that only the first writer
gets. At the next start, a decision that was not carried out is done after a check of the state. The
interfaces check who may decide. `CheckpointNotifier` sends one alert for each open checkpoint of a journal, whichever
program opened it, and one when it is decided; the healer sends those of agents.
"""

import asyncio
import logging
from collections.abc import Mapping
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
    """There is no checkpoint {number}. `wakeful checkpoint list --all` lists every one."""

    code = "checkpoint-not-found"
    http_status = 404


class NotOffered(OperatorError):
    """Checkpoint {number} cannot be answered with {choice}: {reason}. It offers: {offered}."""

    code = "choice-not-offered"
    http_status = 409


class AlreadyDecided(OperatorError):
    """Checkpoint {number} was {state} by {by} at {at}, which stays. Nothing was done now."""

    code = "already-decided"
    exit_code = 1
    http_status = 409


class DecisionOutcome(Struct, frozen=True):
    """What came of a decision."""

    outcome: ActionOutcome
    words: str


class DecisionResult(Struct, frozen=True):
    """A checkpoint after its decision. `changed`: it was carried out now, not before."""

    checkpoint: Checkpoint
    outcome: ActionOutcome
    words: str
    changed: bool


class CheckpointWriter(Protocol):
    """Where people find them to read. Raises WorldError where nothing can be written."""

    async def is_free(self, checkpoint: Checkpoint) -> bool:
        """Whether its file can be written without taking somebody else's place."""

    async def write(self, checkpoint: Checkpoint) -> None:
        """Write its file, or write it anew."""


class DecisionExecutor(Protocol):
    """Does what was decided about one kind of checkpoint."""

    async def carry_out(self, checkpoint: Checkpoint, choice: ChoiceName) -> DecisionOutcome:
        """Look first what of it is done: after a crash it is asked again. What it raises is tried again later."""


class _StoredDecision(Struct, frozen=True):
    choice: ChoiceName
    by: str
    at: float


class _StoredCheckpoint(Struct, frozen=True):
    """What the store has: a checkpoint that is still open there with a decision has not been carried out."""

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
# A kind nobody here carries out: whoever asks the store next does.
_RECORDED_ONLY: Final = DecisionOutcome(
    ActionOutcome.CONFIRMED, "the decision is kept: `wakeful recover` goes on from it"
)


class Checkpoints:
    """Every checkpoint of one store."""

    def __init__(self, store: Store, clock: Clock, files: CheckpointWriter) -> None:
        self._store = store
        self._clock = clock
        self._files = files
        # Set by whoever joins the parts; a kind without one is only written down.
        self.executors: dict[CheckpointKind, DecisionExecutor] = {}
        # How many waited for somebody when the store was last asked: other programs open some, too.
        self.open_count = 0
        self._opening = asyncio.Lock()
        self._executions: dict[int, asyncio.Task[DecisionOutcome]] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    async def list_checkpoints(self, *, everything: bool = True) -> list[Checkpoint]:
        """All of them, or those somebody has to decide; oldest first."""
        kept = await self._load_all()
        return [each.current for each in kept.values() if everything or each.current.is_open]

    async def get(self, number: int) -> Checkpoint:
        """Raises CheckpointNotFound."""
        return (await self._load(number)).current

    async def open(self, draft: Checkpoint) -> Checkpoint:
        """Ask a person, durably; an open checkpoint that asks the same is returned instead. The draft's number is 0."""
        async with self._opening:
            known = await self._load_all()
            same = _same(draft, known)
            if same is None:
                same = await self._add(draft, max(known, default=0) + 1)
                self.open_count += 1
            await self._write(same)
        return same

    async def record(self, number: int, choice: ChoiceName, by: str) -> Checkpoint:
        """Keep what was decided, durably; the first one counts. Raises CheckpointNotFound, NotOffered, AlreadyDecided."""
        checkpoint = await self.get(number)
        if checkpoint.choice(choice) is None:
            raise not_offered_error(checkpoint, choice)
        decision = _StoredDecision(choice, safe(by), round(self._clock.now().wall, 3))
        note = Note(DECISION_KIND, _key(number), msgspec.json.encode(decision))
        if checkpoint.is_open and await self._store.save_new_note(note):
            fault_point("checkpoint.decided")
        decided = await self.get(number)
        if decided.state is not STATE_AFTER[choice]:
            raise _already_decided(decided)
        return decided

    async def decide(self, number: int, choice: ChoiceName, by: str) -> DecisionResult:
        """Keep it and carry it out, once. Raises what `record` raises, and what its carrier does."""
        checkpoint = await self.record(number, choice, by)
        kept = await self._load(number)
        if not kept.stored.is_open:
            return DecisionResult(
                checkpoint, ActionOutcome.CONFIRMED, "that was done then, nothing now", changed=False
            )
        done = await asyncio.shield(self._start_execution(checkpoint, choice))
        return DecisionResult(checkpoint, done.outcome, done.words, changed=True)

    async def mark_done(self, number: int) -> None:
        """What was decided is done."""
        kept = await self._load(number)
        if kept.stored.is_open and kept.decision is not None:
            await self._store.save_note(_note(kept.current))
            await self._write(kept.current)

    async def restore(self) -> None:
        """Carry out what an earlier daemon had no time for; by tasks of their own, so that doors open meanwhile."""
        for kept in (await self._load_all()).values():
            if kept.stored.is_open:
                task = asyncio.create_task(self._finish(kept))
                self._tasks.add(task)
                task.add_done_callback(self._tasks.discard)

    async def close(self) -> None:
        """What is being carried out is left to the next start."""
        running = [*self._tasks, *self._executions.values()]
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)

    async def _finish(self, kept: _StoredCheckpoint) -> None:
        if kept.decision is None:
            # It may have been killed before its file was there.
            await self._write(kept.current)
            return
        try:
            await asyncio.shield(self._start_execution(kept.current, kept.decision.choice))
        except WakefulError as error:
            log.warning("checkpoint %s could not be carried out: %s", kept.current.number, error)

    def _start_execution(self, checkpoint: Checkpoint, choice: ChoiceName) -> asyncio.Task[DecisionOutcome]:
        """One at a time: whoever comes later waits for the same."""
        running = self._executions.get(checkpoint.number)
        if running is None:
            running = asyncio.create_task(self._execute(checkpoint, choice))
            self._executions[checkpoint.number] = running
            running.add_done_callback(lambda _done: self._executions.pop(checkpoint.number, None))
        return running

    async def _execute(self, checkpoint: Checkpoint, choice: ChoiceName) -> DecisionOutcome:
        carrier = self.executors.get(checkpoint.kind)
        done = await carrier.carry_out(checkpoint, choice) if carrier is not None else _RECORDED_ONLY
        fault_point("checkpoint.carried")
        await self.mark_done(checkpoint.number)
        return done

    async def _add(self, draft: Checkpoint, number: int) -> Checkpoint:
        """With the first number that nobody has, here or in the folder of its file."""
        now = self._clock.now().wall
        while True:
            assert number <= NUMBER_MAX, "a million checkpoints"
            added = number_draft(draft, number, now)
            if await self._files.is_free(added) and await self._store.save_new_note(_note(added)):
                fault_point("checkpoint.opened")
                return added
            # Another daemon of this store may have asked the same a moment before.
            theirs = _same(draft, await self._load_all())
            if theirs is not None:
                return theirs
            number += 1

    async def _write(self, checkpoint: Checkpoint) -> None:
        try:
            await self._files.write(checkpoint)
        except WorldError as error:
            # The store has it, and every door shows it.
            log.warning("%s", error)

    async def _load(self, number: int) -> _StoredCheckpoint:
        kept = (await self._load_all()).get(number)
        if kept is None:
            raise CheckpointNotFound(number=number)
        return kept

    async def _load_all(self) -> Mapping[int, _StoredCheckpoint]:
        decisions = {
            note.key: decision
            for note, decision in decode_notes(await self._store.notes(DECISION_KIND), _decode_decision)
        }
        stored = decode_note_values(await self._store.notes(KIND), _decode)
        kept = {each.number: _StoredCheckpoint(each, decisions.get(_key(each.number))) for each in stored}
        self.open_count = sum(each.current.is_open for each in kept.values())
        return kept


def _same(draft: Checkpoint, known: Mapping[int, _StoredCheckpoint]) -> Checkpoint | None:
    """The open one that asks the same."""
    shown = (each.current for each in known.values())
    return next((each for each in shown if each.is_open and is_about_the_same(each, draft)), None)


def _key(number: int) -> str:
    return f"{number:06d}"


def _note(checkpoint: Checkpoint) -> Note:
    return Note(KIND, _key(checkpoint.number), msgspec.json.encode(checkpoint))


def not_offered_error(checkpoint: Checkpoint, choice: ChoiceName) -> WakefulError:
    """Why this cannot be chosen, or cannot any more."""
    if not checkpoint.is_open:
        return _already_decided(checkpoint)
    offered = ", ".join(each.name for each in checkpoint.choices)
    rollback = choice is ChoiceName.ROLLBACK
    reason = "nobody said how this could be undone" if rollback else "no step or call was cut off"
    return NotOffered(number=checkpoint.number, choice=choice, reason=reason, offered=offered)


def _already_decided(checkpoint: Checkpoint) -> AlreadyDecided:
    state, at = checkpoint.state.replace("_", " "), checkpoint.decided_at
    stamp = iso(at) if at is not None else "an unknown time"
    return AlreadyDecided(number=checkpoint.number, state=state, by=checkpoint.decided_by, at=stamp)


NOTIFIED_KIND: Final = "checkpoint-told"
INTERVAL_SECONDS: Final = 30.0
_EPISODE_PREFIX: Final = "checkpoint/"


class CheckpointNotifier:
    """One for each daemon; several on one store tell each checkpoint once."""

    def __init__(self, checkpoints: Checkpoints, notifier: Notifier, store: Store, clock: Clock) -> None:
        self._checkpoints = checkpoints
        self._notifier = notifier
        self._store = store
        self._clock = clock

    async def run(self) -> None:
        """Look again and again, until cancelled."""
        while True:
            await self.check()
            await self._clock.sleep(INTERVAL_SECONDS)

    async def check(self) -> None:
        """Owe what nobody was told of, and the end of what was decided."""
        journals = [
            each for each in await self._checkpoints.list_checkpoints() if each.kind is CheckpointKind.JOURNAL
        ]
        told = {note.key for note in await self._store.notes(NOTIFIED_KIND)}
        for each in journals:
            if each.is_open and _notified_key(each) not in told:
                await self._notify(each)
        decided = {_episode(each): each for each in journals if not each.is_open}
        for episode in (owed.alert.episode for owed in self._notifier.open_alerts(_EPISODE_PREFIX)):
            if episode in decided:
                await self._notifier.resolve(episode, _resolved_text(decided[episode]))

    async def _notify(self, checkpoint: Checkpoint) -> None:
        """Owed first and noted then: killed in between, the outbox knows the episode. Without a channel it waits."""
        episode = _episode(checkpoint)
        topic = Topic((AlertCode.CHECKPOINT,), checkpoint.project)
        text = _alert_text(checkpoint)
        await self._notifier.raise_alert(episode, text, topic, kind=AlertKind.NEEDS_YOU)
        if self._notifier.open_alerts(episode):
            await self._store.save_new_note(Note(NOTIFIED_KIND, _notified_key(checkpoint), b""))


def _notified_key(checkpoint: Checkpoint) -> str:
    return str(checkpoint.number)


def _episode(checkpoint: Checkpoint) -> str:
    # The slash at its end keeps 1 apart from 10.
    return f"{_EPISODE_PREFIX}{checkpoint.number}/"


def _alert_text(checkpoint: Checkpoint) -> str:
    first, *others = checkpoint.may_have or ("nothing is known",)
    return checkpoint_text(
        checkpoint.project or checkpoint.subject,
        where=f"journal {checkpoint.subject}",
        since=iso(checkpoint.opened_at),
        doubt=f"{first}{f' (and {len(others)} more)' if others else ''}",
        number=checkpoint.number,
    )


def _resolved_text(checkpoint: Checkpoint) -> str:
    did = f"{checkpoint.state.replace('_', ' ')} by {checkpoint.decided_by}"
    what = f"{checkpoint.project or checkpoint.subject}, checkpoint {checkpoint.number}"
    return resolved_text(what, iso(checkpoint.opened_at), because=did)
