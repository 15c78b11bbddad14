"""Answers reading commands from the daemon or, without one, from one read-only look at the machine.

The look leaves no file behind, and a remark says that nothing is watched.
"""

import os
from collections.abc import Callable, Sequence
from functools import cache
from typing import TYPE_CHECKING, Protocol, TypeVar
from urllib.parse import urlencode

from wakeful.cli.output import print_note
from wakeful.client.client import DaemonAnswer, DaemonClient, own_daemon
from wakeful.client.errors import DaemonNotRunning
from wakeful.core.ids import SessionId

if TYPE_CHECKING:
    from wakeful.core.query_result import QueryResult
    from wakeful.views.sessions import SessionQueries

T = TypeVar("T")


class SessionReader(Protocol):
    """The queries of reading commands."""

    def view(self, name: str, session_id: SessionId) -> DaemonAnswer:
        """`health`, `status`, `inspect` or `why` of one session."""

    def sessions(self, filters: dict[str, str]) -> DaemonAnswer:
        """A page of records; `filters` are the query of /api/sessions."""

    def find(self, name: str) -> DaemonAnswer:
        """The sessions that a name stands for."""

    def overview(self) -> DaemonAnswer:
        """The daemon's status."""

    def of_caller(self, conversations: Sequence[str], pids: Sequence[int]) -> DaemonAnswer:
        """The session that asks."""


class DaemonReader:
    """Asks the running daemon."""

    def __init__(self, client: DaemonClient) -> None:
        self._client = client

    def view(self, name: str, session_id: SessionId) -> DaemonAnswer:
        return self._client.get(f"/api/sessions/{session_id}/{name}")

    def sessions(self, filters: dict[str, str]) -> DaemonAnswer:
        return self._client.get("/api/sessions?" + urlencode({"include_health": "true", **filters}))

    def find(self, name: str) -> DaemonAnswer:
        return self._client.get("/api/find?" + urlencode({"name": name}))

    def overview(self) -> DaemonAnswer:
        return self._client.get("/api/status")

    def of_caller(self, conversations: Sequence[str], pids: Sequence[int]) -> DaemonAnswer:
        query = [*(("conversation", each) for each in conversations), *(("pid", str(pid)) for pid in pids)]
        return self._client.get("/api/sessions/self?" + urlencode(query))


class LocalReader:
    """Asks the queries of this process."""

    def __init__(self, queries: "SessionQueries") -> None:
        self._queries = queries

    def view(self, name: str, session_id: SessionId) -> DaemonAnswer:
        views = {
            "health": self._queries.health,
            "status": self._queries.status,
            "inspect": self._queries.inspect,
            "why": self._queries.why,
        }
        return _local_answer(views[name](session_id))

    def sessions(self, filters: dict[str, str]) -> DaemonAnswer:
        import msgspec  # noqa: PLC0415 - only without a daemon

        from wakeful.sessions.registry import Query  # noqa: PLC0415 - as above

        # Converted as the HTTP route does it.
        return _local_answer(self._queries.sessions(msgspec.convert(filters, Query, strict=False)))

    def find(self, name: str) -> DaemonAnswer:
        return _local_answer(self._queries.find(name))

    def overview(self) -> DaemonAnswer:
        return _local_answer(self._queries.overview())

    def of_caller(self, conversations: Sequence[str], pids: Sequence[int]) -> DaemonAnswer:
        return _local_answer(self._queries.of_caller(conversations, pids))


def read(question: Callable[[SessionReader], T], *, is_answer: bool = True) -> T:
    """The answer of the daemon; without one, of a single look at the machine, which a remark says with the answer."""
    try:
        return question(DaemonReader(own_daemon()))
    except DaemonNotRunning:
        answer = question(LocalReader(_local_queries()))
        if is_answer:
            print_note("no daemon: checked once, nothing is watched")
        return answer


@cache
def _local_queries() -> "SessionQueries":
    """One look for all questions of a command."""
    from wakeful.cli import read_store as stored  # noqa: PLC0415 - as above
    from wakeful.cli.settings import load_settings  # noqa: PLC0415 - as above
    from wakeful.daemon.observer import scan_once  # noqa: PLC0415 - every log source: only without a daemon

    return scan_once(load_settings(None).config, stored.pause_in_store())


def _local_answer(answer: "QueryResult") -> DaemonAnswer:
    return DaemonAnswer(answer.body, answer.exit_code, os.getpid())
