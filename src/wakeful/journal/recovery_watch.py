"""Recovers journals from outside their programs: by command, after a decision, and by the daemon's watch.

The watch recovers journals after the end of their program, and reports journals with a silent program. It never
runs a step.
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
from wakeful.checkpoints.service import DecisionOutcome
from wakeful.core.clock import Clock
from wakeful.core.errors import OperatorError, WakefulError
from wakeful.core.process import ProcessState
from wakeful.journal.checkpoint_draft import asks_about_step
from wakeful.journal.checkpoint_store import StoredJournalCheckpoints
from wakeful.journal.files import JournalPaths, RootFiles
from wakeful.journal.locks import JournalLock, registered_roots
from wakeful.journal.model import SessionState, StateMissing, StateTorn, StepStatus, reconcile
from wakeful.journal.processes import Query, StepProcesses
from wakeful.journal.recovery import ABORTED, JournalCheckpoints, Progress, no_progress, recover
from wakeful.journal.recovery_rules import STATUS_OF, RecoveryResult, RecoveryStatus
from wakeful.storage.base import ActionOutcome

INTERVAL_SECONDS: Final = 30.0
_COMMAND: Final = "wakeful recover"

log = logging.getLogger("wakeful.recovery")


def recover_journal(
    session_state: Path,
    *,
    wait_seconds: float = 0.0,
    progress: Progress = no_progress,
    query: Query | None = None,
    checkpoints: JournalCheckpoints | None = None,
    environ: Mapping[str, str] | None = None,
) -> RecoveryResult:
    """Recover the journal with this state file. Raises StateMissing, StateForeign, RecoveryRuns, JournalInUse."""
    paths = JournalPaths.of_state(session_state)
    files = RootFiles(paths, command=_COMMAND)
    processes = StepProcesses(paths.root, query=query, environ=environ)
    return recover(
        files,
        processes,
        checkpoints if checkpoints is not None else StoredJournalCheckpoints(),
        wait_seconds=wait_seconds,
        progress=progress,
    )


class JournalDecisionExecutor:
    """Carries out the decision about a journal's checkpoint by recovering the journal, which checks first."""

    def __init__(self, checkpoints: JournalCheckpoints | None = None) -> None:
        self._checkpoints = checkpoints

    async def carry_out(self, checkpoint: Checkpoint, choice: ChoiceName) -> DecisionOutcome:  # noqa: ARG002 - the store has it
        state = JournalPaths(Path(checkpoint.subject)).state
        try:
            recovered = await asyncio.to_thread(recover_journal, state, checkpoints=self._checkpoints)
        except OperatorError as problem:
            # The journal was deleted or replaced: nothing is left to do.
            return DecisionOutcome(ActionOutcome.DECLINED, str(problem))
        if recovered.approval == ABORTED:
            return DecisionOutcome(
                ActionOutcome.CONFIRMED, "the journal stays closed; `fresh=True` starts it again"
            )
        if recovered.status is RecoveryStatus.OK:
            return DecisionOutcome(
                ActionOutcome.CONFIRMED, f"the journal stands at {recovered.next_immediate_step or 'its end'}"
            )
        if not _is_unresolved(checkpoint, recovered):
            waiting = ", ".join(map(file_name, recovered.checkpoints)) or recovered.timeline_path
            return DecisionOutcome(
                ActionOutcome.CONFIRMED, f"the journal continues once the rest is decided: {waiting}"
            )
        return DecisionOutcome(
            ActionOutcome.INEFFECTIVE, f"{recovered.status}: see {recovered.timeline_path}"
        )


def _is_unresolved(checkpoint: Checkpoint, recovered: RecoveryResult) -> bool:
    """Whether a step of this checkpoint is still open."""
    return checkpoint.number in recovered.checkpoints or any(
        STATUS_OF[each.course] is not RecoveryStatus.OK
        and asks_about_step(checkpoint, each.step, each.attempt)
        for each in recovered.steps
    )


class JournalWatchReport(Struct, frozen=True):
    """A report about one journal: a recovery, a silent program, or an error."""

    root: str
    recovered: RecoveryResult | None
    stale_pid: int | None
    words: str
    silent_seconds: float = 0.0


class NoReport(Enum):
    """The reason for no report: the journal has no problem, or the last report still applies."""

    HEALTHY = "healthy"
    ALREADY_REPORTED = "already reported"


class RecoveryWatch:
    """Recovers journals after the end of their program and reports silent programs, once per state.

    `roots` come from the configuration, registered roots from `registry`. `on_healthy` is called at every
    check of a journal without a problem.
    """

    def __init__(
        self,
        roots: Iterable[str | Path],
        *,
        registry: Path,
        clock: Clock,
        report: Callable[[JournalWatchReport], Awaitable[None]],
        checkpoints: JournalCheckpoints | None = None,
        on_healthy: Callable[[str], Awaitable[None]] | None = None,
    ) -> None:
        self._on_healthy = on_healthy
        self._roots = [Path(root) for root in roots]
        self._registry = registry
        self._clock = clock
        self._report = report
        self._checkpoints: JournalCheckpoints = (
            checkpoints if checkpoints is not None else StoredJournalCheckpoints()
        )
        self._last_reports: dict[Path, str] = {}

    async def run(self) -> None:
        """Check every journal at each interval, until cancelled."""
        while True:
            await self.check()
            await self._clock.sleep(INTERVAL_SECONDS)

    async def check(self) -> list[JournalWatchReport]:
        """Check every journal once; returns the new reports."""
        reports = []
        for root in await asyncio.to_thread(self._all_roots):
            try:
                report = await asyncio.to_thread(self._check_journal, root)
            except (WakefulError, OSError) as problem:
                report = self._if_new(JournalWatchReport(str(root), None, None, str(problem)))
            if isinstance(report, JournalWatchReport):
                reports.append(report)
                await self._report(report)
            elif report is NoReport.HEALTHY:
                self._last_reports.pop(root, None)
                if self._on_healthy is not None:
                    await self._on_healthy(str(root))
        return reports

    def _all_roots(self) -> list[Path]:
        roots = [*self._roots, *registered_roots(self._registry)]
        return list(dict.fromkeys(Path(os.path.realpath(root)) for root in roots))

    def _check_journal(self, root: Path) -> JournalWatchReport | NoReport:
        paths = JournalPaths(root)
        files = RootFiles(paths, command=_COMMAND)
        try:
            state = files.read()
        except StateMissing:
            return NoReport.HEALTHY
        except StateTorn:
            return self._recover(root)
        holder = _owner_pid(paths)
        if holder is None:
            # A state can be older than its events; reading the newer ones is one read at the end of a file.
            state = reconcile(state, files.read_events(state.events_cursor).traces)
            if not _is_interrupted(state):
                return NoReport.HEALTHY
            return NoReport.ALREADY_REPORTED if self._is_waiting(root, state) else self._recover(root)
        try:
            silent_seconds = files.seconds_since(state.last_sync)
            if silent_seconds < files.stale_seconds(state.trace_id):
                return NoReport.HEALTHY
        finally:
            files.close()
        text = f"{root}: stale; pid {holder} runs the journal and has written nothing since {state.last_sync}"
        return self._if_new(JournalWatchReport(str(root), None, holder, text, silent_seconds))

    def _is_waiting(self, root: Path, state: SessionState) -> bool:
        """Whether nothing changed since the last report: no decision was taken, the processes still run."""
        open_entries = [each for each in state.process_map.values() if each.is_open]
        if state.checkpoint_numbers:
            found = [self._checkpoints.find(number) for number in state.checkpoint_numbers]
            known = [each for each in found if each is not None and each.subject == str(root)]
            aborted = any(each.state is CheckpointState.ABORTED for each in known)
            decided = [each for each in known if not each.is_open]
            # An abort is final; it is carried out once, while a step is still open.
            return len(known) == len(found) and (not decided or (aborted and not open_entries))
        processes = StepProcesses(root)
        return root in self._last_reports and all(
            processes.probe(each) is ProcessState.ALIVE for each in open_entries
        )

    def _recover(self, root: Path) -> JournalWatchReport | NoReport:
        recovered = recover_journal(JournalPaths(root).state, checkpoints=self._checkpoints)
        numbers = (
            f", checkpoint {', '.join(map(str, recovered.checkpoints))}" if recovered.checkpoints else ""
        )
        text = f"{root}: program interrupted: {recovered.status.text}{numbers}"
        return self._if_new(JournalWatchReport(str(root), recovered, None, text))

    def _if_new(self, report: JournalWatchReport) -> JournalWatchReport | NoReport:
        """The report, unless it repeats the last one; a successful recovery is always new."""
        recovered, root = report.recovered, Path(report.root)
        is_recovered = recovered is not None and recovered.status is RecoveryStatus.OK
        if self._last_reports.get(root) == report.words and not is_recovered:
            return NoReport.ALREADY_REPORTED
        self._last_reports[root] = report.words
        log.info("%s", report.words)
        return report


def _owner_pid(paths: JournalPaths) -> int | None:
    """The pid of the program that has the journal; None if no program has it."""
    lock = JournalLock(paths.state.parent)
    try:
        return None if lock.acquire() else lock.holder().pid
    finally:
        lock.close()


def _is_interrupted(state: SessionState) -> bool:
    """Whether it needs a recovery or a decision; an aborted journal does not."""
    entries = state.process_map.values()
    if any(each.last is StepStatus.ABORTED for each in entries):
        return False
    return bool(state.checkpoint_numbers) or any(each.is_open for each in entries)
