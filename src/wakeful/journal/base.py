"""Interfaces that recovery uses: a journal's files, the processes of its steps, and checkpoints.

All methods block; call them in a thread from an event loop. `files.py`, `processes.py` and
`checkpoint_store.py` implement them.
"""

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol

from msgspec import Struct

from wakeful.checkpoints.model import Checkpoint
from wakeful.core.process import Process, ProcessState
from wakeful.journal.model import SessionState, StepEntry, Trace
from wakeful.journal.recovery_rules import RemoteAnswer, Suspect


class AcquiredLock(Struct, frozen=True):
    """The recovery lock is ours. `owner` is the program that still has the journal; `taken_over` a dead recovery."""

    owner: Process | None
    taken_over: str | None


class EventReading(Struct, frozen=True):
    """What events say from a cursor on, where they end, and what is odd about them."""

    traces: tuple[Trace, ...]
    end: int
    notes: tuple[str, ...]


class JournalFiles(Protocol):
    """Raises LogFull, LogBusy, LogUnusable and what a store raises; then nothing was changed."""

    @property
    def root(self) -> str: ...

    @property
    def state_path(self) -> str: ...

    @property
    def timeline_path(self) -> str: ...

    def lock(self, wait_seconds: float) -> AbstractContextManager[AcquiredLock]:
        """Hold the journal's recovery. Raises RecoveryRuns."""

    def read(self) -> SessionState:
        """Raises StateMissing, StateForeign, StateTorn."""

    def write(self, state: SessionState) -> None:
        """Replace the state, durably."""

    def quarantine_state(self) -> str:
        """Move the torn state to where suspects lie; its new place."""

    def read_events(self, cursor: int) -> EventReading:
        """The events behind the cursor."""

    def session_traces(self, trace_id: str) -> tuple[Trace, ...]:
        """What events or audit rows tell of one session's steps, oldest first."""

    def newest_session(self) -> str | None:
        """The session that was opened or began a step last, as events or audit rows tell."""

    def later_session(self, trace_id: str) -> str | None:
        """The last session that began a step since this one was opened or began one; any that did if it never was."""

    def trace(self, event: str, trace_id: str, step: str | None, details: dict[str, Any]) -> int:
        """Write an event and its audit row, durably; the byte behind it."""

    def new_trace_id(self) -> str:
        """For a journal of which nothing is known."""

    def now(self) -> str:
        """This moment in ISO 8601, UTC."""

    def seconds_since(self, stamp: str) -> float:
        """How long ago that was; 0 for what is no time."""

    def stale_seconds(self, trace_id: str) -> float:
        """After how long without a word this journal is stale."""

    def find_suspects(self, trace_id: str) -> tuple[Suspect, ...]:
        """Journaled files that are not what they were, moved away."""

    def append_timeline(self, lines: Sequence[str]) -> None:
        """Add lines to the timeline people read."""


class StepProcessControl(Protocol):
    def probe(self, entry: StepEntry) -> ProcessState:
        """Whether anything of the step still runs."""

    def wait(self, entry: StepEntry, seconds: float) -> ProcessState:
        """What is seen of it once it is no longer alive, or at the end of that time."""

    def terminate(self, entry: StepEntry) -> ProcessState:
        """End what runs of it, by identity; what is seen afterwards."""

    def query_remote(self, step: str, entry: StepEntry) -> RemoteAnswer:
        """What the other side says of it, within a deadline."""

    def undo(self, step: str, entry: StepEntry, log: str) -> bool:
        """Run the step's own way back; whether it says that it succeeded. What it says goes to `log` below the root."""

    def clean(self, entry: StepEntry) -> tuple[str, ...]:
        """Remove what the step declared as unfinished work; what was there."""


class JournalCheckpoints(Protocol):
    def open(self, draft: Checkpoint) -> Checkpoint:
        """Ask a person, durably; an open checkpoint that asks the same is returned instead."""

    def find(self, number: int) -> Checkpoint | None:
        """None: this store knows none of that number."""
