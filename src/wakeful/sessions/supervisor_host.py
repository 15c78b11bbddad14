"""Interfaces of the supervisor: to the code that runs it (the daemon, a one-time check, a test), and to its sources."""

from typing import TYPE_CHECKING, Protocol

from wakeful.core.ids import SessionId
from wakeful.core.process import Process, ProcessState
from wakeful.judging.evidence import SessionIdentity
from wakeful.sessions.feed import SessionChange
from wakeful.sessions.session_judge import JudgingHost, ToolProbe
from wakeful.storage.base import Transition

if TYPE_CHECKING:
    from wakeful.sessions.supervisor import Supervisor


class SupervisorHost(JudgingHost, Protocol):
    """Runs the supervisor and uses its results. Every call comes from the supervisor's loop."""

    def request_judging(self, supervisor: "Supervisor") -> None:
        """Call its `judge_pending` after the present turn of the loop."""

    def set_timer(self, supervisor: "Supervisor", awake: float) -> None:
        """Call its `on_timer` at this moment."""

    def on_session_process(self, session_id: SessionId) -> None:
        """A session has a new process, or its processes changed."""

    def on_session_gone(self, session_id: SessionId) -> None:
        """The supervisor forgot a session: its log is deleted and it has no process."""

    def on_judged(self, transitions: list[Transition], changes: list[SessionChange]) -> None:
        """Store the transitions and publish the changes."""


class EvidenceSources(ToolProbe, Protocol):
    """Finds the logs, processes and panes of sessions. A method that reports back gets the supervisor."""

    def catch_up(self, session_id: SessionId) -> None:
        """Let the log sources report everything new about a session, now."""

    def watch(self, process: Process) -> ProcessState:
        """Whether it is alive; if it is, its end will be reported."""

    def find_agent_process(self, session_id: SessionId) -> None:
        """Find the process that writes the growing log of a session."""

    def find_named_process(
        self, supervisor: "Supervisor", identity: SessionIdentity, pid: int, wall: float
    ) -> None:
        """Report the process with this pid, which wrote the log of a session at this time."""

    def find_pane(self, session_id: SessionId) -> None:
        """Find the pane that shows the new process of a session."""

    def mark_unsaved(self, session_id: SessionId) -> None:
        """Its processes changed: what is stored for a restart is out of date."""

    def on_agent_exit(self, supervisor: "Supervisor", session_id: SessionId) -> None:
        """Report the calls or the end of the turn that its log does not show, and, now or later, its running tools."""
