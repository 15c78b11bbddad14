"""Answers reading commands from the daemon or, without one, from one read-only look at the machine.

The look leaves no file behind, and a remark says that nothing is watched.
"""

import os
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Protocol, TypeVar
from urllib.parse import urlencode

from wakeful.cli.output import note
from wakeful.client.client import Answer, Client, DaemonNotRunning
from wakeful.config.paths import Places
from wakeful.core.ids import SessionId

if TYPE_CHECKING:
    from wakeful.core.answer import Answer as DeskAnswer
    from wakeful.views.sessions import Desk

T = TypeVar("T")


class Reading(Protocol):
    """Everything reading commands ask for."""

    def view(self, name: str, session_id: SessionId) -> Answer:
        """`health`, `status`, `inspect` or `why` of one session."""

    def sessions(self, filters: dict[str, str]) -> Answer:
        """A page of records; `filters` are the query of /api/sessions."""

    def overview(self) -> Answer:
        """What the daemon says of itself."""

    def of_caller(self, conversations: Sequence[str], pids: Sequence[int]) -> Answer:
        """The session that asks."""


class DaemonDesk:
    """Asks the running daemon."""

    def __init__(self, client: Client) -> None:
        self._client = client

    def view(self, name: str, session_id: SessionId) -> Answer:
        return self._client.get(f"/api/sessions/{session_id}/{name}")

    def sessions(self, filters: dict[str, str]) -> Answer:
        return self._client.get("/api/sessions?" + urlencode({"include_health": "true", **filters}))

    def overview(self) -> Answer:
        return self._client.get("/api/status")

    def of_caller(self, conversations: Sequence[str], pids: Sequence[int]) -> Answer:
        query = [*(("conversation", each) for each in conversations), *(("pid", str(pid)) for pid in pids)]
        return self._client.get("/api/sessions/self?" + urlencode(query))


class OneLook:
    """Asks a desk of this process's own."""

    def __init__(self, desk: "Desk") -> None:
        self._desk = desk

    def view(self, name: str, session_id: SessionId) -> Answer:
        views = {
            "health": self._desk.health,
            "status": self._desk.status,
            "inspect": self._desk.inspect,
            "why": self._desk.why,
        }
        return _answer(views[name](session_id))

    def sessions(self, filters: dict[str, str]) -> Answer:
        import msgspec  # noqa: PLC0415 - costs nobody who has a daemon

        from wakeful.sessions.registry import Query  # noqa: PLC0415 - as above

        # The same words, turned into the same query, as the daemon's door does it.
        return _answer(self._desk.sessions(msgspec.convert(filters, Query, strict=False)))

    def overview(self) -> Answer:
        return _answer(self._desk.overview())

    def of_caller(self, conversations: Sequence[str], pids: Sequence[int]) -> Answer:
        return _answer(self._desk.of_caller(conversations, pids))


def ask(question: Callable[[Reading], T]) -> T:
    """The answer of the daemon; without one, of a single look at the machine."""
    try:
        return question(DaemonDesk(Client(Places.of(os.environ))))
    except DaemonNotRunning:
        answer = question(OneLook(_look()))
        note("no daemon: looked once, nothing is watched")
        return answer


def _look() -> "Desk":
    from wakeful.cli import read_store as stored  # noqa: PLC0415 - as above
    from wakeful.cli.settings import load_settings  # noqa: PLC0415 - as above
    from wakeful.daemon.observer import look_once  # noqa: PLC0415 - every eye of the daemon: costs nobody who has one

    return look_once(load_settings(None).config, stored.paused())


def _answer(answer: "DeskAnswer") -> Answer:
    return Answer(answer.body, answer.exit_code, os.getpid())
