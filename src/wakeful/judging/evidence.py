"""Identity of a session, and evidence about it outside its log: processes, panes, client status.

These are readings, not conclusions; the liveness levels are defined here. A probe that failed says `unknown`;
only an identified process that has ended is `dead`.
"""

from enum import StrEnum
from operator import attrgetter
from typing import Final

from msgspec import Struct, field
from msgspec.structs import replace

from wakeful.core.clock import Instant, Sleep
from wakeful.core.ids import ConversationId, SessionId
from wakeful.core.process import Process, ProcessState


class LivenessLevel(StrEnum):
    """From the host up. A verdict names the deepest one alive and the first one that is not."""

    HOST = "host"
    RUNTIME = "runtime"
    CONTAINER = "container"
    TMUX_SESSION = "tmux_session"
    PANE_PROCESS = "pane_process"
    AGENT_PROCESS = "agent_process"
    TURN = "turn"
    TOOL = "tool"
    PROGRESS = "progress"


class ClientStatus(StrEnum):
    BUSY = "busy"
    IDLE = "idle"
    WAITING = "waiting"


class DialogKind(StrEnum):
    """The dialogs of clients that block prompts, as text for people."""

    TRUST = "folder trust"
    BYPASS = "bypass-permissions warning"
    LOGIN = "login"
    THEME = "theme"
    API_KEY = "API key"
    MCP_SERVER = "new MCP server"
    SECURITY_NOTES = "security notes"
    UPDATE = "update"
    # Neither an input line nor any of the above: the reason of the client's wait is unknown.
    UNKNOWN = "unknown screen"


class Dialog(Struct, frozen=True, gc=False):
    """A dialog on the screen of the client `process` that blocks prompts. `words` is the text on the screen."""

    kind: DialogKind
    words: str
    since: Instant
    process: Process


# A conversation has one owner; a few stored processes are enough to detect twins and past deaths.
PROCESSES_MAX: Final = 8
_seen_at: Final = attrgetter("seen_at")


class Pane(Struct, frozen=True, gc=False):
    socket: str
    session: str
    target: str
    process: Process
    sight: ProcessState
    runtime: ProcessState
    server: Process | None = None


class AgentProcess(Struct, gc=False):
    """A process that runs the conversation, according to a registry file, a writer lock or the log itself."""

    process: Process
    sight: ProcessState
    seen_at: Instant
    source: str
    ended_at: Instant | None = None
    status: ClientStatus | None = None
    status_at: Instant | None = None
    waiting_for: str | None = None
    # Its last status before it ended was idle.
    ended_idle: bool = False
    # The pane of the session when this process came: that of an earlier process.
    pane_before: Pane | None = None


def dead_pane(pane: Pane) -> Pane:
    """The same pane, after its server ended."""
    return replace(pane, sight=ProcessState.DEAD, runtime=ProcessState.DEAD)


class Orphan(Struct, frozen=True, gc=False):
    """A tool that outlived its agent."""

    process: Process
    command: str


class Elsewhere(Struct, frozen=True, gc=False):
    """Another machine on this store, by its name, manages the session or runs its agent; known since then."""

    host: str
    since: Instant


class RuntimeState(Struct, gc=False):
    """All evidence about one session outside its log; only the sources write it."""

    holders: dict[int, AgentProcess] = field(default_factory=dict)
    pane: Pane | None = None
    dialog: Dialog | None = None
    orphans: tuple[Orphan, ...] = ()
    tool_seen_at: Instant | None = None
    grown_at: Instant | None = None
    # The newest line of its log that no known process can have written: they had ended before.
    written_after_at: Instant | None = None
    vouched: bool = False
    # It ended on purpose: earlier problems do not matter once its agent is gone.
    stopped: bool = False
    # The chat gateway ended it, not a person.
    by_gateway: bool = False
    # Wakeful ended its newest process in its turn, to free memory or processor time; the turn is to continue.
    ended_by_wakeful: bool = False
    # Wakeful ended it, not a person: its work goes on in this conversation.
    heir: SessionId | None = None
    cwd: str | None = None
    elsewhere: Elsewhere | None = None
    # The host's last sleep: a session without progress since has only just woken up.
    slept: Sleep | None = None

    @property
    def agent_state(self) -> ProcessState:
        """Alive if any process is; dead only if processes are known and all have ended; else unknown."""
        states = {process.sight for process in self.holders.values()}
        if ProcessState.ALIVE in states:
            return ProcessState.ALIVE
        return ProcessState.DEAD if states == {ProcessState.DEAD} else ProcessState.UNKNOWN

    @property
    def other_machine(self) -> Elsewhere | None:
        """The machine to ask about it. A process that lives here is better evidence than what another machine stored."""
        if self.elsewhere is None or self.agent_state is ProcessState.ALIVE:
            return None
        return self.elsewhere

    @property
    def ran_in_container(self) -> bool:
        """Whether one of its processes ran in a container: its folders are not on this host."""
        return any(process.process.is_foreign for process in self.holders.values())

    @property
    def living_processes(self) -> list[AgentProcess]:
        return [process for process in self.holders.values() if process.sight is ProcessState.ALIVE]

    @property
    def newest_process(self) -> AgentProcess | None:
        """The relevant process: the live one, else the one that was seen last.

        Of two live ones it is the one that reports a status: a failing resume never does.
        """
        if len(self.holders) <= 1:  # nearly always, and used several times per verdict
            return next(iter(self.holders.values()), None)
        living = self.living_processes
        with_status = [process for process in living if process.status is not None]
        return max(with_status or living or self.holders.values(), key=_seen_at)


STOPPED_BY_PERSON: Final = "a person stopped it"
STOPPED_BY_GATEWAY: Final = "the chat gateway stopped it"


def stop_reason(heir: SessionId | None, *, by_gateway: bool = False) -> str:
    """Why a session ended on purpose: another conversation replaced it, or the chat gateway or a person stopped it."""
    if heir is not None:
        return f"its work continues in {heir}"
    return STOPPED_BY_GATEWAY if by_gateway else STOPPED_BY_PERSON


def why_final(heir: SessionId | None, *, by_gateway: bool = False) -> str:
    """The reason as a refusal to resume it. A session that the gateway stopped resumes with a chat message."""
    reason = stop_reason(heir, by_gateway=by_gateway)
    return reason if reason == STOPPED_BY_GATEWAY else f"{reason}, which is final"


# A process writes its last lines up to 0.4 s before its exit is reported; two clock readings differ by less.
LAST_LINES_SECONDS: Final = 2.0


def note_late_write(runtime: RuntimeState, newest: Instant, *, live: bool) -> None:
    """Record a line that was written after every known process of the session had ended, so by another process.

    The end time of a process that was found dead is unknown; only a line that arrives now is newer than that.
    """
    if runtime.agent_state is not ProcessState.DEAD:
        return
    for process in runtime.holders.values():
        ended_at = process.ended_at or (process.seen_at if live else None)
        if ended_at is None or newest.seconds_since(ended_at) <= LAST_LINES_SECONDS:
            return
    runtime.written_after_at = newest


def remember_process(runtime: RuntimeState, process: AgentProcess) -> bool:
    """Record a process of the conversation; True if it is new. A pid with another start time is another process.

    While a process lives, another one with its pid has ended before it, or never was: it changes nothing.
    """
    known = runtime.holders.get(process.process.pid)
    is_new = known is None or known.process != process.process
    if (
        known is not None
        and is_new
        and (known.sight, process.sight) == (ProcessState.ALIVE, ProcessState.DEAD)
    ):
        return False
    if known is not None and not is_new:
        # A restored process may follow its own report, which knows less of its end.
        process.seen_at, process.ended_at = known.seen_at, known.ended_at or process.ended_at
        process.ended_idle = known.ended_idle or process.ended_idle
        process.pane_before = known.pane_before or process.pane_before
    else:
        process.pane_before = process.pane_before or runtime.pane
    runtime.holders[process.process.pid] = process
    if process.sight is ProcessState.ALIVE:
        runtime.written_after_at = None
    if len(runtime.holders) > PROCESSES_MAX:
        ended = [pid for pid, each in runtime.holders.items() if each.sight is ProcessState.DEAD]
        for pid in ended[: len(runtime.holders) - PROCESSES_MAX]:
            del runtime.holders[pid]
    return is_new


# A client that resumes a conversation registers and reports its status within 1 s; on a busy machine later.
STARTING_SECONDS: Final = 10.0


def is_starting(runtime: RuntimeState, last_at: Instant | None, now: Instant) -> bool:
    """Whether the newest process has just started, has written nothing and reports no status."""
    newest = runtime.newest_process
    if newest is None or newest.sight is not ProcessState.ALIVE or newest.status is not None:
        return False
    return now.seconds_since(newest.seen_at) < STARTING_SECONDS and has_written_nothing_yet(runtime, last_at)


def has_written_nothing_yet(runtime: RuntimeState, last_at: Instant | None) -> bool:
    """Whether the newest process wrote nothing since the previous one ended: a resume that has not begun, or failed.

    A process that ended after the newest one started does not count. `last_at`: the newest record of the log.
    """
    newest = runtime.newest_process
    if newest is None:
        return False
    others = [
        each for each in runtime.holders.values() if each is not newest and each.sight is ProcessState.DEAD
    ]
    ends = [end for each in others if (end := each.ended_at or each.seen_at) <= newest.seen_at]
    return bool(ends) and (last_at is None or last_at < max(ends))


STREAM: Final = "stream"
"""The source name for the output stream of a managed client, whose lines have no time."""


class SessionIdentity(Struct, frozen=True, gc=False):
    id: SessionId
    provider: str
    host: str
    source: str
    conversation_id: ConversationId | None = None
    project: str = ""
    agent: str | None = None
    attempt: int = 0
    # It has its own ManagedSession. The record also calls sessions that a hub agent hosts managed.
    managed: bool = False
    # It counts as alive until its log says that it closed. Only where no process can be known.
    vouched: bool = False
    # Its name, chosen by a person, and an action whose end is unknown.
    name: str | None = None
    note: str = ""
    # The client's folder of its log, if the client finds the conversation only from the directory where it began.
    folder: str = ""
    # Its client has no conversation yet: this entry is for the next one, and disappears when that begins.
    awaited: bool = False

    @property
    def is_managed(self) -> bool:
        """Whether Wakeful may act on it: the session itself is managed, or a hub agent hosts it."""
        return self.managed or self.agent is not None
