"""Leases of agents: which daemon may start one.

A lease whose daemon is seen dead can be claimed at once; any other lease only after it ends.
"""

from collections.abc import Callable

from wakeful.agents.table import Agent
from wakeful.core.leases import LeaseConflict, LeaseKey, conversation_held_error
from wakeful.core.process import Process
from wakeful.storage.base import Store


class AgentLeases:
    """Leases of this daemon's process. `is_dead` is certain: an invisible process is not dead."""

    def __init__(
        self, store: Store, owner: str, daemon: Process | None, is_dead: Callable[[Process], bool]
    ) -> None:
        self._store = store
        self._owner = owner
        self._daemon = daemon
        self._is_dead = is_dead

    async def claim(self, agent: Agent) -> int:
        """Claim the next epoch, which fences processes of earlier ones. Raises ConversationHeld."""
        key = _key(agent)
        if agent.record.epoch:
            await self._store.yield_lease(key, agent.record.epoch)
        taken = await self._store.claim_lease(key, self._owner, holder=self._daemon)
        # Only if the owner is the same: the processes of another owner may be invisible here.
        if isinstance(taken, LeaseConflict) and taken.holder is not None and taken.owner == self._owner:
            dead = taken.holder
            if self._is_dead(dead):
                taken = await self._store.claim_lease(key, self._owner, holder=self._daemon, instead_of=dead)
        if isinstance(taken, LeaseConflict):
            raise conversation_held_error(taken)
        return taken.epoch

    async def renew(self, agent: Agent) -> bool:
        """Renew the lease, also one that an earlier daemon claimed; False if another owner has it."""
        epoch = agent.record.epoch
        return await self._store.renew_lease(_key(agent), epoch, holder=self._daemon) is not None

    async def give_back(self, agent: Agent) -> None:
        await self._store.yield_lease(_key(agent), agent.record.epoch)


def _key(agent: Agent) -> LeaseKey:
    return LeaseKey(f"agent/{agent.name}")
