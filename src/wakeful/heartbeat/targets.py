"""Resolves the target of a wake to a session, and gathers the context facts of its prompt.

A name means the session of that agent or with that name: of several one that lives, then the most recently active
one; an id means its session. The context has facts about agent, session and tasks only: the text of a task is never in it.
"""

from collections.abc import Callable, Collection
from math import inf
from typing import Final

from msgspec import Struct

from wakeful.agents.model import AgentRecord, AgentSpec, BadAgentName
from wakeful.core.clock import iso
from wakeful.core.ids import SessionId
from wakeful.core.labels import label
from wakeful.core.leases import WorkState
from wakeful.heartbeat.model import parse_target
from wakeful.heartbeat.policy import Include
from wakeful.judging.session_record import SessionRecord
from wakeful.sessions.registry import SessionRegistry
from wakeful.sessions.session import TrackedSession
from wakeful.storage.base import Store


class Target(Struct, frozen=True):
    """An agent's session, if it has one, and the folder of its own HEARTBEAT.md."""

    agent: str
    session: TrackedSession | None
    workdir: str | None

    @property
    def session_id(self) -> SessionId | None:
        return self.session.subject.id if self.session is not None else None


class DeclaredAgent(Struct, frozen=True):
    """An agent of the hub."""

    record: AgentRecord
    spec: AgentSpec


class Targets:
    """Agents of the hub, and sessions that a person named."""

    def __init__(
        self, registry: SessionRegistry, declared: Callable[[], dict[str, DeclaredAgent]] = dict
    ) -> None:
        self._registry = registry
        self._declared_agents = declared

    def names(self) -> list[str]:
        """Every name that can be woken, in order."""
        named = {name for name in self._registry.names.values() if _is_target(name)}
        return sorted(named | set(self._declared_agents()))

    def find(self, name: str) -> Target:
        """The target of a name. Raises BadAgentName for a text that is no name and no session's id."""
        parse_target(name)
        declared = self._declared_agents().get(name)
        session = max(self._sessions(name, declared), key=_life_and_activity, default=None)
        if session is None and declared is None and SessionId(name) in self._registry.sessions:
            return self.of_session(SessionId(name))
        return Target(name, session, _workdir(session, declared))

    def name_of(self, session_id: SessionId) -> str | None:
        """The agent of this session."""
        named = self._registry.names.get(session_id)
        if named is not None and _is_target(named):
            return named
        for name, declared in self._declared_agents().items():
            if declared.record.session_id == session_id:
                return name
        return None

    def of_session(self, session_id: SessionId) -> Target:
        """Exactly this session, under its agent's name if it has one."""
        session, name = self._registry.sessions[session_id], self.name_of(session_id)
        declared = self._declared_agents().get(name) if name is not None else None
        return Target(name or session_id, session, _workdir(session, declared))

    def _sessions(self, name: str, declared: DeclaredAgent | None) -> list[TrackedSession]:
        ids = [each for each, known in self._registry.names.items() if known == name]
        if declared is not None and declared.record.session_id is not None:
            ids.append(declared.record.session_id)
        found = [self._registry.sessions[each] for each in ids if each in self._registry.sessions]
        return [each for each in found if each.record is not None]


def _life_and_activity(session: TrackedSession) -> tuple[bool, float, str]:
    """A session that was just started lives and has no activity yet."""
    is_alive = session.record is not None and session.record.session_alive
    last_at = session.activity.last_at
    return is_alive, (last_at.awake if last_at is not None else -inf), session.subject.id


def _workdir(session: TrackedSession | None, declared: DeclaredAgent | None) -> str | None:
    """The agent's folder on this host; None for an agent in a container."""
    if declared is not None:
        return declared.spec.workdir or None if declared.spec.runtime == "tmux" else None
    if session is None:
        return None
    return session.activity.cwd or session.presence.cwd


def _is_target(name: str) -> bool:
    try:
        parse_target(name)
    except BadAgentName:
        return False
    return True


# With more tasks than this the text says "or more".
WORKS_MAX: Final = 1000
SHOWN_MAX: Final = 5


class WakeContext:
    """Gathers the facts that a file includes; it reads the store only for these."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def of(self, target: Target, wanted: Collection[Include]) -> dict[Include, str]:
        """The facts; none for an agent without a session. Raises the errors of the store."""
        record = target.session.record if target.session is not None else None
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
        """The tasks claimed under this agent's name, or that continue its session."""
        leases = {lease.key: lease for lease in await self._store.leases()}
        tasks = []
        for work in await self._store.works(WorkState.RUNNING, limit=WORKS_MAX):
            lease = leases.get(work.lease_key)
            if lease is not None and (work.session_id == record.id or lease.owner == agent):
                tasks.append(f"{work.id} until {iso(lease.expires_at)}")
        more = f" and {len(tasks) - SHOWN_MAX} more" if len(tasks) > SHOWN_MAX else ""
        return f"you hold {', '.join(tasks[:SHOWN_MAX])}{more}" if tasks else "you hold no work"

    async def _inbox(self, agent: str, record: SessionRecord) -> str:
        """The tasks that wait for its session, or for any session of its project."""
        del agent
        pending = await self._store.works(WorkState.PENDING, limit=WORKS_MAX)
        waiting = [
            each
            for each in pending
            if each.session_id == record.id
            or (each.session_id is None and label(each.project) == record.project)
        ]
        if not waiting:
            return "no work waits for you"
        oldest = iso(min(each.created_at for each in waiting))
        more = " or more" if len(pending) == WORKS_MAX else ""
        return f"{len(waiting)}{more} waiting for you, the oldest since {oldest}: `wakeful work list`"
