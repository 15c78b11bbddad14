"""Where policies come from: an agent's HEARTBEAT.md, whether a person trusts it, and the clocks of the places it names."""

from datetime import tzinfo
from typing import Protocol

from wakeful.heartbeat.domain_heartbeat import Snapshot


class Trusts(Protocol):
    """Which files a person trusts, by path and content."""

    def stamp(self) -> object | None:
        """What tells it from a changed one."""

    def is_trusted(self, path: str, content: bytes) -> bool:
        """Whether this very content is trusted at this very path. Raises OperatorError if that cannot be known."""


class HeartbeatFiles(Protocol):
    """Looks and reads, at once and within bounds; nothing here writes."""

    def stamp(self, agent: str, workdir: str | None) -> object | None:
        """What tells the agent's file from a changed one; None if there is no file."""

    def load(self, agent: str, workdir: str | None, at: str) -> Snapshot:
        """What it says now. Raises HeartbeatInvalid."""

    def zone(self, name: str) -> tzinfo:
        """The clocks of a place that a valid file names."""
