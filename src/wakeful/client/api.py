"""Interfaces to the daemon for other processes: its managed sessions, and the daemon as a whole.

Prompts carry an idempotency key, so that a repeated request acts once. The interface to the daemon covers its
state, checkpoints, pause, mute and report. Every method raises DaemonAway, or DaemonRefused where the daemon
refuses (`errors.py`).
"""

from collections.abc import AsyncIterator, Mapping
from hashlib import sha256
from typing import Protocol

from msgspec import Struct

from wakeful.control.driver import PermissionReply
from wakeful.control.turn_events import TurnEvent
from wakeful.core.ids import SessionId
from wakeful.reports.model import Report
from wakeful.storage.base import ActionOutcome


class Workspace(Struct, frozen=True):
    """Where a conversation runs: its provider, folder, flags and environment."""

    provider: str
    cwd: str
    argv: tuple[str, ...]
    environ: Mapping[str, str]
    name: str

    @property
    def fingerprint(self) -> str:
        """Unchanged as long as a conversation may go on in its session."""
        return sha256("\0".join((self.provider, self.cwd, *self.argv)).encode()).hexdigest()[:16]


class ActionReply(Struct, frozen=True):
    """The fields of `control.gate.ActionRecord` that a caller needs. `session_id` is empty where nothing was started."""

    outcome: ActionOutcome
    words: str
    session_id: str = ""
    # Which process of the session was given the prompt, counted from 1; 0: not known.
    epoch: int = 0


class SessionSummary(Struct, frozen=True):
    state: str
    health: str
    findings: tuple[str, ...] = ()
    is_managed: bool = False


class SessionsApi(Protocol):
    async def start(self, workspace: Workspace, prompt: str, key: str) -> ActionReply:
        """Begin a conversation with this prompt. A repeated key gives the same answer and starts nothing."""

    async def send(self, session_id: SessionId, prompt: str, key: str) -> ActionReply:
        """Give it another prompt, between its turns. A repeated key delivers nothing."""

    async def resume(self, session_id: SessionId, environ: Mapping[str, str]) -> ActionReply:
        """Bring a conversation back whose process is gone. A prompt follows: it is not to go on with an interrupted turn."""

    async def answer(self, session_id: SessionId, question_id: str, reply: PermissionReply) -> ActionReply:
        """Answer a permission question."""

    async def interrupt(self, session_id: SessionId) -> ActionReply:
        """Interrupt the running turn."""

    async def stop(self, session_id: SessionId, *, by_itself: bool = False) -> ActionReply:
        """End it. Its conversation can be resumed. `by_itself`: no person asked for it."""

    async def end_runaway(self, session_id: SessionId) -> ActionReply:
        """Propose to end its process in its turn, as a crash would: the daemon decides, brings it back and continues its turn."""

    async def leave_to_user(self, session_id: SessionId) -> ActionReply:
        """Leave a failed turn to its user, who reads that it failed. Declined: it goes on, or a person decides."""

    async def revive(self, session_id: SessionId) -> ActionReply:
        """Propose to bring it back: the daemon decides."""

    async def summary(self, session_id: SessionId) -> SessionSummary | None:
        """Its state; None if the daemon does not know it."""

    async def pid(self, session_id: SessionId) -> int | None:
        """The pid of its agent process; None if the daemon knows no living one."""

    async def find_by_name(self, name: str) -> SessionId | None:
        """The living managed session of this name; None if there is none, or no single one."""

    def stream_turn(
        self, provider: str, session_id: SessionId, key: str, epoch: int = 0
    ) -> AsyncIterator[TurnEvent]:
        """The events of the turn that this key asked for, from its beginning until it ends.

        `epoch`: the process that got the prompt. Earlier prompts of the healer to it belong to another turn.

        It works after a restart of the listener as well: earlier events come first. When the healer replaces the
        process, the iteration continues with the new one (after `Gone`). An interrupted turn may be continued: after
        such an `Ended`, or a failed one, the iteration continues too, until the caller stops it.
        """


class DaemonSummary(Struct, frozen=True):
    """`paused`: by whom, if it is."""

    mode: str
    paused: str | None = None
    notes: tuple[str, ...] = ()


class OpenCheckpoint(Struct, frozen=True):
    """A decision that waits for a person. `choices` are pairs of a name and its consequence."""

    number: int
    subject: str
    lines: tuple[str, ...]
    choices: tuple[tuple[str, str], ...]


class DaemonApi(Protocol):
    """The daemon as a whole. `by` names the person who decided; it is recorded."""

    async def summary(self) -> DaemonSummary: ...

    async def checkpoints(self) -> tuple[OpenCheckpoint, ...]:
        """The open ones, the newest first."""

    async def decide(self, number: int, choice: str, by: str) -> str:
        """Carry a choice out; the result in words."""

    async def pause(self, by: str) -> None:
        """Stop everything that Wakeful does by itself."""

    async def resume(self, by: str) -> None:
        """End a pause."""

    async def mute(self, session_id: SessionId, seconds: float, by: str) -> None:
        """Send no alerts about a session for a while."""

    async def report(self, since: str) -> Report:
        """What happened since a moment, written as `22:00`, `12h`, or a time."""
