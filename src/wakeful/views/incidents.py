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

# The newest; a month has fewer.
INCIDENTS_MAX: Final = 1000
# A session's name and its project.
NAME_CHARS_MAX: Final = 140


class MemberRecord(Struct, frozen=True):
    """A session that is or was in an incident, and its status. `left_at`: when it left the incident."""

    id: SessionId
    name: str
    fate: MemberStatus
    words: str
    left_at: str | None


class IncidentRecord(Struct, frozen=True):
    """One incident. `sessions` have the problem now, `members` are all it has had; `did` is Wakeful's action.

    `until` is when its cause ends by itself, if that is known.
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
    """Open incidents first, then by age, the newest first; `paused` is the pause, if there is one."""

    incidents: tuple[IncidentRecord, ...]
    paused: PauseRecord | None = None


def incident_list(found: Iterable[Incident], paused: PauseRecord | None) -> IncidentList:
    by_age = sorted(found, key=lambda each: (not each.is_open, -each.opened_at, each.summary, each.id))
    shown = by_age[:INCIDENTS_MAX]
    return IncidentList(tuple(map(_record, shown)), paused)


def _record(told: Incident) -> IncidentRecord:
    # Names of an earlier version are as agents chose them.
    members = tuple(
        replace(each, name=label(each.name, NAME_CHARS_MAX, 2 * WORDS_MAX)) for each in told.members
    )
    # The project and the name of a queue are its program's choice.
    scope = label(told.scope) if told.cause is Cause.WORKER else told.scope
    incident = replace(told, members=members, scope=scope)
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


def _member(member: Member) -> MemberRecord:
    left_at = iso(member.left_at) if member.left_at is not None else None
    return MemberRecord(member.id, member.name, member.fate, member_text(member), left_at)
