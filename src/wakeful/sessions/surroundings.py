"""What the supervisor asks of whoever runs it: the daemon, a single look, a test, a simulation."""

from typing import Protocol

from wakeful.core.ids import SessionId
from wakeful.core.process import Process, Sight
from wakeful.judging.subject import Subject
from wakeful.judging.wake_eligibility import Reach
from wakeful.sessions.feed import Change
from wakeful.storage.store import Transition


class Surroundings(Protocol):
    """Every call comes from the loop in which the supervisor runs."""

    def wake(self) -> None:
        """Call `settle` soon."""

    def alarm(self, awake: float) -> None:
        """Call `ring` at this moment."""

    def catch_up(self, session_id: SessionId) -> None:
        """Let the eyes report whatever is new about a session, now."""

    def watch(self, process: Process) -> Sight:
        """Whether it lives; if it does, its end will be told."""

    def seek_holder(self, session_id: SessionId) -> None:
        """A log grows and nobody is known to write it: find out who does."""

    def seek_named(self, subject: Subject, pid: int, wall: float) -> None:
        """A log says that the process with this pid wrote it, at this time: report who that is."""

    def seek_pane(self, session_id: SessionId) -> None:
        """A session has a new holder: find out where it is shown."""

    def died(self, session_id: SessionId) -> None:
        """Tell what it did that its log does not know; look for tools it left behind, in your own time."""

    def vanished(self, session_id: SessionId) -> None:
        """Its log is gone, and no process of it is left: nobody watches it any more."""

    def tool_alive(self, agent: Process, within_seconds: float) -> bool:
        """Whether the agent has a living descendant that was started within the last so many seconds."""

    def reach(self, session_id: SessionId) -> Reach:
        """Whether Wakeful may act on a managed session, and whether a prompt would arrive there now."""

    def is_held(self, session_id: SessionId) -> bool:
        """Whether a call of it was cut off that may have happened elsewhere: nobody goes on before a person looked."""

    def changed(self, transitions: list[Transition], changes: list[Change]) -> None:
        """Store and announce what was judged."""
