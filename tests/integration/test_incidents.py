"""Claims about the book of incidents on a real store."""

import asyncio
from pathlib import Path

from wakeful.core.ids import SessionId
from wakeful.incidents.model import Cause, Origin
from wakeful.incidents.service import Incidents
from wakeful.storage.sqlite.store import SqliteStore
from wakeful.testing.virtual_clock import VirtualClock


async def test_six_who_fail_at_once_are_in_one_incident(tmp_path: Path) -> None:
    """On a slow store, too: no second one is opened meanwhile, and no session is lost from it."""
    store = await SqliteStore.open(tmp_path / "wakeful.db")
    incidents = Incidents(store, VirtualClock())
    names = [SessionId(f"claude-{name}") for name in "abcdef"]
    origin = Origin(Cause.AUTH, "claude")
    await asyncio.gather(*(incidents.join(each, origin, "login") for each in names))
    (incident,) = await incidents.list_incidents()
    assert sorted(incident.sessions) == names
    await asyncio.gather(*(incidents.leave(each) for each in names))
    (over,) = await incidents.list_incidents(include_resolved=True)
    assert (over.is_open, over.affected) == (False, 6)
    await store.close()
