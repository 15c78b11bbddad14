"""Claims about what an agent's list of sessions keeps of the daemon's: little, but who paused."""

from typing import cast

import msgspec
import pytest

from wakeful.client.client import DaemonAnswer, DaemonClient
from wakeful.mcp.tools import DaemonQueries

PAUSED = {"by": "ada@tower", "since": "2027-01-15T08:00:00.000Z", "reason": "moving house", "until": None}


class EmptyDaemon:
    """A daemon without sessions."""

    def __init__(self, paused: object) -> None:
        self._paused = paused

    def get(self, target: str) -> DaemonAnswer:
        assert target.startswith("/api/sessions?"), "only the list is asked for"
        page = {"sessions": [], "older": 0, "next_cursor": None, "paused": self._paused}
        return DaemonAnswer(msgspec.json.encode(page), 0, 1)


@pytest.mark.parametrize("paused", [PAUSED, None])
def test_an_agents_list_says_who_paused(paused: object) -> None:
    """As every list does."""
    questions = DaemonQueries(cast("DaemonClient", EmptyDaemon(paused)), (), ())
    assert msgspec.json.decode(questions.list_sessions(None, None, None, 5, None))["paused"] == paused
