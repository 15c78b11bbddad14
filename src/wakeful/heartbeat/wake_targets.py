"""Whom a name means: the session an agent has, the most recently active one where it has several; or the session of an id."""

from collections.abc import Callable
from math import inf

from msgspec import Struct

from wakeful.agents.model import AgentRecord, AgentSpec, BadAgentName
from wakeful.core.ids import SessionId
from wakeful.heartbeat.model import parse_target
from wakeful.sessions.registry import Roster
from wakeful.sessions.session import Watched


class Target(Struct, frozen=True):
    """An agent's session, if it has one, and the folder its own HEARTBEAT.md would lie in."""

    agent: str
    watched: Watched | None
    workdir: str | None

    @property
    def session_id(self) -> SessionId | None:
        return self.watched.subject.id if self.watched is not None else None


class Declared(Struct, frozen=True):
    """An agent of the hub."""

    record: AgentRecord
    spec: AgentSpec


class Targets:
    """Agents of the hub, and sessions that a person named."""

    def __init__(self, roster: Roster, declared: Callable[[], dict[str, Declared]] = dict) -> None:
        self._roster = roster
        self._declared = declared

    def names(self) -> list[str]:
        """Everybody who could be woken, in order."""
        named = {name for name in self._roster.names.values() if _is_target(name)}
        return sorted(named | set(self._declared()))

    def find(self, name: str) -> Target:
        """Who that is. Raises BadAgentName for what can be neither a name nor a session's id."""
        parse_target(name)
        declared = self._declared().get(name)
        watched = max(self._sessions(name, declared), key=_last_active, default=None)
        if watched is None and declared is None and SessionId(name) in self._roster.watched:
            return self.of_session(SessionId(name))
        return Target(name, watched, _workdir(watched, declared))

    def name_of(self, session_id: SessionId) -> str | None:
        """The agent whose session this is."""
        named = self._roster.names.get(session_id)
        if named is not None and _is_target(named):
            return named
        for name, declared in self._declared().items():
            if declared.record.session_id == session_id:
                return name
        return None

    def of_session(self, session_id: SessionId) -> Target:
        """This very session, by its agent's name if it has one."""
        watched, name = self._roster.watched[session_id], self.name_of(session_id)
        declared = self._declared().get(name) if name is not None else None
        return Target(name or session_id, watched, _workdir(watched, declared))

    def _sessions(self, name: str, declared: Declared | None) -> list[Watched]:
        ids = [each for each, known in self._roster.names.items() if known == name]
        if declared is not None and declared.record.session_id is not None:
            ids.append(declared.record.session_id)
        found = [self._roster.watched[each] for each in ids if each in self._roster.watched]
        return [each for each in found if each.record is not None]


def _last_active(watched: Watched) -> tuple[float, str]:
    last_at = watched.activity.last_at
    return (last_at.awake if last_at is not None else -inf), watched.subject.id


def _workdir(watched: Watched | None, declared: Declared | None) -> str | None:
    """Where the agent works on this host; a folder inside a container is none."""
    if declared is not None:
        return declared.spec.workdir or None if declared.spec.runtime == "tmux" else None
    if watched is None:
        return None
    return watched.activity.cwd or watched.presence.cwd


def _is_target(name: str) -> bool:
    try:
        parse_target(name)
    except BadAgentName:
        return False
    return True
