"""What is asked about one session when somebody looks at it: why, and what happened to it. Blocks; run in a thread."""

from typing import Final, TypeVar

from msgspec import Struct

from wakeful.cli.commands.events import Events
from wakeful.cli.format.listing import decoded
from wakeful.client.client import Client, Refused
from wakeful.core.ids import SessionId
from wakeful.judging.why import Why
from wakeful.tui.spans import Calls, wall
from wakeful.tui.timeline import Past
from wakeful.tui.words import Told
from wakeful.views.session_events import EventList, EventRecord

# As many as the page reads for an hour's work.
CALLS_READ_MAX: Final = 300
# As many transitions as anybody looks at.
EVENT_PAGES_MAX: Final = 10

T = TypeVar("T", bound=Struct)


class _Member(Struct, frozen=True):
    id: str


class _Episode(Struct, frozen=True):
    opened_at: str
    resolved_at: str | None
    members: list[_Member]


class _Episodes(Struct, frozen=True):
    incidents: list[_Episode] = []


def told_of(client: Client, session_id: SessionId) -> Told:
    """Raises what the daemon refuses with."""
    one = f"/api/sessions/{session_id}"
    why = decoded(client.get(f"{one}/why").body, Why)
    calls = _asked(client, f"{one}/calls?limit={CALLS_READ_MAX}", Calls) or Calls()
    episodes = _asked(client, "/api/incidents?all=true", _Episodes) or _Episodes()
    critical = _asked(client, "/api/events?since=7d", Events)
    past = Past(
        _events(client, session_id),
        calls,
        [
            _span(each)
            for each in episodes.incidents
            if any(member.id == session_id for member in each.members)
        ],
        _acts(critical, session_id) if critical is not None else [],
    )
    return Told(why, past)


def _asked(client: Client, target: str, shape: type[T]) -> T | None:
    """None from a daemon of an earlier version, which has no such route."""
    try:
        return decoded(client.get(target).body, shape)
    except Refused:
        return None


def _span(episode: _Episode) -> tuple[float, float | None]:
    over = episode.resolved_at
    return wall(episode.opened_at), wall(over) if over is not None else None


def _acts(critical: Events, session_id: SessionId) -> list[float]:
    """When Wakeful did something about it."""
    mine = (each for each in critical.events if each.get("session_id") == session_id)
    return [wall(str(each["timestamp"])) for each in mine if each.get("action_taken", "none") != "none"]


def _events(client: Client, session_id: SessionId) -> list[EventRecord]:
    """Oldest first."""
    found: list[EventRecord] = []
    for _ in range(EVENT_PAGES_MAX):
        after = found[-1].seq if found else 0
        page = decoded(client.get(f"/api/sessions/{session_id}/events?after={after}").body, EventList)
        found += page.events
        if page.next_cursor is None:
            break
    return found
