"""Recovers journals from outside their programs: by command, after a decision, and by the daemon's watch.

The watch recovers journals whose program is gone and reports those whose program is silent. It never runs a
step.
"""

import asyncio
import logging
import os
from collections.abc import Awaitable, Callable, Iterable, Mapping
from enum import Enum
from pathlib import Path
from typing import Final

from msgspec import Struct

from wakeful.checkpoints.model import Checkpoint, CheckpointState, ChoiceName, file_name
from wakeful.checkpoints.service import Done
from wakeful.core.clock import Clock
from wakeful.core.errors import OperatorError, WakefulError
from wakeful.core.process import Sight
from wakeful.journal.base import CheckpointDesk
from wakeful.journal.checkpoint_draft import is_asked_about
from wakeful.journal.checkpoint_store import StoreDesk
from wakeful.journal.files import JournalPlaces, RootFiles
from wakeful.journal.locks import Claim, registered_roots
from wakeful.journal.model import Last, SessionState, StateMissing, StateTorn, reconciled
from wakeful.journal.processes import Query, StepProcesses
from wakeful.journal.recovery import ABORTED, Progress, recover
from wakeful.journal.recovery_rules import STATUS_OF, Recovered, Status
from wakeful.storage.base import Outcome

INTERVAL_SECONDS: Final = 30.0
_COMMAND: Final = "wakeful recover"

log = logging.getLogger("wakeful.recovery")


def recover_journal(
    session_state: Path,
    *,
    wait_seconds: float = 0.0,
    progress: Progress = lambda number, words: None,  # noqa: ARG005 - nobody listens
    query: Query | None = None,
    desk: CheckpointDesk | None = None,
    environ: Mapping[str, str] | None = None,
) -> Recovered:
    """Recovers the journal with this state file. Raises StateMissing, StateForeign, RecoveryRuns, JournalInUse."""
    places = JournalPlaces.of_state(session_state)
    files = RootFiles(places, command=_COMMAND)
    processes = StepProcesses(places.root, query=query, environ=environ)
    return recover(
        files,
        processes,
        desk if desk is not None else StoreDesk(),
        wait_seconds=wait_seconds,
        progress=progress,
    )


class JournalCarrier:
    """Carries out what was decided about a journal's checkpoint: by recovering it, which looks first."""

    def __init__(self, desk: CheckpointDesk | None = None) -> None:
        self._desk = desk

    async def carry_out(self, checkpoint: Checkpoint, choice: ChoiceName) -> Done:  # noqa: ARG002 - the store knows it
        state = JournalPlaces(Path(checkpoint.subject)).state
        try:
            recovered = await asyncio.to_thread(recover_journal, state, desk=self._desk)
        except OperatorError as problem:
            # The journal is gone or another one: there is nothing left to do.
            return Done(Outcome.DECLINED, str(problem))
        if recovered.approval == ABORTED:
            return Done(Outcome.RECOVERED, "the journal stays closed; `fresh=True` begins it anew")
        if recovered.status is Status.OK:
            return Done(
                Outcome.RECOVERED, f"the journal stands at {recovered.next_immediate_step or 'its end'}"
            )
        if not _is_unsettled(checkpoint, recovered):
            waiting = ", ".join(map(file_name, recovered.checkpoints)) or recovered.timeline_path
            return Done(Outcome.RECOVERED, f"the journal goes on once the rest is decided: {waiting}")
        return Done(Outcome.INEFFECTIVE, f"{recovered.status}: see {recovered.timeline_path}")


def _is_unsettled(checkpoint: Checkpoint, recovered: Recovered) -> bool:
    """Whether a step that this checkpoint asks about is still not settled."""
    return checkpoint.number in recovered.checkpoints or any(
        STATUS_OF[each.course] is not Status.OK and is_asked_about(checkpoint, each.step, each.attempt)
        for each in recovered.steps
    )


class Sighting(Struct, frozen=True):
    """What the watch found about one journal and has to be told: a recovery, or that its program is silent."""

    root: str
    recovered: Recovered | None
    stale_pid: int | None
    words: str
    silent_seconds: float = 0.0


class Quiet(Enum):
    """Why nothing is told of a journal: nothing is wrong with it, or that was told before."""

    WELL = "well"
    TOLD = "told"


class RecoveryWatch:
    """Recovers journals whose program is gone, and tells of those whose program is silent; once for each state.

    `roots` are those of the configuration; registered ones are found in `registry`. `well` hears at every round of
    those with which nothing is wrong.
    """

    def __init__(
        self,
        roots: Iterable[str | Path],
        *,
        registry: Path,
        clock: Clock,
        tell: Callable[[Sighting], Awaitable[None]],
        interval_seconds: float = INTERVAL_SECONDS,
        desk: CheckpointDesk | None = None,
        well: Callable[[str], Awaitable[None]] | None = None,
    ) -> None:
        self._well = well
        self._roots = [Path(root) for root in roots]
        self._registry = registry
        self._clock = clock
        self._tell = tell
        self._interval_seconds = interval_seconds
        self._desk: CheckpointDesk = desk if desk is not None else StoreDesk()
        self._told: dict[Path, str] = {}

    async def run(self) -> None:
        """Look at every journal again and again, until cancelled."""
        while True:
            await self.check()
            await self._clock.sleep_until(self._clock.now().awake + self._interval_seconds)

    async def check(self) -> list[Sighting]:
        """One round; what was told."""
        found = []
        for root in await asyncio.to_thread(self._every_root):
            try:
                seen = await asyncio.to_thread(self._look, root)
            except (WakefulError, OSError) as problem:
                seen = self._new(Sighting(str(root), None, None, str(problem)))
            if isinstance(seen, Sighting):
                found.append(seen)
                await self._tell(seen)
            elif seen is Quiet.WELL:
                self._told.pop(root, None)
                await self._is_well(root)
        return found

    async def _is_well(self, root: Path) -> None:
        if self._well is not None:
            await self._well(str(root))

    def _every_root(self) -> list[Path]:
        roots = [*self._roots, *registered_roots(self._registry)]
        return list(dict.fromkeys(Path(os.path.realpath(root)) for root in roots))

    def _look(self, root: Path) -> Sighting | Quiet:
        places = JournalPlaces(root)
        files = RootFiles(places, command=_COMMAND)
        try:
            state = files.read()
        except StateMissing:
            return Quiet.WELL
        except StateTorn:
            return self._recovered(root)
        holder = _holder(places)
        if holder is None:
            # A state can be older than its events; what they tell since then is a look at the end of a file.
            return self._abandoned(root, reconciled(state, files.told(state.events_cursor).traces))
        try:
            silent_seconds = files.seconds_since(state.last_sync)
            if silent_seconds < files.stale_seconds(state.trace_id):
                return Quiet.WELL
        finally:
            files.close()
        words = f"{root}: stale; pid {holder} has the journal and wrote nothing since {state.last_sync}"
        return self._new(Sighting(str(root), None, holder, words, silent_seconds))

    def _abandoned(self, root: Path, state: SessionState) -> Sighting | Quiet:
        """Nobody has it: what was cut off is settled, unless it waits for somebody."""
        if not _is_cut_off(state):
            return Quiet.WELL
        return Quiet.TOLD if self._is_waiting(root, state) else self._recovered(root)

    def _is_waiting(self, root: Path, state: SessionState) -> bool:
        """Whether nothing has changed since it was told: the person has not decided, the processes still run."""
        open_ones = [each for each in state.process_map.values() if each.is_open]
        if state.awaited:
            found = [self._desk.find(number) for number in state.awaited]
            asked = [each for each in found if each is not None and each.subject == str(root)]
            aborted = any(each.state is CheckpointState.ABORTED for each in asked)
            decided = [each for each in asked if not each.is_open]
            # An abort stays; it is carried out where a step is still open.
            return len(asked) == len(found) and (not decided or (aborted and not open_ones))
        processes = StepProcesses(root)
        return root in self._told and all(processes.sight(each) is Sight.ALIVE for each in open_ones)

    def _recovered(self, root: Path) -> Sighting | Quiet:
        recovered = recover_journal(JournalPlaces(root).state, desk=self._desk)
        held = f", checkpoint {', '.join(map(str, recovered.checkpoints))}" if recovered.checkpoints else ""
        words = f"{root}: its program was cut off: {recovered.status}{held}"
        return self._new(Sighting(str(root), recovered, None, words))

    def _new(self, sighting: Sighting) -> Sighting | Quiet:
        """What was not told before; a recovery that settled something is always new."""
        recovered, root = sighting.recovered, Path(sighting.root)
        settled = recovered is not None and recovered.status is Status.OK
        if self._told.get(root) == sighting.words and not settled:
            return Quiet.TOLD
        self._told[root] = sighting.words
        log.info("%s", sighting.words)
        return sighting


def _holder(places: JournalPlaces) -> int | None:
    """The pid of the program that has the journal; None if nobody has it."""
    claim = Claim(places.state.parent)
    try:
        return None if claim.take() else claim.holder().pid
    finally:
        claim.close()


def _is_cut_off(state: SessionState) -> bool:
    """Whether there is something to settle; what somebody aborted is settled."""
    entries = state.process_map.values()
    if any(each.last is Last.ABORTED for each in entries):
        return False
    return bool(state.awaited) or any(each.is_open for each in entries)
