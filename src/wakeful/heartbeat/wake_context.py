"""What a wake prompt says beside the file's guidance: facts about the agent, its session and its work.

Facts only: the words of a work are somebody's, and are read where they are asked for, never in a prompt of ours.
"""

from collections.abc import Collection
from typing import Final

from wakeful.core.labels import label
from wakeful.core.leases import Work, WorkState
from wakeful.core.moment import iso
from wakeful.heartbeat.domain_heartbeat import Include
from wakeful.heartbeat.wake_targets import Target
from wakeful.judging.session_record import SessionRecord
from wakeful.storage.store import Store

# Beyond this it is said that there are more.
WORKS_MAX: Final = 1000
SHOWN_MAX: Final = 5


class WakeContext:
    """Asks the store only for what a file wants to be told."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def of(self, target: Target, wanted: Collection[Include]) -> dict[Include, str]:
        """What there is to say; nothing about an agent without a session. Raises what the store raises."""
        record = target.watched.record if target.watched is not None else None
        if record is None:
            return {}
        makers = {
            Include.SELF: self._self,
            Include.SESSION_HEALTH: self._health,
            Include.TASK: self._task,
            Include.INBOX_SUMMARY: self._inbox,
        }
        return {each: await makers[each](target.agent, record) for each in wanted}

    async def _self(self, agent: str, record: SessionRecord) -> str:
        return f"you are the agent {agent}, session {record.id}"

    async def _health(self, agent: str, record: SessionRecord) -> str:
        del agent
        return f"{record.health}, {record.state}, last active {record.last_activity_at or 'never'}"

    async def _task(self, agent: str, record: SessionRecord) -> str:
        """The works that are claimed by this agent's name, or continue its session."""
        leases = {lease.key: lease for lease in await self._store.leases()}
        held = []
        for work in await self._store.works(WorkState.RUNNING, limit=WORKS_MAX):
            lease = leases.get(work.lease_key)
            if lease is not None and (work.session_id == record.id or lease.owner == agent):
                held.append(f"{work.id} until {iso(lease.expires_at)}")
        more = f" and {len(held) - SHOWN_MAX} more" if len(held) > SHOWN_MAX else ""
        return f"you hold {', '.join(held[:SHOWN_MAX])}{more}" if held else "you hold no work"

    async def _inbox(self, agent: str, record: SessionRecord) -> str:
        """The works that wait for its session, or for anybody in its project."""
        del agent
        pending = await self._store.works(WorkState.PENDING, limit=WORKS_MAX)
        waiting = [each for each in pending if _is_for(each, record)]
        if not waiting:
            return "no work waits for you"
        oldest = iso(min(each.created_at for each in waiting))
        more = " or more" if len(pending) == WORKS_MAX else ""
        return f"{len(waiting)}{more} waiting for you, the oldest since {oldest}: `wakeful work list`"


def _is_for(work: Work, record: SessionRecord) -> bool:
    return work.session_id == record.id or (work.session_id is None and label(work.project) == record.project)
