"""Agents of the hub: declaration, observation, record, and the table of states. Pure.

An agent hosts sessions: a container or a tmux session with a command. A running container does not prove a
working agent: `running` needs container, tmux session and agent process seen alive. If something cannot be
seen, the state is `unknown`, which allows no action. `docs/reference/agents.md` is generated from the table.
"""

import re
from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Final

from msgspec import Struct

from wakeful.core.errors import OperatorError
from wakeful.core.ids import SessionId
from wakeful.core.process import ProcessState

NAME_CHARS_MAX: Final = 40
# A name is also part of the names of the container and the tmux session, which print it to people.
_NAME: Final = re.compile(r"[a-z0-9][a-z0-9_-]*\Z")
RESERVED: Final = frozenset({"heartbeat", "list", "start", "stop", "restart-session"})
READY_SECONDS: Final = 60.0


class BadAgentName(OperatorError, code="bad-agent-name"):
    """Invalid agent name {shown!r}: use lowercase letters, digits, _ and -, at most 40, and no command's name."""


class AgentState(StrEnum):
    """The states of an agent; `unknown` if something prevents an observation."""

    STOPPED = "stopped"
    STARTING = "starting"
    RUNNING = "running"
    STALE = "stale"
    STOPPING = "stopping"
    ERROR = "error"
    UNKNOWN = "unknown"


class AgentEvent(StrEnum):
    START = "start ordered"
    READY = "seen ready"
    # The agent process is alive, and its screen has not matched `ready`.
    NOT_YET = "not ready yet"
    NOT_READY = "not ready in time"
    CALLED_OFF = "start called off"
    SESSION_LOST = "session gone"
    STOP = "stop ordered"
    GONE = "container gone"
    UNSEEN = "cannot be seen"


class AgentRuntime(StrEnum):
    DOCKER = "docker"
    TMUX = "tmux"


class Restart(StrEnum):
    """Who restarts a stale agent: a person, or Wakeful, once."""

    MANUAL = "manual"
    AUTO = "auto"


class AgentSpec(Struct, frozen=True, kw_only=True):
    """An agent as it is declared. `env` are names: values are passed through and never logged."""

    name: str
    runtime: AgentRuntime
    command: tuple[str, ...]
    image: str = ""
    workdir: str = ""
    env: tuple[str, ...] = ()
    network: str = ""
    mounts: tuple[str, ...] = ()
    user: str = ""
    # A pattern its screen shows once it is ready; without one, the process is enough.
    ready: str = ""
    ready_seconds: float = READY_SECONDS
    restart: Restart = Restart.MANUAL


class AgentObservation(Struct, frozen=True, kw_only=True):
    """One inspection of an agent by its runtime: container, session, process; `unknown` if it could not inspect."""

    container: ProcessState
    session: ProcessState
    agent: ProcessState
    # False while its screen has never matched `AgentSpec.ready`.
    ready: bool = True
    # The agent's process, as numbered on this host.
    pid: int | None = None
    container_id: str | None = None
    tmux_session: str | None = None
    tmux_socket: str | None = None
    epoch: int = 0
    reason: str = ""


class AgentRecord(Struct, frozen=True, kw_only=True):
    """An agent, as every interface shows it."""

    id: str
    name: str
    runtime: AgentRuntime
    state: AgentState
    session_alive: bool
    pid: int | None
    container_id: str | None
    tmux_session: str | None
    tmux_socket: str | None
    epoch: int
    since: str
    reason: str
    session_id: SessionId | None

    @property
    def hosted_session(self) -> SessionId | None:
        """The session that this agent would resume; a stopped agent starts a new one."""
        return None if self.state is AgentState.STOPPED else self.session_id


class AgentBrief(Struct, frozen=True):
    """An agent as the daemon's own status shows it."""

    id: str
    state: AgentState
    session_alive: bool
    reason: str


class AgentsSummary(Struct, frozen=True):
    """The number of agents in each state, and every agent."""

    counts: dict[str, int]
    agents: tuple[AgentBrief, ...]


# The order of `1 stale, 6 stopped`: running, then those that need a person, then the rest.
_STATE_ORDER: Final = (
    AgentState.RUNNING,
    AgentState.STALE,
    AgentState.UNKNOWN,
    AgentState.ERROR,
    AgentState.STARTING,
    AgentState.STOPPING,
    AgentState.STOPPED,
)


def summarize_agents(records: Sequence[AgentRecord]) -> AgentsSummary:
    states = [record.state for record in records]
    counts = {state.value: states.count(state) for state in _STATE_ORDER if state in states}
    briefs = (AgentBrief(each.id, each.state, each.session_alive, each.reason) for each in records)
    return AgentsSummary(counts, tuple(briefs))


def parse_agent_name(text: str) -> str:
    """Check a name from outside. Raises BadAgentName."""
    if len(text) > NAME_CHARS_MAX or _NAME.match(text) is None or text in RESERVED:
        raise BadAgentName(shown=text[:NAME_CHARS_MAX])
    return text


def event_of(observation: AgentObservation) -> AgentEvent:
    if (
        ProcessState.UNKNOWN in (observation.container, observation.session, observation.agent)
        and observation.container is not ProcessState.DEAD
    ):
        # A dead session or agent decides, even if other parts could not be seen.
        dead_inside = (
            ProcessState.DEAD in (observation.session, observation.agent)
            and observation.container is ProcessState.ALIVE
        )
        return AgentEvent.SESSION_LOST if dead_inside else AgentEvent.UNSEEN
    if observation.container is ProcessState.DEAD:
        return AgentEvent.GONE
    if ProcessState.DEAD in (observation.session, observation.agent):
        return AgentEvent.SESSION_LOST
    return AgentEvent.READY if observation.ready else AgentEvent.NOT_YET


_S = AgentState
AGENT_TRANSITIONS: Final[Mapping[tuple[AgentState, AgentEvent], AgentState]] = {
    (_S.STOPPED, AgentEvent.START): _S.STARTING,
    (_S.STALE, AgentEvent.START): _S.STARTING,
    (_S.ERROR, AgentEvent.START): _S.STARTING,
    # It was found running, or a person started it without Wakeful.
    (_S.STOPPED, AgentEvent.READY): _S.RUNNING,
    (_S.STOPPED, AgentEvent.NOT_YET): _S.STARTING,
    (_S.STOPPED, AgentEvent.SESSION_LOST): _S.STALE,
    (_S.STOPPED, AgentEvent.UNSEEN): _S.UNKNOWN,
    (_S.STARTING, AgentEvent.READY): _S.RUNNING,
    (_S.STARTING, AgentEvent.NOT_READY): _S.ERROR,
    (_S.STARTING, AgentEvent.STOP): _S.STOPPING,
    # It was stale before, and nothing was done to it.
    (_S.STARTING, AgentEvent.CALLED_OFF): _S.STALE,
    # Inspections count only while no order is under way: these follow orders that a crash or a lost engine cut off.
    (_S.STARTING, AgentEvent.SESSION_LOST): _S.ERROR,
    (_S.STARTING, AgentEvent.GONE): _S.STOPPED,
    (_S.STARTING, AgentEvent.UNSEEN): _S.UNKNOWN,
    (_S.STOPPING, AgentEvent.READY): _S.RUNNING,
    (_S.STOPPING, AgentEvent.NOT_YET): _S.STARTING,
    (_S.STOPPING, AgentEvent.SESSION_LOST): _S.STALE,
    (_S.STOPPING, AgentEvent.UNSEEN): _S.UNKNOWN,
    (_S.RUNNING, AgentEvent.SESSION_LOST): _S.STALE,
    (_S.RUNNING, AgentEvent.STOP): _S.STOPPING,
    (_S.RUNNING, AgentEvent.GONE): _S.STOPPED,
    (_S.RUNNING, AgentEvent.UNSEEN): _S.UNKNOWN,
    (_S.STALE, AgentEvent.READY): _S.RUNNING,
    (_S.STALE, AgentEvent.NOT_YET): _S.STARTING,
    (_S.STALE, AgentEvent.STOP): _S.STOPPING,
    (_S.STALE, AgentEvent.GONE): _S.STOPPED,
    (_S.STALE, AgentEvent.UNSEEN): _S.UNKNOWN,
    (_S.STOPPING, AgentEvent.GONE): _S.STOPPED,
    # Its screen shows at last that it is ready, or another program started it.
    (_S.ERROR, AgentEvent.READY): _S.RUNNING,
    (_S.ERROR, AgentEvent.STOP): _S.STOPPING,
    (_S.ERROR, AgentEvent.GONE): _S.STOPPED,
    (_S.UNKNOWN, AgentEvent.READY): _S.RUNNING,
    (_S.UNKNOWN, AgentEvent.NOT_YET): _S.STARTING,
    (_S.UNKNOWN, AgentEvent.SESSION_LOST): _S.STALE,
    (_S.UNKNOWN, AgentEvent.GONE): _S.STOPPED,
    # For a person, who may know more than Wakeful sees. Wakeful itself does not act on an unknown state.
    (_S.UNKNOWN, AgentEvent.STOP): _S.STOPPING,
}
"""An event that is not here leaves the state unchanged; an order that is not here is refused."""


def next_state(state: AgentState, event: AgentEvent) -> AgentState:
    return AGENT_TRANSITIONS.get((state, event), state)


def accepts(state: AgentState, event: AgentEvent) -> bool:
    return (state, event) in AGENT_TRANSITIONS


class AgentChange(Struct, frozen=True):
    """The feed's message about an agent: the old and the new state, the reason, the time and the record."""

    id: str
    old_state: AgentState | None
    state: AgentState
    reason: str
    at: str
    record: AgentRecord
