"""Incidents as doors show them: one episode each, however many sessions are in it. Nothing is opened or resolved here."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Annotated, Final

from litestar.handlers import HTTPRouteHandler, get
from litestar.params import QueryParameter
from msgspec import Struct

from wakeful.domain.ids import SessionId
from wakeful.domain.incident import Cause, Fate, Incident, Member
from wakeful.domain.incident_words import did_words, fate_words, words_of
from wakeful.domain.moment import iso
from wakeful.interfaces.http.answers import Encoded, encoded
from wakeful.interfaces.http.session_routes import PROBLEMS

# The newest of them: nobody reads a longer list, and a month has fewer.
INCIDENTS_MAX: Final = 1000

Listed = Callable[[bool], Awaitable[list[Incident]]]
"""Open incidents; with True also those that are over."""


class MemberRecord(Struct, frozen=True):
    """A session that is or was in an incident, and what became of it. `left_at`: since when it is out of it."""

    id: SessionId
    name: str
    fate: Fate
    words: str
    left_at: str | None


class IncidentRecord(Struct, frozen=True):
    """One episode. `sessions` are in trouble now, `members` are all it has had; `did` is what Wakeful did.

    `until` is when its cause ends by itself, where somebody said so.
    """

    id: str
    cause: Cause
    scope: str
    opened_at: str
    updated_at: str
    resolved_at: str | None
    sessions: tuple[SessionId, ...]
    affected: int
    words: str
    summary: str
    did: str
    issue_url: str | None
    members: tuple[MemberRecord, ...]
    until: str | None


class IncidentList(Struct, frozen=True):
    """Open ones first, the newest first among equals."""

    incidents: tuple[IncidentRecord, ...]


class IncidentRoutes:
    """Reading the book of incidents."""

    def __init__(self, listed: Listed) -> None:
        self._listed = listed

    def handlers(self) -> Sequence[HTTPRouteHandler]:
        return (get("/api/incidents", responses=PROBLEMS)(self.incidents),)

    async def incidents(
        self, *, everything: Annotated[bool, QueryParameter(name="all")] = False
    ) -> Encoded[IncidentList]:
        """Troubles by their cause: those that are open, with `all=true` also those that are over."""
        found = sorted(await self._listed(everything), key=_order)
        return encoded(IncidentList(tuple(map(_record, found[:INCIDENTS_MAX]))))


def _order(incident: Incident) -> tuple[bool, float, str]:
    return not incident.is_open, -incident.opened_at, incident.id


def _record(incident: Incident) -> IncidentRecord:
    return IncidentRecord(
        id=incident.id,
        cause=incident.cause,
        scope=incident.scope,
        opened_at=iso(incident.opened_at),
        updated_at=iso(incident.updated_at),
        resolved_at=iso(incident.resolved_at) if incident.resolved_at is not None else None,
        sessions=incident.sessions,
        affected=incident.affected,
        words=words_of(incident),
        summary=incident.summary,
        did=did_words(incident),
        issue_url=incident.issue_url,
        members=tuple(map(_member, incident.members)),
        until=iso(incident.until) if incident.until is not None else None,
    )


def _member(member: Member) -> MemberRecord:
    left_at = iso(member.left_at) if member.left_at is not None else None
    return MemberRecord(member.id, member.name, member.fate, fate_words(member), left_at)
