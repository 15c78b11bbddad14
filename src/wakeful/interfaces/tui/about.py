"""What is asked about one session when somebody looks at it: why, its last calls, its transitions. Blocks; run in a thread."""

from typing import Final

from wakeful.domain.ids import SessionId
from wakeful.domain.why import Why
from wakeful.interfaces.cli.client import Client, Refused
from wakeful.interfaces.cli.listing import decoded
from wakeful.interfaces.tui.words import Call, Calls, Told
from wakeful.services.session_events import EventList, EventRecord

CALLS_SHOWN_MAX: Final = 8
# As many transitions as anybody looks at.
EVENT_PAGES_MAX: Final = 10


def told_of(client: Client, session_id: SessionId) -> Told:
    """Raises what the daemon refuses with."""
    why = decoded(client.get(f"/api/sessions/{session_id}/why").body, Why)
    return Told(why, _calls(client, session_id), _events(client, session_id))


def _calls(client: Client, session_id: SessionId) -> list[Call]:
    try:
        body = client.get(f"/api/sessions/{session_id}/calls?limit={CALLS_SHOWN_MAX}").body
    except Refused:
        # A daemon of an earlier version has no such route.
        return []
    return decoded(body, Calls).calls


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
