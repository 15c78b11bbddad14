"""Identity of a session, and evidence about it outside its log: processes, panes, client status.

These are readings, not conclusions; the liveness levels are defined here. A probe that failed says `unknown`;
only an identified process that is gone is `dead`.
"""

from enum import StrEnum
from operator import attrgetter
from typing import Final

from msgspec import Struct, field
from msgspec.structs import replace

from wakeful.core.clock import Instant, Sleep
from wakeful.core.ids import ConversationId, SessionId
from wakeful.core.process import Process, Sight


class Rung(StrEnum):
    """From the ground up. A verdict names the deepest one seen alive and the first one that is not."""

    HOST = "host"
    RUNTIME = "runtime"
    CONTAINER = "container"
    TMUX_SESSION = "tmux_session"
    PANE_PROCESS = "pane_process"
    AGENT_PROCESS = "agent_process"
    TURN = "turn"
    TOOL = "tool"
    PROGRESS = "progress"


class Status(StrEnum):
    """What the client itself says it is doing, where it says so."""

    BUSY = "busy"
    IDLE = "idle"
    WAITING = "waiting"


class DialogKind(StrEnum):
    """What a client asks a person before it takes a prompt, in words for people."""

    TRUST = "folder trust"
    BYPASS = "bypass-permissions warning"
    LOGIN = "login"
    THEME = "theme"
    API_KEY = "API key"
    MCP_SERVER = "new MCP server"
    SECURITY_NOTES = "security notes"
    UPDATE = "update"
    # Neither an input line nor any of the above: nobody can say what it waits for.
    UNKNOWN = "unknown screen"


class Dialog(Struct, frozen=True, gc=False):
    """A dialog on the screen of the client `process` that no prompt gets past. `words` are the screen's own."""

    kind: DialogKind
    words: str
    since: Instant
    process: Process


# A conversation has one owner; a handful of remembered holders is enough to see twins and past deaths.
HOLDERS_MAX: Final = 8
_seen_at: Final = attrgetter("seen_at")


class Holder(Struct, gc=False):
    """A process that holds the conversation, by the word of a registry file, a writer lock or the log itself."""

    process: Process
    sight: Sight
    seen_at: Instant
    source: str
    ended_at: Instant | None = None
    status: Status | None = None
    status_at: Instant | None = None
    waiting_for: str | None = None
    # What it said of itself last, before it ended: nobody asked it anything.
    ended_idle: bool = False


class Pane(Struct, frozen=True, gc=False):
    """The tmux pane that shows the session."""

    socket: str
    session: str
    target: str
    process: Process
    sight: Sight
    runtime: Sight
    server: Process | None = None


def gone_with_server(pane: Pane) -> Pane:
    """The same pane, after whoever showed it ended."""
    return replace(pane, sight=Sight.DEAD, runtime=Sight.DEAD)


class Orphan(Struct, frozen=True, gc=False):
    """A tool that outlived its agent."""

    process: Process
    command: str


class Presence(Struct, gc=False):
    """Everything seen of one session outside its log; written by the eyes only."""

    holders: dict[int, Holder] = field(default_factory=dict)
    pane: Pane | None = None
    dialog: Dialog | None = None
    orphans: tuple[Orphan, ...] = ()
    tool_seen_at: Instant | None = None
    grown_at: Instant | None = None
    # The newest line of its log that none of its known processes can have written: they had ended before.
    written_after_at: Instant | None = None
    vouched: bool = False
    # It ended on purpose: whatever went before is nobody's trouble once its agent is gone.
    stopped: bool = False
    # Not a person, but the chat gateway ended it.
    by_gateway: bool = False
    # Not a person, but Wakeful ended it: its work goes on in this conversation.
    heir: SessionId | None = None
    cwd: str | None = None
    # The host's last sleep: whoever made no progress since has only just woken up.
    slept: Sleep | None = None

    @property
    def agent(self) -> Sight:
        """Alive if any holder is; dead only if one is known and gone; else unknown."""
        if not self.holders:
            return Sight.UNKNOWN
        sights = {holder.sight for holder in self.holders.values()}
        for answer in (Sight.ALIVE, Sight.UNKNOWN, Sight.DEAD):
            if answer in sights:
                return answer
        return Sight.UNKNOWN

    @property
    def is_elsewhere(self) -> bool:
        """Whether a process of it ran in a container: its folders are not those of this host."""
        return any(holder.process.is_elsewhere for holder in self.holders.values())

    @property
    def living(self) -> list[Holder]:
        return [holder for holder in self.holders.values() if holder.sight is Sight.ALIVE]

    @property
    def newest(self) -> Holder | None:
        """The holder to speak of: the living one, else the one that was seen last.

        Of two living ones it is the one that says what it does: a resume that fails never does.
        """
        if len(self.holders) <= 1:  # nearly always, and asked for several times per verdict
            return next(iter(self.holders.values()), None)
        living = self.living
        saying = [holder for holder in living if holder.status is not None]
        return max(saying or living or self.holders.values(), key=_seen_at)


STOPPED_BY_PERSON: Final = "a person stopped it"


STOPPED_BY_GATEWAY: Final = "the chat gateway stopped it"


def ended_by(heir: SessionId | None, *, by_gateway: bool = False) -> str:
    """Who ended what ended on purpose: Wakeful, for the conversation in its place, the chat gateway, or a person."""
    if heir is not None:
        return f"its work goes on in {heir}"
    return STOPPED_BY_GATEWAY if by_gateway else STOPPED_BY_PERSON


def why_final(heir: SessionId | None, *, by_gateway: bool = False) -> str:
    """The same, as a reason not to bring it back. What the gateway stopped comes back with a message there."""
    words = ended_by(heir, by_gateway=by_gateway)
    return words if words == STOPPED_BY_GATEWAY else f"{words}, which is final"


# A process writes its last lines up to 0.4 s before its end is told; a clock read twice differs by less.
LAST_LINES_SECONDS: Final = 2.0


def note_writer(presence: Presence, newest: Instant, *, live: bool) -> None:
    """Remember a line that was written after every known process of the session had ended: somebody else lives.

    When a process ended that was found dead is not known; only a line that comes in now is newer than that.
    """
    if presence.agent is not Sight.DEAD:
        return
    for holder in presence.holders.values():
        ended_at = holder.ended_at or (holder.seen_at if live else None)
        if ended_at is None or newest.seconds_since(ended_at) <= LAST_LINES_SECONDS:
            return
    presence.written_after_at = newest


def hold(presence: Presence, holder: Holder) -> bool:
    """Remember a holder; True if it is new. A pid that came back with another start time is another process."""
    known = presence.holders.get(holder.process.pid)
    is_new = known is None or known.process != holder.process
    if known is not None and not is_new:
        holder.seen_at, holder.ended_at = known.seen_at, known.ended_at
        holder.ended_idle = known.ended_idle
    presence.holders[holder.process.pid] = holder
    if holder.sight is Sight.ALIVE:
        presence.written_after_at = None
    if len(presence.holders) > HOLDERS_MAX:
        gone = [pid for pid, each in presence.holders.items() if each.sight is Sight.DEAD]
        for pid in gone[: len(presence.holders) - HOLDERS_MAX]:
            del presence.holders[pid]
    return is_new


# A client that resumes a conversation registers and says what it does within 1 s; a busy machine takes longer.
COMING_UP_SECONDS: Final = 10.0


def is_coming_up(presence: Presence, last_at: Instant | None, now: Instant) -> bool:
    """Whether the newest holder was just started and has neither written nor said what it does."""
    newest = presence.newest
    if newest is None or newest.sight is not Sight.ALIVE or newest.status is not None:
        return False
    return now.seconds_since(newest.seen_at) < COMING_UP_SECONDS and has_only_come_up(presence, last_at)


def has_only_come_up(presence: Presence, last_at: Instant | None) -> bool:
    """Whether the newest holder wrote nothing since the one before it ended: a resume that has yet to begin, or failed.

    One that ended while the newest was there already does not count. `last_at`: the newest record of the log.
    """
    newest = presence.newest
    if newest is None:
        return False
    others = [each for each in presence.holders.values() if each is not newest and each.sight is Sight.DEAD]
    ends = [end for each in others if (end := each.ended_at or each.seen_at) <= newest.seen_at]
    return bool(ends) and (last_at is None or last_at < max(ends))


STREAM: Final = "stream"
"""The source of what a driven client says on its own stream, whose lines carry no time."""


class Subject(Struct, frozen=True, gc=False):
    """Who a session is, apart from how it is."""

    id: SessionId
    provider: str
    host: str
    source: str
    conversation_id: ConversationId | None = None
    project: str = ""
    agent: str | None = None
    attempt: int = 0
    # Held by itself, with a hosting of its own. The record calls what an agent of the hub hosts managed, too.
    managed: bool = False
    # Its log is its own word: alive until it says that it closed. Only where no process can be known.
    vouched: bool = False
    # What a person called it, and what Wakeful did not see the end of.
    name: str | None = None
    note: str = ""
    # The client's own folder that its log is in, where the conversation is found only from the place it was begun in.
    folder: str = ""
    # Its client has begun no conversation yet: it stands for the one to come, and goes when that begins.
    awaited: bool = False

    @property
    def ours(self) -> bool:
        """Whether Wakeful started it or was given it: the session itself, or the agent of the hub that hosts it."""
        return self.managed or self.agent is not None
