"""Incident records for all interfaces: one for each incident, however many sessions it has. Pure."""

from collections.abc import Iterable
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from wakeful.alerts.mute_pause_model import PauseRecord
from wakeful.core.clock import iso
from wakeful.core.ids import SessionId
from wakeful.core.labels import WORDS_MAX, label, quotations
from wakeful.incidents.model import (
    Cause,
    Incident,
    Member,
    MemberStatus,
    actions_text,
    member_text,
    summary_of,
)

# The newest of them: nobody reads a longer list, and a month has fewer.
INCIDENTS_MAX: Final = 1000
# A session's name and its project.
NAME_CHARS_MAX: Final = 140


class MemberRecord(Struct, frozen=True):
    """A session that is or was in an incident, and what became of it. `left_at`: since when it is out of it."""

    id: SessionId
    name: str
    fate: MemberStatus
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
    # Which words of the sentences above agents chose.
    untrusted: tuple[str, ...] = ()


class IncidentList(Struct, frozen=True):
    """Open ones first, the newest first among equals; `paused` says who stopped everything, if somebody did."""

    incidents: tuple[IncidentRecord, ...]
    paused: PauseRecord | None = None


def incident_list(found: Iterable[Incident], paused: PauseRecord | None) -> IncidentList:
    """As many as anybody reads."""
    shown = sorted(found, key=_order)[:INCIDENTS_MAX]
    return IncidentList(tuple(map(_record, shown)), paused)


def _order(incident: Incident) -> tuple[bool, float, str, str]:
    return not incident.is_open, -incident.opened_at, incident.summary, incident.id


def _record(told: Incident) -> IncidentRecord:
    # Names of an earlier version are as agents chose them.
    members = tuple(
        replace(each, name=label(each.name, NAME_CHARS_MAX, 2 * WORDS_MAX)) for each in told.members
    )
    incident = replace(told, members=members, scope=_scope(told))
    words, did = summary_of(incident), actions_text(incident)
    return IncidentRecord(
        id=incident.id,
        cause=incident.cause,
        scope=incident.scope,
        opened_at=iso(incident.opened_at),
        updated_at=iso(incident.updated_at),
        resolved_at=iso(incident.resolved_at) if incident.resolved_at is not None else None,
        sessions=incident.sessions,
        affected=incident.affected,
        words=words,
        summary=incident.summary,
        did=did,
        issue_url=incident.issue_url,
        members=tuple(map(_member, incident.members)),
        until=iso(incident.until) if incident.until is not None else None,
        untrusted=quotations([words, incident.summary, did, *(each.words for each in members)]),
    )


def _scope(incident: Incident) -> str:
    """A queue's project and what it is called are its program's choice."""
    return label(incident.scope) if incident.cause is Cause.WORKER else incident.scope


def _member(member: Member) -> MemberRecord:
    left_at = iso(member.left_at) if member.left_at is not None else None
    return MemberRecord(member.id, member.name, member.fate, member_text(member), left_at)
