"""Registry of agents: declarations and records, changed by the state table, stored, logged and announced.

This module neither inspects nor changes anything outside. The state of an agent changes only in `apply_event` and
`apply_observation`, between two awaits, so that of two actions at once one finds the state that the other left.
"""

import logging
from collections import Counter
from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from typing import Final, Protocol

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from wakeful.agents.model import (
    AgentChange,
    AgentEvent,
    AgentObservation,
    AgentRecord,
    AgentSpec,
    AgentState,
    accepts,
    event_of,
    next_state,
    parse_agent_name,
)
from wakeful.agents.runtime import Runtime
from wakeful.core.clock import Clock, iso
from wakeful.core.decoding import decode_json
from wakeful.core.errors import OperatorError, WorldError
from wakeful.core.ids import SessionId, agent_member_id
from wakeful.core.process import Process, ProcessState
from wakeful.judging.session_record import safe
from wakeful.storage.base import Note

KIND: Final = "agent"
# In these states, a later observation may replace the reason.
_REASON_UPDATED_STATES: Final = frozenset({AgentState.STALE, AgentState.UNKNOWN})

ENDED_EARLY: Final = "Wakeful ended while it started, and it ended before it was ready"
_SESSION_DEAD: Final = "session dead"

log = logging.getLogger("wakeful.hub")


class AgentNotFound(OperatorError, code="agent-not-found", http_status=404):
    """No agent {shown!r}.{meant} List them with `wakeful agent list`."""


class AgentRefuses(OperatorError, code="agent-refuses", http_status=409, exit_code=1):
    """Agent {name} is {state}{why}. {order} works only when it is {accepted}."""


class GivenUp(Struct, frozen=True):
    """An agent that ended and stays stale; an alert said so."""

    # `Agent.work_since` of the spent budget; without a restart, when the agent ended.
    work_since: float
    what: str
    since: str
    # It was seen running or stopped afterwards.
    is_over: bool = False
    # False: nothing was tried, because its restart is manual or Wakeful may not act.
    restarted: bool = True


class AgentSnapshot(Struct, frozen=True):
    """The stored state of an agent. `moved_at` is the wall time of `record.since`; `work_since` is part of its budget's key."""

    record: AgentRecord
    moved_at: float
    work_since: float
    placed: bool = False
    # A person's stop is final: only a person starts it again.
    stop_ordered: bool = False
    # The newest epoch before its last start was ordered: without a newer one nothing was started.
    epoch_before: int = 0
    given_up: GivenUp | None = None


class Agent:
    def __init__(self, spec: AgentSpec, runtime: Runtime, record: AgentRecord, now: float) -> None:
        self.spec = spec
        self.runtime = runtime
        self.record = record
        # As it was stored last; at first, as it is without being stored.
        self.stored_record = record
        self.moved_at = now
        self.work_since = now
        self.process: Process | None = None
        # A pid that was seen and could not be identified afterwards.
        self.unidentified_pid: int | None = None
        # Whether its container or session existed at the last inspection.
        self.is_present = False
        self.stop_ordered = False
        self.given_up: GivenUp | None = None
        # The newest observed epoch, now and when its last start was ordered.
        self.epoch_seen = 0
        self.epoch_before = 0
        self.previous_state = AgentState.RUNNING
        # Whether the runtime itself did not answer.
        self.runtime_lost = False
        # Awake time since which its session is missing while it runs; `Hub.recovery_of` sets it.
        self.session_missing_since: float | None = None
        # Orders under way: until they end, only their own inspections count.
        self.commands_running = 0
        # The end of the newest inspection that counted: one that began before does not count.
        self.last_inspection = 0

    @property
    def name(self) -> str:
        return self.spec.name

    @property
    def key(self) -> SessionId:
        """Its id in actions and incidents."""
        return agent_member_id(self.name)

    @property
    def state(self) -> AgentState:
        return self.record.state

    @property
    def has_started(self) -> bool:
        """Whether any process of its last start was ever seen."""
        return self.epoch_seen > self.epoch_before

    @property
    def is_given_up(self) -> bool:
        """Whether the restart of its present task is spent, and nothing more is tried."""
        given_up = self.given_up
        return given_up is not None and given_up.restarted and given_up.work_since == self.work_since

    def is_in(self, state: AgentState) -> bool:
        """Compares the current state; unlike `state`, not narrowed by the type checker across an await."""
        return self.record.state is state


class Notes(Protocol):
    async def save_note(self, note: Note) -> None: ...

    async def drop_note(self, kind: str, key: str) -> bool: ...

    async def notes(self, kind: str) -> list[Note]: ...


class AgentListener(Protocol):
    def publish_agent_change(self, change: bytes) -> None:
        """An agent changed: the encoded `AgentChange`."""

    def set_agent(self, session_id: SessionId, agent: str | None) -> None:
        """This agent hosts the session, or its state changed; None: no agent hosts it any more."""


class NoAgentListener:
    """For a single inspection."""

    def publish_agent_change(self, change: bytes) -> None: ...

    def set_agent(self, session_id: SessionId, agent: str | None) -> None: ...


class AgentTable:
    def __init__(
        self,
        specs: Iterable[AgentSpec],
        runtimes: Mapping[str, Runtime],
        store: Notes,
        clock: Clock,
        listener: AgentListener,
    ) -> None:
        self.runtimes = runtimes
        self._store = store
        self._clock = clock
        self._listener = listener
        # Failed inspections since the start, by runtime.
        self.failed_counts: Counter[str] = Counter()
        now = clock.now().wall
        self.agents = {
            spec.name: Agent(spec, runtimes[spec.runtime], _new_record(spec, now), now) for spec in specs
        }

    async def load(self) -> None:
        """Load the stored agents; those that are no longer declared are deleted."""
        for note in await self._store.notes(KIND):
            agent = self.agents.get(note.key)
            if agent is None:
                await self._store.drop_note(KIND, note.key)
                continue
            try:
                stored = decode_json(note.body, AgentSnapshot)
            except msgspec.DecodeError:
                log.info("the stored record of agent %s is from another version", note.key)
                continue
            self._write(agent, replace(stored.record, runtime=agent.spec.runtime))
            agent.stored_record = agent.record
            agent.moved_at, agent.work_since = stored.moved_at, stored.work_since
            agent.is_present, agent.stop_ordered = stored.placed, stored.stop_ordered
            agent.epoch_before, agent.given_up = stored.epoch_before, stored.given_up

    def find(self, text: str) -> Agent:
        """The agent with this name. Raises AgentNotFound with the nearest one, BadAgentName."""
        agent = self.agents.get(text)
        if agent is None:
            parse_agent_name(text)
            close = get_close_matches(text, self.agents, n=1)
            raise AgentNotFound(shown=text, meant=f" Did you mean {close[0]!r}?" if close else "")
        return agent

    def require(self, agent: Agent, event: AgentEvent) -> None:
        """Raises AgentRefuses if the table has no such order in this state."""
        if not accepts(agent.state, event):
            accepted = ", ".join(state for state in AgentState if accepts(state, event))
            reason = agent.record.reason
            why = f" ({reason})" if reason and agent.state is AgentState.UNKNOWN else ""
            raise AgentRefuses(
                name=agent.name, state=agent.state, why=why, order=event.partition(" ")[0], accepted=accepted
            )

    def apply_event(self, agent: Agent, event: AgentEvent, reason: str = "") -> bool:
        """Apply an order or its failure. Returns whether the state changed."""
        state = next_state(agent.state, event)
        if state is agent.state:
            return False
        if event is AgentEvent.START:
            agent.epoch_before = agent.epoch_seen
        self._change(agent, self._in_state(agent, state, reason or str(event)))
        return True

    def apply_observation(
        self, agent: Agent, observation: AgentObservation, session_id: SessionId | None = None
    ) -> bool:
        """Apply an inspection. Returns whether the state changed."""
        event = event_of(observation)
        self.failed_counts[agent.runtime.name] += event is AgentEvent.UNSEEN
        if event is AgentEvent.GONE and not agent.is_present and agent.state is AgentState.ERROR:
            # Its start failed before anything existed: the reason of the failure stays.
            event = AgentEvent.UNSEEN
        agent.epoch_seen = max(agent.epoch_seen, observation.epoch)
        if event is AgentEvent.NOT_YET and agent.is_in(AgentState.STARTING):
            # It is alive now and was not before: not every runtime knows the epoch of an ended agent.
            agent.epoch_before = -1
        if event is AgentEvent.SESSION_LOST and agent.is_in(AgentState.STARTING) and not agent.has_started:
            # Only older epochs exist: Wakeful ended before it started anything.
            event = AgentEvent.CALLED_OFF
        if event is AgentEvent.GONE and agent.is_in(AgentState.STARTING) and agent.has_started:
            # The new agent ended before it was ready: a failed start, not a stop.
            event = AgentEvent.NOT_READY
        if observation.container is not ProcessState.UNKNOWN:
            agent.is_present = observation.container is ProcessState.ALIVE
        agent.runtime_lost = observation.container is ProcessState.UNKNOWN
        state = next_state(agent.state, event)
        changed = state is not agent.state
        record = (
            self._in_state(agent, state, _reason_text(agent, event, observation)) if changed else agent.record
        )
        if not changed and state in _REASON_UPDATED_STATES and observation.reason:
            record = replace(record, reason=safe(_reason_text(agent, event, observation)))
        running = state is AgentState.RUNNING
        record = replace(
            record,
            session_alive=running and event is AgentEvent.READY,
            # A person can attach to an agent that is not ready: it may be at a dialog.
            pid=observation.pid
            if running or state is AgentState.UNKNOWN or event is AgentEvent.NOT_YET
            else None,
            container_id=observation.container_id,
            tmux_session=observation.tmux_session,
            tmux_socket=observation.tmux_socket,
            epoch=max(record.epoch, observation.epoch),
            session_id=session_id or record.session_id,
        )
        if record != agent.record:
            self._change(agent, record)
        return changed

    def set_session(self, agent: Agent, session_id: SessionId) -> None:
        """Record the session that it hosts, before its next inspection."""
        self._write(agent, replace(agent.record, session_id=session_id))

    def set_epoch(self, agent: Agent, epoch: int) -> None:
        agent.record = replace(agent.record, epoch=epoch)

    def apply_command(self, agent: Agent, event: AgentEvent) -> None:
        """Apply a person's order: a new task with its own budget begins."""
        agent.work_since = self._clock.now().wall
        agent.stop_ordered = event is AgentEvent.STOP
        if event is AgentEvent.START:
            self._write(agent, replace(agent.record, session_id=None))
        self.apply_event(agent, event)

    async def save(self, agent: Agent) -> None:
        """Store it. A failed write is logged; after a restart, the agent then has its older snapshot."""
        body = msgspec.json.encode(
            AgentSnapshot(
                agent.record,
                agent.moved_at,
                agent.work_since,
                placed=agent.is_present,
                stop_ordered=agent.stop_ordered,
                epoch_before=agent.epoch_before,
                given_up=agent.given_up,
            )
        )
        stored = agent.record
        try:
            await self._store.save_note(Note(KIND, agent.name, body))
            agent.stored_record = stored
        except WorldError as error:
            log.warning("the state of agent %s was not stored: %s", agent.name, error)

    def _in_state(self, agent: Agent, state: AgentState, reason: str) -> AgentRecord:
        agent.moved_at = self._clock.now().wall
        agent.previous_state, agent.session_missing_since = agent.state, None
        alive = agent.record.session_alive and state is AgentState.RUNNING
        since = iso(agent.moved_at)
        return replace(agent.record, state=state, since=since, reason=safe(reason), session_alive=alive)

    def _write(self, agent: Agent, record: AgentRecord) -> None:
        before, agent.record = agent.record.hosted_session, record
        if before != record.hosted_session:
            for session_id, name in ((before, None), (record.hosted_session, agent.name)):
                if session_id is not None:
                    self._listener.set_agent(session_id, name)

    def _change(self, agent: Agent, record: AgentRecord) -> None:
        old = agent.record.state
        self._write(agent, record)
        if old is not record.state:
            if record.hosted_session is not None:
                # Whether prompts reach a session depends on its agent: the session is judged again.
                self._listener.set_agent(record.hosted_session, agent.name)
            log.info("agent %s: %s -> %s (%s)", agent.name, old, record.state, record.reason)
        at = record.since if old is not record.state else iso(self._clock.now().wall)
        change = AgentChange(agent.name, old, record.state, record.reason, at, record)
        self._listener.publish_agent_change(msgspec.json.encode(change))


def _reason_text(agent: Agent, event: AgentEvent, observation: AgentObservation) -> str:
    """The reason of the state; for a container in which the session died, the documented sentence."""
    if event is AgentEvent.SESSION_LOST and agent.stop_ordered:
        return "stopped by a person; its terminal is left"
    if agent.state is AgentState.STARTING and event is AgentEvent.SESSION_LOST:
        return ENDED_EARLY
    if event is AgentEvent.NOT_YET:
        return str(event)
    if event in (AgentEvent.SESSION_LOST, AgentEvent.CALLED_OFF) and observation.reason in (
        "",
        _SESSION_DEAD,
    ):
        return f"container running, {_SESSION_DEAD}" if agent.spec.runtime == "docker" else _SESSION_DEAD
    if event is AgentEvent.GONE and agent.state is AgentState.STOPPING:
        return "stopped by a person"
    return observation.reason or str(event)


def _new_record(spec: AgentSpec, now: float) -> AgentRecord:
    return AgentRecord(
        id=spec.name,
        name=spec.name,
        runtime=spec.runtime,
        state=AgentState.STOPPED,
        session_alive=False,
        pid=None,
        container_id=None,
        tmux_session=None,
        tmux_socket=None,
        epoch=0,
        since=iso(now),
        reason="",
        session_id=None,
    )
