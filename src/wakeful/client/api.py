"""Interfaces to the daemon for other processes: its managed sessions, and the daemon as a whole.

Prompts carry an idempotency key, so that a repeated request acts once. The interface to the daemon covers its
state, checkpoints, pause, mute and report.
"""

from collections.abc import AsyncIterator, Mapping
from hashlib import sha256
from typing import Protocol

from msgspec import Struct

from wakeful.control.driver import PermissionReply
from wakeful.control.turn_events import TurnEvent
from wakeful.core.errors import WorldError
from wakeful.core.ids import SessionId
from wakeful.reports.model import Report
from wakeful.storage.base import ActionOutcome


class DaemonUnavailable(WorldError):
    """Wakeful is not running. Start it with `wakeful up`, or `wakeful up --detach` to keep it behind."""

    code = "daemon-not-running"
    retryable = True


class DaemonTimeout(WorldError):
    """The daemon did not answer within {seconds:.0f} s. `wakeful doctor` looks why."""

    # In doubt: it may have been done. With a key, asking again is safe.
    code = "daemon-silent"
    retryable = True


class DaemonDisconnected(WorldError):
    """The daemon ended while it was asked."""

    # In doubt as well.
    code = "daemon-cut-off"
    retryable = True


class DaemonRefused(WorldError):
    """{detail}"""

    # Definite: nothing was done.
    code = "refused"

    @property
    def reason(self) -> str:
        """The daemon's own code for it."""
        return str(self.facts["reason"])


class Workspace(Struct, frozen=True):
    """Where a conversation is to be held: which provider, in which folder, with which flags and environment."""

    provider: str
    cwd: str
    argv: tuple[str, ...]
    environ: Mapping[str, str]
    name: str

    @property
    def fingerprint(self) -> str:
        """The same as long as a conversation may go on as it is held."""
        return sha256("\0".join((self.provider, self.cwd, *self.argv)).encode()).hexdigest()[:16]


class ActionReply(Struct, frozen=True):
    """What became of what was asked for. `session_id` is empty where nothing was started."""

    outcome: ActionOutcome
    words: str
    session_id: SessionId | str = ""
    # Which process of the session was given the prompt, counted from 1; 0: nobody says.
    epoch: int = 0


class SessionSummary(Struct, frozen=True):
    """How a session stands."""

    state: str
    health: str
    findings: tuple[str, ...] = ()
    is_managed: bool = False


class SessionsApi(Protocol):
    """Raises DaemonNotRunning, DaemonSilent and DaemonDisconnected, or Refused where the daemon says no."""

    async def start(self, workspace: Workspace, prompt: str, key: str) -> ActionReply:
        """Begin a conversation with this prompt. The same key again gives the same answer and starts nothing."""

    async def send(self, session_id: SessionId, prompt: str, key: str) -> ActionReply:
        """Give it another prompt, between its turns. The same key again delivers nothing."""

    async def resume(self, session_id: SessionId, environ: Mapping[str, str]) -> ActionReply:
        """Bring a conversation back whose process is gone, without a prompt of its own."""

    async def answer(self, session_id: SessionId, question_id: str, reply: PermissionReply) -> ActionReply:
        """Answer a permission question."""

    async def interrupt(self, session_id: SessionId) -> ActionReply:
        """Cut the running turn short."""

    async def stop(self, session_id: SessionId, *, by_itself: bool = False) -> ActionReply:
        """End it. Its conversation can be resumed. `by_itself`: no person asked for it."""

    async def kill_process(self, session_id: SessionId) -> bool:
        """End its process as a crash would: the healer brings it back, asks first where it must, and goes on with its turn.

        False: nothing of it was seen to run.
        """

    async def revive(self, session_id: SessionId) -> ActionReply:
        """Propose that it is brought back: the one gate decides."""

    async def summary(self, session_id: SessionId) -> SessionSummary | None:
        """How it stands; None if nobody knows it."""

    async def find_by_name(self, name: str) -> SessionId | None:
        """The living managed session of this name; None if there is none, or no single one."""

    def stream_turn(
        self, provider: str, session_id: SessionId, key: str, epoch: int = 0
    ) -> AsyncIterator[TurnEvent]:
        """What is said in the turn that was asked for by this key, from its beginning, until it ended.

        `epoch`: the process that was given the prompt. What that one was told by the healer before is another turn's.

        Works after a restart of the listener as well: what was said meanwhile comes first. When its process was
        replaced by the healer, the iteration goes on with the new one (after `Gone`). A turn that was cut short may be
        told to go on: the iteration goes on after such an `Ended` too, until whoever listens has heard enough.
        """


class DaemonSummary(Struct, frozen=True):
    """How the daemon stands. `paused`: by whom, if it is."""

    mode: str
    paused: str | None = None
    notes: tuple[str, ...] = ()


class OpenCheckpoint(Struct, frozen=True):
    """Something that waits for a person's word: what it is about, and what may be said, each with what it leads to."""

    number: int
    subject: str
    lines: tuple[str, ...]
    choices: tuple[tuple[str, str], ...]


class DaemonApi(Protocol):
    """Raises what client.api raises. `by` is who decided, for whoever reads it later."""

    async def summary(self) -> DaemonSummary: ...

    async def checkpoints(self) -> tuple[OpenCheckpoint, ...]:
        """Those that are open, the newest first."""

    async def decide(self, number: int, choice: str, by: str) -> str:
        """Carry out what was chosen; what became of it, in words."""

    async def pause(self, by: str) -> None:
        """Stop everything that would be done by itself."""

    async def resume(self, by: str) -> None:
        """End a pause."""

    async def mute(self, session_id: SessionId, seconds: float, by: str) -> None:
        """Tell nothing about a session for a while."""

    async def report(self, since: str) -> Report:
        """What happened since a moment, as a person writes it: `22:00`, `12h`, or a time."""
