"""The machine the gateway runs on: its figures, the processes of our sessions, and the gateway's own files."""

from collections.abc import Mapping
from typing import Protocol

from wakeful.gateway.rules.host_watch import HostReading
from wakeful.gateway.rules.messages import ConversationKey
from wakeful.gateway.rules.self_heal import Hog


class Host(Protocol):
    """None raises: what cannot be read is None in the reading, and nobody is a hog."""

    async def reading(self) -> HostReading:
        """The host now, without what only the gateway itself knows: Telegram and its errors."""

    async def hogs(self, sessions: Mapping[str, ConversationKey], cpu_percent_max: float) -> tuple[Hog, ...]:
        """The providers' processes of these sessions and what they take since the last call."""

    async def collect_memory(self) -> None:
        """Free what this process can do without."""

    async def clean_files(self) -> int:
        """Remove the gateway's own old files, and nothing else; how many."""
