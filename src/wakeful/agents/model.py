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
from wakeful.core.process import Sight

NAME_CHARS_MAX: Final = 40
# A container's name and a tmux session's, and both print it to people.
_NAME: Final = re.compile(r"[a-z0-9][a-z0-9_-]*\Z")
RESERVED: Final = frozenset({"heartbeat", "list", "start", "stop", "restart-session"})
READY_SECONDS: Final = 60.0


class BadAgentName(OperatorError):
    """{shown!r} cannot be an agent's name: small letters, digits, _ and - only, 40 at most, and not a command's name."""

    code = "bad-agent-name"


class AgentState(StrEnum):
    """The states of an agent; `unknown` for everything that prevents seeing."""

    STOPPED = "stopped"
    STARTING = "starting"
    RUNNING = "running"
    STALE = "stale"
    STOPPING = "stopping"
    ERROR = "error"
    UNKNOWN = "unknown"


class Move(StrEnum):
    """What happens to an agent."""

    START = "start ordered"
    READY = "seen ready"
    # It lives, and its screen has not shown what says that it is ready.
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
    """What restarts a stale agent: a person through the menu, or healing."""

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


class Glimpse(Struct, frozen=True, kw_only=True):
    """What a runtime saw of an agent at one moment, from the container inwards. `unknown` wherever it could not look."""

    container: Sight
    session: Sight
    agent: Sight
    # False while its screen has never shown what says that it is ready.
    ready: bool = True
    # The agent's process as this host numbers it.
    pid: int | None = None
    container_id: str | None = None
    tmux_session: str | None = None
    tmux_socket: str | None = None
    epoch: int = 0
    reason: str = ""


class AgentRecord(Struct, frozen=True, kw_only=True):
    """What every door shows of an agent."""

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
    def hosts(self) -> SessionId | None:
        """The session that is this agent's to bring back; a stopped one begins anew, and leaves its last one free."""
        return None if self.state is AgentState.STOPPED else self.session_id


class AgentBrief(Struct, frozen=True):
    """An agent as the daemon's own status shows it."""

    id: str
    state: AgentState
    session_alive: bool
    reason: str


class AgentsStanding(Struct, frozen=True):
    """How many agents stand where, and each of them."""

    counts: dict[str, int]
    agents: tuple[AgentBrief, ...]


# The order of `1 stale, 6 stopped`: running, then those that need a person, then the rest.
_SPOKEN: Final = (
    AgentState.RUNNING,
    AgentState.STALE,
    AgentState.UNKNOWN,
    AgentState.ERROR,
    AgentState.STARTING,
    AgentState.STOPPING,
    AgentState.STOPPED,
)


def standing_of(records: Sequence[AgentRecord]) -> AgentsStanding:
    """What is said of these agents in few words."""
    states = [record.state for record in records]
    counts = {state.value: states.count(state) for state in _SPOKEN if state in states}
    briefs = (AgentBrief(each.id, each.state, each.session_alive, each.reason) for each in records)
    return AgentsStanding(counts, tuple(briefs))


def parse_agent_name(text: str) -> str:
    """The one door for names from outside. Raises BadAgentName."""
    if len(text) > NAME_CHARS_MAX or _NAME.match(text) is None or text in RESERVED:
        raise BadAgentName(shown=text[:NAME_CHARS_MAX])
    return text


def move_of(glimpse: Glimpse) -> Move:
    """What a glimpse amounts to."""
    if (
        Sight.UNKNOWN in (glimpse.container, glimpse.session, glimpse.agent)
        and glimpse.container is not Sight.DEAD
    ):
        # Whoever is seen dead further in settles it, whatever else could not be seen.
        dead_inside = Sight.DEAD in (glimpse.session, glimpse.agent) and glimpse.container is Sight.ALIVE
        return Move.SESSION_LOST if dead_inside else Move.UNSEEN
    if glimpse.container is Sight.DEAD:
        return Move.GONE
    if Sight.DEAD in (glimpse.session, glimpse.agent):
        return Move.SESSION_LOST
    return Move.READY if glimpse.ready else Move.NOT_YET


_S = AgentState
MOVES: Final[Mapping[tuple[AgentState, Move], AgentState]] = {
    (_S.STOPPED, Move.START): _S.STARTING,
    (_S.STALE, Move.START): _S.STARTING,
    (_S.ERROR, Move.START): _S.STARTING,
    # Found running after the fact, or started by hand.
    (_S.STOPPED, Move.READY): _S.RUNNING,
    (_S.STOPPED, Move.NOT_YET): _S.STARTING,
    (_S.STOPPED, Move.SESSION_LOST): _S.STALE,
    (_S.STOPPED, Move.UNSEEN): _S.UNKNOWN,
    (_S.STARTING, Move.READY): _S.RUNNING,
    (_S.STARTING, Move.NOT_READY): _S.ERROR,
    (_S.STARTING, Move.STOP): _S.STOPPING,
    # It was stale, and nothing was done to it.
    (_S.STARTING, Move.CALLED_OFF): _S.STALE,
    # Looks count only while no order is under way: these are for orders that a crash or a lost engine cut off.
    (_S.STARTING, Move.SESSION_LOST): _S.ERROR,
    (_S.STARTING, Move.GONE): _S.STOPPED,
    (_S.STARTING, Move.UNSEEN): _S.UNKNOWN,
    (_S.STOPPING, Move.READY): _S.RUNNING,
    (_S.STOPPING, Move.NOT_YET): _S.STARTING,
    (_S.STOPPING, Move.SESSION_LOST): _S.STALE,
    (_S.STOPPING, Move.UNSEEN): _S.UNKNOWN,
    (_S.RUNNING, Move.SESSION_LOST): _S.STALE,
    (_S.RUNNING, Move.STOP): _S.STOPPING,
    (_S.RUNNING, Move.GONE): _S.STOPPED,
    (_S.RUNNING, Move.UNSEEN): _S.UNKNOWN,
    (_S.STALE, Move.READY): _S.RUNNING,
    (_S.STALE, Move.NOT_YET): _S.STARTING,
    (_S.STALE, Move.STOP): _S.STOPPING,
    (_S.STALE, Move.GONE): _S.STOPPED,
    (_S.STALE, Move.UNSEEN): _S.UNKNOWN,
    (_S.STOPPING, Move.GONE): _S.STOPPED,
    # Its screen says so at last, or somebody else started it.
    (_S.ERROR, Move.READY): _S.RUNNING,
    (_S.ERROR, Move.STOP): _S.STOPPING,
    (_S.ERROR, Move.GONE): _S.STOPPED,
    (_S.UNKNOWN, Move.READY): _S.RUNNING,
    (_S.UNKNOWN, Move.NOT_YET): _S.STARTING,
    (_S.UNKNOWN, Move.SESSION_LOST): _S.STALE,
    (_S.UNKNOWN, Move.GONE): _S.STOPPED,
    # The way out for a person who knows more than we can see; nobody else acts on what is unknown.
    (_S.UNKNOWN, Move.STOP): _S.STOPPING,
}
"""Whatever is not here leaves the state as it is; an order that is not here is refused."""


def after(state: AgentState, move: Move) -> AgentState:
    return MOVES.get((state, move), state)


def accepts(state: AgentState, order: Move) -> bool:
    """Whether an order may be given in this state."""
    return (state, order) in MOVES


class AgentChange(Struct, frozen=True):
    """The feed's other message: what an agent of the hub was, what it is, why, since when, and its record."""

    id: str
    old_state: AgentState | None
    state: AgentState
    reason: str
    at: str
    record: AgentRecord
